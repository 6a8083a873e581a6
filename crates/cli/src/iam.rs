//! `ashlar admin user|group|policy|accesskey`: identities and policies of an Ashlar server, with mc's
//! commands.
//!
//! Invariants: with `--json` the server's own answer is printed; a secret is printed only right after the
//! server generated it, and no secret is needed on the command line.

use ashlar_client::Method;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::{
    admin_records::{info, list, order, shown},
    admin_request::ask_with,
    alias::ask as read_line,
    context::Context,
    failure::{Failure, Outcome, While},
    idp,
    output::Tone,
};

/// The commands of `ashlar admin`.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Users, each with an access key and a secret
    #[command(subcommand)]
    User(UserCommand),
    /// Groups of users with common policies
    #[command(subcommand)]
    Group(GroupCommand),
    /// Policies, and the users and groups they are attached to
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Access keys: further keys of a user, with at most the permissions of the user
    #[command(subcommand, visible_alias = "key")]
    Accesskey(KeyCommand),
    /// Identity providers: external directories that authenticate users
    #[command(subcommand)]
    Idp(idp::Command),
    /// Encryption keys of objects
    #[command(subcommand)]
    Kms(super::kms::Command),
    /// The whole deployment: export and import of its identities
    #[command(subcommand)]
    Cluster(super::cluster::Command),
    /// Settings that apply while the server runs: identity providers, event targets
    #[command(subcommand)]
    Config(super::config::Command),
    /// Restart or stop the server's process, or show its state
    #[command(subcommand)]
    Service(super::service::Command),
    /// Show who sent a request, and which statement of which policy decided
    Why(super::audit::WhyOptions),
    /// Show which drives have the shards of an object
    Placement(super::placement::PlacementOptions),
    /// Print the OpenAPI description of the administration API of this release
    ApiDocument,
    /// Show requests as they end, and how their time was spent
    Trace(super::monitor::TraceOptions),
    /// Show the server's log
    Logs(super::monitor::LogsOptions),
    /// Show totals of each operation, and the requests in progress
    Top(super::monitor::TopOptions),
    /// Show what was measured: requests, errors, latencies, capacity
    History(super::history::HistoryOptions),
    /// Search the audit log, and verify its files
    #[command(subcommand)]
    Audit(super::audit::AuditCommand),
}

/// A server and a name.
#[derive(Args, Debug)]
pub struct One {
    /// The server's alias
    alias: String,
    /// The name
    name: String,
}

/// Actions on users.
#[derive(Subcommand, Debug)]
pub enum UserCommand {
    /// Create a user, or replace the secret of an existing one
    Add {
        /// The server's alias
        alias: String,
        /// The user's name, which is its access key
        name: String,
        /// The secret; read from the terminal or the standard input if missing
        #[arg(env = "ASHLAR_USER_SECRET", hide_env_values = true)]
        secret: Option<String>,
    },
    /// Show all users
    #[command(visible_alias = "ls")]
    List {
        /// The server's alias
        alias: String,
    },
    /// Show a user
    Info(One),
    /// Remove a user and its access keys
    #[command(visible_alias = "rm")]
    Remove(One),
    /// Enable a user
    Enable(One),
    /// Disable a user, its access keys and sessions
    Disable(One),
    /// End all temporary credentials of a user
    Revoke(One),
}

/// Actions on groups.
#[derive(Subcommand, Debug)]
pub enum GroupCommand {
    /// Add users to a group; creates the group if necessary
    Add {
        /// The server's alias
        alias: String,
        /// The group
        group: String,
        /// The users
        #[arg(required = true)]
        members: Vec<String>,
    },
    /// Remove users from a group; without users: remove the empty group
    #[command(visible_alias = "rm")]
    Remove {
        /// The server's alias
        alias: String,
        /// The group
        group: String,
        /// The users
        members: Vec<String>,
    },
    /// Show all groups
    #[command(visible_alias = "ls")]
    List {
        /// The server's alias
        alias: String,
    },
    /// Show a group
    Info(One),
    /// Enable a group: its policies apply to its members
    Enable(One),
    /// Disable a group
    Disable(One),
}

/// Policies, and a user or group.
#[derive(Args, Debug)]
pub struct Association {
    /// The server's alias
    alias: String,
    /// The policies
    #[arg(required = true)]
    policies: Vec<String>,
    #[command(flatten)]
    whom: Whom,
}

