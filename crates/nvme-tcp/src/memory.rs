//! A namespace in memory: for tests and the fuzzer.
//!
//! Must not depend on: the protocol.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::ana::{AnaState, AnaStates};
use crate::namespace::{Fault, Namespace, Subsystem, Subsystems};
use crate::reservation::Reservations;

/// A namespace in memory, which is also the only one of a subsystem.
pub struct Memory {
    block: u32,
    bytes: RwLock<Vec<u8>>,
    reservations: Reservations,
}

impl Memory {
    /// `blocks` blocks of `block` bytes that read as zeros.
    #[must_use]
    pub fn new(block: u32, blocks: u64) -> Arc<Memory> {
        let bytes = RwLock::new(vec![0; (blocks * u64::from(block)) as usize]);
        Arc::new(Memory { block, bytes, reservations: Reservations::new() })
    }

    /// It as number 1 of the only subsystem.
    #[must_use]
    pub fn subsystems(self: Arc<Memory>, nqn: &str) -> Arc<dyn Subsystems> {
        Arc::new(Only(Arc::new(Alone::new(nqn, self))))
    }
}

impl Namespace for Memory {
    fn block(&self) -> u32 {
        self.block
    }

    fn blocks(&self) -> u64 {
        self.bytes.read().len() as u64 / u64::from(self.block)
    }

    fn id(&self) -> [u8; 16] {
        *b"memory\x80namespace"
    }

    fn reservations(&self) -> Option<&Reservations> {
        Some(&self.reservations)
    }

    fn read(&self, at: u64, out: &mut [u8]) -> Result<(), Fault> {
        let at = at as usize;
        out.copy_from_slice(self.bytes.read().get(at..at + out.len()).ok_or(Fault::Range)?);
        Ok(())
    }

    fn write(&self, at: u64, data: Vec<u8>, _durable: bool) -> Result<(), Fault> {
        let at = at as usize;
        let mut bytes = self.bytes.write();
        bytes.get_mut(at..at + data.len()).ok_or(Fault::Range)?.copy_from_slice(&data);
        Ok(())
    }

    fn flush(&self) -> Result<(), Fault> {
        Ok(())
    }

    fn zero(&self, at: u64, len: u64, _keep: bool, _durable: bool) -> Result<(), Fault> {
        let at = at as usize;
        self.bytes.write().get_mut(at..at + len as usize).ok_or(Fault::Range)?.fill(0);
        Ok(())
    }

    fn trim(&self, at: u64, len: u64) -> Result<(), Fault> {
        self.zero(at, len, false, false)
    }
}

/// A subsystem with one namespace, all of whose ports are optimized until something else is set.
pub(crate) struct Alone {
    nqn: String,
    namespace: Arc<dyn Namespace>,
    pub(crate) states: AnaStates,
}

impl Alone {
    pub(crate) fn new(nqn: &str, namespace: Arc<dyn Namespace>) -> Alone {
        Alone { nqn: nqn.to_owned(), namespace, states: AnaStates::default() }
    }
}

impl Subsystem for Alone {
    fn nqn(&self) -> String {
        self.nqn.clone()
    }

    fn serial(&self) -> String {
        "1".into()
    }

    fn model(&self) -> String {
        "Ashlar memory".into()
    }

    fn namespaces(&self) -> Vec<u32> {
        vec![1]
    }

    fn namespace(&self, nsid: u32) -> Option<Arc<dyn Namespace>> {
        (nsid == 1).then(|| self.namespace.clone())
    }

    fn in_service(&self) -> bool {
        true
    }

    fn ana_state(&self, port: SocketAddr, group: u32) -> AnaState {
        self.states.get(port, group)
    }
}

/// One subsystem.
pub(crate) struct Only(pub(crate) Arc<dyn Subsystem>);

impl Subsystems for Only {
    fn list(&self) -> Vec<Arc<dyn Subsystem>> {
        vec![self.0.clone()]
    }
}
