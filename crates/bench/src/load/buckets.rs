//! Buckets before and after a run, with the `client` crate.
//!
//! Invariants: an existing bucket is used as it is; only buckets that this run made are removed, and only
//! when they are empty; only keys, versions and uploads under the run's own prefix are removed.

use ashlar_client::{
    Addressing, Client, Config, Credentials, Identifier, ListOptions, ListVersionsOptions, Versioning,
};
use futures::{StreamExt, TryStreamExt, pin_mut};
use tokio::runtime::Runtime;

use super::{Console, Job, Mode};
use crate::{Error, Result, wire::encode_into};

/// The buckets of a run.
pub struct Buckets {
    runtime: Runtime,
    client: Client,
    names: Vec<String>,
    versioned: bool,
    made: Vec<String>,
}

/// Requests at once while cleaning up.
const CONCURRENCY: usize = 8;

impl Buckets {
    /// For a job; connects to nothing.
    pub fn new(job: &Job) -> Result<Buckets> {
        let target = &job.target;
        let credentials = target.keys.as_ref().map(|k| Credentials {
            access_key: k.access.clone(),
            secret_key: k.secret.clone(),
            session_token: k.token.clone(),
        });
        let endpoint = target.endpoints.first().ok_or_else(|| Error::usage("no endpoint is given"))?;
        let endpoint = crate::wire::Host::parse(endpoint)?.url();
        let mut config = Config::new(endpoint, credentials);
        if let Some(keys) = &target.keys {
            config.region.clone_from(&keys.region);
        }
        config.addressing = if target.virtual_host { Addressing::VirtualHost } else { Addressing::Path };
        config.tls.insecure = target.insecure;
        config.tls.authorities.extend(target.authority.iter().map(|pem| pem.as_bytes().to_vec()));
        let client = Client::new(config).map_err(|e| Error::usage(e.to_string()))?;
        let names = (0..job.buckets).map(|i| job.bucket_name(i)).collect();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Error::io("cannot start"))?;
        Ok(Buckets { runtime, client, names, versioned: job.mode == Mode::Versioned, made: Vec::new() })
    }

    /// Makes the buckets that are missing.
    ///
    /// # Errors
    /// [`Error::Setup`] if the server refuses, or if an existing bucket would have to be changed.
    pub fn ensure(&mut self) -> Result<()> {
        let runtime = &self.runtime;
        for name in self.names.clone() {
            let failed = |e: ashlar_client::Error| Error::setup(format!("bucket `{name}`: {e}"));
            if !runtime.block_on(self.client.bucket_exists(&name)).map_err(failed)? {
                match runtime.block_on(self.client.create_bucket(&name, false)) {
                    Ok(()) => self.made.push(name.clone()),
                    // Another agent of the same run was faster.
                    Err(e) if e.code() == Some("BucketAlreadyOwnedByYou") => {}
                    Err(e) => return Err(failed(e)),
                }
            }
            if !self.versioned {
                continue;
            }
            let state = runtime.block_on(self.client.versioning(&name)).map_err(failed)?;
            if state == Versioning::Enabled {
                continue;
            }
            if !self.made.contains(&name) {
                return Err(Error::setup(format!(
                    "bucket `{name}` has no versioning, and this run does not change buckets that it did not create: name another bucket, or enable versioning"
                )));
            }
            runtime.block_on(self.client.set_versioning(&name, Versioning::Enabled)).map_err(failed)?;
        }
        Ok(())
    }

    /// Keys that exist under the prefix: bucket and encoded path, at most `objects` of them.
    pub fn existing(&self, job: &Job) -> Result<Vec<(u32, Box<str>)>> {
        let mut found = Vec::new();
        for (i, name) in self.names.iter().enumerate() {
            let options = ListOptions { prefix: job.prefix.clone(), ..ListOptions::default() };
            let pages = self.client.pages(name, options);
            self.runtime
                .block_on(async {
                    pin_mut!(pages);
                    while let Some(page) = pages.try_next().await? {
                        for entry in page.entries {
                            if found.len() as u64 == job.objects {
                                return Ok(());
                            }
                            let mut path = String::from("/");
                            encode_into(&mut path, &entry.key, true);
                            found.push((i as u32, path.into_boxed_str()));
                        }
                    }
                    Ok(())
                })
                .map_err(|e: ashlar_client::Error| Error::setup(format!("listing `{name}`: {e}")))?;
        }
        Ok(found)
    }

    /// Removes everything under the run's prefix, then the buckets this run made.
    pub fn clean(&mut self, job: &Job, console: &mut dyn Console) -> Result<()> {
        if !job.existing && !job.keep {
            console.begin("Cleaning up", 0);
            let mut removed = 0;
            for name in &self.names {
                removed = self.empty(job, name, removed, console)?;
            }
            console.end();
        }
        if job.keep {
            return Ok(());
        }
        for name in std::mem::take(&mut self.made) {
            match self.runtime.block_on(self.client.delete_bucket(&name)) {
                Ok(()) => {}
                Err(e) if e.code() == Some("BucketNotEmpty") => {
                    console.note(&format!(
                        "bucket `{name}` was made by this run but holds other data: it stays"
                    ));
                }
                Err(e) if e.is_not_found() => {}
                Err(e) => return Err(Error::setup(format!("removing bucket `{name}`: {e}"))),
            }
        }
        Ok(())
    }

    fn empty(&self, job: &Job, bucket: &str, before: u64, console: &mut dyn Console) -> Result<u64> {
        let prefix = job.run_prefix();
        assert!(prefix.contains(&job.run) && !job.run.is_empty(), "only this run's own data is removed");
        let client = &self.client;
        let failed = |e: ashlar_client::Error| Error::setup(format!("removing data of `{bucket}`: {e}"));
        let mut removed = before;
        self.runtime.block_on(async {
            // Each round removes a page; a server that still lists aborted uploads ends the loop.
            for _ in 0..1000 {
                let uploads = client.list_uploads(bucket, &prefix, None, None).await.map_err(failed)?;
                if uploads.uploads.is_empty() {
                    break;
                }
                for upload in uploads.uploads {
                    client.abort_multipart(bucket, &upload.key, &upload.upload_id).await.map_err(failed)?;
                }
            }
            let remove = |keys: Vec<Identifier>| async move {
                let n = keys.len() as u64;
                let outcome = client.delete_objects(bucket, &keys).await?;
                Ok::<_, ashlar_client::Error>((n, outcome.errors.into_iter().next()))
            };
            let mut check = |(n, error): (u64, Option<ashlar_client::DeleteError>)| {
                removed += n;
                console.progress(removed);
                match error {
                    Some(e) => Err(Error::setup(format!("removing `{}`: {}", e.object.key, e.code))),
                    None => Ok(()),
                }
            };
            if self.versioned {
                let options =
                    ListVersionsOptions { prefix: prefix.clone(), ..ListVersionsOptions::default() };
                let pages = client.version_pages(bucket, options).map_ok(|page| {
                    let of = |e: ashlar_client::Entry| Identifier { key: e.key, version_id: e.version_id };
                    page.entries.into_iter().map(of).collect::<Vec<_>>()
                });
                let work = pages.try_filter(|keys| std::future::ready(!keys.is_empty()));
                let mut done = work.map_ok(remove).try_buffer_unordered(CONCURRENCY).boxed();
                while let Some(outcome) = done.try_next().await.map_err(failed)? {
                    check(outcome)?;
                }
            } else {
                let options = ListOptions { prefix: prefix.clone(), ..ListOptions::default() };
                let pages = client.pages(bucket, options).map_ok(|page| {
                    let of = |e: ashlar_client::Entry| Identifier { key: e.key, version_id: None };
                    page.entries.into_iter().map(of).collect::<Vec<_>>()
                });
                let work = pages.try_filter(|keys| std::future::ready(!keys.is_empty()));
                let mut done = work.map_ok(remove).try_buffer_unordered(CONCURRENCY).boxed();
                while let Some(outcome) = done.try_next().await.map_err(failed)? {
                    check(outcome)?;
                }
            }
            Ok(())
        })?;
        Ok(removed)
    }
}
