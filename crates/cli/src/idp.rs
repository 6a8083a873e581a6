//! `ashlar admin idp openid|ldap|tls`: identity providers of an Ashlar server, with mc's commands.
//!
//! Invariants: with `--json` the server's own answer is printed; a secret can be read from a file, which
//! keeps it out of the list of processes and the shell's history; no secret is printed.

use ashlar_client::Method;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::{
    admin_records::{order, shown},
    admin_request::ask_with,
    alias::ask as secret,
    context::Context,
    failure::{Failure, Kind, Outcome, While},
    output::{Tone, empty_table},
};

/// The name of the provider without a name.
const UNNAMED: &str = "_";

/// Kinds of providers.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// OpenID Connect providers
    #[command(subcommand)]
    Openid(OpenidVerb),
    /// LDAP servers, Active Directory
    #[command(subcommand)]
    Ldap(LdapVerb),
    /// Client certificates
    #[command(subcommand)]
    Tls(Verb),
}

/// Actions on providers.
#[derive(Subcommand, Debug)]
pub enum Verb {
    /// Configure a provider; the server contacts it before it answers
    Add(Settings),
    /// Change some of its values; an empty value removes one
    Update(Settings),
    /// Show all
    #[command(visible_alias = "ls")]
    List {
        /// The server's alias
        alias: String,
    },
    /// Show one
    Info(One),
    /// Remove a provider: sessions and access keys of its users end
    #[command(visible_alias = "rm")]
    Remove(One),
    /// Enable a provider
    Enable(One),
    /// Disable a provider: sessions and access keys of its users stop working
    Disable(One),
}

/// Actions on OpenID Connect providers.
#[derive(Subcommand, Debug)]
pub enum OpenidVerb {
    #[command(flatten)]
    Settings(Verb),
    /// Show who an id token is of, and which policies would apply; signs nobody in
    #[command(after_long_help = "\
The token is read from the standard input, or asked for. The web console tries a whole sign-in.

Examples:
  ashlar admin idp openid test it keycloak < token.txt")]
    Test(One),
}

/// Actions on LDAP.
#[derive(Subcommand, Debug)]
pub enum LdapVerb {
    #[command(flatten)]
    Settings(Verb),
    /// Show who a name and a password are of, and which policies would apply; signs nobody in
    #[command(after_long_help = "\
The password is read from the standard input, or asked for.

Examples:
  ashlar admin idp ldap test it alice")]
    Test {
        /// The server's alias
        alias: String,
        /// A name in the directory
        username: String,
    },
    /// Policies of its users and groups
    #[command(subcommand)]
    Policy(LdapPolicy),
}

/// Actions on policies of LDAP users and groups.
#[derive(Subcommand, Debug)]
pub enum LdapPolicy {
    /// Attach policies to a user or group
    Attach(LdapAssociation),
    /// Detach policies from a user or group
    Detach(LdapAssociation),
}

/// Policies, and a user or group.
#[derive(Args, Debug)]
pub struct LdapAssociation {
    /// The server's alias
    alias: String,
    /// The policies
    #[arg(required = true)]
    policies: Vec<String>,
    /// A user's distinguished name
    #[arg(long, short, conflicts_with = "group", required_unless_present = "group")]
    user: Option<String>,
    /// A group's distinguished name
    #[arg(long, short)]
    group: Option<String>,
}

/// Which provider.
#[derive(Args, Debug)]
pub struct One {
    /// The server's alias
    alias: String,
    /// Its name
    #[arg(default_value = UNNAMED)]
    name: String,
}

/// A provider and its values.
#[derive(Args, Debug)]
pub struct Settings {
    /// The server's alias
    alias: String,
    /// Its name, if it has one, then NAME=VALUE; NAME=@FILE reads the value from a file
    #[arg(required = true, value_name = "[NAME] KEY=VALUE")]
    values: Vec<String>,
}

