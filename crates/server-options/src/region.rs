//! The region of this server, and whether clients must sign for it.
//!
//! Invariant: without a configured region, clients may sign for any, as with MinIO. Must not depend on:
//! requests.

/// The region of this server.
#[derive(Debug, PartialEq, Eq)]
pub struct Region {
    /// Its name.
    pub name: String,
    /// Whether an operator chose it: clients must sign for it.
    pub configured: bool,
}

impl Region {
    /// The region of `--region`, or of MinIO's variables; `us-east-1` if neither is set.
    ///
    /// # Errors
    /// A message for the operator: not a valid name of a region.
    pub fn choose(option: Option<&str>, variable: impl Fn(&str) -> Option<String>) -> Result<Region, String> {
        let filled = |text: Option<String>| text.map(|t| t.trim().to_owned()).filter(|t| !t.is_empty());
        let minio = || ["MINIO_SITE_REGION", "MINIO_REGION"].iter().find_map(|n| filled(variable(n)));
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        match filled(option.map(str::to_owned)).or_else(minio) {
            Some(name) if name.len() > 64 || !name.chars().all(legal) => {
                Err(format!("--region {name}: letters, digits, hyphens, dots and underscores, at most 64"))
            }
            Some(name) => Ok(Region { name, configured: true }),
            None => Ok(Region { name: "us-east-1".to_owned(), configured: false }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn option_overrides_minio_variables() {
        let set =
            |name: &'static str, value: &'static str| move |n: &str| (n == name).then(|| value.to_owned());
        let is = |name: &str, configured| Ok(Region { name: name.to_owned(), configured });
        assert_eq!(Region::choose(None, |_| None), is("us-east-1", false));
        assert_eq!(Region::choose(Some(" "), |_| None), is("us-east-1", false));
        assert_eq!(Region::choose(None, set("MINIO_SITE_REGION", "eu-central-1")), is("eu-central-1", true));
        assert_eq!(Region::choose(None, set("MINIO_REGION", "eu-north-1")), is("eu-north-1", true));
        assert_eq!(Region::choose(Some("us-west-2"), set("MINIO_REGION", "x")), is("us-west-2", true));
        assert!(Region::choose(Some("a/b"), |_| None).is_err());
    }
}
