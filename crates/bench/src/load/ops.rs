//! The plain operations: PUT, GET, HEAD, LIST, DELETE.
//!
//! Each returns what to record, `Ok(None)` for nothing, or the class of its failure.

use std::{fmt::Write, sync::atomic::Ordering};

use super::{
    Mode, Op,
    phase::Reason,
    worker::{Done, Worker},
};
use crate::wire::{Methods, Request, Sink, between};

/// The largest page of a listing that is read.
const PAGE: usize = 16 << 20;

/// What an operation returns.
pub(super) type Outcome = Result<Option<Done>, String>;

impl Worker {
    /// Writes a new object.
    pub(super) fn put(&mut self, host: usize) -> Outcome {
        let number = self.context.next.fetch_add(1, Ordering::Relaxed);
        let done = self.put_number(host, number, 0)?;
        if let Some(population) = &self.context.population {
            population.add(&mut self.rng, number);
        }
        Ok(Some(done))
    }

    /// Writes version `version` of object `number`.
    pub(super) fn put_number(&mut self, host: usize, number: u64, version: u64) -> Result<Done, String> {
        let context = self.context.clone();
        context.keys.path(number, &mut self.path);
        let content = context.job.sizes.content(&context.pool, context.job.seed, number, version);
        let request = Request {
            body: Some(content.whole()),
            object: true,
            ..Request::new(Methods::Put, host, context.bucket(number), &self.path)
        };
        let answer = self.caller.call(&request, Sink::Discard);
        let answer = self.expect(answer, &[200])?;
        Ok(Done { first_byte: None, ..Done::of(&answer, content.len()) })
    }

    /// Reads an object, a part or a version.
    pub(super) fn get(&mut self, host: usize) -> Outcome {
        let context = self.context.clone();
        self.query.clear();
        if context.job.existing {
            let (bucket, path) = &context.listed[self.rng.below(context.listed.len() as u64) as usize];
            let request = Request::new(Methods::Get, host, &context.buckets[*bucket as usize], path);
            let answer = self.caller.call(&request, Sink::Discard);
            let answer = self.expect(answer, &[200])?;
            return Ok(Some(Done::of(&answer, answer.bytes)));
        }
        let held = match &context.population {
            Some(population) => match population.read(&mut self.rng) {
                Some(held) => Some(held),
                None => return Err("no-object-left".into()),
            },
            None => None,
        };
        let number = held.as_ref().map_or_else(|| self.rng.below(context.job.objects), |h| h.number);
        let mut version = 0;
        let content = context.job.sizes.content(&context.pool, context.job.seed, number, 0);
        let mut expected = content.whole();
        let versioned;
        match context.job.mode {
            Mode::Multipart => {
                let part = self.rng.below(u64::from(context.job.parts));
                let _ = write!(self.query, "partNumber={}", part + 1);
                expected = context.part(number, part);
            }
            Mode::Versioned => {
                version = self.rng.below(u64::from(context.job.versions));
                let _ = write!(self.query, "versionId={}", context.version_id(number, version)?);
                versioned = context.job.sizes.content(&context.pool, context.job.seed, number, version);
                expected = versioned.whole();
            }
            _ => {}
        }
        let _ = version;
        let mut range = None;
        if let Some(most) = context.job.range.filter(|most| *most < content.len()) {
            let from = self.rng.below(content.len() - most + 1);
            expected = content.slice(from, most);
            range = Some(format!("bytes={from}-{}", from + most - 1));
        }
        let headers = range.as_deref().map(|range| [("range", range)]);
        context.keys.path(number, &mut self.path);
        let request = Request {
            query: &self.query,
            headers: headers.as_ref().map_or(&[], |headers| headers),
            ..Request::new(Methods::Get, host, context.bucket(number), &self.path)
        };
        let sink = if context.job.verify { Sink::Compare(expected) } else { Sink::Discard };
        let answer = self.caller.call(&request, sink);
        if let (Some(population), Some(held)) = (&context.population, held) {
            population.done(held);
        }
        let answer = self.expect(answer, &[200, 206])?;
        if answer.bytes != expected.len() {
            return Err("wrong-length".into());
        }
        Ok(Some(Done::of(&answer, answer.bytes)))
    }

