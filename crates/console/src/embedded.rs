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
    <script type="module" crossorigin src="./assets/index-CTkxIbFR.js"></script>
    <link rel="modulepreload" crossorigin href="./assets/index-CTmVJB4K.js">
    <link rel="modulepreload" crossorigin href="./assets/useQuery-cBFAZPdA.js">
    <link rel="modulepreload" crossorigin href="./assets/useMutation-DYi7GgQX.js">
    <link rel="modulepreload" crossorigin href="./assets/link-HvcEDeAp.js">
    <link rel="modulepreload" crossorigin href="./assets/useNavigate-CImYu4Uc.js">
    <link rel="modulepreload" crossorigin href="./assets/session-DjYXyUdp.js">
    <link rel="modulepreload" crossorigin href="./assets/s3-MPtS9RW3.js">
    <link rel="modulepreload" crossorigin href="./assets/uploads-BC6S8vIB.js">
    <link rel="modulepreload" crossorigin href="./assets/router-DAAdudyz.js">
    <link rel="stylesheet" crossorigin href="./assets/index-PLjVHSzm.css">
  </head>
  <body>
    <div id="root"></div>
    <noscript>The Ashlar console needs JavaScript. The command line does not: ashlar --help</noscript>
  </body>
</html>
"##;

/// The files that it names, by name.
pub(crate) static FILES: &[Asset] = &[
    Asset { name: "browse-BX1Gi9yD.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/browse-BX1Gi9yD.js.gz") },
    Asset { name: "bucket-DpFr42uS.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/bucket-DpFr42uS.js.gz") },
    Asset { name: "buckets-BX27W-y_.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/buckets-BX27W-y_.js.gz") },
    Asset { name: "connect-DKEKmcTr.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/connect-DKEKmcTr.js.gz") },
    Asset { name: "de-ZRcsSwOC.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/de-ZRcsSwOC.js.gz") },
    Asset { name: "drives-CNhbgk-3.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/drives-CNhbgk-3.js.gz") },
    Asset { name: "en-CIYtGJcP.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/en-CIYtGJcP.js.gz") },
    Asset { name: "format-iRc_AdXa.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/format-iRc_AdXa.js.gz") },
    Asset { name: "groups-ive1R4Nk.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/groups-ive1R4Nk.js.gz") },
    Asset { name: "icon-B-LCDp6q.svg", kind: "image/svg+xml", gzip: include_bytes!("../assets/icon-B-LCDp6q.svg.gz") },
    Asset { name: "index-CTkxIbFR.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-CTkxIbFR.js.gz") },
    Asset { name: "index-CTmVJB4K.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-CTmVJB4K.js.gz") },
    Asset { name: "index-PLjVHSzm.css", kind: "text/css; charset=utf-8", gzip: include_bytes!("../assets/index-PLjVHSzm.css.gz") },
    Asset { name: "inter-DfAjpf66.woff2", kind: "font/woff2", gzip: include_bytes!("../assets/inter-DfAjpf66.woff2.gz") },
    Asset { name: "json-DfaU3jB9.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/json-DfaU3jB9.js.gz") },
    Asset { name: "keys-BCek7ZXD.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/keys-BCek7ZXD.js.gz") },
    Asset { name: "licences.txt", kind: "text/plain; charset=utf-8", gzip: include_bytes!("../assets/licences.txt.gz") },
    Asset { name: "link-HvcEDeAp.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/link-HvcEDeAp.js.gz") },
    Asset { name: "menu-H08JW2q3.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/menu-H08JW2q3.js.gz") },
    Asset { name: "object-C0PB3OhV.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/object-C0PB3OhV.js.gz") },
    Asset { name: "overview-T2H833f5.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/overview-T2H833f5.js.gz") },
    Asset { name: "policies-CuopF5wJ.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/policies-CuopF5wJ.js.gz") },
    Asset { name: "rates-BgOVMSPq.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/rates-BgOVMSPq.js.gz") },
    Asset { name: "router-DAAdudyz.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/router-DAAdudyz.js.gz") },
    Asset { name: "s3-MPtS9RW3.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/s3-MPtS9RW3.js.gz") },
    Asset { name: "session-DjYXyUdp.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/session-DjYXyUdp.js.gz") },
    Asset { name: "table-DgJVO2zU.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/table-DgJVO2zU.js.gz") },
    Asset { name: "tags-CpIgNNKU.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/tags-CpIgNNKU.js.gz") },
    Asset { name: "uploads-BC6S8vIB.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/uploads-BC6S8vIB.js.gz") },
    Asset { name: "uploads-D17C80ex.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/uploads-D17C80ex.js.gz") },
    Asset { name: "useMutation-DYi7GgQX.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useMutation-DYi7GgQX.js.gz") },
    Asset { name: "useNavigate-CImYu4Uc.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useNavigate-CImYu4Uc.js.gz") },
    Asset { name: "useQuery-cBFAZPdA.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useQuery-cBFAZPdA.js.gz") },
    Asset { name: "users-DkCkuYdq.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/users-DkCkuYdq.js.gz") },
    Asset { name: "why-BnNZaQpX.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/why-BnNZaQpX.js.gz") },
];
