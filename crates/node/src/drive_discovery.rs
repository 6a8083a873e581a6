//! Inspects the folders given on the command line and decides what a start does with them. Pure functions,
//! except those that read folders and mounts.
//!
//! Invariants: only blank folders are formatted; a missing folder is created only if no drive of a deployment
//! was found, because otherwise it is a drive that is not mounted.

use std::path::{Path, PathBuf};

use ashlar_cluster::{domain_name, domain_text};
use ashlar_drive::{Probe, probe};
use ashlar_format::DeploymentId;
use ashlar_machine::{FileSystem, Folder, is_block_device};

/// A folder and what was found in it.
#[derive(Debug, Clone)]
pub(crate) struct InspectedFolder {
    /// The path of the folder, absolute if that can be determined.
    pub path: PathBuf,
    /// What was found.
    pub probe: Probe,
    /// Its file system.
    pub(crate) facts: Option<Facts>,
}

/// What the start does with the folders.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StartPlan {
    /// A first start: create missing folders and format all.
    New,
    /// Folders of an existing deployment, complete or in part.
    Existing(DeploymentId),
}

/// The file system that a folder is on, or a block device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Device number; equal for folders on one file system.
    pub device: u64,
    /// What a block device or a namespace fails with, if that is known: the disk that it is a part of, as the map has it.
    pub domain: Option<String>,
    /// Mount point; of a block device its own path, behind links.
    pub mount: String,
    /// Whether it is the file system of `/`.
    pub root: bool,
    /// Whether it is in memory.
    pub memory: bool,
    /// Its size in bytes.
    pub total: u64,
}

impl Facts {
    /// Equal for drives that are lost together: the domain, else the device.
    fn fails_with(&self) -> (Option<&str>, u64) {
        self.domain.as_deref().map_or((None, self.device), |domain| (Some(domain), 0))
    }
}

/// Minimum size in bytes of a file system that is formatted: on a smaller one, the reserve of a drive and its
/// first segments use all space.
pub(crate) const MIN_SIZE: u64 = 512 << 20;
/// Size in bytes below which a drive causes a warning.
const SMALL_SIZE: u64 = 4 << 30;

/// Inspects one folder. Blocks until the file system answers.
pub(crate) fn inspect(path: &Path) -> InspectedFolder {
    InspectedFolder { path: path.to_owned(), probe: probe(path), facts: facts(path) }
}

/// The file system of a folder; `None` if it cannot be determined.
pub(crate) fn facts(path: &Path) -> Option<Facts> {
    use std::os::unix::fs::MetadataExt as _;
    if let Some(facts) = crate::namespaces::facts(path) {
        return Some(facts);
    }
    let device = |p: &Path| std::fs::metadata(p).ok().map(|m| m.dev());
    let folder = path.canonicalize().ok()?;
    if is_block_device(&folder) {
        return Some(Facts {
            device: std::fs::metadata(&folder).ok()?.rdev(),
            domain: domain(&folder),
            mount: folder.display().to_string(),
            root: false,
            memory: false,
            total: Folder::real(&folder, None).space().ok()?.total,
        });
    }
    let own = device(&folder)?;
    // The topmost folder on the same device is the mount point.
    let mount = folder.ancestors().take_while(|p| device(p) == Some(own)).last()?;
    let here = Folder::real(&folder, None);
    Some(Facts {
        device: own,
        domain: None,
        mount: mount.display().to_string(),
        root: device(Path::new("/")) == Some(own),
        memory: here.file_system().ok()? == FileSystem::Memory,
        total: here.space().ok()?.total,
    })
}

/// What a drive at a path fails with, as the map has it, if it is a block device or a namespace and that is known. Folders are not asked: what file systems
/// are on is often not known, and several on one are a choice of who names them (there are [`warnings`]).
pub(crate) fn domain(path: &Path) -> Option<String> {
    let by_kernel = || ashlar_machine::failure_domain(path).map(|d| domain_text(&d.name, d.on_network));
    crate::namespaces::domain(path).or_else(by_kernel)
}

/// Whether what is missing at a path would be a device: the file system of `/dev` itself has nothing else. Others may be mounted below.
pub(crate) fn would_be_a_device(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let device = |p: &Path| std::fs::metadata(p).ok().map(|m| m.dev());
    path.starts_with("/dev") && path.ancestors().find_map(device) == device(Path::new("/dev"))
}

/// Checks that the file system has enough space for a drive.
///
/// # Errors
/// A message for the operator.
pub(crate) fn check_size(path: &Path) -> Result<(), String> {
    match facts(path) {
        Some(f) if f.total < MIN_SIZE => Err(format!(
            "{}: its file system, or the device, has {}, a drive needs {} at least",
            path.display(),
            ashlar_arguments::size::show(f.total),
            ashlar_arguments::size::show(MIN_SIZE)
        )),
        _ => Ok(()),
    }
}

