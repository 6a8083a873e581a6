//! Processor time of operations over 4 drives (2+2) in memory file systems.
//!
//! `cargo run --release -p ashlar-object --example object_speed [folder] [objects]` prints CPU microseconds
//! per 4 KiB PUT and GET, CPU seconds per GiB of 10 MiB PUTs and GETs at concurrency 8, and the cost
//! of listing 100,000 keys. User and system time of the whole process (`/proc/self/stat`, so a
//! resolution of 10 ms), without HTTP. Default folder: `/dev/shm`.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it runs in real time")]

#[path = "common/store.rs"]
mod store;

use std::path::PathBuf;
use std::time::Instant;

use ashlar_object::*;
use bytes::Bytes;

use store::{Fallible, open};

const CONCURRENCY: u64 = 8;

/// User and system time of this process, in microseconds.
fn cpu_us() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let rest = stat.rsplit(')').next().unwrap_or_default();
    let field = |n: usize| rest.split_whitespace().nth(n).and_then(|t| t.parse::<f64>().ok());
    // Fields 14 and 15 of the line; clock ticks of 1/100 s.
    (field(11).unwrap_or(0.0) + field(12).unwrap_or(0.0)) * 10_000.0
}

async fn put(store: &Store, key: &str, body: &Bytes, piece: usize) -> Result<()> {
    let mut put = store.put(&store.bucket("bucket")?, key, PutSpec::new(body.len() as u64)).await?;
    let mut rest = body.clone();
    while !rest.is_empty() {
        put.write(rest.split_to(piece.min(rest.len()))).await?;
    }
    put.commit(VersionSpec::default(), &Conditions::NONE).await.map(|_| ())
}

async fn get(store: &Store, key: &str) -> Result<u64> {
    let object = store.get(&store.bucket("bucket")?, key, None).await?;
    let mut body = object.read(0..object.size()).await?;
    let mut n = 0;
    while let Some(piece) = body.next().await {
        n += piece?.len() as u64;
    }
    assert_eq!(n, object.size());
    Ok(n)
}

/// Runs `n` operations, `CONCURRENCY` concurrently; returns wall seconds and CPU microseconds.
async fn measure<F>(n: u64, operation: impl Fn(u64) -> F) -> Fallible<(f64, f64)>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let (wall, cpu) = (Instant::now(), cpu_us());
    let mut running = tokio::task::JoinSet::new();
    for lane in 0..CONCURRENCY {
        let mine: Vec<F> = (lane..n).step_by(CONCURRENCY as usize).map(&operation).collect();
        running.spawn(async move {
            for f in mine {
                f.await?;
            }
            Result::Ok(())
        });
    }
    while let Some(done) = running.join_next().await {
        done??;
    }
    Ok((wall.elapsed().as_secs_f64(), cpu_us() - cpu))
}

async fn small(store: &Store, n: u64) -> Fallible<()> {
    let body = Bytes::from(vec![7u8; 4096]);
    for round in ["first", "again (overwrites)"] {
        let (wall, cpu) = measure(n, |i| {
            let (store, body) = (store.clone(), body.clone());
            async move { put(&store, &format!("small/{i:08}"), &body, 1 << 20).await }
        })
        .await?;
        let n = n as f64;
        println!("put 4 KiB, {round}: {:.1} CPU-us, {:.0}/s", cpu / n, n / wall);
    }
    let (wall, cpu) = measure(n, |i| {
        let store = store.clone();
        async move { get(&store, &format!("small/{i:08}")).await.map(|_| ()) }
    })
    .await?;
    println!("get 4 KiB: {:.1} CPU-us, {:.0}/s", cpu / n as f64, n as f64 / wall);
    let (wall, cpu) = measure(n, |i| {
        let store = store.clone();
        async move { store.get(&store.bucket("bucket")?, &format!("small/{i:08}"), None).await.map(|_| ()) }
    })
    .await?;
    println!("head: {:.1} CPU-us, {:.0}/s", cpu / n as f64, n as f64 / wall);
    let (wall, cpu) = measure(n, |i| {
        let store = store.clone();
        async move {
            store
                .delete(&store.bucket("bucket")?, &format!("small/{i:08}"), None, &Conditions::NONE)
                .await
                .map(|_| ())
        }
    })
    .await?;
    println!("delete: {:.1} CPU-us, {:.0}/s", cpu / n as f64, n as f64 / wall);
    Ok(())
}

