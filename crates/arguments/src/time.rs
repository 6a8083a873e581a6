//! Durations, for people.

use std::time::Duration;

/// Parses `90s`, `15m`, `2h`, `1d`, and seconds without a unit. At most 10 years.
///
/// # Errors
/// A message for the user.
pub fn parse(text: &str) -> Result<Duration, String> {
    let bad = || format!("{text:?} is not a duration; write for instance 90s, 15m or 2h");
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..end].parse().map_err(|_| bad())?;
    let unit: u64 = match text[end..].trim() {
        "" | "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err(bad()),
    };
    let seconds = number.checked_mul(unit).filter(|s| *s <= 10 * 366 * 86_400).ok_or_else(bad)?;
    Ok(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let of = |text: &str| parse(text).map(|d| d.as_secs()).ok();
        assert_eq!(
            (of("0"), of("90"), of("90s"), of("15m"), of("15min")),
            (Some(0), Some(90), Some(90), Some(900), Some(900))
        );
        assert_eq!((of("2h"), of("1 d")), (Some(7200), Some(86_400)));
        for bad in ["", "m", "-1s", "1.5h", "15 minutes", "99999999999999999999s", "20000d"] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }
}
