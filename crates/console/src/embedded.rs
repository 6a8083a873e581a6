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
    <script type="module" crossorigin src="./assets/index-DvwI4bzf.js"></script>
    <link rel="modulepreload" crossorigin href="./assets/index-BDp35PUD.js">
    <link rel="modulepreload" crossorigin href="./assets/useQuery-B6zlAT0p.js">
    <link rel="modulepreload" crossorigin href="./assets/useMutation-CUszGW3M.js">
    <link rel="modulepreload" crossorigin href="./assets/link-D5IhTuKM.js">
    <link rel="modulepreload" crossorigin href="./assets/useNavigate-DuRBYfR3.js">
    <link rel="modulepreload" crossorigin href="./assets/session-CTrxneGg.js">
    <link rel="modulepreload" crossorigin href="./assets/s3-CHyWoWP7.js">
    <link rel="modulepreload" crossorigin href="./assets/uploads-fNZwse5f.js">
    <link rel="modulepreload" crossorigin href="./assets/router-Db2S0Q9M.js">
    <link rel="stylesheet" crossorigin href="./assets/index-Dnj2eJji.css">
  </head>
  <body>
    <div id="root"></div>
    <noscript>The Ashlar console needs JavaScript. The command line does not: ashlar --help</noscript>
  </body>
</html>
"##;

/// The files that it names, by name.
pub(crate) static FILES: &[Asset] = &[
    Asset { name: "browse-BjX2pMW8.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/browse-BjX2pMW8.js.gz") },
    Asset { name: "bucket-CT1nPDmW.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/bucket-CT1nPDmW.js.gz") },
    Asset { name: "buckets-Cuf3d7cX.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/buckets-Cuf3d7cX.js.gz") },
    Asset { name: "connect-B9tPklOS.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/connect-B9tPklOS.js.gz") },
    Asset { name: "de-BuHS_F09.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/de-BuHS_F09.js.gz") },
    Asset { name: "drives-CsXPM1q_.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/drives-CsXPM1q_.js.gz") },
    Asset { name: "en-GY_OS5DQ.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/en-GY_OS5DQ.js.gz") },
    Asset { name: "format-BaPcc9d1.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/format-BaPcc9d1.js.gz") },
    Asset { name: "groups-2FDWQki4.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/groups-2FDWQki4.js.gz") },
    Asset { name: "icon-B-LCDp6q.svg", kind: "image/svg+xml", gzip: include_bytes!("../assets/icon-B-LCDp6q.svg.gz") },
    Asset { name: "index-BDp35PUD.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-BDp35PUD.js.gz") },
    Asset { name: "index-Dnj2eJji.css", kind: "text/css; charset=utf-8", gzip: include_bytes!("../assets/index-Dnj2eJji.css.gz") },
    Asset { name: "index-DvwI4bzf.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-DvwI4bzf.js.gz") },
    Asset { name: "inter-DfAjpf66.woff2", kind: "font/woff2", gzip: include_bytes!("../assets/inter-DfAjpf66.woff2.gz") },
    Asset { name: "json-Dt_r0-dx.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/json-Dt_r0-dx.js.gz") },
    Asset { name: "keys-DeCmHT4v.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/keys-DeCmHT4v.js.gz") },
    Asset { name: "licences.txt", kind: "text/plain; charset=utf-8", gzip: include_bytes!("../assets/licences.txt.gz") },
    Asset { name: "link-D5IhTuKM.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/link-D5IhTuKM.js.gz") },
    Asset { name: "menu-__3V5nik.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/menu-__3V5nik.js.gz") },
    Asset { name: "object-fFu9NfiM.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/object-fFu9NfiM.js.gz") },
    Asset { name: "overview-Z-4AUKSQ.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/overview-Z-4AUKSQ.js.gz") },
    Asset { name: "policies-BLiA_Zkc.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/policies-BLiA_Zkc.js.gz") },
    Asset { name: "rates-BsVrxeL9.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/rates-BsVrxeL9.js.gz") },
    Asset { name: "router-Db2S0Q9M.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/router-Db2S0Q9M.js.gz") },
    Asset { name: "s3-CHyWoWP7.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/s3-CHyWoWP7.js.gz") },
    Asset { name: "session-CTrxneGg.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/session-CTrxneGg.js.gz") },
    Asset { name: "table-DvtaMW1x.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/table-DvtaMW1x.js.gz") },
    Asset { name: "tags-CU8ZWAvd.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/tags-CU8ZWAvd.js.gz") },
    Asset { name: "uploads-DnXT2qsL.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/uploads-DnXT2qsL.js.gz") },
    Asset { name: "uploads-fNZwse5f.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/uploads-fNZwse5f.js.gz") },
    Asset { name: "useMutation-CUszGW3M.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useMutation-CUszGW3M.js.gz") },
    Asset { name: "useNavigate-DuRBYfR3.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useNavigate-DuRBYfR3.js.gz") },
    Asset { name: "useQuery-B6zlAT0p.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useQuery-B6zlAT0p.js.gz") },
    Asset { name: "users-x2PFSvxU.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/users-x2PFSvxU.js.gz") },
    Asset { name: "why-eHC0uRq9.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/why-eHC0uRq9.js.gz") },
];
