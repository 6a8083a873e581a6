//! The administration API for the limits of healing, rebuild and scrub.
//!
//! | request | document |
//! |---|---|
//! | `GET heal/limits` | the limits in force on the node that answers, and which of them are stored |
//! | `PUT heal/limits` | `{"max_rate": 104857600}`: other limits stay; a rate of 0 means no limit |
//! | `DELETE heal/limits` | every node uses the options of its start again |
//!
//! The limits are a setting (subsystem `heal`, [`HEAL`]), so `mc admin config set ALIAS heal` changes them too; that
//! needs a full administrator, and these requests need only their own action.
//!
//! Invariants: the answer to a change is sent after the change is stored, and after this node uses it; other nodes follow
//! the setting. A value that cannot be used is refused and changes nothing.
//!
//! Must not depend on: how the work is paced.

use std::sync::Arc;

use ashlar_iam::{DEFAULT_TARGET, Error, Iam, Values};
use ashlar_node::Node;
use ashlar_node::heal_limits::{BUSY_SHARE, HealLimits, MAX_RATE, SCRUB_MAX_RATE, SUBSYSTEM};
use http::StatusCode;
use serde::Deserialize;
use utoipa::ToSchema;

use super::admin_request::{AdminRequest, AdminResult, Refusal, bad_request};
use super::api::{self, state as shape};
use super::settings::{Subsystem, name};
use super::table::Route;

/// The subsystem of the limits.
pub(crate) const HEAL: Subsystem = Subsystem {
    name: SUBSYSTEM,
    help: "limits of healing, rebuild and scrub",
    several: false,
    names: &[
        name(
            MAX_RATE,
            "bytes per second that a node writes for healing and rebuild, such as 100MiB; \"off\": no limit",
        ),
        name(
            SCRUB_MAX_RATE,
            "bytes per second that a node reads for scrubs, such as 100MiB; \"off\": no limit",
        ),
        name(
            BUSY_SHARE,
            "percent of the time that a task of this work takes while clients' requests are in flight: 1 to 100",
        ),
    ],
};

/// Changed limits. What is left out stays.
#[derive(Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = HealLimitsOrder)]
pub(crate) struct Order {
    /// Bytes per second that a node writes at most for healing and rebuild: 65536 or more; 0: no limit.
    max_rate: Option<u64>,
    /// Bytes per second that a node reads at most for scrubs: 65536 or more; 0: no limit.
    scrub_max_rate: Option<u64>,
    /// Percent of the time that a task of this work takes while clients' requests are in flight.
    #[schema(minimum = 1, maximum = 100)]
    busy_share: Option<u8>,
}

impl Order {
    /// As values of the setting.
    fn values(&self) -> Values {
        let rates = [(MAX_RATE, self.max_rate), (SCRUB_MAX_RATE, self.scrub_max_rate)];
        let rates = rates.into_iter().filter_map(|(name, bytes)| Some((name, text(bytes?))));
        let share = self.busy_share.map(|percent| (BUSY_SHARE, percent.to_string()));
        rates.chain(share).map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// A rate as people write it, exactly.
fn text(bytes: u64) -> String {
    match bytes {
        0 => "off".to_owned(),
        _ if bytes.is_multiple_of(1 << 20) => format!("{}MiB", bytes >> 20),
        _ => bytes.to_string(),
    }
}

/// The limits in force on this node.
pub(crate) fn in_force(node: &Node) -> shape::HealLimits {
    let HealLimits { max_rate, scrub_max_rate, busy_share } = HealLimits::of(&node.sets);
    let (max_rate, scrub_max_rate) = (max_rate.unwrap_or(0), scrub_max_rate.unwrap_or(0));
    shape::HealLimits { max_rate, scrub_max_rate, busy_share }
}

/// Answers a request about limits. The caller has checked the permission.
pub(crate) async fn answer(node: &Node, iam: Option<&Arc<Iam>>, req: &AdminRequest) -> AdminResult {
    let iam = iam.ok_or_else(|| Refusal::from(Error::Unavailable("this server has no settings".into())))?;
    let stored = || iam.setting(SUBSYSTEM, DEFAULT_TARGET).map(|s| s.values.clone()).unwrap_or_default();
    match req.route {
        Route::HealLimitsPut => {
            let order: Order = req.document()?;
            let change = order.values();
            if change.is_empty() {
                return Err(bad_request(format!(
                    "say what to change: {MAX_RATE}, {SCRUB_MAX_RATE} or {BUSY_SHARE}"
                )));
            }
            HealLimits::default().with(&change).map_err(bad_request)?;
            let mut values = stored();
            values.extend(change);
            iam.put_setting(SUBSYSTEM, DEFAULT_TARGET, &values).await?;
            node.apply_heal_limits(iam);
        }
        Route::HealLimitsRemove => {
            match iam.remove_setting(SUBSYSTEM, DEFAULT_TARGET).await {
                // Nothing was stored.
                Ok(()) | Err(Error::Missing { .. }) => {}
                Err(no) => return Err(no.into()),
            }
            node.apply_heal_limits(iam);
        }
        _ => {}
    }
    let stored = stored().into_keys().collect();
    Ok((StatusCode::OK, api::value(shape::StoredHealLimits { limits: in_force(node), stored })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_become_values_that_parse_back() {
        let order: Order =
            serde_json::from_str(r#"{"max_rate": 104857600, "scrub_max_rate": 0, "busy_share": 50}"#)
                .unwrap();
        let values = order.values();
        assert_eq!(values.get(MAX_RATE).map(String::as_str), Some("100MiB"));
        assert_eq!(values.get(SCRUB_MAX_RATE).map(String::as_str), Some("off"));
        let limits = HealLimits::default().with(&values).unwrap();
        assert_eq!(limits, HealLimits { max_rate: Some(100 << 20), scrub_max_rate: None, busy_share: 50 });
        let odd = Order { max_rate: Some(70_001), ..Order::default() }.values();
        assert_eq!(HealLimits::default().with(&odd).unwrap().max_rate, Some(70_001));
        for bad in [r#"{"max_rate": 100}"#, r#"{"busy_share": 0}"#, r#"{"busy_share": 101}"#] {
            let order: Order = serde_json::from_str(bad).unwrap();
            assert!(HealLimits::default().with(&order.values()).is_err(), "{bad}");
        }
        for bad in [r#"{"rate": 1}"#, r#"{"max_rate": -1}"#, r#"{"max_rate": "fast"}"#] {
            assert!(serde_json::from_str::<Order>(bad).is_err(), "{bad}");
        }
        assert!(Order::default().values().is_empty());
    }
}