/// A user or group.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub struct Whom {
    /// A user
    #[arg(long, short)]
    user: Option<String>,
    /// A group
    #[arg(long, short)]
    group: Option<String>,
    /// A user of an external directory: a distinguished name, or openid/PROVIDER/SUBJECT
    #[arg(long, value_name = "NAME")]
    federated_user: Option<String>,
    /// A group of an external directory: a distinguished name, or openid/PROVIDER/GROUP
    #[arg(long, value_name = "NAME")]
    federated_group: Option<String>,
}

/// Actions on policies.
#[derive(Subcommand, Debug)]
pub enum PolicyCommand {
    /// Store a policy; replaces an existing one
    Create {
        /// The server's alias
        alias: String,
        /// The policy's name
        name: String,
        /// The file with the document; `-` for the standard input
        file: String,
    },
    /// Show the names of all policies, and the users and groups they are attached to
    #[command(visible_alias = "ls")]
    List {
        /// The server's alias
        alias: String,
    },
    /// Show a policy
    Info(One),
    /// Remove a policy that is not attached
    #[command(visible_alias = "rm")]
    Remove(One),
    /// Attach policies to a user or group
    Attach(Association),
    /// Detach policies from a user or group
    Detach(Association),
    /// Ask what the credentials of the alias themselves may do
    CanI {
        /// The server's alias
        alias: String,
        /// For instance s3:PutObject
        action: String,
        /// BUCKET or BUCKET/KEY
        #[arg(default_value = "")]
        resource: String,
    },
    /// Simulate a request of a user, and show which statement decides
    Simulate {
        /// The server's alias
        alias: String,
        /// A user or access key; "" for an anonymous request
        user: String,
        /// For instance s3:GetObject
        action: String,
        /// BUCKET, BUCKET/KEY, or their ARN
        #[arg(default_value = "")]
        resource: String,
    },
}

/// Properties of an access key.
#[derive(Args, Debug)]
pub struct KeyOptions {
    /// The secret; the environment variable keeps it out of the list of processes
    #[arg(long, env = "ASHLAR_KEY_SECRET", hide_env_values = true)]
    secret_key: Option<String>,
    /// File with a policy that restricts it; `-` for the standard input
    #[arg(long, value_name = "FILE")]
    policy: Option<String>,
    /// Display name
    #[arg(id = "key_name", long = "name", value_name = "NAME")]
    name: Option<String>,
    /// Description
    #[arg(long)]
    description: Option<String>,
    /// Expiry: 2027-01-01 or 2027-01-01T12:00:00Z
    #[arg(long, value_name = "TIME", conflicts_with = "expiry_duration")]
    expiry: Option<String>,
    /// Time until expiry: 90m, 24h, 30d
    #[arg(long, value_name = "SPAN")]
    expiry_duration: Option<String>,
}

/// Actions on access keys.
#[derive(Subcommand, Debug)]
pub enum KeyCommand {
    /// Create an access key; its secret is shown once
    Create {
        /// The server's alias
        alias: String,
        /// The user that the key belongs to; by default the caller
        user: Option<String>,
        /// The access key; generated if left out
        #[arg(long)]
        access_key: Option<String>,
        #[command(flatten)]
        options: KeyOptions,
    },
    /// Show access keys: the caller's, or those of users
    #[command(visible_alias = "ls")]
    List {
        /// The server's alias
        alias: String,
        /// The users
        users: Vec<String>,
        /// Of all users
        #[arg(long)]
        all: bool,
    },
    /// Show an access key
    Info(One),
    /// Change an access key
    Edit {
        #[command(flatten)]
        key: One,
        #[command(flatten)]
        options: KeyOptions,
        /// It no longer expires
        #[arg(long, conflicts_with_all = ["expiry", "expiry_duration"])]
        no_expiry: bool,
        /// No policy of its own restricts it any more
        #[arg(long, conflicts_with = "policy")]
        no_policy: bool,
    },
    /// Remove an access key
    #[command(visible_alias = "rm")]
    Remove(One),
    /// Enable an access key
    Enable(One),
    /// Disable an access key
    Disable(One),
}

/// Runs the command.
pub async fn run(command: Command, context: &Context) -> Outcome {
    match command {
        Command::User(command) => user(command, context).await,
        Command::Group(command) => group(command, context).await,
        Command::Policy(command) => policy(command, context).await,
        Command::Accesskey(command) => key(command, context).await,
        Command::Idp(command) => idp::run(command, context).await,
        Command::Kms(command) => super::kms::run(command, context).await,
        Command::Cluster(command) => super::cluster::run(command, context).await,
        Command::Config(command) => super::config::run(command, context).await,
        Command::Service(command) => super::service::run(command, context).await,
        Command::Why(options) => super::audit::why(&options, context).await,
        Command::Placement(options) => super::placement::placement(&options, context).await,
        Command::ApiDocument => {
            let Some(document) = context.api_document else {
                return Err(Failure::new(
                    super::failure::Kind::Failed,
                    "this program was built without the OpenAPI document",
                ));
            };
            let document = document("/ashlar/api/v1");
            let text = serde_json::to_string_pretty(&document).unwrap_or_default();
            context.output.result(|| document, || text);
            Ok(())
        }
        Command::Trace(options) => super::monitor::trace(&options, context).await,
        Command::Logs(options) => super::monitor::logs(&options, context).await,
        Command::Top(options) => super::monitor::top(&options, context).await,
        Command::History(options) => super::history::history(&options, context).await,
        Command::Audit(command) => super::audit::audit(&command, context).await,
    }
}

