//! Hosts of NVMe/TCP that may connect: calls, the state, the file, and our own host at the target.

use ashlar_nvme_tcp::host::{HostOptions, list};
use ashlar_nvme_tcp::{HostKeys, TlsMode};

use super::rig::*;
use crate::api::Call;
use crate::{Kind, Process, offline};

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:24000000-0000-4000-8000-000000000001";
const SECRET: &str = "DHHC-1:00:AAcOFRwjKjE4P0ZNVFtiaXB3foWMk5qhqK+2vcTL0tk/PUPo:";
const KEY: &str = "NVMeTLSkey-1:01:AQgPFh0kKzI5QEdOVVxjanF4f4aNlJuiqbC3vsXM09pl1OOC:";
const TARGET: &str = "DHHC-1:00:AQYLEBUaHyQpLjM4PUJHTFFWW2Blam90eX6DiI2Sl5w5mbdT:";

fn keys() -> HostKeys {
    let secret = |text: &str| Some(text.parse().unwrap());
    HostKeys { secret: secret(SECRET), controller_secret: secret(TARGET), ..HostKeys::default() }
}

fn set(nqn: &str) -> Call {
    Call::SetHost { nqn: nqn.into(), keys: keys() }
}

#[test]
fn hosts_are_set_removed_and_kept_over_restarts() {
    run(async {
        let rig = Rig::new(3);
        offline::create(&rig.new_group("5", 0..3)).unwrap();
        let mut options = rig.options(rig.members(0..3));
        options.nvme = vec!["127.0.0.1:0".into()];
        options.nvme_hosts = Some(rig.folder.path().join("hosts.toml"));
        let client = rig.client();
        let process = Process::start(options.clone()).await.unwrap();
        assert_eq!(client.state().await.unwrap().nvme.hosts, Some(vec![]));
        fails(&client, Call::RemoveHost { nqn: HOST.into() }, Kind::NotFound, HOST).await;
        fails(&client, set("other"), Kind::Invalid, "nqn.").await;
        let same = HostKeys { controller_secret: keys().secret, ..keys() };
        let same = Call::SetHost { nqn: HOST.into(), keys: same };
        fails(&client, same, Kind::Invalid, "needs its own").await;
        let made = client.call(&set(HOST)).await.unwrap().host.unwrap();
        assert!(made.nqn == HOST && made.mutual && made.dhchap && !made.tls);
        process.stop().await;

        let process = Process::start(options).await.unwrap();
        let state = client.state().await.unwrap();
        assert_eq!(state.nvme.hosts, Some(vec![made]));
        assert!(!serde_json::to_string(&state).unwrap().contains("DHHC"));
        let (portal, nqn) = (state.nvme.endpoints[0].clone(), state.groups[0].nqn.clone());
        let asked = |secret: Option<&str>| {
            let mut host = HostOptions::new().unwrap();
            HOST.clone_into(&mut host.host_nqn);
            host.secret = secret.map(|s| s.parse().unwrap());
            host.controller_secret = secret.map(|_| TARGET.parse().unwrap());
            let (portal, nqn) = (portal.clone(), nqn.clone());
            ashlar_environment::spawn_blocking("test", move || list(&portal, &nqn, &host).map(|l| l.len()))
        };
        assert_eq!(asked(Some(SECRET)).await.unwrap().unwrap(), 0);
        assert!(asked(None).await.unwrap().is_err());
        client.call(&Call::RemoveHost { nqn: HOST.into() }).await.unwrap();
        assert!(asked(Some(SECRET)).await.unwrap().is_err());
        assert!(process.state().nvme.unauthenticated >= 1);
        process.stop().await;
    });
}

#[test]
fn a_host_with_a_key_uses_tls_without_another_option() {
    run(async {
        let rig = Rig::new(3);
        offline::create(&rig.new_group("5", 0..3)).unwrap();
        let mut options = rig.options(rig.members(0..3));
        options.nvme = vec!["127.0.0.1:0".into()];
        options.nvme_hosts = Some(rig.folder.path().join("hosts.toml"));
        let client = rig.client();
        let process = Process::start(options.clone()).await.unwrap();
        assert_eq!(process.state().nvme.tls, TlsMode::Allowed);
        let tls = || Some(KEY.parse().unwrap());
        let call = Call::SetHost { nqn: HOST.into(), keys: HostKeys { tls: tls(), ..HostKeys::default() } };
        assert!(!format!("{call:?}").contains("NVMeTLSkey"));
        let made = client.call(&call).await.unwrap().host.unwrap();
        assert!(made.tls && !made.dhchap && !made.mutual);
        let empty = Call::SetHost { nqn: HOST.into(), keys: HostKeys::default() };
        fails(&client, empty, Kind::Invalid, "a secret of DH-HMAC-CHAP, or a key of TLS").await;
        let state = client.state().await.unwrap();
        assert!(!serde_json::to_string(&state).unwrap().contains("NVMeTLSkey"));
        let (portal, nqn) = (state.nvme.endpoints[0].clone(), state.groups[0].nqn.clone());
        let asked = |tls_key| {
            let host = HostOptions { host_nqn: HOST.into(), tls_key, ..HostOptions::new().unwrap() };
            let (portal, nqn) = (portal.clone(), nqn.clone());
            ashlar_environment::spawn_blocking("test", move || list(&portal, &nqn, &host).map(|l| l.len()))
        };
        assert_eq!(asked(tls()).await.unwrap().unwrap(), 0);
        assert!(asked(None).await.unwrap().is_err());
        process.stop().await;
        options.nvme_tls = Some(TlsMode::Off);
        let process = Process::start(options.clone()).await.unwrap();
        assert_eq!(process.state().nvme.tls, TlsMode::Off);
        process.stop().await;
        (options.nvme_tls, options.nvme_hosts) = (Some(TlsMode::Required), None);
        assert!(Process::start(options).await.err().unwrap().message.contains("--nvme-hosts"));
    });
}

#[test]
fn a_process_without_a_list_of_hosts_takes_none() {
    run(async {
        let rig = Rig::new(1);
        let process = Process::start(rig.options(vec![])).await.unwrap();
        assert_eq!(process.state().nvme.hosts, None);
        fails(&rig.client(), set(HOST), Kind::Invalid, "--nvme-hosts").await;
        process.stop().await;
    });
}

#[test]
fn a_list_of_hosts_permits_open_addresses() {
    run(async {
        let rig = Rig::new(1);
        let mut options = rig.options(vec![]);
        options.nvme = vec!["0.0.0.0:0".into()];
        options.nvme_hosts = Some(rig.folder.path().join("hosts.toml"));
        let process = Process::start(options.clone()).await.unwrap();
        process.stop().await;
        std::fs::write(options.nvme_hosts.as_ref().unwrap(), "host = 1").unwrap();
        assert!(Process::start(options).await.err().unwrap().message.contains("mode"));
    });
}

#[test]
fn what_is_logged_of_a_call_has_no_secret() {
    assert!(!format!("{:?}", set(HOST)).contains("DHHC"));
    assert!(format!("{:?}", set(HOST)).contains(HOST));
}
