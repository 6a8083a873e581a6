//! Values of the language: integers and decimal numbers, dates, addresses; parsed without loss.
//!
//! Invariants: numbers are compared exactly (18 digits before the point, 9 after); a date without a
//! zone is UTC; an IPv4 address inside IPv6 is the IPv4 address.

use std::net::IpAddr;

/// Digits after the point.
const SCALE: i128 = 1_000_000_000;

/// A number, times [`SCALE`]. `None`: not a number, or more digits than are compared exactly.
pub(crate) fn number(text: &str) -> Option<i128> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, "0"));
    let plain = |t: &str, most: usize| (1..=most).contains(&t.len()) && t.bytes().all(|b| b.is_ascii_digit());
    if !plain(whole, 18) || !plain(part, 9) {
        return None;
    }
    let part: i128 = format!("{part:0<9}").parse().ok()?;
    let value = whole.parse::<i128>().ok()? * SCALE + part;
    Some(if negative { -value } else { value })
}

/// A whole number as [`number`] gives it.
pub(crate) fn whole(value: i64) -> i128 {
    i128::from(value) * SCALE
}

/// A date in milliseconds since 1970: ISO 8601 as W3C profiles it (`2026`, `2026-11`, `2026-11-21`,
/// `2026-11-21T15:04Z`, with seconds, with a fraction, with an offset), or seconds since 1970.
pub(crate) fn date(text: &str) -> Option<i64> {
    if text.len() != 4 && text.trim_start_matches('-').bytes().all(|b| b.is_ascii_digit()) {
        let seconds: i64 = text.parse().ok()?;
        return seconds.checked_mul(1000);
    }
    if !text.is_ascii() {
        return None;
    }
    let (day, time) = match text.split_once('T') {
        Some((day, time)) => (day, Some(time)),
        None => (text, None),
    };
    let mut parts = day.split('-');
    let year = digits(parts.next()?, 4)?;
    let month = parts.next().map_or(Some(1), |m| digits(m, 2))?;
    let of_month = parts.next().map_or(Some(1), |d| digits(d, 2))?;
    if parts.next().is_some() || !(1..=12).contains(&month) || !(1..=days_in(year, month)).contains(&of_month)
    {
        return None;
    }
    if time.is_some() && day.len() != 10 {
        return None;
    }
    let ms = time.map_or(Some(0), clock)?;
    Some(days_from_civil(year, month, of_month) * 86_400_000 + ms)
}

