//! Features of reservations: the mask of notifications and the persistence of a namespace (Base 5.27.1.29, 5.27.1.30).
//!
//! The mask is that of a controller and a namespace: a host decides for itself.
//!
//! Must not depend on: how reservations change.

use crate::controller::Controller;
use crate::identify::ALL;
use crate::reservation::known::MASKS;
use crate::status;

/// The namespaces that a number names, all of which can be reserved.
fn namespaces(controller: &Controller, nsid: u32, all: bool) -> Result<Vec<u32>, u16> {
    let subsystem = controller.subsystem.as_ref().ok_or(status::INVALID_FIELD)?;
    let reservable = |n: u32| subsystem.namespace(n).map(|n| n.reservations().is_some());
    if all && nsid == ALL {
        return Ok(subsystem.namespaces().into_iter().filter(|n| reservable(*n) == Some(true)).collect());
    }
    match reservable(nsid) {
        Some(true) => Ok(vec![nsid]),
        Some(false) => Err(status::INVALID_FIELD),
        None => Err(status::INVALID_NAMESPACE),
    }
}

/// Which types of notices are not told.
///
/// # Errors
/// A status.
pub(crate) fn mask(controller: &Controller, nsid: u32) -> Result<u32, u16> {
    namespaces(controller, nsid, false).map(|_| controller.reservation_mask(nsid))
}

/// Sets it, of one namespace or of all.
///
/// # Errors
/// A status.
pub(crate) fn set_mask(controller: &Controller, nsid: u32, mask: u32) -> Result<u32, u16> {
    if mask & !MASKS != 0 {
        return Err(status::INVALID_FIELD);
    }
    let which = namespaces(controller, nsid, true)?;
    which.into_iter().for_each(|n| controller.set_reservation_mask(n, mask));
    Ok(0)
}

/// Whether reservations persist through a loss of power: they do not.
///
/// # Errors
/// A status.
pub(crate) fn persistence(controller: &Controller, nsid: u32) -> Result<u32, u16> {
    namespaces(controller, nsid, false).map(|_| 0)
}

/// Accepts what is so anyway, and nothing else.
///
/// # Errors
/// A status.
pub(crate) fn set_persistence(controller: &Controller, nsid: u32, value: u32) -> Result<u32, u16> {
    namespaces(controller, nsid, true)?;
    if value & 1 == 0 { Ok(0) } else { Err(status::INVALID_FIELD) }
}
