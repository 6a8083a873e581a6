//! The operations, one file per family.
//!
//! Invariant: each is one request, unless its comment says otherwise.
//!
//! Must not depend on: connections, signatures.

pub mod admin;
pub mod bucket;
pub mod document;
pub mod lifecycle;
pub mod list;
pub mod lock;
pub mod multipart;
pub mod notification;
pub mod object;

use crate::{
    answer::Answer,
    call::{Call, Client},
    error::Result,
    fault::error_of,
    limits,
    xml::{self, Element},
};

impl Client {
    /// Sends a request and parses the XML answer. An error document is an error with any status: copies and
    /// completions may fail after the status 200 was sent.
    pub(crate) async fn xml(&self, call: Call<'_>) -> Result<(Element, Answer)> {
        let mut answer = self.execute(call).await?;
        let body = answer.collect(limits::ANSWER).await?;
        let root = xml::parse(&body)?;
        if root.name == "Error" {
            return Err(error_of(&answer, &body));
        }
        Ok((root, answer))
    }

    /// Sends a request, reads the answer to its end and returns its head.
    pub(crate) async fn done(&self, call: Call<'_>) -> Result<Answer> {
        let mut answer = self.execute(call).await?;
        answer.collect(limits::ANSWER).await?;
        Ok(answer)
    }
}
