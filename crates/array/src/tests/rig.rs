//! A process over files of a folder.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::api::{Answer, Call, Group, NewGroup, NewVolume, State};
use crate::error::{Error, Kind};
use crate::{Client, Options, make_file};

/// Time that work in the background may take.
const LONG: Duration = Duration::from_secs(120);

pub(super) struct Rig {
    pub(super) folder: tempfile::TempDir,
}

impl Rig {
    /// A folder with `members` files of 20 MiB.
    pub(super) fn new(members: usize) -> Rig {
        let rig = Rig { folder: tempfile::tempdir().unwrap() };
        (0..members).for_each(|i| make_file(&rig.member(i), 20 << 20).unwrap());
        rig
    }

    pub(super) fn member(&self, i: usize) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(format!("m{i:02}"))
    }

    pub(super) fn members(&self, which: std::ops::Range<usize>) -> Vec<PathBuf> {
        which.map(|i| self.member(i)).collect()
    }

    pub(super) fn options(&self, drives: Vec<PathBuf>) -> Options {
        let nbd = format!("unix:{}", self.folder.path().join("nbd.sock").display());
        Options {
            drives,
            socket: self.folder.path().join("array.sock"),
            nbd: vec![nbd.parse().unwrap()],
            ..Options::default()
        }
    }

    pub(super) fn client(&self) -> Client {
        Client::new(&self.folder.path().join("array.sock"))
    }

    pub(super) fn new_group(&self, level: &str, members: std::ops::Range<usize>) -> NewGroup {
        NewGroup {
            name: Some("tank".into()),
            level: level.into(),
            strip: 64 << 10,
            policy: "journal".into(),
            journal: 1 << 20,
            drives: self.members(members),
            spares: vec![],
            force: false,
            shared_domains: false,
        }
    }
}

/// Makes a virtual drive of all that is free in the group `tank`.
pub(super) fn all_of_it() -> Call {
    Call::CreateVolume(NewVolume { group: "tank".into(), ..NewVolume::default() })
}

/// Makes a virtual drive of this name and size in the group `tank`.
pub(super) fn volume_of(name: &str, size: Option<u64>) -> Call {
    Call::CreateVolume(NewVolume {
        group: "tank".into(),
        name: Some(name.into()),
        size,
        ..NewVolume::default()
    })
}

/// A runtime for one test.
pub(super) fn run<F: Future<Output = ()>>(test: F) {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(test);
}

/// The call, which must fail like this.
pub(super) async fn fails(client: &Client, call: Call, kind: Kind, part: &str) {
    let before = stable(client.state().await.unwrap());
    let error: Error = client.call(&call).await.expect_err("it is refused");
    assert!(error.kind == kind && error.message.contains(part), "{error:?} is not {kind:?} with {part:?}");
    assert_eq!(stable(client.state().await.unwrap()), before, "nothing changes");
}

/// Without what changes by itself.
fn stable(mut state: State) -> State {
    state.uptime_s = 0;
    // The end of a connection is noticed a while after its client has gone.
    state.nbd.connections = 0;
    for group in &mut state.groups {
        (group.counters, group.rebuild) = (Default::default(), None);
        group.rebuild_coder.clear();
    }
    state
}

pub(super) fn only(answer: &Answer) -> &Group {
    assert_eq!(answer.groups.len(), 1);
    &answer.groups[0]
}

/// Waits until the group is like this.
pub(super) async fn until(client: &Client, what: &str, is: impl Fn(&Group) -> bool) -> Group {
    let end = Instant::now() + LONG;
    loop {
        let state = client.state().await.unwrap();
        if let Some(group) = state.groups.iter().find(|g| is(g)) {
            return group.clone();
        }
        assert!(Instant::now() < end, "{what}: {:?}", state.groups);
        ashlar_environment::time::sleep(Duration::from_millis(20)).await;
    }
}
