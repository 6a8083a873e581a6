//! Entry point for the fuzzer: reservation commands, from their bytes to their effect.
//!
//! Must not depend on: connections.

use crate::command::{Command, io};
use crate::reservation::command::Request;
use crate::reservation::{Class, Registrant, ReservationStatus, Reservations};

/// Bytes of a command of [`reservations`]: host, opcode, dword 10, which has its low bytes only, two keys.
const RESERVATION: usize = 6;

/// Reservation commands of a few hosts, one after another: a holder is registered, a type has the holders that it can have, rights are those of
/// the type, and what is refused changes nothing.
pub fn reservations(input: &[u8]) {
    let all = Reservations::new();
    let host = |n: u8| [n % 6; 16];
    for bytes in input.chunks_exact(RESERVATION) {
        let opcodes = [
            io::RESERVATION_REGISTER,
            io::RESERVATION_ACQUIRE,
            io::RESERVATION_RELEASE,
            io::RESERVATION_REPORT,
        ];
        let dword = u32::from(bytes[2]) | u32::from(bytes[3] & 0xf) << 8 | u32::from(bytes[3] >> 6) << 30;
        let opcode = opcodes[usize::from(bytes[1] % 4)];
        let command = crate::samples::command(opcode, 1, 1, [dword, bytes[3].into(), 0, 0, 0, 0]);
        let data: Vec<u8> =
            [bytes[4], bytes[5]].iter().flat_map(|k| u64::from(k % 8).to_le_bytes()).collect();
        let before = all.status();
        let room = usize::from(bytes[4]) * 16;
        let done = Request::decode(&Command(command), &data, room)
            .and_then(|request| request.perform(&all, &host(bytes[0]), "nqn.fuzzed"));
        all.wait();
        let after = all.status();
        match done {
            Ok(report) if opcode == io::RESERVATION_REPORT => {
                assert!(report.len() <= room && after == before)
            }
            Ok(_) => {}
            Err(_) => assert_eq!(after, before),
        }
        check(&all, &after);
    }
}

/// What always holds of reservations.
fn check(all: &Reservations, status: &ReservationStatus) {
    let registrants = &status.registrants;
    let holders = registrants.iter().filter(|r| r.holder).count();
    let expected = match status.kind {
        None => 0,
        Some(kind) if kind.is_held_by_all() => registrants.len().max(1),
        Some(_) => 1,
    };
    assert_eq!(holders, expected);
    for n in 0..6 {
        let of = |r: &&Registrant| r.host == [n; 16];
        let found: Vec<&Registrant> = registrants.iter().filter(of).collect();
        assert!(found.len() <= 1 && (n > 0 || found.is_empty()));
        let may = |class: Class| all.admit(&[n; 16], class).is_ok();
        let whole = match status.kind {
            None => true,
            Some(kind) => found.iter().any(|r| r.holder || kind.is_for_registrants()),
        };
        let reads = whole || status.kind.is_some_and(|k| k.lets_read());
        assert_eq!((may(Class::Read), may(Class::Write)), (reads, whole));
    }
}

/// Reservation commands.
#[must_use]
pub fn reservation_commands() -> Vec<Vec<u8>> {
    let register = |host| vec![host, 0, 0, 0, 0, host];
    let acquire = |host, kind| vec![host, 1, 0, kind, host, 0];
    let preempt = |host, kind, of| vec![host, 1, 1, kind, host, of];
    let release = |host, kind| vec![host, 2, 0, kind, host, 0];
    let report = vec![1, 3, 15, 1, 16, 0];
    (1..7)
        .map(|kind| {
            let first = [register(1), register(2), acquire(1, kind), report.clone(), preempt(2, kind, 1)];
            let then =
                [vec![2, 0, 2, 0, 2, 5], vec![2, 0, 10, 0, 2, 2], release(2, kind), vec![2, 2, 1, 0, 2, 0]];
            let again =
                [register(3), register(4), acquire(3, kind), preempt(4, 7 - kind, 0), vec![4, 0, 9, 0, 0, 0]];
            first.into_iter().chain(then).chain(again).flatten().collect()
        })
        .collect()
}
