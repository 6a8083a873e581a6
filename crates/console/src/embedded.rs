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
    <script type="module" crossorigin src="./assets/index-CgJ9yh8e.js"></script>
    <link rel="modulepreload" crossorigin href="./assets/index-CF2dpWGS.js">
    <link rel="modulepreload" crossorigin href="./assets/useQuery-BwhgQa6Z.js">
    <link rel="modulepreload" crossorigin href="./assets/useMutation-BBEdOL2k.js">
    <link rel="modulepreload" crossorigin href="./assets/useRouter-DVJB1EKs.js">
    <link rel="modulepreload" crossorigin href="./assets/link-C8Xsuz1d.js">
    <link rel="modulepreload" crossorigin href="./assets/useNavigate-CWjmv3Zy.js">
    <link rel="modulepreload" crossorigin href="./assets/screens-CCEYP_UW.js">
    <link rel="modulepreload" crossorigin href="./assets/session-rkn7m4u8.js">
    <link rel="modulepreload" crossorigin href="./assets/s3-DMN7QGxa.js">
    <link rel="modulepreload" crossorigin href="./assets/uploads-DBRj2O9M.js">
    <link rel="modulepreload" crossorigin href="./assets/router-DfP0ZNBB.js">
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
    Asset { name: "audit-BqMpqHNK.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/audit-BqMpqHNK.js.gz") },
    Asset { name: "browse-BuHhZB0w.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/browse-BuHhZB0w.js.gz") },
    Asset { name: "bucket-dcTZ169f.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/bucket-dcTZ169f.js.gz") },
    Asset { name: "buckets-Dmrt-Xk2.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/buckets-Dmrt-Xk2.js.gz") },
    Asset { name: "command_bar-sEEZ5QCL.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/command_bar-sEEZ5QCL.js.gz") },
    Asset { name: "commands-CfGiNn5u.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/commands-CfGiNn5u.js.gz") },
    Asset { name: "confirm-DxoE04eA.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/confirm-DxoE04eA.js.gz") },
    Asset { name: "connect-Co1ppTxw.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/connect-Co1ppTxw.js.gz") },
    Asset { name: "de-CsI-zh88.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/de-CsI-zh88.js.gz") },
    Asset { name: "drives-D8uF4H3q.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/drives-D8uF4H3q.js.gz") },
    Asset { name: "en-Bj5N2TWQ.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/en-Bj5N2TWQ.js.gz") },
    Asset { name: "encryption-BtS1y78Y.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/encryption-BtS1y78Y.js.gz") },
    Asset { name: "endpoint-BqrQWGJU.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/endpoint-BqrQWGJU.js.gz") },
    Asset { name: "format-CeRH1hFQ.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/format-CeRH1hFQ.js.gz") },
    Asset { name: "groups-psdAbAiJ.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/groups-psdAbAiJ.js.gz") },
    Asset { name: "history-9L3q3hSf.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/history-9L3q3hSf.js.gz") },
    Asset { name: "icon-B-LCDp6q.svg", kind: "image/svg+xml", gzip: include_bytes!("../assets/icon-B-LCDp6q.svg.gz") },
    Asset { name: "index-CF2dpWGS.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-CF2dpWGS.js.gz") },
    Asset { name: "index-CgJ9yh8e.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-CgJ9yh8e.js.gz") },
    Asset { name: "index-Ctz3RCas.css", kind: "text/css; charset=utf-8", gzip: include_bytes!("../assets/index-Ctz3RCas.css.gz") },
    Asset { name: "inter-DfAjpf66.woff2", kind: "font/woff2", gzip: include_bytes!("../assets/inter-DfAjpf66.woff2.gz") },
    Asset { name: "jbig2_nowasm_fallback--T3Sp_ie.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/jbig2_nowasm_fallback--T3Sp_ie.js.gz") },
    Asset { name: "json-Bm8wah3h.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/json-Bm8wah3h.js.gz") },
    Asset { name: "keys-SLdzPKJ1.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/keys-SLdzPKJ1.js.gz") },
    Asset { name: "licences.txt", kind: "text/plain; charset=utf-8", gzip: include_bytes!("../assets/licences.txt.gz") },
    Asset { name: "link-C8Xsuz1d.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/link-C8Xsuz1d.js.gz") },
    Asset { name: "logs-CeTJeyvC.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/logs-CeTJeyvC.js.gz") },
    Asset { name: "menu-DXzzgwRV.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/menu-DXzzgwRV.js.gz") },
    Asset { name: "object-CP6iIW6J.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/object-CP6iIW6J.js.gz") },
    Asset { name: "overview-a4qXDiTB.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/overview-a4qXDiTB.js.gz") },
    Asset { name: "parquet-C6kKNYBq.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/parquet-C6kKNYBq.js.gz") },
    Asset { name: "pdf-DFtruKgA.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/pdf-DFtruKgA.js.gz") },
    Asset { name: "pdf.worker-Hh_ZsAfW.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/pdf.worker-Hh_ZsAfW.js.gz") },
    Asset { name: "placement-DaNl5JFD.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/placement-DaNl5JFD.js.gz") },
    Asset { name: "policies-8V22wD6D.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/policies-8V22wD6D.js.gz") },
    Asset { name: "pool-D6XRosF8.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/pool-D6XRosF8.js.gz") },
    Asset { name: "preview-BwqMvb2Q.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/preview-BwqMvb2Q.js.gz") },
    Asset { name: "protection-7yIXZ1s7.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/protection-7yIXZ1s7.js.gz") },
    Asset { name: "providers-D1h_IxW0.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/providers-D1h_IxW0.js.gz") },
    Asset { name: "ranges-BOQJo3jS.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/ranges-BOQJo3jS.js.gz") },
    Asset { name: "reach-iRKwtgaj.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/reach-iRKwtgaj.js.gz") },
    Asset { name: "rewind-BJSsjtWS.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/rewind-BJSsjtWS.js.gz") },
    Asset { name: "router-DfP0ZNBB.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/router-DfP0ZNBB.js.gz") },
    Asset { name: "s3-DMN7QGxa.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/s3-DMN7QGxa.js.gz") },
    Asset { name: "screens-CCEYP_UW.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/screens-CCEYP_UW.js.gz") },
    Asset { name: "session-rkn7m4u8.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/session-rkn7m4u8.js.gz") },
    Asset { name: "settings-nS08XdQ9.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/settings-nS08XdQ9.js.gz") },
    Asset { name: "settings.de-lvY5t0J3.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/settings.de-lvY5t0J3.js.gz") },
    Asset { name: "show_command-BikO1xzC.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/show_command-BikO1xzC.js.gz") },
    Asset { name: "stream-DAWVb6ic.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/stream-DAWVb6ic.js.gz") },
    Asset { name: "table-COGUU8ld.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/table-COGUU8ld.js.gz") },
    Asset { name: "tags-BLmEOUEF.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/tags-BLmEOUEF.js.gz") },
    Asset { name: "targets-CtFsgLEi.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/targets-CtFsgLEi.js.gz") },
    Asset { name: "trace-BgM59jXe.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/trace-BgM59jXe.js.gz") },
    Asset { name: "uploads-CykgCYdk.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/uploads-CykgCYdk.js.gz") },
    Asset { name: "uploads-DBRj2O9M.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/uploads-DBRj2O9M.js.gz") },
    Asset { name: "useInfiniteQuery-CRtTGKu-.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useInfiniteQuery-CRtTGKu-.js.gz") },
    Asset { name: "useMutation-BBEdOL2k.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useMutation-BBEdOL2k.js.gz") },
    Asset { name: "useNavigate-CWjmv3Zy.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useNavigate-CWjmv3Zy.js.gz") },
    Asset { name: "useQuery-BwhgQa6Z.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useQuery-BwhgQa6Z.js.gz") },
    Asset { name: "useRouter-DVJB1EKs.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useRouter-DVJB1EKs.js.gz") },
    Asset { name: "users-Ba2LDE5k.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/users-Ba2LDE5k.js.gz") },
    Asset { name: "why-XuxCTS-a.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/why-XuxCTS-a.js.gz") },
    Asset { name: "window-CObCvlmr.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/window-CObCvlmr.js.gz") },
];
