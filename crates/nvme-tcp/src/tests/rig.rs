//! A host of a few lines, over a socket.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use crate::command::SQE;
use crate::memory::{Alone, Memory, Only};
use crate::namespace::Namespace;
use crate::pdu::*;
use crate::samples::{self, ANY, Digests, ENABLED, NQN};
use crate::server::{Limits, Server};

pub(super) const LONG: Duration = Duration::from_secs(60);
pub(super) const OFF: Digests = Digests { header: false, data: false };
pub(super) const ON: Digests = Digests { header: true, data: true };

/// A server of one namespace in memory, of `blocks` blocks of `block` bytes.
pub(super) fn serve(block: u32, blocks: u64) -> Server {
    serve_namespace(Memory::new(block, blocks), Limits::default())
}

pub(super) fn serve_namespace(namespace: Arc<dyn Namespace>, limits: Limits) -> Server {
    let alone = Alone::new(NQN, namespace);
    Server::start(&["127.0.0.1:0".to_owned()], Arc::new(Only(Arc::new(alone))), limits).unwrap()
}

/// A PDU from the target.
pub(super) struct Pdu {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) header: Vec<u8>,
    pub(super) data: Vec<u8>,
}

/// What a command answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Done {
    /// Status, without the phase tag.
    pub(super) status: u16,
    pub(super) result: u64,
    pub(super) data: Vec<u8>,
    pub(super) head: u16,
}

/// A connection of a host, which waits for each answer.
pub(super) struct Host {
    pub(super) socket: TcpStream,
    digests: Digests,
    /// The controller.
    pub(super) controller: u16,
    /// PDUs of data that the last command has sent.
    pub(super) asked: usize,
}

