//! Writes that wait together and continue each other become one: rows that none of them writes whole are written whole together, and
//! their old content is not read.
//!
//! Long requests that meet between two stripes stay as they are: together they would write no further row whole, and to join them copies them.
//!
//! Invariants: a batch in which two requests overlap stays as it is, in its order. Otherwise the order does not matter, as nobody was
//! answered yet.
//!
//! Must not depend on: groups, who asked.

use std::borrow::Cow;

use crate::queue::LONG;
use crate::write::Request;

/// One or several requests of a batch.
pub(crate) struct Merged<'a> {
    /// Which ones, by their place in the batch.
    pub(crate) of: Vec<usize>,
    at: u64,
    what: What<'a>,
}

enum What<'a> {
    Write(Cow<'a, [u8]>),
    Zero(u64),
}

impl<'a> Merged<'a> {
    fn one(place: usize, request: &Request<'a>) -> Merged<'a> {
        let (at, what) = match request {
            Request::Write { at, data } => (*at, What::Write(Cow::Borrowed(*data))),
            Request::Zero { at, len } => (*at, What::Zero(*len)),
        };
        Merged { of: vec![place], at, what }
    }

    fn len(&self) -> u64 {
        match &self.what {
            What::Write(data) => data.len() as u64,
            What::Zero(len) => *len,
        }
    }

    /// The end of its range; one that goes too far ends at the largest number, and is refused by the group.
    fn end(&self) -> u64 {
        self.at.saturating_add(self.len())
    }

    /// The request.
    pub(crate) fn request(&self) -> Request<'_> {
        match &self.what {
            What::Write(data) => Request::Write { at: self.at, data },
            What::Zero(len) => Request::Zero { at: self.at, len: *len },
        }
    }

    /// Takes a request that continues this one, if that is worth it for stripes of so many bytes.
    fn join(&mut self, next: &Merged<'a>, stripe: u64) -> bool {
        let end = self.end();
        if end.is_multiple_of(stripe) && self.len().min(next.len()) >= LONG {
            return false;
        }
        match (&mut self.what, &next.what) {
            (What::Write(data), What::Write(more)) if end == next.at => {
                data.to_mut().extend_from_slice(more);
                self.of.extend(&next.of);
                true
            }
            _ => false,
        }
    }
}

/// The requests of a batch, those that continue each other joined. Data lies in stripes of so many bytes.
pub(crate) fn merged<'a>(requests: &[Request<'a>], stripe: u64) -> Vec<Merged<'a>> {
    let all = || requests.iter().enumerate().map(|(place, r)| Merged::one(place, r));
    let mut sorted: Vec<Merged<'a>> = all().collect();
    sorted.sort_by_key(|m| m.at);
    if sorted.windows(2).any(|w| w[0].end() > w[1].at) {
        return all().collect();
    }
    let mut out: Vec<Merged<'a>> = Vec::with_capacity(sorted.len());
    for next in sorted {
        if !out.last_mut().is_some_and(|last| last.join(&next, stripe)) {
            out.push(next);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(requests: &[Request<'_>]) -> Vec<(Vec<usize>, u64, u64)> {
        merged(requests, 64).iter().map(|m| (m.of.clone(), m.at, m.len())).collect()
    }

    #[test]
    fn writes_that_continue_each_other_are_one() {
        let write = |at, data| Request::Write { at, data };
        let (a, b, c) = (&[1u8; 4][..], &[2u8; 2][..], &[3u8; 4][..]);
        let requests =
            [write(6, c), write(0, a), Request::Zero { at: 10, len: 3 }, write(4, b), write(13, a)];
        let found = merged(&requests, 64);
        assert_eq!(
            shown(&requests),
            [(vec![1, 3, 0], 0, 10), (vec![2], 10, 3), (vec![4], 13, 4)],
            "zeros are not joined"
        );
        let Request::Write { at: 0, data } = found[0].request() else { panic!("it is a write") };
        assert_eq!(data, [1, 1, 1, 1, 2, 2, 3, 3, 3, 3]);
    }

    #[test]
    fn long_writes_that_meet_between_two_stripes_stay_as_they_are() {
        let long = LONG as usize;
        let data = vec![1; long + 64];
        let write = |at: u64, len: usize| Request::Write { at, data: &data[..len] };
        let (a, b) = (LONG, LONG + 64);
        assert_eq!(
            shown(&[write(0, long), write(a, long + 64), write(a + b, 64)]),
            [(vec![0], 0, a), (vec![1, 2], a, b + 64)],
            "short ones are joined"
        );
        assert_eq!(shown(&[write(32, long), write(32 + a, long)]).len(), 1, "a stripe is of both");
    }

    #[test]
    fn requests_that_overlap_keep_their_order() {
        let write = |at, data| Request::Write { at, data };
        let (a, b) = (&[1u8; 4][..], &[2u8; 2][..]);
        let requests = [write(4, a), write(7, b), write(0, a)];
        assert_eq!(shown(&requests), [(vec![0], 4, 4), (vec![1], 7, 2), (vec![2], 0, 4)]);
        let far = [write(u64::MAX, a), write(0, a)];
        assert_eq!(shown(&far), [(vec![1], 0, 4), (vec![0], u64::MAX, 4)]);
    }
}
