//! `PutObject` of an archive that is unpacked: each entry becomes an object ("snowball auto extract").
//!
//! As in MinIO: with `x-amz-meta-snowball-auto-extract: true` the body is an archive; the headers
//! `x-amz-meta-minio-snowball-*` set a prefix, and what happens to folders and to entries that cannot be
//! stored. An entry is stored like a PUT of its key: permissions, quota, encryption, locks and events apply.
//!
//! | step | where |
//! |---|---|
//! | body -> pieces with verified signature -> decompressed bytes -> entries | [`Source`] |
//! | entry -> key and headers | [`plan`] |
//! | key, headers, bytes -> version | [`Job`] |
//!
//! Invariants: a key is never stored with the permission for another one; if an entry is refused for its
//! name, its type or a missing permission, no later entry is stored, unless errors are to be ignored; nothing
//! is stored from a signed chunk before its signature is verified; the answer is a success only after the
//! whole body passed its checks; memory holds at most [`FLYING`] small entries, one piece and the state of
//! the decoder, the last within the store's budget.
//!
//! Must not depend on: the format of archives.

use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;

use ashlar_object::feed::Kind as Change;
use ashlar_object::{MAX_PUT, Put, PutSpec, Sums, VersionSpec};
use ashlar_policy::Action;
use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use http::header::{HeaderMap, HeaderName, HeaderValue};

use self::source::Source;
use super::new_object::{DEFAULT_CHECKSUM, DeclaredBody, spec_from};
use super::{Answer, CHECKSUM_TYPE, Call, Context, RequestOrigin, fault};
use crate::archive::{self, Entry, Item, Kind};
use crate::auth::Verified;
use crate::authz_decision::DecisionSlot;
use crate::buckets::Buckets;
use crate::document_cache::Origin;
use crate::fault::{Code, Fault, Outcome};
use crate::headers;
use crate::permit::{Asker, Need, carried};
use crate::sse::{self, Allowed};
use crate::target::Query;

mod source;

/// The header that makes a PUT an archive to be unpacked.
const EXTRACT: &str = "x-amz-meta-snowball-auto-extract";
/// What the other headers about it begin with.
const OPTION: &str = "x-amz-meta-minio-snowball-";
/// Most entries of one archive: a compressed one of nothing but empty files would keep a server busy for days.
const MAX_ENTRIES: u64 = 1_000_000;
/// Entries up to this size are held and stored beside each other.
const SMALL: u64 = 64 << 10;
/// How many of them at a time.
const FLYING: usize = 16;

/// Whether a request asks for this.
///
/// # Errors
/// `NotImplemented` for MinIO's header about zip files.
pub fn is_asked(request: &HeaderMap) -> Outcome<bool> {
    if is_on(request, "x-minio-extract") {
        return Err(Fault::not_implemented("Looking into zip files (header x-minio-extract)"));
    }
    Ok(is_on(request, EXTRACT))
}

/// Refuses to store an archive as it is, where a request that asks to unpack it cannot have it unpacked.
pub fn refuse(request: &HeaderMap, what: &str) -> Outcome<()> {
    match is_on(request, EXTRACT) {
        false => Ok(()),
        true => {
            Err(Fault::not_implemented(&format!("Unpacking an archive that comes {what} (header {EXTRACT})")))
        }
    }
}

fn is_on(request: &HeaderMap, name: &str) -> bool {
    headers::ascii(request, name).is_some_and(|v| v.eq_ignore_ascii_case("true"))
}

/// The options in the headers of the request, which apply to all entries.
struct Options {
    prefix: String,
    ignore_folders: bool,
    ignore_errors: bool,
    /// Headers that every entry has.
    headers: HeaderMap,
}

impl Options {
    fn read(request: &HeaderMap) -> Outcome<Options> {
        let mut options = Options {
            prefix: String::new(),
            ignore_folders: false,
            ignore_errors: false,
            headers: request.clone(),
        };
        for name in request.keys() {
            let Some(option) = name.as_str().strip_prefix(OPTION) else { continue };
            let on = is_on(request, name.as_str());
            match option {
                "prefix" => {
                    options.prefix =
                        archive::prefix(&headers::text(request, name.as_str()).unwrap_or_default())?;
                }
                "ignore-dirs" => options.ignore_folders = on,
                "ignore-errors" => options.ignore_errors = on,
                _ => return Err(Fault::not_implemented(&format!("The option {name} of archives"))),
            }
            options.headers.remove(name);
        }
        // These are about the archive.
        for name in [EXTRACT, "content-type", "content-encoding"] {
            options.headers.remove(name);
        }
        Ok(options)
    }
}

