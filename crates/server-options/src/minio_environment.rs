//! Start-up settings of a MinIO deployment: which environment variables and options this server reads, and
//! which it ignores.
//!
//! Invariants: an option of the command line overrides an `ASHLAR_` variable, which overrides a `MINIO_`
//! variable or option; the start log names every `MINIO_` variable that has no effect, so that operators do
//! not rely on it.
//!
//! Pure functions: the environment is a parameter. Must not depend on drives, the store or S3.

use std::path::PathBuf;

use super::args::{Args, Switch};

/// Variables that other modules of the server read, by prefix.
const READ_ELSEWHERE: [&str; 6] = [
    "MINIO_ROOT_",
    "MINIO_KMS_",
    "MINIO_IDENTITY_",
    "MINIO_NOTIFY_",
    "MINIO_AUDIT_WEBHOOK_",
    "MINIO_PROMETHEUS_AUTH_TYPE",
];

/// Variables that this module reads.
const READ_HERE: [&str; 10] = [
    "MINIO_VOLUMES",
    "MINIO_OPTS",
    "MINIO_ADDRESS",
    "MINIO_DOMAIN",
    "MINIO_CERTS_DIR",
    "MINIO_SITE_REGION",
    "MINIO_REGION",
    "MINIO_CONFIG_ENV_FILE",
    "MINIO_BROWSER",
    "MINIO_CONSOLE_ADDRESS",
];

/// What to use instead of variables that have no effect, by prefix.
const INSTEAD: [(&str, &str); 9] = [
    ("MINIO_STORAGE_CLASS_", "set the erasure code with --code K+M at the first start"),
    ("MINIO_BROWSER_", "the console needs no address of its own: its links are relative"),
    ("MINIO_CONSOLE_", ""),
    ("MINIO_SERVER_URL", "links are made for the address that the client uses"),
    ("MINIO_ACCESS_KEY", "set MINIO_ROOT_USER or ASHLAR_ROOT_USER"),
    ("MINIO_SECRET_KEY", "set MINIO_ROOT_PASSWORD or ASHLAR_ROOT_PASSWORD"),
    (
        "MINIO_SCANNER_",
        "background work gives way to requests by itself; --busy-share and --scrub-max-rate limit it further",
    ),
    (
        "MINIO_HEAL_",
        "healing gives way to requests by itself; --busy-share and --heal-max-rate limit it further",
    ),
    ("MINIO_CACHE_", "there is no disk cache"),
];

/// A setting without effect, and the alternative.
#[derive(Debug, PartialEq, Eq)]
pub struct Ignored {
    /// The variable or option.
    pub name: String,
    /// The alternative; empty if there is none.
    pub instead: &'static str,
}

/// Fills settings that neither the command line nor an `ASHLAR_` variable set from MinIO's variables and from
/// the options in `MINIO_OPTS`. Returns the settings without effect.
///
/// # Errors
/// A message for the operator: an option of `MINIO_OPTS` has no value.
pub fn apply(args: &mut Args, environment: &[(String, String)]) -> Result<Vec<Ignored>, String> {
    let get =
        |name: &str| environment.iter().find(|(n, v)| n == name && !v.is_empty()).map(|(_, v)| v.as_str());
    let mut ignored = Vec::new();
    if let Some(options) = get("MINIO_OPTS") {
        apply_options(args, options, &mut ignored)?;
    }
    if args.drives.is_empty()
        && let Some(volumes) = get("MINIO_VOLUMES")
    {
        args.drives = volumes.split_whitespace().map(str::to_owned).collect();
    }
    set(&mut args.address, get("MINIO_ADDRESS"));
    set(&mut args.console_address, get("MINIO_CONSOLE_ADDRESS"));
    if get("MINIO_BROWSER").is_some_and(|v| v.eq_ignore_ascii_case("off")) {
        args.console = Switch::Off;
    }
    if args.domain.is_empty()
        && let Some(domains) = get("MINIO_DOMAIN")
    {
        args.domain = domains.split(',').map(|d| d.trim().to_owned()).filter(|d| !d.is_empty()).collect();
    }
    if args.certs.is_none() {
        args.certs = get("MINIO_CERTS_DIR").map(PathBuf::from);
    }
    let mut names: Vec<&str> = environment.iter().map(|(n, _)| n.as_str()).collect();
    names.sort_unstable();
    for name in names.into_iter().filter(|n| n.starts_with("MINIO_")) {
        let read = READ_HERE.contains(&name) || READ_ELSEWHERE.iter().any(|p| name.starts_with(p));
        if !read {
            let instead = INSTEAD.iter().find(|(p, _)| name.starts_with(p)).map_or("", |(_, why)| why);
            ignored.push(Ignored { name: name.to_owned(), instead });
        }
    }
    Ok(ignored)
}

