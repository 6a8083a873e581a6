//! The usage of buckets: `GET usage` and `GET usage/BUCKET`.
//!
//! | Parameter | Effect |
//! |---|---|
//! | `contains=TEXT` | only buckets whose name contains it |
//! | `sort=name\|objects\|bytes\|created`, `descending` | the order; by name if left out; equal ones by name |
//! | `limit=N`, `offset=N` | a page: at most so many, without the first ones of the order; all if left out |
//! | `brief` | without histograms |
//!
//! Invariants: the totals are those of all buckets, whatever the page shows. Everything is in memory: the cost of a page grows
//! with the number of buckets, not of objects.
//!
//! Must not depend on: MinIO's formats, who may ask.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use ashlar_object::{Counted, OpenBucket, Store};
use ashlar_s3::target::Query;
use http::StatusCode;

use super::admin_request::{AdminRequest, AdminResult, Refusal, bad_request};
use super::api::{self, state as shape};
use super::monitor::{bucket_usage, usage_total};
use super::table::Route;

/// Most buckets of a page.
pub(crate) const MOST: usize = 1000;

/// By what a list is sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sort {
    #[default]
    Name,
    Objects,
    Bytes,
    Created,
}

/// Which buckets a list has.
#[derive(Debug, Default, PartialEq, Eq)]
struct Page {
    contains: String,
    sort: Sort,
    descending: bool,
    offset: usize,
    limit: Option<usize>,
    brief: bool,
}

impl Page {
    fn parse(query: &Query) -> Result<Page, Refusal> {
        let sort = match query.filled("sort") {
            None | Some("name") => Sort::Name,
            Some("objects") => Sort::Objects,
            Some("bytes") => Sort::Bytes,
            Some("created") => Sort::Created,
            Some(other) => {
                let known = "name, objects, bytes or created";
                return Err(bad_request(format!("sort is {other:?}, and must be {known}")));
            }
        };
        let limit = number(query, "limit", 0..=MOST)?;
        Ok(Page {
            contains: query.get("contains").unwrap_or_default().to_owned(),
            sort,
            descending: flag(query, "descending")?,
            offset: number(query, "offset", 0..=usize::MAX)?.unwrap_or_default(),
            limit,
            brief: flag(query, "brief")?,
        })
    }

    fn order(&self, (a, x): &(OpenBucket, Counted), (b, y): &(OpenBucket, Counted)) -> Ordering {
        let order = match self.sort {
            Sort::Name => a.name.cmp(&b.name),
            Sort::Objects => x.usage.objects.cmp(&y.usage.objects),
            Sort::Bytes => x.usage.bytes.cmp(&y.usage.bytes),
            Sort::Created => a.created_ms.cmp(&b.created_ms),
        };
        let order = if self.descending { order.reverse() } else { order };
        order.then_with(|| a.name.cmp(&b.name))
    }
}

/// A parameter that is there or not, or says which.
fn flag(query: &Query, name: &str) -> Result<bool, Refusal> {
    match query.get(name) {
        None | Some("false") => Ok(false),
        Some("" | "true") => Ok(true),
        Some(other) => Err(bad_request(format!("{name} is {other:?}, and must be true or false"))),
    }
}

fn number(query: &Query, name: &str, of: std::ops::RangeInclusive<usize>) -> Result<Option<usize>, Refusal> {
    let Some(text) = query.filled(name) else { return Ok(None) };
    match text.parse() {
        Ok(n) if of.contains(&n) => Ok(Some(n)),
        _ => {
            let (least, most) = (of.start(), of.end());
            Err(bad_request(format!("{name} is {text:?}, and must be an integer from {least} to {most}")))
        }
    }
}

/// Answers a request about the usage of buckets. The caller has checked the permission.
///
/// # Errors
/// A parameter that is not understood; a bucket that does not exist.
pub(crate) fn answer(store: &Store, req: &AdminRequest) -> AdminResult {
    if req.route == Route::UsageGet {
        let bucket = store.bucket(&req.name).map_err(|e| ashlar_s3::ops::fault(e, &req.name, ""))?;
        return Ok((StatusCode::OK, api::value(bucket_usage(&bucket, &store.usage(&bucket)))));
    }
    Ok((StatusCode::OK, api::value(list(store, &Page::parse(&req.query)?))))
}

fn list(store: &Store, page: &Page) -> shape::UsageList {
    let all = store.buckets();
    let existing = all.len() as u64;
    let wanted = all.into_iter().filter(|bucket| bucket.name.contains(&page.contains));
    let mut rows: Vec<(OpenBucket, Counted)> = wanted
        .map(|bucket| {
            let counted = store.usage(&bucket);
            (bucket, counted)
        })
        .collect();
    rows.sort_by(|a, b| page.order(a, b));
    let matching = rows.len() as u64;
    let shown = rows.iter().skip(page.offset).take(page.limit.unwrap_or(usize::MAX));
    let one = |(bucket, counted): &(OpenBucket, Counted)| {
        let whole = bucket_usage(bucket, counted);
        match page.brief {
            true => shape::BucketUsage { sizes: BTreeMap::new(), version_counts: BTreeMap::new(), ..whole },
            false => whole,
        }
    };
    shape::UsageList { total: usage_total(store), existing, matching, buckets: shown.map(one).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Page, Refusal> {
        Page::parse(&Query::parse(text).unwrap())
    }

    #[test]
    fn parameters_of_a_page() {
        assert_eq!(parse("").ok(), Some(Page::default()));
        let page = parse("contains=log&sort=bytes&descending&limit=6&offset=12&brief=true").ok();
        let want = Page {
            contains: "log".into(),
            sort: Sort::Bytes,
            descending: true,
            offset: 12,
            limit: Some(6),
            brief: true,
        };
        assert_eq!(page, Some(want));
        assert_eq!(parse("sort=name&descending=false&limit=0").ok().and_then(|p| p.limit), Some(0));
        for bad in ["sort=size", "limit=1001", "limit=-1", "offset=x", "descending=2", "brief=no"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
