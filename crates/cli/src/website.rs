//! `ashlar bucket website` and `ashlar bucket logging`: a bucket as a website, and the log of its requests.
//!
//! Settings come from options, or as an XML document with everything that S3 has (routing rules, the form of the
//! keys of log objects).
//!
//! Must not depend on: how websites are served and logs are delivered.

use clap::{Args, Subcommand};
use serde_json::json;

use super::{
    context::Context,
    document,
    failure::{Failure, Outcome, While},
    location::Remote,
};

/// The namespace of the documents.
const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

/// Actions on the website of a bucket.
#[derive(Subcommand, Debug)]
pub enum WebsiteCommand {
    /// Serve the bucket as a website, or redirect its requests
    Set(WebsiteOptions),
    /// Print the settings as XML
    Get {
        /// ALIAS/BUCKET
        target: String,
    },
    /// Stop serving the bucket as a website
    #[command(visible_alias = "rm")]
    Remove {
        /// ALIAS/BUCKET
        target: String,
    },
}

/// A website.
#[derive(Args, Debug)]
pub struct WebsiteOptions {
    /// ALIAS/BUCKET
    target: String,
    /// The settings as an XML document, for routing rules; `-` reads the standard input
    #[arg(required_unless_present_any = ["index", "redirect_to"], conflicts_with_all = ["index", "redirect_to"])]
    file: Option<String>,
    /// Object that is sent for a folder, such as index.html
    #[arg(long, value_name = "NAME", conflicts_with = "redirect_to")]
    index: Option<String>,
    /// Object that is sent with errors, such as 404.html
    #[arg(long, value_name = "KEY", requires = "index")]
    error: Option<String>,
    /// Redirect all requests to this host: HOST, http://HOST or https://HOST
    #[arg(long, value_name = "HOST")]
    redirect_to: Option<String>,
}

/// Actions on the access log of a bucket.
#[derive(Subcommand, Debug)]
pub enum LoggingCommand {
    /// Log the requests to the bucket, into objects of another one
    Set(LoggingOptions),
    /// Print the settings as XML
    Get {
        /// ALIAS/BUCKET
        target: String,
    },
    /// Stop logging the requests
    #[command(visible_alias = "rm")]
    Remove {
        /// ALIAS/BUCKET
        target: String,
    },
}

/// An access log.
#[derive(Args, Debug)]
pub struct LoggingOptions {
    /// ALIAS/BUCKET
    target: String,
    /// The settings as an XML document; `-` reads the standard input
    #[arg(required_unless_present = "to", conflicts_with = "to")]
    file: Option<String>,
    /// Bucket of the same owner that receives the log
    #[arg(long, value_name = "BUCKET")]
    to: Option<String>,
    /// Beginning of the keys of the log objects
    #[arg(long, default_value = "", conflicts_with = "file")]
    prefix: String,
}

fn element(name: &str, text: &str) -> String {
    format!("<{name}>{}</{name}>", document::escape(text))
}

impl WebsiteOptions {
    /// The document of the options.
    fn xml(&self) -> Outcome<String> {
        if let Some(file) = &self.file {
            return document::read(file);
        }
        let content = match (&self.redirect_to, &self.index) {
            (Some(to), _) => {
                let (protocol, host) = match to.split_once("://") {
                    Some((protocol, host)) => (Some(protocol), host),
                    None => (None, to.as_str()),
                };
                if host.is_empty() || host.contains('/') {
                    return Err(Failure::usage(format!(
                        "--redirect-to {to}: write a host, such as www.example.com or https://www.example.com"
                    )));
                }
                let protocol = protocol.map(|p| element("Protocol", p)).unwrap_or_default();
                format!(
                    "<RedirectAllRequestsTo>{}{protocol}</RedirectAllRequestsTo>",
                    element("HostName", host)
                )
            }
            (None, index) => {
                let index = element("Suffix", index.as_deref().unwrap_or_default());
                let error = self.error.as_deref().map(|key| element("Key", key));
                let error = error.map(|key| format!("<ErrorDocument>{key}</ErrorDocument>"));
                format!("<IndexDocument>{index}</IndexDocument>{}", error.unwrap_or_default())
            }
        };
        Ok(format!("<WebsiteConfiguration xmlns=\"{NAMESPACE}\">{content}</WebsiteConfiguration>"))
    }
}

