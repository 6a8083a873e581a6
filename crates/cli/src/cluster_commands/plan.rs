//! How the processes of `ashlar cluster up` are started, and what is printed when all serve.
//!
//! Invariant: credentials reach the nodes in their environment, never in their arguments.
//!
//! Must not depend on: how the processes are watched and ended.

use std::process::Command;

use ashlar_client::{Client, Config, Credentials, Method};
use ashlar_environment::process as environment;
use serde_json::{Value, json};

use super::home::{Home, Root, Settings};
use super::process::Process;
use super::status::Cluster;
use crate::admin_request::understand;
use crate::failure::{Outcome, While as _};
use crate::output::{Output, Tone};

/// What the processes are started with.
pub struct Plan<'a> {
    /// The settings of the cluster.
    pub settings: &'a Settings,
    /// Its folder.
    pub home: &'a Home,
    /// Root's credentials.
    pub root: &'a Root,
    /// Memory of each node.
    pub memory: &'a str,
}

impl Plan<'_> {
    /// The URL at which a node serves S3.
    pub fn endpoint(&self, node: u16) -> String {
        format!("http://127.0.0.{node}:{}", self.settings.port)
    }

    /// The arguments of a node.
    fn arguments(&self, node: u16, control: &str) -> Vec<String> {
        let (settings, folder) = (self.settings, self.home.node(node));
        let port = settings.port;
        let mut all: Vec<String> = vec!["server".into()];
        let options = [
            ("--control", control.to_owned()),
            ("--cluster", settings.cluster.clone()),
            ("--nodes", settings.nodes.to_string()),
            ("--address", format!("127.0.0.{node}:{port}")),
            ("--node-address", format!("127.0.0.{node}:{}", port + 1)),
            ("--memory", self.memory.to_owned()),
            ("--kms-root-key-file", self.home.folder.join("root-key").display().to_string()),
            ("--state-dir", folder.join("state").display().to_string()),
        ];
        for (name, value) in options {
            all.extend([name.to_owned(), value]);
        }
        if let Some(code) = &settings.code {
            all.extend(["--code".to_owned(), code.clone()]);
        }
        if settings.accept_node_loss {
            all.push("--accept-node-loss".to_owned());
        }
        all.push(format!("{}/drive{{1...{}}}", folder.display(), settings.drives));
        all
    }

    /// The program with the arguments of a node. Variables for the server that other programs need stay out.
    ///
    /// # Errors
    /// This program is not found.
    pub fn command(&self, node: u16, control: &str) -> Outcome<Command> {
        let program = environment::executable().when(|| "cannot find this program".to_owned())?;
        let mut command = Command::new(program);
        command.args(self.arguments(node, control)).arg("--end-with-input");
        let ours = |name: &str| name.starts_with("ASHLAR_") || name.starts_with("MINIO_");
        let kept = |name: &str| name == "ASHLAR_LOG" || name.starts_with("ASHLAR_CONTROL_");
        for (name, _) in environment::variables().iter().filter(|(name, _)| ours(name) && !kept(name)) {
            command.env_remove(name);
        }
        command.env("ASHLAR_ROOT_USER", &self.root.user);
        command.env("ASHLAR_ROOT_PASSWORD", &self.root.password);
        Ok(command)
    }

    /// The command line with which a person starts a node again.
    pub fn line(&self, node: u16, control: &str) -> String {
        let mut words = vec!["ashlar".to_owned()];
        words.extend(self.arguments(node, control));
        if self.root.stored {
            let file = self.home.credentials().display().to_string();
            words.splice(2..2, ["--env-file".to_owned(), file]);
        }
        words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    }

    /// Prints where the cluster is and how to use it.
    ///
    /// # Errors
    /// The first node does not say how the cluster is.
    pub async fn announce(&self, control: &str, nodes: &[Process], output: &Output) -> Outcome {
        let keys = Credentials::new(&self.root.user, &self.root.password);
        let client = Client::new(Config::new(self.endpoint(1), Some(keys)))?;
        let answer = client.admin(Method::GET, "cluster", &[], None).await;
        let cluster: Cluster = understand(&answer.when(|| "node 1".to_owned())?)?;
        let json = || self.json(control, &cluster.code, nodes);
        output.result(json, || self.text(control, &cluster, output));
        output.flush();
        Ok(())
    }

    fn json(&self, control: &str, code: &str, nodes: &[Process]) -> Value {
        let nodes = nodes.iter().zip(1..).map(|(process, number)| {
            json!({ "number": number, "endpoint": self.endpoint(number), "pid": process.pid(),
                "log": process.log.display().to_string() })
        });
        json!({
            "event": "started",
            "cluster": self.settings.cluster,
            "folder": self.home.folder.display().to_string(),
            "control": control,
            "code": code,
            "nodes": nodes.collect::<Vec<_>>(),
            "access_key": self.root.user,
            "secret_key": self.root.stored.then_some(&self.root.password),
        })
    }

    fn text(&self, control: &str, cluster: &Cluster, output: &Output) -> String {
        let settings = self.settings;
        let head = format!(
            "cluster {}: {} nodes with {} drives each, code {}",
            settings.cluster, settings.nodes, settings.drives, cluster.code
        );
        let mut lines = vec![output.paint(Tone::Good, head), cluster.what_may_fail(), String::new()];
        for node in 1..=settings.nodes {
            lines.push(format!("{:<12}{}", format!("node {node}"), self.endpoint(node)));
        }
        let file = self.home.credentials();
        let (secret, from) = match self.root.stored {
            true => (self.root.password.as_str(), format!("kept in {}", file.display())),
            false => ("YOUR-SECRET-KEY", "from the environment".to_owned()),
        };
        let (key, url) = (&self.root.user, self.endpoint(1));
        lines.extend([
            format!("{:<12}{control}", "etcd"),
            format!("{:<12}{key}", "access key"),
            format!("{:<12}{secret} ({from})", "secret key"),
            format!("{:<12}{}/*.log", "logs", self.home.folder.display()),
            String::new(),
            format!("{:<12}ashlar alias set try {url} {key} {secret}", "ashlar"),
            "            ashlar cluster status try; ashlar mb try/photos; ashlar cp FILE try/photos/".to_owned(),
            format!(
                "{:<12}export AWS_ACCESS_KEY_ID={key} AWS_SECRET_ACCESS_KEY={secret} AWS_DEFAULT_REGION=us-east-1",
                "aws-cli"
            ),
            format!("            aws --endpoint-url {url} s3 ls"),
            String::new(),
            format!(
                "Ctrl-C stops all of it; `ashlar cluster up {}` starts it again.",
                quoted(&self.home.folder.display().to_string())
            ),
        ]);
        lines.join("\n")
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=+{}".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("/a/drive{1...4}"), "/a/drive{1...4}");
        assert_eq!(quoted("it's here"), "'it'\\''s here'");
        assert_eq!(quoted(""), "''");
    }
}
