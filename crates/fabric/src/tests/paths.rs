//! ANA states of a process that serves, met by our own host while it reads and writes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ashlar_nvme_tcp::AnaState::{self, Change, Inaccessible, NonOptimized, Optimized, PersistentLoss};
use ashlar_nvme_tcp::host::{Address, HostOptions, RemoteNamespace};

use super::served::{Served, options, until};
use crate::api::{AnaSpec, Call};

fn set(served: &Served, at: &str, state: AnaState) {
    let ana = AnaSpec { at: Some(at.into()), namespaces: vec!["1/1".into()], state };
    served.call(Call::SetAna { ana }).unwrap();
}

#[test]
fn host_follows_ana_states_during_io_without_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let rest = "bays = 1\n[drive]\ncapacity = \"16MiB\"\n[[ana]]\nat = \"A2\"\nstate = \"non-optimized\"";
    let served = Served::new(folder.path(), rest);
    let nqn = served.state().drives[0].nqn.clone();
    let attach = |nsid: u32| {
        let text =
            format!("nvme-tcp://127.0.0.1:{},127.0.0.1:{}/{nqn}/{nsid}", served.ports[0], served.ports[1]);
        let address: Address = text.parse().unwrap();
        RemoteNamespace::attach(&address, HostOptions { queues: 1, ..options() }).unwrap()
    };
    let (first, second) = (attach(1), attach(2));
    let states = |n: &RemoteNamespace| -> Vec<AnaState> { n.paths().iter().map(|p| p.ana).collect() };
    until(|| states(&first) == [Optimized, NonOptimized]);
    let (ended, turns) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let (first, ended, turns) = (&first, &ended, &turns);
            scope.spawn(move || {
                let (mut turn, mut back) = (0u64, vec![0; 4096]);
                while !ended.load(Ordering::Relaxed) {
                    let at = (thread * 64 + turn % 64) * 4096;
                    let data = vec![(turn % 251) as u8; 4096];
                    first.write(at, &data).unwrap();
                    first.read(at, &mut back).unwrap();
                    assert!(back == data, "{thread} {turn}");
                    turn += 1;
                    turns.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let goes_on = || {
            let before = turns.load(Ordering::Relaxed);
            until(|| turns.load(Ordering::Relaxed) > before + 30);
        };
        let used = || served.state().ports.iter().map(|p| p.used.writes).collect::<Vec<u64>>();
        goes_on();
        assert_eq!(used()[1], 0, "the other path is better");
        for (a1, a2, taken) in [
            (Inaccessible, NonOptimized, 1),
            (NonOptimized, Optimized, 1),
            (Optimized, Inaccessible, 0),
            (PersistentLoss, Optimized, 1),
            (Optimized, Change, 0),
        ] {
            // Never no path: the better one first.
            let order = if taken == 0 { [("A1", a1), ("A2", a2)] } else { [("A2", a2), ("A1", a1)] };
            order.iter().for_each(|(at, state)| set(&served, at, *state));
            until(|| states(&first) == [a1, a2]);
            goes_on();
            let before = used();
            goes_on();
            let after = used();
            assert_eq!(after[1 - taken], before[1 - taken], "{a1} {a2}");
            // The other namespace of the drive is a group of its own.
            assert_eq!(states(&second), [Optimized, NonOptimized]);
        }
        ended.store(true, Ordering::Relaxed);
    });
    assert_eq!(first.losses(), 0);
    let state = served.state();
    assert_eq!(
        state.ana.iter().map(|e| e.namespaces.join(" ")).collect::<Vec<_>>(),
        ["1/1 1/2", "1/2", "1/1"]
    );
    let page = served.process.as_ref().map(|p| crate::metrics::text(&p.state())).unwrap();
    let shown = |port: &str, state: &str| {
        let labels = format!("port=\"{port}\",state=\"{state}\"");
        page.lines().any(|l| l.contains("port_namespaces") && l.contains(&labels) && l.ends_with(" 1"))
    };
    assert!(shown("A2", "change") && shown("A2", "non-optimized"), "{page}");
    let nothing = AnaSpec { at: Some("B".into()), namespaces: Vec::new(), state: Change };
    assert_eq!(served.call(Call::SetAna { ana: nothing }).unwrap_err().kind, crate::Kind::NotFound);
}
