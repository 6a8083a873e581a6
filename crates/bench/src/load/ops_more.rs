//! Operations of several steps or with conditions: uploads in parts, versions, conditional writes.

use std::{fmt::Write, sync::atomic::Ordering};

use super::{
    Op,
    context::RING,
    ops::Outcome,
    worker::{Done, OWN, Worker},
};
use crate::wire::{Methods, Request, Sink, between};

/// The largest answer in XML that is read here.
const ANSWER: usize = 1 << 20;

impl Worker {
    /// Uploads a new object in parts, one after the other.
    pub(super) fn upload(&mut self, host: usize) -> Outcome {
        let number = self.context.next.fetch_add(1, Ordering::Relaxed);
        self.upload_number(host, number, true).map(Some)
    }

    /// Uploads object `number` in parts; the steps are recorded if `steps`.
    pub(super) fn upload_number(&mut self, host: usize, number: u64, steps: bool) -> Result<Done, String> {
        let context = self.context.clone();
        context.keys.path(number, &mut self.path);
        let bucket = context.bucket(number);
        let request = Request {
            query: "uploads=",
            again: false,
            ..Request::new(Methods::Post, host, bucket, &self.path)
        };
        let answer = self.caller.call(&request, Sink::Keep(ANSWER));
        let answer = self.expect(answer, &[200])?;
        let begun = answer.sent;
        let id = between(&self.caller.kept, b"<UploadId>", b"</UploadId>").ok_or("no-upload-id")?;
        let mut encoded = String::new();
        crate::wire::encode_into(&mut encoded, id, false);
        if steps {
            self.record(Op::CreateUpload, host, None, Ok(Done { first_byte: None, ..Done::of(&answer, 0) }));
        }
        let mut list = String::from("<CompleteMultipartUpload>");
        let mut bytes = 0;
        for part in 0..u64::from(context.job.parts) {
            let slice = context.part(number, part);
            self.query.clear();
            let _ = write!(self.query, "partNumber={}&uploadId={encoded}", part + 1);
            let request = Request {
                query: &self.query,
                body: Some(slice),
                object: true,
                ..Request::new(Methods::Put, host, bucket, &self.path)
            };
            let answer = self.caller.call(&request, Sink::Discard);
            let answer = self.expect(answer, &[200])?;
            bytes += slice.len();
            let etag = &self.caller.etag;
            let _ = write!(list, "<Part><PartNumber>{}</PartNumber><ETag>{etag}</ETag></Part>", part + 1);
            if steps {
                let done = Done { first_byte: None, ..Done::of(&answer, 0) };
                self.record(Op::PutPart, host, None, Ok(done));
            }
        }
        list.push_str("</CompleteMultipartUpload>");
        self.query.clear();
        let _ = write!(self.query, "uploadId={encoded}");
        let body = crate::wire::Content::of(list.as_bytes());
        let request = Request {
            query: &self.query,
            body: Some(body.whole()),
            again: false,
            ..Request::new(Methods::Post, host, bucket, &self.path)
        };
        let answer = self.caller.call(&request, Sink::Keep(ANSWER));
        let answer = self.expect(answer, &[200])?;
        // A completion may fail after its head said 200.
        if let Some(code) = between(&self.caller.kept, b"<Code>", b"</Code>") {
            return Err(code.to_owned());
        }
        let done = Done { first_byte: None, ..Done::of(&answer, 0) };
        if steps {
            self.record(Op::CompleteUpload, host, None, Ok(done));
        }
        Ok(Done { sent: begun, bytes, ..done })
    }

    /// Writes a further version of a prepared key and remembers it, to remove it later.
    pub(super) fn put_version(&mut self, host: usize) -> Outcome {
        let number = self.rng.below(self.context.job.objects);
        let version = self.context.next.fetch_add(1, Ordering::Relaxed) | 1 << 40;
        let done = self.put_number(host, number, version)?;
        if self.caller.version.is_empty() {
            return Err("no-version-id".into());
        }
        let id = encoded(&self.caller.version);
        if self.own.len() < OWN {
            self.own.push((number, id));
        } else {
            let at = self.rng.below(OWN as u64) as usize;
            self.own[at] = (number, id);
        }
        Ok(Some(done))
    }

