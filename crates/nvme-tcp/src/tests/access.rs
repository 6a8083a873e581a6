//! Asymmetric namespace access: states by port and group, in the log page, in statuses and as events.

use std::net::SocketAddr;
use std::sync::Arc;

use super::rig::*;
use crate::ana::{AnaState, AnaStates};
use crate::command::{admin, io};
use crate::memory::{Memory, Only};
use crate::namespace::{Namespace, Subsystem};
use crate::pdu::{u16_at, u32_at, u64_at};
use crate::samples::{self, NQN};
use crate::server::{Limits, Server};
use crate::status;

/// Namespaces 1 to 3: 1 and 3 are in group 1, 2 is in group 2.
struct Grouped {
    memory: Arc<Memory>,
    states: AnaStates,
}

impl Subsystem for Grouped {
    fn nqn(&self) -> String {
        NQN.into()
    }
    fn serial(&self) -> String {
        "8".into()
    }
    fn model(&self) -> String {
        "Grouped".into()
    }
    fn namespaces(&self) -> Vec<u32> {
        vec![1, 2, 3]
    }
    fn namespace(&self, nsid: u32) -> Option<Arc<dyn Namespace>> {
        (1..=3).contains(&nsid).then(|| self.memory.clone() as Arc<dyn Namespace>)
    }
    fn in_service(&self) -> bool {
        true
    }
    fn ana_groups(&self) -> u32 {
        2
    }
    fn ana_group(&self, nsid: u32) -> u32 {
        2 - nsid % 2
    }
    fn ana_state(&self, port: SocketAddr, group: u32) -> AnaState {
        self.states.get(port, group)
    }
}

fn log(host: &mut Host, specific: u32, len: u32) -> Vec<u8> {
    let dwords = [0x0c | specific << 8 | (len / 4 - 1) << 16, 0, 0, 0, 0, 0];
    host.ask(&samples::with_data(samples::command(admin::GET_LOG_PAGE, 5, 0, dwords), len, false)).data
}

fn read(queue: &mut Host, nsid: u32) -> u16 {
    let command = samples::command(io::READ, 9, nsid, [0; 6]);
    queue.ask(&samples::with_data(command, 512, false)).status
}

#[test]
fn access_depends_on_the_port_and_the_group() {
    let grouped = Arc::new(Grouped { memory: Memory::new(512, 8), states: AnaStates::default() });
    let ports = ["127.0.0.1:0".to_owned(), "127.0.0.2:0".to_owned()];
    let server = Server::start(&ports, Arc::new(Only(grouped.clone())), Limits::default()).unwrap();
    let (first, second) = (server.addresses()[0], server.addresses()[1]);
    let mut host = Host::admin(&server, NQN, 0);
    let mut queue = Host::io(&server, &host, OFF, 0, 0);
    // Other ports do not matter.
    grouped.states.set(second, 1, AnaState::Inaccessible);
    let identify = |host: &mut Host, cns: u32, nsid: u32| {
        let command = samples::command(admin::IDENTIFY, 4, nsid, [cns, 0, 0, 0, 0, 0]);
        host.ask(&samples::with_data(command, 4096, false)).data
    };
    let c = identify(&mut host, 1, 0);
    assert_eq!((c[343], u32_at(&c, 344), u32_at(&c, 348)), (0x5f, 2, 2));
    assert_eq!([1, 2, 3].map(|n| u32_at(&identify(&mut host, 0, n), 92)), [1, 2, 1]);
    assert_eq!(u32_at(&identify(&mut host, 8, 2), 4), 2);
    let page = log(&mut host, 0, 16 + 64 + 12);
    assert_eq!((u64_at(&page, 0), u16_at(&page, 8)), (0, 2));
    assert_eq!((u32_at(&page, 16), u32_at(&page, 20), page[32]), (1, 2, 1));
    assert_eq!((u32_at(&page, 48), u32_at(&page, 52)), (1, 3));
    assert_eq!((u32_at(&page, 56), u32_at(&page, 60), page[72], u32_at(&page, 88)), (2, 1, 1, 2));

    let events = samples::command(admin::SET_FEATURES, 6, 0, [0x0b, 1 << 11, 0, 0, 0, 0]);
    assert_eq!(host.ask(&events).status, 0);
    for id in [20, 21] {
        host.submit(&samples::command(admin::ASYNC_EVENT, id, 0, [0; 6]), b"");
    }
    for (changes, (state, code, refused)) in (1..).zip([
        (AnaState::Inaccessible, 3, status::ANA_INACCESSIBLE),
        (AnaState::PersistentLoss, 4, status::ANA_PERSISTENT_LOSS),
        (AnaState::Change, 15, status::ANA_TRANSITION),
        (AnaState::NonOptimized, 2, 0),
        (AnaState::Optimized, 1, 0),
    ]) {
        grouped.states.set(first, 2, state);
        assert_eq!([1, 2, 3].map(|n| read(&mut queue, n)), [0, refused, 0]);
        let flush = |nsid| samples::command(io::FLUSH, 3, nsid, [0; 6]);
        assert_eq!([1, 2, u32::MAX].map(|n| queue.ask(&flush(n)).status), [0, refused, refused]);
        assert_eq!(completion(&host.receive().unwrap()).result, 0x0c_03_02);
        // Nothing is told twice before the page was read.
        let page = log(&mut host, 1, 16 + 64);
        assert_eq!((u64_at(&page, 0), u16_at(&page, 8)), (changes, 2));
        assert_eq!((u32_at(&page, 20), u64_at(&page, 24), page[32]), (0, 0, 1));
        assert_eq!((u32_at(&page, 48), u64_at(&page, 56), page[64]), (2, changes, code));
        host.submit(&samples::command(admin::ASYNC_EVENT, 21, 0, [0; 6]), b"");
    }
}
