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
    <script type="module" crossorigin src="./assets/index-DZBuRwdh.js"></script>
    <link rel="modulepreload" crossorigin href="./assets/index-8lsODz5K.js">
    <link rel="modulepreload" crossorigin href="./assets/useQuery-BfXA0FGd.js">
    <link rel="modulepreload" crossorigin href="./assets/useMutation-Dky-c9i5.js">
    <link rel="modulepreload" crossorigin href="./assets/link-DiAEPons.js">
    <link rel="modulepreload" crossorigin href="./assets/useNavigate-NVGlTaV_.js">
    <link rel="modulepreload" crossorigin href="./assets/session-Bc0oMO60.js">
    <link rel="modulepreload" crossorigin href="./assets/s3-BBI9bE9N.js">
    <link rel="modulepreload" crossorigin href="./assets/uploads-DCuK2Lvc.js">
    <link rel="modulepreload" crossorigin href="./assets/router-BmjwVbt_.js">
    <link rel="stylesheet" crossorigin href="./assets/index-JyrVutKF.css">
  </head>
  <body>
    <div id="root"></div>
    <noscript>The Ashlar console needs JavaScript. The command line does not: ashlar --help</noscript>
  </body>
</html>
"##;

/// The files that it names, by name.
pub(crate) static FILES: &[Asset] = &[
    Asset { name: "audit-CQ5LgAqt.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/audit-CQ5LgAqt.js.gz") },
    Asset { name: "browse-CEzwi_N_.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/browse-CEzwi_N_.js.gz") },
    Asset { name: "bucket-DZh4xABF.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/bucket-DZh4xABF.js.gz") },
    Asset { name: "buckets-30ETCNHp.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/buckets-30ETCNHp.js.gz") },
    Asset { name: "connect-BbWzN5cF.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/connect-BbWzN5cF.js.gz") },
    Asset { name: "de-C6nHh79l.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/de-C6nHh79l.js.gz") },
    Asset { name: "drives-DfpCjJNi.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/drives-DfpCjJNi.js.gz") },
    Asset { name: "en-CT5voiD5.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/en-CT5voiD5.js.gz") },
    Asset { name: "encryption-C707yIxH.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/encryption-C707yIxH.js.gz") },
    Asset { name: "format-CWuMAJaH.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/format-CWuMAJaH.js.gz") },
    Asset { name: "groups-CsRRtmgh.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/groups-CsRRtmgh.js.gz") },
    Asset { name: "history-2fsZgF_F.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/history-2fsZgF_F.js.gz") },
    Asset { name: "icon-B-LCDp6q.svg", kind: "image/svg+xml", gzip: include_bytes!("../assets/icon-B-LCDp6q.svg.gz") },
    Asset { name: "index-8lsODz5K.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-8lsODz5K.js.gz") },
    Asset { name: "index-ComRmKlo.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-ComRmKlo.js.gz") },
    Asset { name: "index-DZBuRwdh.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-DZBuRwdh.js.gz") },
    Asset { name: "index-JyrVutKF.css", kind: "text/css; charset=utf-8", gzip: include_bytes!("../assets/index-JyrVutKF.css.gz") },
    Asset { name: "inter-DfAjpf66.woff2", kind: "font/woff2", gzip: include_bytes!("../assets/inter-DfAjpf66.woff2.gz") },
    Asset { name: "json-C36B0R6S.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/json-C36B0R6S.js.gz") },
    Asset { name: "keys-BdPKkzNk.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/keys-BdPKkzNk.js.gz") },
    Asset { name: "licences.txt", kind: "text/plain; charset=utf-8", gzip: include_bytes!("../assets/licences.txt.gz") },
    Asset { name: "link-DiAEPons.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/link-DiAEPons.js.gz") },
    Asset { name: "logs-8T4YRm5t.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/logs-8T4YRm5t.js.gz") },
    Asset { name: "menu-usLpRJqj.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/menu-usLpRJqj.js.gz") },
    Asset { name: "object-DtHiIn-C.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/object-DtHiIn-C.js.gz") },
    Asset { name: "overview-UD4jSIrr.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/overview-UD4jSIrr.js.gz") },
    Asset { name: "placement-B7J7-2UK.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/placement-B7J7-2UK.js.gz") },
    Asset { name: "policies-iE_ZZPhz.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/policies-iE_ZZPhz.js.gz") },
    Asset { name: "providers-DpQAjot2.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/providers-DpQAjot2.js.gz") },
    Asset { name: "router-BmjwVbt_.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/router-BmjwVbt_.js.gz") },
    Asset { name: "s3-BBI9bE9N.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/s3-BBI9bE9N.js.gz") },
    Asset { name: "session-Bc0oMO60.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/session-Bc0oMO60.js.gz") },
    Asset { name: "settings-BT_7fIAP.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/settings-BT_7fIAP.js.gz") },
    Asset { name: "stream-ByV841WF.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/stream-ByV841WF.js.gz") },
    Asset { name: "table-UNJIlL6c.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/table-UNJIlL6c.js.gz") },
    Asset { name: "tags-Dun0IppL.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/tags-Dun0IppL.js.gz") },
    Asset { name: "targets-BO4aJPDf.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/targets-BO4aJPDf.js.gz") },
    Asset { name: "trace-C3FuKvKW.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/trace-C3FuKvKW.js.gz") },
    Asset { name: "uploads-78cdbOcb.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/uploads-78cdbOcb.js.gz") },
    Asset { name: "uploads-DCuK2Lvc.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/uploads-DCuK2Lvc.js.gz") },
    Asset { name: "useInfiniteQuery-DEr3QjCt.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useInfiniteQuery-DEr3QjCt.js.gz") },
    Asset { name: "useMutation-Dky-c9i5.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useMutation-Dky-c9i5.js.gz") },
    Asset { name: "useNavigate-NVGlTaV_.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useNavigate-NVGlTaV_.js.gz") },
    Asset { name: "useQuery-BfXA0FGd.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useQuery-BfXA0FGd.js.gz") },
    Asset { name: "users-Aq-DiieK.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/users-Aq-DiieK.js.gz") },
    Asset { name: "why-hXF05y-5.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/why-hXF05y-5.js.gz") },
];
