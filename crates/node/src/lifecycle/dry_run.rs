//! Dry runs: counts what the lifecycle rules of a bucket would do, and changes nothing.
//!
//! Invariant: a call ends after [`TEST`]; the next one continues where it ended. Must not depend on: how a
//! caller asks and is answered.

use std::collections::BTreeMap;
use std::time::Duration;

use ashlar_environment::time::Instant;
use ashlar_lifecycle::{Action, Config};
use ashlar_object::{Error, MAX_SCAN, OpenBucket};
use futures::StreamExt as _;
use futures::future::BoxFuture;

use super::record::Position;
use super::{CONCURRENCY, Lifecycle, key_summary, seen, upload_list};

/// Time limit of one call of a dry run.
const TEST: Duration = Duration::from_secs(20);

impl Lifecycle {
    /// Counts what the rules of a bucket would do at the time `at_ms`; changes nothing. `after`: continues
    /// where an earlier call ended ([`Counted::after`]).
    ///
    /// # Errors
    /// `after` is not what an earlier call returned; or the bucket cannot be read.
    pub fn test<'a>(
        &'a self,
        bucket: &'a OpenBucket,
        config: &'a Config,
        at_ms: i64,
        after: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Counted, Error>> {
        Box::pin(async move {
            let mut position: Position = match after {
                None => Position::default(),
                Some(text) => serde_json::from_str(text)
                    .map_err(|_| Error::InvalidArgument("`after` is as it was answered"))?,
            };
            let mut counted = Counted::default();
            let began = Instant::now();
            for uploads in [false, true] {
                for prefix in config.prefixes(uploads) {
                    let before = (position.uploads, position.prefix.as_str()) > (uploads, prefix);
                    if before {
                        continue;
                    }
                    if (position.uploads, position.prefix.as_str()) != (uploads, prefix) {
                        position = Position { uploads, prefix: prefix.to_owned(), after: String::new() };
                    }
                    loop {
                        if began.elapsed() >= TEST {
                            counted.after = serde_json::to_string(&position).ok();
                            return Ok(counted);
                        }
                        let next = match uploads {
                            false => self.test_page(bucket, config, &position, at_ms, &mut counted).await?,
                            true => self.test_uploads(bucket, config, &position, at_ms, &mut counted).await?,
                        };
                        match next {
                            Some(after) => position.after = after,
                            None => break,
                        }
                    }
                }
            }
            Ok(counted)
        })
    }

    async fn test_page(
        &self,
        bucket: &OpenBucket,
        config: &Config,
        position: &Position,
        at: i64,
        counted: &mut Counted,
    ) -> Result<Option<String>, Error> {
        let (keys, next) = self.store.scan_index(bucket, &position.prefix, &position.after, MAX_SCAN).await?;
        counted.keys += keys.len() as u64;
        let calendar = self.calendar;
        let due = keys.into_iter().filter(|k| config.may_be_due(&k.key, &key_summary(k), at, calendar));
        let work = due.map(|k| async move {
            self.store
                .inspect(bucket, &k.key, |found| {
                    let (seen, mut hits) = (seen(found), Counted::default());
                    let all = config.dues(&k.key, &seen, calendar);
                    let plan = config.plan(&k.key, &seen, found.keeps_data, at, calendar);
                    hits.locked = (all.iter().filter(|d| d.at_ms <= at).count() - plan.len()) as u64;
                    for due in plan {
                        hits.hit(due.rule, due.action, seen[due.index].size);
                    }
                    hits
                })
                .await
        });
        let mut work = futures::stream::iter(work).buffer_unordered(CONCURRENCY);
        while let Some(hits) = work.next().await {
            counted.add(hits?);
        }
        Ok(next)
    }

    async fn test_uploads(
        &self,
        bucket: &OpenBucket,
        config: &Config,
        position: &Position,
        at: i64,
        counted: &mut Counted,
    ) -> Result<Option<String>, Error> {
        let (uploads, next) = upload_list(&self.store, bucket, position).await?;
        for upload in uploads {
            counted.keys += 1;
            let due = config.abort_at(&upload.key, upload.created_ms, self.calendar);
            if let Some((_, rule)) = due.filter(|(due, _)| *due <= at) {
                counted.rules.entry(rule).or_default().uploads += 1;
            }
        }
        Ok(next)
    }
}

/// What one rule would do.
#[derive(Default, Clone, Copy)]
pub struct Hits {
    /// Current versions that it would expire.
    pub expire: u64,
    /// Versions that it would remove.
    pub remove: u64,
    /// Delete markers that it would remove.
    pub markers: u64,
    /// Uploads that it would abort.
    pub uploads: u64,
    /// Size in bytes of the versions.
    pub bytes: u64,
}

/// The counts of a dry run.
#[derive(Default)]
pub struct Counted {
    /// Keys and uploads examined.
    pub keys: u64,
    /// Versions that are due and locked.
    pub locked: u64,
    /// What each rule would do, by the index of the rule.
    pub rules: BTreeMap<usize, Hits>,
    /// Where the next call continues, if the time limit of this one has passed.
    pub after: Option<String>,
}

impl Counted {
    fn hit(&mut self, rule: usize, action: Action, size: u64) {
        let hits = self.rules.entry(rule).or_default();
        match action {
            Action::Expire => hits.expire += 1,
            Action::Remove => hits.remove += 1,
            Action::RemoveMarker => hits.markers += 1,
        }
        hits.bytes += size;
    }

    fn add(&mut self, other: Counted) {
        self.locked += other.locked;
        for (rule, h) in other.rules {
            let hits = self.rules.entry(rule).or_default();
            hits.expire += h.expire;
            hits.remove += h.remove;
            hits.markers += h.markers;
            hits.bytes += h.bytes;
        }
    }
}