const USER: [(&str, &str); 5] = [
    ("User", "name"),
    ("State", "enabled"),
    ("Policies", "policies"),
    ("Groups", "groups"),
    ("Last used", "used_ms"),
];
const GROUP: [(&str, &str); 4] =
    [("Group", "name"), ("State", "enabled"), ("Policies", "policies"), ("Members", "members")];
const POLICY: [(&str, &str); 4] =
    [("Policy", "name"), ("Built in", "built_in"), ("Users", "users"), ("Groups", "groups")];
const KEY: [(&str, &str); 6] = [
    ("Access key", "access_key"),
    ("User", "user"),
    ("State", "enabled"),
    ("Name", "name"),
    ("End", "expires_ms"),
    ("Last used", "used_ms"),
];

async fn user(command: UserCommand, context: &Context) -> Outcome {
    let (one, verb, past) = match command {
        UserCommand::Add { alias, name, secret } => {
            let secret = secret.map_or_else(|| read_line("Secret key: ", true), Ok)?;
            let body = json!({ "secret": secret });
            let text = format!(
                "Added user `{name}`; without a policy it has no permissions: `ashlar admin policy attach {alias} POLICY --user {name}`."
            );
            return order(context, &alias, Method::PUT, &format!("users/{name}"), Some(&body), text).await;
        }
        UserCommand::List { alias } => return list(context, &alias, "users", &[], &USER).await,
        UserCommand::Info(one) => {
            return info(context, &one.alias, &format!("users/{}", one.name), &USER).await;
        }
        UserCommand::Remove(one) => {
            let text = format!("Removed user `{}`.", one.name);
            return order(context, &one.alias, Method::DELETE, &format!("users/{}", one.name), None, text)
                .await;
        }
        UserCommand::Enable(one) => (one, "enable", "is enabled"),
        UserCommand::Disable(one) => (one, "disable", "is disabled"),
        UserCommand::Revoke(one) => (one, "revoke", "has no temporary credentials now"),
    };
    let text = format!("`{}` {past}.", one.name);
    order(context, &one.alias, Method::POST, &format!("users/{}/{verb}", one.name), None, text).await
}

async fn change_members(context: &Context, alias: &str, group: &str, body: &Value, text: String) -> Outcome {
    let path = format!("groups/{group}/members");
    order(context, alias, Method::POST, &path, Some(body), text).await
}

async fn group(command: GroupCommand, context: &Context) -> Outcome {
    let (one, verb) = match command {
        GroupCommand::Add { alias, group, members } => {
            let body = json!({ "add": members });
            let text = format!("Added {} to group `{group}`.", members.join(", "));
            return change_members(context, &alias, &group, &body, text).await;
        }
        GroupCommand::Remove { alias, group, members } if members.is_empty() => {
            let text = format!("Removed group `{group}`.");
            return order(context, &alias, Method::DELETE, &format!("groups/{group}"), None, text).await;
        }
        GroupCommand::Remove { alias, group, members } => {
            let body = json!({ "remove": members });
            let text = format!("Removed {} from group `{group}`.", members.join(", "));
            return change_members(context, &alias, &group, &body, text).await;
        }
        GroupCommand::List { alias } => return list(context, &alias, "groups", &[], &GROUP).await,
        GroupCommand::Info(one) => {
            return info(context, &one.alias, &format!("groups/{}", one.name), &GROUP).await;
        }
        GroupCommand::Enable(one) => (one, "enable"),
        GroupCommand::Disable(one) => (one, "disable"),
    };
    let text = format!("Group `{}`: {verb}d.", one.name);
    order(context, &one.alias, Method::POST, &format!("groups/{}/{verb}", one.name), None, text).await
}

