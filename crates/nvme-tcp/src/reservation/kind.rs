//! Types of reservations, and what they forbid (Base 8.19, figure "Command Behavior in the Presence of a Reservation").
//!
//! Must not depend on: other files of this crate.

use std::fmt;

/// The type of a reservation (RTYPE).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ReservationType {
    /// Only the holder may write.
    WriteExclusive,
    /// Only the holder may read and write.
    ExclusiveAccess,
    /// Only registrants may write. One of them holds the reservation.
    WriteExclusiveRegistrantsOnly,
    /// Only registrants may read and write. One of them holds the reservation.
    ExclusiveAccessRegistrantsOnly,
    /// Only registrants may write. All of them hold the reservation.
    WriteExclusiveAllRegistrants,
    /// Only registrants may read and write. All of them hold the reservation.
    ExclusiveAccessAllRegistrants,
}

impl ReservationType {
    /// All types, in the order of their numbers.
    pub const ALL: [ReservationType; 6] = [
        ReservationType::WriteExclusive,
        ReservationType::ExclusiveAccess,
        ReservationType::WriteExclusiveRegistrantsOnly,
        ReservationType::ExclusiveAccessRegistrantsOnly,
        ReservationType::WriteExclusiveAllRegistrants,
        ReservationType::ExclusiveAccessAllRegistrants,
    ];

    /// The number of the type, from 1.
    pub(crate) fn code(self) -> u8 {
        match self {
            ReservationType::WriteExclusive => 1,
            ReservationType::ExclusiveAccess => 2,
            ReservationType::WriteExclusiveRegistrantsOnly => 3,
            ReservationType::ExclusiveAccessRegistrantsOnly => 4,
            ReservationType::WriteExclusiveAllRegistrants => 5,
            ReservationType::ExclusiveAccessAllRegistrants => 6,
        }
    }

    /// The type of a number; none: it is reserved.
    pub(crate) fn of_code(code: u8) -> Option<ReservationType> {
        ReservationType::ALL.into_iter().find(|t| t.code() == code)
    }

    /// Whether hosts without rights may read.
    pub(crate) fn lets_read(self) -> bool {
        self.code() % 2 == 1
    }

    /// Whether every registrant may read and write, not the holder alone.
    pub(crate) fn is_for_registrants(self) -> bool {
        self.code() >= 3
    }

    /// Whether every registrant holds the reservation.
    pub(crate) fn is_held_by_all(self) -> bool {
        self.code() >= 5
    }
}

impl fmt::Display for ReservationType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReservationType::WriteExclusive => "write-exclusive",
            ReservationType::ExclusiveAccess => "exclusive-access",
            ReservationType::WriteExclusiveRegistrantsOnly => "write-exclusive-registrants-only",
            ReservationType::ExclusiveAccessRegistrantsOnly => "exclusive-access-registrants-only",
            ReservationType::WriteExclusiveAllRegistrants => "write-exclusive-all-registrants",
            ReservationType::ExclusiveAccessAllRegistrants => "exclusive-access-all-registrants",
        })
    }
}