    /// Reads the head of an object.
    pub(super) fn head(&mut self, host: usize) -> Outcome {
        let context = self.context.clone();
        if context.job.existing {
            let (bucket, path) = &context.listed[self.rng.below(context.listed.len() as u64) as usize];
            let request = Request::new(Methods::Head, host, &context.buckets[*bucket as usize], path);
            let answer = self.caller.call(&request, Sink::Discard);
            return Ok(Some(Done::of(&self.expect(answer, &[200])?, 0)));
        }
        self.query.clear();
        let held = context.population.as_ref().and_then(|p| p.read(&mut self.rng));
        if context.population.is_some() && held.is_none() {
            return Err("no-object-left".into());
        }
        let number = held.as_ref().map_or_else(|| self.rng.below(context.job.objects), |h| h.number);
        if context.job.mode == Mode::Versioned {
            let version = self.rng.below(u64::from(context.job.versions));
            let _ = write!(self.query, "versionId={}", context.version_id(number, version)?);
        }
        context.keys.path(number, &mut self.path);
        let request = Request {
            query: &self.query,
            ..Request::new(Methods::Head, host, context.bucket(number), &self.path)
        };
        let answer = self.caller.call(&request, Sink::Discard);
        if let (Some(population), Some(held)) = (&context.population, held) {
            population.done(held);
        }
        Ok(Some(Done::of(&self.expect(answer, &[200])?, 0)))
    }

    /// Reads one page of the listing, from a random key on.
    pub(super) fn list(&mut self, host: usize) -> Outcome {
        let context = self.context.clone();
        let bucket = self.rng.below(context.buckets.len() as u64) as usize;
        self.query.clear();
        let _ = write!(self.query, "list-type=2&max-keys={}&prefix=", context.job.list_keys);
        self.query.push_str(context.keys.query_prefix());
        let mut after = String::new();
        if !context.job.existing {
            let number = self.rng.below(context.job.objects);
            self.query.push_str("&start-after=");
            context.keys.query(number, &mut self.query);
            context.keys.name(number, &mut after);
        }
        let request =
            Request { query: &self.query, ..Request::new(Methods::Get, host, &context.buckets[bucket], "/") };
        let answer = self.caller.call(&request, Sink::Keep(PAGE));
        let answer = self.expect(answer, &[200])?;
        let keys = if context.job.verify {
            ordered(&self.caller.kept, context.keys.prefix(), &after).ok_or("wrong-listing")?
        } else {
            memchr::memmem::find_iter(&self.caller.kept, b"<Key>").count() as u64
        };
        self.phase.recorder.count(self.id, "listed_keys", keys);
        Ok(Some(Done::of(&answer, 0)))
    }

    /// Removes an object: a random one of a mix, the next one otherwise.
    pub(super) fn delete(&mut self, host: usize) -> Outcome {
        let context = self.context.clone();
        let number = match &context.population {
            Some(population) => match population.remove(&mut self.rng) {
                Some(number) => number,
                None => return Err("no-object-left".into()),
            },
            None => match self.take_deletions(1) {
                Some((number, _)) => number,
                None => return Ok(None),
            },
        };
        context.keys.path(number, &mut self.path);
        let request = Request::new(Methods::Delete, host, context.bucket(number), &self.path);
        let answer = self.caller.call(&request, Sink::Discard);
        Ok(Some(Done::of(&self.expect(answer, &[200, 204])?, 0)))
    }

