//! Orders about a drive: which node has it, and how the order gets there.
//!
//! Invariants: an order is carried out by the node that serves the folder; a name that several nodes know is refused
//! unless the node is named.
//!
//! Must not depend on: who may order, what an order does to a drive.

use std::collections::BTreeSet;
use std::time::Duration;

use ashlar_node::questions::NoAnswer;
use ashlar_node::{Node, drive_monitor};
use http::StatusCode;

use super::admin_request::{Refusal, bad_request};
use super::api::orders::Order;
use super::api::state::DriveState;
use super::question::{DriveOrder, Question};

/// How long another node may take: it inspects the folder, and replaces the drive.
const PATIENCE: Duration = Duration::from_secs(65);
/// Fewest digits of an id that name a drive.
const DIGITS: usize = 4;

/// Carries out an order about a drive of this node.
///
/// # Errors
/// A message for the operator.
pub async fn carry_out(node: &Node, order: DriveOrder, drive: &str) -> Result<(), String> {
    match order {
        DriveOrder::Offline => drive_monitor::hold(node, drive).await,
        DriveOrder::Online => drive_monitor::release(node, drive).await,
        DriveOrder::Replace => drive_monitor::replace_now(node, drive).await,
    }
}

/// Has an order carried out by the node that has the drive. `rows`: the drives of all nodes.
///
/// # Errors
/// 400 if no drive or several are meant, or the node refuses; 503 if it does not answer.
pub async fn send(node: &Node, order: DriveOrder, asked: &Order, rows: &[DriveState]) -> Result<(), Refusal> {
    if asked.drive.is_empty() {
        return Err(bad_request("name a drive: {\"drive\": \"path or id\"}"));
    }
    let me = node.number();
    let number = match asked.node {
        Some(number) => known(node, number)?,
        None => owner(rows, me, &asked.drive).map_err(bad_request)?,
    };
    if number == me {
        return carry_out(node, order, &asked.drive).await.map_err(bad_request);
    }
    let question = Question::Drive { order, drive: asked.drive.clone() };
    let answer = node.ask(number, question.encode(), PATIENCE).await;
    answer.map(drop).map_err(|no| refusal(number, no))
}

/// A number if a node has it; a machine that is alone is node 0.
///
/// # Errors
/// 404.
pub fn known(node: &Node, number: u16) -> Result<u16, Refusal> {
    if number == node.number() || node.nodes().iter().any(|(n, _)| *n == number) {
        return Ok(number);
    }
    let why = format!("there is no node {number}; see `ashlar cluster status`");
    Err(Refusal { status: StatusCode::NOT_FOUND, code: "NoSuchEntity", why })
}

/// An order that another node did not confirm.
pub fn refusal(number: u16, no: NoAnswer) -> Refusal {
    match no {
        NoAnswer::Refused(why) => bad_request(format!("node {number}: {why}")),
        NoAnswer::NotRunning | NoAnswer::Silent => Refusal {
            status: StatusCode::SERVICE_UNAVAILABLE,
            code: "ServiceUnavailable",
            why: format!("node {number} {no}"),
        },
    }
}

/// The node that has the drive called `which`; node `me` if nobody knows it.
fn owner(rows: &[DriveState], me: u16, which: &str) -> Result<u16, String> {
    let nodes = |fits: &dyn Fn(&DriveState) -> bool| -> BTreeSet<u16> {
        rows.iter().filter(|row| fits(row)).map(|row| row.node.unwrap_or(me)).collect()
    };
    let mut found = nodes(&|row| row.path == which);
    if found.is_empty() && which.len() >= DIGITS {
        found = nodes(&|row| row.id.starts_with(which));
    }
    match found.len() {
        0 => Ok(me),
        1 => Ok(found.into_iter().next().unwrap_or(me)),
        _ => {
            let list: Vec<_> = found.iter().map(|number| format!("node {number}")).collect();
            Err(format!("{which} is a drive of {}: name the node (--node)", list.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_follows_from_the_drive_unless_several_have_it() {
        let row = |node: u16, path: &str, id: &str| DriveState {
            node: Some(node),
            path: path.to_owned(),
            id: id.to_owned(),
            ..DriveState::default()
        };
        let rows = [
            row(1, "/mnt/disk1", "aaaa0000"),
            row(1, "/mnt/disk2", "aaaa1111"),
            row(2, "/mnt/disk1", "bbbb0000"),
            row(2, "/mnt/other", "abcd0000"),
            row(3, "abcd", "cccc"),
            row(3, "/mnt/blank", ""),
        ];
        let of = |which: &str| owner(&rows, 1, which);
        assert_eq!(of("/mnt/other"), Ok(2));
        assert_eq!(of("bbbb0"), Ok(2));
        assert_eq!(of("aaaa"), Ok(1), "two drives of one node: it says so itself");
        assert_eq!(of("abcd"), Ok(3), "a path comes before an id");
        assert_eq!(of("/mnt/blank"), Ok(3));
        assert_eq!(of("bbb"), Ok(1), "too short for an id: unknown");
        assert_eq!(of("none"), Ok(1));
        let several = of("/mnt/disk1").unwrap_err();
        assert!(several.contains("node 1, node 2") && several.contains("--node"), "{several}");
        let rows = [row(1, "/a", "aaaa0000"), row(2, "/b", "aaaa1111")];
        assert!(owner(&rows, 1, "aaaa").is_err());
    }
}
