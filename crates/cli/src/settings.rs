//! `ashlar anonymous`, `ashlar cors`, `ashlar encrypt`, `ashlar tag`: settings of buckets and tags of
//! objects, with mc's commands.
//!
//! Invariant: a setting that another tool made (a policy written by hand) is replaced only by a complete
//! document.

use ashlar_client::{Tags, Target};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{
    bucket::parse_tags,
    context::Context,
    document::{bucket, clear, escape, read, set, show},
    failure::{Failure, Kind, Outcome, While},
    location::{Location, Remote},
};

/// What anonymous requests may do in a bucket.
#[derive(Subcommand, Debug)]
pub enum AnonymousCommand {
    /// Set what anonymous requests may do: none, download, upload or public (both)
    Set {
        /// What anonymous requests may do
        #[arg(value_parser = ["none", "private", "download", "upload", "public"])]
        permission: String,
        /// ALIAS/BUCKET[/PREFIX]
        target: String,
    },
    /// Show what anonymous requests may do
    Get {
        /// ALIAS/BUCKET[/PREFIX]
        target: String,
    },
    /// Print the bucket's policy
    GetJson {
        /// ALIAS/BUCKET
        target: String,
    },
    /// Replace the bucket's policy with a document
    SetJson {
        /// The document; `-` reads the standard input
        file: String,
        /// ALIAS/BUCKET
        target: String,
    },
    /// Remove the bucket's policy
    RemoveJson {
        /// ALIAS/BUCKET
        target: String,
    },
}

/// Cross-origin resource sharing (CORS): which web pages may read a bucket's objects.
#[derive(Subcommand, Debug)]
pub enum CorsCommand {
    /// Replace the rules with an XML document
    Set {
        /// ALIAS/BUCKET
        target: String,
        /// The document; `-` reads the standard input
        file: String,
    },
    /// Print the rules
    Get {
        /// ALIAS/BUCKET
        target: String,
    },
    /// Remove all rules
    Remove {
        /// ALIAS/BUCKET
        target: String,
    },
}

/// Default encryption of a bucket.
#[derive(Subcommand, Debug)]
pub enum EncryptCommand {
    /// Encrypt new objects: sse-s3, or sse-kms with a key
    Set {
        /// sse-s3 or sse-kms
        #[arg(value_parser = ["sse-s3", "sse-kms"])]
        kind: String,
        /// For sse-kms: KEY ALIAS/BUCKET; for sse-s3: ALIAS/BUCKET
        #[arg(required = true, num_args = 1..=2, value_name = "[KEY] TARGET")]
        rest: Vec<String>,
    },
    /// Show how new objects are encrypted
    Info {
        /// ALIAS/BUCKET
        target: String,
    },
    /// Remove the default: new objects are encrypted only if a request asks for it
    Clear {
        /// ALIAS/BUCKET
        target: String,
    },
}

/// Tags of buckets and objects.
#[derive(Subcommand, Debug)]
pub enum TagCommand {
    /// Show the tags
    #[command(visible_alias = "ls")]
    List(TagTarget),
    /// Replace all tags
    Set {
        #[command(flatten)]
        on: TagTarget,
        /// As NAME=VALUE&NAME=VALUE
        tags: String,
    },
    /// Remove all tags
    #[command(visible_alias = "rm")]
    Remove(TagTarget),
}

/// A bucket or an object.
#[derive(Args, Debug)]
pub struct TagTarget {
    /// ALIAS/BUCKET or ALIAS/BUCKET/KEY
    target: String,
    /// This version of the object
    #[arg(long, visible_alias = "vid")]
    version_id: Option<String>,
}

/// Actions that downloads and uploads need on objects.
const DOWNLOAD: [&str; 1] = ["s3:GetObject"];
const UPLOAD: [&str; 4] =
    ["s3:PutObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts", "s3:DeleteObject"];
/// Prefix of the ids of statements that `anonymous set` creates.
const OWN: &str = "AshlarAnonymous";

/// The statements that give anonymous requests `permission` below a prefix.
fn statements(permission: &str, bucket: &str, prefix: &str) -> Vec<Value> {
    let download = matches!(permission, "download" | "public");
    let upload = matches!(permission, "upload" | "public");
    if !download && !upload {
        return Vec::new();
    }
    let id = |what: &str| {
        let plain: String = prefix.chars().filter(char::is_ascii_alphanumeric).collect();
        format!("{OWN}{what}{plain}")
    };
    let mut actions: Vec<&str> = Vec::new();
    actions.extend(DOWNLOAD.iter().filter(|_| download));
    actions.extend(UPLOAD.iter().filter(|_| upload));
    let mut list = json!({
        "Sid": id("List"), "Effect": "Allow", "Principal": {"AWS": ["*"]},
        "Action": if download { json!(["s3:GetBucketLocation", "s3:ListBucket"]) }
            else { json!(["s3:GetBucketLocation", "s3:ListBucketMultipartUploads"]) },
        "Resource": [format!("arn:aws:s3:::{bucket}")],
    });
    if download && !prefix.is_empty() {
        list["Action"] = json!(["s3:ListBucket"]);
        list["Condition"] = json!({"StringLike": {"s3:prefix": [format!("{prefix}*")]}});
    }
    let objects = json!({
        "Sid": id("Objects"), "Effect": "Allow", "Principal": {"AWS": ["*"]},
        "Action": actions, "Resource": [format!("arn:aws:s3:::{bucket}/{prefix}*")],
    });
    vec![list, objects]
}

