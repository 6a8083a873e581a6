//! The state machine as tables, what hosts are told, the bytes of the report and of the log page, and the wait for commands.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::command::{Request, report};
use super::known::page;
use super::notice::{MOST, NoticeKind};
use super::state::MOST_REGISTRANTS;
use super::{Class, HostId, Refusal, ReservationType, Reservations};
use crate::command::{Command, io};
use crate::status;
use ReservationType::*;

const A: HostId = [0xa; 16];
const B: HostId = [0xb; 16];
const C: HostId = [0xc; 16];
const D: HostId = [0xd; 16];

/// The key of a host.
fn key(host: &HostId) -> u64 {
    host[0].into()
}

fn run(all: &Reservations, host: &HostId, request: Request) -> Result<(), Refusal> {
    all.change(|state| request.apply(state, host, "nqn.a"))
}

/// A holds the reservation, B and D are registered, C is not.
fn held(kind: ReservationType) -> Reservations {
    let all = Reservations::new();
    for host in [A, B, D] {
        run(&all, &host, Request::Register { key: key(&host) }).unwrap();
    }
    run(&all, &A, Request::Acquire { key: key(&A), kind }).unwrap();
    all
}

/// The type, the registrants and the holders.
fn seen(all: &Reservations) -> (Option<ReservationType>, Vec<HostId>, Vec<HostId>) {
    let status = all.status();
    let hosts =
        |holders: bool| status.registrants.iter().filter(|r| r.holder || !holders).map(|r| r.host).collect();
    (status.kind, hosts(false), hosts(true))
}

fn told(all: &Reservations, host: &HostId) -> Vec<NoticeKind> {
    all.notices(host, 0).1
}

/// Another type.
fn other(kind: ReservationType) -> ReservationType {
    ReservationType::ALL[usize::from(kind.code() % 6)]
}

const TYPES: [ReservationType; 6] = ReservationType::ALL;

#[test]
fn types_have_their_numbers_and_names() {
    let expected = [
        "write-exclusive",
        "exclusive-access",
        "write-exclusive-registrants-only",
        "exclusive-access-registrants-only",
        "write-exclusive-all-registrants",
        "exclusive-access-all-registrants",
    ];
    for (code, (kind, name)) in (1..).zip(TYPES.into_iter().zip(expected)) {
        assert_eq!((kind.code(), kind.to_string().as_str()), (code, name));
        assert_eq!(ReservationType::of_code(code), Some(kind));
    }
    assert!([0, 7, 255].map(ReservationType::of_code).iter().all(Option::is_none));
}

/// What a type lets the holder, another registrant and another host do: the table of the specification.
#[test]
fn access_by_type_and_role() {
    for (kind, holder, registrant, none) in [
        (WriteExclusive, "rw", "r-", "r-"),
        (ExclusiveAccess, "rw", "--", "--"),
        (WriteExclusiveRegistrantsOnly, "rw", "rw", "r-"),
        (ExclusiveAccessRegistrantsOnly, "rw", "rw", "--"),
        (WriteExclusiveAllRegistrants, "rw", "rw", "r-"),
        (ExclusiveAccessAllRegistrants, "rw", "rw", "--"),
    ] {
        let all = held(kind);
        for (host, expected) in [(A, holder), (B, registrant), (C, none)] {
            let can = |class| all.admit(&host, class).is_ok();
            let r = if can(Class::Read) { 'r' } else { '-' };
            let w = if can(Class::Write) { 'w' } else { '-' };
            assert_eq!(format!("{r}{w}"), expected, "{kind}, host {:x}", host[0]);
        }
        // Without a reservation everything is permitted, registered or not.
        run(&all, &A, Request::Release { key: key(&A), kind }).unwrap();
        for host in [A, B, C] {
            assert!(all.admit(&host, Class::Read).is_ok() && all.admit(&host, Class::Write).is_ok());
        }
    }
}

