//! Sockets: requests that run at the same time, memory, limits, and the end of connections and of the server.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::budget::Budget;
use crate::device::{Device, Export, Extent, Fault};
use crate::memory::{Memory, Only};
use crate::protocol::*;
use crate::samples::{export, hello, option, request};
use crate::server::{Endpoint, Limits, Server};

const LONG: Duration = Duration::from_secs(60);

/// A device whose reads at 0 wait until a write at 4096.
#[derive(Default)]
struct Waiting {
    written: Mutex<bool>,
    woken: Condvar,
}

impl Device for Waiting {
    fn size(&self) -> u64 {
        1 << 30
    }
    fn read(&self, at: u64, _: &mut [u8]) -> Result<(), Fault> {
        if at == 0 {
            let mut written = self.written.lock();
            let waited = self.woken.wait_while_for(&mut written, |w| !*w, LONG);
            assert!(!waited.timed_out(), "the write is executed while the read waits");
        }
        Ok(())
    }
    fn write(&self, _: u64, _: Vec<u8>, _: bool) -> Result<(), Fault> {
        *self.written.lock() = true;
        self.woken.notify_all();
        Ok(())
    }
    fn flush(&self) -> Result<(), Fault> {
        Ok(())
    }
    fn zero(&self, _: u64, _: u64, _: bool, _: bool) -> Result<(), Fault> {
        Ok(())
    }
    fn trim(&self, _: u64, _: u64, _: bool) -> Result<(), Fault> {
        Ok(())
    }
    fn extents(&self, _: u64, len: u64, _: usize) -> Result<Vec<Extent>, Fault> {
        Ok(vec![Extent { len, data: true }])
    }
}

fn serve(device: Arc<dyn Device>, limits: Limits, endpoints: &[Endpoint]) -> Server {
    let only = Only(Export { name: "x".into(), description: String::new(), device });
    Server::start(endpoints, Arc::new(only), None, limits).unwrap()
}

fn tcp() -> [Endpoint; 1] {
    [Endpoint::Tcp("127.0.0.1:0".into())]
}

/// A connection after its negotiation.
fn connect(server: &Server) -> TcpStream {
    let Endpoint::Tcp(address) = &server.endpoints()[0] else { panic!("TCP") };
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    socket.write_all(&[hello(), option(option::GO, &export("x", &[]))].concat()).unwrap();
    // Handshake, information, the end of the option.
    socket.read_exact(&mut [0; 18 + 20 + 12 + 20]).unwrap();
    socket
}

fn reply(socket: &mut TcpStream) -> (u32, u64) {
    let mut bytes = [0; 16];
    socket.read_exact(&mut bytes).unwrap();
    let mut r = Reader(&bytes);
    assert_eq!(r.u32(), Some(SIMPLE_REPLY));
    (r.u32().unwrap(), r.u64().unwrap())
}

