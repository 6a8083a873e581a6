//! The ring of the process ([`ashlar_machine::Ring`]) in the runtime.
//!
//! Invariants: a simulation has none.
//!
//! Must not depend on: what is read and written.

use ashlar_environment::simulation;
use ashlar_machine::Ring;
use std::io;
use std::sync::Arc;

/// The ring for [`crate::Options::ring`], with a queue for each thread of the runtime in which this is called, once per process.
/// Its tasks do what is to be done at the ends of calls.
///
/// # Errors
/// As [`Ring::new`]: the kernel cannot, or does not permit it.
pub fn start_ring() -> io::Result<Arc<Ring>> {
    if simulation::is_running() {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "the drives are simulated"));
    }
    let ring = Arc::new(Ring::new(tokio::runtime::Handle::current().metrics().num_workers())?);
    for queue in 0..ring.queues() {
        drop(ashlar_environment::spawn("ring", ring.serve(queue)?));
    }
    Ok(ring)
}
