//! The data that is recorded when an answer has been sent: for the audit log, traces, slow requests.
//!
//! Must not depend on: the operation.

use ashlar_environment::time::Instant;
use std::sync::{Arc, OnceLock};

use ashlar_audit::{QueuePermit, Record};

use crate::trace::{Sending, Slow};

/// Status and code of an answer that began before they were known.
pub type Ended = Arc<OnceLock<(u16, &'static str)>>;

/// What is to be written down when an answer has been sent.
pub struct Note {
    record: Option<Box<Record>>,
    ticket: QueuePermit,
    began: Instant,
    ended: Option<Ended>,
    traced: Option<Box<Sending>>,
    slow: Option<Box<Slow>>,
}

impl Note {
    /// An answer whose body is still to be sent.
    pub fn new(began: Instant) -> Note {
        Note { record: None, ticket: QueuePermit::default(), began, ended: None, traced: None, slow: None }
    }

    /// A record is to be written when it is sent.
    pub fn record(&mut self, record: Record, ticket: QueuePermit, ended: Option<Ended>) {
        (self.record, self.ticket, self.ended) = (Some(Box::new(record)), ticket, ended);
    }

    /// Sends an event to the listeners of the trace when the answer has been sent.
    pub fn trace(&mut self, sending: Sending) {
        self.traced = Some(Box::new(sending));
    }

    /// It may turn out to be slow.
    pub fn slow(&mut self, slow: Slow) {
        self.slow = Some(Box::new(slow));
    }

    /// So many bytes were sent; `whole`: that was all.
    pub fn finish(&mut self, sent: u64, whole: bool) {
        if let Some(mut sending) = self.traced.take() {
            let event = &mut sending.event;
            (event.bytes_out, event.took, event.cut) = (sent, self.began.elapsed(), !whole);
            sending.tracer.publish(sending.event);
        }
        if let Some(slow) = self.slow.take() {
            slow.over(self.began, sent, whole);
        }
        let Some(mut record) = self.record.take() else { return };
        record.bytes_out = sent;
        record.cut = !whole;
        record.micros = self.began.elapsed().as_micros() as u64;
        if let Some(ended) = &self.ended {
            match ended.get() {
                Some((status, error)) => (record.status, record.error) = (*status, error),
                // No caller waits any more; the change may have been made.
                None => record.cut = true,
            }
        }
        std::mem::take(&mut self.ticket).note(*record);
    }
}
