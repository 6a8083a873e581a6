//! Stores the feed: segments, each the body of its own register, coded and replicated like any object; and
//! the positions of readers, in the control store.
//!
//! The register of a segment is named by the segment's number and by the position of its first change, so
//! that a list of names shows which segment contains which positions.
//!
//! Invariants: a segment is written once; a write that may have happened is repeated under the same name with
//! the same bytes.
//!
//! Must not depend on: what entries mean.

use ashlar_cluster::{Control, Update};
use ashlar_format::{Body, BucketId, Part, RegisterKey, Space, Version};
use bytes::{Bytes, BytesMut};
use serde::{Deserialize, Serialize};

use crate::backend::{Backend, Decision};
use crate::{Error, Result, summary, versions};

/// The bucket of the server's own registers; no created bucket has this id.
const OWN: BucketId = BucketId(*b"ashlar:own-keys!");
/// Prefix of the number of a segment. The zero is the number of the node, for when there are several.
const PREFIX: &str = "feed/0/";
/// Prefix of the name of a reader in the control store.
const READER: &str = "feed-reader/";
/// Segments listed at a time.
const WINDOW: usize = 1000;

/// The name of an existing segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SegmentRef {
    pub number: u64,
    /// Position of the first change that no earlier segment has.
    pub first: u64,
    pub bytes: u64,
}

impl SegmentRef {
    fn name(&self) -> String {
        format!("{PREFIX}{:016x}-{:016x}", self.number, self.first)
    }

    fn key(&self, backend: &Backend) -> RegisterKey {
        let name = self.name();
        RegisterKey::new(backend.group_of(OWN, name.as_bytes()), Space::Object, OWN, name.as_bytes())
    }

    fn parse(name: &[u8], bytes: u64) -> Option<SegmentRef> {
        let text = std::str::from_utf8(name).ok()?.strip_prefix(PREFIX)?;
        let (number, first) = text.split_once('-')?;
        let hex = |t: &str| u64::from_str_radix(t, 16).ok();
        let segment_ref = SegmentRef { number: hex(number)?, first: hex(first)?, bytes };
        // A segment has only one name: signs and capitals are refused.
        (segment_ref.name().as_bytes() == name).then_some(segment_ref)
    }
}

/// For the fuzzer: what is decoded from a name must encode to the same name.
pub(crate) fn fuzzed_name(name: &[u8]) {
    if let Some(segment_ref) = SegmentRef::parse(name, 0) {
        assert_eq!(segment_ref.name().as_bytes(), name, "a segment with two names");
    }
}

/// A name for the fuzzer.
pub(crate) fn fuzzed_names() -> String {
    SegmentRef { number: 7, first: 0xab, bytes: 0 }.name()
}

/// Writes a segment, unless it exists.
pub(crate) async fn write(
    backend: &Backend,
    segment_ref: SegmentRef,
    bytes: Bytes,
    now_ms: i64,
) -> Result<()> {
    let key = segment_ref.key(backend);
    let size = bytes.len() as u64;
    let mut writer = backend.write(&key, size).await?;
    writer.write(bytes).await?;
    let staged = writer.finish().await?;
    let data = staged.data();
    let part = Part { number: 1, size, md5: [0; 16], checksum: None, modified_ms: now_ms, data };
    let version = Version { modified_ms: now_ms, size, parts: vec![part], ..Version::default() };
    let staged = [&staged];
    let done = backend.update(&key, &staged, |old| {
        if !versions::of(old.map(|r| &r.body)).is_empty() {
            return Decision::Keep(());
        }
        let (body, summary) = versions::body(vec![version.clone()]);
        Decision::Write { body, summary, moved: false, out: () }
    });
    Ok(done.await?)
}

/// Reads a segment; `None` if it does not exist.
pub(crate) async fn read(backend: &Backend, segment_ref: SegmentRef) -> Result<Option<Bytes>> {
    let key = segment_ref.key(backend);
    let record = backend.read_register(&key).await?;
    let Some(part) = versions::of(record.as_ref().map(|r| &r.body)).first().and_then(|v| v.parts.first())
    else {
        return Ok(None);
    };
    let mut reader = match backend.read(&key, &part.data, part.size, 0..part.size).await {
        Err(Error::Changed) => return Ok(None),
        reader => reader?,
    };
    let mut all = BytesMut::with_capacity(usize::try_from(part.size).unwrap_or(0));
    while let Some(piece) = reader.next().await {
        all.extend_from_slice(&piece?);
    }
    Ok(Some(all.freeze()))
}