impl Host {
    /// A connection after `ICResp`.
    pub(super) fn open(address: SocketAddr, digests: Digests, align: u8) -> Host {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(LONG)).unwrap();
        let mut host = Host { socket, digests: OFF, controller: 0, asked: 0 };
        host.send(&samples::ic_req(digests, align));
        let agreed = host.receive().unwrap();
        assert_eq!((agreed.kind, agreed.header.len()), (kind::IC_RESP, IC));
        host.digests = digests;
        host
    }

    /// An admin queue of a controller that is ready.
    pub(super) fn admin(server: &Server, nqn: &str, kato: u32) -> Host {
        Host::admin_with(server, nqn, kato, OFF)
    }

    pub(super) fn admin_with(server: &Server, nqn: &str, kato: u32, digests: Digests) -> Host {
        let mut host = Host::open(server.addresses()[0], digests, 0);
        let (command, data) = samples::connect(0, ANY, nqn, 32, 0, kato);
        let done = host.call(&command, &data, true);
        assert_eq!(done.status, 0);
        host.controller = done.result as u16;
        assert_eq!(host.ask(&samples::property_set(2, 0x14, ENABLED)).status, 0);
        assert_eq!(host.ask(&samples::property_get(3, 0x1c, false)).result, 1, "it is ready");
        host
    }

    /// An I/O queue of the controller. `flags`: attributes of Connect.
    pub(super) fn io(server: &Server, admin: &Host, digests: Digests, align: u8, flags: u8) -> Host {
        let mut host = Host::open(server.addresses()[0], digests, align);
        let (command, data) = samples::connect(1, admin.controller, NQN, 64, flags, 0);
        assert_eq!(host.call(&command, &data, true).status, 0);
        host
    }

    pub(super) fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    /// Sends a command, without waiting.
    pub(super) fn submit(&mut self, command: &[u8; SQE], data: &[u8]) {
        self.send(&samples::capsule(command, data, self.digests));
    }

    /// The next PDU, whose digests are right. None: the target has ended the connection.
    pub(super) fn receive(&mut self) -> Option<Pdu> {
        let mut first = [0; COMMON];
        self.socket.read_exact(&mut first).ok()?;
        let (kind, flags, len) = (first[0], first[1], usize::from(first[2]));
        let (pdo, plen) = (usize::from(first[3]), u32_at(&first, 4) as usize);
        let mut rest = vec![0; plen - COMMON];
        self.socket.read_exact(&mut rest).unwrap();
        let all = [&first[..], &rest].concat();
        let plain = [kind::IC_RESP, kind::C2H_TERM].contains(&kind);
        assert_eq!(flags & flag::HEADER_DIGEST != 0, self.digests.header && !plain);
        if self.digests.header && !plain {
            assert_eq!(digest(&[&all[..len]]), all[len..len + 4]);
        }
        let mut data = Vec::new();
        if kind == kind::C2H_TERM {
            data = all[len..].to_vec();
        } else if pdo > 0 {
            let end = plen - if self.digests.data { DIGEST } else { 0 };
            data = all[pdo..end].to_vec();
            if self.digests.data {
                assert_eq!(digest(&[&data]), all[end..]);
            }
        }
        Some(Pdu { kind, flags, header: all[..len].to_vec(), data })
    }

    /// A command without data, or with data for the host.
    pub(super) fn ask(&mut self, command: &[u8; SQE]) -> Done {
        self.call(command, b"", false)
    }

    /// A command with data: in its capsule, or when the target asks, in two PDUs.
    pub(super) fn call(&mut self, command: &[u8; SQE], data: &[u8], here: bool) -> Done {
        self.submit(command, if here { data } else { b"" });
        let id = u16_at(command, 2);
        self.asked = 0;
        let mut got = Vec::new();
        loop {
            let pdu = self.receive().expect("the target answers");
            match pdu.kind {
                kind::R2T => {
                    assert_eq!((u16_at(&pdu.header, 8), u32_at(&pdu.header, 12)), (id, 0));
                    assert_eq!(u32_at(&pdu.header, 16) as usize, data.len());
                    let (tag, half) = (u16_at(&pdu.header, 10), data.len() / 2);
                    self.asked += 1;
                    self.send(&samples::h2c(id, tag, 0, &data[..half], false, self.digests));
                    self.send(&samples::h2c(id, tag, half as u32, &data[half..], true, self.digests));
                }
                kind::C2H_DATA => {
                    assert_eq!((u16_at(&pdu.header, 8), u32_at(&pdu.header, 12)), (id, got.len() as u32));
                    assert_eq!(u32_at(&pdu.header, 16) as usize, pdu.data.len());
                    got.extend(pdu.data);
                    if pdu.flags & flag::SUCCESS != 0 {
                        return Done { status: 0, result: 0, data: got, head: 0 };
                    }
                }
                kind::RESPONSE => {
                    let done = completion(&pdu);
                    assert_eq!(u16_at(&pdu.header, 20), id);
                    return Done { data: got, ..done };
                }
                other => panic!("a PDU of type {other}"),
            }
        }
    }

    /// The fatal error status of the `C2HTermReq` that ends the connection.
    pub(super) fn fatal(&mut self) -> (u16, u32) {
        loop {
            let pdu = self.receive().expect("the target says why it ends the connection");
            if pdu.kind == kind::C2H_TERM {
                assert!(self.receive().is_none(), "nothing follows");
                return (u16_at(&pdu.header, 8), u32_at(&pdu.header, 10));
            }
        }
    }
}

pub(super) fn completion(pdu: &Pdu) -> Done {
    assert_eq!(pdu.kind, kind::RESPONSE);
    let status = u16_at(&pdu.header, 22);
    assert_eq!(status & 1, 0, "fabrics have no phase tag");
    Done {
        status: status >> 1,
        result: u64_at(&pdu.header, 8),
        data: Vec::new(),
        head: u16_at(&pdu.header, 16),
    }
}

/// A command of the range of blocks of namespace 1, with data.
pub(super) fn blocks(opcode: u8, first: u64, count: u32, flags: u32, len: usize, here: bool) -> [u8; SQE] {
    let dwords = [first as u32, (first >> 32) as u32, count.wrapping_sub(1) & 0xffff | flags, 0, 0, 0];
    samples::with_data(samples::command(opcode, 9, 1, dwords), len as u32, here)
}