async fn large(store: &Store) -> Fallible<()> {
    const SIZE: usize = 10 << 20;
    const N: u64 = 64;
    let body =
        Bytes::from((0..SIZE).map(|i| (i as u32).wrapping_mul(2_654_435_761) as u8).collect::<Vec<_>>());
    let gib = N as f64 * SIZE as f64 / f64::from(1 << 30);
    for round in ["first", "again"] {
        let (wall, cpu) = measure(N, |i| {
            let (store, body) = (store.clone(), body.clone());
            async move { put(&store, &format!("large/{i}"), &body, 256 << 10).await }
        })
        .await?;
        println!("put 10 MiB, {round}: {:.2} CPU-s/GiB, {:.2} GiB/s", cpu / 1e6 / gib, gib / wall);
    }
    for round in ["first", "again"] {
        let (wall, cpu) = measure(N, |i| {
            let store = store.clone();
            async move { get(&store, &format!("large/{i}")).await.map(|_| ()) }
        })
        .await?;
        println!("get 10 MiB, {round}: {:.2} CPU-s/GiB, {:.2} GiB/s", cpu / 1e6 / gib, gib / wall);
    }
    for i in 0..N {
        store.delete(&store.bucket("bucket")?, &format!("large/{i}"), None, &Conditions::NONE).await?;
    }
    Ok(())
}

async fn lists(store: &Store) -> Fallible<()> {
    const KEYS: u64 = 100_000;
    let (wall, cpu) = measure(KEYS, |i| {
        let store = store.clone();
        async move { put(&store, &format!("list/{:03}/{i:08}", i % 100), &Bytes::new(), 1).await }
    })
    .await?;
    println!("put empty: {:.1} CPU-us, {:.0}/s", cpu / KEYS as f64, KEYS as f64 / wall);
    let (wall, cpu) = (Instant::now(), cpu_us());
    let (mut after, mut keys) = (String::new(), 0);
    loop {
        let spec = ListSpec { prefix: "list/", start_after: &after, max_keys: 1000, delimiter: "" };
        let page = store.list(&store.bucket("bucket")?, &spec).await?;
        keys += page.entries.len();
        match page.next {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!(keys as u64, KEYS);
    let (wall, cpu) = (wall.elapsed().as_secs_f64(), cpu_us() - cpu);
    println!("list 100,000 keys in pages of 1,000: {wall:.3} s, {:.2} CPU-us per key", cpu / KEYS as f64);
    let began = Instant::now();
    let spec = ListSpec { prefix: "list/", delimiter: "/", max_keys: 1000, start_after: "" };
    let page = store.list(&store.bucket("bucket")?, &spec).await?;
    assert_eq!(page.common_prefixes.len(), 100);
    println!("list 100 folders of 1,000 keys: {:.1} ms", began.elapsed().as_secs_f64() * 1e3);
    Ok(())
}

fn main() -> Fallible<()> {
    let mut args = std::env::args().skip(1);
    let base = PathBuf::from(args.next().unwrap_or_else(|| "/dev/shm".to_owned()));
    let n: u64 = args.next().map_or(Ok(40_000), |t| t.parse())?;
    let folder = tempfile::tempdir_in(base)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let opened = open(folder.path(), 1, Options::default()).await?;
        let store = &opened.store;
        store.create_bucket("bucket", &CreateBucket::default()).await?;
        small(store, n).await?;
        large(store).await?;
        lists(store).await?;
        opened.close().await;
        Ok(())
    })
}