/// Commands by type and role, with what they answer and leave.
#[test]
fn commands_by_type_and_role() {
    use Refusal::{Conflict, Invalid};
    for kind in TYPES {
        let by_all = kind.code() >= 5;
        let everyone = vec![A, B, D];
        let holders = if by_all { everyone.clone() } else { vec![A] };
        let same = (Some(kind), everyone.clone(), holders.clone());
        let free = (None, everyone.clone(), vec![]);
        let unregistered = |gone: HostId, kept: Option<ReservationType>| {
            let left: Vec<HostId> = everyone.iter().copied().filter(|h| *h != gone).collect();
            let holding = if kept.is_none() {
                vec![]
            } else if by_all {
                left.clone()
            } else {
                vec![A]
            };
            (kept, left, holding)
        };
        let new = other(kind);
        let taken = |by: HostId, left: Vec<HostId>| {
            let holding = if new.code() >= 5 { left.clone() } else { vec![by] };
            (Some(new), left, holding)
        };
        for host in [A, B, C] {
            let (role, k) = (host[0], key(&host));
            let holds = host == A || by_all && host == B;
            let registered = host != C;
            let check = |what: &str, request: Request, answer: Result<(), Refusal>, after| {
                let all = held(kind);
                let generation = all.status().generation;
                assert_eq!(run(&all, &host, request), answer, "{what} by {role:x} under {kind}");
                assert_eq!(seen(&all), after, "{what} by {role:x} under {kind}");
                let counts = !matches!(request, Request::Acquire { .. } | Request::Release { .. });
                let grown = u32::from(answer.is_ok() && counts);
                assert_eq!(all.status().generation, generation + grown, "{what} by {role:x}");
            };
            // What only a registrant may, with its key.
            let member = |answer: Result<(), Refusal>, after: (_, _, _)| {
                if registered { (answer, after) } else { (Err(Conflict), same.clone()) }
            };
            let (answer, after) = if registered {
                (Err(Conflict), same.clone())
            } else {
                let all = vec![A, B, D, C];
                (Ok(()), (Some(kind), all.clone(), if by_all { all } else { vec![A] }))
            };
            check("register another key", Request::Register { key: 0x99 }, answer, after);
            if registered {
                check("register again", Request::Register { key: k }, Ok(()), same.clone());
            }
            let (answer, after) = member(Ok(()), same.clone());
            check("replace", Request::Replace { current: Some(k), key: 1 }, answer, after.clone());
            check("replace, any key", Request::Replace { current: None, key: 1 }, answer, after);
            check(
                "replace, wrong key",
                Request::Replace { current: Some(9), key: 1 },
                Err(Conflict),
                same.clone(),
            );
            let kept = (host != A || by_all).then_some(kind);
            let (answer, after) = member(Ok(()), unregistered(host, kept));
            check("unregister", Request::Unregister { current: Some(k) }, answer, after.clone());
            check("unregister, any key", Request::Unregister { current: None }, answer, after);
            check(
                "unregister, wrong key",
                Request::Unregister { current: Some(9) },
                Err(Conflict),
                same.clone(),
            );
            let answer = if holds { Ok(()) } else { Err(Conflict) };
            check("acquire", Request::Acquire { key: k, kind }, answer, same.clone());
            check("acquire, other type", Request::Acquire { key: k, kind: new }, Err(Conflict), same.clone());
            check("acquire, wrong key", Request::Acquire { key: 9, kind }, Err(Conflict), same.clone());
            let (answer, after) = member(Ok(()), if holds { free.clone() } else { same.clone() });
            check("release", Request::Release { key: k, kind }, answer, after);
            let (answer, after) = member(if holds { Err(Invalid) } else { Ok(()) }, same.clone());
            check("release, other type", Request::Release { key: k, kind: new }, answer, after);
            check("release, wrong key", Request::Release { key: 9, kind }, Err(Conflict), same.clone());
            let (answer, after) = member(Ok(()), (None, vec![], vec![]));
            check("clear", Request::Clear { key: k }, answer, after);
            check("clear, wrong key", Request::Clear { key: 9 }, Err(Conflict), same.clone());
            // Preempt: the holder, a registrant that is none, nobody, and all.
            let preempt = |of| Request::Preempt { key: k, of, kind: new };
            let after = match (by_all, host) {
                (true, _) => unregistered(A, Some(kind)),
                (false, A) => taken(A, everyone.clone()),
                (false, host) => taken(host, vec![B, D]),
            };
            let (answer, after) = member(Ok(()), after);
            check("preempt A", preempt(key(&A)), answer, after);
            let (answer, after) = member(Ok(()), unregistered(D, Some(kind)));
            check("preempt D", preempt(key(&D)), answer, after);
            check("preempt nobody", preempt(0x77), Err(Conflict), same.clone());
            let (answer, after) = if by_all {
                member(Ok(()), taken(host, vec![host]))
            } else {
                member(Err(Invalid), same.clone())
            };
            check("preempt 0", preempt(0), answer, after);
            let wrong = Request::Preempt { key: 9, of: key(&A), kind: new };
            check("preempt, wrong key", wrong, Err(Conflict), same.clone());
        }
    }
}

