//! Numbers as people read them. Bytes are decimal (1 MB = 1,000,000 bytes) as drives, networks and
//! their data sheets count them; sizes of objects are binary (4 KiB) as they are chosen.
//!
//! Invariant: three significant digits, and always the unit.

/// Three significant digits, thousands apart: `12,300`, `4.56`, `0.0789`.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let magnitude = value.abs().log10().floor() as i32;
    let scale = 10f64.powi(2 - magnitude);
    let rounded = (value * scale).round() / scale;
    // 9.996 becomes 10.0: count its digits again.
    let magnitude = rounded.abs().log10().floor() as i32;
    if magnitude >= 3 {
        return count(rounded.round() as i64);
    }
    let digits = (2 - magnitude).clamp(0, 9) as usize;
    format!("{rounded:.digits$}")
}

/// Like [`number`], without trailing zeros: for chosen values and for ticks.
pub fn plain(value: f64) -> String {
    let text = number(value);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A whole number, thousands apart.
pub fn count(value: i64) -> String {
    let digits = value.unsigned_abs().to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0 { format!("−{text}") } else { text }
}

fn scaled(value: f64, base: f64, units: &[&str], show: fn(f64) -> String) -> String {
    let mut value = value;
    let mut unit = 0;
    // 999.6 would be shown as 1,000 of the smaller unit.
    while value.abs() >= base * 0.9995 && unit + 1 < units.len() {
        value /= base;
        unit += 1;
    }
    format!("{} {}", show(value), units[unit])
}

/// Bytes per second: `1.23 GB/s`.
pub fn bytes_per_s(value: f64) -> String {
    scaled(value, 1000.0, &["B/s", "kB/s", "MB/s", "GB/s", "TB/s"], number)
}

/// Bytes, decimal: `3.2 TB`.
pub fn bytes(value: f64) -> String {
    scaled(value, 1000.0, &["B", "kB", "MB", "GB", "TB", "PB"], number)
}

/// What is of a GiB, of a GB.
pub fn per_gb(per_gib: f64) -> f64 {
    per_gib * 1e9 / f64::from(1 << 30)
}

/// A chosen size, binary: `4 KiB`.
pub fn size(value: f64) -> String {
    scaled(value, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB"], plain)
}

/// Operations per second: `12,300/s`, `1.2 M/s`.
pub fn per_s(value: f64) -> String {
    if value >= 999_500.0 { format!("{} M/s", number(value / 1e6)) } else { format!("{}/s", number(value)) }
}

/// A span of nanoseconds: `456 µs`, `1.23 ms`, `2.5 s`.
pub fn ns(value: f64) -> String {
    if value < 60e9 { scaled(value, 1000.0, &TIMES, number) } else { seconds(value / 1e9) }
}

const TIMES: [&str; 4] = ["ns", "µs", "ms", "s"];

/// Like [`ns`], without zeros at the end: for ticks and limits.
pub fn plain_ns(value: f64) -> String {
    if value < 60e9 { scaled(value, 1000.0, &TIMES, plain) } else { seconds(value / 1e9) }
}

/// A span of seconds: `0.25 s`, `12.3 s`, `3 min 20 s`, `2 h 5 min`.
pub fn seconds(value: f64) -> String {
    if value < 59.95 {
        return if value > 0.0 && value < 1.0 {
            plain_ns(value * 1e9)
        } else {
            format!("{} s", plain(value))
        };
    }
    let whole = value.round() as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, m, 0) => format!("{m} min"),
        (0, m, s) => format!("{m} min {s} s"),
        (h, 0, _) => format!("{h} h"),
        (h, m, _) => format!("{h} h {m} min"),
    }
}

/// A share as percent: `71.1 %`, and two digits below ten: `0.93 %`.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent.is_finite() && percent.abs() >= 9.95 {
        return format!("{percent:.1} %");
    }
    if percent == 0.0 || !percent.is_finite() {
        return format!("{} %", number(percent));
    }
    let digits = (1 - percent.abs().log10().floor() as i32).clamp(0, 9) as usize;
    format!("{percent:.digits$} %")
}

/// A change as percent with its sign, one decimal: `+3.2 %`, `−58.5 %`.
pub fn change(ratio: f64) -> String {
    if !ratio.is_finite() {
        return "–".to_owned();
    }
    let percent = (ratio - 1.0) * 100.0;
    let shown = (percent.abs() * 10.0).round() / 10.0;
    let sign = if shown == 0.0 {
        "±"
    } else if percent < 0.0 {
        "−"
    } else {
        "+"
    };
    format!("{sign}{shown:.1} %")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_significant_digits() {
        let shown = [0.0, 9.996, 12345.6, 0.07891, 4.561, 100.0, 999.9, 1_234_567.0, -42.0].map(number);
        assert_eq!(shown, ["0", "10.0", "12,300", "0.0789", "4.56", "100", "1,000", "1,230,000", "-42.0"]);
        assert_eq!([1, 999, 1000, -1234567].map(count), ["1", "999", "1,000", "−1,234,567"]);
        assert_eq!(number(f64::NAN), "–");
        assert_eq!([0.5, 10.0, 1000.0, 0.0, 2.25].map(plain), ["0.5", "10", "1,000", "0", "2.25"]);
    }

    #[test]
    fn values_have_units() {
        assert_eq!([999.0, 999.7, 5.476e10].map(bytes_per_s), ["999 B/s", "1.00 kB/s", "54.8 GB/s"]);
        assert_eq!([4096.0, 1048576.0, 1.5 * 1024.0].map(size), ["4 KiB", "1 MiB", "1.5 KiB"]);
        assert_eq!([1500.0, 2.4e6, 3e10].map(ns), ["1.50 µs", "2.40 ms", "30.0 s"]);
        assert_eq!(
            [0.25, 12.34, 200.0, 7500.0, 60.0].map(seconds),
            ["250 ms", "12.3 s", "3 min 20 s", "2 h 5 min", "1 min"]
        );
        assert_eq!([12.0, 15.3e6].map(per_s), ["12.0/s", "15.3 M/s"]);
        assert_eq!([0.415, 1.032, 1.0001, f64::INFINITY].map(change), ["−58.5 %", "+3.2 %", "±0.0 %", "–"]);
        assert_eq!(
            [0.711, 0.0093, 0.0345, 0.0, 0.0000347, 1.0].map(percent),
            ["71.1 %", "0.93 %", "3.5 %", "0 %", "0.0035 %", "100.0 %"]
        );
        assert_eq!([5e6, 1e9].map(plain_ns), ["5 ms", "1 s"]);
    }
}
