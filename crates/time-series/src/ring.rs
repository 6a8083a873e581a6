//! The points of one resolution, encoded, in segments.
//!
//! A segment covers a fixed span of time and is one file. Its bytes begin with a head: `ASHTIMES`, the format, the
//! length of a step in seconds.
//!
//! Invariants: times increase within a ring; a segment has at most [`LONGEST`] bytes; segments that are older than the
//! ring keeps are dropped when a point is added.
//!
//! Must not depend on: files, other resolutions.

use std::collections::VecDeque;

use crate::Error;
use crate::point::Point;

/// One resolution: lengths in seconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resolution {
    /// The time between two points.
    pub step_s: i64,
    /// How long points are kept at least.
    pub keep_s: i64,
    /// The span of a segment.
    segment_s: i64,
}

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

/// The resolutions, the finest first. The step of each is a multiple of that of the one before.
pub const RESOLUTIONS: [Resolution; 3] = [
    Resolution { step_s: 10, keep_s: DAY, segment_s: 3 * HOUR },
    Resolution { step_s: 60, keep_s: 14 * DAY, segment_s: DAY },
    Resolution { step_s: 900, keep_s: 400 * DAY, segment_s: 20 * DAY },
];

/// Longest segment in bytes. It is never reached: it has a place for each of its points.
pub const LONGEST: usize = 4 << 20;
const MAGIC: &[u8; 8] = b"ASHTIMES";
const FORMAT: u32 = 1;
/// Length of a head in bytes.
pub(crate) const HEAD: usize = 16;

/// Points of one span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// The beginning of the span: a multiple of its length.
    pub start_s: i64,
    /// Head and records.
    pub bytes: Vec<u8>,
    last_s: i64,
}

impl Segment {
    fn new(start_s: i64, step_s: i64) -> Segment {
        let mut bytes = Vec::with_capacity(HEAD);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        bytes.extend_from_slice(&(step_s as u32).to_le_bytes());
        Segment { start_s, bytes, last_s: i64::MIN }
    }

    /// The points, in order.
    fn points(&self) -> impl Iterator<Item = Point> {
        let mut rest = &self.bytes[HEAD..];
        std::iter::from_fn(move || {
            let (point, length) = Point::decode(rest)?;
            rest = &rest[length..];
            Some(point)
        })
    }
}

/// What [`Ring::push`] did.
pub(crate) struct Pushed {
    /// The segment that has the point now.
    pub start_s: i64,
    /// Where the new bytes are in it; 0: the segment is new.
    pub from: usize,
    /// Segments that were dropped.
    pub dropped: Vec<i64>,
}

/// The points of one resolution.
#[derive(Clone, Debug)]
pub(crate) struct Ring {
    pub resolution: Resolution,
    segments: VecDeque<Segment>,
}

impl Ring {
    pub fn new(resolution: Resolution) -> Ring {
        Ring { resolution, segments: VecDeque::new() }
    }

    /// The time of the newest point.
    pub fn last_s(&self) -> i64 {
        self.segments.back().map_or(i64::MIN, |s| s.last_s)
    }

    /// The time of the oldest point.
    pub fn first_s(&self) -> Option<i64> {
        self.segments.iter().find_map(|s| s.points().next()).map(|p| p.at_s)
    }

    /// The beginning of the span that has a time. A point belongs to the seconds before it.
    fn start_of(&self, at_s: i64) -> i64 {
        (at_s - 1).div_euclid(self.resolution.segment_s) * self.resolution.segment_s
    }

    /// Adds a point. It must be later than all others.
    pub fn push(&mut self, point: &Point) -> Pushed {
        assert!(point.at_s > self.last_s(), "times increase");
        let start_s = self.start_of(point.at_s);
        if self.segments.back().is_none_or(|s| s.start_s != start_s) {
            self.segments.push_back(Segment::new(start_s, self.resolution.step_s));
        }
        let mut from = 0;
        if let Some(segment) = self.segments.back_mut() {
            if segment.bytes.len() > HEAD {
                from = segment.bytes.len();
            }
            point.encode(&mut segment.bytes);
            segment.last_s = point.at_s;
        }
        let oldest = point.at_s - self.resolution.keep_s;
        let mut dropped = Vec::new();
        while let Some(first) = self.segments.front()
            && first.start_s + self.resolution.segment_s <= oldest
        {
            dropped.push(first.start_s);
            self.segments.pop_front();
        }
        Pushed { start_s, from, dropped }
    }

    /// The bytes of a segment.
    pub fn bytes(&self, start_s: i64) -> &[u8] {
        self.segments.iter().find(|s| s.start_s == start_s).map_or(&[], |s| &s.bytes)
    }

    /// The beginnings of all segments.
    pub fn starts(&self) -> impl Iterator<Item = i64> {
        self.segments.iter().map(|s| s.start_s)
    }

    /// Points with `from_s < at_s <= to_s`, in order.
    pub fn points(&self, from_s: i64, to_s: i64) -> impl Iterator<Item = Point> {
        let within = move |s: &&Segment| s.last_s > from_s && s.start_s < to_s;
        let segments = self.segments.iter().filter(within);
        segments.flat_map(Segment::points).filter(move |p| p.at_s > from_s && p.at_s <= to_s)
    }

    /// Forgets points after a time; the beginnings of segments that changed or went.
    pub fn forget_after(&mut self, at_s: i64) -> (Vec<i64>, Vec<i64>) {
        let (mut changed, mut gone) = (Vec::new(), Vec::new());
        while let Some(segment) = self.segments.back()
            && segment.last_s > at_s
        {
            let start_s = segment.start_s;
            let kept: Vec<Point> = segment.points().filter(|p| p.at_s <= at_s).collect();
            self.segments.pop_back();
            let Some(last) = kept.last() else {
                gone.push(start_s);
                continue;
            };
            let mut again = Segment::new(start_s, self.resolution.step_s);
            again.last_s = last.at_s;
            kept.iter().for_each(|p| p.encode(&mut again.bytes));
            self.segments.push_back(again);
            changed.push(start_s);
        }
        (changed, gone)
    }

    /// Adds the bytes of a file as the segment that begins at `start_s`, later than all others. Returns how many of them
    /// are good: the others were not written completely, or were damaged.
    ///
    /// # Errors
    /// The head is not that of a segment of this ring.
    pub fn load(&mut self, start_s: i64, bytes: &[u8]) -> Result<usize, Error> {
        // Of a file that was made just before a power cut, the name may be there and the bytes not.
        if bytes.iter().take(HEAD).all(|b| *b == 0) {
            return Ok(0);
        }
        let head = bytes.get(..HEAD).ok_or(Error::Damaged("it is shorter than a head"))?;
        let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        if &head[..8] != MAGIC {
            return Err(Error::Damaged("it does not begin as a segment of a history does"));
        }
        if number(8) != FORMAT {
            return Err(Error::Newer(number(8)));
        }
        if i64::from(number(12)) != self.resolution.step_s || self.start_of(start_s + 1) != start_s {
            return Err(Error::Damaged("it belongs to another place"));
        }
        let mut segment = Segment::new(start_s, self.resolution.step_s);
        segment.last_s = self.last_s().max(start_s);
        let mut good = HEAD;
        while let Some((point, length)) = Point::decode(&bytes[good..]) {
            if point.at_s <= segment.last_s || self.start_of(point.at_s) != start_s {
                break;
            }
            segment.last_s = point.at_s;
            good += length;
        }
        if good > HEAD {
            segment.bytes.extend_from_slice(&bytes[HEAD..good]);
            self.segments.push_back(segment);
        }
        Ok(good)
    }
}