#[test]
fn preemption_without_a_reservation_removes_registrations_only() {
    let all = held(WriteExclusive);
    run(&all, &A, Request::Release { key: key(&A), kind: WriteExclusive }).unwrap();
    let preempt = |of| Request::Preempt { key: key(&B), of, kind: ExclusiveAccess };
    assert_eq!(run(&all, &B, preempt(0)), Err(Refusal::Conflict), "nobody has this key");
    run(&all, &B, preempt(key(&A))).unwrap();
    assert_eq!(seen(&all), (None, vec![B, D], vec![]));
}

#[test]
fn hosts_that_share_a_key_are_preempted_together_except_the_one_that_asks() {
    let all = Reservations::new();
    for host in [A, B, C, D] {
        run(&all, &host, Request::Register { key: if host == D { 2 } else { 1 } }).unwrap();
    }
    run(&all, &A, Request::Acquire { key: 1, kind: WriteExclusive }).unwrap();
    run(&all, &B, Request::Preempt { key: 1, of: 1, kind: WriteExclusive }).unwrap();
    assert_eq!(seen(&all), (Some(WriteExclusive), vec![B, D], vec![B]));
    assert_eq!([A, B, C, D].map(|h| told(&all, &h).len()), [1, 0, 1, 0]);
}

#[test]
fn a_reservation_of_all_registrants_ends_with_the_last() {
    let all = held(ExclusiveAccessAllRegistrants);
    for host in [A, D, B] {
        assert!(all.admit(&C, Class::Read).is_err());
        run(&all, &host, Request::Unregister { current: None }).unwrap();
    }
    assert_eq!(seen(&all), (None, vec![], vec![]));
    assert!(all.admit(&C, Class::Write).is_ok());
    assert!([A, B, D].iter().all(|h| told(&all, h).is_empty()));
}

#[test]
fn hosts_are_told_what_happens_to_them() {
    use NoticeKind::{Preempted, RegistrationPreempted, Released};
    for kind in TYPES {
        let group = kind.code() >= 3;
        let released = if group { vec![Released] } else { vec![] };
        // The holder releases: registrants may have waited for it.
        let all = held(kind);
        run(&all, &A, Request::Release { key: key(&A), kind }).unwrap();
        assert_eq!([A, B, D].map(|h| told(&all, &h)), [vec![], released.clone(), released.clone()], "{kind}");
        // It unregisters.
        let all = held(kind);
        run(&all, &A, Request::Unregister { current: None }).unwrap();
        let expected = if kind.code() >= 5 { vec![] } else { released.clone() };
        assert_eq!([A, B, D].map(|h| told(&all, &h)), [vec![], expected.clone(), expected], "{kind}");
        // It is preempted, by the same type or another one.
        if kind.code() < 5 {
            for (new, rest) in [(kind, vec![]), (other(kind), vec![Released])] {
                let all = held(kind);
                run(&all, &B, Request::Preempt { key: key(&B), of: key(&A), kind: new }).unwrap();
                let seen = [A, B, D].map(|h| told(&all, &h));
                assert_eq!(seen, [vec![RegistrationPreempted], vec![], rest], "{kind}");
            }
        }
        // A registrant clears, and an operator.
        let all = held(kind);
        run(&all, &B, Request::Clear { key: key(&B) }).unwrap();
        assert_eq!([A, B, D].map(|h| told(&all, &h)), [vec![Preempted], vec![], vec![Preempted]]);
        let all = held(kind);
        assert!(all.clear() && !all.clear());
        assert_eq!([A, B, D].map(|h| told(&all, &h)), [vec![Preempted], vec![Preempted], vec![Preempted]]);
        assert!(all.admit(&C, Class::Write).is_ok());
        let all = held(kind);
        all.forget();
        assert!(all.admit(&C, Class::Write).is_ok() && told(&all, &B).is_empty());
        assert_eq!(all.status(), super::ReservationStatus::default());
    }
}

#[test]
fn registrants_and_notices_are_bounded() {
    let all = Reservations::new();
    let host = |n: usize| {
        let mut id = [1; 16];
        id[..8].copy_from_slice(&(n as u64).to_le_bytes());
        id
    };
    for n in 0..MOST_REGISTRANTS {
        run(&all, &host(n), Request::Register { key: 7 }).unwrap();
    }
    assert_eq!(run(&all, &A, Request::Register { key: 7 }), Err(Refusal::Full));
    run(&all, &host(3), Request::Register { key: 7 }).unwrap();
    let kind = WriteExclusiveRegistrantsOnly;
    for _ in 0..=MOST {
        run(&all, &host(0), Request::Acquire { key: 7, kind }).unwrap();
        run(&all, &host(0), Request::Release { key: 7, kind }).unwrap();
    }
    let (last, few) = all.notices(&host(1), 0);
    assert!(!few.is_empty() && few.len() <= MOST / (MOST_REGISTRANTS - 1) + 1);
    assert_eq!(all.notices(&host(1), last), (last, vec![]));
}

