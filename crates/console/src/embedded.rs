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
    <script type="module" crossorigin src="./assets/index-CtsXbDX_.js"></script>
    <link rel="modulepreload" crossorigin href="./assets/index-CMXsR5ho.js">
    <link rel="modulepreload" crossorigin href="./assets/useQuery-DBaAZUAO.js">
    <link rel="modulepreload" crossorigin href="./assets/useMutation-C7_-tP0e.js">
    <link rel="modulepreload" crossorigin href="./assets/useRouter-CJSkeX3n.js">
    <link rel="modulepreload" crossorigin href="./assets/link-DGYcH_r3.js">
    <link rel="modulepreload" crossorigin href="./assets/useNavigate-Ccq0a31Z.js">
    <link rel="modulepreload" crossorigin href="./assets/screens-CCEYP_UW.js">
    <link rel="modulepreload" crossorigin href="./assets/session-8zVDm-n9.js">
    <link rel="modulepreload" crossorigin href="./assets/s3-BvweyIbs.js">
    <link rel="modulepreload" crossorigin href="./assets/uploads-B1Hnovhu.js">
    <link rel="modulepreload" crossorigin href="./assets/router-Cvgx9ANi.js">
    <link rel="stylesheet" crossorigin href="./assets/index-Ctz3RCas.css">
  </head>
  <body>
    <div id="root"></div>
    <noscript>The Ashlar console needs JavaScript. The command line does not: ashlar --help</noscript>
  </body>
</html>
"##;