async fn policy(command: PolicyCommand, context: &Context) -> Outcome {
    let (association, verb) = match command {
        PolicyCommand::Create { alias, name, file } => {
            let body = read_document(&file)?;
            let text = format!("Stored policy `{name}`.");
            return order(context, &alias, Method::PUT, &format!("policies/{name}"), Some(&body), text).await;
        }
        PolicyCommand::List { alias } => return list(context, &alias, "policies", &[], &POLICY).await,
        PolicyCommand::Info(one) => {
            let path = format!("policies/{}", one.name);
            let columns: Vec<_> = POLICY.into_iter().chain([("Document", "document")]).collect();
            return info(context, &one.alias, &path, &columns).await;
        }
        PolicyCommand::Remove(one) => {
            let text = format!("Removed policy `{}`.", one.name);
            let path = format!("policies/{}", one.name);
            return order(context, &one.alias, Method::DELETE, &path, None, text).await;
        }
        PolicyCommand::Simulate { alias, user, action, resource } => {
            let question = json!({ "user": user, "action": action, "resource": resource });
            return simulate(context, &alias, &question).await;
        }
        PolicyCommand::CanI { alias, action, resource } => {
            return can_i(context, &alias, &action, &resource).await;
        }
        PolicyCommand::Attach(association) => (association, "attach"),
        PolicyCommand::Detach(association) => (association, "detach"),
    };
    let Association { alias, policies, whom } = association;
    let fields = [
        ("user", whom.user),
        ("group", whom.group),
        ("federated_user", whom.federated_user),
        ("federated_group", whom.federated_group),
    ];
    // clap requires one of them.
    let (field, name) = fields.into_iter().find_map(|(f, n)| Some((f, n?))).unwrap_or_default();
    let text = format!("{verb}ed {}: `{name}`.", policies.join(", "));
    let mut body = json!({ "policies": policies });
    body[field] = json!(name);
    order(context, &alias, Method::POST, &format!("policies/{verb}"), Some(&body), text).await
}

async fn can_i(context: &Context, alias: &str, action: &str, resource: &str) -> Outcome {
    let body = json!({ "checks": [{ "action": action, "resource": resource }] });
    let answer = ask_with(context, alias, Method::POST, "permissions", &[], Some(&body)).await?;
    let one = answer["checks"][0].clone();
    let verdict = match one["allowed"].as_bool().unwrap_or(false) {
        true => context.output.paint(Tone::Good, "allowed"),
        false => context.output.paint(Tone::Bad, "denied"),
    };
    context.output.result(|| one, || format!("{verdict}: {action} {resource}").trim_end().to_owned());
    Ok(())
}

async fn simulate(context: &Context, alias: &str, question: &Value) -> Outcome {
    let answer = ask_with(context, alias, Method::POST, "simulate", &[], Some(question)).await?;
    let allowed = answer["allowed"].as_bool().unwrap_or(false);
    let verdict = match allowed {
        true => context.output.paint(Tone::Good, "allowed"),
        false => context.output.paint(Tone::Bad, "denied"),
    };
    let mut lines = vec![format!("{verdict}: {}", shown("why", &answer["why"]))];
    for s in answer["statements"].as_array().into_iter().flatten() {
        let applies = if s["applies"] == json!(true) { "applies".into() } else { shown("", &s["why_not"]) };
        lines.push(format!(
            "  {} of statement {} of {}: {applies}",
            shown("", &s["effect"]),
            s["statement"],
            shown("", &s["policy"])
        ));
    }
    context.output.result(|| answer, || lines.join("\n"));
    Ok(())
}