/// Whether a statement was created by `anonymous set` for this prefix.
fn is_own(statement: &Value, bucket: &str, prefix: &str) -> bool {
    let own = statement["Sid"].as_str().is_some_and(|s| s.starts_with(OWN));
    let object = format!("arn:aws:s3:::{bucket}/{prefix}*");
    let whole = format!("arn:aws:s3:::{bucket}");
    let list = match statement["Condition"]["StringLike"]["s3:prefix"][0].as_str() {
        Some(pattern) => pattern == format!("{prefix}*"),
        None => prefix.is_empty() || statement["Sid"] == statements("upload", bucket, prefix)[0]["Sid"],
    };
    own && (statement["Resource"] == json!([object]) || (statement["Resource"] == json!([whole]) && list))
}

/// The permission that statements of `anonymous set` give below a prefix.
fn permission(policy: &Value, bucket: &str, prefix: &str) -> &'static str {
    let object = json!([format!("arn:aws:s3:::{bucket}/{prefix}*")]);
    let all = policy["Statement"].as_array().cloned().unwrap_or_default();
    let Some(statement) = all.iter().find(|s| is_own(s, bucket, prefix) && s["Resource"] == object) else {
        return if all.is_empty() { "none" } else { "custom" };
    };
    let has = |action: &str| statement["Action"].as_array().is_some_and(|a| a.iter().any(|x| x == action));
    match (has(DOWNLOAD[0]), has(UPLOAD[0])) {
        (true, true) => "public",
        (true, false) => "download",
        (false, true) => "upload",
        (false, false) => "custom",
    }
}

async fn policy(remote: &Remote) -> Outcome<Value> {
    let text = remote.client.document(&remote.bucket, "policy").await;
    let text = text.when(|| format!("cannot read the policy of `{remote}`"))?;
    let empty = json!({ "Version": "2012-10-17", "Statement": [] });
    let Some(text) = text else { return Ok(empty) };
    let mut policy: Value = serde_json::from_str(&text)
        .map_err(|e| Failure::new(Kind::Failed, format!("the policy of `{remote}`: {e}")))?;
    // A single statement may be written without brackets.
    if policy["Statement"].is_object() {
        policy["Statement"] = json!([policy["Statement"].take()]);
    }
    Ok(policy)
}

/// Shows or changes what anonymous requests may do.
pub async fn anonymous(command: AnonymousCommand, context: &Context) -> Outcome {
    match command {
        AnonymousCommand::Set { permission, target } => {
            let remote = Location::remote(&target, &context.aliases)?;
            remote.need_bucket()?;
            let mut document = policy(&remote).await?;
            let mut all = document["Statement"].as_array().cloned().unwrap_or_default();
            all.retain(|s| !is_own(s, &remote.bucket, &remote.key));
            all.extend(statements(&permission, &remote.bucket, &remote.key));
            let done = if all.is_empty() {
                remote.client.delete_document(&remote.bucket, "policy").await
            } else {
                document["Statement"] = Value::Array(all);
                remote.client.set_document(&remote.bucket, "policy", &document.to_string()).await
            };
            done.when(|| format!("cannot change the policy of `{remote}`"))?;
            context.output.done(
                || json!({ "bucket": remote.to_string(), "permission": permission }),
                || format!("Everybody has `{permission}` in `{remote}`."),
            );
        }
        AnonymousCommand::Get { target } => {
            let remote = Location::remote(&target, &context.aliases)?;
            remote.need_bucket()?;
            let now = permission(&policy(&remote).await?, &remote.bucket, &remote.key);
            context.output.result(
                || json!({ "bucket": remote.to_string(), "permission": now }),
                || format!("Everybody has `{now}` in `{remote}`."),
            );
        }
        AnonymousCommand::GetJson { target } => {
            let remote = bucket(&target, context)?;
            let policy = policy(&remote).await?;
            context.output.result(
                || json!({ "bucket": remote.to_string(), "policy": policy }),
                || serde_json::to_string_pretty(&policy).unwrap_or_default(),
            );
        }
        AnonymousCommand::SetJson { file, target } => {
            let remote = bucket(&target, context)?;
            set(context, &remote, "policy", &read(&file)?).await?;
        }
        AnonymousCommand::RemoveJson { target } => {
            clear(context, &bucket(&target, context)?, "policy").await?;
        }
    }
    Ok(())
}

