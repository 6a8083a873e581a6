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
    <script type="module" crossorigin src="./assets/index-CJctl2uW.js"></script>
    <link rel="modulepreload" crossorigin href="./assets/index-7m8UAR7A.js">
    <link rel="modulepreload" crossorigin href="./assets/useQuery-CaLqs1Qy.js">
    <link rel="modulepreload" crossorigin href="./assets/useMutation-B_KZMyeS.js">
    <link rel="modulepreload" crossorigin href="./assets/useRouter-Cf1L74Xb.js">
    <link rel="modulepreload" crossorigin href="./assets/link-C7yJkUeR.js">
    <link rel="modulepreload" crossorigin href="./assets/useNavigate-fk39QThf.js">
    <link rel="modulepreload" crossorigin href="./assets/screens-CCEYP_UW.js">
    <link rel="modulepreload" crossorigin href="./assets/session-BQBWseEo.js">
    <link rel="modulepreload" crossorigin href="./assets/s3-CaYF_Ro_.js">
    <link rel="modulepreload" crossorigin href="./assets/uploads-B6pPQ8Jt.js">
    <link rel="modulepreload" crossorigin href="./assets/router-UrZzIKMp.js">
    <link rel="stylesheet" crossorigin href="./assets/index-DjrXrVA7.css">
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
    Asset { name: "audit-Xa5M8-Il.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/audit-Xa5M8-Il.js.gz") },
    Asset { name: "browse-DhjxTC1Y.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/browse-DhjxTC1Y.js.gz") },
    Asset { name: "bucket-DKGcCMG3.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/bucket-DKGcCMG3.js.gz") },
    Asset { name: "buckets-CSvO6pxf.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/buckets-CSvO6pxf.js.gz") },
    Asset { name: "command_bar-D5QhpCho.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/command_bar-D5QhpCho.js.gz") },
    Asset { name: "commands-BjBsOJ3Z.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/commands-BjBsOJ3Z.js.gz") },
    Asset { name: "confirm-C2VRiXaW.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/confirm-C2VRiXaW.js.gz") },
    Asset { name: "connect-DG1vLell.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/connect-DG1vLell.js.gz") },
    Asset { name: "de-CsVZnoMu.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/de-CsVZnoMu.js.gz") },
    Asset { name: "drives-BbyTbODK.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/drives-BbyTbODK.js.gz") },
    Asset { name: "en-COlvhx80.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/en-COlvhx80.js.gz") },
    Asset { name: "encryption-F7EYHD4P.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/encryption-F7EYHD4P.js.gz") },
    Asset { name: "endpoint-BqrQWGJU.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/endpoint-BqrQWGJU.js.gz") },
    Asset { name: "format-BRUXzp8k.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/format-BRUXzp8k.js.gz") },
    Asset { name: "groups-KCleIpmQ.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/groups-KCleIpmQ.js.gz") },
    Asset { name: "history-B2HmZMiV.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/history-B2HmZMiV.js.gz") },
    Asset { name: "icon-B-LCDp6q.svg", kind: "image/svg+xml", gzip: include_bytes!("../assets/icon-B-LCDp6q.svg.gz") },
    Asset { name: "index-7m8UAR7A.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-7m8UAR7A.js.gz") },
    Asset { name: "index-CJctl2uW.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-CJctl2uW.js.gz") },
    Asset { name: "index-DjrXrVA7.css", kind: "text/css; charset=utf-8", gzip: include_bytes!("../assets/index-DjrXrVA7.css.gz") },
    Asset { name: "inter-DfAjpf66.woff2", kind: "font/woff2", gzip: include_bytes!("../assets/inter-DfAjpf66.woff2.gz") },
    Asset { name: "jbig2_nowasm_fallback--T3Sp_ie.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/jbig2_nowasm_fallback--T3Sp_ie.js.gz") },
    Asset { name: "json-B8L8Aiw5.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/json-B8L8Aiw5.js.gz") },
    Asset { name: "keys-BEwiJmSE.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/keys-BEwiJmSE.js.gz") },
    Asset { name: "licences.txt", kind: "text/plain; charset=utf-8", gzip: include_bytes!("../assets/licences.txt.gz") },
    Asset { name: "link-C7yJkUeR.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/link-C7yJkUeR.js.gz") },
    Asset { name: "logs-BLQVRPY1.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/logs-BLQVRPY1.js.gz") },
    Asset { name: "menu-C4TrOnD9.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/menu-C4TrOnD9.js.gz") },
    Asset { name: "object-Coz-S_Ap.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/object-Coz-S_Ap.js.gz") },
    Asset { name: "overview-DoAmrBVV.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/overview-DoAmrBVV.js.gz") },
    Asset { name: "parquet-DjE_rwhC.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/parquet-DjE_rwhC.js.gz") },
    Asset { name: "pdf-CUmRO_fz.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/pdf-CUmRO_fz.js.gz") },
    Asset { name: "pdf.worker-Hh_ZsAfW.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/pdf.worker-Hh_ZsAfW.js.gz") },
    Asset { name: "placement-DYHJcXkF.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/placement-DYHJcXkF.js.gz") },
    Asset { name: "policies-DNGEK6MD.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/policies-DNGEK6MD.js.gz") },
    Asset { name: "pool-D6XRosF8.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/pool-D6XRosF8.js.gz") },
    Asset { name: "preview-DqpQV9kK.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/preview-DqpQV9kK.js.gz") },
    Asset { name: "protection-CvtbkE0b.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/protection-CvtbkE0b.js.gz") },
    Asset { name: "providers-Bf05q8Xd.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/providers-Bf05q8Xd.js.gz") },
    Asset { name: "ranges-CILN5jCs.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/ranges-CILN5jCs.js.gz") },
    Asset { name: "reach-DxhwUMRe.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/reach-DxhwUMRe.js.gz") },
    Asset { name: "rewind-mWDLV_95.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/rewind-mWDLV_95.js.gz") },
    Asset { name: "router-UrZzIKMp.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/router-UrZzIKMp.js.gz") },
    Asset { name: "s3-CaYF_Ro_.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/s3-CaYF_Ro_.js.gz") },
    Asset { name: "screens-CCEYP_UW.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/screens-CCEYP_UW.js.gz") },
    Asset { name: "session-BQBWseEo.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/session-BQBWseEo.js.gz") },
    Asset { name: "settings-Bo6us5E6.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/settings-Bo6us5E6.js.gz") },
    Asset { name: "settings.de-BVsHnUAV.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/settings.de-BVsHnUAV.js.gz") },
    Asset { name: "show_command-DKav6Vm5.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/show_command-DKav6Vm5.js.gz") },
    Asset { name: "stream-QwgjSpux.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/stream-QwgjSpux.js.gz") },
    Asset { name: "table-zuvZcaPK.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/table-zuvZcaPK.js.gz") },
    Asset { name: "tags-BfmRzja7.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/tags-BfmRzja7.js.gz") },
    Asset { name: "targets-CFrRHgRy.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/targets-CFrRHgRy.js.gz") },
    Asset { name: "trace-tJQ9AQIY.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/trace-tJQ9AQIY.js.gz") },
    Asset { name: "uploads-B6pPQ8Jt.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/uploads-B6pPQ8Jt.js.gz") },
    Asset { name: "uploads-C8tpTMeC.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/uploads-C8tpTMeC.js.gz") },
    Asset { name: "useInfiniteQuery-CyFmj3OL.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useInfiniteQuery-CyFmj3OL.js.gz") },
    Asset { name: "useMutation-B_KZMyeS.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useMutation-B_KZMyeS.js.gz") },
    Asset { name: "useNavigate-fk39QThf.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useNavigate-fk39QThf.js.gz") },
    Asset { name: "useQuery-CaLqs1Qy.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useQuery-CaLqs1Qy.js.gz") },
    Asset { name: "useRouter-Cf1L74Xb.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useRouter-Cf1L74Xb.js.gz") },
    Asset { name: "users-B_jO37k3.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/users-B_jO37k3.js.gz") },
    Asset { name: "why-BSDdSLli.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/why-BSDdSLli.js.gz") },
    Asset { name: "window-Cvn3DMIK.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/window-Cvn3DMIK.js.gz") },
];
