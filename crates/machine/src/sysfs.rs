//! What the kernel says about block devices: what they are parts of, what they fail with, and who has them in use.
//!
//! The facts are in sysfs (`Documentation/ABI/stable/sysfs-block` of Linux); where it is not mounted nothing is known, and nothing fails.
//!
//! Invariants: only reads; names of the kernel (`sda`) are for people and never an identity that is kept.
//!
//! Must not depend on: how devices are read and written.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Devices that are made of others are followed so far down.
const DEPTH: usize = 8;

/// Major and minor number.
pub(crate) type Number = (u32, u32);

/// What a device fails with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FailureDomain {
    /// For people, and equal for devices that are lost together.
    pub name: String,
    /// Whether the kernel reaches it over a network, as other machines may: the name is the same on all of them.
    pub on_network: bool,
}

/// A block device in sysfs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Facts {
    /// Its folder; that of its disk if it is a partition.
    dir: PathBuf,
    disk: PathBuf,
    /// The number of the disk's appearance: another disk that gets its name has another one.
    sequence: Option<String>,
}

/// The text of an attribute; none if it is empty or is not there.
fn text(path: impl AsRef<Path>) -> Option<String> {
    let bytes = fs::read(path).ok()?;
    let text =
        String::from_utf8_lossy(&bytes).trim_matches(|c: char| c.is_whitespace() || c == '\0').to_owned();
    (!text.is_empty()).then_some(text)
}

fn name(dir: &Path) -> String {
    // Names of the kernel with a slash have an exclamation mark there.
    dir.file_name().map(|n| n.to_string_lossy().replace('!', "/")).unwrap_or_default()
}

/// The folders in a folder, sorted; links are followed.
fn entries(dir: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut out: Vec<PathBuf> = all.filter_map(|e| e.path().canonicalize().ok()).collect();
    out.sort();
    out
}

/// Who has a device in use, as the kernel lists it.
pub(crate) struct Uses {
    /// `/proc/self/mountinfo`.
    pub(crate) mounts: String,
    /// `/proc/swaps`.
    pub(crate) swaps: String,
}

impl Uses {
    /// Those of this moment.
    pub(crate) fn now() -> Uses {
        let read =
            |path| fs::read(path).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default();
        Uses { mounts: read("/proc/self/mountinfo"), swaps: read("/proc/swaps") }
    }

    /// Where a device is mounted, and whether it is swap space.
    fn of(&self, name: &str, number: Option<&str>) -> Vec<String> {
        let path = format!("/dev/{name}");
        let mut out = Vec::new();
        for line in self.mounts.lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            let source = fields.iter().position(|f| *f == "-").and_then(|at| fields.get(at + 2));
            // Btrfs has a number of its own.
            let here = fields.get(2).copied() == number && number.is_some() || source == Some(&path.as_str());
            if let Some(at) = fields.get(4).filter(|_| here) {
                out.push(format!("{name} is mounted at {}", at.replace("\\040", " ")));
            }
        }
        let swap = |line: &str| line.split_whitespace().next() == Some(path.as_str());
        out.extend(self.swaps.lines().any(swap).then(|| format!("{name} is swap space")));
        out
    }
}

impl Facts {
    /// Those of a device.
    pub(crate) fn of(sys: &Path, (major, minor): Number) -> Option<Facts> {
        let dir = sys.join(format!("dev/block/{major}:{minor}")).canonicalize().ok()?;
        Some(Facts::at(dir))
    }

    fn at(dir: PathBuf) -> Facts {
        let disk = match dir.parent() {
            Some(parent) if dir.join("partition").exists() => parent.to_owned(),
            _ => dir.clone(),
        };
        Facts { sequence: text(disk.join("diskseq")), dir, disk }
    }

    /// Whether the device is there, and is the same one.
    pub(crate) fn still(&self) -> bool {
        self.dir.is_dir() && text(self.disk.join("diskseq")) == self.sequence
    }

    /// False: it cannot discard, so that to be asked for it would only make it write zeros.
    pub(crate) fn discards(&self) -> bool {
        text(self.disk.join("queue/discard_max_bytes")).is_none_or(|most| most != "0")
    }

