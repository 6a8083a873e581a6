//! When a server is ready for requests (`/minio/health/ready`).
//!
//! Invariant: a server that can serve reads only is ready some time after its start.
//!
//! Must not depend on: how the state of placement groups is found out.

use std::time::Duration;

use ashlar_erasure_set::GroupHealth;

/// How long a server that has just started is not ready because a placement group cannot be written to yet: a node needs a
/// moment to reach the drives of the others, and a load balancer should not use it before.
const WARM_UP: Duration = Duration::from_secs(10);

/// Whether a server is ready: every placement group can serve writes, or reads if the start was a while ago.
pub(crate) fn is_ready(groups: &[GroupHealth], since_start: Duration) -> bool {
    groups.iter().all(|g| g.writable || g.readable && since_start >= WARM_UP)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(readable: bool, writable: bool) -> GroupHealth {
        let (slots, voters) = (4, 2);
        GroupHealth { group: Default::default(), slots, voters, joining: 0, readable, writable, spare: 0 }
    }

    #[test]
    fn started_server_waits_until_it_can_write() {
        let (good, only_reads, nothing) = (group(true, true), group(true, false), group(false, false));
        let both = [good.clone(), only_reads];
        assert!(is_ready(std::slice::from_ref(&good), Duration::ZERO));
        assert!(!is_ready(&both, Duration::ZERO) && !is_ready(&both, WARM_UP - Duration::from_millis(1)));
        assert!(is_ready(&both, WARM_UP));
        assert!(!is_ready(&[good, nothing], WARM_UP * 100));
    }
}