/// Removes a segment.
pub(crate) async fn remove(backend: &Backend, segment_ref: SegmentRef) -> Result<()> {
    let key = segment_ref.key(backend);
    let done = backend.update(&key, &[], |old| {
        if versions::of(old.map(|r| &r.body)).is_empty() {
            return Decision::Keep(());
        }
        Decision::Write { body: Body::Tombstone, summary: Bytes::new(), moved: false, out: () }
    });
    Ok(done.await?)
}

/// All segments, in order.
pub(crate) async fn list(backend: &Backend) -> Result<Vec<SegmentRef>> {
    let mut places = Vec::new();
    let mut from = Vec::new();
    loop {
        let page = backend.list(Space::Object, OWN, PREFIX.as_bytes(), &from, WINDOW).await?;
        for (name, s) in &page.entries {
            let size = summary::version(s).map_or(0, |s| s.size);
            match SegmentRef::parse(name, size) {
                Some(segment_ref) => places.push(segment_ref),
                None => tracing::warn!(?name, "not a segment of the change feed"),
            }
        }
        match page.entries.last().filter(|_| page.truncated) {
            Some((last, _)) => {
                from = last.to_vec();
                from.push(0);
            }
            None => break,
        }
    }
    places.sort_by_key(|p| p.number);
    Ok(places)
}

#[derive(Serialize, Deserialize)]
struct Stored {
    format: u32,
    position: u64,
}

/// Readers by name, and the position up to which each is done.
pub(crate) fn readers(control: &Control) -> Result<Vec<(String, u64)>> {
    let decode = |(key, value): (String, ashlar_cluster::Value)| {
        let name = key[READER.len()..].to_owned();
        let position = position(&name, &value.bytes)?;
        Ok((name, position))
    };
    control.list(READER).into_iter().map(decode).collect()
}

fn position(name: &str, bytes: &[u8]) -> Result<u64> {
    let stored: Stored = serde_json::from_slice(bytes)
        .map_err(|e| Error::Internal(format!("the position of reader {name} in the change feed: {e}")))?;
    if stored.format != 1 {
        return Err(Error::Internal(format!("the position of reader {name}: format {}", stored.format)));
    }
    Ok(stored.position)
}

/// Stores positions of readers, and removes others. A position never goes back. Readers are independent of
/// each other, so it does not matter if only some were stored.
pub(crate) async fn keep(control: &Control, places: &[(String, u64)], gone: &[String]) -> Result<()> {
    let moved = places.iter().map(|(name, at)| (name, Some(*at)));
    let all: Vec<(&String, Option<u64>)> = moved.chain(gone.iter().map(|name| (name, None))).collect();
    for some in all.chunks(Update::MAX_KEYS) {
        let advance = |update: &mut Update| {
            for (name, at) in some {
                let entry = control.read(&format!("{READER}{name}"));
                let Some(at) = *at else {
                    update.remove(&entry);
                    continue;
                };
                let before = entry.bytes().map(|b| position(name, b)).transpose()?;
                if before.is_none_or(|before| before < at) {
                    let json = serde_json::to_vec(&Stored { format: 1, position: at })
                        .map_err(|e| Error::Internal(e.to_string()))?;
                    update.set(&entry, json);
                }
            }
            Ok::<_, Error>(())
        };
        control.change(advance).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two servers store positions of one reader: the higher one stays, in either order.
    #[tokio::test]
    async fn reader_positions_never_decrease() {
        let (_, _, control) = crate::tests::memory().await;
        let name = |i: usize| format!("r{i}");
        let keep_at = |at: u64| {
            let control = control.clone();
            async move {
                let places: Vec<_> = (0..200).map(|i| (name(i), at)).collect();
                keep(&control, &places, &[]).await.unwrap();
            }
        };
        tokio::join!(keep_at(5), keep_at(9), keep_at(7));
        keep_at(8).await;
        let kept = readers(&control).unwrap();
        assert_eq!(kept.len(), 200);
        assert!(kept.iter().all(|(_, at)| *at == 9));
        let gone: Vec<_> = (0..199).map(name).collect();
        keep(&control, &[(name(199), 10)], &gone).await.unwrap();
        assert_eq!(readers(&control).unwrap(), [(name(199), 10)]);
    }

    #[test]
    fn names_of_segments() {
        let segment_ref = SegmentRef { number: 0x1f, first: 500, bytes: 9 };
        assert_eq!(segment_ref.name(), "feed/0/000000000000001f-00000000000001f4");
        assert_eq!(SegmentRef::parse(segment_ref.name().as_bytes(), 9), Some(segment_ref));
        for bad in ["", "feed/0/", "feed/0/1-2", "feed/1/000000000000001f-00000000000001f4"] {
            assert_eq!(SegmentRef::parse(bad.as_bytes(), 0), None, "{bad}");
        }
    }
}
