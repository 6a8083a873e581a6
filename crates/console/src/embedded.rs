//! The built files of the console: made by `npm run build` in the folder `console`, not edited by hand.
#![cfg_attr(rustfmt, rustfmt_skip)]

use crate::assets::Asset;

/// The page.
pub(crate) const PAGE: &str = r##"<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <meta name="nonce" content="@nonce@" />
    <meta name="color-scheme" content="light dark" />
    <title>Ashlar</title>
    <link rel="icon" type="image/svg+xml" href="./assets/icon-B-LCDp6q.svg" />
    <script type="module" crossorigin src="./assets/index-d13F2j_d.js"></script>
    <link rel="modulepreload" crossorigin href="./assets/index-CbOSB_NC.js">
    <link rel="modulepreload" crossorigin href="./assets/useQuery-E4qFtrlI.js">
    <link rel="modulepreload" crossorigin href="./assets/useMutation-hjl9wplu.js">
    <link rel="modulepreload" crossorigin href="./assets/link-uVVN49GT.js">
    <link rel="modulepreload" crossorigin href="./assets/useNavigate-Dhy_xEyA.js">
    <link rel="modulepreload" crossorigin href="./assets/session-BjkaogPe.js">
    <link rel="modulepreload" crossorigin href="./assets/s3-Dy7oGxOb.js">
    <link rel="modulepreload" crossorigin href="./assets/uploads-JkD3FxgP.js">
    <link rel="modulepreload" crossorigin href="./assets/router-CxSS2QUo.js">
    <link rel="stylesheet" crossorigin href="./assets/index-BFGszqbD.css">
  </head>
  <body>
    <div id="root"></div>
    <noscript>The Ashlar console needs JavaScript. The command line does not: ashlar --help</noscript>
  </body>
</html>
"##;

/// The files that it names, by name.
pub(crate) static FILES: &[Asset] = &[
    Asset { name: "audit-DoQkjOSo.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/audit-DoQkjOSo.js.gz") },
    Asset { name: "browse-GDkaHu42.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/browse-GDkaHu42.js.gz") },
    Asset { name: "bucket-DL684SIP.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/bucket-DL684SIP.js.gz") },
    Asset { name: "buckets-Y80QibNs.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/buckets-Y80QibNs.js.gz") },
    Asset { name: "connect-CvUhVjEw.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/connect-CvUhVjEw.js.gz") },
    Asset { name: "de-CfmZu0Ty.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/de-CfmZu0Ty.js.gz") },
    Asset { name: "drives-Bf-4178U.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/drives-Bf-4178U.js.gz") },
    Asset { name: "en-C1Qn-24D.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/en-C1Qn-24D.js.gz") },
    Asset { name: "encryption-CmvighMq.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/encryption-CmvighMq.js.gz") },
    Asset { name: "format-OHeKEg1S.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/format-OHeKEg1S.js.gz") },
    Asset { name: "groups-Yx6qZlmG.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/groups-Yx6qZlmG.js.gz") },
    Asset { name: "history-rN00K090.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/history-rN00K090.js.gz") },
    Asset { name: "icon-B-LCDp6q.svg", kind: "image/svg+xml", gzip: include_bytes!("../assets/icon-B-LCDp6q.svg.gz") },
    Asset { name: "index-BFGszqbD.css", kind: "text/css; charset=utf-8", gzip: include_bytes!("../assets/index-BFGszqbD.css.gz") },
    Asset { name: "index-CbOSB_NC.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-CbOSB_NC.js.gz") },
    Asset { name: "index-Dhe8gaL_.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-Dhe8gaL_.js.gz") },
    Asset { name: "index-d13F2j_d.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-d13F2j_d.js.gz") },
    Asset { name: "inter-DfAjpf66.woff2", kind: "font/woff2", gzip: include_bytes!("../assets/inter-DfAjpf66.woff2.gz") },
    Asset { name: "json-DZ4CGtpQ.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/json-DZ4CGtpQ.js.gz") },
    Asset { name: "keys-9RQvAz1o.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/keys-9RQvAz1o.js.gz") },
    Asset { name: "licences.txt", kind: "text/plain; charset=utf-8", gzip: include_bytes!("../assets/licences.txt.gz") },
    Asset { name: "link-uVVN49GT.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/link-uVVN49GT.js.gz") },
    Asset { name: "logs-C1yNpIka.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/logs-C1yNpIka.js.gz") },
    Asset { name: "menu-DfiqE_tN.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/menu-DfiqE_tN.js.gz") },
    Asset { name: "object-D2lv8fOU.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/object-D2lv8fOU.js.gz") },
    Asset { name: "overview-DXtliFLd.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/overview-DXtliFLd.js.gz") },
    Asset { name: "placement-DulQaYXE.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/placement-DulQaYXE.js.gz") },
    Asset { name: "policies-DQ-WXEnL.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/policies-DQ-WXEnL.js.gz") },
    Asset { name: "providers-Cc4r-UpR.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/providers-Cc4r-UpR.js.gz") },
    Asset { name: "router-CxSS2QUo.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/router-CxSS2QUo.js.gz") },
    Asset { name: "s3-Dy7oGxOb.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/s3-Dy7oGxOb.js.gz") },
    Asset { name: "session-BjkaogPe.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/session-BjkaogPe.js.gz") },
    Asset { name: "settings-DZNoRHue.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/settings-DZNoRHue.js.gz") },
    Asset { name: "stream-wki9ma4L.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/stream-wki9ma4L.js.gz") },
    Asset { name: "table-b_rVkgOq.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/table-b_rVkgOq.js.gz") },
    Asset { name: "tags-DuzSi7_l.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/tags-DuzSi7_l.js.gz") },
    Asset { name: "targets-CwmvObIK.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/targets-CwmvObIK.js.gz") },
    Asset { name: "trace-odI5twer.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/trace-odI5twer.js.gz") },
    Asset { name: "uploads-BDItNo-b.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/uploads-BDItNo-b.js.gz") },
    Asset { name: "uploads-JkD3FxgP.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/uploads-JkD3FxgP.js.gz") },
    Asset { name: "useInfiniteQuery-B2lzFack.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useInfiniteQuery-B2lzFack.js.gz") },
    Asset { name: "useMutation-hjl9wplu.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useMutation-hjl9wplu.js.gz") },
    Asset { name: "useNavigate-Dhy_xEyA.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useNavigate-Dhy_xEyA.js.gz") },
    Asset { name: "useQuery-E4qFtrlI.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useQuery-E4qFtrlI.js.gz") },
    Asset { name: "users-ghqeI96P.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/users-ghqeI96P.js.gz") },
    Asset { name: "why-CJjWa4tK.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/why-CJjWa4tK.js.gz") },
];
