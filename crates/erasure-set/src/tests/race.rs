//! T13 and concurrent histories.

use super::*;
use ashlar_history::{Call, Event, History, Register as Model, Rules, linearizable};
use std::sync::atomic::{AtomicU32, Ordering};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_one_of_hundred_conditional_writes_wins() {
    let rig = Rig::new(2, 2).await;
    for round in 0..5 {
        let wins = Arc::new(AtomicU32::new(0));
        let mut tasks = Vec::new();
        for i in 0..100u32 {
            let (sets, wins) = (rig.sets.clone(), wins.clone());
            tasks.push(tokio::spawn(async move {
                let mine = format!("racer {i}");
                let name = format!("prize{round}");
                if put_if(&sets, &name, mine.as_bytes(), |r| r.is_none()).await.unwrap().is_some() {
                    wins.fetch_add(1, Ordering::SeqCst);
                    Some(mine)
                } else {
                    None
                }
            }));
        }
        let mut winner = None;
        for t in tasks {
            winner = t.await.unwrap().or(winner);
        }
        assert_eq!(wins.load(Ordering::SeqCst), 1);
        let got = rig.get(&format!("prize{round}")).await.unwrap().unwrap();
        assert_eq!(String::from_utf8(got).unwrap(), winner.unwrap());
    }
    rig.close().await;
}

/// Two processes over the same drives: their ballots duel, and exactly one wins.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_coordinators_duel() {
    let rig = Rig::with(2, 2, 1, |o| o.sole = false).await;
    let mut options = Options::new(BufferPool::new(16 << 20));
    options.sole = false;
    options.node = 2;
    let other = Sets::new(rig.layout.clone(), rig.sets.drives(), options).unwrap();
    for round in 0..20 {
        let name = format!("duel{round}");
        let mut tasks = Vec::new();
        for i in 0..6u32 {
            let sets = if i % 2 == 0 { rig.sets.clone() } else { other.clone() };
            let name = name.clone();
            tasks.push(tokio::spawn(async move {
                put_if(&sets, &name, format!("{i}").as_bytes(), |r| r.is_none()).await
            }));
        }
        let (mut wins, mut unknown) = (0, 0);
        for t in tasks {
            match t.await.unwrap() {
                Ok(Some(_)) => wins += 1,
                Ok(None) => {}
                Err(Error::Contended) => {}
                Err(Error::Unknown(_)) => unknown += 1,
                Err(e) => panic!("{e}"),
            }
        }
        assert!(wins <= 1 && wins + unknown >= 1, "{wins} won, {unknown} do not know");
        assert!(rig.get(&name).await.unwrap().is_some());
    }
    rig.close().await;
}

async fn one_history(seed: u64, coordinators: usize, disturb: bool) {
    let rig = Rig::with(2, 2, 1, |o| o.sole = coordinators == 1).await;
    let mut all = vec![rig.sets.clone()];
    for i in 1..coordinators {
        let mut options = Options::new(BufferPool::new(16 << 20));
        (options.node, options.sole) = (i as u16 + 1, false);
        all.push(Sets::new(rig.layout.clone(), rig.sets.drives(), options).unwrap());
    }
    let history: Arc<History<Call, Event>> = Arc::new(History::default());
    let mut tasks = Vec::new();
    for client in 0..4u64 {
        let sets = all[client as usize % all.len()].clone();
        let history = history.clone();
        tasks.push(tokio::spawn(async move {
            let mut dice = Dice::new(seed * 31 + client);
            for step in 0..12u64 {
                let key = dice.roll(2) as usize;
                let name = format!("h{key}");
                let value = client * 1000 + step + 1;
                let bytes = value.to_le_bytes();
                // Large bodies from time to time: their shards use another path.
                let body = match dice.roll(8) {
                    0 => [bytes.to_vec(), vec![0; 300_000]].concat(),
                    _ => bytes.to_vec(),
                };
                match dice.roll(5) {
                    0 | 1 => {
                        let id = history.call(key, Call::Put(value));
                        history.end(id, put(&sets, &name, &body).await.map(|_| Event::Done));
                    }
                    2 => {
                        let id = history.call(key, Call::Create(value));
                        let absent = |r: Option<&Record>| r.is_none_or(|r| r.body == Body::Tombstone);
                        let r = put_if(&sets, &name, &body, absent).await;
                        history.end(id, r.map(|u| Event::Created(u.is_some())));
                    }
                    3 => {
                        let id = history.call(key, Call::Delete);
                        history.end(id, delete(&sets, &name).await.map(|()| Event::Done));
                    }
                    _ => {
                        let id = history.call(key, Call::Get);
                        let r = get(&sets, &name).await;
                        let read = |b: Vec<u8>| u64::from_le_bytes(b[..8].try_into().unwrap());
                        history.end(id, r.map(|v| Event::Read(v.map(read))));
                    }
                }
            }
        }));
    }
    if disturb {
        // One drive at a time is removed and returns.
        let mut dice = Dice::new(seed);
        for _ in 0..6 {
            let slot = dice.roll(4) as u8;
            let Some(d) = rig.sets.detach(drive_id(slot, 0)) else { continue };
            tokio::time::sleep(Duration::from_millis(3)).await;
            rig.sets.attach(d);
        }
    }
    for t in tasks {
        t.await.unwrap();
    }
    for key in 0..2 {
        let events = history.of(key);
        let rules = Rules { settled: true };
        assert!(linearizable(&Model, &None, rules, &events), "seed {seed}, key {key}: {events:#?}");
    }
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn histories_are_linearizable() {
    for seed in 1..=24 * times() {
        one_history(seed, 1 + seed as usize % 2, seed % 3 == 0).await;
    }
}

/// A key that is overwritten and deleted all the time must not make a list fail, with all drives and with one
/// away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn key_that_keeps_changing_is_listed() {
    for away in [false, true] {
        let rig = Rig::new(2, 2).await;
        rig.put("a", b"still").await.unwrap();
        if away {
            rig.unplug(1, 0).await;
        }
        let stop = Arc::new(AtomicU32::new(0));
        let changes = Arc::new(AtomicU32::new(0));
        let mut writers = Vec::new();
        for key in ["busy", "busier"] {
            let (sets, stop, changes) = (rig.sets.clone(), stop.clone(), changes.clone());
            writers.push(tokio::spawn(async move {
                let mut n = 0u64;
                while stop.load(Ordering::SeqCst) == 0 {
                    put(&sets, key, &n.to_le_bytes()).await.unwrap();
                    if n % 5 == 4 {
                        delete(&sets, key).await.unwrap();
                    }
                    n += 1;
                    changes.fetch_add(1, Ordering::SeqCst);
                }
            }));
        }
        let mut i = 0;
        while i < 300 || changes.load(Ordering::SeqCst) < 300 {
            i += 1;
            let page = rig.sets.list(Space::Object, BUCKET, b"", b"", 100).await;
            let page = page.unwrap_or_else(|e| panic!("list {i}, one away {away}: {e}"));
            assert!(page.entries.iter().any(|e| e.key == "a") && page.entries.len() <= 3);
            tokio::task::yield_now().await;
        }
        stop.store(1, Ordering::SeqCst);
        for w in writers {
            w.await.unwrap();
        }
        rig.close().await;
    }
}
