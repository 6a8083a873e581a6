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
    <script type="module" crossorigin src="./assets/index-s90z4D4z.js"></script>
    <link rel="modulepreload" crossorigin href="./assets/index-JrRsTWjX.js">
    <link rel="modulepreload" crossorigin href="./assets/useQuery-DQ6HTtJL.js">
    <link rel="modulepreload" crossorigin href="./assets/useMutation-BW52HNeJ.js">
    <link rel="modulepreload" crossorigin href="./assets/useRouter-CLrmGJC4.js">
    <link rel="modulepreload" crossorigin href="./assets/link-DaFZaE9F.js">
    <link rel="modulepreload" crossorigin href="./assets/useNavigate-CoPUubd0.js">
    <link rel="modulepreload" crossorigin href="./assets/screens-CCEYP_UW.js">
    <link rel="modulepreload" crossorigin href="./assets/session-CNSmsnf2.js">
    <link rel="modulepreload" crossorigin href="./assets/s3-BMR5AHkv.js">
    <link rel="modulepreload" crossorigin href="./assets/uploads-D_9xhwdD.js">
    <link rel="modulepreload" crossorigin href="./assets/router-D7yP1j_u.js">
    <link rel="stylesheet" crossorigin href="./assets/index-DpV2n32k.css">
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
    Asset { name: "audit-CErdjzBZ.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/audit-CErdjzBZ.js.gz") },
    Asset { name: "browse-BLvGs6fm.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/browse-BLvGs6fm.js.gz") },
    Asset { name: "bucket-CJAyUZ7l.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/bucket-CJAyUZ7l.js.gz") },
    Asset { name: "buckets-CSwL32bx.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/buckets-CSwL32bx.js.gz") },
    Asset { name: "command_bar-Bl5ODgyb.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/command_bar-Bl5ODgyb.js.gz") },
    Asset { name: "commands-tdllZByp.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/commands-tdllZByp.js.gz") },
    Asset { name: "confirm-D1yrChUS.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/confirm-D1yrChUS.js.gz") },
    Asset { name: "connect-BVvCITUs.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/connect-BVvCITUs.js.gz") },
    Asset { name: "de-BWU7AzjL.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/de-BWU7AzjL.js.gz") },
    Asset { name: "drives-D2YRCm-H.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/drives-D2YRCm-H.js.gz") },
    Asset { name: "en-TxwycT5V.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/en-TxwycT5V.js.gz") },
    Asset { name: "encryption-DXOJdje3.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/encryption-DXOJdje3.js.gz") },
    Asset { name: "endpoint-BqrQWGJU.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/endpoint-BqrQWGJU.js.gz") },
    Asset { name: "format-BGSOk1yP.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/format-BGSOk1yP.js.gz") },
    Asset { name: "groups-Dqof5vVS.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/groups-Dqof5vVS.js.gz") },
    Asset { name: "history-FbJ_qKpy.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/history-FbJ_qKpy.js.gz") },
    Asset { name: "icon-B-LCDp6q.svg", kind: "image/svg+xml", gzip: include_bytes!("../assets/icon-B-LCDp6q.svg.gz") },
    Asset { name: "index-DpV2n32k.css", kind: "text/css; charset=utf-8", gzip: include_bytes!("../assets/index-DpV2n32k.css.gz") },
    Asset { name: "index-JrRsTWjX.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-JrRsTWjX.js.gz") },
    Asset { name: "index-s90z4D4z.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-s90z4D4z.js.gz") },
    Asset { name: "inter-DfAjpf66.woff2", kind: "font/woff2", gzip: include_bytes!("../assets/inter-DfAjpf66.woff2.gz") },
    Asset { name: "json-DrJeoXR4.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/json-DrJeoXR4.js.gz") },
    Asset { name: "keys-D7kdu_eb.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/keys-D7kdu_eb.js.gz") },
    Asset { name: "licences.txt", kind: "text/plain; charset=utf-8", gzip: include_bytes!("../assets/licences.txt.gz") },
    Asset { name: "link-DaFZaE9F.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/link-DaFZaE9F.js.gz") },
    Asset { name: "logs-DWImunK_.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/logs-DWImunK_.js.gz") },
    Asset { name: "menu-CIddqvFZ.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/menu-CIddqvFZ.js.gz") },
    Asset { name: "object-BjYaeTx-.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/object-BjYaeTx-.js.gz") },
    Asset { name: "overview-6H1QGeZS.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/overview-6H1QGeZS.js.gz") },
    Asset { name: "placement-Dqk5CRRP.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/placement-Dqk5CRRP.js.gz") },
    Asset { name: "policies-r0gW3iWq.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/policies-r0gW3iWq.js.gz") },
    Asset { name: "preview-CMh7Ma8L.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/preview-CMh7Ma8L.js.gz") },
    Asset { name: "protection-DnDK2fFA.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/protection-DnDK2fFA.js.gz") },
    Asset { name: "providers-o4rQZlcl.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/providers-o4rQZlcl.js.gz") },
    Asset { name: "reach-DCqXFJ9-.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/reach-DCqXFJ9-.js.gz") },
    Asset { name: "rewind-DKhq-xwd.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/rewind-DKhq-xwd.js.gz") },
    Asset { name: "router-D7yP1j_u.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/router-D7yP1j_u.js.gz") },
    Asset { name: "s3-BMR5AHkv.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/s3-BMR5AHkv.js.gz") },
    Asset { name: "screens-CCEYP_UW.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/screens-CCEYP_UW.js.gz") },
    Asset { name: "session-CNSmsnf2.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/session-CNSmsnf2.js.gz") },
    Asset { name: "settings-XTuwRoyg.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/settings-XTuwRoyg.js.gz") },
    Asset { name: "settings.de-lvY5t0J3.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/settings.de-lvY5t0J3.js.gz") },
    Asset { name: "show_command-BNi5GCIR.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/show_command-BNi5GCIR.js.gz") },
    Asset { name: "stream-DurK_OUg.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/stream-DurK_OUg.js.gz") },
    Asset { name: "table-DY0Xea5D.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/table-DY0Xea5D.js.gz") },
    Asset { name: "tags-B940i5KZ.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/tags-B940i5KZ.js.gz") },
    Asset { name: "targets-DMoohm-B.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/targets-DMoohm-B.js.gz") },
    Asset { name: "trace-K0TuWJju.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/trace-K0TuWJju.js.gz") },
    Asset { name: "uploads-D_9xhwdD.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/uploads-D_9xhwdD.js.gz") },
    Asset { name: "uploads-DohzuTPg.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/uploads-DohzuTPg.js.gz") },
    Asset { name: "useInfiniteQuery-YYciiZfT.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useInfiniteQuery-YYciiZfT.js.gz") },
    Asset { name: "useMutation-BW52HNeJ.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useMutation-BW52HNeJ.js.gz") },
    Asset { name: "useNavigate-CoPUubd0.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useNavigate-CoPUubd0.js.gz") },
    Asset { name: "useQuery-DQ6HTtJL.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useQuery-DQ6HTtJL.js.gz") },
    Asset { name: "useRouter-CLrmGJC4.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useRouter-CLrmGJC4.js.gz") },
    Asset { name: "users-Bviwnne7.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/users-Bviwnne7.js.gz") },
    Asset { name: "why-DhTlT4R6.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/why-DhTlT4R6.js.gz") },
    Asset { name: "window-BjVcbtci.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/window-BjVcbtci.js.gz") },
];
