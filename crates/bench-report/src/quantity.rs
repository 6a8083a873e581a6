//! Parsing of sizes and rates; [`crate::units`] prints them.
//!
//! Invariants: `k`, `M`, `G`, `T`, `P` are powers of 1000 and `Ki`, `Mi` ... powers of 1024, wherever a
//! `B` or `b` follows; a lone letter (`4k`, `1G`), as drive tools take it, is a power of 1024. A small
//! `b` is a bit, a large `B` a byte.

use crate::error::{Error, Result};

/// A size in bytes: `128KiB`, `1GB`, `4k`, `1048576`.
///
/// # Errors
/// [`Error::Usage`] when it is not a size, or one beyond 2^53 bytes.
pub fn parse_size(text: &str) -> Result<u64> {
    let bytes = quantity(text.trim(), true).ok_or_else(|| {
        Error::Usage(format!("`{text}` is not a size; write for instance 4KiB, 128KiB, 1GiB or 1GB"))
    })?;
    if bytes.fract() == 0.0 && (0.0..9.0e15).contains(&bytes) {
        Ok(bytes as u64)
    } else {
        Err(Error::Usage(format!("`{text}` is not a whole number of bytes in range")))
    }
}

/// A rate in bytes per second: `54.76GB/s`, `51GiB/s`, `1.372Tb/s`, `100Gb/s`, `12067MiB/s`.
///
/// # Errors
/// [`Error::Usage`] when it is not a rate.
pub fn parse_rate(text: &str) -> Result<f64> {
    let bad = || {
        Error::Usage(format!(
            "`{text}` is not a rate; write for instance 54.76GB/s, 51GiB/s (bytes) or 100Gb/s (bits)"
        ))
    };
    let trimmed = text.trim();
    let amount = trimmed.strip_suffix("/s").or_else(|| trimmed.strip_suffix("ps")).ok_or_else(bad)?;
    quantity(amount.trim(), false).filter(|v| *v >= 0.0).ok_or_else(bad)
}

/// A number with a unit, in bytes.
fn quantity(text: &str, lone_letter: bool) -> Option<f64> {
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: f64 = number.parse().ok()?;
    let unit = unit.trim();
    let (prefix, bits) = if let Some(prefix) = unit.strip_suffix('B') {
        (prefix, false)
    } else if let Some(prefix) = unit.strip_suffix('b').filter(|_| !lone_letter) {
        (prefix, true)
    } else if lone_letter {
        let power = match unit.to_ascii_lowercase().as_str() {
            "" => 0,
            "k" | "ki" => 1,
            "m" | "mi" => 2,
            "g" | "gi" => 3,
            "t" | "ti" => 4,
            _ => return None,
        };
        return Some(number * 1024_f64.powi(power));
    } else {
        return None;
    };
    let (letter, base) = match prefix.strip_suffix('i') {
        Some(letter) if !letter.is_empty() => (letter, 1024_f64),
        _ => (prefix, 1000_f64),
    };
    let power = match letter {
        "" => 0,
        "k" | "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        "P" => 5,
        _ => return None,
    };
    Some(number * base.powi(power) / if bits { 8.0 } else { 1.0 })
}

/// A block size for names: `4KiB`, `128KiB`, `4MiB`.
pub fn block_text(bytes: u64) -> String {
    match bytes {
        b if b >= 1 << 30 && b.is_multiple_of(1 << 30) => format!("{}GiB", b >> 30),
        b if b >= 1 << 20 && b.is_multiple_of(1 << 20) => format!("{}MiB", b >> 20),
        b if b >= 1 << 10 && b.is_multiple_of(1 << 10) => format!("{}KiB", b >> 10),
        b => format!("{b}B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed() {
        for (text, bytes) in [
            ("4096", 4096),
            ("4k", 4096),
            ("128KiB", 131072),
            ("1MB", 1_000_000),
            ("4MiB", 4 << 20),
            ("1g", 1 << 30),
        ] {
            assert_eq!(parse_size(text).unwrap(), bytes, "{text}");
        }
        for bad in ["", "x", "4q", "1.3", "-4k", "4kb/s", "9999999999TiB"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn rates_are_parsed() {
        let close = |text: &str, want: f64| {
            let got = parse_rate(text).unwrap();
            assert!((got / want - 1.0).abs() < 1e-12, "{text}: {got}");
        };
        close("54.76GB/s", 54.76e9);
        close("51 GiB/s", 51.0 * 1_073_741_824.0);
        close("1.372Tb/s", 171.5e9);
        close("100Gbps", 12.5e9);
        close("250MB/s", 250e6);
        for bad in ["54.76", "54.76GB", "fast/s", "4k/s"] {
            assert!(parse_rate(bad).is_err(), "{bad}");
        }
        assert_eq!(block_text(131072), "128KiB");
    }
}