fn digits(text: &str, count: usize) -> Option<i64> {
    (text.len() == count && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
}

/// Milliseconds of `hh:mm[:ss[.f]](Z|+hh:mm|-hh:mm)`; no zone is UTC.
fn clock(text: &str) -> Option<i64> {
    let (time, offset) = if let Some(t) = text.strip_suffix('Z') {
        (t, 0)
    } else if let Some(i) = text.rfind(['+', '-']) {
        let (h, m) = text[i + 1..].split_once(':')?;
        let (h, m) = (digits(h, 2)?, digits(m, 2)?);
        if h > 23 || m > 59 {
            return None;
        }
        (&text[..i], (h * 60 + m) * if text.as_bytes()[i] == b'-' { -60_000 } else { 60_000 })
    } else {
        (text, 0)
    };
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut parts = time.split(':');
    let hour = digits(parts.next()?, 2)?;
    let minute = digits(parts.next()?, 2)?;
    let second = parts.next().map(|s| digits(s, 2));
    if parts.next().is_some() || (second.is_none() && !fraction.is_empty()) {
        return None;
    }
    let second = second.unwrap_or(Some(0))?;
    if hour > 23 || minute > 59 || second > 60 || fraction.len() > 9 {
        return None;
    }
    if !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let ms: i64 = format!("{fraction:0<3}")[..3].parse().ok()?;
    Some(((hour * 60 + minute) * 60 + second) * 1000 + ms - offset)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01 (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms").
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let of_era = y.rem_euclid(400);
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// `2026-11-21T15:04:05Z`, the text of a moment in milliseconds since 1970.
pub(crate) fn date_text(ms: i64) -> String {
    let seconds = ms.div_euclid(1000);
    let (day, clock) = (seconds.div_euclid(86_400) + 719_468, seconds.rem_euclid(86_400));
    // The inverse of days_from_civil, from the same paper.
    let (era, of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{:02}T{:02}:{:02}:{:02}Z",
        of_year - (153 * shifted + 2) / 5 + 1,
        clock / 3600,
        clock / 60 % 60,
        clock % 60
    )
}

/// A network: an address and how many of its leading bits count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Net {
    address: IpAddr,
    /// Leading bits that count.
    pub(crate) bits: u8,
}

impl Net {
    /// Reads `192.0.2.0/24`, `2001:db8::/32` or an address alone.
    pub(crate) fn parse(text: &str) -> Option<Net> {
        let (address, bits) = match text.split_once('/') {
            Some((a, b)) => (a, Some(b)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            Some(b) if !b.is_empty() && b.len() <= 3 && b.bytes().all(|c| c.is_ascii_digit()) => {
                b.parse().ok()?
            }
            Some(_) => return None,
            None => most,
        };
        if bits > most {
            return None;
        }
        // ::ffff:192.0.2.0/120 is 192.0.2.0/24.
        let plain = address.to_canonical();
        if plain.is_ipv4() && address.is_ipv6() {
            return if bits >= 96 {
                Some(Net { address: plain, bits: bits - 96 })
            } else {
                Some(Net { address, bits })
            };
        }
        Some(Net { address, bits })
    }

    /// Whether the address is in it.
    pub(crate) fn contains(&self, ip: IpAddr) -> bool {
        match (self.address, ip.to_canonical()) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                u64::from(a.to_bits() ^ b.to_bits()) >> (32 - u32::from(self.bits)) == 0
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                (a.to_bits() ^ b.to_bits()).checked_shr(128 - u32::from(self.bits)).unwrap_or(0) == 0
            }
            _ => false,
        }
    }

    /// Broad enough to count as the whole world (AWS: broader than /8 or, for IPv6, /32).
    pub(crate) fn is_broad(&self) -> bool {
        self.bits < if self.address.is_ipv4() { 8 } else { 32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_exactly() {
        assert_eq!(number("10"), Some(whole(10)));
        assert_eq!(number("1.50"), number("+1.5"));
        assert!(number("9007199254740993") > number("9007199254740992"));
        assert!(number("-0.1") < number("0"));
        for bad in ["", "-", "1.", ".5", "1e3", " 1", "1_0", "0x1", "12345678901234567890", "1.2.3"] {
            assert_eq!(number(bad), None, "{bad}");
        }
    }

    #[test]
    fn dates_are_parsed() {
        for (text, ms) in [
            ("1970", 0),
            ("1970-02", 31 * 86_400_000),
            ("2000-03-01", 951_868_800_000),
            ("2026-11-21T15:04:05Z", 1_795_273_445_000),
            ("2026-11-21T15:04:05.25Z", 1_795_273_445_250),
            ("2026-11-21T17:04:05+02:00", 1_795_273_445_000),
            ("2026-11-21T15:04:05", 1_795_273_445_000),
            ("1795273445", 1_795_273_445_000),
            ("0", 0),
            ("-1", -1000),
            ("2024-02-29", 1_709_164_800_000),
        ] {
            assert_eq!(date(text), Some(ms), "{text}");
        }
        for bad in [
            "",
            "2026-13",
            "2026-02-29",
            "2026-11-21T24:00Z",
            "2026-11T10:00Z",
            "2026-11-21T",
            "21-11-2026",
            "x",
            "2026-11-21 15:04:05Z",
            "2026-1-1",
            "2026-11-21T15:04.5Z",
            "99999999999999999999",
            "-",
        ] {
            assert_eq!(date(bad), None, "{bad}");
        }
        for ms in [0, -1000, 951_868_800_000, 1_795_273_445_000, 4_102_444_799_000] {
            assert_eq!(date(&date_text(ms)), Some(ms));
        }
    }

    #[test]
    fn networks_match_addresses() {
        let is = |net: &str, ip: &str| Net::parse(net).unwrap().contains(ip.parse().unwrap());
        assert!(is("10.0.0.0/8", "10.255.0.1") && !is("10.0.0.0/8", "11.0.0.0"));
        assert!(is("10.9.9.9/8", "10.0.0.1"));
        assert!(is("0.0.0.0/0", "255.1.2.3") && !is("0.0.0.0/0", "2001:db8::1"));
        assert!(is("10.0.0.1", "10.0.0.1") && !is("10.0.0.1", "10.0.0.2"));
        assert!(is("10.0.0.0/8", "::ffff:10.1.2.3"));
        assert!(is("::ffff:10.0.0.0/104", "10.1.2.3"));
        assert!(is("2001:db8::/32", "2001:db8:1::") && !is("2001:db8::/32", "2001:db9::"));
        assert!(is("::/0", "fe80::1") && is("fe80::1", "fe80::1"));
        for bad in [
            "",
            "10.0.0.0/33",
            "10.0.0.0/",
            "10.0.0/8",
            "::/129",
            "10.0.0.0/+8",
            "a",
            "10.0.0.0/8/8",
            "010.0.0.1",
        ] {
            assert_eq!(Net::parse(bad), None, "{bad}");
        }
        assert!(Net::parse("0.0.0.0/1").unwrap().is_broad() && !Net::parse("10.0.0.0/8").unwrap().is_broad());
        assert!(
            Net::parse("2001::/16").unwrap().is_broad() && !Net::parse("2001:db8::/32").unwrap().is_broad()
        );
    }
}
