//! Dry runs: counts what lifecycle rules would do to a bucket, and changes nothing. The rules may be others than the
//! bucket's own.
//!
//! A forecast counts by the day on which something becomes due. It is about the versions as they are now: that a version
//! becomes an older one when it expires, and is due again as such, is not followed.
//!
//! Invariant: a call ends after [`TEST`]; the next one continues where it ended. Must not depend on: how a
//! caller asks and is answered.

use std::collections::BTreeMap;
use std::time::Duration;

use ashlar_environment::time::Instant;
use ashlar_format::VersionId;
use ashlar_lifecycle::{Action, Config, Due};
use ashlar_object::{Error, MAX_SCAN, OpenBucket};
use futures::StreamExt as _;
use futures::future::BoxFuture;

use super::record::Position;
use super::{CONCURRENCY, Lifecycle, key_summary, seen, upload_list};

/// Time limit of one call of a dry run.
const TEST: Duration = Duration::from_secs(20);

/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;

/// What a dry run is to find.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// What is due before counts for the day of this time, in milliseconds since 1970.
    pub from_ms: i64,
    /// Until when something has to become due.
    pub until_ms: i64,
    /// How many versions to name.
    pub examples: usize,
}

impl Lifecycle {
    /// Counts what rules would do to a bucket until a time; changes nothing. `after`: continues where an earlier call
    /// ended ([`Counted::after`]).
    ///
    /// # Errors
    /// `after` is not what an earlier call returned; or the bucket cannot be read.
    pub fn test<'a>(
        &'a self,
        bucket: &'a OpenBucket,
        config: &'a Config,
        span: Span,
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
                            return Ok(counted.in_order(span.examples));
                        }
                        let next = match uploads {
                            false => self.test_page(bucket, config, &position, span, &mut counted).await?,
                            true => self.test_uploads(bucket, config, &position, span, &mut counted).await?,
                        };
                        match next {
                            Some(after) => position.after = after,
                            None => break,
                        }
                    }
                }
            }
            Ok(counted.in_order(span.examples))
        })
    }

    async fn test_page(
        &self,
        bucket: &OpenBucket,
        config: &Config,
        position: &Position,
        span: Span,
        counted: &mut Counted,
    ) -> Result<Option<String>, Error> {
        let at = span.until_ms;
        let wanted = span.examples.saturating_sub(counted.examples.len());
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
                    for due in all.into_iter().filter(|d| d.at_ms <= at) {
                        let locked = !plan.contains(&due);
                        let size = seen[due.index].size;
                        if hits.examples.len() < wanted {
                            let version = found.versions[due.index].id;
                            hits.examples.push(Example { key: k.key.clone(), version, due, size, locked });
                        }
                        match locked {
                            true => hits.locked += 1,
                            false => hits.hit(&due, size, span),
                        }
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
        span: Span,
        counted: &mut Counted,
    ) -> Result<Option<String>, Error> {
        let (uploads, next) = upload_list(&self.store, bucket, position).await?;
        for upload in uploads {
            counted.keys += 1;
            let due = config.abort_at(&upload.key, upload.created_ms, self.calendar);
            if let Some((at, rule)) = due.filter(|(due, _)| *due <= span.until_ms) {
                counted.days.entry((rule, span.day(at))).or_default().uploads += 1;
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

/// A version that becomes due.
#[derive(Debug)]
pub struct Example {
    /// The key.
    pub key: String,
    /// The version.
    pub version: VersionId,
    /// What becomes of it, when, by which rule.
    pub due: Due,
    /// Bytes.
    pub size: u64,
    /// Whether it is locked now.
    pub locked: bool,
}

/// The counts of a dry run.
#[derive(Default)]
pub struct Counted {
    /// Keys and uploads examined.
    pub keys: u64,
    /// Versions that are due and locked.
    pub locked: u64,
    /// What each rule would do on each day, by the index of the rule and the day, in days since 1970.
    pub days: BTreeMap<(usize, i64), Hits>,
    /// Versions that become due, the earliest first, of those that were examined first.
    pub examples: Vec<Example>,
    /// Where the next call continues, if the time limit of this one has passed.
    pub after: Option<String>,
}

impl Span {
    /// The day on which something that is due at `at_ms` is done, in days since 1970.
    fn day(&self, at_ms: i64) -> i64 {
        at_ms.max(self.from_ms).div_euclid(DAY_MS)
    }
}

impl Counted {
    fn hit(&mut self, due: &Due, size: u64, span: Span) {
        let hits = self.days.entry((due.rule, span.day(due.at_ms))).or_default();
        match due.action {
            Action::Expire => hits.expire += 1,
            Action::Remove => hits.remove += 1,
            Action::RemoveMarker => hits.markers += 1,
        }
        hits.bytes += size;
    }

    fn add(&mut self, other: Counted) {
        self.locked += other.locked;
        self.examples.extend(other.examples);
        for (of, h) in other.days {
            self.days.entry(of).or_default().add(h);
        }
    }

    /// With the examples in order, and no more than were wanted: pages are read by several tasks at once.
    fn in_order(mut self, examples: usize) -> Counted {
        self.examples.sort_by(|a, b| (a.due.at_ms, &a.key).cmp(&(b.due.at_ms, &b.key)));
        self.examples.truncate(examples);
        self
    }

    /// What a rule would do on all days together.
    #[must_use]
    pub fn of_rule(&self, rule: usize) -> Hits {
        let mut sum = Hits::default();
        self.days.range((rule, i64::MIN)..=(rule, i64::MAX)).for_each(|(_, hits)| sum.add(*hits));
        sum
    }
}

impl Hits {
    fn add(&mut self, other: Hits) {
        self.expire += other.expire;
        self.remove += other.remove;
        self.markers += other.markers;
        self.uploads += other.uploads;
        self.bytes += other.bytes;
    }
}
