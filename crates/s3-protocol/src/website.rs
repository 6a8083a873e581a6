//! The website configuration of a bucket: which document, redirect or routing rule applies to a request.
//!
//! Semantics: Amazon S3 User Guide, "Hosting a static website using Amazon S3". Pure.
//!
//! Must not depend on: identities, the location of objects.

/// `http` or `https`.
pub type Protocol = Option<String>;

/// `RedirectAllRequestsTo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    /// The host.
    pub host: String,
    /// As the request, unless given.
    pub protocol: Protocol,
}

/// One routing rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// Only keys that begin with this.
    pub prefix: Option<String>,
    /// Only when this status would be answered.
    pub error: Option<u16>,
    /// Another host.
    pub host: Option<String>,
    /// Another protocol.
    pub protocol: Protocol,
    /// The status of the redirect; 301 unless given.
    pub status: Option<u16>,
    /// The whole key is this one.
    pub replace_key: Option<String>,
    /// The prefix that was met becomes this one.
    pub replace_prefix: Option<String>,
}

/// A bucket's configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Website {
    /// Everything is elsewhere.
    pub elsewhere: Option<Elsewhere>,
    /// The document that a folder shows.
    pub index: Option<String>,
    /// The key of what is shown for errors.
    pub error: Option<String>,
    /// In order; the first that matches applies.
    pub routes: Vec<Route>,
}

/// Where to go: a status and a location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// 3xx.
    pub status: u16,
    /// An absolute URL, or a path.
    pub location: String,
}

/// Escapes a key for a URL.
fn escape(key: &str) -> String {
    crate::xml::url_encode(key)
}

impl Website {
    /// The key of a path without its first slash: folders show their index.
    #[must_use]
    pub fn key(&self, path: &str) -> String {
        match &self.index {
            Some(index) if path.is_empty() || path.ends_with('/') => format!("{path}{index}"),
            _ => path.to_owned(),
        }
    }

    /// The redirect of a request for `path`; `error`: the status that would be answered, if it is one.
    #[must_use]
    pub fn redirect(&self, path: &str, error: Option<u16>, https: bool, host: &str) -> Option<Redirect> {
        let scheme = |wanted: &Protocol| match wanted.as_deref() {
            Some(p) => p.to_owned(),
            None => if https { "https" } else { "http" }.to_owned(),
        };
        if let Some(all) = &self.elsewhere {
            let location = format!("{}://{}/{}", scheme(&all.protocol), all.host, escape(path));
            return Some(Redirect { status: 301, location });
        }
        let route = self
            .routes
            .iter()
            .find(|r| r.error == error && r.prefix.as_ref().is_none_or(|p| path.starts_with(p.as_str())))?;
        let key = match (&route.replace_key, &route.replace_prefix) {
            (Some(key), _) => key.clone(),
            (None, Some(prefix)) => {
                let met = route.prefix.as_deref().unwrap_or_default();
                format!("{prefix}{}", path.strip_prefix(met).unwrap_or(path))
            }
            (None, None) => path.to_owned(),
        };
        let host = route.host.as_deref().unwrap_or(host);
        let location = format!("{}://{host}/{}", scheme(&route.protocol), escape(&key));
        Some(Redirect { status: route.status.unwrap_or(301), location })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routing_rules_are_applied() {
        let mut site = Website { index: Some("index.html".into()), ..Website::default() };
        assert_eq!(site.key(""), "index.html");
        assert_eq!(site.key("a/"), "a/index.html");
        assert_eq!(site.key("a"), "a");
        site.routes = vec![
            Route {
                prefix: Some("docs/".into()),
                replace_prefix: Some("documents/".into()),
                ..Route::default()
            },
            Route {
                prefix: Some("x/".into()),
                error: Some(404),
                host: Some("other.example".into()),
                protocol: Some("https".into()),
                status: Some(302),
                replace_key: Some("gone page".into()),
                ..Route::default()
            },
            Route { error: Some(404), replace_prefix: Some("report/".into()), ..Route::default() },
        ];
        let at = |path: &str, error| {
            site.redirect(path, error, false, "w.example").map(|r| (r.status, r.location))
        };
        assert_eq!(at("docs/a b", None), Some((301, "http://w.example/documents/a%20b".into())));
        assert_eq!(at("x/1", None), None);
        assert_eq!(at("x/1", Some(404)), Some((302, "https://other.example/gone%20page".into())));
        assert_eq!(at("y", Some(404)), Some((301, "http://w.example/report/y".into())));
        assert_eq!(at("y", Some(403)), None);
        site.elsewhere = Some(Elsewhere { host: "e.example".into(), protocol: None });
        let all = site.redirect("p", None, true, "w.example").unwrap();
        assert_eq!((all.status, all.location.as_str()), (301, "https://e.example/p"));
    }
}
