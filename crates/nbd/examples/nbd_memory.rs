//! Serves a device in memory, to measure what the protocol costs: `nbd_memory ENDPOINT SIZE_MIB`.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it never runs in a simulation")]

use ashlar_nbd::{Limits, Memory, Server};

/// That of the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let endpoint = arguments.next().unwrap_or_else(|| "127.0.0.1:10809".to_owned());
    let size = arguments.next().and_then(|s| s.parse::<u64>().ok()).unwrap_or(256) << 20;
    let endpoint = endpoint.parse().expect("HOST:PORT or unix:PATH");
    let server = Server::start(&[endpoint], Memory::new(size).exports(), None, Limits::default());
    let server = server.expect("it listens");
    println!("{}", server.endpoints()[0]);
    loop {
        std::thread::park();
    }
}
