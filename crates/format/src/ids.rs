//! Identifiers that are written on drives: ballots, write ids, bucket ids, placement groups, register keys.
//!
//! Invariant: every type here has exactly one byte encoding, of fixed width, big-endian where the byte order
//! is also the sort order.
//!
//! Must not depend on: S3 requests, files.

use std::fmt;
use std::sync::Arc;

/// A ballot: the order of all decisions about one register (docs/protocol.md 2.1).
///
/// Compared field by field in the order declared. `node` and `nonce` make ballots of different
/// proposers, and of one proposer before and after a restart, unique.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ballot {
    /// Layout epoch in which the ballot was made.
    pub epoch: u32,
    /// Counter, raised above everything the proposer has seen.
    pub counter: u64,
    /// Node number of the proposer.
    pub node: u16,
    /// Random number drawn by the proposer at boot.
    pub nonce: u32,
}

impl Ballot {
    /// Encoded length in bytes.
    pub const LEN: usize = 18;
    /// Below every ballot that a proposer can make. It means that nothing was ever accepted.
    pub const ZERO: Ballot = Ballot { epoch: 0, counter: 0, node: 0, nonce: 0 };

    /// The lowest ballot of `epoch`: used as a fence (docs/protocol.md 2.7).
    #[must_use]
    pub const fn fence(epoch: u32) -> Ballot {
        Ballot { epoch, counter: 0, node: 0, nonce: 0 }
    }

    /// Big-endian bytes; their lexicographic order is the ballot order.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        out[0..4].copy_from_slice(&self.epoch.to_be_bytes());
        out[4..12].copy_from_slice(&self.counter.to_be_bytes());
        out[12..14].copy_from_slice(&self.node.to_be_bytes());
        out[14..18].copy_from_slice(&self.nonce.to_be_bytes());
        out
    }

    /// The inverse of [`Ballot::to_bytes`].
    #[must_use]
    pub fn from_bytes(b: &[u8; Self::LEN]) -> Ballot {
        let mut epoch = [0; 4];
        let mut counter = [0; 8];
        let mut node = [0; 2];
        let mut nonce = [0; 4];
        epoch.copy_from_slice(&b[0..4]);
        counter.copy_from_slice(&b[4..12]);
        node.copy_from_slice(&b[12..14]);
        nonce.copy_from_slice(&b[14..18]);
        Ballot {
            epoch: u32::from_be_bytes(epoch),
            counter: u64::from_be_bytes(counter),
            node: u16::from_be_bytes(node),
            nonce: u32::from_be_bytes(nonce),
        }
    }
}

impl fmt::Debug for Ballot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b{}.{}.{}.{:x}", self.epoch, self.counter, self.node, self.nonce)
    }
}

macro_rules! id16 {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub [u8; 16]);

        impl $name {
            /// All zero bytes.
            pub const ZERO: $name = $name([0; 16]);

            /// 32 lower-case hexadecimal digits.
            #[must_use]
            pub fn to_hex(self) -> String {
                const DIGITS: [char; 16] =
                    ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
                let digits = self.0.iter().flat_map(|b| [b >> 4, b & 15]);
                digits.map(|d| DIGITS[usize::from(d)]).collect()
            }

            /// The inverse of `to_hex`; `None` for anything but 32 hexadecimal digits.
            #[must_use]
            pub fn from_hex(s: &str) -> Option<$name> {
                let b = s.as_bytes();
                if b.len() != 32 || !b.is_ascii() {
                    return None;
                }
                let mut out = [0u8; 16];
                for (i, o) in out.iter_mut().enumerate() {
                    if !b[2 * i].is_ascii_hexdigit() || !b[2 * i + 1].is_ascii_hexdigit() {
                        return None;
                    }
                    *o = u8::from_str_radix(&s[2 * i..2 * i + 2], 16).ok()?;
                }
                Some($name(out))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.to_hex())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.to_hex())
            }
        }
    };
}

id16!(
    /// One write of one part or object body. Drawn at random for every upload and never reused, so that
    /// shards of different writes can never be mixed.
    WriteId
);
id16!(
    /// A version of a key. All zero is the S3 "null" version.
    VersionId
);
id16!(
    /// A bucket. A bucket that is deleted and created again has another id.
    BucketId
);
id16!(
    /// A drive. Drawn when the drive is formatted.
    DriveId
);
id16!(
    /// A deployment (cluster). Drawn when the first drives are formatted.
    DeploymentId
);

/// A placement group: a pool and the number of the group in it. Ordered by pool, then by group.
///
/// Shown as the number of the group alone in pool 0, the only pool of most deployments, and as `pool.group`
/// in others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GroupId {
    /// The pool; 0 is the first.
    pub pool: u16,
    /// The group in the pool.
    pub group: u16,
}

