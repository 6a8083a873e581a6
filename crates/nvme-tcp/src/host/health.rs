//! What a controller measures of its drive: log page 02h, SMART / Health Information (Base 5.16.1.3).
//!
//! Must not depend on: connections.

use crate::pdu::u16_at;

/// Bytes of the page.
pub(crate) const LEN: usize = 512;
/// Bytes of a data unit.
const UNIT: u128 = 512_000;

/// The state of health of a drive. Counters are those of its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Health {
    /// Bits: 0 spare space is short, 1 temperature, 2 reliability is degraded, 3 read-only, 4 the backup of volatile memory has failed,
    /// 5 the persistent memory region is read-only or unreliable.
    pub critical_warning: u8,
    /// Kelvin; none: it is not measured.
    pub temperature: Option<u16>,
    /// Percent of the spare space that is left, and at which there is a warning.
    pub available_spare: u8,
    /// Percent of spare space at which there is a warning.
    pub spare_threshold: u8,
    /// Percent of the expected life that is used; may be above 100.
    pub percentage_used: u8,
    /// Bytes read by hosts, rounded up to 512,000.
    pub bytes_read: u128,
    /// Bytes written by hosts, rounded up to 512,000.
    pub bytes_written: u128,
    /// Times that power was switched on.
    pub power_cycles: u128,
    /// Hours with power.
    pub power_on_hours: u128,
    /// Losses of power without a shutdown.
    pub unsafe_shutdowns: u128,
    /// Times that data was not recovered.
    pub media_errors: u128,
    /// Entries of the error log.
    pub error_entries: u128,
}

impl Health {
    /// Reads the page.
    pub(crate) fn decode(bytes: &[u8; LEN]) -> Health {
        let wide = |at: usize| {
            let mut out = [0; 16];
            out.copy_from_slice(&bytes[at..at + 16]);
            u128::from_le_bytes(out)
        };
        Health {
            critical_warning: bytes[0],
            temperature: Some(u16_at(bytes, 1)).filter(|k| *k != 0),
            available_spare: bytes[3],
            spare_threshold: bytes[4],
            percentage_used: bytes[5],
            bytes_read: wide(32).saturating_mul(UNIT),
            bytes_written: wide(48).saturating_mul(UNIT),
            power_cycles: wide(112),
            power_on_hours: wide(128),
            unsafe_shutdowns: wide(144),
            media_errors: wide(160),
            error_entries: wide(176),
        }
    }

    /// What the bits of the critical warning mean.
    #[must_use]
    pub fn warnings(&self) -> Vec<&'static str> {
        const NAMES: [&str; 6] =
            ["spare", "temperature", "reliability", "read-only", "volatile-backup", "persistent-memory"];
        (0..).zip(NAMES).filter(|(bit, _)| self.critical_warning >> bit & 1 != 0).map(|(_, n)| n).collect()
    }
}
