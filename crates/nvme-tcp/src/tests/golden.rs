//! Bytes that were written down by hand, from the figures of the specification.

use crate::command::{Command, Transfer, completion};
use crate::error::Error;
use crate::fuzzed;
use crate::pdu::*;
use crate::samples::{self, Digests};
use crate::status;

const PLAIN: Agreed = Agreed { header_digest: false, data_digest: false, align: 4 };

#[test]
fn digests_are_crc_32c_with_its_lowest_byte_first() {
    // RFC 3720, B.4.
    assert_eq!(digest(&[&[0; 32]]), [0xaa, 0x36, 0x91, 0x8a]);
    assert_eq!(digest(&[&[0xff; 32]]), [0x43, 0xab, 0xa8, 0x62]);
    assert_eq!(digest(&[b"1234", b"56789"]), 0xe306_9283_u32.to_le_bytes());
}

#[test]
fn pdus_of_the_target() {
    let mut expected = vec![1, 0, 128, 0, 128, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0x10, 0];
    expected.resize(128, 0);
    assert_eq!(ic_resp(&Agreed { header_digest: true, data_digest: true, align: 4 }), expected);
    let done = completion(0x0102, 5, 1, 0x0a0b, status::LBA_RANGE);
    assert_eq!(done, [2, 1, 0, 0, 0, 0, 0, 0, 5, 0, 1, 0, 0x0b, 0x0a, 0, 0x81]);
    assert_eq!(response(&done, &PLAIN), [&[5, 0, 24, 0, 24, 0, 0, 0][..], &done].concat());
    assert_eq!(
        r2t(0x0102, 3, 0x1000, &PLAIN),
        [9, 0, 24, 0, 24, 0, 0, 0, 2, 1, 3, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0]
    );
    let (head, tail) = c2h_data(7, &[1, 2], true, &PLAIN);
    assert_eq!(head, [7, 12, 24, 24, 26, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
    assert!(tail.is_empty());
    let term = c2h_term(3, 0x0405, &[9; 200]);
    assert_eq!(term[..16], [3, 0, 24, 0, 152, 0, 0, 0, 3, 0, 5, 4, 0, 0, 0, 0]);
    assert_eq!((term.len(), &term[24..]), (152, &[9; 128][..]));
}

#[test]
fn digests_and_alignment_of_data() {
    let agreed = Agreed { header_digest: true, data_digest: true, align: 64 };
    let (head, tail) = c2h_data(7, b"data", false, &agreed);
    assert_eq!(head[..8], [7, 7, 24, 64, 72, 0, 0, 0]);
    assert_eq!((head.len(), &head[24..28]), (64, &digest(&[&head[..24]])[..]));
    assert_eq!(tail, digest(&[b"data"]));
    let sent = response(&[0; 16], &agreed);
    assert_eq!((sent.len(), sent[1], sent[4]), (28, 1, 28));
}

/// Why a header is refused: status and byte.
fn refused(bytes: [u8; 8], agreed: Option<&Agreed>) -> (u16, u32) {
    match Common::decode(&bytes, agreed) {
        Err(Error::Protocol { fes, at, .. }) => (fes, at),
        other => panic!("{bytes:?}: {other:?}"),
    }
}

#[test]
fn headers_that_are_refused() {
    let on = Agreed { header_digest: true, data_digest: true, align: 4 };
    // Before ICResp, an ICReq only, and afterwards none.
    assert_eq!(refused([4, 0, 72, 0, 72, 0, 0, 0], None), (fes::SEQUENCE, 0));
    assert_eq!(refused([6, 0, 24, 24, 28, 0, 0, 0], None), (fes::SEQUENCE, 0));
    assert_eq!(refused([0, 0, 128, 0, 128, 0, 0, 0], Some(&PLAIN)), (fes::SEQUENCE, 0));
    assert_eq!(refused([0, 0, 127, 0, 128, 0, 0, 0], None), (fes::INVALID_HEADER, 2));
    assert_eq!(refused([0, 0, 128, 0, 129, 0, 0, 0], None), (fes::INVALID_HEADER, 4));
    // PDUs of the target, and unknown ones.
    for kind in [1, 3, 5, 7, 8, 9, 10, 255] {
        assert_eq!(refused([kind, 0, 24, 0, 24, 0, 0, 0], Some(&PLAIN)), (fes::INVALID_HEADER, 0));
    }
    // Lengths.
    assert_eq!(refused([4, 0, 64, 0, 72, 0, 0, 0], Some(&PLAIN)), (fes::INVALID_HEADER, 2));
    assert_eq!(refused([4, 0, 72, 0, 71, 0, 0, 0], Some(&PLAIN)), (fes::INVALID_HEADER, 3));
    assert_eq!(refused([4, 0, 72, 72, 72, 0, 0, 1], Some(&PLAIN)), (fes::LIMIT, 4));
    assert_eq!(refused([4, 0, 72, 70, 80, 0, 0, 0], Some(&PLAIN)), (fes::INVALID_HEADER, 3));
    assert_eq!(refused([4, 0, 72, 73, 80, 0, 0, 0], Some(&PLAIN)), (fes::INVALID_HEADER, 3));
    assert_eq!(refused([4, 0, 72, 200, 80, 0, 0, 0], Some(&PLAIN)), (fes::INVALID_HEADER, 4));
    assert_eq!(refused([6, 0, 24, 0, 24, 0, 0, 0], Some(&PLAIN)), (fes::INVALID_HEADER, 4));
    assert_eq!(refused([6, 0, 24, 24, 25, 0, 16, 0], Some(&PLAIN)), (fes::LIMIT, 4));
    // Digests that were not agreed on, and that are missing.
    assert_eq!(refused([4, 1, 72, 0, 76, 0, 0, 0], Some(&PLAIN)), (fes::INVALID_HEADER, 1));
    assert_eq!(refused([4, 0, 72, 0, 76, 0, 0, 0], Some(&on)), (fes::INVALID_HEADER, 1));
    assert_eq!(refused([4, 1, 72, 76, 84, 0, 0, 0], Some(&on)), (fes::INVALID_HEADER, 1));
    let whole = Common::decode(&[4, 3, 72, 76, 84, 0, 0, 0], Some(&on)).unwrap();
    assert_eq!((whole.offset, whole.data(&on)), (76, 4));
}

#[test]
fn initialization_parameters() {
    let mut bytes = [0; IC];
    bytes.copy_from_slice(&samples::ic_req(Digests { header: true, data: false }, 31));
    let agreed = Agreed { header_digest: true, data_digest: false, align: 128 };
    assert_eq!(ic_req(&bytes).unwrap(), agreed);
    for (at, fes) in [(8, fes::UNSUPPORTED), (10, fes::INVALID_HEADER)] {
        let mut wrong = bytes;
        wrong[at] = 32;
        assert!(
            matches!(ic_req(&wrong), Err(Error::Protocol { fes: f, at: a, .. }) if (f, a) == (fes, at as u32))
        );
    }
}

#[test]
fn where_data_is() {
    let of = |opcode: u8, kind: u8, len: u32, here: usize| {
        let mut command = samples::with_data(samples::command(opcode, 1, 1, [0; 6]), len, false);
        command[39] = kind;
        Command(command).transfer(here, 4096)
    };
    assert_eq!(of(1, 0x5a, 512, 0), Ok(Transfer::FromHost(512)));
    assert_eq!(of(1, 1, 512, 512), Ok(Transfer::InCapsule));
    assert_eq!(of(2, 0x5a, 512, 0), Ok(Transfer::ToHost(512)));
    assert_eq!((of(0, 0x5a, 0, 0), of(1, 0x5a, 0, 0)), (Ok(Transfer::None), Ok(Transfer::None)));
    assert_eq!((of(1, 1, 512, 0), of(1, 1, 512, 513)), (Err(status::SGL_LENGTH), Err(status::SGL_LENGTH)));
    assert_eq!((of(1, 0x5a, 4, 4), of(2, 1, 4, 0)), (Err(status::SGL_TYPE), Err(status::SGL_TYPE)));
    assert_eq!((of(1, 0x5a, 4097, 0), of(0, 0, 0, 1)), (Err(status::INVALID_FIELD), Err(status::SGL_LENGTH)));
    let mut moved = samples::with_data(samples::command(1, 1, 1, [0; 6]), 8, true);
    moved[24] = 4;
    assert_eq!(Command(moved).transfer(8, 4096), Err(status::SGL_OFFSET));
}

#[test]
fn samples_of_the_fuzzer_work() {
    fuzzed::headers().iter().for_each(|h| fuzzed::header(h));
    for sample in fuzzed::connections() {
        fuzzed::connection(&sample);
        let (output, sent) = fuzzed::session(&sample);
        assert_eq!(output.len(), sent);
        assert!(output.len() > 128 + 9 * 24, "it answers commands: {}", output.len());
        let mut at = 0;
        while at < output.len() {
            assert_ne!(output[at], kind::C2H_TERM, "it finds no error");
            at += u32_at(&output, at + 4) as usize;
        }
    }
}
