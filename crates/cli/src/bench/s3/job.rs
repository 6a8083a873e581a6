//! Builds a load from options: values, endpoint, credentials, mix of operations.

use std::{fs, time::Duration};

use ashlar_bench::{
    Error,
    agent::random_text,
    load::{Job, Mode, Offer, Op, Order, Select, Stop, Sweep, Target, Warmup},
    wire::{Keys, Payload, expand},
};

use super::{Args, Arrivals, Operation_, OrderArg, PayloadArg, SelectArg};
use crate::{Globals, aliases::Aliases};

pub(in crate::bench) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let value: f64 = digits.parse().map_err(|_| format!("`{text}` is not a time; write 30s, 5m or 500ms"))?;
    let scale = match &text[digits.len()..] {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        unit => return Err(format!("`{unit}` is not a unit of time; write 500ms, 30s, 5m or 1h")),
    };
    Duration::try_from_secs_f64(value * scale).map_err(|_| format!("`{text}` is not a time"))
}

pub(super) fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.trim_end_matches("/s").parse().map_err(|_| format!("`{text}` is not a rate"))?;
    if rate > 0.0 && rate.is_finite() { Ok(rate) } else { Err("the rate must be above 0".into()) }
}

pub(in crate::bench) fn share(text: &str) -> Result<f64, String> {
    let bad = || format!("`{text}` is not a share; write 5% or 0.05");
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().map_err(|_| bad())? / 100.0,
        None => text.parse().map_err(|_| bad())?,
    };
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err(bad()) }
}

pub(super) fn warmup(text: &str) -> Result<Warmup, String> {
    if text == "auto" { Ok(Warmup::Auto) } else { duration(text).map(|d| Warmup::Seconds(d.as_secs_f64())) }
}

/// Endpoints, credentials, bucket and prefix.
struct BucketTarget {
    endpoints: Vec<String>,
    keys: Option<Keys>,
    /// The setting of the alias, if it has one.
    virtual_host: Option<bool>,
    bucket: String,
    prefix: String,
}

fn bucket_target(args: &Args, globals: &Globals) -> Result<BucketTarget, Error> {
    let variable = |names: &[&str]| {
        names.iter().find_map(|n| ashlar_environment::process::variable(n).filter(|v| !v.is_empty()))
    };
    let mut access = args.access_key.clone();
    let mut secret = args.secret_key.clone();
    let mut token = None;
    let mut region = args.region.clone();
    let mut virtual_host = None;
    let target = args.target.clone().unwrap_or_default();
    let (endpoints, rest) = match &args.endpoint {
        Some(list) => (expand(list)?, target),
        None => {
            let (name, rest) = target.split_once('/').unwrap_or((&target, ""));
            if name.is_empty() {
                return Err(Error::usage("name a server: ALIAS/BUCKET, or --endpoint"));
            }
            let aliases = Aliases::load(globals).map_err(|e| Error::usage(e.to_string()))?;
            let alias = aliases.get(name).ok_or_else(|| {
                Error::usage(format!(
                    "no alias is called `{name}`; add it with `ashlar alias set` or give --endpoint"
                ))
            })?;
            if access.is_none() && !alias.access_key.is_empty() {
                access = Some(alias.access_key.clone());
                secret = Some(alias.secret_key.clone());
                token.clone_from(&alias.session_token);
            }
            region = region.or_else(|| alias.region.clone());
            virtual_host = alias.path.as_deref().map(|p| matches!(p, "off" | "dns"));
            (vec![alias.url.clone()], rest.to_owned())
        }
    };
    if args.endpoint.is_some() && access.is_none() && !args.anonymous {
        access = variable(&["ASHLAR_ACCESS_KEY", "AWS_ACCESS_KEY_ID"]);
        token = variable(&["ASHLAR_SESSION_TOKEN", "AWS_SESSION_TOKEN"]);
    }
    if access.is_some() && secret.is_none() {
        secret = variable(&["ASHLAR_SECRET_KEY", "AWS_SECRET_ACCESS_KEY"]);
    }
    let region = region.or_else(|| variable(&["AWS_REGION"])).unwrap_or_else(|| "us-east-1".into());
    let keys = match (args.anonymous, access, secret) {
        (true, ..) => None,
        (false, Some(access), Some(secret)) => Some(Keys { access, secret, token, region }),
        _ => {
            return Err(Error::usage(
                "credentials are missing: set ASHLAR_ACCESS_KEY and ASHLAR_SECRET_KEY, or --anonymous",
            ));
        }
    };
    let (bucket, prefix) = rest.split_once('/').unwrap_or((&rest, ""));
    let bucket = if bucket.is_empty() { "benchmark" } else { bucket };
    Ok(BucketTarget { endpoints, keys, virtual_host, bucket: bucket.into(), prefix: prefix.into() })
}

