//! One other node: its drives and their states, and the numbers of the sessions on it.
//!
//! Invariants: a drive keeps its handle while this process runs, also while its node is away; a drive that its node no
//! longer serves keeps its last status, is away, and its calls answer *offline*. Every call that has an answer is seen by
//! the node's contact.
//!
//! Must not depend on: who decides which drives belong to the deployment.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ashlar_drive::{DriveHandle, Error, Result};
use ashlar_environment::HashMap;
use ashlar_environment::time::sleep;
use ashlar_format::DriveId;
use bytes::Bytes;
use futures::future::BoxFuture;
use parking_lot::Mutex;

use crate::contact::{Contact, SILENCE};
use crate::drive::RemoteDrive;
use crate::transport::{Call, Delivered, Failure, Transport, method};
use crate::wire::{Heard, Out, decode_heard};

/// How often a node is asked for the states of its drives.
const STATUS: Duration = Duration::from_secs(1);
/// The pause after it did not answer.
const AGAIN: Duration = Duration::from_millis(250);
/// Payload of the answer about all drives of a node.
const DRIVES: usize = 256 << 10;

/// Another node.
pub struct RemoteNode {
    line: Arc<Line>,
    drives: Mutex<HashMap<DriveId, RemoteDrive>>,
}

/// What the drives of a node have in common. It does not know them: a drive that knew its node, which knows its drives,
/// would never be freed.
pub(crate) struct Line {
    transport: Arc<dyn Transport>,
    sessions: AtomicU64,
    contact: Arc<Contact>,
}

impl RemoteNode {
    /// A node that this transport reaches.
    #[must_use]
    pub fn new(transport: Arc<dyn Transport>) -> Arc<RemoteNode> {
        let line = Arc::new(Line { transport, sessions: AtomicU64::new(1), contact: Contact::new() });
        Arc::new(RemoteNode { line, drives: Mutex::default() })
    }

    /// Asks which drives the node serves, and how they are. A drive that was not known before gets a handle. Waits for
    /// the answer no longer than [`SILENCE`].
    ///
    /// # Errors
    /// `Offline` or `Unanswered`: nothing is known that was not known before.
    pub fn refresh(&self) -> BoxFuture<'_, Result<Vec<DriveHandle>>> {
        Box::pin(async move {
            let heard = self.line.ask_drives().await?;
            let mut drives = self.drives.lock();
            let served = |id: &DriveId| heard.iter().any(|heard| heard.label.drive == *id);
            drives.iter().filter(|(id, _)| !served(id)).for_each(|(_, drive)| drive.not_served());
            let handles = heard.into_iter().map(|heard| {
                let id = heard.label.drive;
                let drive = drives.entry(id).or_insert_with(|| RemoteDrive::new(self.line.clone(), &heard));
                drive.heard(heard.status, heard.oldest);
                DriveHandle::Remote(Arc::new(drive.clone()))
            });
            Ok(handles.collect())
        })
    }

    /// The handle of a drive that the node is said to serve, also while the node cannot be asked. `heard` is what is
    /// known of the drive until its node says something.
    #[must_use]
    pub fn know(&self, heard: &Heard) -> DriveHandle {
        let mut drives = self.drives.lock();
        let drive =
            drives.entry(heard.label.drive).or_insert_with(|| RemoteDrive::new(self.line.clone(), heard));
        DriveHandle::Remote(Arc::new(drive.clone()))
    }

    /// Whether the node cannot be reached, or is silent.
    #[must_use]
    pub fn is_away(&self) -> bool {
        self.line.is_away()
    }

    /// A drive that the node served at some time.
    #[must_use]
    pub fn drive(&self, id: DriveId) -> Option<DriveHandle> {
        self.drives.lock().get(&id).map(|drive| DriveHandle::Remote(Arc::new(drive.clone())))
    }
}

impl Line {
    /// The number of a new session.
    pub(crate) fn session(&self) -> u64 {
        self.sessions.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether the node cannot be reached, or is silent.
    pub(crate) fn is_away(&self) -> bool {
        !self.transport.is_connected() || self.contact.is_silent()
    }

    /// What the node says of the drives that it serves. Waits for the answer no longer than [`SILENCE`].
    pub(crate) fn ask_drives(&self) -> impl Future<Output = Result<Vec<Heard>>> + Send + use<> {
        let answer = self.send(Call {
            method: method::DRIVES,
            head: Bytes::new(),
            bulk: Vec::new(),
            answer_limit: DRIVES,
            deadline: SILENCE,
        });
        async move {
            let delivered = answer.await.map_err(|e| failed(&e))?;
            decode_heard(&delivered.head, &delivered.bulk).map_err(|_| Error::Unanswered)
        }
    }

    pub(crate) fn call(
        &self,
        method: u16,
        out: Out,
        answer_limit: usize,
        deadline: Duration,
    ) -> impl Future<Output = std::result::Result<Delivered, Failure>> + Send + use<> {
        self.send(message(method, out, answer_limit, deadline))
    }

    /// Sends a call now; the future is its answer.
    fn send(
        &self,
        call: Call,
    ) -> impl Future<Output = std::result::Result<Delivered, Failure>> + Send + use<> {
        let asked = self.contact.ask();
        let answer = self.transport.call(call);
        async move {
            let answer = answer.await;
            asked.ended(&answer);
            answer
        }
    }

    pub(crate) fn tell(&self, method: u16, out: Out, deadline: Duration) {
        self.transport.tell(message(method, out, 0, deadline));
    }
}

/// Asks for the states of the drives of a node, again and again. This is also what finds out that a node of which nobody
/// wants anything is away, and that it is back.
pub fn follow(node: Arc<RemoteNode>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        loop {
            // While the node is away, its drives keep the states that were heard last.
            let pause = if node.refresh().await.is_ok() { STATUS } else { AGAIN };
            sleep(pause).await;
        }
    })
}

fn message(method: u16, out: Out, answer_limit: usize, deadline: Duration) -> Call {
    Call { method, head: out.head.into_vec().into(), bulk: out.bulk, answer_limit, deadline }
}

/// What a failure of the transport means to the caller of a drive.
pub(crate) fn failed(failure: &Failure) -> Error {
    match failure {
        Failure::NotSent => Error::Offline("its node cannot be reached"),
        // Executed, but with what result is not known.
        Failure::Unanswered | Failure::TooLong => Error::Unanswered,
        Failure::Refused(reason) => {
            tracing::warn!(reason, "another node refused a call");
            Error::Offline("its node refuses the call")
        }
    }
}