/// Parses the options that MinIO's systemd unit passes: `MINIO_OPTS="--address :9000 --console-address
/// :9001"`.
fn apply_options(args: &mut Args, options: &str, ignored: &mut Vec<Ignored>) -> Result<(), String> {
    let mut words = options.split_whitespace();
    while let Some(word) = words.next() {
        let (name, inline) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        };
        if matches!(name, "--quiet" | "--anonymous" | "--json") {
            continue;
        }
        let takes_value = matches!(name, "--address" | "--console-address" | "--certs-dir" | "-S");
        let value = match inline {
            Some(value) => Some(value),
            None if takes_value => {
                Some(words.next().ok_or_else(|| format!("MINIO_OPTS: {name} needs a value"))?)
            }
            None => None,
        };
        match name {
            "--address" => set(&mut args.address, value),
            "--certs-dir" | "-S" if args.certs.is_none() => args.certs = value.map(PathBuf::from),
            "--certs-dir" | "-S" => {}
            "--console-address" => set(&mut args.console_address, value),
            _ if !name.starts_with('-') => {
                return Err(format!("MINIO_OPTS: {name} is no option; drives belong into MINIO_VOLUMES"));
            }
            _ => {
                if inline.is_none() && words.clone().next().is_some_and(|next| !next.starts_with('-')) {
                    words.next();
                }
                ignored.push(Ignored { name: format!("{name} in MINIO_OPTS"), instead: "" });
            }
        }
    }
    Ok(())
}

fn set(slot: &mut Option<String>, value: Option<&str>) {
    if slot.is_none() {
        *slot = value.map(str::to_owned);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn args(words: &[&str]) -> Args {
        Line::parse_from([&["server"], words].concat()).args
    }

    fn environment(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn minio_settings_apply_unless_overridden() {
        let variables = environment(&[
            ("MINIO_VOLUMES", "/mnt/disk{1...4}  /mnt/more"),
            (
                "MINIO_OPTS",
                "--console-address :9001 --certs-dir=/etc/certs --address :9100 --sftp port=8022 --quiet",
            ),
            ("MINIO_ADDRESS", ":9200"),
            ("MINIO_DOMAIN", "s3.example.com, s3.internal"),
            ("MINIO_ROOT_USER", "someone"),
        ]);
        let mut taken = args(&[]);
        let ignored = apply(&mut taken, &variables).unwrap();
        assert_eq!(taken.drives, ["/mnt/disk{1...4}", "/mnt/more"]);
        assert_eq!(taken.address.as_deref(), Some(":9100"), "options are like flags of MinIO");
        assert_eq!(taken.certs, Some("/etc/certs".into()));
        assert_eq!(taken.domain, ["s3.example.com", "s3.internal"]);
        let names: Vec<_> = ignored.iter().map(|i| i.name.as_str()).collect();
        assert_eq!(names, ["--sftp in MINIO_OPTS"]);
        assert_eq!((taken.console_address.as_deref(), taken.console), (Some(":9001"), Switch::On));

        let mut given = args(&["--address", ":1", "--certs", "/c", "--domain", "d", "/drive"]);
        apply(&mut given, &variables).unwrap();
        assert_eq!((given.address.as_deref(), given.drives), (Some(":1"), vec!["/drive".to_owned()]));
        assert_eq!((given.certs, given.domain), (Some("/c".into()), vec!["d".to_owned()]));
    }

    #[test]
    fn settings_without_effect_are_named() {
        let variables = environment(&[
            ("MINIO_STORAGE_CLASS_STANDARD", "EC:4"),
            ("MINIO_BROWSER_REDIRECT_URL", "https://x"),
            ("MINIO_SERVER_URL", "https://y"),
            ("MINIO_MADE_UP", "1"),
            ("MINIO_KMS_KES_ENDPOINT", "https://kes"),
            ("MINIO_BROWSER", "off"),
            ("MINIO_CONSOLE_ADDRESS", ":9101"),
            ("PATH", "/bin"),
        ]);
        let mut taken = args(&["d"]);
        let ignored = apply(&mut taken, &variables).unwrap();
        assert_eq!((taken.console_address.as_deref(), taken.console), (Some(":9101"), Switch::Off));
        let names: Vec<_> = ignored.iter().map(|i| i.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "MINIO_BROWSER_REDIRECT_URL",
                "MINIO_MADE_UP",
                "MINIO_SERVER_URL",
                "MINIO_STORAGE_CLASS_STANDARD"
            ]
        );
        assert!(ignored[3].instead.contains("--code"));
    }

    #[test]
    fn mistakes_in_options_are_errors() {
        for bad in ["--address", "--address :1 /mnt/disk1"] {
            assert!(apply(&mut args(&["d"]), &environment(&[("MINIO_OPTS", bad)])).is_err(), "{bad}");
        }
    }
}
