//! The result of sending messages: how many are acknowledged or refused, and why the others are not.
//!
//! Invariant: the text of a failure contains no secret. Must not depend on: protocols, settings, connections.

use crate::Message;

/// Why a message was not acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The target does not answer, or does not accept the message now.
    Retry(String),
    /// The target will never accept this message.
    Refused(String),
}

impl Failure {
    /// The reason in words.
    #[must_use]
    pub fn why(&self) -> &str {
        match self {
            Failure::Retry(why) | Failure::Refused(why) => why,
        }
    }
}

/// The result of sending messages.
#[derive(Debug)]
pub struct Sent {
    /// How many of them, from the first on, are acknowledged or refused permanently.
    pub done: usize,
    /// Which of those were refused, and why.
    pub refused: Vec<(usize, String)>,
    /// Why the next message was not acknowledged.
    pub failure: Option<Failure>,
}

impl Sent {
    pub(super) fn all(messages: &[Message]) -> Sent {
        Sent { done: messages.len(), refused: Vec::new(), failure: None }
    }

    /// Makes the result from the answers to messages that were in flight together. An answer counts only if
    /// all before it are acknowledged or refused.
    pub(super) fn of(answers: impl IntoIterator<Item = Result<(), Failure>>) -> Sent {
        let mut sent = Sent { done: 0, refused: Vec::new(), failure: None };
        for answer in answers {
            match answer {
                Ok(()) => {}
                Err(Failure::Refused(why)) => sent.refused.push((sent.done, why)),
                Err(failure) => {
                    sent.failure = Some(failure);
                    break;
                }
            }
            sent.done += 1;
        }
        sent
    }

    pub(super) fn until(done: usize, failure: Failure) -> Sent {
        Sent { done, refused: Vec::new(), failure: Some(failure) }
    }
}
