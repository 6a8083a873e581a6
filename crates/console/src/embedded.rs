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
    <script type="module" crossorigin src="./assets/index-B2kJ8lFe.js"></script>
    <link rel="modulepreload" crossorigin href="./assets/index-DQbjRWOr.js">
    <link rel="modulepreload" crossorigin href="./assets/useQuery-Onm-OBgM.js">
    <link rel="modulepreload" crossorigin href="./assets/useMutation-TCvCgZwL.js">
    <link rel="modulepreload" crossorigin href="./assets/useRouter-B5hD_jYs.js">
    <link rel="modulepreload" crossorigin href="./assets/link-DyzHAkjh.js">
    <link rel="modulepreload" crossorigin href="./assets/useNavigate-NZlJQ4cD.js">
    <link rel="modulepreload" crossorigin href="./assets/screens-DgmKXX2y.js">
    <link rel="modulepreload" crossorigin href="./assets/session-BMzcydri.js">
    <link rel="modulepreload" crossorigin href="./assets/s3-CKbshb_c.js">
    <link rel="modulepreload" crossorigin href="./assets/uploads-BHS3jnef.js">
    <link rel="modulepreload" crossorigin href="./assets/router-_8rEnJxi.js">
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
    Asset { name: "audit-Dm1MEtP8.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/audit-Dm1MEtP8.js.gz") },
    Asset { name: "browse-MOH0VPAU.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/browse-MOH0VPAU.js.gz") },
    Asset { name: "bucket-n54_y_xC.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/bucket-n54_y_xC.js.gz") },
    Asset { name: "buckets-BkIqjotx.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/buckets-BkIqjotx.js.gz") },
    Asset { name: "command_bar-CjwToGRa.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/command_bar-CjwToGRa.js.gz") },
    Asset { name: "connect-C-2VGpDG.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/connect-C-2VGpDG.js.gz") },
    Asset { name: "de-DGmup_7w.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/de-DGmup_7w.js.gz") },
    Asset { name: "drives-CVdMPY9N.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/drives-CVdMPY9N.js.gz") },
    Asset { name: "en-DkZaLS4M.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/en-DkZaLS4M.js.gz") },
    Asset { name: "encryption-CbNnyCN9.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/encryption-CbNnyCN9.js.gz") },
    Asset { name: "format-XffKPSq5.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/format-XffKPSq5.js.gz") },
    Asset { name: "groups-lPNjRk0e.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/groups-lPNjRk0e.js.gz") },
    Asset { name: "history-D1t4Vs8I.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/history-D1t4Vs8I.js.gz") },
    Asset { name: "icon-B-LCDp6q.svg", kind: "image/svg+xml", gzip: include_bytes!("../assets/icon-B-LCDp6q.svg.gz") },
    Asset { name: "index-B2kJ8lFe.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-B2kJ8lFe.js.gz") },
    Asset { name: "index-D0s6d5kq.css", kind: "text/css; charset=utf-8", gzip: include_bytes!("../assets/index-D0s6d5kq.css.gz") },
    Asset { name: "index-DQbjRWOr.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/index-DQbjRWOr.js.gz") },
    Asset { name: "inter-DfAjpf66.woff2", kind: "font/woff2", gzip: include_bytes!("../assets/inter-DfAjpf66.woff2.gz") },
    Asset { name: "json-8JYVtKxb.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/json-8JYVtKxb.js.gz") },
    Asset { name: "keys-BMJ4RxlM.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/keys-BMJ4RxlM.js.gz") },
    Asset { name: "licences.txt", kind: "text/plain; charset=utf-8", gzip: include_bytes!("../assets/licences.txt.gz") },
    Asset { name: "link-DyzHAkjh.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/link-DyzHAkjh.js.gz") },
    Asset { name: "logs-NNvR1wc8.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/logs-NNvR1wc8.js.gz") },
    Asset { name: "menu-CYXxKLNd.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/menu-CYXxKLNd.js.gz") },
    Asset { name: "object-24K-g_rZ.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/object-24K-g_rZ.js.gz") },
    Asset { name: "overview-BdEy67gc.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/overview-BdEy67gc.js.gz") },
    Asset { name: "placement-Cu0YKaib.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/placement-Cu0YKaib.js.gz") },
    Asset { name: "policies-DiOIvdam.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/policies-DiOIvdam.js.gz") },
    Asset { name: "preview-DCkyi6PA.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/preview-DCkyi6PA.js.gz") },
    Asset { name: "protection-8G2HcJl_.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/protection-8G2HcJl_.js.gz") },
    Asset { name: "providers-KeEDMmjw.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/providers-KeEDMmjw.js.gz") },
    Asset { name: "rewind-DrrEycHd.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/rewind-DrrEycHd.js.gz") },
    Asset { name: "router-_8rEnJxi.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/router-_8rEnJxi.js.gz") },
    Asset { name: "s3-CKbshb_c.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/s3-CKbshb_c.js.gz") },
    Asset { name: "screens-DgmKXX2y.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/screens-DgmKXX2y.js.gz") },
    Asset { name: "session-BMzcydri.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/session-BMzcydri.js.gz") },
    Asset { name: "settings-BozL9PtT.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/settings-BozL9PtT.js.gz") },
    Asset { name: "settings.de-lvY5t0J3.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/settings.de-lvY5t0J3.js.gz") },
    Asset { name: "stream-D0_TaM-6.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/stream-D0_TaM-6.js.gz") },
    Asset { name: "table-DP0NXWPO.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/table-DP0NXWPO.js.gz") },
    Asset { name: "tags-DYt_w2QQ.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/tags-DYt_w2QQ.js.gz") },
    Asset { name: "targets-6wEr1bJH.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/targets-6wEr1bJH.js.gz") },
    Asset { name: "trace-BfzEoMSV.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/trace-BfzEoMSV.js.gz") },
    Asset { name: "uploads-BHS3jnef.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/uploads-BHS3jnef.js.gz") },
    Asset { name: "uploads-DGgxK7UJ.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/uploads-DGgxK7UJ.js.gz") },
    Asset { name: "useInfiniteQuery-XG4XC-7h.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useInfiniteQuery-XG4XC-7h.js.gz") },
    Asset { name: "useMutation-TCvCgZwL.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useMutation-TCvCgZwL.js.gz") },
    Asset { name: "useNavigate-NZlJQ4cD.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useNavigate-NZlJQ4cD.js.gz") },
    Asset { name: "useQuery-Onm-OBgM.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useQuery-Onm-OBgM.js.gz") },
    Asset { name: "useRouter-B5hD_jYs.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/useRouter-B5hD_jYs.js.gz") },
    Asset { name: "users-Cnl2W1Ep.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/users-Cnl2W1Ep.js.gz") },
    Asset { name: "why-D4XhfY7i.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/why-D4XhfY7i.js.gz") },
    Asset { name: "window-DFEVWmx0.js", kind: "text/javascript; charset=utf-8", gzip: include_bytes!("../assets/window-DFEVWmx0.js.gz") },
];