/// Warnings about the placement of the drives, one sentence each. `parity`: number of parity shards of the
/// code.
pub(crate) fn warnings(drives: &[(&Path, &Facts)], parity: u8) -> Vec<String> {
    let mut out = Vec::new();
    if parity == 0 {
        out.push("the code has no parity: one lost drive, or one damaged sector, loses objects".to_owned());
    }
    let names = |list: &[&(&Path, &Facts)]| {
        let all: Vec<String> = list.iter().map(|(p, _)| p.display().to_string()).collect();
        all.join(", ")
    };
    let mut devices: Vec<_> = drives.iter().map(|(_, f)| f.fails_with()).collect();
    devices.sort_unstable();
    devices.dedup();
    for device in devices {
        let same: Vec<_> = drives.iter().filter(|(_, f)| f.fails_with() == device).collect();
        if same.len() > 1 {
            let mount = &same[0].1.mount;
            let (what, also) = match device {
                (None, _) => (format!("file system (mounted at {mount})"), ", and its space is counted once"),
                (Some(domain), _) => (format!("drive ({})", domain_name(domain)), ""),
            };
            out.push(format!(
                "{} are on one {what}: losing it loses all of them at once{also}",
                names(&same)
            ));
        }
    }
    let root: Vec<_> = drives.iter().filter(|(_, f)| f.root).collect();
    if !root.is_empty() {
        out.push(format!("{}: on the system's own disk; objects can fill it", names(&root)));
    }
    let memory: Vec<_> = drives.iter().filter(|(_, f)| f.memory).collect();
    if !memory.is_empty() {
        out.push(format!("{}: in memory; all data is lost after a reboot", names(&memory)));
    }
    for (path, f) in drives.iter().filter(|(_, f)| f.total < SMALL_SIZE) {
        out.push(format!(
            "{}: only {}; it is full soon",
            path.display(),
            ashlar_arguments::size::show(f.total)
        ));
    }
    out
}

/// Absolute form of a path, without requiring that it exists. The address of a namespace stays as it is.
pub fn absolute(path: &str) -> PathBuf {
    if crate::namespaces::is_address(path) {
        return PathBuf::from(path);
    }
    std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path))
}

/// Decides what a start does with the folders.
///
/// # Errors
/// A message for the operator; it names every folder that prevents the start.
pub(crate) fn decide(folders: &[InspectedFolder]) -> Result<StartPlan, String> {
    let mut problems = Vec::new();
    let mut foreign = Vec::new();
    let mut deployment: Option<(DeploymentId, &Path)> = None;
    for folder in folders {
        match &folder.probe {
            Probe::Foreign(why) => foreign.push(format!(
                "{}: {why}. It is not a drive of ashlar and will not be touched; name an empty folder",
                folder.path.display()
            )),
            Probe::Ours(label) => match deployment {
                Some((other, at)) if other != label.deployment => problems.push(format!(
                    "{} and {} belong to different deployments",
                    at.display(),
                    folder.path.display()
                )),
                Some(_) => {}
                None => deployment = Some((label.deployment, &folder.path)),
            },
            Probe::Blank | Probe::Missing | Probe::Unreadable(_) => {}
        }
    }
    // A foreign folder among drives of this deployment counts as a missing drive: it is not touched, and the
    // others serve. At a first start it is a mistake on the command line.
    if deployment.is_none() {
        problems.append(&mut foreign);
    }
    if let (None, Some((path, why))) = (&deployment, unreadable(folders)) {
        problems.push(format!("{}: {why}", path.display()));
    }
    if !problems.is_empty() {
        return Err(problems.join("\n"));
    }
    for (i, a) in folders.iter().enumerate() {
        let Probe::Ours(label) = &a.probe else { continue };
        let twin = folders[..i].iter().find(|b| matches!(&b.probe, Probe::Ours(l) if l.drive == label.drive));
        if let Some(twin) = twin {
            return Err(format!(
                "{} and {} are the same drive; name it once",
                twin.path.display(),
                a.path.display()
            ));
        }
    }
    Ok(deployment.map_or(StartPlan::New, |(id, _)| StartPlan::Existing(id)))
}

fn unreadable(folders: &[InspectedFolder]) -> Option<(&Path, &str)> {
    folders.iter().find_map(|p| match &p.probe {
        Probe::Unreadable(why) => Some((p.path.as_path(), why.as_str())),
        _ => None,
    })
}

