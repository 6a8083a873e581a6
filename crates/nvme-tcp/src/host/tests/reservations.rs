//! A namespace that another host has reserved: the error says so, at once, also if the target does not say that a repetition is in vain.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::rig::*;
use crate::error::Error;
use crate::host::RemoteNamespace;
use crate::memory::Memory;
use crate::namespace::Namespace as _;
use crate::pdu::{digest, kind, u16_at};
use crate::reservation::ReservationType;
use crate::samples::NQN;
use crate::status;

fn reserved(memory: &Memory, kind: ReservationType) {
    let all = memory.reservations().unwrap();
    all.change(|s| s.register(&[9; 16], "nqn.another", 1)).unwrap();
    all.change(|s| s.acquire(&[9; 16], 1, kind)).unwrap();
}

fn refused(result: Result<(), Error>) -> bool {
    let said = result.as_ref().map_err(ToString::to_string);
    let named = said.as_ref().err().is_some_and(|e| e.contains("another host has reserved the namespace"));
    named && matches!(result, Err(Error::Reserved { .. }))
}

#[test]
fn what_another_host_has_reserved_is_refused_and_works_again_afterwards() {
    let memory = Memory::new(4096, 64);
    let target = Target::of(only(memory.clone()));
    let namespace = target.namespace(options());
    let mut out = vec![0; 4096];
    namespace.write(0, &[1; 4096]).unwrap();
    namespace.flush().unwrap();
    reserved(&memory, ReservationType::WriteExclusive);
    namespace.read(0, &mut out).unwrap();
    assert!(refused(namespace.write(0, &[2; 4096])) && refused(namespace.flush()));
    assert!(refused(namespace.zero(0, 4096)) && refused(namespace.discard(0, 4096)));
    if let Some(pending) = namespace.submit_write(4096, &[&[2; 4096]]) {
        assert!(refused(pending.wait().map(drop)));
    }
    assert!(memory.reservations().unwrap().clear());
    reserved(&memory, ReservationType::ExclusiveAccess);
    assert!(refused(namespace.read(0, &mut out)));
    assert!(namespace.gone().is_none() && namespace.losses() == 0, "its paths are what they were");
    assert!(memory.reservations().unwrap().clear());
    namespace.write(0, &[3; 4096]).unwrap();
    namespace.flush().unwrap();
    namespace.read(0, &mut out).unwrap();
    assert_eq!(out, [3; 4096]);
}

#[test]
fn a_conflict_that_could_be_repeated_is_not() {
    let memory = Memory::new(4096, 64);
    let target = Target::of(only(memory.clone()));
    let conflicts = Arc::new(AtomicU64::new(0));
    let seen = conflicts.clone();
    let proxy = Proxy::before(target.address, move |pdu| {
        let at = 8 + 14;
        if pdu[0] == kind::RESPONSE && u16_at(pdu, at) >> 1 == status::RESERVATION_CONFLICT {
            seen.fetch_add(1, Ordering::SeqCst);
            let status = (status::RESERVATION_CONFLICT & !status::DNR) << 1;
            pdu[at..at + 2].copy_from_slice(&status.to_le_bytes());
            let sum = digest(&[&pdu[..24]]);
            pdu[24..28].copy_from_slice(&sum);
        }
        Fate::Pass
    });
    let namespace = RemoteNamespace::attach(&at(proxy.address, NQN, 1), options()).unwrap();
    reserved(&memory, ReservationType::WriteExclusive);
    assert!(refused(namespace.write(0, &[2; 4096])));
    assert_eq!(conflicts.load(Ordering::SeqCst), 1);
}
