//! The envelope: a line of words, stored with a version, from which its content key is opened.
//!
//! | kind | words |
//! |---|---|
//! | SSE-S3 | `s3 KEY SEALED` |
//! | SSE-KMS | `kms KEY SEALED CONTEXT BUCKET-KEY` (`-` where there is no context; `0` or `1`) |
//! | SSE-C | `c SEALED` |
//!
//! SEALED is base64 of the data key that the key service sealed; for SSE-C, of the content key sealed under
//! the customer's key: whether it opens is the only check of a customer's key. A golden test below fixes the
//! format.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

/// Whose key seals the content key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The default key of the key service.
    S3,
    /// A named key of the key service.
    Kms,
    /// A key that the customer brings.
    Customer,
}

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Envelope {
    /// The kind of encryption.
    pub kind: Kind,
    /// The named key; empty for the customer's.
    pub key_id: String,
    /// The content key, sealed.
    pub sealed: Vec<u8>,
    /// The client's context, as it was given.
    pub context: String,
    /// Whether the client asked for bucket keys.
    pub bucket_key: bool,
}

impl Envelope {
    pub(super) fn s3(key_id: String, sealed: Vec<u8>) -> Envelope {
        Envelope { kind: Kind::S3, key_id, sealed, context: String::new(), bucket_key: false }
    }

    pub(super) fn kms(key_id: String, sealed: Vec<u8>, context: String, bucket_key: bool) -> Envelope {
        Envelope { kind: Kind::Kms, key_id, sealed, context, bucket_key }
    }

    pub(super) fn customer(sealed: Vec<u8>) -> Envelope {
        let (key_id, context) = (String::new(), String::new());
        Envelope { kind: Kind::Customer, key_id, sealed, context, bucket_key: false }
    }

    /// The stored form.
    pub fn text(&self) -> String {
        let sealed = STANDARD_NO_PAD.encode(&self.sealed);
        match self.kind {
            Kind::S3 => format!("s3 {} {sealed}", self.key_id),
            Kind::Kms => {
                let context = if self.context.is_empty() { "-" } else { &self.context };
                format!("kms {} {sealed} {context} {}", self.key_id, u8::from(self.bucket_key))
            }
            Kind::Customer => format!("c {sealed}"),
        }
    }

    /// The inverse of [`Envelope::text`].
    pub fn parse(text: &str) -> Option<Envelope> {
        let words: Vec<&str> = text.split(' ').collect();
        let sealed = |text: &str| STANDARD_NO_PAD.decode(text).ok();
        match words[..] {
            ["s3", key, text] => Some(Envelope::s3(key.to_owned(), sealed(text)?)),
            ["kms", key, text, context, bucket_key @ ("0" | "1")] => {
                let context = if context == "-" { "" } else { context };
                Some(Envelope::kms(key.to_owned(), sealed(text)?, context.to_owned(), bucket_key == "1"))
            }
            ["c", text] => Some(Envelope::customer(sealed(text)?)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden() {
        let all = [
            (Envelope::s3("k".into(), vec![1, 2]), "s3 k AQI"),
            (Envelope::kms("a.b".into(), vec![3], "e30=".into(), true), "kms a.b Aw e30= 1"),
            (Envelope::kms("a".into(), vec![3], String::new(), false), "kms a Aw - 0"),
            (Envelope::customer(vec![4; 3]), "c BAQE"),
        ];
        for (envelope, text) in all {
            assert_eq!(envelope.text(), text);
            assert_eq!(Envelope::parse(text), Some(envelope));
        }
        for bad in ["", "s3", "s3 k", "s3 k ?", "kms a Aw - 2", "kms a Aw -", "c", "d BAQE", "c BAQE x"] {
            assert_eq!(Envelope::parse(bad), None, "{bad}");
        }
    }
}
