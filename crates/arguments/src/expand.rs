//! Ranges in drive arguments, as in MinIO: `{1...4}`. One argument may contain several, which form a product.
//!
//! Pure functions. Invariant: the order is that of counting, the leftmost range slowest; `{01...10}` keeps
//! its width.

/// Maximum number of drives that the arguments may name.
pub const MAX: usize = 1024;

/// Expands arguments that name drives.
///
/// # Errors
/// A message for the operator. Addresses other than those of namespaces of NVMe/TCP targets are refused by name; otherwise they would be
/// taken for relative paths.
pub fn drives(arguments: &[String]) -> Result<Vec<String>, String> {
    let namespace = |a: &str| ["nvme-tcp://", "nvme-tcp+discovery://"].iter().any(|s| a.starts_with(s));
    if let Some(address) = arguments.iter().find(|a| a.contains("://") && !namespace(a)) {
        return Err(format!(
            "{address}: a drive is a folder or a block device of this machine, or a namespace (nvme-tcp://HOST:PORT/NQN/NSID); other addresses are not supported, and nothing was formatted"
        ));
    }
    expand(arguments)
}

/// Expands every argument; an argument without a range stays as it is.
///
/// # Errors
/// A message for the operator.
pub fn expand(arguments: &[String]) -> Result<Vec<String>, String> {
    let mut out = Vec::new();
    for argument in arguments {
        expand_one(argument, &mut out)?;
    }
    for (i, path) in out.iter().enumerate() {
        if out[..i].contains(path) {
            return Err(format!("the drive {path} is named twice"));
        }
    }
    Ok(out)
}

fn expand_one(text: &str, out: &mut Vec<String>) -> Result<(), String> {
    let Some(open) = text.find('{') else {
        if text.contains('}') {
            return Err(format!("{text}: a closing brace without an opening one"));
        }
        if out.len() == MAX {
            return Err(format!("more than {MAX} drives are named"));
        }
        out.push(text.to_owned());
        return Ok(());
    };
    let close = text[open..]
        .find('}')
        .map(|i| open + i)
        .ok_or_else(|| format!("{text}: an opening brace without a closing one"))?;
    let bad = || format!("{text}: a range must look like {{1...4}}, the first number not above the last");
    let (first, last) = text[open + 1..close].split_once("...").ok_or_else(bad)?;
    let number = |t: &str| -> Result<u64, String> {
        let digits = !t.is_empty() && t.len() < 10 && t.bytes().all(|b| b.is_ascii_digit());
        t.parse().ok().filter(|_| digits).ok_or_else(bad)
    };
    let (from, to) = (number(first)?, number(last)?);
    if from > to || to - from >= MAX as u64 {
        return Err(bad());
    }
    // Leading zeros define the width of the numbers.
    let width = if first.starts_with('0') && first.len() > 1 { first.len() } else { 0 };
    for n in from..=to {
        expand_one(&format!("{}{n:0width$}{}", &text[..open], &text[close + 1..]), out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(arguments: &[&str]) -> Result<Vec<String>, String> {
        expand(&arguments.iter().map(|a| (*a).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn ranges_expand_in_counting_order() {
        assert_eq!(of(&["d{1...3}", "e"]).unwrap(), ["d1", "d2", "d3", "e"]);
        assert_eq!(of(&["n{1...2}/d{1...2}"]).unwrap(), ["n1/d1", "n1/d2", "n2/d1", "n2/d2"]);
        assert_eq!(of(&["d{08...11}"]).unwrap(), ["d08", "d09", "d10", "d11"]);
        assert_eq!(of(&["d{0...1}x"]).unwrap(), ["d0x", "d1x"]);
    }

    #[test]
    fn mistakes_are_named() {
        for bad in [
            "d{1..4}",
            "d{4...1}",
            "d{a...b}",
            "d{1...4",
            "d1...4}",
            "d{}",
            "d{1...5000}",
            "d{1...99}/{1...99}",
        ] {
            assert!(of(&[bad]).is_err(), "{bad}");
        }
        assert!(of(&["a", "a"]).unwrap_err().contains("twice"));
        assert_eq!(
            drives(&["nvme-tcp://h:4420/nqn.x/{1...2}".to_owned()]).unwrap()[1],
            "nvme-tcp://h:4420/nqn.x/2"
        );
        let error = drives(&["http://node{1...4}/disk{1...4}".to_owned()]).unwrap_err();
        assert!(
            error.contains("http://node{1...4}/disk{1...4}") && error.contains("other addresses"),
            "{error}"
        );
    }
}