    /// Removes a version this worker wrote; writes one if there is none.
    pub(super) fn delete_version(&mut self, host: usize) -> Outcome {
        let context = self.context.clone();
        let Some((number, id)) = self.own.pop() else {
            let done = self.put_version(host)?;
            return Ok(done.map(|d| Done { op: Some(Op::Put), ..d }));
        };
        self.query.clear();
        let _ = write!(self.query, "versionId={id}");
        context.keys.path(number, &mut self.path);
        let request = Request {
            query: &self.query,
            ..Request::new(Methods::Delete, host, context.bucket(number), &self.path)
        };
        let answer = self.caller.call(&request, Sink::Discard);
        Ok(Some(Done::of(&self.expect(answer, &[200, 204])?, 0)))
    }

    /// Creates a key that another worker may create at the same time: every key is tried twice.
    /// Both outcomes are expected, but only one 200 per key.
    pub(super) fn put_if_none_match(&mut self, host: usize) -> Outcome {
        let context = self.context.clone();
        let turn = context.turns.fetch_add(1, Ordering::Relaxed);
        let number = context.job.objects + turn / 2;
        context.keys.path(number, &mut self.path);
        let content = context.job.sizes.content(&context.pool, context.job.seed, number, turn % 2);
        let request = Request {
            headers: &[("if-none-match", "*")],
            body: Some(content.whole()),
            object: true,
            again: false,
            ..Request::new(Methods::Put, host, context.bucket(number), &self.path)
        };
        let answer = self.caller.call(&request, Sink::Discard);
        let answer = self.expect(answer, &[200, 409, 412])?;
        self.outcome("if_none_match", answer.status);
        if answer.status == 200 {
            let place = &context.created[number as usize % RING];
            if place.swap(number + 1, Ordering::AcqRel) == number + 1 {
                return Err("created-twice".into());
            }
        }
        let bytes = if answer.status == 200 { content.len() } else { 0 };
        Ok(Some(Done { first_byte: None, ..Done::of(&answer, bytes) }))
    }

    /// Reads the tag of a shared key and replaces the object if it is still that one. Losing to
    /// another is expected; two winners over the same tag are a lost update.
    pub(super) fn put_if_match(&mut self, host: usize) -> Outcome {
        let context = self.context.clone();
        let number = self.rng.below(context.job.objects);
        context.keys.path(number, &mut self.path);
        let bucket = context.bucket(number);
        let answer = self.caller.call(&Request::new(Methods::Head, host, bucket, &self.path), Sink::Discard);
        let answer = self.expect(answer, &[200])?;
        self.record(Op::Head, host, None, Ok(Done::of(&answer, 0)));
        let tag = self.caller.etag.clone();
        let version = context.next.fetch_add(1, Ordering::Relaxed) | 1 << 40;
        let content = context.job.sizes.content(&context.pool, context.job.seed, number, version);
        let request = Request {
            headers: &[("if-match", &tag)],
            body: Some(content.whole()),
            object: true,
            again: false,
            ..Request::new(Methods::Put, host, bucket, &self.path)
        };
        let answer = self.caller.call(&request, Sink::Discard);
        let answer = self.expect(answer, &[200, 409, 412])?;
        self.outcome("if_match", answer.status);
        if answer.status == 200 {
            // With constant data all bodies and so all ETags are equal, so versions cannot be distinguished.
            let distinct = !content.is_shared();
            let mut last = context.replaced[number as usize % context.replaced.len()].lock();
            if distinct && *last == tag {
                return Err("lost-update".into());
            }
            *last = tag;
        }
        let bytes = if answer.status == 200 { content.len() } else { 0 };
        Ok(Some(Done { first_byte: None, ..Done::of(&answer, bytes) }))
    }

    fn outcome(&self, name: &'static str, status: u16) {
        let name = match (name, status) {
            ("if_none_match", 200) => "if_none_match_200",
            ("if_none_match", 412) => "if_none_match_412",
            ("if_none_match", _) => "if_none_match_409",
            (_, 200) => "if_match_200",
            (_, 412) => "if_match_412",
            _ => "if_match_409",
        };
        self.phase.recorder.count(self.id, name, 1);
    }
}

/// A version id as a query's value.
pub(super) fn encoded(id: &str) -> Box<str> {
    let mut out = String::with_capacity(id.len());
    crate::wire::encode_into(&mut out, id, false);
    out.into_boxed_str()
}