/// Shows or changes CORS rules.
pub async fn cors(command: CorsCommand, context: &Context) -> Outcome {
    match command {
        CorsCommand::Set { target, file } => {
            set(context, &bucket(&target, context)?, "cors", &read(&file)?).await
        }
        CorsCommand::Get { target } => show(context, &bucket(&target, context)?, "cors").await,
        CorsCommand::Remove { target } => clear(context, &bucket(&target, context)?, "cors").await,
    }
}

/// The XML document of a bucket's default encryption.
fn encryption(kind: &str, key: Option<&str>) -> String {
    let algorithm = if kind == "sse-kms" { "aws:kms" } else { "AES256" };
    let key = key.map_or(String::new(), |k| format!("<KMSMasterKeyID>{}</KMSMasterKeyID>", escape(k)));
    format!(
        "<ServerSideEncryptionConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Rule>\
         <ApplyServerSideEncryptionByDefault><SSEAlgorithm>{algorithm}</SSEAlgorithm>{key}\
         </ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>"
    )
}

/// Shows or changes the default encryption of a bucket.
pub async fn encrypt(command: EncryptCommand, context: &Context) -> Outcome {
    match command {
        EncryptCommand::Set { kind, rest } => {
            let (key, target) = match (kind.as_str(), rest.as_slice()) {
                ("sse-s3", [target]) => (None, target),
                ("sse-kms", [target]) => (None, target),
                ("sse-kms", [key, target]) => (Some(key.as_str()), target),
                _ => return Err(Failure::usage("sse-s3 takes no key")),
            };
            set(context, &bucket(target, context)?, "encryption", &encryption(&kind, key)).await
        }
        EncryptCommand::Info { target } => show(context, &bucket(&target, context)?, "encryption").await,
        EncryptCommand::Clear { target } => clear(context, &bucket(&target, context)?, "encryption").await,
    }
}

/// Shows or changes tags of a bucket or an object.
pub async fn tag(command: TagCommand, context: &Context) -> Outcome {
    let (TagCommand::List(on) | TagCommand::Set { on, .. } | TagCommand::Remove(on)) = &command;
    let remote = Location::remote(&on.target, &context.aliases)?;
    remote.need_bucket()?;
    let target = match remote.key.as_str() {
        "" => Target::Bucket(&remote.bucket),
        key => Target::Object(&remote.bucket, key),
    };
    let version = on.version_id.as_deref();
    match &command {
        TagCommand::List(_) => {
            let tags: Tags = remote
                .client
                .tags(target, version)
                .await
                .when(|| format!("cannot read the tags of `{remote}`"))?;
            if tags.is_empty() {
                return Err(Failure::new(Kind::NotFound, format!("`{remote}` has no tags")));
            }
            context.output.result(
                || json!({ "url": remote.to_string(), "versionID": version, "tagset": tags }),
                || tags.iter().map(|(n, v)| format!("{n:20} : {v}")).collect::<Vec<_>>().join("\n"),
            );
            return Ok(());
        }
        TagCommand::Set { tags, .. } => {
            let set = remote.client.set_tags(target, version, &parse_tags(tags)?).await;
            set.when(|| format!("cannot set the tags of `{remote}`"))?;
        }
        TagCommand::Remove(_) => {
            let removed = remote.client.delete_tags(target, version).await;
            removed.when(|| format!("cannot remove the tags of `{remote}`"))?;
        }
    }
    context.output.done(|| json!({ "name": remote.to_string() }), || format!("Tags of `{remote}` changed."));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anonymous_permission_round_trips() {
        for prefix in ["", "a/b/"] {
            for wanted in ["download", "upload", "public"] {
                let mut all = statements(wanted, "b", prefix);
                all.push(json!({ "Sid": "by hand", "Effect": "Allow" }));
                let policy = json!({ "Statement": all });
                assert_eq!(permission(&policy, "b", prefix), wanted, "{prefix}");
                assert_eq!(permission(&policy, "b", "other"), "custom");
                let own = all.iter().filter(|s| is_own(s, "b", prefix)).count();
                assert_eq!(own, 2, "{wanted} {prefix}: both go, and nothing else");
                assert_eq!(all.iter().filter(|s| is_own(s, "b", "other")).count(), 0);
            }
        }
        assert_eq!(permission(&json!({ "Statement": [] }), "b", ""), "none");
    }

    #[test]
    fn key_id_is_escaped_in_encryption_document() {
        assert!(encryption("sse-kms", Some("a<b")).contains("a&lt;b"));
        assert!(encryption("sse-s3", None).contains("AES256"));
    }
}