/// `PutObject` of an archive.
pub async fn put_archive(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    sse::refuse(&call.headers, &cx.owner_id, Allowed::All)?;
    let promise = DeclaredBody::read(call)?;
    let options = Options::read(&call.headers)?;
    if !headers::write_conditions(&call.headers)?.is_empty() {
        return Err(Fault::not_implemented("A condition on an archive that is unpacked"));
    }
    // Errors that every entry would have are answered before the body is read.
    spec_from(cx, call.named(), call.verified.identity(), &options.headers)?;
    sse::asked(&options.headers, call.tls)?;
    let Call {
        request_body, verified, query, tls, origin, authz_decision, host, id, bucket, buckets, ..
    } = &mut *call;
    let job = Job { cx, bucket, buckets, verified, query, tls: *tls, origin, authz_decision, host, id };
    let mut source = Source::new(cx, request_body, &promise);
    let mut tally = Tally { ignore: options.ignore_errors, ..Tally::default() };
    let unpacked = unpack(&job, &options, &mut source, &mut tally).await;
    let (md5, checksum) = source.sums();
    let sums = Sums { size: promise.size, md5: Some(md5), checksum };
    let outcome = match unpacked {
        Ok(()) => promise.check(call, &sums),
        Err(fault) => Err(fault),
    };
    if tally.left_out > 0 {
        tracing::info!(target: "ashlar::request", request_id = call.id, entries = tally.left_out, "entries of an archive could not be stored and were left out, as asked");
    }
    if let Err(fault) = outcome {
        if let Some(key) = tally.denied {
            // It is what the refusal is about.
            call.key = key;
        }
        return Err(fault.element("StoredEntries", tally.stored.to_string()));
    }
    let mut answer = Answer::ok();
    answer.etag(hex::encode(md5));
    if let Some(digest) = checksum {
        answer.set(headers::checksum_header(digest.algorithm()), digest.base64());
        answer.set(CHECKSUM_TYPE, headers::checksum_type(false));
    }
    Ok(answer)
}

/// What became of the entries so far.
#[derive(Default)]
struct Tally {
    /// Entries that cannot be stored are left out.
    ignore: bool,
    stored: u64,
    left_out: u64,
    /// Keys that are being stored.
    busy: HashSet<String>,
    /// The first fault that ends the request.
    fault: Option<Fault>,
    /// The key that was refused.
    denied: Option<String>,
}

impl Tally {
    fn note(&mut self, (key, outcome): (String, Outcome<()>)) {
        self.busy.remove(&key);
        match outcome {
            Ok(()) => self.stored += 1,
            Err(fault) => self.failed(&key, fault),
        }
    }

    /// An entry that no server would store like this.
    fn refused(&mut self, fault: Fault) {
        if self.ignore {
            self.left_out += 1;
        } else if self.fault.is_none() {
            self.fault = Some(fault);
        }
    }

    /// An entry that could not be stored. Of what the server could not do, the client hears in any case.
    fn failed(&mut self, key: &str, fault: Fault) {
        if self.ignore && fault.status().is_client_error() {
            self.left_out += 1;
        } else if self.fault.is_none() {
            if fault.code() == Code::ACCESS_DENIED {
                self.denied = Some(key.to_owned());
            }
            self.fault = Some(fault);
        }
    }

    fn check(&mut self) -> Outcome<()> {
        self.fault.take().map_or(Ok(()), Err)
    }
}

type Flying<'a> = FuturesUnordered<Pin<Box<dyn Future<Output = (String, Outcome<()>)> + Send + 'a>>>;

/// Does `work` while small entries are stored.
async fn beside<T>(flying: &mut Flying<'_>, tally: &mut Tally, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            Some(stored) = flying.next(), if !flying.is_empty() => tally.note(stored),
        }
    }
}

async fn unpack(job: &Job<'_>, options: &Options, source: &mut Source<'_>, tally: &mut Tally) -> Outcome<()> {
    let mut flying = Flying::new();
    let outcome = entries(job, options, source, tally, &mut flying).await;
    // Entries that were begun are finished, also after an error.
    while let Some(stored) = flying.next().await {
        tally.note(stored);
    }
    outcome?;
    tally.check()
}

