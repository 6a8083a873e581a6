//! Stores the feed of a node: segments, each the body of its own register, coded and replicated like any object; and
//! the positions of readers, in the control store.
//!
//! The register of a segment is named by the node that wrote it, the segment's number and the position of its first
//! change, so that a list of names shows which segment contains which positions. Every node of a cluster has a feed of
//! its own, of the changes that it made, with readers of its own.
//!
//! Invariants: a node writes only its own segments and readers; a segment is written once; a write that may have
//! happened is repeated under the same name with the same bytes.
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
/// First part of the names of segments; the number of the node follows, 0 for a machine that is alone.
const SEGMENTS: &str = "feed/";
/// Segments listed at a time.
const WINDOW: usize = 1000;

/// The name of an existing segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SegmentRef {
    /// The node that wrote it.
    pub node: u16,
    pub number: u64,
    /// Position of the first change that no earlier segment has.
    pub first: u64,
    pub bytes: u64,
}

impl SegmentRef {
    fn name(&self) -> String {
        format!("{}{:016x}-{:016x}", prefix(self.node), self.number, self.first)
    }

    fn key(&self, backend: &Backend) -> RegisterKey {
        let name = self.name();
        RegisterKey::new(backend.group_of(OWN, name.as_bytes()), Space::Object, OWN, name.as_bytes())
    }

    fn parse(name: &[u8], bytes: u64) -> Option<SegmentRef> {
        let text = std::str::from_utf8(name).ok()?.strip_prefix(SEGMENTS)?;
        let (node, text) = text.split_once('/')?;
        let (number, first) = text.split_once('-')?;
        let hex = |t: &str| u64::from_str_radix(t, 16).ok();
        let node = node.parse().ok()?;
        let segment_ref = SegmentRef { node, number: hex(number)?, first: hex(first)?, bytes };
        // A segment has only one name: signs and capitals are refused.
        (segment_ref.name().as_bytes() == name).then_some(segment_ref)
    }
}

/// Prefix of the names of the segments of a node.
fn prefix(node: u16) -> String {
    format!("{SEGMENTS}{node}/")
}

/// Prefix of the readers of a node in the control store.
fn reader_prefix(node: u16) -> String {
    match node {
        0 => "feed-reader/".to_owned(),
        node => format!("feed-reader-{node}/"),
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
    SegmentRef { node: 0, number: 7, first: 0xab, bytes: 0 }.name()
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

/// All segments of a node, in order.
pub(crate) async fn list(backend: &Backend, node: u16) -> Result<Vec<SegmentRef>> {
    let prefix = prefix(node);
    let mut places = Vec::new();
    let mut from = Vec::new();
    loop {
        let page = backend.list(Space::Object, OWN, prefix.as_bytes(), &from, WINDOW).await?;
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

/// Readers of a node by name, and the position up to which each is done.
pub(crate) fn readers(control: &Control, node: u16) -> Result<Vec<(String, u64)>> {
    let prefix = reader_prefix(node);
    let decode = |(key, value): (String, ashlar_cluster::Value)| {
        let name = key[prefix.len()..].to_owned();
        let position = position(&name, &value.bytes)?;
        Ok((name, position))
    };
    control.list(&prefix).into_iter().map(decode).collect()
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
pub(crate) async fn keep(
    control: &Control,
    node: u16,
    places: &[(String, u64)],
    gone: &[String],
) -> Result<()> {
    let prefix = reader_prefix(node);
    let moved = places.iter().map(|(name, at)| (name, Some(*at)));
    let all: Vec<(&String, Option<u64>)> = moved.chain(gone.iter().map(|name| (name, None))).collect();
    for some in all.chunks(Update::MAX_KEYS) {
        let advance = |update: &mut Update| {
            for (name, at) in some {
                let entry = control.read(&format!("{prefix}{name}"));
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
                keep(&control, 0, &places, &[]).await.unwrap();
            }
        };
        tokio::join!(keep_at(5), keep_at(9), keep_at(7));
        keep_at(8).await;
        let kept = readers(&control, 0).unwrap();
        assert_eq!(kept.len(), 200);
        assert!(kept.iter().all(|(_, at)| *at == 9));
        let gone: Vec<_> = (0..199).map(name).collect();
        keep(&control, 0, &[(name(199), 10)], &gone).await.unwrap();
        assert_eq!(readers(&control, 0).unwrap(), [(name(199), 10)]);
    }

    /// Two nodes have readers of the same name: each has a position of its own.
    #[tokio::test]
    async fn nodes_have_readers_of_their_own() {
        let (_, _, control) = crate::tests::memory().await;
        for node in [0, 1, 11] {
            keep(&control, node, &[("reader".to_owned(), u64::from(node) + 5)], &[]).await.unwrap();
        }
        keep(&control, 1, &[], &["reader".to_owned()]).await.unwrap();
        assert_eq!(readers(&control, 0).unwrap(), [("reader".to_owned(), 5)]);
        assert_eq!(readers(&control, 1).unwrap(), []);
        assert_eq!(readers(&control, 11).unwrap(), [("reader".to_owned(), 16)]);
    }

    #[test]
    fn names_of_segments() {
        let segment_ref = SegmentRef { node: 0, number: 0x1f, first: 500, bytes: 9 };
        assert_eq!(segment_ref.name(), "feed/0/000000000000001f-00000000000001f4");
        assert_eq!(SegmentRef::parse(segment_ref.name().as_bytes(), 9), Some(segment_ref));
        let of_node = SegmentRef { node: 12, ..segment_ref };
        assert_eq!(of_node.name(), "feed/12/000000000000001f-00000000000001f4");
        assert_eq!(SegmentRef::parse(of_node.name().as_bytes(), 9), Some(of_node));
        for bad in ["", "feed/0/", "feed/0/1-2", "feed/01/000000000000001f-00000000000001f4"] {
            assert_eq!(SegmentRef::parse(bad.as_bytes(), 0), None, "{bad}");
        }
    }
}