/// Parses the name and the values.
fn parts(words: &[String]) -> Outcome<(String, Map<String, Value>)> {
    let (name, pairs) = match words.split_first() {
        Some((first, rest)) if !first.contains('=') => (first.clone(), rest),
        _ => (UNNAMED.to_owned(), words),
    };
    let mut values = Map::new();
    for pair in pairs {
        let (key, value) = pair.split_once('=').ok_or_else(|| {
            Failure::usage(format!("`{pair}`: write KEY=VALUE, for instance client_id=ashlar"))
        })?;
        let value = match value.strip_prefix('@') {
            None => value.to_owned(),
            Some(file) => std::fs::read_to_string(file)
                .when(|| format!("cannot read `{file}`"))?
                .trim_end_matches(['\n', '\r'])
                .to_owned(),
        };
        if values.insert(key.to_owned(), json!(value)).is_some() {
            return Err(Failure::usage(format!("`{key}` is given twice")));
        }
    }
    if values.is_empty() {
        return Err(Failure::usage("no values; write KEY=VALUE, for instance client_id=ashlar"));
    }
    Ok((name, values))
}

/// Runs the command.
pub async fn run(command: Command, context: &Context) -> Outcome {
    let (kind, verb) = match command {
        Command::Openid(OpenidVerb::Settings(verb)) => ("openid", verb),
        Command::Openid(OpenidVerb::Test(One { alias, name })) => {
            let order = json!({ "token": secret("Token: ", true)?.trim() });
            return test(context, &alias, &format!("openid/{name}"), &order).await;
        }
        Command::Ldap(LdapVerb::Test { alias, username }) => {
            let order = json!({ "username": username, "password": secret("Password: ", true)? });
            return test(context, &alias, &format!("ldap/{UNNAMED}"), &order).await;
        }
        Command::Ldap(LdapVerb::Settings(verb)) => ("ldap", verb),
        Command::Ldap(LdapVerb::Policy(command)) => return policy(command, context).await,
        Command::Tls(verb) => ("tls", verb),
    };
    let path = |name: &str| format!("idp/{kind}/{name}");
    let change = |one: &One, suffix: &str| (one.alias.clone(), format!("{}{suffix}", path(&one.name)));
    let (method, (alias, path), body, done) = match &verb {
        Verb::List { alias } => return list(context, alias, &format!("idp/{kind}")).await,
        Verb::Info(one) => {
            let answer = ask_with(context, &one.alias, Method::GET, &path(&one.name), &[], None).await?;
            context.output.result(|| answer.clone(), || text(&answer));
            return Ok(());
        }
        Verb::Add(s) | Verb::Update(s) => {
            let (name, values) = parts(&s.values)?;
            let add = matches!(verb, Verb::Add(_));
            let method = if add { Method::PUT } else { Method::PATCH };
            let done = if add { "Added" } else { "Changed" };
            (method, (s.alias.clone(), path(&name)), Some(json!({ "values": values })), done)
        }
        Verb::Remove(one) => (Method::DELETE, change(one, ""), None, "Removed."),
        Verb::Enable(one) => (Method::POST, change(one, "/enable"), None, "Enabled"),
        Verb::Disable(one) => (Method::POST, change(one, "/disable"), None, "Disabled"),
    };
    let answer = ask_with(context, &alias, method, &path, &[], body.as_ref()).await?;
    let rest = if answer["name"].is_string() { format!(":\n{}", text(&answer)) } else { String::new() };
    context.output.done(|| answer, || format!("{done}{rest}"));
    Ok(())
}

