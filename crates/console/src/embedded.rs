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
    <script type="module" crossorigin src="./assets/index-BzavtN-v.js"></script>
    <link rel="modulepreload" crossorigin href="./assets/index-BJ2f4Y_j.js">
    <link rel="modulepreload" crossorigin href="./assets/useQuery-Dw9L2Tmw.js">
    <link rel="modulepreload" crossorigin href="./assets/useMutation-C4Ef1ewt.js">
    <link rel="modulepreload" crossorigin href="./assets/useRouter-GnSmqBja.js">
    <link rel="modulepreload" crossorigin href="./assets/link-DRJkHjJt.js">
    <link rel="modulepreload" crossorigin href="./assets/useNavigate-CzZu44OR.js">
    <link rel="modulepreload" crossorigin href="./assets/screens-DgmKXX2y.js">
    <link rel="modulepreload" crossorigin href="./assets/session-ULRAYidi.js">
    <link rel="modulepreload" crossorigin href="./assets/s3-DnVzo-9-.js">
    <link rel="modulepreload" crossorigin href="./assets/uploads-BU0zpzTt.js">
    <link rel="modulepreload" crossorigin href="./assets/router-B6Ru03m9.js">
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
    Asset { name: "audit-D88t5qad.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/audit-D88t5qad.js.gz") },
    Asset { name: "browse-B1_O8uYG.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/browse-B1_O8uYG.js.gz") },
    Asset { name: "bucket-Dd77F9m0.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/bucket-Dd77F9m0.js.gz") },
    Asset { name: "buckets-Br4OmR6O.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/buckets-Br4OmR6O.js.gz") },
    Asset { name: "command_bar-B0mTN4Oa.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/command_bar-B0mTN4Oa.js.gz") },
    Asset { name: "connect-Bj1ta8rH.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/connect-Bj1ta8rH.js.gz") },
    Asset { name: "de-CK7oSpff.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/de-CK7oSpff.js.gz") },
    Asset { name: "drives-CzlyklLf.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/drives-CzlyklLf.js.gz") },
    Asset { name: "en-eELAUEqT.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/en-eELAUEqT.js.gz") },
    Asset { name: "encryption-DgIpsHHT.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/encryption-DgIpsHHT.js.gz") },
    Asset { name: "format-Cpbdu_CI.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/format-Cpbdu_CI.js.gz") },
    Asset { name: "groups-JxkArW2K.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/groups-JxkArW2K.js.gz") },
    Asset { name: "history-Be2kJYrW.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/history-Be2kJYrW.js.gz") },
    Asset { name: "icon-B-LCDp6q.svg", kind: "image/svg+xml", gzip: include_bytes!("../assets/icon-B-LCDp6q.svg.gz") },
    Asset { name: "index-BJ2f4Y_j.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-BJ2f4Y_j.js.gz") },
    Asset { name: "index-BzavtN-v.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-BzavtN-v.js.gz") },
    Asset { name: "index-D0s6d5kq.css", kind: "text/css; charset=utf-8", gzip: include_bytes!("../assets/index-D0s6d5kq.css.gz") },
    Asset { name: "inter-DfAjpf66.woff2", kind: "font/woff2", gzip: include_bytes!("../assets/inter-DfAjpf66.woff2.gz") },
    Asset { name: "json-DU4hKNu_.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/json-DU4hKNu_.js.gz") },
    Asset { name: "keys-DWnqT_18.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/keys-DWnqT_18.js.gz") },
    Asset { name: "licences.txt", kind: "text/plain; charset=utf-8", gzip: include_bytes!("../assets/licences.txt.gz") },
    Asset { name: "link-DRJkHjJt.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/link-DRJkHjJt.js.gz") },
    Asset { name: "logs-6hhgdcNq.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/logs-6hhgdcNq.js.gz") },
    Asset { name: "menu-KGKvFm0v.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/menu-KGKvFm0v.js.gz") },
    Asset { name: "object-r5SLHyJF.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/object-r5SLHyJF.js.gz") },
    Asset { name: "overview-BRwvR3A6.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/overview-BRwvR3A6.js.gz") },
    Asset { name: "placement-DQJFpycW.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/placement-DQJFpycW.js.gz") },
    Asset { name: "policies-DcTrmvbq.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/policies-DcTrmvbq.js.gz") },
    Asset { name: "preview-DbkLmK_Z.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/preview-DbkLmK_Z.js.gz") },
    Asset { name: "protection-CTo7DQHK.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/protection-CTo7DQHK.js.gz") },
    Asset { name: "providers-CQQSSQSQ.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/providers-CQQSSQSQ.js.gz") },
    Asset { name: "rewind-DeMDn8DG.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/rewind-DeMDn8DG.js.gz") },
    Asset { name: "router-B6Ru03m9.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/router-B6Ru03m9.js.gz") },
    Asset { name: "s3-DnVzo-9-.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/s3-DnVzo-9-.js.gz") },
    Asset { name: "screens-DgmKXX2y.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/screens-DgmKXX2y.js.gz") },
    Asset { name: "session-ULRAYidi.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/session-ULRAYidi.js.gz") },
    Asset { name: "settings-7Lm7qmeP.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/settings-7Lm7qmeP.js.gz") },
    Asset { name: "settings.de-lvY5t0J3.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/settings.de-lvY5t0J3.js.gz") },
    Asset { name: "stream-BENuk_rD.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/stream-BENuk_rD.js.gz") },
    Asset { name: "table-CkICyjQO.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/table-CkICyjQO.js.gz") },
    Asset { name: "tags-BKiFKNAQ.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/tags-BKiFKNAQ.js.gz") },
    Asset { name: "targets-CmrHxiJ0.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/targets-CmrHxiJ0.js.gz") },
    Asset { name: "trace-Bct0OvyP.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/trace-Bct0OvyP.js.gz") },
    Asset { name: "uploads-0VZmqKns.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/uploads-0VZmqKns.js.gz") },
    Asset { name: "uploads-BU0zpzTt.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/uploads-BU0zpzTt.js.gz") },
    Asset { name: "useInfiniteQuery-BwZzCfoL.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useInfiniteQuery-BwZzCfoL.js.gz") },
    Asset { name: "useMutation-C4Ef1ewt.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useMutation-C4Ef1ewt.js.gz") },
    Asset { name: "useNavigate-CzZu44OR.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useNavigate-CzZu44OR.js.gz") },
    Asset { name: "useQuery-Dw9L2Tmw.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useQuery-Dw9L2Tmw.js.gz") },
    Asset { name: "useRouter-GnSmqBja.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useRouter-GnSmqBja.js.gz") },
    Asset { name: "users-DrPjQled.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/users-DrPjQled.js.gz") },
    Asset { name: "why-Bx5WIM4j.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/why-Bx5WIM4j.js.gz") },
    Asset { name: "window-DQiFnFVV.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/window-DQiFnFVV.js.gz") },
];
