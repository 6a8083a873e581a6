//! 32 secret bytes: wiped when they are dropped, compared in constant time, never printed.

use zeroize::Zeroize;

/// A key. It has neither `Debug` nor `Display`.
#[derive(Clone)]
pub struct Secret([u8; 32]);

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl Secret {
    /// Takes 32 bytes.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> Secret {
        Secret(bytes)
    }

    /// A fresh one.
    #[must_use]
    pub fn generate() -> Secret {
        Secret(random())
    }

    /// From bytes of any length; `None` unless there are 32. The bytes are wiped.
    #[must_use]
    pub fn take(mut bytes: Vec<u8>) -> Option<Secret> {
        let out = <[u8; 32]>::try_from(bytes.as_slice()).ok().map(Secret);
        bytes.zeroize();
        out
    }

    /// The bytes, to be used at once.
    #[must_use]
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Random bytes of the operating system.
///
/// # Panics
/// If the operating system gives none: nothing secret can be made then.
#[must_use]
pub fn random<const N: usize>() -> [u8; N] {
    let mut out = [0; N];
    ashlar_environment::random::fill(&mut out).expect("the operating system gives random bytes");
    out
}