impl LoggingOptions {
    /// The document of the options.
    fn xml(&self) -> Outcome<String> {
        match (&self.file, &self.to) {
            (Some(file), _) => document::read(file),
            (None, to) => {
                let to = element("TargetBucket", to.as_deref().unwrap_or_default());
                Ok(logging(&format!(
                    "<LoggingEnabled>{to}{}</LoggingEnabled>",
                    element("TargetPrefix", &self.prefix)
                )))
            }
        }
    }
}

/// The document with `content`; empty: no log.
fn logging(content: &str) -> String {
    format!("<BucketLoggingStatus xmlns=\"{NAMESPACE}\">{content}</BucketLoggingStatus>")
}

/// Shows or changes the website of a bucket.
pub async fn website(command: WebsiteCommand, context: &Context) -> Outcome {
    match command {
        WebsiteCommand::Set(options) => {
            let remote = document::bucket(&options.target, context)?;
            document::set(context, &remote, "website", &options.xml()?).await
        }
        WebsiteCommand::Get { target } => {
            document::show(context, &document::bucket(&target, context)?, "website").await
        }
        WebsiteCommand::Remove { target } => {
            document::clear(context, &document::bucket(&target, context)?, "website").await
        }
    }
}

/// Shows or changes the access log of a bucket.
pub async fn access_log(command: LoggingCommand, context: &Context) -> Outcome {
    match command {
        LoggingCommand::Set(options) => {
            let remote = document::bucket(&options.target, context)?;
            document::set(context, &remote, "logging", &options.xml()?).await
        }
        LoggingCommand::Get { target } => {
            let remote = document::bucket(&target, context)?;
            // A bucket without a log has an empty document.
            match document::get(&remote, "logging").await? {
                text if text.contains("LoggingEnabled") => document::print(context, &remote, &text),
                _ => return Err(document::none(&remote, "logging")),
            }
            Ok(())
        }
        LoggingCommand::Remove { target } => {
            stop_logging(context, &document::bucket(&target, context)?).await
        }
    }
}

async fn stop_logging(context: &Context, remote: &Remote) -> Outcome {
    let done = remote.client.set_document(&remote.bucket, "logging", &logging("")).await;
    done.when(|| format!("cannot remove the logging settings of `{remote}`"))?;
    context.output.done(
        || json!({ "bucket": remote.to_string() }),
        || format!("The logging settings of `{remote}` are removed."),
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        website: WebsiteOptions,
    }

    fn xml(words: &[&str]) -> Outcome<String> {
        let line = Line::try_parse_from(["x", "it/b"].iter().chain(words));
        line.map_err(|e| Failure::usage(e.to_string()))?.website.xml()
    }

    #[test]
    fn options_become_elements() {
        let text = xml(&["--index", "a&b.html", "--error", "404.html"]).unwrap();
        assert!(text.contains("<Suffix>a&amp;b.html</Suffix>"), "{text}");
        assert!(text.contains("<ErrorDocument><Key>404.html</Key></ErrorDocument>"), "{text}");
        let text = xml(&["--redirect-to", "https://www.example.com"]).unwrap();
        assert!(text.contains("<HostName>www.example.com</HostName><Protocol>https</Protocol>"), "{text}");
        let text = xml(&["--redirect-to", "www.example.com:8080"]).unwrap();
        assert!(text.contains("<HostName>www.example.com:8080</HostName></Redirect"), "{text}");
    }

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        for bad in [
            &[][..],
            &["--error", "404.html"],
            &["--index", "i", "--redirect-to", "h"],
            &["-", "--index", "i"],
            &["--redirect-to", "https://"],
            &["--redirect-to", "https://h/path"],
        ] {
            assert!(xml(bad).is_err(), "{bad:?}");
        }
    }
}
