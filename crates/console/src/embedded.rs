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
    <script type="module" crossorigin src="./assets/index-D8ntiSSY.js"></script>
    <link rel="modulepreload" crossorigin href="./assets/index-CTAlNyNV.js">
    <link rel="modulepreload" crossorigin href="./assets/useQuery-Bk8HPa9y.js">
    <link rel="modulepreload" crossorigin href="./assets/useMutation-BHo5Mi27.js">
    <link rel="modulepreload" crossorigin href="./assets/useRouter-DCOaJZXj.js">
    <link rel="modulepreload" crossorigin href="./assets/link-CentnLle.js">
    <link rel="modulepreload" crossorigin href="./assets/useNavigate-hbWoitC4.js">
    <link rel="modulepreload" crossorigin href="./assets/screens-CCEYP_UW.js">
    <link rel="modulepreload" crossorigin href="./assets/session-C7_284a_.js">
    <link rel="modulepreload" crossorigin href="./assets/s3-BSICy47j.js">
    <link rel="modulepreload" crossorigin href="./assets/uploads-1sP5-pB3.js">
    <link rel="modulepreload" crossorigin href="./assets/router-CW5MBKWM.js">
    <link rel="stylesheet" crossorigin href="./assets/index-BySYmclj.css">
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
    Asset { name: "audit-CSyUTWml.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/audit-CSyUTWml.js.gz") },
    Asset { name: "browse-C9x6AIuM.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/browse-C9x6AIuM.js.gz") },
    Asset { name: "bucket-DXhIccbh.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/bucket-DXhIccbh.js.gz") },
    Asset { name: "buckets-B0BL69Jl.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/buckets-B0BL69Jl.js.gz") },
    Asset { name: "command_bar-DsRJlh0X.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/command_bar-DsRJlh0X.js.gz") },
    Asset { name: "commands-DUvnD3fb.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/commands-DUvnD3fb.js.gz") },
    Asset { name: "confirm-GpwZsSaM.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/confirm-GpwZsSaM.js.gz") },
    Asset { name: "connect-CYQH08YG.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/connect-CYQH08YG.js.gz") },
    Asset { name: "de-BPbkh-8z.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/de-BPbkh-8z.js.gz") },
    Asset { name: "drives-DrM1TH5o.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/drives-DrM1TH5o.js.gz") },
    Asset { name: "en-CfsRXUb6.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/en-CfsRXUb6.js.gz") },
    Asset { name: "encryption-CsG0CNgJ.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/encryption-CsG0CNgJ.js.gz") },
    Asset { name: "endpoint-BqrQWGJU.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/endpoint-BqrQWGJU.js.gz") },
    Asset { name: "format-Bss08soi.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/format-Bss08soi.js.gz") },
    Asset { name: "groups-QFc0fL0W.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/groups-QFc0fL0W.js.gz") },
    Asset { name: "history-B4-K4q-Q.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/history-B4-K4q-Q.js.gz") },
    Asset { name: "icon-B-LCDp6q.svg", kind: "image/svg+xml", gzip: include_bytes!("../assets/icon-B-LCDp6q.svg.gz") },
    Asset { name: "index-BySYmclj.css", kind: "text/css; charset=utf-8", gzip: include_bytes!("../assets/index-BySYmclj.css.gz") },
    Asset { name: "index-CTAlNyNV.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-CTAlNyNV.js.gz") },
    Asset { name: "index-D8ntiSSY.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-D8ntiSSY.js.gz") },
    Asset { name: "inter-DfAjpf66.woff2", kind: "font/woff2", gzip: include_bytes!("../assets/inter-DfAjpf66.woff2.gz") },
    Asset { name: "json-7APhXGxR.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/json-7APhXGxR.js.gz") },
    Asset { name: "keys-CTFm7U3c.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/keys-CTFm7U3c.js.gz") },
    Asset { name: "licences.txt", kind: "text/plain; charset=utf-8", gzip: include_bytes!("../assets/licences.txt.gz") },
    Asset { name: "link-CentnLle.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/link-CentnLle.js.gz") },
    Asset { name: "logs-DZO6h81M.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/logs-DZO6h81M.js.gz") },
    Asset { name: "menu-BXmxJBDa.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/menu-BXmxJBDa.js.gz") },
    Asset { name: "object-Vzh8V-FW.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/object-Vzh8V-FW.js.gz") },
    Asset { name: "overview-DfLaESJP.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/overview-DfLaESJP.js.gz") },
    Asset { name: "placement-CQhWLBL8.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/placement-CQhWLBL8.js.gz") },
    Asset { name: "policies-FcCpjTC_.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/policies-FcCpjTC_.js.gz") },
    Asset { name: "preview-8cI6_Uv0.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/preview-8cI6_Uv0.js.gz") },
    Asset { name: "protection-BaMIwEhd.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/protection-BaMIwEhd.js.gz") },
    Asset { name: "providers-DNI3_k0k.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/providers-DNI3_k0k.js.gz") },
    Asset { name: "reach-AsIQwWuC.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/reach-AsIQwWuC.js.gz") },
    Asset { name: "rewind-mkRclcEA.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/rewind-mkRclcEA.js.gz") },
    Asset { name: "router-CW5MBKWM.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/router-CW5MBKWM.js.gz") },
    Asset { name: "s3-BSICy47j.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/s3-BSICy47j.js.gz") },
    Asset { name: "screens-CCEYP_UW.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/screens-CCEYP_UW.js.gz") },
    Asset { name: "session-C7_284a_.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/session-C7_284a_.js.gz") },
    Asset { name: "settings-BFrVQsBM.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/settings-BFrVQsBM.js.gz") },
    Asset { name: "settings.de-lvY5t0J3.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/settings.de-lvY5t0J3.js.gz") },
    Asset { name: "show_command-DYwEuI5K.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/show_command-DYwEuI5K.js.gz") },
    Asset { name: "stream-DXKeIgOZ.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/stream-DXKeIgOZ.js.gz") },
    Asset { name: "table-PvlaIFJC.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/table-PvlaIFJC.js.gz") },
    Asset { name: "tags-UmrlM3FX.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/tags-UmrlM3FX.js.gz") },
    Asset { name: "targets-CEiF0C_h.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/targets-CEiF0C_h.js.gz") },
    Asset { name: "trace-BGbUJwum.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/trace-BGbUJwum.js.gz") },
    Asset { name: "uploads-1sP5-pB3.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/uploads-1sP5-pB3.js.gz") },
    Asset { name: "uploads-Bw4DZOTP.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/uploads-Bw4DZOTP.js.gz") },
    Asset { name: "useInfiniteQuery-C4sfMEEC.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useInfiniteQuery-C4sfMEEC.js.gz") },
    Asset { name: "useMutation-BHo5Mi27.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useMutation-BHo5Mi27.js.gz") },
    Asset { name: "useNavigate-hbWoitC4.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useNavigate-hbWoitC4.js.gz") },
    Asset { name: "useQuery-Bk8HPa9y.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useQuery-Bk8HPa9y.js.gz") },
    Asset { name: "useRouter-DCOaJZXj.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useRouter-DCOaJZXj.js.gz") },
    Asset { name: "users-BlfCQBhr.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/users-BlfCQBhr.js.gz") },
    Asset { name: "why-BSl78g0c.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/why-BSl78g0c.js.gz") },
    Asset { name: "window-C6gc4RON.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/window-C6gc4RON.js.gz") },
];
