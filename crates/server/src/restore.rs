//! `ashlar cluster restore`: carries out what `ashlar_node::restore` does, and says what comes next.
//!
//! It takes the options of the server, of which it uses those that say where etcd and the folders are.
//!
//! Must not depend on: how a restore works.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use ashlar_etcd::Options;
use ashlar_etcd_member::Supervisor;
use ashlar_node::restore::{FolderSnapshots, choose, restore, snapshots};
use ashlar_s3::date::format_iso;
use ashlar_server_options::Args;
use serde_json::{Value, json};

use super::etcd_member;

/// `ashlar cluster restore`. A signal may end it at any point: it can be repeated. `address`: `--address`; `etcd_member`:
/// is set if this node runs etcd itself.
///
/// # Errors
/// A message for the operator.
pub async fn command(
    args: &Args,
    address: &str,
    paths: Vec<PathBuf>,
    json: bool,
    etcd_member: &mut Option<Arc<Supervisor>>,
) -> Result<(), String> {
    if args.cluster.restore_dry_run {
        return show(args.cluster.name("cluster restore")?, paths, json).await;
    }
    if let Some(settings) = args.cluster.managed(address, args.state_dir.as_deref(), &paths)? {
        let member = etcd_member.insert(etcd_member::start(settings).await?);
        etcd_member::founded(member).await?;
        return run(&args.cluster.managed_etcd(member)?, paths, json).await;
    }
    match args.cluster.etcd()? {
        Some(etcd) => run(&etcd, paths, json).await,
        None => Err("cluster restore needs --control etcd://... or --control managed".to_owned()),
    }
}

/// Restores the control store from the folders.
///
/// # Errors
/// A message for the operator.
async fn run(etcd: &Options, paths: Vec<PathBuf>, as_json: bool) -> Result<(), String> {
    let done = restore(etcd, paths).await?;
    let at = format_iso(done.wall_ms);
    let what = match done.before {
        true => "An earlier restore was complete",
        false => "The control store is in etcd again",
    };
    let text = format!(
        "{what}: {} keys of deployment {}, cluster {}, as of revision {}, {at}.\nStart the nodes. What was changed after that \
         revision is lost. Do not restore it into another etcd as well.",
        done.keys, done.deployment, etcd.cluster, done.revision
    );
    let document = json!({
        "cluster": etcd.cluster,
        "deployment": done.deployment.to_hex(),
        "revision": done.revision,
        "as_of": at,
        "keys": done.keys,
        "before": done.before,
    });
    super::serve::print(&if as_json { document.to_string() } else { text });
    Ok(())
}

/// Shows the snapshots in the folders, and which one would be restored. Changes nothing, and does not ask etcd.
///
/// # Errors
/// Why none would be.
async fn show(cluster: &str, paths: Vec<PathBuf>, as_json: bool) -> Result<(), String> {
    let folders = snapshots(paths).await;
    let chosen = choose(cluster, &folders);
    let latest = chosen.as_ref().ok().map(|kept| (kept.store().to_owned(), kept.revision()));
    let printed = match as_json {
        true => document(cluster, &folders, &latest, chosen.as_ref().err()).to_string(),
        false => table(&folders, &latest),
    };
    super::serve::print(&printed);
    chosen.map(drop)
}

fn document(
    cluster: &str,
    folders: &[FolderSnapshots],
    latest: &Option<(String, u64)>,
    problem: Option<&String>,
) -> Value {
    let one = |folder: &FolderSnapshots| {
        let kept = folder.found.as_ref().map_or(&[][..], |found| found);
        let snapshots = kept.iter().map(|kept| {
            json!({
                "cluster": kept.cluster(),
                "deployment": kept.deployment().to_hex(),
                "store": kept.store(),
                "revision": kept.revision(),
                "as_of": format_iso(kept.wall_ms()),
                "keys": kept.entries().len(),
            })
        });
        json!({
            "folder": folder.path.display().to_string(),
            "snapshots": snapshots.collect::<Vec<_>>(),
            "problem": folder.found.as_ref().err(),
        })
    };
    json!({
        "cluster": cluster,
        "folders": folders.iter().map(one).collect::<Vec<_>>(),
        "restores": latest.as_ref().map(|(store, revision)| json!({ "store": store, "revision": revision })),
        "problem": problem,
    })
}

fn table(folders: &[FolderSnapshots], latest: &Option<(String, u64)>) -> String {
    let mut out = String::new();
    for folder in folders {
        let path = folder.path.display();
        // Writing to a string does not fail.
        let _ = match &folder.found {
            Err(why) => writeln!(out, "{path}: {why}"),
            Ok(found) if found.is_empty() => writeln!(out, "{path}: no snapshot"),
            Ok(_) => writeln!(out, "{path}"),
        };
        for kept in folder.found.iter().flatten().rev() {
            let is_latest = latest.as_ref().is_some_and(|l| l.0 == kept.store() && l.1 == kept.revision());
            let _ = writeln!(
                out,
                "  revision {} of store {}, as of {}, {} keys, cluster {}{}",
                kept.revision(),
                kept.store(),
                format_iso(kept.wall_ms()),
                kept.entries().len(),
                kept.cluster(),
                if is_latest { ": the latest" } else { "" }
            );
        }
    }
    out.push_str("Nothing was changed.");
    out
}
