//! Aliases: names for endpoints with their credentials, from the file and the environment.
//!
//! Invariants: only the owner can read the file; it is replaced atomically, never written in place; the
//! environment overrides the file; no message contains a secret.

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use ashlar_client::{Addressing, Client, Config, Credentials, Payload, Tls};
use serde::{Deserialize, Serialize};

use super::{
    failure::{Failure, Kind, Outcome, While},
    globals::Globals,
};

/// One endpoint.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Alias {
    /// `http://host:port` or `https://host:port`.
    pub url: String,
    /// Empty for anonymous access.
    pub access_key: String,
    /// The secret.
    pub secret_key: String,
    /// The token of temporary credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_token: Option<String>,
    /// `us-east-1` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Where the bucket's name goes: `on` (in the path), `off` (in the host) or `auto`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// How payloads are signed: `auto`, `signed`, `unsigned` (for servers that know no trailers).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<String>,
}

/// The file as it is stored.
#[derive(Default, Serialize, Deserialize)]
struct Stored {
    #[serde(default)]
    alias: BTreeMap<String, Alias>,
}

/// All aliases, and the connection settings of their endpoints.
pub struct Aliases {
    file: PathBuf,
    stored: Stored,
    /// From the environment; these override the file.
    environment: BTreeMap<String, Alias>,
    tls: Tls,
}

/// Variables that define aliases, in order of precedence.
const VARIABLES: [&str; 2] = ["ASHLAR_HOST_", "MC_HOST_"];

impl Aliases {
    /// Reads the file (which may be absent) and the environment.
    pub fn load(globals: &Globals) -> Outcome<Aliases> {
        let file = match &globals.config {
            Some(file) => file.clone(),
            None => default_file()?,
        };
        let stored = match fs::read_to_string(&file) {
            Ok(text) => toml::from_str(&text)
                .map_err(|e| Failure::new(Kind::Failed, format!("{}: {e}", file.display())))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Stored::default(),
            Err(error) => return Err(error).when(|| format!("cannot read {}", file.display())),
        };
        let mut environment = BTreeMap::new();
        for prefix in VARIABLES.iter().rev() {
            for (variable, value) in ashlar_environment::process::variables() {
                if let Some(name) = variable.strip_prefix(prefix) {
                    let alias = parse_host(&value).ok_or_else(|| {
                        Failure::usage(format!("{variable}: expected http(s)://ACCESS:SECRET@HOST"))
                    })?;
                    environment.insert(name.to_owned(), alias);
                }
            }
        }
        let mut tls = Tls { insecure: globals.insecure, authorities: Vec::new() };
        if let Some(ca) = &globals.ca {
            tls.authorities.push(fs::read(ca).when(|| format!("cannot read {}", ca.display()))?);
        }
        Ok(Aliases { file, stored, environment, tls })
    }

    /// The alias of this name.
    pub fn get(&self, name: &str) -> Option<&Alias> {
        self.environment.get(name).or_else(|| self.stored.alias.get(name))
    }