fn wait(what: &str, mut is: impl FnMut() -> bool) {
    let until = Instant::now() + LONG;
    while !is() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn requests_run_at_the_same_time_and_are_answered_out_of_order() {
    let server = serve(Arc::new(Waiting::default()), Limits::default(), &tcp());
    let mut socket = connect(&server);
    let read = request(command::READ, 0, 1, 0, 1, b"");
    let write = request(command::WRITE, 0, 2, 4096, 2, b"ab");
    socket.write_all(&[read, write].concat()).unwrap();
    let mut cookies = [reply(&mut socket).1, 0];
    let mut byte = [0];
    if cookies[0] == 1 {
        socket.read_exact(&mut byte).unwrap();
    }
    cookies[1] = reply(&mut socket).1;
    cookies.sort_unstable();
    assert_eq!(cookies, [1, 2]);
}

#[test]
fn a_client_that_does_not_read_holds_no_more_than_its_share() {
    let server = serve(Memory::new(1 << 30), Limits::default(), &tcp());
    let mut greedy = connect(&server);
    let all: Vec<u8> = (0..64).flat_map(|i| request(command::READ, 0, i, 0, MAX_PAYLOAD, b"")).collect();
    greedy.write_all(&all).unwrap();
    // Another one is served meanwhile.
    let mut modest = connect(&server);
    for i in 0..10 {
        modest.write_all(&request(command::READ, 0, i, 0, 4096, b"")).unwrap();
        assert_eq!(reply(&mut modest), (0, i));
        modest.read_exact(&mut [0; 4096]).unwrap();
    }
    // The greedy one gets everything once it reads.
    let mut piece = vec![0; MAX_PAYLOAD as usize];
    for _ in 0..64 {
        assert_eq!(reply(&mut greedy).0, 0);
        greedy.read_exact(&mut piece).unwrap();
    }
}

#[test]
fn memory_is_given_back() {
    let all = Budget::new(100, None);
    let one = Budget::new(60, Some(all.clone()));
    let taken = one.take(60);
    assert_eq!((one.free(), all.free()), (0, 40));
    let waiting = std::thread::spawn({
        let one = one.clone();
        move || drop(one.take(10))
    });
    drop(taken);
    waiting.join().unwrap();
    assert_eq!((one.free(), all.free()), (60, 100));
}

#[test]
fn connections_beyond_the_limit_are_closed_and_places_become_free() {
    let limits = Limits { connections: 2, ..Limits::default() };
    let server = serve(Memory::new(4096), limits, &tcp());
    let (first, _second) = (connect(&server), connect(&server));
    let Endpoint::Tcp(address) = &server.endpoints()[0] else { panic!("TCP") };
    let mut third = TcpStream::connect(address).unwrap();
    third.set_read_timeout(Some(LONG)).unwrap();
    assert_eq!(third.read(&mut [0; 1]).unwrap_or(0), 0, "it is closed without a word");
    assert_eq!(server.statistics().refused, 1);
    drop(first);
    wait("the place is free", || server.statistics().connections == 1);
    connect(&server);
}

#[test]
fn stopping_answers_what_has_arrived() {
    let device = Arc::new(Waiting::default());
    let server = serve(device.clone(), Limits::default(), &tcp());
    let mut socket = connect(&server);
    socket.write_all(&request(command::READ, 0, 9, 0, 1, b"")).unwrap();
    wait("the read has arrived", || server.statistics().reads == 1);
    let stopping = std::thread::spawn(move || server.stop());
    device.write(0, vec![], false).unwrap();
    assert_eq!(reply(&mut socket), (0, 9));
    let mut rest = Vec::new();
    socket.read_to_end(&mut rest).unwrap();
    assert_eq!(rest.len(), 1, "the byte that was read, then the end");
    stopping.join().unwrap();
}

#[test]
fn unix_sockets_have_their_mode_and_replace_those_of_dead_servers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nbd.sock");
    let endpoint = [Endpoint::Unix(path.clone())];
    // What a killed server leaves.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let limits = Limits { socket_mode: 0o640, ..Limits::default() };
    let server = serve(Memory::new(4096), limits, &endpoint);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    let mut socket = UnixStream::connect(&path).unwrap();
    socket.read_exact(&mut [0; 18]).unwrap();
    let only = Memory::new(4096).exports();
    let second = Server::start(&endpoint, only.clone(), None, Limits::default());
    assert!(second.is_err_and(|e| e.to_string().contains("a program listens there")));
    drop(socket);
    server.stop();
    assert!(!path.exists());
    std::fs::write(&path, "precious").unwrap();
    let third = Server::start(&endpoint, only, None, Limits::default());
    assert!(third.is_err_and(|e| e.to_string().contains("no socket")));
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
}

#[test]
fn endpoints_are_parsed() {
    assert_eq!("unix:/run/x".parse(), Ok(Endpoint::Unix("/run/x".into())));
    assert_eq!("127.0.0.1:10809".parse(), Ok(Endpoint::Tcp("127.0.0.1:10809".into())));
    assert_eq!("[::1]:0".parse(), Ok(Endpoint::Tcp("[::1]:0".into())));
    for wrong in ["", "unix:", "/run/x", "host", ":10809", "host:port"] {
        assert!(wrong.parse::<Endpoint>().is_err(), "{wrong}");
    }
}
