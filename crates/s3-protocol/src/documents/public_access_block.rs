//! The public access block of a bucket: its settings by name, as text and as XML.
//!
//! Must not depend on: the effect of the settings.

use ashlar_policy::PublicAccessBlock;

/// The bucket's document that holds its public access block.
pub const BLOCK: &str = "public-access-block";

/// The settings by their names in the document.
pub fn fields(block: &mut PublicAccessBlock) -> [(&'static str, &mut bool); 4] {
    [
        ("BlockPublicAcls", &mut block.block_public_acls),
        ("IgnorePublicAcls", &mut block.ignore_public_acls),
        ("BlockPublicPolicy", &mut block.block_public_policy),
        ("RestrictPublicBuckets", &mut block.restrict_public_buckets),
    ]
}

/// The settings as they are stored: the names of those that are on, one per line.
pub fn block_from(text: &str) -> Option<PublicAccessBlock> {
    let mut block = PublicAccessBlock::default();
    for name in text.lines() {
        let (_, on) = fields(&mut block).into_iter().find(|(n, _)| *n == name)?;
        *on = true;
    }
    Some(block)
}
