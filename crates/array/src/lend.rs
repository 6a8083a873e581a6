//! Hot spares that the groups of a process share, if its operator says so.
//!
//! A group that has a failed drive and no spare of its own gets a hot spare of another group. The other group gives it up first, durably, so
//! that no drive is ever a spare of two groups: a loss of power in between leaves a drive that belongs to no group.
//!
//! Invariants: a group with a failed drive gives none away; management calls come first, as they may be about the same drives.
//!
//! Must not depend on: how a spare is used afterwards.

use std::sync::Arc;

use crate::error::Error;
use crate::group::InService;
use crate::owner::Owner;

/// Gives a group a hot spare of another one: the name of that group. None: no group has one that is large enough, or a management call is being
/// executed; it may be asked again.
///
/// # Errors
/// The drive cannot be a spare of the group; the other one has it again.
pub(crate) fn spare(owner: &Owner, to: &InService) -> Result<Option<String>, Error> {
    let Some(_turn) = owner.try_turn() else { return Ok(None) };
    let mut others: Vec<Arc<InService>> = owner.groups().into_iter().filter(|g| g.name != to.name).collect();
    // Whoever has most gives first.
    others.sort_by_key(|g| std::cmp::Reverse(g.shared.look(|g| g.spares().len())));
    let need = to.shared.look(ashlar_raid::Group::member_size);
    for from in others {
        let Some(path) = from.shared.look(|g| g.spare_to_lend(need)) else { continue };
        let (drive, name) = (from.give_up_spare(&path)?, from.name.clone());
        let Err(error) = to.add_spare(drive, false) else { return Ok(Some(name)) };
        let back = crate::files::lock(path.as_ref()).and_then(|drive| from.add_spare(drive, false));
        return Err(match back {
            Ok(()) => error,
            Err(more) => {
                Error { message: format!("{error}; the group {name:?} has lost it: {more}"), ..error }
            }
        });
    }
    Ok(None)
}