impl GroupId {
    /// Encoded length in bytes.
    pub const LEN: usize = 4;

    /// Group `group` of pool `pool`.
    #[must_use]
    pub const fn new(pool: u16, group: u16) -> GroupId {
        GroupId { pool, group }
    }

    /// Pool and group, big-endian; their lexicographic order is the order of groups.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let ([a, b], [c, d]) = (self.pool.to_be_bytes(), self.group.to_be_bytes());
        [a, b, c, d]
    }

    /// The inverse of [`GroupId::to_bytes`].
    #[must_use]
    pub fn from_bytes(b: [u8; Self::LEN]) -> GroupId {
        let [p, q, g, h] = b;
        GroupId { pool: u16::from_be_bytes([p, q]), group: u16::from_be_bytes([g, h]) }
    }

    /// Pool and group as one number, the pool in the upper half; in the order of groups.
    #[must_use]
    pub fn number(self) -> u32 {
        u32::from_be_bytes(self.to_bytes())
    }

    /// The next group in order, over all pools; `None` after the last possible one.
    #[must_use]
    pub fn next(self) -> Option<GroupId> {
        let next = self.number().checked_add(1)?;
        Some(GroupId::from_bytes(next.to_be_bytes()))
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pool {
            0 => write!(f, "{}", self.group),
            pool => write!(f, "{pool}.{}", self.group),
        }
    }
}

impl fmt::Debug for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "g{}.{}", self.pool, self.group)
    }
}

/// What kind of register a key names; the first byte after the placement group in a
/// [`RegisterKey`], so that ranges of different kinds do not mix.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Space {
    /// The version list of one object key.
    Object = 1,
    /// The state of one multipart upload: key bytes, a zero byte, 16 bytes of upload id.
    Upload = 2,
    /// One part of an upload: as [`Space::Upload`], then the part number (2 bytes, big-endian).
    Part = 3,
}

/// The ordered name of a register on a drive: pool and placement group (2 bytes each, big-endian), space (1
/// byte), bucket (16 bytes), then the unchanged key bytes.
///
/// Drives treat it as opaque ordered bytes. At most [`RegisterKey::MAX`] bytes. A clone shares them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegisterKey(Arc<[u8]>);

impl RegisterKey {
    /// Bytes before the key: pool, placement group, space, bucket.
    pub const PREFIX: usize = GroupId::LEN + 1 + 16;
    /// The longest register key: an S3 key of 1,024 bytes and, for uploads, also an upload id and a
    /// separator.
    pub const MAX: usize = Self::PREFIX + 1024 + 64;

    /// Joins the fields. The caller has refused keys that are too long.
    ///
    /// # Panics
    /// If the result is longer than [`RegisterKey::MAX`].
    #[must_use]
    pub fn new(group: GroupId, space: Space, bucket: BucketId, key: &[u8]) -> RegisterKey {
        let len = Self::PREFIX + key.len();
        assert!(len <= Self::MAX, "register key of {len} bytes");
        // Joined here, so that there is one allocation.
        let mut bytes = [0; Self::MAX];
        bytes[..GroupId::LEN].copy_from_slice(&group.to_bytes());
        bytes[GroupId::LEN] = space as u8;
        bytes[GroupId::LEN + 1..Self::PREFIX].copy_from_slice(&bucket.0);
        bytes[Self::PREFIX..len].copy_from_slice(key);
        RegisterKey(bytes[..len].into())
    }

    /// The bytes, in index order.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// From bytes read from a drive. `None` if they are too short or too long to be a register key.
    #[must_use]
    pub fn from_bytes(b: &[u8]) -> Option<RegisterKey> {
        Self::is_valid(b).then(|| RegisterKey(b.into()))
    }

    /// Whether bytes have the length of a register key.
    #[must_use]
    pub fn is_valid(b: &[u8]) -> bool {
        (Self::PREFIX..=Self::MAX).contains(&b.len())
    }

    /// The placement group.
    #[must_use]
    pub fn group(&self) -> GroupId {
        GroupId::from_bytes([self.0[0], self.0[1], self.0[2], self.0[3]])
    }

    /// The raw space byte.
    #[must_use]
    pub fn space(&self) -> u8 {
        self.0[GroupId::LEN]
    }

    /// The bucket.
    #[must_use]
    pub fn bucket(&self) -> BucketId {
        let mut b = [0; 16];
        b.copy_from_slice(&self.0[Self::PREFIX - 16..Self::PREFIX]);
        BucketId(b)
    }

    /// The key bytes after the prefix.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.0[Self::PREFIX..]
    }
}

impl fmt::Debug for RegisterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}/{}/{}/{}",
            self.group(),
            self.space(),
            self.bucket(),
            String::from_utf8_lossy(self.key())
        )
    }
}
