//! The web console completes and checks names of actions without asking the server: its list is the table of this crate.
#![allow(clippy::disallowed_methods, reason = "tests run in real time")]

use std::collections::BTreeMap;

use ashlar_policy::Action;

#[test]
fn console_has_every_action_with_its_level() {
    let text = include_str!("../../../console/src/lib/actions.json");
    let known: BTreeMap<String, String> = serde_json::from_str(text).unwrap();
    let level = |a: &Action| format!("{:?}", a.level()).to_lowercase();
    let all: BTreeMap<String, String> = Action::ALL.iter().map(|a| (a.name().to_owned(), level(a))).collect();
    assert_eq!(known, all, "console/src/lib/actions.json is not the table of actions");
}
