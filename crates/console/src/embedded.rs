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
    <script type="module" crossorigin src="./assets/index-CqwAffy1.js"></script>
    <link rel="modulepreload" crossorigin href="./assets/index-CrA5RfNF.js">
    <link rel="modulepreload" crossorigin href="./assets/useQuery-CDh-kYBR.js">
    <link rel="modulepreload" crossorigin href="./assets/useMutation-B7Zm_HvC.js">
    <link rel="modulepreload" crossorigin href="./assets/link-D0nm6d7W.js">
    <link rel="modulepreload" crossorigin href="./assets/useNavigate-D6VA4Gbt.js">
    <link rel="modulepreload" crossorigin href="./assets/session-D4w_UJxj.js">
    <link rel="modulepreload" crossorigin href="./assets/s3-Ck1Qr7Du.js">
    <link rel="modulepreload" crossorigin href="./assets/uploads-B3i7Vwon.js">
    <link rel="modulepreload" crossorigin href="./assets/router-BDjRkluv.js">
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
    Asset { name: "browse-CMbhPWcN.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/browse-CMbhPWcN.js.gz") },
    Asset { name: "bucket-8-yJ76vz.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/bucket-8-yJ76vz.js.gz") },
    Asset { name: "buckets-6-oJexv0.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/buckets-6-oJexv0.js.gz") },
    Asset { name: "connect-DJiLRwyZ.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/connect-DJiLRwyZ.js.gz") },
    Asset { name: "de-BKOCl-A2.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/de-BKOCl-A2.js.gz") },
    Asset { name: "drives-CeHGL-Z7.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/drives-CeHGL-Z7.js.gz") },
    Asset { name: "en-DDXqr1ff.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/en-DDXqr1ff.js.gz") },
    Asset { name: "format-8b-HiLiI.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/format-8b-HiLiI.js.gz") },
    Asset { name: "groups-uhpZX9gz.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/groups-uhpZX9gz.js.gz") },
    Asset { name: "icon-B-LCDp6q.svg", kind: "image/svg+xml", gzip: include_bytes!("../assets/icon-B-LCDp6q.svg.gz") },
    Asset { name: "index-CqwAffy1.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-CqwAffy1.js.gz") },
    Asset { name: "index-CrA5RfNF.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-CrA5RfNF.js.gz") },
    Asset { name: "index-PLjVHSzm.css", kind: "text/css; charset=utf-8", gzip: include_bytes!("../assets/index-PLjVHSzm.css.gz") },
    Asset { name: "inter-DfAjpf66.woff2", kind: "font/woff2", gzip: include_bytes!("../assets/inter-DfAjpf66.woff2.gz") },
    Asset { name: "json-BDQ_AUrl.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/json-BDQ_AUrl.js.gz") },
    Asset { name: "keys-CoCrXfIe.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/keys-CoCrXfIe.js.gz") },
    Asset { name: "licences.txt", kind: "text/plain; charset=utf-8", gzip: include_bytes!("../assets/licences.txt.gz") },
    Asset { name: "link-D0nm6d7W.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/link-D0nm6d7W.js.gz") },
    Asset { name: "menu-2mWeV77t.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/menu-2mWeV77t.js.gz") },
    Asset { name: "object-tzEPJpzf.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/object-tzEPJpzf.js.gz") },
    Asset { name: "overview-Ce-4tseN.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/overview-Ce-4tseN.js.gz") },
    Asset { name: "policies-BvXGl3EE.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/policies-BvXGl3EE.js.gz") },
    Asset { name: "rates-BtQJ5TJL.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/rates-BtQJ5TJL.js.gz") },
    Asset { name: "router-BDjRkluv.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/router-BDjRkluv.js.gz") },
    Asset { name: "s3-Ck1Qr7Du.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/s3-Ck1Qr7Du.js.gz") },
    Asset { name: "session-D4w_UJxj.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/session-D4w_UJxj.js.gz") },
    Asset { name: "table-DoLela87.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/table-DoLela87.js.gz") },
    Asset { name: "tags-BBjshtuJ.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/tags-BBjshtuJ.js.gz") },
    Asset { name: "uploads-B3i7Vwon.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/uploads-B3i7Vwon.js.gz") },
    Asset { name: "uploads-BXEDqfJA.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/uploads-BXEDqfJA.js.gz") },
    Asset { name: "useMutation-B7Zm_HvC.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useMutation-B7Zm_HvC.js.gz") },
    Asset { name: "useNavigate-D6VA4Gbt.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useNavigate-D6VA4Gbt.js.gz") },
    Asset { name: "useQuery-CDh-kYBR.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useQuery-CDh-kYBR.js.gz") },
    Asset { name: "users-uiYoLf0m.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/users-uiYoLf0m.js.gz") },
    Asset { name: "why-CBabGVkx.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/why-CBabGVkx.js.gz") },
];
