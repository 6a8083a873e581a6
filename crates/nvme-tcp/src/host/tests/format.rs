//! What a host sends, byte for byte, and what it makes of damaged bytes.

use crate::host::fuzzed;
use crate::host::pdu::{Head, Terms, capsule, h2c_data, ic_req, ic_resp};
use crate::host::request;
use crate::pdu::{COMMON, IC, MAX_DATA};
use crate::samples;

const PLAIN: Terms = Terms { header_digest: false, data_digest: false, align: 4, max_data: MAX_DATA };

#[test]
fn pdus_are_those_of_the_samples() {
    // The samples are those that the kernel's host sends (docs/decisions/0052).
    let on = samples::Digests { header: true, data: true };
    assert_eq!(ic_req(true, true), samples::ic_req(on, 0));
    let terms = Terms { header_digest: true, data_digest: true, ..PLAIN };
    let join = |(head, tail): (Vec<u8>, Vec<u8>), data: &[u8]| [&head[..], data, &tail].concat();
    let command = request::flush(7).command;
    let header_only = samples::Digests { header: true, data: false };
    assert_eq!(join(capsule(&command, b"", &terms), b""), samples::capsule(&command, b"", header_only));
    assert_eq!(
        join(capsule(&command, &[5; 512], &terms), &[5; 512]),
        samples::capsule(&command, &[5; 512], on)
    );
    let data = h2c_data(3, 4, 512, &[6; 512], true, &terms);
    assert_eq!(join(data, &[6; 512]), samples::h2c(3, 4, 512, &[6; 512], true, on));
    // Data at a multiple of what the controller asks for.
    let (head, _) = h2c_data(3, 4, 0, &[6; 512], true, &Terms { align: 128, ..PLAIN });
    assert_eq!((head.len(), head[3], &head[4..8]), (128, 128, &640u32.to_le_bytes()[..]));
    let (connect, data) = samples::connect(0, samples::ANY, samples::NQN, 32, 0, 5000);
    let host_id = *data.first_chunk().unwrap();
    let mine = request::connect_data(&host_id, 0xffff, samples::NQN, samples::HOST);
    assert_eq!(mine, data);
    assert_eq!(request::connect(0, 32, 5000, &mine).command[40..52], connect[40..52]);
}

#[test]
fn what_a_target_may_not_send() {
    let mut good = vec![0; IC];
    good[12..16].copy_from_slice(&4096u32.to_le_bytes());
    let read = |bytes: &[u8], h, d| ic_resp(bytes.first_chunk().unwrap(), h, d);
    assert_eq!(read(&good, false, false).unwrap(), Terms { max_data: 4096, ..PLAIN });
    assert!(read(&good, true, false).is_err() && read(&good, false, true).is_err());
    for (at, value) in [(8, 1), (10, 32), (11, 1), (12, 1), (13, 0)] {
        let mut bad = good.clone();
        bad[at] = value;
        assert!(read(&bad, false, false).is_err(), "{at}");
    }
    let head = |bytes: [u8; COMMON]| Head::decode(&bytes, Some(&PLAIN), 8192);
    assert!(head([5, 0, 24, 0, 24, 0, 0, 0]).is_ok() && head([7, 12, 24, 24, 24, 32, 0, 0]).is_ok());
    for bytes in [
        [1, 0, 128, 0, 128, 0, 0, 0],
        [4, 0, 72, 0, 72, 0, 0, 0],
        [5, 0, 24, 0, 25, 0, 0, 0],
        [5, 1, 24, 0, 24, 0, 0, 0],
        [7, 8, 24, 24, 24, 1, 0, 0],
        [7, 4, 24, 0, 24, 1, 0, 0],
        [7, 4, 24, 24, 24, 0, 0, 0],
        [7, 4, 24, 24, 0, 64, 0, 0],
        [9, 0, 23, 0, 24, 0, 0, 0],
    ] {
        assert!(head(bytes).is_err(), "{bytes:?}");
    }
}

#[test]
fn samples_and_their_parts_are_read() {
    for sample in fuzzed::connections() {
        for end in (0..sample.len()).step_by(7).chain([sample.len()]) {
            fuzzed::connection(&sample[..end]);
        }
        for at in (0..sample.len()).step_by(11) {
            let mut bad = sample.clone();
            bad[at] ^= 0xff;
            fuzzed::connection(&bad);
        }
    }
    fuzzed::headers().iter().for_each(|h| fuzzed::header(h));
    fuzzed::structure_samples().iter().for_each(|s| fuzzed::structures(s));
}