fn target(args: &Args, globals: &Globals) -> Result<(Target, String, String), Error> {
    let BucketTarget { endpoints, keys, virtual_host, bucket, prefix } = bucket_target(args, globals)?;
    let authority = match &globals.ca {
        Some(file) => {
            Some(fs::read_to_string(file).map_err(Error::io(format!("cannot read {}", file.display())))?)
        }
        None => None,
    };
    let payload = match args.payload {
        PayloadArg::Signed => Payload::Signed,
        PayloadArg::Unsigned => Payload::Unsigned,
        PayloadArg::Streaming => Payload::Streaming,
        PayloadArg::StreamingTrailer => Payload::StreamingTrailer,
        PayloadArg::Trailer => Payload::Trailer,
    };
    let trailing = matches!(payload, Payload::StreamingTrailer | Payload::Trailer);
    let checksum = match args.checksum.as_deref() {
        None if trailing => Some("crc64nvme".to_owned()),
        None | Some("none") => None,
        Some(name) => Some(name.to_owned()),
    };
    let target = Target {
        endpoints,
        keys,
        insecure: globals.insecure,
        authority,
        virtual_host: args.virtual_host || virtual_host.unwrap_or(false),
        select: match args.host_select {
            SelectArg::RoundRobin => Select::RoundRobin,
            SelectArg::Least => Select::Least,
        },
        timeout_s: args.timeout.as_secs_f64(),
        payload,
        checksum,
    };
    Ok((target, bucket, prefix))
}

fn mix(args: &Args, mode: Mode) -> Result<Vec<(Op, u32)>, Error> {
    let single = |op| Ok(vec![(op, 1)]);
    let text = match mode {
        Mode::Mixed | Mode::Versioned => args.mix.as_deref().unwrap_or("get=45,stat=30,put=15,delete=10"),
        _ if args.mix.is_some() => return Err(Error::usage("--mix works only with mixed and versioned")),
        Mode::Put => return single(Op::Put),
        Mode::Get | Mode::Multipart => return single(Op::Get),
        Mode::List => return single(Op::List),
        Mode::Stat => return single(Op::Head),
        Mode::Delete => return single(if args.batch > 1 { Op::MultiDelete } else { Op::Delete }),
        Mode::MultipartPut => return single(Op::Upload),
        Mode::Conditional => return Ok(vec![(Op::PutIfNoneMatch, 1), (Op::PutIfMatch, 1)]),
    };
    text.split(',')
        .map(|item| {
            let bad = || Error::usage(format!("--mix `{item}`: expected OPERATION=WEIGHT"));
            let (name, weight) = item.split_once('=').ok_or_else(bad)?;
            Ok((name.trim().parse::<Op>().map_err(Error::usage)?, weight.trim().parse().map_err(|_| bad())?))
        })
        .collect()
}

/// The load that the options define.
pub(super) fn job(args: &Args, globals: &Globals) -> Result<Job, Error> {
    let mode = match args.operation {
        Operation_::Put => Mode::Put,
        Operation_::Get => Mode::Get,
        Operation_::Mixed => Mode::Mixed,
        Operation_::List => Mode::List,
        Operation_::Stat => Mode::Stat,
        Operation_::Delete => Mode::Delete,
        Operation_::Multipart => Mode::Multipart,
        Operation_::MultipartPut => Mode::MultipartPut,
        Operation_::Versioned => Mode::Versioned,
        Operation_::Conditional => Mode::Conditional,
    };
    let (target, bucket, mut prefix) = target(args, globals)?;
    if !prefix.is_empty() && !prefix.ends_with('/') && !args.existing {
        prefix.push('/');
    }
    let id = random_text()?;
    let open = args.rate.is_some() || args.sweep;
    let concurrency = args.concurrency.unwrap_or(if open { 64 } else { 20 });
    let rate = args.rate.filter(|_| !args.sweep);
    let limit = args.limit.unwrap_or_else(|| {
        let offered = args.sweep_to.or(args.rate).unwrap_or(20_000.0);
        (offered * 5.0) as u64 + u64::from(concurrency)
    });
    let unlimited = args.count.is_none() && args.bytes.is_none();
    let default = if args.steady.is_some() { 300.0 } else { 30.0 };
    let seconds = args.duration.map(|d| d.as_secs_f64()).or(unlimited.then_some(default));
    let sweep = args.slo.filter(|_| args.sweep).map(|slo| Sweep {
        slo,
        from: args.rate.unwrap_or(0.0),
        to: args.sweep_to,
        step_s: args.sweep_step.as_secs_f64(),
        precision: args.sweep_precision.max(0.001),
    });
    let seed = match args.seed {
        Some(seed) => seed,
        None => u64::from_str_radix(&id[..12], 16).unwrap_or(1),
    };
    Ok(Job {
        mode,
        target,
        bucket,
        buckets: args.buckets,
        prefix,
        run: format!("ashlar-bench-{}", &id[..16]),
        depth: args.depth,
        fanout: args.fanout,
        order: match args.key_order {
            OrderArg::Random => Order::Random,
            OrderArg::Sequential => Order::Sequential,
        },
        existing: args.existing,
        objects: args.objects.unwrap_or(if mode == Mode::Conditional { 16 } else { 2500 }),
        sizes: args.size.clone(),
        shape: args.data,
        seed,
        verify: args.verify,
        range: args.range_size,
        mix: mix(args, mode)?,
        versions: args.versions,
        part_size: args.part_size,
        parts: args.parts,
        batch: args.batch,
        list_keys: args.list_keys,
        keep: args.keep,
        offer: Offer { concurrency, rate, poisson: matches!(args.arrivals, Arrivals::Poisson), limit },
        stop: Stop { seconds, count: args.count, bytes: args.bytes, steady: args.steady },
        warmup: args.warmup,
        repetitions: args.repeat,
        max_error_rate: args.max_error_rate,
        sweep,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!((share("5%"), share("0.05"), rate("20/s")), (Ok(0.05), Ok(0.05), Ok(20.0)));
        assert!(
            duration("5 x").is_err()
                && duration("-1s").is_err()
                && share("101%").is_err()
                && rate("0").is_err()
        );
    }
}
