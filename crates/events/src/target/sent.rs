//! What became of messages: how many are settled, and why others are not.
//!
//! Invariant: no failure's text holds a secret. Must not depend on: protocols, settings, connections.

use crate::Message;

/// Why a message was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The target is away, or does not want it now.
    Retry(String),
    /// It will never take this message.
    Refused(String),
}

impl Failure {
    /// In words.
    #[must_use]
    pub fn why(&self) -> &str {
        match self {
            Failure::Retry(why) | Failure::Refused(why) => why,
        }
    }
}

/// What became of messages.
#[derive(Debug)]
pub struct Sent {
    /// How many of them, from the first on, are settled: acknowledged, or refused for good.
    pub done: usize,
    /// Which of the settled ones were refused, and why.
    pub refused: Vec<(usize, String)>,
    /// Why the next was not.
    pub failure: Option<Failure>,
}

impl Sent {
    pub(super) fn all(messages: &[Message]) -> Sent {
        Sent { done: messages.len(), refused: Vec::new(), failure: None }
    }

    /// From answers to messages that were under way together, as far as those before them are settled.
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
