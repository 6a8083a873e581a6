//! Keys from the names of entries.
//!
//! A name is a path: empty segments and `.` are ignored, so that `./a`, `/a` and `a` are the same key, as
//! with MinIO. `..` is refused: an entry cannot be stored outside its prefix.

use crate::fault::{Code, Fault, Outcome};
use crate::target::check_key;

/// The key of an entry called `name` below `prefix` (as [`prefix`] gives it); `None` for the folder in which the
/// archive was made (`./`).
///
/// # Errors
/// The name has a `..` in it, is no UTF-8, has a zero byte, or makes too long a key.
pub fn key(prefix: &str, name: &[u8], folder: bool) -> Outcome<Option<String>> {
    let text =
        std::str::from_utf8(name).map_err(|_| refused("is not UTF-8", &String::from_utf8_lossy(name)))?;
    let path = clean(text)?;
    if path.is_empty() {
        return if folder { Ok(None) } else { Err(refused("names no file", text)) };
    }
    let key = format!("{prefix}{path}{}", if folder { "/" } else { "" });
    check_key(&key).map_err(|fault| fault.element("Key", shown(&key)))?;
    Ok(Some(key))
}

/// The prefix that every key gets: empty, or with a slash at its end.
///
/// # Errors
/// As [`key`].
pub fn prefix(text: &str) -> Outcome<String> {
    let path = clean(text)?;
    check_key(&path)?;
    Ok(if path.is_empty() { path } else { path + "/" })
}

fn clean(text: &str) -> Outcome<String> {
    let segments: Vec<&str> = text.split('/').filter(|s| !matches!(*s, "" | ".")).collect();
    if segments.contains(&"..") {
        return Err(refused("contains ..", text));
    }
    Ok(segments.join("/"))
}

fn refused(why: &str, name: &str) -> Fault {
    Fault::with(Code::INVALID_ARGUMENT, format!("The name of an entry of the archive {why}."))
        .element("Key", shown(name))
}

/// A name as an error shows it.
pub(super) fn shown(name: &str) -> String {
    name.chars().take(256).filter(|c| !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_keys() {
        let of = |name: &str, folder| key("p/", name.as_bytes(), folder).map_err(|f| f.code().name);
        for (name, want) in [
            ("a", "p/a"),
            ("./a//b/./c", "p/a/b/c"),
            ("/etc/passwd", "p/etc/passwd"),
            ("..a/b..", "p/..a/b.."),
        ] {
            assert_eq!(of(name, false), Ok(Some(want.into())), "{name}");
        }
        assert_eq!(of("a/b/", true), Ok(Some("p/a/b/".into())));
        for root in ["", ".", "./", "/", "//."] {
            assert_eq!(of(root, true), Ok(None), "{root:?}");
            assert_eq!(of(root, false), Err("InvalidArgument"), "{root:?}");
        }
        for bad in ["..", "../a", "a/../b", "a/..", "/../a", "./../a"] {
            assert_eq!(of(bad, false), Err("InvalidArgument"), "{bad}");
        }
        assert_eq!(of("a\0b", false), Err("InvalidURI"));
        assert_eq!(key("", b"a\xff", false).unwrap_err().code(), Code::INVALID_ARGUMENT);
        assert_eq!(of(&"x".repeat(1022), false).map(|k| k.unwrap().len()), Ok(1024));
        assert_eq!(of(&"x".repeat(1023), false), Err("KeyTooLongError"));
        assert_eq!(of(&"x".repeat(1022), true), Err("KeyTooLongError"));
    }

    #[test]
    fn prefixes_end_in_a_slash() {
        for (text, want) in [("", ""), ("/", ""), ("a", "a/"), ("/a//b/", "a/b/"), ("./a", "a/")] {
            assert_eq!(prefix(text).unwrap(), want, "{text:?}");
        }
        assert_eq!(prefix("a/../b").unwrap_err().code(), Code::INVALID_ARGUMENT);
    }
}
