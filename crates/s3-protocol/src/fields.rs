//! The fields of a form, before its file.
//!
//! Must not depend on: how forms are parsed, policies, signatures.

/// The fields before the file, names in lower case.
#[derive(Debug, Default)]
pub struct Fields(pub Vec<(String, String)>);

impl Fields {
    /// The value of a field.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(n, v)| (n.as_str(), v.as_str()))
    }

    /// Puts a field in place.
    pub fn set(&mut self, name: &str, value: String) {
        match self.0.iter_mut().find(|(n, _)| n == name) {
            Some((_, v)) => *v = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }
}