/// Written down by hand, from the figures of the specification.
#[test]
fn the_report_and_the_log_page_byte_for_byte() {
    let all = Reservations::new();
    let a: HostId = *b"0123456789abcdef";
    all.change(|s| s.register(&a, "nqn.a", 0x0102_0304_0506_0708)).unwrap();
    all.change(|s| s.register(&B, "nqn.b", 0xb)).unwrap();
    all.change(|s| s.acquire(&B, 0xb, WriteExclusiveRegistrantsOnly)).unwrap();
    let mut expected = vec![2, 0, 0, 0, 3, 2, 0, 0, 0, 0];
    expected.resize(64, 0);
    expected.extend([0xff, 0xff, 0, 0, 0, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1]);
    expected.extend(b"0123456789abcdef");
    expected.resize(128, 0);
    expected.extend([0xff, 0xff, 1, 0, 0, 0, 0, 0, 0xb, 0, 0, 0, 0, 0, 0, 0]);
    expected.extend([0xb; 16]);
    expected.resize(192, 0);
    assert_eq!(report(&all.status(), 192), expected);
    assert_eq!(report(&all.status(), 72), expected[..72]);
    assert_eq!(report(&all.status(), 196), [&expected[..], &[0; 4]].concat());
    assert_eq!(report(&Reservations::new().status(), 64), [0; 64]);
    let mut expected = [0; 64];
    expected[..16].copy_from_slice(&[5, 1, 0, 0, 0, 0, 0, 0, 2, 9, 0, 0, 4, 3, 2, 1]);
    assert_eq!(page(Some((0x105, NoticeKind::Released, 0x0102_0304)), 9), expected);
    assert_eq!(page(None, 0), [0; 64]);
}

#[test]
fn fields_of_commands() {
    let data: Vec<u8> = [5u64, 6].into_iter().flat_map(u64::to_le_bytes).collect();
    let of = |opcode: u8, dword: u32, eds: u32, data: &[u8], room: usize| {
        let command = crate::samples::command(opcode, 1, 1, [dword, eds, 0, 0, 0, 0]);
        Request::decode(&Command(command), data, room)
    };
    let register = |dword| of(io::RESERVATION_REGISTER, dword, 0, &data, 0);
    assert_eq!(register(0), Ok(Request::Register { key: 6 }));
    assert_eq!(register(1), Ok(Request::Unregister { current: Some(5) }));
    assert_eq!(register(1 | 1 << 3), Ok(Request::Unregister { current: None }));
    assert_eq!(register(2), Ok(Request::Replace { current: Some(5), key: 6 }));
    assert_eq!(register(2 | 1 << 3), Ok(Request::Replace { current: None, key: 6 }));
    assert_eq!(register(3), Err(status::INVALID_FIELD));
    // Persistence: to switch it off is no change, to switch it on cannot be had.
    assert_eq!(register(2 << 30), Ok(Request::Register { key: 6 }));
    assert_eq!([register(1 << 30), register(3 << 30)], [Err(status::INVALID_FIELD); 2]);
    let acquire = |dword| of(io::RESERVATION_ACQUIRE, dword, 0, &data, 0);
    assert_eq!(acquire(1 << 8), Ok(Request::Acquire { key: 5, kind: WriteExclusive }));
    for abort in [1, 2] {
        let expected = Request::Preempt { key: 5, of: 6, kind: ExclusiveAccessAllRegistrants };
        assert_eq!(acquire(abort | 6 << 8), Ok(expected));
    }
    for dword in [0, 7 << 8, 3 | 1 << 8, 1 << 3 | 1 << 8] {
        assert_eq!(acquire(dword), Err(status::INVALID_FIELD), "{dword:#x}");
    }
    let release = |dword| of(io::RESERVATION_RELEASE, dword, 0, &data[..8], 0);
    assert_eq!(release(2 << 8), Ok(Request::Release { key: 5, kind: ExclusiveAccess }));
    assert_eq!(release(1), Ok(Request::Clear { key: 5 }), "the type is not looked at");
    assert_eq!([release(0), release(2), release(1 << 3 | 1)], [Err(status::INVALID_FIELD); 3]);
    let of_report = |dword, eds, room| of(io::RESERVATION_REPORT, dword, eds, b"", room);
    assert_eq!(of_report(15, 1, 64), Ok(Request::Report { len: 64 }));
    assert_eq!(of_report(15, 0, 64), Err(status::HOST_IDENTIFIER_FORMAT));
    assert_eq!([of_report(16, 1, 64), of_report(u32::MAX, 1, 64)], [Err(status::SGL_LENGTH); 2]);
    for (opcode, len) in
        [(io::RESERVATION_REGISTER, 15), (io::RESERVATION_ACQUIRE, 8), (io::RESERVATION_RELEASE, 7)]
    {
        assert_eq!(of(opcode, 1 << 8, 0, &data[..len], 0), Err(status::SGL_LENGTH));
    }
}

