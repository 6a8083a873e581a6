//! `ashlar admin service` in a cluster: restarts all nodes one after another, and restarts or stops one.
//!
//! This program drives the sequence, not a node: the node that it asks is restarted too, last if the alias is its address.
//! It may be interrupted and started again; nodes that were restarted are restarted once more.
//!
//! Invariants: unless a node is named, it is restarted only when the nodes say that it may stop; the next one follows when
//! the one before runs as another process and answers.

use std::time::Duration;

use ashlar_client::{Client, Method};
use ashlar_environment::time::{self, Instant};
use serde::Deserialize;
use serde_json::{Value, json};

use super::admin_request::{ask_with, understand};
use super::context::Context;
use super::failure::{Failure, Kind, Outcome};
use super::service::{EndOptions, client_without_retries};

/// Time between requests while waiting.
const POLL: Duration = Duration::from_millis(500);
/// Time limit of one request: the server waits for silent nodes meanwhile.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The nodes as a server answers them.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Nodes {
    nodes: Vec<Node>,
}

#[derive(Deserialize, Default, Clone)]
#[serde(default)]
struct Node {
    node: u16,
    this: bool,
    version: String,
    started_ms: Option<i64>,
    problem: Option<String>,
}

impl Nodes {
    fn find(&self, number: u16) -> Option<&Node> {
        self.nodes.iter().find(|n| n.node == number)
    }

    /// The order in which nodes are restarted: the one that answers is the last.
    fn order(&self) -> Vec<u16> {
        let mut nodes: Vec<_> = self.nodes.iter().map(|n| (n.this, n.node)).collect();
        nodes.sort_unstable();
        nodes.into_iter().map(|(_, number)| number).collect()
    }
}

/// Whether an alias is a node of a cluster. `false` too for a caller without permission to ask.
pub async fn is_cluster(context: &Context, alias: &str) -> bool {
    let asked = ask_with(context, alias, Method::GET, "cluster", &[], None).await;
    asked.is_ok_and(|cluster| cluster["name"].is_string())
}

/// Restarts all nodes of a cluster, one after another.
pub async fn restart_all(options: &EndOptions, context: &Context) -> Outcome {
    if options.no_wait {
        return Err(Failure::usage(
            "--no-wait cannot restart a whole cluster: each node waits until the one before serves again; name one node with --node",
        ));
    }
    let all: Nodes = understand(&ask_with(context, &options.alias, Method::GET, "info", &[], None).await?)?;
    let order = all.order();
    if options.dry_run {
        let dry = json!({ "dry_run": true });
        ask_with(context, &options.alias, Method::POST, "service/restart", &[], Some(&dry)).await?;
        let list: Vec<_> = order.iter().map(ToString::to_string).collect();
        let text = || format!("The nodes {} would restart one after another.", list.join(", "));
        context.output.done(|| json!({ "alias": options.alias, "nodes": order }), text);
        return Ok(());
    }
    let rolling = Rolling { client: client_without_retries(&options.alias, context)?, options, context };
    let began = Instant::now();
    for number in &order {
        rolling.wait_until_it_may_stop(*number).await?;
        rolling.restart(*number).await?;
    }
    let seconds = began.elapsed().as_secs_f64();
    context.output.done(
        || json!({ "alias": options.alias, "restarted": true, "nodes": order, "seconds": seconds }),
        || format!("All {} nodes of `{}` were restarted in {seconds:.1} s.", order.len(), options.alias),
    );
    Ok(())
}

/// Restarts the named node.
pub async fn restart_one(options: &EndOptions, number: u16, context: &Context) -> Outcome {
    let rolling = Rolling { client: client_without_retries(&options.alias, context)?, options, context };
    if options.dry_run || options.no_wait {
        return rolling.only_ask(number, "restart").await;
    }
    rolling.restart(number).await
}

/// Stops the named node.
pub async fn stop_one(options: &EndOptions, number: u16, context: &Context) -> Outcome {
    let rolling = Rolling { client: client_without_retries(&options.alias, context)?, options, context };
    if options.dry_run || options.no_wait {
        return rolling.only_ask(number, "stop").await;
    }
    rolling.order(number, "stop").await?;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(options.timeout) {
        // The server that is asked may be the node itself.
        let away = match rolling.nodes().await {
            Some(nodes) => nodes.find(number).is_none_or(|n| n.problem.is_some()),
            None => rolling.client.probe("/minio/health/live").await.is_err(),
        };
        if away {
            context.output.done(
                || json!({ "alias": options.alias, "node": number, "stopped": true }),
                || format!("Node {number} is stopped."),
            );
            return Ok(());
        }
        time::sleep(POLL).await;
    }
    let why = format!("it still answers after {} s", options.timeout);
    Err(Failure { what: format!("node {number} was asked to stop"), ..Failure::new(Kind::Failed, why) })
}

