//! Drives for measurements: XFS on loop devices with direct I/O, backed by memory.
//!
//! Why: a folder on tmpfs has no journal, no barriers and no inode costs, so its results are too good;
//! results of a shared disk vary. These behave like real file systems with a fast, steady device below.
//!
//! Invariant: `down` unmounts and removes only what `up` made, identified by the folder.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use clap::{Args, Subcommand};

use crate::{
    outcome::Outcome,
    shell::{is_root, read},
    size::Size,
};

/// `loopdrives up|down`.
#[derive(Args)]
pub struct Options {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Makes DIR/drive1 to DIR/driveN
    Up {
        /// Where the file systems are mounted
        #[arg(long)]
        dir: PathBuf,
        /// How many
        #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
        count: u32,
        /// The size of each; memory is used as it fills (XFS wants 300 MiB at least)
        #[arg(long, default_value = "4GiB")]
        size: Size,
        /// Where the backing files lie
        #[arg(long, default_value = "/dev/shm")]
        backing: PathBuf,
    },
    /// Unmounts and removes what `up` made in DIR
    Down {
        /// The same folder as for `up`
        #[arg(long)]
        dir: PathBuf,
        /// The same folder as for `up`
        #[arg(long, default_value = "/dev/shm")]
        backing: PathBuf,
    },
}

/// Makes or removes them.
pub fn run(options: &Options) -> Outcome {
    if !is_root() {
        return Err("loop devices and mounts need root: run `sudo cargo xtask loopdrives ...`".into());
    }
    match &options.action {
        Action::Up { dir, count, size, backing } => {
            for program in ["mkfs.xfs", "losetup", "mount"] {
                if read(Command::new("sh").args(["-c", &format!("command -v {program}")])).is_err() {
                    return Err(format!("{program} is missing: apt-get install xfsprogs mount").into());
                }
            }
            fs::create_dir_all(dir)?;
            let dir = dir.canonicalize()?;
            for number in 1..=*count {
                if let Err(error) = make(&dir, number, *size, backing) {
                    let _ = down(&dir, backing);
                    return Err(error);
                }
            }
            println!("{}/drive{{1...{count}}}", dir.display());
            Ok(())
        }
        Action::Down { dir, backing } => down(&dir.canonicalize()?, backing),
    }
}

fn make(dir: &Path, number: u32, size: Size, backing: &Path) -> Outcome {
    let mount = dir.join(format!("drive{number}"));
    if mount.exists() && fs::read_dir(&mount)?.next().is_some() {
        return Err(format!("{} is not empty; run `loopdrives down` first", mount.display()).into());
    }
    fs::create_dir_all(&mount)?;
    let file = image(dir, number, backing);
    fs::File::create_new(&file).map_err(|e| format!("{}: {e}", file.display()))?.set_len(size.0)?;
    let device = read(Command::new("losetup").args(["--direct-io=on", "--find", "--show"]).arg(&file))?;
    let direct = read(Command::new("losetup").args(["--noheadings", "--output", "DIO", &device]))?;
    if direct.trim() != "1" {
        eprintln!("note: {device} has no direct I/O on {}: writes are copied once more", backing.display());
    }
    read(Command::new("mkfs.xfs").args(["-q", "-f", &device]))?;
    read(Command::new("mount").args(["-o", "noatime", &device]).arg(&mount))?;
    Ok(())
}

fn down(dir: &Path, backing: &Path) -> Outcome {
    let mut failed = Vec::new();
    for number in 1..=64 {
        let file = image(dir, number, backing);
        if !file.exists() {
            continue;
        }
        let mount = dir.join(format!("drive{number}"));
        let mounted =
            fs::read_to_string("/proc/self/mounts")?.lines().any(|l| l.split(' ').nth(1) == mount.to_str());
        if mounted && let Err(error) = read(Command::new("umount").arg(&mount)) {
            failed.push(error.to_string());
            continue;
        }
        let devices = read(
            Command::new("losetup").args(["--noheadings", "--output", "NAME", "--associated"]).arg(&file),
        )?;
        for device in devices.split_whitespace() {
            read(Command::new("losetup").args(["--detach", device]))?;
        }
        fs::remove_file(&file)?;
        let _ = fs::remove_dir(&mount);
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ").into()) }
}

/// The backing file. Its name contains the folder's, so that two sets do not collide.
fn image(dir: &Path, number: u32, backing: &Path) -> PathBuf {
    let name: String =
        dir.to_string_lossy().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    backing.join(format!("ashlar-loop{name}-{number}.img"))
}
