//! What ends the process from outside: signals, and the end of its standard input if a program started it so.
//!
//! Invariant: the first order starts the stop, a later one exits at once.
//!
//! Must not depend on: what is stopped.

use std::io::Read as _;

use ashlar_admin::Shutdown;
use ashlar_environment::thread;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// The orders to end that are caught.
pub struct Orders {
    interrupt: Signal,
    terminate: Signal,
    /// True: the standard input has ended.
    input: watch::Receiver<bool>,
}

impl Orders {
    /// Catches SIGINT and SIGTERM from now on; `input`: the end of the standard input too.
    ///
    /// # Errors
    /// A message for the operator.
    pub fn catch(input: bool) -> Result<Orders, String> {
        let catch = |kind| signal(kind).map_err(|e| format!("signals cannot be caught: {e}"));
        let (interrupt, terminate) = (catch(SignalKind::interrupt())?, catch(SignalKind::terminate())?);
        let (ended, receiver) = watch::channel(false);
        if input {
            // A thread, because a read of the standard input cannot be given up.
            let started = thread::run_apart("standard-input", move || {
                read_to_end();
                let _ = ended.send(true);
            });
            started.map_err(|e| format!("the standard input cannot be watched: {e}"))?;
        }
        Ok(Orders { interrupt, terminate, input: receiver })
    }

    /// Waits for an order. The end of the standard input is reported each time.
    pub async fn next(&mut self) {
        let ended = async {
            if self.input.wait_for(|ended| *ended).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            () = ended => {}
        }
    }
}

/// Reads the standard input until it ends or fails; what it says has no meaning.
fn read_to_end() {
    let (mut input, mut bytes) = (std::io::stdin().lock(), [0; 256]);
    loop {
        match input.read(&mut bytes) {
            Ok(0) => return,
            Ok(_) => {}
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// Waits for the first order or that of an administrator, and starts the stop; a second one exits at once.
pub async fn stop_at_order(
    mut orders: Orders,
    stop: watch::Sender<bool>,
    mut shutdown: watch::Receiver<Shutdown>,
) {
    tokio::select! {
        () = orders.next() => {}
        Ok(_) = shutdown.wait_for(|e| *e != Shutdown::No) => {}
    }
    tracing::info!("stopping: waiting for requests in flight; a second signal exits at once");
    let _ = stop.send(true);
    // The standard input ends only once.
    let (_never, receiver) = watch::channel(false);
    orders.input = receiver;
    orders.next().await;
    std::process::exit(130);
}