/// Tries a sign-in and prints who it is.
async fn test(context: &Context, alias: &str, provider: &str, order: &Value) -> Outcome {
    let path = format!("idp/{provider}/test");
    let answer = ask_with(context, alias, Method::POST, &path, &[], Some(order)).await?;
    if let Some(why) = answer["problem"].as_str() {
        let what = "the provider did not confirm this".to_owned();
        return Err(Failure { what, ..Failure::new(Kind::Failed, why.to_owned()) });
    }
    let who = &answer["identity"];
    let mut lines: Vec<String> = ["name", "provider", "subject", "issuer", "groups", "policies"]
        .iter()
        .filter(|name| who[**name] != json!("") && who[**name] != json!([]))
        .map(|name| format!("{name:<22}{}", shown("", &who[*name])))
        .collect();
    for part in ["claims", "attributes"] {
        for (name, value) in who[part].as_object().into_iter().flatten() {
            lines.push(format!("{:<22}{}", format!("{}:{name}", &part[..part.len() - 1]), shown("", value)));
        }
    }
    lines.push(match who["admitted"] == true {
        true => "They could sign in.".to_owned(),
        false => "They could not sign in: no policy is attached to them, their groups or claims.".to_owned(),
    });
    context.output.result(|| who.clone(), || lines.join("\n"));
    Ok(())
}

async fn policy(command: LdapPolicy, context: &Context) -> Outcome {
    let (association, verb) = match command {
        LdapPolicy::Attach(association) => (association, "attach"),
        LdapPolicy::Detach(association) => (association, "detach"),
    };
    let LdapAssociation { alias, policies, user, group } = association;
    // clap requires one of them.
    let (field, name) = match user {
        Some(user) => ("federated_user", user),
        None => ("federated_group", group.unwrap_or_default()),
    };
    let text = format!("{verb}ed {}: `{name}`.", policies.join(", "));
    let mut body = json!({ "policies": policies });
    body[field] = json!(name);
    order(context, &alias, Method::POST, &format!("policies/{verb}"), Some(&body), text).await
}

/// A provider as text.
fn text(provider: &Value) -> String {
    let mut lines = vec![
        format!("{:<22}{}", "name", shown("", &provider["name"])),
        format!("{:<22}{}", "state", shown("enabled", &provider["enabled"])),
    ];
    if provider["problem"].is_string() {
        lines.push(format!("{:<22}{}", "problem", shown("", &provider["problem"])));
    }
    let fixed = provider["environment"].as_array().cloned().unwrap_or_default();
    for part in ["values", "facts"] {
        for (name, value) in provider[part].as_object().into_iter().flatten() {
            let from = if part == "values" && fixed.contains(&json!(name)) { "  (environment)" } else { "" };
            lines.push(format!("{name:<22}{}{from}", shown("", value)));
        }
    }
    lines.join("\n")
}

async fn list(context: &Context, alias: &str, path: &str) -> Outcome {
    let answer = ask_with(context, alias, Method::GET, path, &[], None).await?;
    let rows = answer["providers"].as_array().cloned().unwrap_or_default();
    if context.output.json {
        for row in rows {
            context.output.result(|| row, String::new);
        }
        return Ok(());
    }
    let mut table = empty_table();
    table.set_header(["Name", "State", "Role", "Note"]);
    for row in &rows {
        let on = row["enabled"] == json!(true);
        let tone = if on { Tone::Good } else { Tone::Bad };
        let note = if row["problem"].is_string() { &row["problem"] } else { &row["values"]["comment"] };
        table.add_row([
            shown("", &row["name"]),
            context.output.paint(tone, shown("enabled", &row["enabled"])),
            shown("", &row["facts"]["role_arn"]),
            shown("", note),
        ]);
    }
    context.output.result(|| Value::Null, || table.to_string());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values() {
        let words = |all: &[&str]| all.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
        let (name, values) = parts(&words(&["k", "client_id=a=b", "comment="])).unwrap();
        assert_eq!((name.as_str(), values["client_id"].as_str()), ("k", Some("a=b")));
        assert_eq!(values["comment"], "");
        assert_eq!(parts(&words(&["client_id=a"])).unwrap().0, "_");
        for bad in [&["k"][..], &["k", "x"], &["a=1", "a=2"], &["a=@/nowhere/at/all"]] {
            assert!(parts(&words(bad)).is_err(), "{bad:?}");
        }
    }
}