    /// All names with their aliases, and whether they come from the environment.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Alias, bool)> {
        let stored = self.stored.alias.iter().filter(|(n, _)| !self.environment.contains_key(*n));
        let environment = self.environment.iter().map(|(n, a)| (n.as_str(), a, true));
        environment.chain(stored.map(|(n, a)| (n.as_str(), a, false)))
    }

    /// A client for an alias.
    pub fn client(&self, name: &str) -> Outcome<Client> {
        let alias = self.get(name).ok_or_else(|| self.unknown(name))?;
        self.client_of(alias).when(|| format!("alias `{name}`"))
    }

    /// A client for an alias that is not stored yet.
    pub fn client_of(&self, alias: &Alias) -> Outcome<Client> {
        let credentials = (!alias.access_key.is_empty()).then(|| Credentials {
            access_key: alias.access_key.clone(),
            secret_key: alias.secret_key.clone(),
            session_token: alias.session_token.clone(),
        });
        let mut config = Config::new(&alias.url, credentials);
        if let Some(region) = &alias.region {
            config.region.clone_from(region);
        }
        config.addressing = match alias.path.as_deref() {
            None | Some("auto" | "") => Addressing::Auto,
            Some("on" | "path") => Addressing::Path,
            Some("off" | "dns") => Addressing::VirtualHost,
            Some(other) => return Err(Failure::usage(format!("path {other:?}: must be auto, on or off"))),
        };
        config.payload = match alias.payload.as_deref() {
            None | Some("auto" | "") => Payload::Auto,
            Some("signed") => Payload::Signed,
            Some("unsigned") => Payload::Unsigned,
            Some(other) => {
                return Err(Failure::usage(format!("payload {other:?}: must be auto, signed or unsigned")));
            }
        };
        config.tls = self.tls.clone();
        Ok(Client::new(config)?)
    }

    fn unknown(&self, name: &str) -> Failure {
        let known: Vec<_> = self.all().map(|(n, ..)| n).collect();
        let known = if known.is_empty() { "none yet".into() } else { known.join(", ") };
        let cause = format!("no alias is called `{name}` (known: {known}); add it with `ashlar alias set`");
        Failure::new(Kind::NotFound, cause)
    }

    /// Stores an alias; the file is written at once.
    pub fn set(&mut self, name: &str, alias: Alias) -> Outcome {
        check_name(name)?;
        self.stored.alias.insert(name.to_owned(), alias);
        self.save()
    }

    /// Stores several at once.
    pub fn extend(&mut self, aliases: BTreeMap<String, Alias>) -> Outcome {
        self.stored.alias.extend(aliases);
        self.save()
    }

    /// Removes an alias from the file.
    pub fn remove(&mut self, name: &str) -> Outcome {
        if self.stored.alias.remove(name).is_none() {
            if self.environment.contains_key(name) {
                return Err(Failure::usage(format!(
                    "`{name}` comes from the environment; unset its variable"
                )));
            }
            return Err(self.unknown(name));
        }
        self.save()
    }

    /// Where aliases are stored.
    pub fn file(&self) -> &Path {
        &self.file
    }

    fn save(&self) -> Outcome {
        let text = toml::to_string(&self.stored)
            .map_err(|e| Failure::new(Kind::Failed, format!("{}: {e}", self.file.display())))?;
        write_private(&self.file, text.as_bytes()).when(|| format!("cannot write {}", self.file.display()))
    }
}

/// Replaces a file that only its owner may read.
fn write_private(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    // A symbolic link is kept: its target is replaced.
    let file = fs::canonicalize(file).unwrap_or_else(|_| file.to_path_buf());
    let folder = file.parent().filter(|f| !f.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let temporary = file.with_extension(format!("{}.new", std::process::id()));
    let _ = fs::remove_file(&temporary);
    let written = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)
        .and_then(|mut new| new.write_all(bytes).and_then(|()| new.sync_all()))
        .and_then(|()| fs::rename(&temporary, &file));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn default_file() -> Outcome<PathBuf> {
    let base = ashlar_environment::process::variable_os("XDG_CONFIG_HOME")
        .filter(|v| !v.is_empty())
        .map(PathBuf::from);
    let base = base
        .or_else(|| Some(PathBuf::from(ashlar_environment::process::variable_os("HOME")?).join(".config")));
    let base = base.ok_or_else(|| {
        Failure::usage("the file with the aliases is not known: set HOME, or give --config")
    })?;
    Ok(base.join("ashlar/config.toml"))
}

/// Checks that a name can be used as the first segment of a path.
pub fn check_name(name: &str) -> Outcome {
    let valid = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if name.is_empty() || !valid || !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        let rule = "must begin with a letter, followed by letters, digits, - and _";
        return Err(Failure::usage(format!("{name:?} is not a valid alias name: it {rule}")));
    }
    Ok(())
}

/// `http(s)://ACCESS:SECRET[:TOKEN]@HOST`, as mc writes it: nothing is percent-encoded, and the
/// secret may hold `/` and `@`.
fn parse_host(text: &str) -> Option<Alias> {
    let (scheme, rest) = text.split_once("://")?;
    if !matches!(scheme, "http" | "https") {
        return None;
    }
    let Some((keys, host)) = rest.rsplit_once('@') else {
        return Some(Alias { url: text.trim_end_matches('/').into(), ..Alias::default() });
    };
    let mut keys = keys.splitn(3, ':');
    Some(Alias {
        url: format!("{scheme}://{}", host.trim_end_matches('/')),
        access_key: keys.next()?.to_owned(),
        secret_key: keys.next()?.to_owned(),
        session_token: keys.next().map(str::to_owned),
        ..Alias::default()
    })
}

