//! Properties of drives for the result document, and their effect on the measurements.

use std::{fs, path::Path};

use ashlar_bench_report::result::{Caveat, Run, Severity};

use super::target::Target;
use crate::host;

/// Where a path is mounted from.
struct Mount {
    source: String,
    kind: String,
    options: String,
}

/// Adds facts and caveats of all targets.
pub fn describe(run: &mut Run, targets: &[Target], buffered: bool) {
    let mut devices: Vec<(String, String)> = Vec::new();
    for target in targets {
        let path = target.path.display().to_string();
        let mount = if target.device {
            Some(Mount { source: path.clone(), kind: "raw".into(), options: String::new() })
        } else {
            mount_of(&target.path)
        };
        let Some(mount) = mount else { continue };
        let source = fs::canonicalize(&mount.source)
            .map_or_else(|_| mount.source.clone(), |p| p.display().to_string());
        let mut text = format!("{} on {}", mount.kind, source);
        if !mount.options.is_empty() {
            text.push_str(&format!(" ({})", mount.options));
        }
        let name = source.rsplit('/').next().unwrap_or_default().to_owned();
        for (what, file) in [
            ("model", "device/model"),
            ("scheduler", "queue/scheduler"),
            ("write cache", "queue/write_cache"),
            ("rotational", "queue/rotational"),
        ] {
            if let Ok(value) = fs::read_to_string(format!("/sys/class/block/{name}/{file}")) {
                text.push_str(&format!(", {what} {}", value.trim()));
            }
        }
        if let Some(host) = run.environment.first_mut() {
            host.facts.insert(format!("mount {path}"), text);
        }
        if name.starts_with("loop") || name.starts_with("zram") || name.starts_with("ram") {
            run.caveats.push(caveat(
                Severity::Warning,
                "virtual-drive",
                format!("{path} lies on {name}, which is backed by memory or a file: the figures are not those of a drive"),
            ));
        }
        devices.push((path, source));
    }
    // Buffers in huge pages need fewer descriptors; a virtual disk may be twice as fast with them.
    let pages = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").ok();
    let chosen = pages.as_deref().and_then(|t| Some(t.split_once('[')?.1.split_once(']')?.0.to_owned()));
    if let (Some(host), Some(mut chosen)) = (run.environment.first_mut(), chosen) {
        if let Ok(value) = std::env::var("MIMALLOC_ALLOW_THP") {
            chosen.push_str(&format!(", MIMALLOC_ALLOW_THP={value}"));
        }
        host.facts.insert("huge pages".to_owned(), chosen);
    }
    shared(run, &devices);
    if buffered {
        let memory = host::memory_bytes().unwrap_or(0);
        let size: u64 = targets.iter().map(|t| t.size).sum();
        let severity = if size <= memory { Severity::Invalid } else { Severity::Warning };
        run.caveats.push(caveat(
            severity,
            "cached-data",
            format!(
                "measured through the page cache: {size} bytes on a machine with {memory} bytes of memory"
            ),
        ));
    }
}

/// Drives that are not different ones share what they have.
fn shared(run: &mut Run, devices: &[(String, String)]) {
    let mut named: Vec<&str> = Vec::new();
    for (_, source) in devices {
        let paths: Vec<&str> = devices.iter().filter(|d| d.1 == *source).map(|d| d.0.as_str()).collect();
        if paths.len() > 1 && source.starts_with('/') && !named.contains(&source.as_str()) {
            named.push(source);
            let text = format!("{} lie on the same device {source}", paths.join(", "));
            run.caveats.push(caveat(Severity::Warning, "shared-device", text));
        }
    }
}

fn caveat(severity: Severity, code: &str, text: String) -> Caveat {
    Caveat { severity, code: code.to_owned(), text }
}

/// The mount with the longest prefix of the path.
fn mount_of(path: &Path) -> Option<Mount> {
    let path = fs::canonicalize(path).ok()?;
    let text = fs::read_to_string("/proc/self/mounts").ok()?;
    let mut best: Option<(usize, Mount)> = None;
    for line in text.lines() {
        let mut fields = line.split(' ');
        let (Some(source), Some(at), Some(kind), Some(options)) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        // The kernel writes blanks in octal.
        let at = at.replace("\\040", " ");
        // Of several mounts at one place the last is the one that is seen.
        if path.starts_with(&at) && best.as_ref().is_none_or(|b| at.len() >= b.0) {
            let mount = Mount { source: source.into(), kind: kind.into(), options: options.into() };
            best = Some((at.len(), mount));
        }
    }
    best.map(|b| b.1)
}
