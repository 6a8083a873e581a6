//! Tickets for downloads, and links to share.
//!
//! A browser downloads a file by opening its address, and cannot send a header then. So the page asks for a ticket
//! first: the sealed address, the session that may open it, and a time limit. It is of no use without the cookie.
//!
//! A shared link is a presigned URL. It is signed with the stored key that the person signed in with, so that it
//! can outlive the session. If that key is gone meanwhile, the session signs, and the link ends with it. Removing or
//! disabling the key ends the links.
//!
//! Invariant: a link gives what its signer may read when it is opened, and nothing else.
//!
//! Must not depend on: requests.

use ashlar_iam::{Iam, Identity};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Uri;
use serde::{Deserialize, Serialize};

use crate::session::Session;
use crate::sign::Signer;

/// The parameter that has a ticket.
pub(crate) const TICKET: &str = "ashlar-ticket";
/// What tickets are sealed for.
const PLACE: &str = "console-ticket";
/// How long a ticket can be used, in milliseconds: as long as somebody may watch a video.
const VALID_MS: i64 = 3_600_000;
/// Longest life of a link in seconds, as S3 has it.
const LONGEST_S: i64 = 7 * 24 * 3600;

#[derive(Serialize, Deserialize)]
struct Ticket {
    session: String,
    /// Path and query, as sent, below `s3`.
    target: String,
    expires_ms: i64,
}

/// Seals a ticket for `target`, a path with its query below the S3 service.
pub(crate) fn ticket(iam: &Iam, session: &Session, target: &str, now_ms: i64) -> String {
    let ticket = Ticket {
        session: session.access_key.clone(),
        target: target.to_owned(),
        expires_ms: now_ms + VALID_MS,
    };
    let plain = serde_json::to_vec(&ticket).unwrap_or_default();
    URL_SAFE_NO_PAD.encode(iam.seal(PLACE, &plain))
}

/// The target of a download without its ticket, if the ticket is good. The ticket is the last parameter.
pub(crate) fn redeem(iam: &Iam, session: &Session, target: &Uri, now_ms: i64) -> Option<Uri> {
    let text = target.path_and_query()?.as_str();
    let (rest, sealed) = text.rsplit_once(&format!("{TICKET}="))?;
    let rest = rest.strip_suffix(['?', '&'])?;
    let sealed = URL_SAFE_NO_PAD.decode(sealed).ok()?;
    let ticket: Ticket = serde_json::from_slice(&iam.unseal(PLACE, &sealed)?).ok()?;
    let good = ticket.session == session.access_key && ticket.target == rest && now_ms < ticket.expires_ms;
    if good { rest.parse().ok() } else { None }
}

/// What to share.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShareOrder {
    bucket: String,
    key: String,
    version_id: Option<String>,
    /// How long the link works.
    seconds: i64,
    /// Scheme and host of the link, for instance `https://s3.example.com`.
    endpoint: String,
    /// The browser saves the object instead of showing it.
    #[serde(default)]
    download: bool,
}

/// A link to share.
#[derive(Serialize)]
pub(crate) struct Share {
    pub url: String,
    pub expires_ms: i64,
    /// The link ends with the session, because the key that the person signed in with is gone.
    pub ends_with_session: bool,
}

/// Makes a link. The error is for the person who asked.
pub(crate) fn share(
    iam: &Iam,
    session: &Session,
    identity: &Identity,
    order: &ShareOrder,
    region: &str,
    now_ms: i64,
) -> Result<Share, String> {
    if !(1..=LONGEST_S).contains(&order.seconds) {
        return Err(format!("a link lives 1 to {LONGEST_S} seconds (7 days), not {}", order.seconds));
    }
    let bad = || {
        format!(
            "\"{}\" is no endpoint: write a scheme and a host, for instance https://s3.example.com",
            order.endpoint
        )
    };
    let uri: Uri = order.endpoint.parse().map_err(|_| bad())?;
    let scheme = uri.scheme_str().filter(|s| matches!(*s, "http" | "https")).ok_or_else(bad)?;
    let authority = uri.authority().filter(|a| !a.as_str().contains('@')).ok_or_else(bad)?.as_str();
    if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
        return Err(format!("{}: S3 is served at the root of a host, not below a path", order.endpoint));
    }
    // Browsers leave out the port that belongs to the scheme, and sign so.
    let default_port = if scheme == "https" { ":443" } else { ":80" };
    let host = authority.strip_suffix(default_port).unwrap_or(authority);
    let stored = iam.find(&session.signer).filter(|k| k.user == identity.user);
    let (by, token) = match &stored {
        Some(key) => (&**key, None),
        None => (identity, Some(session.token.as_str())),
    };
    let seconds = match token {
        None => order.seconds,
        Some(_) => order.seconds.min((session.expires_ms - now_ms).div_euclid(1000)).max(1),
    };
    let signer = Signer {
        access_key: &by.access_key,
        secret: by.secret.expose(),
        token,
        region,
        now_s: now_ms.div_euclid(1000),
    };
    let mut extra = Vec::new();
    if let Some(version) = &order.version_id {
        extra.push(("versionId", version.as_str()));
    }
    let name = order.key.rsplit('/').next().unwrap_or_default();
    let disposition = format!("attachment; filename*=UTF-8''{}", percent(name));
    if order.download {
        extra.push(("response-content-disposition", &disposition));
    }
    let path = format!("/{}/{}", order.bucket, order.key);
    let target = signer.presign(host, &path, &extra, seconds);
    Ok(Share {
        url: format!("{scheme}://{host}{target}"),
        expires_ms: now_ms + seconds * 1000,
        ends_with_session: token.is_some(),
    })
}

fn percent(name: &str) -> String {
    let mut out = Vec::new();
    ashlar_s3::target::canonical_encode(&mut out, name, false);
    String::from_utf8(out).unwrap_or_default()
}
