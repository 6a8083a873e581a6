//! Calendar arithmetic: when a number of days has passed.

/// Milliseconds of a day.
pub const DAY_MS: i64 = 86_400_000;

/// The length of a day: real days, except in tests of the whole server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calendar {
    day_ms: i64,
}

impl Default for Calendar {
    fn default() -> Calendar {
        Calendar { day_ms: DAY_MS }
    }
}

impl Calendar {
    /// Days of another length, at least a second; for tests.
    #[must_use]
    pub fn with_days_of(day_ms: i64) -> Calendar {
        Calendar { day_ms: day_ms.max(1000) }
    }

    /// Whether its days are real ones.
    #[must_use]
    pub fn is_real(self) -> bool {
        self.day_ms == DAY_MS
    }

    /// The last midnight (UTC) that is not after `ms`.
    #[must_use]
    pub fn midnight(self, ms: i64) -> i64 {
        ms - ms.rem_euclid(self.day_ms)
    }

    /// The first midnight after `ms`.
    #[must_use]
    pub fn next_midnight(self, ms: i64) -> i64 {
        self.midnight(ms).saturating_add(self.day_ms)
    }

    /// When `days` days have passed since `from_ms`: that time later, rounded up to the next midnight. Three
    /// days after 15 January 10:30 is 19 January 00:00.
    #[must_use]
    pub fn after(self, from_ms: i64, days: u32) -> i64 {
        self.next_midnight(from_ms.saturating_add(i64::from(days).saturating_mul(self.day_ms)))
    }
}