/// What happens to the bytes of an entry.
enum Destination {
    Nothing,
    Held(Permitted, Vec<u8>),
    Stream(String, Box<Open>),
}

async fn entries<'a>(
    job: &'a Job<'a>,
    options: &Options,
    source: &mut Source<'_>,
    tally: &mut Tally,
    flying: &mut Flying<'a>,
) -> Outcome<()> {
    let mut to = Destination::Nothing;
    let mut count = 0;
    loop {
        // Pieces may be there for a long while.
        tokio::task::consume_budget().await;
        let item = beside(flying, tally, source.next()).await?;
        tally.check()?;
        match (item, &mut to) {
            (None, _) => return Ok(()),
            (Some(Item::Entry(entry)), _) => {
                count += 1;
                if count > MAX_ENTRIES {
                    let why = format!("An archive that is unpacked has at most {MAX_ENTRIES} entries.");
                    return Err(Fault::with(Code::BAD_ARCHIVE, why));
                }
                source.check_size(entry.size)?;
                to = match plan(entry, options) {
                    Ok(None) => Destination::Nothing,
                    Ok(Some(file)) => match beside(flying, tally, job.permit(&file)).await {
                        Ok(()) => begin(job, Permitted(file), tally, flying).await?,
                        Err(fault) => {
                            tally.failed(&file.key, fault);
                            Destination::Nothing
                        }
                    },
                    Err(fault) => {
                        tally.refused(fault);
                        Destination::Nothing
                    }
                };
            }
            (Some(Item::Data(_)), Destination::Nothing) => {}
            (Some(Item::Data(data)), Destination::Held(_, held)) => held.extend_from_slice(&data),
            (Some(Item::Data(data)), Destination::Stream(key, open)) => {
                if let Err(error) = open.put.write(data).await {
                    let failed = job.fault(error, key);
                    tally.failed(key, failed);
                    to = Destination::Nothing;
                }
            }
            (Some(Item::Finished), _) => match std::mem::replace(&mut to, Destination::Nothing) {
                Destination::Nothing => {}
                Destination::Held(file, held) => {
                    while flying.len() >= FLYING || tally.busy.contains(&file.0.key) {
                        let Some(stored) = flying.next().await else { break };
                        tally.note(stored);
                    }
                    tally.busy.insert(file.0.key.clone());
                    flying.push(Box::pin(job.store(file, held.into())));
                }
                Destination::Stream(key, open) => {
                    let outcome = job.close(&key, *open).await;
                    tally.note((key, outcome));
                }
            },
        }
        tally.check()?;
    }
}

/// Where the bytes of a file go: held, or to the drives while they come.
async fn begin<'a>(
    job: &'a Job<'a>,
    file: Permitted,
    tally: &mut Tally,
    flying: &mut Flying<'a>,
) -> Outcome<Destination> {
    if file.0.size <= SMALL {
        let held = Vec::with_capacity(file.0.size as usize);
        return Ok(Destination::Held(file, held));
    }
    // One large entry at a time, behind what may be the same key.
    while let Some(stored) = flying.next().await {
        tally.note(stored);
    }
    tally.check()?;
    match job.open(&file).await {
        Ok(open) => Ok(Destination::Stream(file.0.key, Box::new(open))),
        Err(fault) => {
            tally.failed(&file.0.key, fault);
            Ok(Destination::Nothing)
        }
    }
}

/// An entry that the caller has permission to store; only [`entries`] makes one.
struct Permitted(File);

/// An entry that becomes an object.
struct File {
    key: String,
    size: u64,
    headers: HeaderMap,
}

