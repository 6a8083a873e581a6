//! The part of ASN.1's basic encoding rules that LDAP uses (RFC 4511, 5.1): one-byte tags, definite lengths.
//!
//! Invariants: reading never recurses and never allocates; a length that exceeds what is there is an error.
//!
//! Must not depend on: LDAP.

/// Writes elements one after the other.
#[derive(Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// What was written.
    pub fn done(self) -> Vec<u8> {
        self.0
    }

    /// An element with this content.
    pub fn bytes(&mut self, tag: u8, content: &[u8]) {
        self.0.push(tag);
        match content.len() {
            short @ 0..=127 => self.0.push(short as u8),
            long => {
                let all = long.to_be_bytes();
                let skip = all.iter().take_while(|b| **b == 0).count();
                self.0.push(0x80 | (all.len() - skip) as u8);
                self.0.extend_from_slice(&all[skip..]);
            }
        }
        self.0.extend_from_slice(content);
    }

    /// An element made of elements.
    pub fn nest(&mut self, tag: u8, f: impl FnOnce(&mut Writer)) {
        let mut inner = Writer::default();
        f(&mut inner);
        self.bytes(tag, &inner.0);
    }

    /// An integer.
    pub fn number(&mut self, tag: u8, n: u32) {
        let all = [&[0], &n.to_be_bytes()[..]].concat();
        // The shortest form that is not negative.
        let skip = all.windows(2).take_while(|w| w[0] == 0 && w[1] < 0x80).count();
        self.bytes(tag, &all[skip..]);
    }

    /// A boolean.
    pub fn truth(&mut self, tag: u8, yes: bool) {
        self.bytes(tag, &[if yes { 0xff } else { 0 }]);
    }

    /// Elements that are encoded already.
    pub fn raw(&mut self, encoded: &[u8]) {
        self.0.extend_from_slice(encoded);
    }
}

/// Reads elements one after the other.
#[derive(Clone, Copy)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// The next element: its tag and its content. `None`: the encoding is invalid, or there are no more
    /// elements.
    pub fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (tag, length, head) = head(self.0)??;
        let content = self.0.get(head..head.checked_add(length)?)?;
        self.0 = &self.0[head + length..];
        Some((tag, content))
    }

    /// The next element, which must have this tag.
    pub fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|(t, _)| *t == tag).map(|(_, content)| content)
    }

    /// Whether there is no more.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Tag, length of the content and length of the header of the element that begins here. `None`: invalid;
/// `Some(None)`: incomplete.
#[allow(clippy::option_option)]
pub fn head(bytes: &[u8]) -> Option<Option<(u8, usize, usize)>> {
    let (Some(&tag), Some(&first)) = (bytes.first(), bytes.get(1)) else { return Some(None) };
    if tag & 0x1f == 0x1f {
        return None;
    }
    if first < 0x80 {
        return Some(Some((tag, usize::from(first), 2)));
    }
    let count = usize::from(first & 0x7f);
    if !(1..=4).contains(&count) {
        return None;
    }
    let Some(length) = bytes.get(2..2 + count) else { return Some(None) };
    let length = length.iter().fold(0usize, |n, b| n << 8 | usize::from(*b));
    Some(Some((tag, length, 2 + count)))
}

/// Decodes an integer that is not negative.
pub fn number(content: &[u8]) -> Option<u32> {
    if content.is_empty() || content.len() > 5 || content[0] >= 0x80 {
        return None;
    }
    u32::try_from(content.iter().fold(0u64, |n, b| n << 8 | u64::from(*b))).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lengths_and_numbers() {
        for (n, want) in [
            (0, vec![2, 1, 0]),
            (127, vec![2, 1, 127]),
            (128, vec![2, 2, 0, 128]),
            (65_535, vec![2, 3, 0, 255, 255]),
            (u32::MAX, vec![2, 5, 0, 255, 255, 255, 255]),
        ] {
            let mut w = Writer::default();
            w.number(2, n);
            let bytes = w.done();
            assert_eq!(bytes, want);
            assert_eq!(number(Reader(&bytes).expect(2).unwrap()), Some(n));
        }
        for length in [0, 1, 127, 128, 255, 256, 70_000] {
            let mut w = Writer::default();
            w.bytes(4, &vec![7; length]);
            let bytes = w.done();
            let mut r = Reader(&bytes);
            assert_eq!(r.expect(4).unwrap().len(), length);
            assert!(r.is_empty() && r.next().is_none());
            assert!(Reader(&bytes[..bytes.len() - 1]).next().is_none());
        }
        assert!(number(&[0x80]).is_none() && number(&[]).is_none() && number(&[1; 6]).is_none());
        // Many-byte tags, indefinite and absurd lengths.
        for bytes in [
            &[0x1f, 1, 0][..],
            &[0x30, 0x80, 0, 0],
            &[0x30, 0x85, 1, 1, 1, 1, 1],
            &[4, 0x84, 255, 255, 255, 255],
        ] {
            assert!(Reader(bytes).next().is_none());
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut r = Reader(&bytes);
            while let Some((_, content)) = r.next() {
                let _ = number(content);
            }
        }
    }
}