/// What is needed for one node after another.
struct Rolling<'a> {
    client: Client,
    options: &'a EndOptions,
    context: &'a Context,
}

impl Rolling<'_> {
    async fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Value, Failure> {
        match time::timeout(TIMEOUT, self.client.admin(Method::GET, path, query, None)).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(Failure::new(Kind::Unavailable, "the server does not answer")),
        }
    }

    /// The nodes; `None`: the server that is asked does not answer, because it is the node that restarts, or another
    /// reason that shows later.
    async fn nodes(&self) -> Option<Nodes> {
        understand(&self.get("info", &[]).await.ok()?).ok()
    }

    async fn order(&self, number: u16, verb: &str) -> Outcome<Value> {
        let order = json!({ "node": number, "dry_run": self.options.dry_run });
        let path = format!("service/{verb}");
        ask_with(self.context, &self.options.alias, Method::POST, &path, &[], Some(&order)).await
    }

    async fn only_ask(&self, number: u16, verb: &str) -> Outcome {
        let answer = self.order(number, verb).await?;
        let text = match self.options.dry_run {
            true => format!("Node {number} would {verb}."),
            false => format!("Node {number} will {verb} when requests in flight have ended."),
        };
        self.context.output.done(|| answer, || text);
        Ok(())
    }

    /// Waits until stopping a node has no effect on clients.
    async fn wait_until_it_may_stop(&self, number: u16) -> Outcome {
        let text = number.to_string();
        let (began, mut last) = (Instant::now(), String::new());
        loop {
            let why = match self.get("cluster/may-stop", &[("node", text.as_str())]).await {
                Ok(answer) if answer["may_stop"] == true => return Ok(()),
                Ok(answer) => reasons(&answer),
                Err(failure) if matches!(failure.kind, Kind::Denied | Kind::NotFound) => return Err(failure),
                Err(failure) => failure.to_string(),
            };
            if began.elapsed() >= Duration::from_secs(self.options.timeout) {
                return Err(Failure {
                    what: format!("node {number} and those after it were not restarted"),
                    ..Failure::new(Kind::Unavailable, why)
                });
            }
            if last.is_empty() {
                self.context.output.note(&format!("Node {number} waits: {why}"));
            }
            last = why;
            time::sleep(POLL).await;
        }
    }

    /// Restarts a node and waits until it answers again.
    async fn restart(&self, number: u16) -> Outcome {
        let before = self.nodes().await.and_then(|all| all.find(number).and_then(|n| n.started_ms));
        let began = Instant::now();
        self.order(number, "restart").await?;
        while began.elapsed() < Duration::from_secs(self.options.timeout) {
            time::sleep(POLL).await;
            let Some(nodes) = self.nodes().await else { continue };
            let Some(node) = nodes.find(number).filter(|n| is_new(before, n)) else { continue };
            let seconds = began.elapsed().as_secs_f64();
            self.context.output.result(
                || json!({ "node": number, "restarted": true, "seconds": seconds, "version": node.version }),
                || format!("Node {number} was restarted in {seconds:.1} s and runs {}.", node.version),
            );
            self.context.output.flush();
            return Ok(());
        }
        let why = format!("it has not answered within {} s; its log says why", self.options.timeout);
        let what = format!("node {number} was asked to restart");
        Err(Failure { what, ..Failure::new(Kind::Unavailable, why) })
    }
}

/// Whether a node answers as another process than the one that started at `before`.
fn is_new(before: Option<i64>, node: &Node) -> bool {
    node.problem.is_none() && node.started_ms.is_some() && node.started_ms != before
}

/// Why a node cannot be stopped.
fn reasons(answer: &Value) -> String {
    let all: Vec<_> = answer["reasons"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    all.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_that_answers_is_restarted_last() {
        let node = |number: u16, this: bool| Node { node: number, this, ..Node::default() };
        let nodes = Nodes { nodes: vec![node(3, false), node(1, true), node(4, false), node(2, false)] };
        assert_eq!(nodes.order(), [2, 3, 4, 1]);
    }

    #[test]
    fn a_restarted_node_is_another_process_that_answers() {
        let node = |started_ms: Option<i64>, problem: Option<&str>| Node {
            started_ms,
            problem: problem.map(str::to_owned),
            ..Node::default()
        };
        assert!(!is_new(Some(5), &node(Some(5), None)), "the old one still answers");
        assert!(!is_new(Some(5), &node(None, Some("it does not answer"))));
        assert!(is_new(Some(5), &node(Some(6), None)));
        assert!(is_new(Some(5), &node(Some(4), None)), "the clock was set back");
        assert!(is_new(None, &node(Some(4), None)), "it did not run before");
    }

    #[test]
    fn reasons_are_one_line() {
        assert_eq!(reasons(&json!({ "reasons": ["a", "b"] })), "a; b");
        assert_eq!(reasons(&json!({})), "");
    }
}