    /// Bytes of its logical blocks: what it writes as a whole.
    pub(crate) fn block_bytes(&self) -> Option<u64> {
        text(self.disk.join("queue/logical_block_size"))?.parse().ok()
    }

    /// What the kernel says about whether it rotates; also true of many virtual disks, whatever is behind them.
    pub(crate) fn rotates(&self) -> Option<bool> {
        text(self.disk.join("queue/rotational")).map(|rotates| rotates != "0")
    }

    /// What the device fails with: its NVMe subsystem, or its disk by serial number or World Wide Name, or by the kernel's name if it tells neither.
    /// A device that is made of another one (a logical volume) fails with that.
    pub(crate) fn domain(&self) -> FailureDomain {
        self.domain_within(DEPTH)
    }

    fn domain_within(&self, depth: usize) -> FailureDomain {
        let below = if depth > 0 { entries(&self.dir.join("slaves")) } else { Vec::new() };
        let below = below.into_iter().map(|dir| Facts::at(dir).domain_within(depth - 1));
        // Two paths to one disk are one; either may be over a network.
        let mut names = BTreeMap::new();
        below.for_each(|d| *names.entry(d.name).or_insert(false) |= d.on_network);
        if let (1, Some((name, on_network))) = (names.len(), names.pop_first()) {
            return FailureDomain { name, on_network };
        }
        let of = |attribute: &str| text(self.disk.join(attribute));
        // A namespace has a World Wide Name of its own; the subsystem is the drive.
        if let Some(nqn) = of("device/subsysnqn") {
            return FailureDomain { name: format!("the subsystem {nqn}"), on_network: self.is_on_network() };
        }
        let model = of("device/model").map(|m| format!("{m} ")).unwrap_or_default();
        let name = if let Some(serial) = of("serial").or_else(|| of("device/serial")) {
            format!("the disk {model}with the serial number {serial}")
        } else {
            match of("device/wwid") {
                Some(wwid) => format!("the disk {wwid}"),
                None => format!("the disk {}", name(&self.disk)),
            }
        };
        FailureDomain { name, on_network: false }
    }

    /// Whether a controller of the namespace is reached over a network. The device of a namespace is its controller, or its subsystem, in
    /// which the controllers are, where the kernel puts paths together (`nvme_core.multipath`).
    fn is_on_network(&self) -> bool {
        let device = self.disk.join("device");
        let controllers = entries(&device).into_iter().chain([device]);
        let transports = controllers.filter_map(|dir| text(dir.join("transport")));
        // Not `loop`, which is this machine.
        transports.into_iter().any(|transport| matches!(transport.as_str(), "tcp" | "rdma" | "fc"))
    }

    /// Devices that are made of this one: md, device mapper, bcache.
    pub(crate) fn holders(&self) -> Vec<String> {
        let dirs = entries(&self.dir.join("holders")).into_iter();
        dirs.map(|dir| text(dir.join("dm/name")).unwrap_or_else(|| name(&dir))).collect()
    }

    /// Who has the device, its partitions or its disk in use, as far as the kernel shows it to this process.
    pub(crate) fn users(&self, uses: &Uses) -> Vec<String> {
        let mut all = vec![self.clone()];
        if self.dir == self.disk {
            let parts = entries(&self.disk).into_iter().filter(|dir| dir.join("partition").exists());
            all.extend(parts.map(Facts::at));
        } else {
            all.push(Facts::at(self.disk.clone()));
        }
        let mut out = Vec::new();
        for one in all {
            let name = name(&one.dir);
            out.extend(one.holders().into_iter().map(|holder| format!("{name} is a part of {holder}")));
            out.extend(uses.of(&name, text(one.dir.join("dev")).as_deref()));
        }
        out.dedup();
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A tree as sysfs has it.
    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new() -> Tree {
            let tree = Tree(tempfile::tempdir().unwrap());
            fs::create_dir_all(tree.path("dev/block")).unwrap();
            tree
        }

        fn path(&self, at: &str) -> PathBuf {
            self.0.path().join(at)
        }

        /// A device with a number and attributes, below `devices`.
        fn device(&self, at: &str, number: &str, attributes: &[(&str, &str)]) {
            let dir = self.path("devices").join(at);
            fs::create_dir_all(&dir).unwrap();
            for (file, content) in [("dev", number)].iter().chain(attributes) {
                let file = dir.join(file);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, format!("{content}\n")).unwrap();
            }
            symlink(&dir, self.path("dev/block").join(number)).unwrap();
        }

