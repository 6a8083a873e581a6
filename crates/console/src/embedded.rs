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
    <script type="module" crossorigin src="./assets/index-aqldFm2w.js"></script>
    <link rel="modulepreload" crossorigin href="./assets/index-CLDqQweO.js">
    <link rel="modulepreload" crossorigin href="./assets/useQuery-Bmk0mgs4.js">
    <link rel="modulepreload" crossorigin href="./assets/useMutation-CPW3_Zsy.js">
    <link rel="modulepreload" crossorigin href="./assets/useRouter-DDdsU0Wp.js">
    <link rel="modulepreload" crossorigin href="./assets/link-BUpP7AIM.js">
    <link rel="modulepreload" crossorigin href="./assets/useNavigate-C-MCCcLj.js">
    <link rel="modulepreload" crossorigin href="./assets/screens-CCEYP_UW.js">
    <link rel="modulepreload" crossorigin href="./assets/session-9jS8uS4m.js">
    <link rel="modulepreload" crossorigin href="./assets/s3-Cifxq_x0.js">
    <link rel="modulepreload" crossorigin href="./assets/uploads-CsjHgKIF.js">
    <link rel="modulepreload" crossorigin href="./assets/router-D_Mi3yQB.js">
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
    Asset { name: "audit-P-K05v1d.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/audit-P-K05v1d.js.gz") },
    Asset { name: "browse-CPVIwQMh.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/browse-CPVIwQMh.js.gz") },
    Asset { name: "bucket-BEH3JB8h.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/bucket-BEH3JB8h.js.gz") },
    Asset { name: "buckets-EZgYzkJw.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/buckets-EZgYzkJw.js.gz") },
    Asset { name: "command_bar-BCE74aYJ.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/command_bar-BCE74aYJ.js.gz") },
    Asset { name: "commands-CpDOHI_7.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/commands-CpDOHI_7.js.gz") },
    Asset { name: "connect-7JN1kkVW.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/connect-7JN1kkVW.js.gz") },
    Asset { name: "de-B0wejZyo.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/de-B0wejZyo.js.gz") },
    Asset { name: "drives-DKa6knHA.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/drives-DKa6knHA.js.gz") },
    Asset { name: "en-BM5UaV-m.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/en-BM5UaV-m.js.gz") },
    Asset { name: "encryption-C5GHFSlY.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/encryption-C5GHFSlY.js.gz") },
    Asset { name: "endpoint-BqrQWGJU.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/endpoint-BqrQWGJU.js.gz") },
    Asset { name: "format-6n-a5MCB.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/format-6n-a5MCB.js.gz") },
    Asset { name: "groups-DouFVZQR.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/groups-DouFVZQR.js.gz") },
    Asset { name: "history-D7gGyyCH.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/history-D7gGyyCH.js.gz") },
    Asset { name: "icon-B-LCDp6q.svg", kind: "image/svg+xml", gzip: include_bytes!("../assets/icon-B-LCDp6q.svg.gz") },
    Asset { name: "index-BySYmclj.css", kind: "text/css; charset=utf-8", gzip: include_bytes!("../assets/index-BySYmclj.css.gz") },
    Asset { name: "index-CLDqQweO.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-CLDqQweO.js.gz") },
    Asset { name: "index-aqldFm2w.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-aqldFm2w.js.gz") },
    Asset { name: "inter-DfAjpf66.woff2", kind: "font/woff2", gzip: include_bytes!("../assets/inter-DfAjpf66.woff2.gz") },
    Asset { name: "json-C0WULFDR.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/json-C0WULFDR.js.gz") },
    Asset { name: "keys-B3J8ypU8.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/keys-B3J8ypU8.js.gz") },
    Asset { name: "licences.txt", kind: "text/plain; charset=utf-8", gzip: include_bytes!("../assets/licences.txt.gz") },
    Asset { name: "link-BUpP7AIM.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/link-BUpP7AIM.js.gz") },
    Asset { name: "logs-DBcBuV2y.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/logs-DBcBuV2y.js.gz") },
    Asset { name: "menu-Dx8Xtkvd.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/menu-Dx8Xtkvd.js.gz") },
    Asset { name: "object-B5fyKbnk.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/object-B5fyKbnk.js.gz") },
    Asset { name: "overview-BHTv22AO.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/overview-BHTv22AO.js.gz") },
    Asset { name: "placement-BO3elyYw.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/placement-BO3elyYw.js.gz") },
    Asset { name: "policies-C_9B0yv7.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/policies-C_9B0yv7.js.gz") },
    Asset { name: "preview-Cm6UUnMT.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/preview-Cm6UUnMT.js.gz") },
    Asset { name: "protection-D4MtGe_P.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/protection-D4MtGe_P.js.gz") },
    Asset { name: "providers-BKVV4EiD.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/providers-BKVV4EiD.js.gz") },
    Asset { name: "reach-DsxNmCQ2.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/reach-DsxNmCQ2.js.gz") },
    Asset { name: "rewind-DyjFMfCg.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/rewind-DyjFMfCg.js.gz") },
    Asset { name: "router-D_Mi3yQB.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/router-D_Mi3yQB.js.gz") },
    Asset { name: "s3-Cifxq_x0.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/s3-Cifxq_x0.js.gz") },
    Asset { name: "screens-CCEYP_UW.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/screens-CCEYP_UW.js.gz") },
    Asset { name: "session-9jS8uS4m.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/session-9jS8uS4m.js.gz") },
    Asset { name: "settings-f-Rajgi8.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/settings-f-Rajgi8.js.gz") },
    Asset { name: "settings.de-lvY5t0J3.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/settings.de-lvY5t0J3.js.gz") },
    Asset { name: "show_command-Dy9XbVjy.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/show_command-Dy9XbVjy.js.gz") },
    Asset { name: "stream-aOr_KXM-.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/stream-aOr_KXM-.js.gz") },
    Asset { name: "table-HZdJT8Ln.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/table-HZdJT8Ln.js.gz") },
    Asset { name: "tags-DPjx2eja.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/tags-DPjx2eja.js.gz") },
    Asset { name: "targets-Bwr250cZ.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/targets-Bwr250cZ.js.gz") },
    Asset { name: "trace-CmXlPgPG.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/trace-CmXlPgPG.js.gz") },
    Asset { name: "uploads-CsjHgKIF.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/uploads-CsjHgKIF.js.gz") },
    Asset { name: "uploads-_Ljrsn8c.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/uploads-_Ljrsn8c.js.gz") },
    Asset { name: "useInfiniteQuery-C_HFFKoU.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useInfiniteQuery-C_HFFKoU.js.gz") },
    Asset { name: "useMutation-CPW3_Zsy.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useMutation-CPW3_Zsy.js.gz") },
    Asset { name: "useNavigate-C-MCCcLj.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useNavigate-C-MCCcLj.js.gz") },
    Asset { name: "useQuery-Bmk0mgs4.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useQuery-Bmk0mgs4.js.gz") },
    Asset { name: "useRouter-DDdsU0Wp.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useRouter-DDdsU0Wp.js.gz") },
    Asset { name: "users-DithnNEa.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/users-DithnNEa.js.gz") },
    Asset { name: "why-1AQX2giu.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/why-1AQX2giu.js.gz") },
    Asset { name: "window-O3AtOCcD.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/window-O3AtOCcD.js.gz") },
];