#[test]
fn a_host_without_an_identifier_reserves_nothing() {
    let all = Reservations::new();
    let register = Request::Register { key: 1 };
    assert_eq!(register.perform(&all, &[0; 16], "nqn.a"), Err(status::COMMAND_SEQUENCE));
    assert_eq!(Request::Report { len: 64 }.perform(&all, &[0; 16], "nqn.a"), Ok(vec![0; 64]));
}

#[test]
fn a_change_waits_for_commands_of_before_and_for_no_others() {
    let all = Arc::new(held(WriteExclusiveRegistrantsOnly));
    let early = all.admit(&B, Class::Write).unwrap();
    // Not a change of rights: nothing of before is there to wait for.
    run(&all, &A, Request::Replace { current: None, key: 0xaa }).unwrap();
    all.wait();
    run(&all, &A, Request::Preempt { key: 0xaa, of: key(&B), kind: WriteExclusive }).unwrap();
    let late = all.admit(&A, Class::Write).unwrap();
    // A further change must not make it forget what was before the first.
    run(&all, &D, Request::Unregister { current: None }).unwrap();
    assert!(all.admit(&B, Class::Write).is_err(), "it is in force at once");
    let done = Arc::new(AtomicBool::new(false));
    let (mine, flag) = (all.clone(), done.clone());
    let waiting = thread::spawn(move || {
        mine.wait();
        assert!(flag.load(Ordering::SeqCst), "it has not waited");
    });
    thread::sleep(Duration::from_millis(50));
    drop(late);
    thread::sleep(Duration::from_millis(50));
    done.store(true, Ordering::SeqCst);
    drop(early);
    waiting.join().unwrap();
    all.wait();
}

/// Two hosts preempt each other while both write: whoever was preempted writes nothing after that was answered.
#[test]
fn nobody_writes_after_a_preemption_was_answered() {
    let all = Arc::new(Reservations::new());
    let kind = WriteExclusive;
    // Whose writes must not be executed: 1 A, 2 B.
    let fenced = Arc::new(AtomicU64::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    run(&all, &A, Request::Register { key: 0xa }).unwrap();
    run(&all, &A, Request::Acquire { key: 0xa, kind }).unwrap();
    let written = AtomicU64::new(0);
    thread::scope(|scope| {
        for (host, bit) in [(A, 1u64), (B, 2), (A, 1), (B, 2)] {
            let (all, fenced, stop, written) = (all.clone(), fenced.clone(), stop.clone(), &written);
            scope.spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    let Ok(_admitted) = all.admit(&host, Class::Write) else {
                        thread::yield_now();
                        continue;
                    };
                    for _ in 0..3 {
                        if fenced.load(Ordering::SeqCst) & bit != 0 {
                            stop.store(true, Ordering::SeqCst);
                            panic!("a write after the answer");
                        }
                        thread::yield_now();
                    }
                    written.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        let mut turn = 0;
        while !stop.load(Ordering::SeqCst) && (turn < 2000 || written.load(Ordering::SeqCst) < 2000) {
            let (new, old, bit) = if turn % 2 == 0 { (B, A, 1) } else { (A, B, 2) };
            run(&all, &new, Request::Register { key: key(&new) }).unwrap();
            // The one that was fenced before gets its rights with the preemption.
            fenced.store(0, Ordering::SeqCst);
            run(&all, &new, Request::Preempt { key: key(&new), of: key(&old), kind }).unwrap();
            all.wait();
            fenced.store(bit, Ordering::SeqCst);
            turn += 1;
            thread::yield_now();
        }
        stop.store(true, Ordering::SeqCst);
    });
}