        fn made_of(&self, whole: &str, part: &str) {
            let devices = self.path("devices");
            for (dir, list, other) in [(whole, "slaves", part), (part, "holders", whole)] {
                let list = devices.join(dir).join(list);
                fs::create_dir_all(&list).unwrap();
                symlink(devices.join(other), list.join(name(Path::new(other)))).unwrap();
            }
        }

        fn facts(&self, number: Number) -> Facts {
            Facts::of(self.0.path(), number).unwrap()
        }
    }

    #[test]
    fn what_is_lost_together_has_one_domain() {
        let tree = Tree::new();
        let controller = [("device/subsysnqn", "nqn.x"), ("device/serial", "S1"), ("wwid", "eui.1")];
        tree.device("nvme-subsys0/nvme0n1", "259:1", &controller);
        tree.device("nvme-subsys0/nvme0n2", "259:2", &[("device/subsysnqn", "nqn.x"), ("wwid", "eui.2")]);
        tree.device(
            "nvme-subsys1/nvme1n1",
            "259:3",
            &[("device/serial", "S2"), ("device/model", "M  "), ("wwid", "eui.3")],
        );
        tree.device("pci/nvme-subsys1/nvme1n1/nvme1n1p1", "259:4", &[("partition", "1")]);
        tree.device("sda", "8:0", &[("device/wwid", "naa.5000"), ("device/model", "Big")]);
        tree.device("sda/sda1", "8:1", &[("partition", "1")]);
        tree.device("sda/sda2", "8:2", &[("partition", "2")]);
        tree.device("vda", "254:0", &[("serial", "V7")]);
        tree.device("loop0", "7:0", &[]);
        let domain = |major, minor| tree.facts((major, minor)).domain().name;
        // As a namespace that is used without the kernel's host.
        assert_eq!(
            (domain(259, 1), domain(259, 2)),
            ("the subsystem nqn.x".into(), "the subsystem nqn.x".into())
        );
        assert_eq!(domain(259, 3), "the disk M with the serial number S2");
        assert_eq!((domain(8, 0), domain(8, 1), domain(8, 2)), {
            let disk = || "the disk naa.5000".to_owned();
            (disk(), disk(), disk())
        });
        assert_eq!(
            (domain(254, 0), domain(7, 0)),
            ("the disk with the serial number V7".into(), "the disk loop0".into())
        );
        assert!(Facts::of(tree.0.path(), (1, 1)).is_none());
    }

    #[test]
    fn a_device_made_of_one_disk_fails_with_it() {
        let tree = Tree::new();
        tree.device("sda", "8:0", &[("device/wwid", "naa.1")]);
        tree.device("sda/sda1", "8:1", &[("partition", "1")]);
        tree.device("sdb", "8:16", &[("device/wwid", "naa.1")]);
        tree.device("sdc", "8:32", &[("device/wwid", "naa.2")]);
        for (n, parts) in [vec!["sda/sda1"], vec!["sda", "sdb"], vec!["sda", "sdc"]].into_iter().enumerate() {
            tree.device(&format!("dm-{n}"), &format!("253:{n}"), &[("dm/name", &format!("vg-{n}"))]);
            parts.iter().for_each(|part| tree.made_of(&format!("dm-{n}"), part));
        }
        let domain = |n| tree.facts((253, n)).domain().name;
        // A volume on a partition; two paths to one disk; a volume over two disks.
        assert_eq!((domain(0), domain(1)), ("the disk naa.1".into(), "the disk naa.1".into()));
        assert_eq!(domain(2), "the disk dm-2");
        assert_eq!(tree.facts((8, 1)).holders(), ["vg-0"]);
    }

    #[test]
    fn namespaces_that_others_may_reach_are_told_from_local_ones() {
        let tree = Tree::new();
        // Without multipath the device is the controller, with it the subsystem.
        tree.device("nvme0n1", "259:1", &[("device/subsysnqn", "nqn.x"), ("device/transport", "tcp")]);
        tree.device("nvme1n1", "259:2", &[("device/subsysnqn", "nqn.x"), ("device/nvme1/transport", "pcie")]);
        let both = [("device/nvme2/transport", "pcie"), ("device/nvme3/transport", "rdma")];
        tree.device("nvme2n1", "259:3", &[("device/subsysnqn", "nqn.y"), both[0], both[1]]);
        tree.device("nvme3n1", "259:4", &[("device/subsysnqn", "nqn.z"), ("device/transport", "loop")]);
        tree.device("nvme0n1/nvme0n1p1", "259:5", &[("partition", "1")]);
        tree.device("sda", "8:0", &[("device/wwid", "naa.1")]);
        tree.device("dm-0", "253:0", &[]);
        tree.made_of("dm-0", "nvme0n1/nvme0n1p1");
        let domain = |major, minor| tree.facts((major, minor)).domain();
        for (number, name, on_network) in [
            ((259, 1), "the subsystem nqn.x", true),
            ((259, 2), "the subsystem nqn.x", false),
            ((259, 3), "the subsystem nqn.y", true),
            ((259, 4), "the subsystem nqn.z", false),
            ((259, 5), "the subsystem nqn.x", true),
            ((253, 0), "the subsystem nqn.x", true),
            ((8, 0), "the disk naa.1", false),
        ] {
            let want = FailureDomain { name: name.to_owned(), on_network };
            assert_eq!(domain(number.0, number.1), want, "{number:?}");
        }
    }

    #[test]
    fn who_has_a_device_in_use_is_named() {
        let tree = Tree::new();
        tree.device("sda", "8:0", &[]);
        tree.device("sda/sda1", "8:1", &[("partition", "1")]);
        tree.device("sda/sda2", "8:2", &[("partition", "2")]);
        tree.device("sdb", "8:16", &[]);
        tree.device("md0", "9:0", &[]);
        tree.made_of("md0", "sda/sda2");
        let uses = Uses {
            mounts: "36 35 8:1 / /mnt/a\\040b rw,noatime - ext4 /dev/sda1 rw\n37 35 0:44 / /data rw - btrfs /dev/sdb rw\n\
                     38 35 8:10 / /no rw - ext4 /dev/sda10 rw\n"
                .into(),
            swaps: "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n".into(),
        };
        let of = |major, minor| tree.facts((major, minor)).users(&uses);
        assert_eq!(of(8, 0), ["sda1 is mounted at /mnt/a b", "sda2 is a part of md0", "sda2 is swap space"]);
        assert_eq!(of(8, 1), ["sda1 is mounted at /mnt/a b"]);
        assert_eq!(of(8, 16), ["sdb is mounted at /data"]);
        assert!(of(9, 0).is_empty());
    }

    #[test]
    fn a_partition_rotates_as_its_disk_does() {
        let tree = Tree::new();
        tree.device("sda", "8:0", &[("queue/rotational", "1")]);
        tree.device("sda/sda1", "8:1", &[("partition", "1")]);
        tree.device("nvme0n1", "259:1", &[("queue/rotational", "0")]);
        tree.device("odd", "7:0", &[]);
        let rotates = |major, minor| tree.facts((major, minor)).rotates();
        assert_eq!((rotates(8, 0), rotates(8, 1)), (Some(true), Some(true)));
        assert_eq!((rotates(259, 1), rotates(7, 0)), (Some(false), None));
    }

    #[test]
    fn a_device_that_is_gone_or_another_one_is_noticed() {
        let tree = Tree::new();
        tree.device("sda", "8:0", &[("diskseq", "4"), ("queue/discard_max_bytes", "0")]);
        tree.device("sda/sda1", "8:1", &[("partition", "1")]);
        tree.device("sdb", "8:16", &[("queue/discard_max_bytes", "1073741824")]);
        let (whole, part) = (tree.facts((8, 0)), tree.facts((8, 1)));
        assert!(whole.still() && part.still() && !part.discards() && tree.facts((8, 16)).discards());
        fs::write(tree.path("devices/sda/diskseq"), "5\n").unwrap();
        assert!(!whole.still() && !part.still());
        let part = tree.facts((8, 1));
        fs::remove_dir_all(tree.path("devices/sda/sda1")).unwrap();
        assert!(!part.still());
    }
}
