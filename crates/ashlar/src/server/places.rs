//! What lies at the paths that were named, and what a start makes of it. Pure but for the looking.
//!
//! Invariants: nothing that is not blank is ever formatted; a folder that is missing is made only
//! when no drive of a deployment was found, because otherwise it is a drive that is not mounted.

use std::path::{Path, PathBuf};

use ashlar_drive::{Probe, probe};
use ashlar_format::DeploymentId;

/// A path and what is there.
#[derive(Debug, Clone)]
pub struct Place {
    /// The folder, absolute where that can be said.
    pub path: PathBuf,
    /// What was found.
    pub probe: Probe,
}

/// What to do with all of them.
#[derive(Debug, PartialEq, Eq)]
pub enum Finding {
    /// Nobody was here before: make the folders that are missing and format all.
    New,
    /// A deployment, whole or in part.
    Existing(DeploymentId),
}

/// Looks at every path, in parallel: a hanging drive must not hold up the others for long.
pub fn look(paths: &[PathBuf]) -> Vec<Place> {
    std::thread::scope(|scope| {
        let looks: Vec<_> = paths.iter().map(|path| scope.spawn(|| probe(path))).collect();
        let probes = looks
            .into_iter()
            .map(|look| look.join().unwrap_or_else(|_| Probe::Unreadable("the look at it failed".into())));
        paths.iter().zip(probes).map(|(path, probe)| Place { path: path.clone(), probe }).collect()
    })
}

/// Absolute form of a path, without requiring that it exists.
pub fn absolute(path: &str) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path))
}

/// Decides.
///
/// # Errors
/// In words for the operator: every path that stands in the way is named.
pub fn judge(places: &[Place]) -> Result<Finding, String> {
    let mut problems = Vec::new();
    let mut foreign = Vec::new();
    let mut deployment: Option<(DeploymentId, &Path)> = None;
    for place in places {
        match &place.probe {
            Probe::Foreign(why) => foreign.push(format!(
                "{}: {why}. It is not a drive of ashlar and will not be touched; name an empty folder",
                place.path.display()
            )),
            Probe::Ours(label) => match deployment {
                Some((other, at)) if other != label.deployment => problems.push(format!(
                    "{} and {} belong to different deployments",
                    at.display(),
                    place.path.display()
                )),
                Some(_) => {}
                None => deployment = Some((label.deployment, &place.path)),
            },
            Probe::Blank | Probe::Missing | Probe::Unreadable(_) => {}
        }
    }
    // A foreign folder among drives of ours is a drive that is missing: it is left alone and the
    // others serve. Before there is a deployment it is a mistake on the command line.
    if deployment.is_none() {
        problems.append(&mut foreign);
    }
    if let (None, Some((path, why))) = (&deployment, unreadable(places)) {
        problems.push(format!("{}: {why}", path.display()));
    }
    if !problems.is_empty() {
        return Err(problems.join("\n"));
    }
    for (i, a) in places.iter().enumerate() {
        let Probe::Ours(label) = &a.probe else { continue };
        let twin = places[..i].iter().find(|b| matches!(&b.probe, Probe::Ours(l) if l.drive == label.drive));
        if let Some(twin) = twin {
            return Err(format!(
                "{} and {} are the same drive; name it once",
                twin.path.display(),
                a.path.display()
            ));
        }
    }
    Ok(deployment.map_or(Finding::New, |(id, _)| Finding::Existing(id)))
}

fn unreadable(places: &[Place]) -> Option<(&Path, &str)> {
    places.iter().find_map(|p| match &p.probe {
        Probe::Unreadable(why) => Some((p.path.as_path(), why.as_str())),
        _ => None,
    })
}

/// Whether a blank folder may be a mount point whose drive is not mounted: it lies on the file
/// system of the folder above, while every drive that is there is a mount of its own.
pub fn looks_unmounted(blank: &Path, drives: &[PathBuf]) -> bool {
    let is_mount = |path: &Path| {
        let device = |p: &Path| {
            use std::os::unix::fs::MetadataExt as _;
            std::fs::metadata(p).ok().map(|m| m.dev())
        };
        match (device(path), path.parent().and_then(device)) {
            (Some(own), Some(above)) => own != above,
            _ => false,
        }
    };
    !drives.is_empty() && !is_mount(blank) && drives.iter().all(|d| is_mount(d))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ashlar_drive::Label;
    use ashlar_format::DriveId;

    fn place(path: &str, probe: Probe) -> Place {
        Place { path: path.into(), probe }
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
            judge(&[place("a", photos()), place("b", Probe::Blank), place("c", photos())]).unwrap_err();
        assert!(text.contains("a: it holds photos") && text.contains("c: it holds photos"), "{text}");
        let text =
            judge(&[place("a", photos()), place("b", ours(1, 1)), place("c", ours(2, 2))]).unwrap_err();
        assert!(text.contains("b and c belong"), "{text}");
        let existing = Ok(Finding::Existing(DeploymentId([1; 16])));
        assert_eq!(judge(&[place("a", photos()), place("b", ours(1, 1))]), existing);
    }

    #[test]
    fn missing_folders_are_new_only_when_all_is_new() {
        assert_eq!(judge(&[place("a", Probe::Missing), place("b", Probe::Blank)]), Ok(Finding::New));
        let existing = Ok(Finding::Existing(DeploymentId([1; 16])));
        assert_eq!(judge(&[place("a", Probe::Missing), place("b", ours(1, 1))]), existing);
        assert_eq!(judge(&[place("a", Probe::Unreadable("EIO".into())), place("b", ours(1, 1))]), existing);
        assert!(judge(&[place("a", Probe::Unreadable("EIO".into())), place("b", Probe::Blank)]).is_err());
        assert!(judge(&[place("a", ours(1, 1)), place("b", ours(1, 1))]).unwrap_err().contains("same drive"));
    }
}
