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
    <script type="module" crossorigin src="./assets/index-BUgv8Ybo.js"></script>
    <link rel="modulepreload" crossorigin href="./assets/index-BAbCPGn0.js">
    <link rel="modulepreload" crossorigin href="./assets/useQuery-DY_ivoYX.js">
    <link rel="modulepreload" crossorigin href="./assets/useMutation-BuuMTDAk.js">
    <link rel="modulepreload" crossorigin href="./assets/link-BaxJ7787.js">
    <link rel="modulepreload" crossorigin href="./assets/useNavigate-Ce3c2tE2.js">
    <link rel="modulepreload" crossorigin href="./assets/session-EbxFS-KV.js">
    <link rel="modulepreload" crossorigin href="./assets/s3-DHR1s8nF.js">
    <link rel="modulepreload" crossorigin href="./assets/uploads-BuKXURsh.js">
    <link rel="modulepreload" crossorigin href="./assets/router-CibDaT97.js">
    <link rel="stylesheet" crossorigin href="./assets/index-DVZrTZzF.css">
  </head>
  <body>
    <div id="root"></div>
    <noscript>The Ashlar console needs JavaScript. The command line does not: ashlar --help</noscript>
  </body>
</html>
"##;

/// The files that it names, by name.
pub(crate) static FILES: &[Asset] = &[
    Asset { name: "audit-CM-bec2I.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/audit-CM-bec2I.js.gz") },
    Asset { name: "browse-Dz_JRYMV.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/browse-Dz_JRYMV.js.gz") },
    Asset { name: "bucket-BZUH9tpp.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/bucket-BZUH9tpp.js.gz") },
    Asset { name: "buckets-CmG46aje.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/buckets-CmG46aje.js.gz") },
    Asset { name: "connect-I2prgo3P.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/connect-I2prgo3P.js.gz") },
    Asset { name: "de-CImylUgE.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/de-CImylUgE.js.gz") },
    Asset { name: "drives-B_4f1Sl_.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/drives-B_4f1Sl_.js.gz") },
    Asset { name: "en-Dsaq9oWu.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/en-Dsaq9oWu.js.gz") },
    Asset { name: "encryption-Cp-ozjkx.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/encryption-Cp-ozjkx.js.gz") },
    Asset { name: "format-BnSa-INH.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/format-BnSa-INH.js.gz") },
    Asset { name: "groups-D-Nd50yG.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/groups-D-Nd50yG.js.gz") },
    Asset { name: "history-CiGjbHFS.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/history-CiGjbHFS.js.gz") },
    Asset { name: "icon-B-LCDp6q.svg", kind: "image/svg+xml", gzip: include_bytes!("../assets/icon-B-LCDp6q.svg.gz") },
    Asset { name: "index-BAbCPGn0.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-BAbCPGn0.js.gz") },
    Asset { name: "index-BUgv8Ybo.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-BUgv8Ybo.js.gz") },
    Asset { name: "index-DVZrTZzF.css", kind: "text/css; charset=utf-8", gzip: include_bytes!("../assets/index-DVZrTZzF.css.gz") },
    Asset { name: "index-WhgLHRN7.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-WhgLHRN7.js.gz") },
    Asset { name: "inter-DfAjpf66.woff2", kind: "font/woff2", gzip: include_bytes!("../assets/inter-DfAjpf66.woff2.gz") },
    Asset { name: "json-DoYAZOIT.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/json-DoYAZOIT.js.gz") },
    Asset { name: "keys-BF4D3btC.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/keys-BF4D3btC.js.gz") },
    Asset { name: "licences.txt", kind: "text/plain; charset=utf-8", gzip: include_bytes!("../assets/licences.txt.gz") },
    Asset { name: "link-BaxJ7787.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/link-BaxJ7787.js.gz") },
    Asset { name: "logs-D_hRIRA4.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/logs-D_hRIRA4.js.gz") },
    Asset { name: "menu-BROPhPd0.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/menu-BROPhPd0.js.gz") },
    Asset { name: "object-DC_wKXkY.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/object-DC_wKXkY.js.gz") },
    Asset { name: "overview-ooBtDr5J.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/overview-ooBtDr5J.js.gz") },
    Asset { name: "placement-I7s-MgdX.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/placement-I7s-MgdX.js.gz") },
    Asset { name: "policies-CkCCuKu8.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/policies-CkCCuKu8.js.gz") },
    Asset { name: "providers-CFS9ZHC2.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/providers-CFS9ZHC2.js.gz") },
    Asset { name: "router-CibDaT97.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/router-CibDaT97.js.gz") },
    Asset { name: "s3-DHR1s8nF.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/s3-DHR1s8nF.js.gz") },
    Asset { name: "session-EbxFS-KV.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/session-EbxFS-KV.js.gz") },
    Asset { name: "settings-B6PYlOyh.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/settings-B6PYlOyh.js.gz") },
    Asset { name: "stream-CJRls1H3.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/stream-CJRls1H3.js.gz") },
    Asset { name: "table-C8GKojQk.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/table-C8GKojQk.js.gz") },
    Asset { name: "tags-CwoVVpY_.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/tags-CwoVVpY_.js.gz") },
    Asset { name: "targets-Ddz93SPp.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/targets-Ddz93SPp.js.gz") },
    Asset { name: "trace-CSDlh2h1.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/trace-CSDlh2h1.js.gz") },
    Asset { name: "uploads-BuKXURsh.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/uploads-BuKXURsh.js.gz") },
    Asset { name: "uploads-Cu7X55rd.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/uploads-Cu7X55rd.js.gz") },
    Asset { name: "useInfiniteQuery-CuSjuhb8.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useInfiniteQuery-CuSjuhb8.js.gz") },
    Asset { name: "useMutation-BuuMTDAk.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useMutation-BuuMTDAk.js.gz") },
    Asset { name: "useNavigate-Ce3c2tE2.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useNavigate-Ce3c2tE2.js.gz") },
    Asset { name: "useQuery-DY_ivoYX.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useQuery-DY_ivoYX.js.gz") },
    Asset { name: "users-vRGZJDCq.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/users-vRGZJDCq.js.gz") },
    Asset { name: "why-FVCgDwyh.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/why-FVCgDwyh.js.gz") },
];
