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
    <script type="module" crossorigin src="./assets/index-Cf7QrH-c.js"></script>
    <link rel="modulepreload" crossorigin href="./assets/index-BigwaQdE.js">
    <link rel="modulepreload" crossorigin href="./assets/useQuery-Djt1hwcT.js">
    <link rel="modulepreload" crossorigin href="./assets/useMutation-BkQ4R1Rs.js">
    <link rel="modulepreload" crossorigin href="./assets/link-CHP6kSeK.js">
    <link rel="modulepreload" crossorigin href="./assets/useNavigate-DIc25uDB.js">
    <link rel="modulepreload" crossorigin href="./assets/session-CScnTo8H.js">
    <link rel="modulepreload" crossorigin href="./assets/s3-B25XQa42.js">
    <link rel="modulepreload" crossorigin href="./assets/uploads-Dy9rpyH-.js">
    <link rel="modulepreload" crossorigin href="./assets/router-CkxmSJQ3.js">
    <link rel="stylesheet" crossorigin href="./assets/index-BJIX6Z-_.css">
  </head>
  <body>
    <div id="root"></div>
    <noscript>The Ashlar console needs JavaScript. The command line does not: ashlar --help</noscript>
  </body>
</html>
"##;

/// The files that it names, by name.
pub(crate) static FILES: &[Asset] = &[
    Asset { name: "audit-Nt-klQ3a.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/audit-Nt-klQ3a.js.gz") },
    Asset { name: "browse-C6v6SCTA.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/browse-C6v6SCTA.js.gz") },
    Asset { name: "bucket-0R8TZxsd.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/bucket-0R8TZxsd.js.gz") },
    Asset { name: "buckets-DTBxPxYg.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/buckets-DTBxPxYg.js.gz") },
    Asset { name: "connect-7MYh06j1.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/connect-7MYh06j1.js.gz") },
    Asset { name: "de-cG2B62e7.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/de-cG2B62e7.js.gz") },
    Asset { name: "drives-B494td-4.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/drives-B494td-4.js.gz") },
    Asset { name: "en-CgFmN7iB.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/en-CgFmN7iB.js.gz") },
    Asset { name: "encryption-B3RqiMr_.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/encryption-B3RqiMr_.js.gz") },
    Asset { name: "format-BR5f8Ux4.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/format-BR5f8Ux4.js.gz") },
    Asset { name: "groups-B7tHGeA5.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/groups-B7tHGeA5.js.gz") },
    Asset { name: "history-TqJcn5ZQ.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/history-TqJcn5ZQ.js.gz") },
    Asset { name: "icon-B-LCDp6q.svg", kind: "image/svg+xml", gzip: include_bytes!("../assets/icon-B-LCDp6q.svg.gz") },
    Asset { name: "index-BJIX6Z-_.css", kind: "text/css; charset=utf-8", gzip: include_bytes!("../assets/index-BJIX6Z-_.css.gz") },
    Asset { name: "index-BigwaQdE.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-BigwaQdE.js.gz") },
    Asset { name: "index-Cf7QrH-c.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-Cf7QrH-c.js.gz") },
    Asset { name: "index-CwS_1r1O.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-CwS_1r1O.js.gz") },
    Asset { name: "inter-DfAjpf66.woff2", kind: "font/woff2", gzip: include_bytes!("../assets/inter-DfAjpf66.woff2.gz") },
    Asset { name: "json-BAJySl1X.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/json-BAJySl1X.js.gz") },
    Asset { name: "keys-tsxGvQcP.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/keys-tsxGvQcP.js.gz") },
    Asset { name: "licences.txt", kind: "text/plain; charset=utf-8", gzip: include_bytes!("../assets/licences.txt.gz") },
    Asset { name: "link-CHP6kSeK.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/link-CHP6kSeK.js.gz") },
    Asset { name: "logs-C9jWRrsx.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/logs-C9jWRrsx.js.gz") },
    Asset { name: "menu-D19bsgWr.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/menu-D19bsgWr.js.gz") },
    Asset { name: "object--tAw4z2t.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/object--tAw4z2t.js.gz") },
    Asset { name: "overview-CmnLExjc.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/overview-CmnLExjc.js.gz") },
    Asset { name: "policies-CM9O6X-J.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/policies-CM9O6X-J.js.gz") },
    Asset { name: "providers-D62dA8ef.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/providers-D62dA8ef.js.gz") },
    Asset { name: "router-CkxmSJQ3.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/router-CkxmSJQ3.js.gz") },
    Asset { name: "s3-B25XQa42.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/s3-B25XQa42.js.gz") },
    Asset { name: "session-CScnTo8H.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/session-CScnTo8H.js.gz") },
    Asset { name: "stream-DbHRVBnl.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/stream-DbHRVBnl.js.gz") },
    Asset { name: "table-BkAq2cZ2.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/table-BkAq2cZ2.js.gz") },
    Asset { name: "tags-CgwAtOxe.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/tags-CgwAtOxe.js.gz") },
    Asset { name: "targets-CABlSC9-.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/targets-CABlSC9-.js.gz") },
    Asset { name: "trace-Bbft2g1E.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/trace-Bbft2g1E.js.gz") },
    Asset { name: "uploads-BSf26b3X.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/uploads-BSf26b3X.js.gz") },
    Asset { name: "uploads-Dy9rpyH-.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/uploads-Dy9rpyH-.js.gz") },
    Asset { name: "useInfiniteQuery-CX0lAlYW.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useInfiniteQuery-CX0lAlYW.js.gz") },
    Asset { name: "useMutation-BkQ4R1Rs.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useMutation-BkQ4R1Rs.js.gz") },
    Asset { name: "useNavigate-DIc25uDB.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useNavigate-DIc25uDB.js.gz") },
    Asset { name: "useQuery-Djt1hwcT.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useQuery-Djt1hwcT.js.gz") },
    Asset { name: "users-imu4aKAx.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/users-imu4aKAx.js.gz") },
    Asset { name: "why-CDTAlDW3.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/why-CDTAlDW3.js.gz") },
];