    /// Removes the next objects in one request.
    pub(super) fn multi_delete(&mut self, host: usize) -> Outcome {
        let context = self.context.clone();
        let Some((from, to)) = self.take_deletions(u64::from(context.job.batch)) else { return Ok(None) };
        let mut md5 = String::new();
        let mut last = None;
        // One request is to one bucket; with several, a batch is several requests, recorded singly.
        for bucket in 0..context.buckets.len() as u64 {
            self.xml.clear();
            self.xml.push_str("<Delete><Quiet>true</Quiet>");
            let mut keys = 0;
            for number in (from..to).filter(|n| n % context.buckets.len() as u64 == bucket) {
                self.xml.push_str("<Object><Key>");
                context.keys.name(number, &mut self.xml);
                self.xml.push_str("</Key></Object>");
                keys += 1;
            }
            self.xml.push_str("</Delete>");
            if keys == 0 {
                continue;
            }
            md5.clear();
            base64_into(&mut md5, &ashlar_checksum::md5_once(self.xml.as_bytes()));
            let body = crate::wire::Content::of(self.xml.as_bytes());
            let request = Request {
                query: "delete=",
                headers: &[("content-md5", &md5)],
                body: Some(body.whole()),
                ..Request::new(Methods::Post, host, &context.buckets[bucket as usize], "/")
            };
            let answer = self.caller.call(&request, Sink::Keep(PAGE));
            let answer = self.expect(answer, &[200])?;
            if let Some(code) = between(&self.caller.kept, b"<Code>", b"</Code>") {
                return Err(code.to_owned());
            }
            self.phase.recorder.count(self.id, "deleted_keys", keys);
            if let Some(before) = last.replace(Done::of(&answer, 0)) {
                self.record(Op::MultiDelete, host, None, Ok(before));
            }
        }
        Ok(last)
    }

    /// The numbers of the next objects to remove; ends the phase when there are none left.
    fn take_deletions(&mut self, batch: u64) -> Option<(u64, u64)> {
        let from = self.context.deleted.fetch_add(batch, Ordering::Relaxed);
        if from >= self.context.job.objects {
            self.phase.end(Reason::Data);
            return None;
        }
        Some((from, (from + batch).min(self.context.job.objects)))
    }
}

/// The number of keys of a page, if they ascend, lie under the prefix and after `after`.
fn ordered(page: &[u8], prefix: &str, after: &str) -> Option<u64> {
    let mut rest = page;
    let mut last = after;
    let mut count = 0;
    while let Some(key) = between(rest, b"<Key>", b"</Key>") {
        // Keys with escaped characters come from a prefix of the user's; they are only counted.
        if !key.contains('&') {
            if !key.starts_with(prefix) || key <= last {
                return None;
            }
            last = key;
        }
        count += 1;
        let at = memchr::memmem::find(rest, b"</Key>")?;
        rest = &rest[at + 6..];
    }
    Some(count)
}

/// Appends `bytes` in base64 with padding.
fn base64_into(out: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for chunk in bytes.chunks(3) {
        let mut word = [0_u8; 4];
        word[1..=chunk.len()].copy_from_slice(chunk);
        let word = u32::from_be_bytes(word);
        for i in 0..4 {
            let digit = (word >> (18 - 6 * i)) & 63;
            out.push(if i <= chunk.len() { char::from(DIGITS[digit as usize]) } else { '=' });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_encoded() {
        for (text, wanted) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            let mut out = String::new();
            base64_into(&mut out, text.as_bytes());
            assert_eq!(out, wanted);
        }
    }

    #[test]
    fn list_pages_are_validated() {
        let page = b"<R><Contents><Key>p/a</Key></Contents><Contents><Key>p/b</Key></Contents></R>";
        assert_eq!(ordered(page, "p/", ""), Some(2));
        assert_eq!(ordered(page, "p/", "p/a"), None);
        assert_eq!(ordered(page, "q/", ""), None);
        assert_eq!(ordered(b"<R/>", "p/", "p/z"), Some(0));
    }
}