/// What becomes of an entry; `None`: nothing.
fn plan(entry: Entry, options: &Options) -> Outcome<Option<File>> {
    if let Some(fault) = entry.refused {
        return Err(fault);
    }
    let folder = entry.kind == Kind::Folder;
    // MinIO leaves links out too; nothing of their content is in the archive.
    if entry.kind == Kind::Special || (folder && options.ignore_folders) {
        return Ok(None);
    }
    let Some(key) = archive::key(&options.prefix, &entry.name, folder)? else { return Ok(None) };
    if entry.size > MAX_PUT {
        return Err(Fault::new(Code::ENTITY_TOO_LARGE)
            .element("ProposedSize", entry.size.to_string())
            .element("MaxSizeAllowed", MAX_PUT.to_string())
            .element("Key", key));
    }
    let mut all = options.headers.clone();
    for (name, value) in entry.headers {
        let known = headers::KEPT.contains(&name.as_str())
            || name.starts_with("x-amz-meta-")
            || name.starts_with("x-amz-object-lock-")
            || matches!(name.as_str(), "x-amz-tagging" | "x-amz-storage-class");
        if !known {
            let name: String = name.chars().take(64).collect();
            return Err(Fault::not_implemented(&format!("The header {name} of an entry of an archive"))
                .element("Key", key));
        }
        let pair =
            HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_bytes(value.as_bytes()).ok());
        let Some((name, value)) = pair else {
            return Err(Fault::with(
                Code::INVALID_ARGUMENT,
                "A header of an entry of the archive is not legal.",
            )
            .element("Key", key));
        };
        all.insert(name, value);
    }
    Ok(Some(File { key, size: entry.size, headers: all }))
}

/// What storing an entry needs of the request.
struct Job<'a> {
    cx: &'a Context,
    bucket: &'a str,
    buckets: &'a Buckets,
    verified: &'a Verified,
    query: &'a Query,
    tls: bool,
    origin: &'a Origin,
    authz_decision: &'a DecisionSlot,
    host: &'a str,
    id: &'a str,
}

/// An object that is being put.
struct Open {
    put: Put,
    spec: VersionSpec,
}

impl Job<'_> {
    fn fault(&self, error: ashlar_object::Error, key: &str) -> Fault {
        let fault = fault(error, self.bucket, key);
        if fault.elements().any(|(name, _)| name == "Key") { fault } else { fault.element("Key", key) }
    }

    /// Refuses unless the caller has permission to put this key with these headers.
    async fn permit(&self, file: &File) -> Outcome<()> {
        let asker = Asker {
            verified: self.verified,
            headers: &file.headers,
            buckets: self.buckets,
            query: self.query,
            tls: self.tls,
            origin: self.origin,
            authz_decision: self.authz_decision,
            tags: None,
        };
        for action in std::iter::once(Action::PutObject).chain(carried(&file.headers)) {
            let need = Need { action, bucket: self.bucket, key: &file.key, version: None };
            if !asker.may(self.cx, &need).await {
                return Err(Fault::new(Code::ACCESS_DENIED).element("Key", file.key.as_str()));
            }
        }
        Ok(())
    }

    async fn open(&self, Permitted(file): &Permitted) -> Outcome<Open> {
        let (cx, bucket, key) = (self.cx, self.buckets.named(self.bucket), file.key.as_str());
        let (spec, class) = spec_from(cx, bucket, self.verified.identity(), &file.headers)
            .map_err(|fault| fault.element("Key", key))?;
        let made = sse::for_new(cx, bucket, key, &file.headers, self.tls).await?;
        let put = PutSpec {
            size: file.size,
            checksum: Some(DEFAULT_CHECKSUM),
            want_md5: made.as_ref().is_none_or(|m| m.seal.md5),
            class,
        };
        let (verified, origin, host, id) = (self.verified, self.origin, self.host, self.id);
        let request_origin =
            RequestOrigin { verified, headers: &file.headers, origin, tls: self.tls, host, id };
        let bucket = bucket.open()?;
        let store = request_origin.store(cx, &bucket, Change::Put);
        let put = store.put_sealed(&bucket, key, put, made.map(|m| m.seal)).await;
        Ok(Open { put: put.map_err(|e| self.fault(e, key))?, spec })
    }

    async fn close(&self, key: &str, open: Open) -> Outcome<()> {
        let committed = open.put.commit(open.spec, &ashlar_object::Conditions::NONE).await;
        committed.map(|_| ()).map_err(|e| self.fault(e, key))
    }

    /// Stores an entry that was held; returns its key with the outcome.
    async fn store(&self, file: Permitted, body: Bytes) -> (String, Outcome<()>) {
        let stored = async {
            let mut open = self.open(&file).await?;
            open.put.write(body).await.map_err(|e| self.fault(e, &file.0.key))?;
            self.close(&file.0.key, open).await
        };
        let outcome = stored.await;
        (file.0.key, outcome)
    }
}
