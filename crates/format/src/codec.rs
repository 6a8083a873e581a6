//! The byte codec of records: little-endian fixed integers, LEB128 lengths, no padding.
//!
//! Invariants: every value has one encoding (varints are minimal, booleans are 0 or 1), so that a digest of
//! the bytes is a digest of the value. A reader never allocates more than its input could hold.
//!
//! Must not depend on: what the fields mean.

use crate::Error;

/// Appends encoded fields to a vector.
#[derive(Default)]
pub struct Writer {
    out: Vec<u8>,
}

impl Writer {
    /// A writer with room for `n` bytes.
    #[must_use]
    pub fn with_capacity(n: usize) -> Writer {
        Writer { out: Vec::with_capacity(n) }
    }
    /// The bytes written so far.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        self.out
    }
    /// One byte.
    pub fn u8(&mut self, v: u8) {
        self.out.push(v);
    }
    /// 0 or 1.
    pub fn bool(&mut self, v: bool) {
        self.out.push(u8::from(v));
    }
    /// Two bytes, little-endian.
    pub fn u16(&mut self, v: u16) {
        self.out.extend_from_slice(&v.to_le_bytes());
    }
    /// Four bytes, little-endian.
    pub fn u32(&mut self, v: u32) {
        self.out.extend_from_slice(&v.to_le_bytes());
    }
    /// Eight bytes, little-endian.
    pub fn u64(&mut self, v: u64) {
        self.out.extend_from_slice(&v.to_le_bytes());
    }
    /// Eight bytes, little-endian, two's complement.
    pub fn i64(&mut self, v: i64) {
        self.out.extend_from_slice(&v.to_le_bytes());
    }
    /// Unsigned LEB128, minimal.
    pub fn var(&mut self, mut v: u64) {
        while v >= 0x80 {
            self.out.push((v as u8 & 0x7f) | 0x80);
            v >>= 7;
        }
        self.out.push(v as u8);
    }
    /// Bytes without a length.
    pub fn raw(&mut self, b: &[u8]) {
        self.out.extend_from_slice(b);
    }
    /// A varint length, then the bytes.
    pub fn bytes(&mut self, b: &[u8]) {
        self.var(b.len() as u64);
        self.out.extend_from_slice(b);
    }
    /// A presence byte, then the value if there is one.
    pub fn option<T>(&mut self, v: Option<&T>, f: impl FnOnce(&mut Writer, &T)) {
        self.bool(v.is_some());
        if let Some(v) = v {
            f(self, v);
        }
    }
    /// A varint count, then each item.
    pub fn list<T>(&mut self, items: &[T], mut f: impl FnMut(&mut Writer, &T)) {
        self.var(items.len() as u64);
        for i in items {
            f(self, i);
        }
    }
}

/// Reads fields from the front of a byte slice; every error is [`Error::Malformed`].
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from `b`.
    #[must_use]
    pub fn new(b: &'a [u8]) -> Reader<'a> {
        Reader { rest: b }
    }
    /// The bytes that have not been read yet.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
    /// Fails unless all bytes were read.
    pub fn end(&self) -> Result<(), Error> {
        if self.rest.is_empty() { Ok(()) } else { Err(Error::Malformed("trailing bytes")) }
    }
    /// The next `n` bytes.
    pub fn raw(&mut self, n: usize) -> Result<&'a [u8], Error> {
        if self.rest.len() < n {
            return Err(Error::Malformed("short"));
        }
        let (a, b) = self.rest.split_at(n);
        self.rest = b;
        Ok(a)
    }
    /// Exactly `N` bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let mut out = [0; N];
        out.copy_from_slice(self.raw(N)?);
        Ok(out)
    }
    /// One byte.
    pub fn u8(&mut self) -> Result<u8, Error> {
        Ok(self.raw(1)?[0])
    }
    /// 0 or 1; anything else is malformed.
    pub fn bool(&mut self) -> Result<bool, Error> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Error::Malformed("boolean")),
        }
    }
    /// Two bytes, little-endian.
    pub fn u16(&mut self) -> Result<u16, Error> {
        Ok(u16::from_le_bytes(self.array()?))
    }
    /// Four bytes, little-endian.
    pub fn u32(&mut self) -> Result<u32, Error> {
        Ok(u32::from_le_bytes(self.array()?))
    }
    /// Eight bytes, little-endian.
    pub fn u64(&mut self) -> Result<u64, Error> {
        Ok(u64::from_le_bytes(self.array()?))
    }
    /// Eight bytes, little-endian, two's complement.
    pub fn i64(&mut self) -> Result<i64, Error> {
        Ok(i64::from_le_bytes(self.array()?))
    }
    /// Minimal unsigned LEB128; an overlong form is malformed.
    pub fn var(&mut self) -> Result<u64, Error> {
        let mut v = 0u64;
        for i in 0..10 {
            let b = self.u8()?;
            let part = u64::from(b & 0x7f);
            if i == 9 && part > 1 {
                return Err(Error::Malformed("varint overflow"));
            }
            v |= part << (7 * i);
            if b & 0x80 == 0 {
                return if b == 0 && i > 0 { Err(Error::Malformed("varint form")) } else { Ok(v) };
            }
        }
        Err(Error::Malformed("varint length"))
    }
    /// A varint length, then that many bytes.
    pub fn bytes(&mut self) -> Result<&'a [u8], Error> {
        let n = self.var()?;
        let n = usize::try_from(n).map_err(|_| Error::Malformed("length"))?;
        self.raw(n)
    }
    /// UTF-8 with a varint length.
    pub fn string(&mut self) -> Result<String, Error> {
        let b = self.bytes()?;
        Ok(std::str::from_utf8(b).map_err(|_| Error::Malformed("utf-8"))?.to_owned())
    }
    /// A presence byte, then the value.
    pub fn option<T>(
        &mut self,
        f: impl FnOnce(&mut Reader<'a>) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        if self.bool()? { Ok(Some(f(self)?)) } else { Ok(None) }
    }
    /// A varint count, then each item. Every item takes at least one byte, so a wrong count cannot cause a
    /// large allocation.
    pub fn list<T>(
        &mut self,
        mut f: impl FnMut(&mut Reader<'a>) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let n = self.var()?;
        if n > self.rest.len() as u64 {
            return Err(Error::Malformed("count"));
        }
        let mut out = Vec::new();
        for _ in 0..n {
            out.push(f(self)?);
        }
        Ok(out)
    }
}
