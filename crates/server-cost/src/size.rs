//! Sizes as people write them: `4KiB`, `10MiB`, `1G` (powers of two throughout).

use std::{fmt, str::FromStr};

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

const UNITS: [(&str, u32); 4] = [("T", 40), ("G", 30), ("M", 20), ("K", 10)];

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let bad = || format!("{text:?} is no size; write 4096, 4KiB, 10MiB, 1GiB");
        let upper = text.trim().to_ascii_uppercase();
        let number = upper.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = upper[number.len()..].trim_end_matches('B').trim_end_matches('I');
        let shift = match unit {
            "" => 0,
            unit => UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(bad)?.1,
        };
        let number: u64 = number.trim().parse().map_err(|_| bad())?;
        number.checked_mul(1 << shift).map(Size).ok_or_else(bad)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, shift) in UNITS {
            if self.0 >= 1 << shift {
                let whole = self.0 >> shift;
                return if self.0 == whole << shift {
                    write!(f, "{whole} {name}iB")
                } else {
                    write!(f, "{:.1} {name}iB", self.0 as f64 / (1u64 << shift) as f64)
                };
            }
        }
        write!(f, "{} B", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes() {
        for (text, bytes, shown) in [
            ("4096", 4096, "4 KiB"),
            ("4KiB", 4096, "4 KiB"),
            ("10m", 10 << 20, "10 MiB"),
            ("1 GB", 1 << 30, "1 GiB"),
            ("1536K", 1536 << 10, "1.5 MiB"),
            ("7", 7, "7 B"),
        ] {
            let size: Size = text.parse().unwrap();
            assert_eq!((size.0, size.to_string().as_str()), (bytes, shown));
        }
        for bad in ["", "MiB", "4X", "-1", "99999999999T"] {
            assert!(bad.parse::<Size>().is_err(), "{bad}");
        }
    }
}
