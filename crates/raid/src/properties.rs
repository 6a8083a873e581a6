//! Properties of virtual drives in the superblock. **Part of the on-drive format** (docs/array.md, "Format").
//!
//! They are behind everything that releases without them read, and a superblock with any has a version of its own.
//!
//! Invariants: what is read is written again as it was; a property that is not known is refused.
//!
//! Must not depend on: devices, groups.

use ashlar_format::Error::{self, Malformed};
use ashlar_format::codec::{Reader, Writer};

use crate::superblock::{MAX_THIN, PIECE_LOG, ThinMap, Volume, VolumeLimits};
use crate::thin_map::ENTRIES;

/// Which properties a virtual drive has.
const IOPS: u8 = 1;
const BANDWIDTH: u8 = 2;
const THIN: u8 = 4;

fn flags(volume: &Volume) -> u8 {
    let VolumeLimits { iops, bandwidth } = volume.limits;
    let of = |has: bool, flag: u8| if has { flag } else { 0 };
    of(iops > 0, IOPS) | of(bandwidth > 0, BANDWIDTH) | of(volume.thin.is_some(), THIN)
}

/// Whether a virtual drive has properties.
pub(crate) fn has_any(volume: &Volume) -> bool {
    flags(volume) != 0
}

/// Writes those of all virtual drives.
pub(crate) fn put(w: &mut Writer, volumes: &[Volume]) {
    let having: Vec<(usize, &Volume)> = volumes.iter().enumerate().filter(|(_, v)| has_any(v)).collect();
    w.list(&having, |w, (at, volume)| {
        let flags = flags(volume);
        w.u16(*at as u16);
        w.u8(flags);
        if flags & IOPS != 0 {
            w.u32(volume.limits.iops);
        }
        if flags & BANDWIDTH != 0 {
            w.u64(volume.limits.bandwidth);
        }
        if let Some(thin) = volume.thin {
            w.u32(thin.blocks);
            w.u8(thin.piece_log);
        }
    });
}

/// Reads them.
///
/// # Errors
/// [`Malformed`].
pub(crate) fn get(r: &mut Reader<'_>, volumes: &mut [Volume]) -> Result<(), Error> {
    let (mut next, mut piece_log) = (0, None);
    let read = r.list(|r| {
        let at = usize::from(r.u16()?);
        let volume = volumes.get_mut(at).filter(|_| at >= next).ok_or(Malformed("property"))?;
        next = at + 1;
        let known = r.u8()?;
        if known & IOPS != 0 {
            volume.limits.iops = r.u32()?;
        }
        if known & BANDWIDTH != 0 {
            volume.limits.bandwidth = r.u64()?;
        }
        if known & THIN != 0 {
            let thin = ThinMap { blocks: r.u32()?, piece_log: r.u8()? };
            let entries = u64::from(thin.blocks) * ENTRIES as u64;
            let most =
                if thin.piece_log <= PIECE_LOG { (entries << thin.piece_log).min(MAX_THIN) } else { 0 };
            if volume.blocks > most || *piece_log.get_or_insert(thin.piece_log) != thin.piece_log {
                return Err(Malformed("thin virtual drive"));
            }
            volume.thin = Some(thin);
        }
        if known == 0 || flags(volume) != known { Err(Malformed("property")) } else { Ok(()) }
    })?;
    if read.is_empty() { Err(Malformed("no property")) } else { Ok(()) }
}