/// The files that it names, by name.
pub(crate) static FILES: &[Asset] = &[
    Asset { name: "actions-DjTdF4dZ.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/actions-DjTdF4dZ.js.gz") },
    Asset { name: "audit-CYbX0Zff.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/audit-CYbX0Zff.js.gz") },
    Asset { name: "browse-DeuI2HNo.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/browse-DeuI2HNo.js.gz") },
    Asset { name: "bucket-CFXQEq_5.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/bucket-CFXQEq_5.js.gz") },
    Asset { name: "buckets-vNpMgfaL.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/buckets-vNpMgfaL.js.gz") },
    Asset { name: "command_bar-yU41EzzP.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/command_bar-yU41EzzP.js.gz") },
    Asset { name: "commands-itZzAETC.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/commands-itZzAETC.js.gz") },
    Asset { name: "confirm-qy-JU1YE.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/confirm-qy-JU1YE.js.gz") },
    Asset { name: "connect-DbUlS3Io.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/connect-DbUlS3Io.js.gz") },
    Asset { name: "de-Bmj6BgA0.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/de-Bmj6BgA0.js.gz") },
    Asset { name: "drives-DdOhwk3m.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/drives-DdOhwk3m.js.gz") },
    Asset { name: "en-CJn3hRiL.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/en-CJn3hRiL.js.gz") },
    Asset { name: "encryption-p04Qvsnm.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/encryption-p04Qvsnm.js.gz") },
    Asset { name: "endpoint-BqrQWGJU.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/endpoint-BqrQWGJU.js.gz") },
    Asset { name: "format-BLl-FXy9.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/format-BLl-FXy9.js.gz") },
    Asset { name: "groups-BSADdf0U.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/groups-BSADdf0U.js.gz") },
    Asset { name: "history-DR6HeCCL.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/history-DR6HeCCL.js.gz") },
    Asset { name: "icon-B-LCDp6q.svg", kind: "image/svg+xml", gzip: include_bytes!("../assets/icon-B-LCDp6q.svg.gz") },
    Asset { name: "index-CMXsR5ho.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-CMXsR5ho.js.gz") },
    Asset { name: "index-CtsXbDX_.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-CtsXbDX_.js.gz") },
    Asset { name: "index-Ctz3RCas.css", kind: "text/css; charset=utf-8", gzip: include_bytes!("../assets/index-Ctz3RCas.css.gz") },
    Asset { name: "inter-DfAjpf66.woff2", kind: "font/woff2", gzip: include_bytes!("../assets/inter-DfAjpf66.woff2.gz") },
    Asset { name: "jbig2_nowasm_fallback--T3Sp_ie.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/jbig2_nowasm_fallback--T3Sp_ie.js.gz") },
    Asset { name: "json-BHQczO3X.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/json-BHQczO3X.js.gz") },
    Asset { name: "keys-DjV_Dw9i.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/keys-DjV_Dw9i.js.gz") },
    Asset { name: "licences.txt", kind: "text/plain; charset=utf-8", gzip: include_bytes!("../assets/licences.txt.gz") },
    Asset { name: "link-DGYcH_r3.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/link-DGYcH_r3.js.gz") },
    Asset { name: "logs-CLkVz36T.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/logs-CLkVz36T.js.gz") },
    Asset { name: "menu-B3XnXu89.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/menu-B3XnXu89.js.gz") },
    Asset { name: "object-DWMnOHA_.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/object-DWMnOHA_.js.gz") },
    Asset { name: "overview-B2vpn_nR.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/overview-B2vpn_nR.js.gz") },
    Asset { name: "parquet-Dakaps-q.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/parquet-Dakaps-q.js.gz") },
    Asset { name: "pdf-Cziw3o3Y.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/pdf-Cziw3o3Y.js.gz") },
    Asset { name: "pdf.worker-Hh_ZsAfW.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/pdf.worker-Hh_ZsAfW.js.gz") },
    Asset { name: "placement-C0rG6oKd.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/placement-C0rG6oKd.js.gz") },
    Asset { name: "policies-BWOlI3Mf.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/policies-BWOlI3Mf.js.gz") },
    Asset { name: "pool-D6XRosF8.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/pool-D6XRosF8.js.gz") },
    Asset { name: "preview-BkAioTv1.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/preview-BkAioTv1.js.gz") },
    Asset { name: "protection-DseLNb8h.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/protection-DseLNb8h.js.gz") },
    Asset { name: "providers-cs10jwX0.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/providers-cs10jwX0.js.gz") },
    Asset { name: "ranges-BzsrgVcr.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/ranges-BzsrgVcr.js.gz") },
    Asset { name: "reach-DAeY3h8B.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/reach-DAeY3h8B.js.gz") },
    Asset { name: "rewind-BHhexpLF.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/rewind-BHhexpLF.js.gz") },
    Asset { name: "router-Cvgx9ANi.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/router-Cvgx9ANi.js.gz") },
    Asset { name: "s3-BvweyIbs.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/s3-BvweyIbs.js.gz") },
    Asset { name: "screens-CCEYP_UW.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/screens-CCEYP_UW.js.gz") },
    Asset { name: "session-8zVDm-n9.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/session-8zVDm-n9.js.gz") },
    Asset { name: "settings-Ds_svGkd.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/settings-Ds_svGkd.js.gz") },
    Asset { name: "settings.de-lvY5t0J3.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/settings.de-lvY5t0J3.js.gz") },
    Asset { name: "show_command-Bn1BlWRs.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/show_command-Bn1BlWRs.js.gz") },
    Asset { name: "stream-BrSJFYSH.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/stream-BrSJFYSH.js.gz") },
    Asset { name: "table-DbMa67D6.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/table-DbMa67D6.js.gz") },
    Asset { name: "tags-CQIYDRy-.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/tags-CQIYDRy-.js.gz") },
    Asset { name: "targets-CBZ_KrYQ.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/targets-CBZ_KrYQ.js.gz") },
    Asset { name: "trace-D1jb_aoD.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/trace-D1jb_aoD.js.gz") },
    Asset { name: "uploads-B1Hnovhu.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/uploads-B1Hnovhu.js.gz") },
    Asset { name: "uploads-DgEzfYVU.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/uploads-DgEzfYVU.js.gz") },
    Asset { name: "useInfiniteQuery--8d7rQ_R.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useInfiniteQuery--8d7rQ_R.js.gz") },
    Asset { name: "useMutation-C7_-tP0e.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useMutation-C7_-tP0e.js.gz") },
    Asset { name: "useNavigate-Ccq0a31Z.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useNavigate-Ccq0a31Z.js.gz") },
    Asset { name: "useQuery-DBaAZUAO.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useQuery-DBaAZUAO.js.gz") },
    Asset { name: "useRouter-CJSkeX3n.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useRouter-CJSkeX3n.js.gz") },
    Asset { name: "users-cSDADjja.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/users-cSDADjja.js.gz") },
    Asset { name: "why-COTptjMR.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/why-COTptjMR.js.gz") },
    Asset { name: "window-BdWMxBYf.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/window-BdWMxBYf.js.gz") },
];
