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
    <script type="module" crossorigin src="./assets/index-B03MG9qp.js"></script>
    <link rel="modulepreload" crossorigin href="./assets/index-BStWOyPn.js">
    <link rel="modulepreload" crossorigin href="./assets/useQuery-CDndx0lo.js">
    <link rel="modulepreload" crossorigin href="./assets/useMutation--IIplWTq.js">
    <link rel="modulepreload" crossorigin href="./assets/link-BJTM4ltS.js">
    <link rel="modulepreload" crossorigin href="./assets/useNavigate-ByautQXT.js">
    <link rel="modulepreload" crossorigin href="./assets/session-CSNlthA_.js">
    <link rel="modulepreload" crossorigin href="./assets/s3-85B5FhFw.js">
    <link rel="modulepreload" crossorigin href="./assets/uploads-01ZFQKYL.js">
    <link rel="modulepreload" crossorigin href="./assets/router-7i4xO4Xx.js">
    <link rel="stylesheet" crossorigin href="./assets/index-B_BP3QIa.css">
  </head>
  <body>
    <div id="root"></div>
    <noscript>The Ashlar console needs JavaScript. The command line does not: ashlar --help</noscript>
  </body>
</html>
"##;

/// The files that it names, by name.
pub(crate) static FILES: &[Asset] = &[
    Asset { name: "browse-DskYiYM_.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/browse-DskYiYM_.js.gz") },
    Asset { name: "bucket-MsAFA_BL.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/bucket-MsAFA_BL.js.gz") },
    Asset { name: "buckets-CJgHg6-4.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/buckets-CJgHg6-4.js.gz") },
    Asset { name: "connect-CixDbBvd.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/connect-CixDbBvd.js.gz") },
    Asset { name: "de-DMZTIUog.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/de-DMZTIUog.js.gz") },
    Asset { name: "drives-B9gFVqeV.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/drives-B9gFVqeV.js.gz") },
    Asset { name: "en-r-L1-Yds.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/en-r-L1-Yds.js.gz") },
    Asset { name: "encryption-Dyo7nFjD.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/encryption-Dyo7nFjD.js.gz") },
    Asset { name: "format-CxSpTu9w.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/format-CxSpTu9w.js.gz") },
    Asset { name: "groups-COmzIe7b.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/groups-COmzIe7b.js.gz") },
    Asset { name: "history-BMDPp14N.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/history-BMDPp14N.js.gz") },
    Asset { name: "icon-B-LCDp6q.svg", kind: "image/svg+xml", gzip: include_bytes!("../assets/icon-B-LCDp6q.svg.gz") },
    Asset { name: "index-B03MG9qp.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-B03MG9qp.js.gz") },
    Asset { name: "index-BStWOyPn.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-BStWOyPn.js.gz") },
    Asset { name: "index-B_BP3QIa.css", kind: "text/css; charset=utf-8", gzip: include_bytes!("../assets/index-B_BP3QIa.css.gz") },
    Asset { name: "index-C5Jdhf8l.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-C5Jdhf8l.js.gz") },
    Asset { name: "inter-DfAjpf66.woff2", kind: "font/woff2", gzip: include_bytes!("../assets/inter-DfAjpf66.woff2.gz") },
    Asset { name: "json-D_eNtuY5.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/json-D_eNtuY5.js.gz") },
    Asset { name: "keys-35YhnKl5.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/keys-35YhnKl5.js.gz") },
    Asset { name: "licences.txt", kind: "text/plain; charset=utf-8", gzip: include_bytes!("../assets/licences.txt.gz") },
    Asset { name: "link-BJTM4ltS.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/link-BJTM4ltS.js.gz") },
    Asset { name: "logs-Dzk0CqFM.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/logs-Dzk0CqFM.js.gz") },
    Asset { name: "menu-DlnLunln.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/menu-DlnLunln.js.gz") },
    Asset { name: "object-CccI1NXv.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/object-CccI1NXv.js.gz") },
    Asset { name: "overview-BUrWIZve.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/overview-BUrWIZve.js.gz") },
    Asset { name: "policies-Dc1qpyds.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/policies-Dc1qpyds.js.gz") },
    Asset { name: "providers-DqgSR5kt.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/providers-DqgSR5kt.js.gz") },
    Asset { name: "router-7i4xO4Xx.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/router-7i4xO4Xx.js.gz") },
    Asset { name: "s3-85B5FhFw.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/s3-85B5FhFw.js.gz") },
    Asset { name: "session-CSNlthA_.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/session-CSNlthA_.js.gz") },
    Asset { name: "stream-CoStSUqy.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/stream-CoStSUqy.js.gz") },
    Asset { name: "table-tZoeX39Y.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/table-tZoeX39Y.js.gz") },
    Asset { name: "tags-Bo5jUzp_.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/tags-Bo5jUzp_.js.gz") },
    Asset { name: "targets-D2scUY-J.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/targets-D2scUY-J.js.gz") },
    Asset { name: "trace-tSQG3bUC.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/trace-tSQG3bUC.js.gz") },
    Asset { name: "uploads-01ZFQKYL.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/uploads-01ZFQKYL.js.gz") },
    Asset { name: "uploads-C-2HYtGY.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/uploads-C-2HYtGY.js.gz") },
    Asset { name: "useMutation--IIplWTq.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useMutation--IIplWTq.js.gz") },
    Asset { name: "useNavigate-ByautQXT.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useNavigate-ByautQXT.js.gz") },
    Asset { name: "useQuery-CDndx0lo.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useQuery-CDndx0lo.js.gz") },
    Asset { name: "users-Y-V1rG0-.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/users-Y-V1rG0-.js.gz") },
    Asset { name: "why-BeXyieGX.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/why-BeXyieGX.js.gz") },
];
