//! Groups over files of one simulated disk, so that all members share one log of writes and flushes.

use std::sync::Arc;

use ashlar_environment::random::Seeded;
use ashlar_machine::{DiskFile, Faults, Folder, SimDisk};

use super::waiting::{How, Traffic, Waiting};
use crate::{BLOCK, Device, Group, Level, Plan, Policy};

pub(super) const B: u64 = BLOCK as u64;
/// Blocks of a member: the journal and 48 blocks or more of data.
pub(super) const MEMBER: u64 = 16 + 256 + 2 + 48 + 14;

pub(super) struct Rig {
    pub(super) disk: SimDisk,
    pub(super) faults: Vec<Arc<Faults>>,
    /// How its devices are asked.
    pub(super) how: How,
    pub(super) traffic: Traffic,
    /// They never write a part of a block.
    pub(super) atomic: bool,
}

impl Rig {
    /// `devices` empty devices.
    pub(super) fn new(devices: usize) -> Rig {
        Rig::with(devices, MEMBER)
    }

    /// `devices` empty devices of so many blocks.
    pub(super) fn with(devices: usize, blocks: u64) -> Rig {
        let disk = SimDisk::new(1 << 40);
        let rig = Rig::of(disk, devices);
        for i in 0..devices {
            let folder = Folder::simulated(&rig.disk, None);
            let file = folder.create(&name(i), false).unwrap();
            file.allocate(blocks * B).unwrap();
            file.sync_all().unwrap();
            folder.sync().unwrap();
        }
        rig
    }

    /// The rig of an image.
    pub(super) fn of(disk: SimDisk, devices: usize) -> Rig {
        let faults = (0..devices).map(|_| Arc::new(Faults::new())).collect();
        Rig { disk, faults, how: How::InTurn, traffic: Traffic::default(), atomic: false }
    }

    /// The same, whose devices are asked in this way.
    pub(super) fn asked(self, how: How, seed: u64) -> Rig {
        Rig { how, traffic: Traffic::seeded(seed), ..self }
    }

    pub(super) fn file(&self, i: usize) -> DiskFile {
        Folder::simulated(&self.disk, Some(self.faults[i].clone())).open(&name(i), false).unwrap()
    }

    pub(super) fn device(&self, i: usize) -> Device {
        let file = Arc::new(self.file(i));
        let medium = Waiting { file, how: self.how, traffic: self.traffic.clone(), atomic: self.atomic };
        Device { medium: Box::new(medium), name: name(i) }
    }

    pub(super) fn devices(&self, which: impl IntoIterator<Item = usize>) -> Vec<Device> {
        which.into_iter().map(|i| self.device(i)).collect()
    }

    pub(super) fn create(&self, level: Level, strip: u64, policy: Policy, members: usize) -> Group {
        let plan = Plan { name: "g".into(), level, strip, policy, journal: 256 * B, ..Plan::default() };
        Group::create(&plan, self.devices(0..members), vec![]).unwrap()
    }
}

pub(super) fn name(i: usize) -> String {
    format!("m{i}")
}

/// The content of a block with an identity; 0 is zeros.
pub(super) fn content(id: u64) -> Vec<u8> {
    let mut out = vec![0; BLOCK];
    if id != 0 {
        Seeded::new(id).fill(&mut out);
        out[..8].copy_from_slice(&id.to_le_bytes());
    }
    out
}

/// Its inverse; none: a mixture, or garbage.
pub(super) fn identity(block: &[u8]) -> Option<u64> {
    let mut id = [0; 8];
    id.copy_from_slice(&block[..8]);
    let id = u64::from_le_bytes(id);
    (content(id) == block).then_some(id)
}

/// The identity of every block.
pub(super) fn identities(group: &mut Group) -> Vec<Option<u64>> {
    let mut all = vec![0; group.size() as usize];
    group.read(0, &mut all).unwrap();
    all.chunks_exact(BLOCK).map(identity).collect()
}