async fn key(command: KeyCommand, context: &Context) -> Outcome {
    let (one, enabled) = match command {
        KeyCommand::Create { alias, user, access_key, options } => {
            let mut body = fields(&options)?;
            if let Some(user) = user {
                body["user"] = json!(user);
            }
            if let Some(access_key) = access_key {
                body["access_key"] = json!(access_key);
            }
            let answer = ask_with(context, &alias, Method::POST, "keys", &[], Some(&body)).await?;
            let text = format!(
                "Access key: {}\nSecret key: {}\nThe secret is not shown again.",
                shown("", &answer["access_key"]),
                shown("", &answer["secret"])
            );
            context.output.result(|| answer, || text);
            return Ok(());
        }
        KeyCommand::List { alias, all: true, .. } => {
            return list(context, &alias, "keys", &[("all", "true")], &KEY).await;
        }
        KeyCommand::List { alias, users, .. } if users.is_empty() => {
            return list(context, &alias, "keys", &[], &KEY).await;
        }
        KeyCommand::List { alias, users, .. } => {
            for user in users {
                list(context, &alias, "keys", &[("user", &user)], &KEY).await?;
            }
            return Ok(());
        }
        KeyCommand::Info(one) => {
            let columns: Vec<_> =
                KEY.into_iter().chain([("Description", "description"), ("Policy", "policy")]).collect();
            return info(context, &one.alias, &format!("keys/{}", one.name), &columns).await;
        }
        KeyCommand::Edit { key, options, no_expiry, no_policy } => {
            let mut body = fields(&options)?;
            // As the API says it.
            if no_expiry {
                body["expires_ms"] = json!(0);
            }
            if no_policy {
                body["policy"] = json!("");
            }
            if body == json!({}) {
                return Err(Failure::usage(
                    "nothing to change; see --help for the properties that can be changed",
                ));
            }
            let text = format!("Changed access key `{}`.", key.name);
            let path = format!("keys/{}", key.name);
            return order(context, &key.alias, Method::PATCH, &path, Some(&body), text).await;
        }
        KeyCommand::Remove(one) => {
            let text = format!("Removed access key `{}`.", one.name);
            let path = format!("keys/{}", one.name);
            return order(context, &one.alias, Method::DELETE, &path, None, text).await;
        }
        KeyCommand::Enable(one) => (one, true),
        KeyCommand::Disable(one) => (one, false),
    };
    let text = format!("`{}` is {}.", one.name, if enabled { "enabled" } else { "disabled" });
    let body = json!({ "enabled": enabled });
    order(context, &one.alias, Method::PATCH, &format!("keys/{}", one.name), Some(&body), text).await
}

/// The options as the document that the server expects.
fn fields(options: &KeyOptions) -> Outcome<Value> {
    let mut body = json!({});
    let texts =
        [("secret", &options.secret_key), ("name", &options.name), ("description", &options.description)];
    for (field, text) in texts {
        if let Some(text) = text {
            body[field] = json!(text);
        }
    }
    if let Some(file) = &options.policy {
        body["policy"] = read_document(file)?;
    }
    let now = ashlar_environment::time::wall_ms();
    if let Some(text) = &options.expiry {
        body["expires_ms"] = json!(moment(text).ok_or_else(|| {
            Failure::usage(format!("--expiry {text}: write 2027-01-01 or 2027-01-01T12:00:00Z"))
        })?);
    }
    if let Some(text) = &options.expiry_duration {
        let span = span_ms(text)
            .ok_or_else(|| Failure::usage(format!("--expiry-duration {text}: write 90m, 24h or 30d")))?;
        body["expires_ms"] = json!(now.saturating_add(span));
    }
    Ok(body)
}

/// Parses a date or time to milliseconds since 1970.
fn moment(text: &str) -> Option<i64> {
    let full = if text.len() == 10 { format!("{text}T00:00:00Z") } else { text.to_owned() };
    let at = OffsetDateTime::parse(&full, &Rfc3339).ok()?;
    Some(at.unix_timestamp() * 1000)
}

/// Parses `90m`, `24h`, `30d`, `45s`, or a sequence of these, to milliseconds.
pub(crate) fn span_ms(text: &str) -> Option<i64> {
    let (mut total, mut number) = (0i64, String::new());
    for c in text.chars() {
        if c.is_ascii_digit() {
            number.push(c);
            continue;
        }
        let unit = match c {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            _ => return None,
        };
        let n: i64 = number.parse().ok()?;
        number.clear();
        total = total.checked_add(n.checked_mul(unit * 1000)?)?;
    }
    (number.is_empty() && total > 0).then_some(total)
}

/// Reads a JSON document from a file or the standard input.
fn read_document(file: &str) -> Outcome<Value> {
    let text = match file {
        "-" => std::io::read_to_string(std::io::stdin()),
        _ => std::fs::read_to_string(file),
    };
    let text = text.when(|| format!("cannot read `{file}`"))?;
    serde_json::from_str(&text).map_err(|e| Failure::usage(format!("`{file}` is not JSON: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_spans() {
        assert_eq!(moment("1970-01-02"), Some(86_400_000));
        assert_eq!(moment("1970-01-01T00:00:01Z"), Some(1000));
        assert_eq!(moment("tomorrow"), None);
        assert_eq!(span_ms("1d2h3m4s"), Some(93_784_000));
        for bad in ["", "5", "h", "1w", "-1h", "99999999999999999999d"] {
            assert_eq!(span_ms(bad), None, "{bad}");
        }
    }

    #[test]
    fn fields_are_shown() {
        assert_eq!(shown("policies", &json!(["a", "b"])), "a, b");
        assert_eq!(shown("enabled", &json!(false)), "disabled");
        assert_eq!(shown("used_ms", &Value::Null), "never");
        assert_eq!(shown("expires_ms", &json!(86_400_000)), "1970-01-02 00:00:00 UTC");
    }
}
