//! Sizes and rates as people write them in a set-up: `3.2TB`, `512MiB`, `2.98GB/s`, `100Gb/s`.
//!
//! Pure functions. Must not depend on: other files of this crate.

/// A number and its unit.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    number.is_finite().then(|| (number, text[end..].trim()))
}

/// Powers of 1,000 (`kB`) or 1,024 (`KiB`).
fn factor(prefix: &str) -> Option<f64> {
    Some(match prefix {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "Ki" => 1024.0,
        "Mi" => 1_048_576.0,
        "Gi" => 1_073_741_824.0,
        "Ti" => 1_099_511_627_776.0,
        _ => return None,
    })
}

/// A size in bytes, at least one.
///
/// # Errors
/// A message for people.
pub(crate) fn size(text: &str) -> Result<f64, String> {
    let bytes = split(text).and_then(|(number, unit)| Some(number * factor(unit.strip_suffix('B')?)?));
    bytes
        .filter(|b| *b >= 1.0)
        .ok_or_else(|| format!("{text:?} is not a size; write for instance 3.2TB or 512MiB"))
}

/// A rate in bytes per second, above zero; a small `b` is a bit.
///
/// # Errors
/// A message for people.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    let rate = split(text).and_then(|(number, unit)| {
        let unit = unit.strip_suffix("/s")?;
        match (unit.strip_suffix('B'), unit.strip_suffix('b')) {
            (Some(prefix), _) => Some(number * factor(prefix)?),
            (_, Some(prefix)) => Some(number * factor(prefix)? / 8.0),
            _ => None,
        }
    });
    rate.filter(|r| *r > 0.0)
        .ok_or_else(|| format!("{text:?} is not a rate; write for instance 2.98GB/s or 100Gb/s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_understood_and_others_refused() {
        for (text, bytes) in [("3.2TB", 3.2e12), ("512MiB", 536_870_912.0), ("1B", 1.0), (" 4 KiB ", 4096.0)]
        {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for (text, bytes) in
            [("2.98GB/s", 2.98e9), ("100Gb/s", 12.5e9), ("1 MiB/s", 1_048_576.0), ("8b/s", 1.0)]
        {
            assert_eq!(rate(text), Ok(bytes), "{text}");
        }
        for bad in ["", "TB", "-1B", "0B", "1e400B", "nanB", "1XB", "1", "1.2.3B", "1GB/s", "infB"] {
            assert!(size(bad).is_err(), "{bad}");
        }
        for bad in ["", "1GB", "0B/s", "1/s", "-1B/s", "GB/s"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
    }
}
