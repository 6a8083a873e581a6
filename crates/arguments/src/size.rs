//! Sizes in bytes, for people.

/// Parses `384MiB`, `1GiB`, `64M`, `1000000`. Units with `i` or without `B` are powers of 1,024, units with
/// `B` only (`MB`) are powers of 1,000.
///
/// # Errors
/// A message for the user.
pub fn parse(text: &str) -> Result<u64, String> {
    let bad = || format!("{text:?} is not a size; write for instance 384MiB or 1GiB");
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..end].parse().map_err(|_| bad())?;
    let unit: u64 = match text[end..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" | "ki" => 1 << 10,
        "m" | "mib" | "mi" => 1 << 20,
        "g" | "gib" | "gi" => 1 << 30,
        "t" | "tib" | "ti" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(bad()),
    };
    number.checked_mul(unit).ok_or_else(bad)
}

/// Formats a size with one digit after the decimal point.
pub fn show(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_both_ways() {
        assert_eq!(parse("384MiB"), Ok(384 << 20));
        assert_eq!(parse("1g"), Ok(1 << 30));
        assert_eq!(parse("10MB"), Ok(10_000_000));
        assert_eq!(parse("123"), Ok(123));
        for bad in ["", "MiB", "1.5GiB", "-1", "99999999999TiB", "1XB"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert_eq!(show(1023), "1023 B");
        assert_eq!(show(1536 << 20), "1.5 GiB");
    }
}
