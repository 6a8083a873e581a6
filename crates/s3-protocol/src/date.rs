//! Times in the protocol: ISO 8601 basic (signatures), ISO 8601 with milliseconds (XML), HTTP dates.
//!
//! Invariant: every function is pure; only [`crate::Config::clock`] reads the clock.

/// Seconds since 1970 of `YYYYMMDDTHHMMSSZ`; `None` for anything else.
pub fn parse_basic(text: &str) -> Option<i64> {
    let b = text.as_bytes();
    if b.len() != 16 || b[8] != b'T' || b[15] != b'Z' {
        return None;
    }
    let n = |from: usize, to: usize| -> Option<i64> {
        b[from..to].iter().try_fold(0i64, |n, c| c.is_ascii_digit().then(|| n * 10 + i64::from(c - b'0')))
    };
    let (year, month, day) = (n(0, 4)?, n(4, 6)?, n(6, 8)?);
    let (hour, minute, second) = (n(9, 11)?, n(11, 13)?, n(13, 15)?);
    let valid = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=days_in_month(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    valid.then(|| days_from_civil(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

/// `YYYYMMDDTHHMMSSZ`.
pub fn format_basic(secs: i64) -> String {
    let (y, mo, d, h, mi, s) = civil(secs);
    format!("{y:04}{mo:02}{d:02}T{h:02}{mi:02}{s:02}Z")
}

/// `2024-01-31T12:00:00.000Z`, as in listings.
pub fn format_iso(ms: i64) -> String {
    let (y, mo, d, h, mi, s) = civil(ms.div_euclid(1000));
    format!("{y:04}-{mo:02}-{d:02}T{h:02}:{mi:02}:{s:02}.{:03}Z", ms.rem_euclid(1000))
}

/// `2024-01-31T12:00:00Z`, as in error documents.
pub fn format_iso_secs(secs: i64) -> String {
    let (y, mo, d, h, mi, s) = civil(secs);
    format!("{y:04}-{mo:02}-{d:02}T{h:02}:{mi:02}:{s:02}Z")
}

/// `Wed, 31 Jan 2024 12:00:00 GMT`; exactly 29 ASCII bytes for years 1970 to 9999.
pub fn format_http(secs: i64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (y, mo, d, h, mi, s) = civil(secs);
    let weekday = DAYS[secs.div_euclid(86_400).rem_euclid(7) as usize];
    format!("{weekday}, {d:02} {} {y:04} {h:02}:{mi:02}:{s:02} GMT", MONTHS[(mo - 1) as usize])
}

/// Seconds since 1970 of an HTTP date in any of its three forms; mail's way to write GMT is taken
/// too, because old tools sign it.
pub fn parse_http(text: &str) -> Option<i64> {
    let text = text.trim();
    let mail = ["+0000", "-0000", "UTC"].into_iter().find_map(|zone| text.strip_suffix(zone));
    let time = match mail {
        Some(rest) => httpdate::parse_http_date(&format!("{}GMT", rest)).ok()?,
        None => httpdate::parse_http_date(text).ok()?,
    };
    let since = time.duration_since(std::time::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_secs()).ok()
}

/// As [`parse_http`], also with the zone as mail writes it: clients of signature version 2 do that.
pub fn parse_mail(text: &str) -> Option<i64> {
    let text = text.trim();
    let utc = text.strip_suffix("+0000").or_else(|| text.strip_suffix("-0000"));
    utc.map_or_else(|| parse_http(text), |day| parse_http(&format!("{day}GMT")))
}

/// Seconds since 1970 of an ISO 8601 date with separators, in UTC, with or without fraction.
pub fn parse_iso(text: &str) -> Option<i64> {
    let text = text.trim();
    let main = text.get(..19)?;
    let rest = text.get(19..)?;
    let fraction = rest.strip_suffix('Z').or_else(|| rest.strip_suffix("+00:00"))?;
    let fraction_ok = fraction.is_empty()
        || (fraction.len() > 1
            && fraction.starts_with('.')
            && fraction[1..].bytes().all(|b| b.is_ascii_digit()));
    let b = main.as_bytes();
    let shape = b[4] == b'-' && b[7] == b'-' && b[10] == b'T' && b[13] == b':' && b[16] == b':';
    if !fraction_ok || !shape || !main.is_ascii() {
        return None;
    }
    let compact: String = main.chars().filter(|c| !matches!(c, '-' | ':')).collect();
    parse_basic(&format!("{compact}Z"))
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days since 1970-01-01 (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms").
fn days_from_civil(y: i64, m: i64, d: i64) -> i64 {
    let y = if m <= 2 { y - 1 } else { y };
    let era = y.div_euclid(400);
    let yoe = y.rem_euclid(400);
    let doy = (153 * (m + if m > 2 { -3 } else { 9 }) + 2) / 5 + d - 1;
    let doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
    era * 146_097 + doe - 719_468
}

/// The inverse, with the time of day (same source).
fn civil(secs: i64) -> (i64, i64, i64, i64, i64, i64) {
    let z = secs.div_euclid(86_400) + 719_468;
    let t = secs.rem_euclid(86_400);
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let d = doy - (153 * mp + 2) / 5 + 1;
    let m = if mp < 10 { mp + 3 } else { mp - 9 };
    let y = yoe + era * 400 + i64::from(m <= 2);
    (y, m, d, t / 3600, t / 60 % 60, t % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates_round_trip() {
        assert_eq!(parse_basic("20130524T000000Z"), Some(1_369_353_600));
        assert_eq!(format_basic(1_369_353_600), "20130524T000000Z");
        assert_eq!(format_iso(1_369_353_600_123), "2013-05-24T00:00:00.123Z");
        assert_eq!(format_http(1_369_353_600), "Fri, 24 May 2013 00:00:00 GMT");
        assert_eq!(parse_http("Fri, 24 May 2013 00:00:00 GMT"), Some(1_369_353_600));
        assert_eq!(parse_http("Fri, 24 May 2013 00:00:00 +0000"), Some(1_369_353_600));
        assert_eq!(parse_iso("2013-05-24T00:00:00.000Z"), Some(1_369_353_600));
        assert_eq!(parse_iso("2013-05-24T00:00:00Z"), Some(1_369_353_600));
        for secs in (0..4_000_000_000i64).step_by(86_399 * 7) {
            assert_eq!(parse_basic(&format_basic(secs)), Some(secs));
            assert_eq!(parse_http(&format_http(secs)), Some(secs));
        }
    }

    #[test]
    fn invalid_dates_are_refused() {
        for bad in [
            "",
            "20130524T000000",
            "20130231T000000Z",
            "20131301T000000Z",
            "20130524T240000Z",
            "2013052aT000000Z",
        ] {
            assert_eq!(parse_basic(bad), None, "{bad}");
        }
        for bad in [
            "2013-05-24",
            "2013-05-24 00:00:00Z",
            "2013-05-24T00:00:00+02:00",
            "2013-05-24T00:00:00.Z",
            "ééééééééééééé",
        ] {
            assert_eq!(parse_iso(bad), None, "{bad}");
        }
    }
}
