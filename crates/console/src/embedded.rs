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
    <script type="module" crossorigin src="./assets/index-INAPuUgg.js"></script>
    <link rel="modulepreload" crossorigin href="./assets/index-BPClF3RK.js">
    <link rel="modulepreload" crossorigin href="./assets/useQuery-Dv8-58aQ.js">
    <link rel="modulepreload" crossorigin href="./assets/useMutation-CiTqM0En.js">
    <link rel="modulepreload" crossorigin href="./assets/useRouter-C2soy1FZ.js">
    <link rel="modulepreload" crossorigin href="./assets/link-D9xYgDvA.js">
    <link rel="modulepreload" crossorigin href="./assets/useNavigate-D_iH0YgT.js">
    <link rel="modulepreload" crossorigin href="./assets/screens-CCEYP_UW.js">
    <link rel="modulepreload" crossorigin href="./assets/session-Cdm4_8ta.js">
    <link rel="modulepreload" crossorigin href="./assets/s3-CJOtxHTU.js">
    <link rel="modulepreload" crossorigin href="./assets/uploads-WW5JdjaS.js">
    <link rel="modulepreload" crossorigin href="./assets/router-CejP4MUs.js">
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
    Asset { name: "actions-DKSPQU1b.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/actions-DKSPQU1b.js.gz") },
    Asset { name: "audit-BggYqXe1.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/audit-BggYqXe1.js.gz") },
    Asset { name: "browse-CMYwuWPr.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/browse-CMYwuWPr.js.gz") },
    Asset { name: "bucket-C4lRRrjM.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/bucket-C4lRRrjM.js.gz") },
    Asset { name: "buckets-DG2FKSk0.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/buckets-DG2FKSk0.js.gz") },
    Asset { name: "command_bar-DS5L7WaF.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/command_bar-DS5L7WaF.js.gz") },
    Asset { name: "commands-B9FLi4ul.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/commands-B9FLi4ul.js.gz") },
    Asset { name: "confirm-CQWK8iwA.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/confirm-CQWK8iwA.js.gz") },
    Asset { name: "connect-hBtctDRa.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/connect-hBtctDRa.js.gz") },
    Asset { name: "de-COjxdhxs.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/de-COjxdhxs.js.gz") },
    Asset { name: "drives-BBpRmz1f.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/drives-BBpRmz1f.js.gz") },
    Asset { name: "en-DXv-kj6r.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/en-DXv-kj6r.js.gz") },
    Asset { name: "encryption-BMBwWG45.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/encryption-BMBwWG45.js.gz") },
    Asset { name: "endpoint-BqrQWGJU.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/endpoint-BqrQWGJU.js.gz") },
    Asset { name: "format-Chr4gmCi.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/format-Chr4gmCi.js.gz") },
    Asset { name: "groups-BYiBoLSE.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/groups-BYiBoLSE.js.gz") },
    Asset { name: "history-BagWFxOT.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/history-BagWFxOT.js.gz") },
    Asset { name: "icon-B-LCDp6q.svg", kind: "image/svg+xml", gzip: include_bytes!("../assets/icon-B-LCDp6q.svg.gz") },
    Asset { name: "index-BPClF3RK.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-BPClF3RK.js.gz") },
    Asset { name: "index-Ctz3RCas.css", kind: "text/css; charset=utf-8", gzip: include_bytes!("../assets/index-Ctz3RCas.css.gz") },
    Asset { name: "index-INAPuUgg.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-INAPuUgg.js.gz") },
    Asset { name: "inter-DfAjpf66.woff2", kind: "font/woff2", gzip: include_bytes!("../assets/inter-DfAjpf66.woff2.gz") },
    Asset { name: "jbig2_nowasm_fallback--T3Sp_ie.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/jbig2_nowasm_fallback--T3Sp_ie.js.gz") },
    Asset { name: "json-BRfZ8OC6.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/json-BRfZ8OC6.js.gz") },
    Asset { name: "keys-lwwRNPDn.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/keys-lwwRNPDn.js.gz") },
    Asset { name: "licences.txt", kind: "text/plain; charset=utf-8", gzip: include_bytes!("../assets/licences.txt.gz") },
    Asset { name: "link-D9xYgDvA.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/link-D9xYgDvA.js.gz") },
    Asset { name: "logs-C6K4FhQm.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/logs-C6K4FhQm.js.gz") },
    Asset { name: "menu-BQKaiGMl.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/menu-BQKaiGMl.js.gz") },
    Asset { name: "object-BTlP0EWb.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/object-BTlP0EWb.js.gz") },
    Asset { name: "overview-BMYH9Yam.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/overview-BMYH9Yam.js.gz") },
    Asset { name: "parquet-mvn8y6iw.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/parquet-mvn8y6iw.js.gz") },
    Asset { name: "pdf-B1ES8yQp.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/pdf-B1ES8yQp.js.gz") },
    Asset { name: "pdf.worker-Hh_ZsAfW.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/pdf.worker-Hh_ZsAfW.js.gz") },
    Asset { name: "placement-B1WRB2zm.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/placement-B1WRB2zm.js.gz") },
    Asset { name: "policies-DifBvibK.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/policies-DifBvibK.js.gz") },
    Asset { name: "pool-D6XRosF8.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/pool-D6XRosF8.js.gz") },
    Asset { name: "preview-CcDR3kYS.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/preview-CcDR3kYS.js.gz") },
    Asset { name: "protection-C_P2xnLl.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/protection-C_P2xnLl.js.gz") },
    Asset { name: "providers-DPeDpGD-.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/providers-DPeDpGD-.js.gz") },
    Asset { name: "ranges-dTTShx5H.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/ranges-dTTShx5H.js.gz") },
    Asset { name: "reach-CQweBr_W.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/reach-CQweBr_W.js.gz") },
    Asset { name: "rewind-mJsoBmun.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/rewind-mJsoBmun.js.gz") },
    Asset { name: "router-CejP4MUs.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/router-CejP4MUs.js.gz") },
    Asset { name: "s3-CJOtxHTU.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/s3-CJOtxHTU.js.gz") },
    Asset { name: "screens-CCEYP_UW.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/screens-CCEYP_UW.js.gz") },
    Asset { name: "session-Cdm4_8ta.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/session-Cdm4_8ta.js.gz") },
    Asset { name: "settings-ys3NkOpr.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/settings-ys3NkOpr.js.gz") },
    Asset { name: "settings.de-BVsHnUAV.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/settings.de-BVsHnUAV.js.gz") },
    Asset { name: "show_command-XGlaGcBK.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/show_command-XGlaGcBK.js.gz") },
    Asset { name: "stream-Dzu-tMEx.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/stream-Dzu-tMEx.js.gz") },
    Asset { name: "table-XZvTeNvA.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/table-XZvTeNvA.js.gz") },
    Asset { name: "tags-X9JOfoXa.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/tags-X9JOfoXa.js.gz") },
    Asset { name: "targets-CmFF60EX.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/targets-CmFF60EX.js.gz") },
    Asset { name: "trace-umD-xUKk.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/trace-umD-xUKk.js.gz") },
    Asset { name: "uploads-BMbJhzbY.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/uploads-BMbJhzbY.js.gz") },
    Asset { name: "uploads-WW5JdjaS.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/uploads-WW5JdjaS.js.gz") },
    Asset { name: "useInfiniteQuery-Dtzql1UI.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useInfiniteQuery-Dtzql1UI.js.gz") },
    Asset { name: "useMutation-CiTqM0En.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useMutation-CiTqM0En.js.gz") },
    Asset { name: "useNavigate-D_iH0YgT.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useNavigate-D_iH0YgT.js.gz") },
    Asset { name: "useQuery-Dv8-58aQ.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useQuery-Dv8-58aQ.js.gz") },
    Asset { name: "useRouter-C2soy1FZ.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useRouter-C2soy1FZ.js.gz") },
    Asset { name: "users-Vg179pGF.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/users-Vg179pGF.js.gz") },
    Asset { name: "why-BOELS_ZC.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/why-BOELS_ZC.js.gz") },
    Asset { name: "window-L84WNAu7.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/window-L84WNAu7.js.gz") },
];