/// Why a folder is not in service.
pub(crate) fn problem(probe: &Probe) -> Option<String> {
    match probe {
        Probe::Ours(_) => None,
        Probe::Blank => Some("blank".into()),
        Probe::Foreign(why) => Some(format!("not a drive of ashlar: {why}")),
        Probe::Missing => Some("the folder does not exist".into()),
        Probe::Unreadable(why) => Some(why.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ashlar_drive::Label;
    use ashlar_format::DriveId;
    use std::os::unix::fs::MetadataExt as _;

    fn folder(path: &str, probe: Probe) -> InspectedFolder {
        InspectedFolder { path: path.into(), probe, facts: None }
    }

    fn ours(deployment: u8, drive: u8) -> Probe {
        Probe::Ours(Label {
            deployment: DeploymentId([deployment; 16]),
            drive: DriveId([drive; 16]),
            created_ms: 0,
        })
    }

    #[test]
    fn foreign_folders_stop_a_first_start_and_count_as_missing_later() {
        let photos = || Probe::Foreign("it holds photos".into());
        let text =
            decide(&[folder("a", photos()), folder("b", Probe::Blank), folder("c", photos())]).unwrap_err();
        assert!(text.contains("a: it holds photos") && text.contains("c: it holds photos"), "{text}");
        let text =
            decide(&[folder("a", photos()), folder("b", ours(1, 1)), folder("c", ours(2, 2))]).unwrap_err();
        assert!(text.contains("b and c belong"), "{text}");
        let existing = Ok(StartPlan::Existing(DeploymentId([1; 16])));
        assert_eq!(decide(&[folder("a", photos()), folder("b", ours(1, 1))]), existing);
    }

    #[test]
    fn nothing_is_made_among_devices() {
        let dir = tempfile::tempdir().unwrap();
        assert!(would_be_a_device(Path::new("/dev/no/such")) && !would_be_a_device(&dir.path().join("no")));
        // A file system of its own, in most places.
        let shm =
            std::fs::metadata("/dev/shm").is_ok_and(|m| m.dev() != std::fs::metadata("/dev").unwrap().dev());
        assert!(!shm || !would_be_a_device(Path::new("/dev/shm/no/such")));
    }

    #[test]
    fn missing_folders_are_created_only_at_a_first_start() {
        assert_eq!(decide(&[folder("a", Probe::Missing), folder("b", Probe::Blank)]), Ok(StartPlan::New));
        let existing = Ok(StartPlan::Existing(DeploymentId([1; 16])));
        assert_eq!(decide(&[folder("a", Probe::Missing), folder("b", ours(1, 1))]), existing);
        assert_eq!(
            decide(&[folder("a", Probe::Unreadable("EIO".into())), folder("b", ours(1, 1))]),
            existing
        );
        assert!(decide(&[folder("a", Probe::Unreadable("EIO".into())), folder("b", Probe::Blank)]).is_err());
        assert!(
            decide(&[folder("a", ours(1, 1)), folder("b", ours(1, 1))]).unwrap_err().contains("same drive")
        );
    }

    #[test]
    fn drive_placement_warnings() {
        let on = |device: u64, mount: &str, root, memory, total| Facts {
            device,
            domain: None,
            mount: mount.to_owned(),
            root,
            memory,
            total,
        };
        let disk = |n: u64| on(n, &format!("/mnt/d{n}"), false, false, 1 << 40);
        let paths: Vec<PathBuf> = (1..=4).map(|n| format!("/mnt/d{n}").into()).collect();
        let warn = |facts: &[Facts], parity| {
            let drives: Vec<_> = paths.iter().map(PathBuf::as_path).zip(facts).collect();
            warnings(&drives, parity)
        };
        assert!(warn(&[disk(1), disk(2), disk(3), disk(4)], 2).is_empty());
        let told = warn(&[disk(1), disk(1), disk(3), disk(3)], 0);
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(told[0].contains("no parity"));
        assert!(
            told[1].starts_with("/mnt/d1, /mnt/d2 are on one file system (mounted at /mnt/d1)"),
            "{told:?}"
        );
        let part = |n| Facts { domain: Some("the disk V7".to_owned()), ..disk(n) };
        let told = warn(&[disk(1), part(2), part(3), disk(4)], 1);
        let want = "/mnt/d2, /mnt/d3 are on one drive (the disk V7): losing it loses all of them at once";
        assert_eq!(told, [want]);
        let part = |n| Facts { domain: Some(domain_text("the disk V7", true)), ..disk(n) };
        assert_eq!(
            warn(&[disk(1), part(2), part(3), disk(4)], 1),
            [want],
            "of how it is reached nothing is said"
        );
        let told = warn(&[on(1, "/", true, false, 1 << 30), on(2, "/dev/shm", false, true, 1 << 40)], 1);
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(told[0].contains("system's own disk") && told[1].contains("in memory"));
        assert!(told[2].contains("1.0 GiB") || told[2].contains("1 GiB"), "{told:?}");
    }

    #[test]
    fn mount_point_of_folder_is_found() {
        let root = facts(Path::new("/")).unwrap();
        assert_eq!((root.mount.as_str(), root.root), ("/", true));
        let dir = tempfile::tempdir().unwrap();
        let here = facts(dir.path()).unwrap();
        assert!(dir.path().canonicalize().unwrap().starts_with(&here.mount) && here.total > 0);
        assert_eq!(facts(&dir.path().join("gone")), None);
    }
}