/// The aliases of mc's configuration file, without mc's own examples.
pub fn parse_mc(text: &str) -> Result<BTreeMap<String, Alias>, String> {
    #[derive(Deserialize)]
    struct McFile {
        #[serde(alias = "hosts")]
        aliases: BTreeMap<String, McAlias>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    #[derive(Default)]
    struct McAlias {
        url: String,
        access_key: String,
        secret_key: String,
        session_token: Option<String>,
        api: String,
        path: String,
    }
    let file: McFile = serde_json::from_str(text).map_err(|e| e.to_string())?;
    let mut aliases = BTreeMap::new();
    for (name, mc) in file.aliases {
        let example = mc.access_key.contains("ACCESS-KEY-HERE")
            || (mc.access_key.is_empty() && mc.url.contains("amazonaws"));
        if mc.url.is_empty() || example {
            continue;
        }
        if mc.api.eq_ignore_ascii_case("s3v2") {
            return Err(format!("`{name}` uses signature version 2, which this client does not"));
        }
        let alias = Alias {
            url: mc.url.trim_end_matches('/').to_owned(),
            access_key: mc.access_key,
            secret_key: mc.secret_key,
            session_token: mc.session_token.filter(|t| !t.is_empty()),
            path: Some(mc.path).filter(|p| p == "on" || p == "off"),
            ..Alias::default()
        };
        aliases.insert(name, alias);
    }
    Ok(aliases)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn environment_hosts_parse() {
        let alias = parse_host("https://KEY:se/c@ret+@play.example.com:9000/").unwrap();
        assert_eq!(alias.url, "https://play.example.com:9000");
        assert_eq!((alias.access_key.as_str(), alias.secret_key.as_str()), ("KEY", "se/c@ret+"));
        let alias = parse_host("http://K:S:token:with:colons@h").unwrap();
        assert_eq!(alias.session_token.as_deref(), Some("token:with:colons"));
        assert_eq!(parse_host("http://127.0.0.1:9000").unwrap().access_key, "");
        for bad in ["", "K:S@h", "ftp://K:S@h", "http://K@h"] {
            assert!(parse_host(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn alias_file_is_private_and_round_trips() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("deep/config.toml");
        let globals = Globals { config: Some(file.clone()), ..Globals::default() };
        let mut aliases = Aliases::load(&globals).unwrap();
        let alias = Alias {
            url: "http://h".into(),
            access_key: "k".into(),
            secret_key: "s".into(),
            ..Alias::default()
        };
        aliases.set("one", alias.clone()).unwrap();
        assert!(aliases.set("no/slash", alias.clone()).is_err());
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let mut again = Aliases::load(&globals).unwrap();
        assert!(again.get("one") == Some(&alias));
        again.remove("one").unwrap();
        assert_eq!(again.remove("one").unwrap_err().kind, Kind::NotFound);
        assert!(Aliases::load(&globals).unwrap().get("one").is_none());
        fs::write(&file, "nonsense").unwrap();
        assert!(Aliases::load(&globals).is_err());
    }

    #[test]
    fn mc_configuration_parses() {
        let text = r#"{"version":"10","aliases":{
            "gcs":{"url":"https://storage.googleapis.com","accessKey":"YOUR-ACCESS-KEY-HERE","secretKey":"YOUR-SECRET-KEY-HERE","api":"S3v2","path":"dns"},
            "s3":{"url":"https://s3.amazonaws.com","accessKey":"","secretKey":"","api":"S3v4","path":"dns"},
            "local":{"url":"http://localhost:9000/","accessKey":"","secretKey":"","api":"S3v4","path":"auto"},
            "it":{"url":"http://127.0.0.1:9000","accessKey":"a","secretKey":"b","api":"s3v4","path":"on","license":""}}}"#;
        let aliases = parse_mc(text).unwrap();
        assert_eq!(aliases.keys().collect::<Vec<_>>(), ["it", "local"]);
        assert_eq!(aliases["it"].path.as_deref(), Some("on"));
        assert_eq!(aliases["local"].url, "http://localhost:9000");
        assert!(parse_mc(r#"{"aliases":{"x":{"url":"http://h","accessKey":"a","api":"S3v2"}}}"#).is_err());
        assert!(parse_mc("{}").is_err());
    }
}
