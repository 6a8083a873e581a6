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
    <script type="module" crossorigin src="./assets/index-BHo3h6B_.js"></script>
    <link rel="modulepreload" crossorigin href="./assets/index-C1zIHULd.js">
    <link rel="modulepreload" crossorigin href="./assets/useQuery-BkMyrGJ_.js">
    <link rel="modulepreload" crossorigin href="./assets/useMutation-BmJU3eku.js">
    <link rel="modulepreload" crossorigin href="./assets/link-YROPNJxr.js">
    <link rel="modulepreload" crossorigin href="./assets/useNavigate-BpIXi0qM.js">
    <link rel="modulepreload" crossorigin href="./assets/session-CSj4Sajh.js">
    <link rel="modulepreload" crossorigin href="./assets/s3-D3-V8LM_.js">
    <link rel="modulepreload" crossorigin href="./assets/uploads-DPrs1ldP.js">
    <link rel="modulepreload" crossorigin href="./assets/router-CjqyBdvb.js">
    <link rel="stylesheet" crossorigin href="./assets/index-BDxzNjU3.css">
  </head>
  <body>
    <div id="root"></div>
    <noscript>The Ashlar console needs JavaScript. The command line does not: ashlar --help</noscript>
  </body>
</html>
"##;

/// The files that it names, by name.
pub(crate) static FILES: &[Asset] = &[
    Asset { name: "audit-SVE7fVNu.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/audit-SVE7fVNu.js.gz") },
    Asset { name: "browse-I97S4Vff.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/browse-I97S4Vff.js.gz") },
    Asset { name: "bucket-DvlbdT5K.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/bucket-DvlbdT5K.js.gz") },
    Asset { name: "buckets-B7XWnV80.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/buckets-B7XWnV80.js.gz") },
    Asset { name: "connect-DidcvtKf.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/connect-DidcvtKf.js.gz") },
    Asset { name: "de-C2LOpW6W.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/de-C2LOpW6W.js.gz") },
    Asset { name: "drives-CMYiKQXQ.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/drives-CMYiKQXQ.js.gz") },
    Asset { name: "en-CEurjulN.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/en-CEurjulN.js.gz") },
    Asset { name: "encryption-BwMOBFFp.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/encryption-BwMOBFFp.js.gz") },
    Asset { name: "format-Bbpe0f4o.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/format-Bbpe0f4o.js.gz") },
    Asset { name: "groups-TNO-l82W.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/groups-TNO-l82W.js.gz") },
    Asset { name: "history-CTOvM3a-.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/history-CTOvM3a-.js.gz") },
    Asset { name: "icon-B-LCDp6q.svg", kind: "image/svg+xml", gzip: include_bytes!("../assets/icon-B-LCDp6q.svg.gz") },
    Asset { name: "index-BDxzNjU3.css", kind: "text/css; charset=utf-8", gzip: include_bytes!("../assets/index-BDxzNjU3.css.gz") },
    Asset { name: "index-BHo3h6B_.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-BHo3h6B_.js.gz") },
    Asset { name: "index-C1zIHULd.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-C1zIHULd.js.gz") },
    Asset { name: "index-vm01KSRP.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-vm01KSRP.js.gz") },
    Asset { name: "inter-DfAjpf66.woff2", kind: "font/woff2", gzip: include_bytes!("../assets/inter-DfAjpf66.woff2.gz") },
    Asset { name: "json-rtTZ9Ahc.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/json-rtTZ9Ahc.js.gz") },
    Asset { name: "keys-D_SnjrW5.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/keys-D_SnjrW5.js.gz") },
    Asset { name: "licences.txt", kind: "text/plain; charset=utf-8", gzip: include_bytes!("../assets/licences.txt.gz") },
    Asset { name: "link-YROPNJxr.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/link-YROPNJxr.js.gz") },
    Asset { name: "logs-Dh6y6-XI.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/logs-Dh6y6-XI.js.gz") },
    Asset { name: "menu-DbjfujQR.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/menu-DbjfujQR.js.gz") },
    Asset { name: "object-CZgSxWS9.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/object-CZgSxWS9.js.gz") },
    Asset { name: "overview-BJcbwXkk.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/overview-BJcbwXkk.js.gz") },
    Asset { name: "policies-hlt0T4Qg.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/policies-hlt0T4Qg.js.gz") },
    Asset { name: "providers-BnM0A1ij.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/providers-BnM0A1ij.js.gz") },
    Asset { name: "router-CjqyBdvb.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/router-CjqyBdvb.js.gz") },
    Asset { name: "s3-D3-V8LM_.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/s3-D3-V8LM_.js.gz") },
    Asset { name: "session-CSj4Sajh.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/session-CSj4Sajh.js.gz") },
    Asset { name: "settings-vmZOPES0.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/settings-vmZOPES0.js.gz") },
    Asset { name: "stream-fG1cpd_d.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/stream-fG1cpd_d.js.gz") },
    Asset { name: "table-CFyTTkMJ.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/table-CFyTTkMJ.js.gz") },
    Asset { name: "tags-CT0C5dSG.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/tags-CT0C5dSG.js.gz") },
    Asset { name: "targets-D9Wa8dYo.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/targets-D9Wa8dYo.js.gz") },
    Asset { name: "trace-CS76jf-F.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/trace-CS76jf-F.js.gz") },
    Asset { name: "uploads-B5KLx4q4.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/uploads-B5KLx4q4.js.gz") },
    Asset { name: "uploads-DPrs1ldP.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/uploads-DPrs1ldP.js.gz") },
    Asset { name: "useInfiniteQuery-C7nDMp0w.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useInfiniteQuery-C7nDMp0w.js.gz") },
    Asset { name: "useMutation-BmJU3eku.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useMutation-BmJU3eku.js.gz") },
    Asset { name: "useNavigate-BpIXi0qM.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useNavigate-BpIXi0qM.js.gz") },
    Asset { name: "useQuery-BkMyrGJ_.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useQuery-BkMyrGJ_.js.gz") },
    Asset { name: "users-BySaIVxg.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/users-BySaIVxg.js.gz") },
    Asset { name: "why-DhldSTRF.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/why-DhldSTRF.js.gz") },
];
