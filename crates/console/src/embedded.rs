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
    <script type="module" crossorigin src="./assets/index-DB7MyiQN.js"></script>
    <link rel="modulepreload" crossorigin href="./assets/index-BMQ1sm-J.js">
    <link rel="modulepreload" crossorigin href="./assets/useQuery-DY7swpRy.js">
    <link rel="modulepreload" crossorigin href="./assets/useMutation-B3qdD2Yh.js">
    <link rel="modulepreload" crossorigin href="./assets/useRouter-Cv2-iDVI.js">
    <link rel="modulepreload" crossorigin href="./assets/link-ChUoO_rs.js">
    <link rel="modulepreload" crossorigin href="./assets/useNavigate-Cl49tGyj.js">
    <link rel="modulepreload" crossorigin href="./assets/screens-CCEYP_UW.js">
    <link rel="modulepreload" crossorigin href="./assets/session-ChGP7uPL.js">
    <link rel="modulepreload" crossorigin href="./assets/s3-dY5OilfC.js">
    <link rel="modulepreload" crossorigin href="./assets/uploads-D_GtQHwa.js">
    <link rel="modulepreload" crossorigin href="./assets/router-CElfmTUe.js">
    <link rel="stylesheet" crossorigin href="./assets/index-D0s6d5kq.css">
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
    Asset { name: "audit-yoy13Huq.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/audit-yoy13Huq.js.gz") },
    Asset { name: "browse-Bn2Ez4lC.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/browse-Bn2Ez4lC.js.gz") },
    Asset { name: "bucket-BDuPUhLu.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/bucket-BDuPUhLu.js.gz") },
    Asset { name: "buckets-NkjY0YIq.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/buckets-NkjY0YIq.js.gz") },
    Asset { name: "command_bar-CKXmQHcz.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/command_bar-CKXmQHcz.js.gz") },
    Asset { name: "commands-B0j3XGLQ.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/commands-B0j3XGLQ.js.gz") },
    Asset { name: "connect-DagvNLqb.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/connect-DagvNLqb.js.gz") },
    Asset { name: "de-cUtDVxtD.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/de-cUtDVxtD.js.gz") },
    Asset { name: "drives-BYOl2vN5.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/drives-BYOl2vN5.js.gz") },
    Asset { name: "en-xBHWJ7Xw.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/en-xBHWJ7Xw.js.gz") },
    Asset { name: "encryption-BiBR6hxm.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/encryption-BiBR6hxm.js.gz") },
    Asset { name: "endpoint-BqrQWGJU.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/endpoint-BqrQWGJU.js.gz") },
    Asset { name: "format-FkFoDQ-y.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/format-FkFoDQ-y.js.gz") },
    Asset { name: "groups-DIYQECsj.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/groups-DIYQECsj.js.gz") },
    Asset { name: "history-dOx0_U0k.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/history-dOx0_U0k.js.gz") },
    Asset { name: "icon-B-LCDp6q.svg", kind: "image/svg+xml", gzip: include_bytes!("../assets/icon-B-LCDp6q.svg.gz") },
    Asset { name: "index-BMQ1sm-J.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-BMQ1sm-J.js.gz") },
    Asset { name: "index-D0s6d5kq.css", kind: "text/css; charset=utf-8", gzip: include_bytes!("../assets/index-D0s6d5kq.css.gz") },
    Asset { name: "index-DB7MyiQN.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-DB7MyiQN.js.gz") },
    Asset { name: "inter-DfAjpf66.woff2", kind: "font/woff2", gzip: include_bytes!("../assets/inter-DfAjpf66.woff2.gz") },
    Asset { name: "json-Ck_MhUTM.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/json-Ck_MhUTM.js.gz") },
    Asset { name: "keys-708n_uHI.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/keys-708n_uHI.js.gz") },
    Asset { name: "licences.txt", kind: "text/plain; charset=utf-8", gzip: include_bytes!("../assets/licences.txt.gz") },
    Asset { name: "link-ChUoO_rs.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/link-ChUoO_rs.js.gz") },
    Asset { name: "logs-4zHs9EHY.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/logs-4zHs9EHY.js.gz") },
    Asset { name: "menu-C-_Ux_wY.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/menu-C-_Ux_wY.js.gz") },
    Asset { name: "object-BfB5C7WS.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/object-BfB5C7WS.js.gz") },
    Asset { name: "overview-CD4O2gNz.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/overview-CD4O2gNz.js.gz") },
    Asset { name: "placement-QH25PC2r.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/placement-QH25PC2r.js.gz") },
    Asset { name: "policies-OV4KOZ1j.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/policies-OV4KOZ1j.js.gz") },
    Asset { name: "preview-B_RbB6K5.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/preview-B_RbB6K5.js.gz") },
    Asset { name: "protection-Cy0QbbvS.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/protection-Cy0QbbvS.js.gz") },
    Asset { name: "providers-BP1sO1cb.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/providers-BP1sO1cb.js.gz") },
    Asset { name: "rewind-f-O8uE8A.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/rewind-f-O8uE8A.js.gz") },
    Asset { name: "router-CElfmTUe.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/router-CElfmTUe.js.gz") },
    Asset { name: "s3-dY5OilfC.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/s3-dY5OilfC.js.gz") },
    Asset { name: "screens-CCEYP_UW.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/screens-CCEYP_UW.js.gz") },
    Asset { name: "session-ChGP7uPL.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/session-ChGP7uPL.js.gz") },
    Asset { name: "settings-WvZyTMFi.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/settings-WvZyTMFi.js.gz") },
    Asset { name: "settings.de-lvY5t0J3.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/settings.de-lvY5t0J3.js.gz") },
    Asset { name: "show_command-Bq4srOUy.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/show_command-Bq4srOUy.js.gz") },
    Asset { name: "stream-Cn7thcvD.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/stream-Cn7thcvD.js.gz") },
    Asset { name: "table-CKNQtLjn.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/table-CKNQtLjn.js.gz") },
    Asset { name: "tags-Ba5dzIk8.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/tags-Ba5dzIk8.js.gz") },
    Asset { name: "targets-DPuaN64w.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/targets-DPuaN64w.js.gz") },
    Asset { name: "trace-lmnXXPxe.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/trace-lmnXXPxe.js.gz") },
    Asset { name: "uploads-BgaGBPCo.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/uploads-BgaGBPCo.js.gz") },
    Asset { name: "uploads-D_GtQHwa.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/uploads-D_GtQHwa.js.gz") },
    Asset { name: "useInfiniteQuery-BgDdwSN0.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useInfiniteQuery-BgDdwSN0.js.gz") },
    Asset { name: "useMutation-B3qdD2Yh.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useMutation-B3qdD2Yh.js.gz") },
    Asset { name: "useNavigate-Cl49tGyj.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useNavigate-Cl49tGyj.js.gz") },
    Asset { name: "useQuery-DY7swpRy.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useQuery-DY7swpRy.js.gz") },
    Asset { name: "useRouter-Cv2-iDVI.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useRouter-Cv2-iDVI.js.gz") },
    Asset { name: "users-DBTeU17H.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/users-DBTeU17H.js.gz") },
    Asset { name: "why-BglHulLU.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/why-BglHulLU.js.gz") },
    Asset { name: "window-6NRR-yhT.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/window-6NRR-yhT.js.gz") },
];
