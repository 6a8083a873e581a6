//! Questions that nodes ask each other besides those about drives: one end sends bytes, the other answers bytes.
//!
//! Invariants: a question is answered by whatever was registered, and refused before that; an answer is at most
//! [`LONGEST`] bytes; a longer one is refused and says so. A question whose answer turns out to be long is asked twice, so
//! that memory for a long answer is taken only where there is one.
//!
//! Must not depend on: what questions mean, who may ask them.

use std::fmt;
use std::sync::{Arc, OnceLock};

use ashlar_environment::time::Instant;
use ashlar_rpc::{Error, Incoming, Peer, Refusal, Reply, Request};
use bytes::Bytes;
use futures::future::BoxFuture;

/// The method of a question: the head is the question, the answer is in the bulk.
pub const ASK: u16 = 257;

/// Bytes of the longest answer: as many as a message can have.
pub const LONGEST: usize = 8 << 20;
/// Bytes of the longest question.
const QUESTION: usize = 64 << 10;
/// Bytes of an answer that needs no memory of its own.
const SHORT: usize = 48 << 10;

/// The code of a refusal: the question was not answered.
const REFUSED: u16 = 1;
/// The code of a refusal: the answer is longer than the caller accepts this time.
const TOO_LONG: u16 = 2;

/// What answers the questions of other nodes.
pub trait Answers: Send + Sync + 'static {
    /// Answers a question of node `from`, a node of this cluster. The question may come twice. The future is dropped when
    /// nobody waits for it any longer.
    ///
    /// # Errors
    /// A message for the operator.
    fn answer(&self, from: u16, question: Bytes) -> BoxFuture<'static, Result<Bytes, String>>;
}

/// Where the answering part of the process is registered. Clones are the same.
#[derive(Clone, Default)]
pub struct Questions(Arc<OnceLock<Arc<dyn Answers>>>);

/// Why a node did not answer a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// It is not announced.
    NotRunning,
    /// It cannot be reached, or did not answer in time. Whether it did what it was asked for is not known.
    Silent,
    /// It refused, with its message.
    Refused(String),
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoAnswer::NotRunning => f.write_str("is not running"),
            NoAnswer::Silent => f.write_str("does not answer"),
            NoAnswer::Refused(why) => write!(f, "refuses: {why}"),
        }
    }
}

impl Questions {
    /// From now on, `answers` answers. The first registration counts.
    pub fn register(&self, answers: Arc<dyn Answers>) {
        // It is called once.
        let _ = self.0.set(answers);
    }

    /// Answers a call of another node.
    #[must_use]
    pub fn answer(
        &self,
        caller: &ashlar_rpc::Caller,
        request: Incoming,
    ) -> BoxFuture<'static, Result<Reply, Refusal>> {
        let (answers, from) = (self.0.get().cloned(), caller.node);
        Box::pin(async move {
            let answers = answers
                .ok_or_else(|| Refusal::new(REFUSED, "it does not answer questions yet; try again"))?;
            if request.head.len() > QUESTION {
                return Err(Refusal::new(REFUSED, "the question is too long"));
            }
            let limit = request.answer_limit.min(LONGEST);
            let answer = answers.answer(from, request.head).await;
            let answer = answer.map_err(|why| Refusal::new(REFUSED, why))?;
            match answer.len() {
                len if len <= limit => Ok(Reply { head: Bytes::new(), bulk: vec![answer] }),
                len if len <= LONGEST => Err(Refusal::new(TOO_LONG, "the answer is long")),
                len => {
                    let why = format!("the answer has {len} bytes, of {LONGEST} that it may have");
                    Err(Refusal::new(REFUSED, why))
                }
            }
        })
    }
}

/// Asks another node.
pub(crate) async fn ask(peer: &Peer, question: Bytes, deadline: Instant) -> Result<Bytes, NoAnswer> {
    let call = |answer_limit| {
        let request = Request { method: ASK, head: question.clone(), answer_limit, ..Request::default() };
        peer.call(request, deadline)
    };
    let answer = match call(SHORT).await {
        Err(Error::Refused(Refusal { code: TOO_LONG, .. })) => call(LONGEST).await,
        answer => answer,
    };
    match answer {
        Ok(answer) => Ok(answer.bulk),
        Err(Error::Refused(refusal)) => Err(NoAnswer::Refused(refusal.message)),
        Err(error) => {
            tracing::debug!(node = peer.node(), %error, "a node does not answer a question");
            Err(NoAnswer::Silent)
        }
    }
}
