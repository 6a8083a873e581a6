//! The built-in driver: versions, restarts, another root key; nothing in clear.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")]

mod common;
#[path = "common/contract.rs"]
mod contract;

use ashlar_kms::{Builtin, Error, Kms, Secret};
use common::{again, create};

fn root(n: u8) -> Secret {
    // Unlike anything else that is stored.
    Secret::new(std::array::from_fn(|i| n.wrapping_mul(37).wrapping_add((i as u8).wrapping_mul(11))))
}

async fn kms(control: ashlar_cluster::Control, n: u8, old: Option<u8>) -> Result<Kms, Error> {
    let old = old.map(root);
    let driver = Builtin::open_keys(control, root(n), old.as_ref(), || 1_700_000_000_000).await?;
    Kms::builtin(driver, "main").await
}

#[tokio::test]
async fn versions_open_what_they_sealed_after_every_restart() {
    let (control, slots) = create().await;
    let k = kms(control.clone(), 1, None).await.ok().unwrap();
    let first = k.generate("main", b"here").await.ok().unwrap();
    assert_eq!(k.rotate("main").await.ok(), Some(2));
    let second = k.generate("main", b"here").await.ok().unwrap();
    k.create_key("other").await.ok().unwrap();
    assert!(matches!(k.create_key("other").await, Err(Error::Exists(_))));
    assert!(matches!(k.create_key("../x").await, Err(Error::Invalid(_))));
    assert!(matches!(k.generate("nobody", b"").await, Err(Error::Missing(_))));
    drop(k);
    control.close().await;

    let control = again(&slots).await;
    let k = kms(control.clone(), 1, None).await.ok().unwrap();
    for made in [&first, &second] {
        let plain = k.open("main", &made.sealed, b"here").await.ok().unwrap();
        assert_eq!(plain.expose(), made.plain.expose());
        for (name, context) in [("main", &b"there"[..]), ("other", b"here")] {
            assert!(matches!(k.open(name, &made.sealed, context).await, Err(Error::Sealed)));
        }
        for at in 0..made.sealed.len() {
            let mut bad = made.sealed.clone();
            bad[at] ^= 1;
            assert!(k.open("main", &bad, b"here").await.is_err(), "byte {at}");
            assert!(k.open("main", &made.sealed[..at], b"here").await.is_err(), "cut at {at}");
        }
    }
    let newest = k.rewrap("main", "main", &first.sealed, b"here").await.ok().unwrap().unwrap();
    assert_eq!(k.open("main", &newest, b"here").await.ok().unwrap().expose(), first.plain.expose());
    assert!(k.rewrap("main", "main", &newest, b"here").await.ok().unwrap().is_none());
    assert!(k.rewrap("main", "main", &second.sealed, b"here").await.ok().unwrap().is_none());
    assert!(k.rewrap("main", "main", &first.sealed, b"there").await.is_err());
    let bound = k.rebind("main", &first.sealed, b"here", b"there").await.ok().unwrap();
    assert_eq!(k.open("main", &bound, b"there").await.ok().unwrap().expose(), first.plain.expose());
    assert!(k.open("main", &bound, b"here").await.is_err());
    assert!(k.rebind("main", &first.sealed, b"elsewhere", b"there").await.is_err());
    let moved = k.rewrap("main", "other", &first.sealed, b"here").await.ok().unwrap().unwrap();
    assert_eq!(k.open("other", &moved, b"here").await.ok().unwrap().expose(), first.plain.expose());
    let all = k.list_keys("").await.ok().unwrap();
    assert_eq!(
        all.iter().map(|k| (k.name.as_str(), k.version)).collect::<Vec<_>>(),
        [("main", 2), ("other", 1)]
    );
    assert_eq!(k.list_keys("o").await.ok().unwrap().len(), 1);
    assert_eq!(k.key_status("main").await.ok().unwrap().version, 2);
    control.close().await;
}

#[tokio::test]
async fn the_contract() {
    let (control, _slots) = create().await;
    contract::kept(&kms(control.clone(), 1, None).await.ok().unwrap(), true).await;
    control.close().await;
}

#[tokio::test]
async fn another_root_key() {
    let (control, slots) = create().await;
    let made = {
        let k = kms(control.clone(), 1, None).await.ok().unwrap();
        k.generate("main", b"here").await.ok().unwrap()
    };
    control.close().await;
    let control = again(&slots).await;
    assert!(matches!(kms(control.clone(), 2, None).await.err(), Some(Error::OtherRoot)));
    assert!(matches!(kms(control.clone(), 2, Some(3)).await.err(), Some(Error::OtherRoot)));
    let k = kms(control.clone(), 2, Some(1)).await.ok().unwrap();
    assert_eq!(k.open("main", &made.sealed, b"here").await.ok().unwrap().expose(), made.plain.expose());
    drop(k);
    control.close().await;
    let control = again(&slots).await;
    assert!(matches!(kms(control.clone(), 1, None).await.err(), Some(Error::OtherRoot)), "sealed anew");
    let k = kms(control.clone(), 2, None).await.ok().unwrap();
    assert_eq!(k.open("main", &made.sealed, b"here").await.ok().unwrap().expose(), made.plain.expose());
    control.close().await;
    let stored = slots.bytes();
    assert!(stored.windows(8).any(|w| w == b"kms/key/"));
    for secret in [root(1).expose(), root(2).expose(), made.plain.expose()] {
        assert!(!stored.windows(32).any(|w| w == secret));
    }
}

/// Two servers over one store rotate at once: each makes a version of its own, and what either seals opens
/// at both, and after a restart.
#[tokio::test]
async fn rotations_at_once_lose_no_version() {
    let (control, slots) = create().await;
    let one = kms(control.clone(), 1, None).await.ok().unwrap();
    let two = kms(control.clone(), 1, None).await.ok().unwrap();
    let mut made = Vec::new();
    let mut numbers = Vec::new();
    for _ in 0..4 {
        let (a, b) = tokio::join!(one.rotate("main"), two.rotate("main"));
        numbers.extend([a.ok().unwrap(), b.ok().unwrap()]);
        for k in [&one, &two] {
            made.push(k.generate("main", b"here").await.ok().unwrap());
        }
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (2..=9).collect::<Vec<_>>(), "no number is given twice");
    // A key that one made is there for the other, and is made once.
    let (a, b) = tokio::join!(one.create_key("other"), two.create_key("other"));
    assert!(a.is_ok() != b.is_ok(), "one of them made it");
    for k in [&one, &two] {
        made.push(k.generate("other", b"here").await.ok().unwrap());
        assert_eq!(k.key_status("main").await.ok().unwrap().version, 9);
        assert_eq!(k.list_keys("").await.ok().unwrap().len(), 2);
    }
    drop((one, two));
    let three = kms(control.clone(), 1, None).await.ok().unwrap();
    control.close().await;
    let four = kms(again(&slots).await, 1, None).await.ok().unwrap();
    for k in [&three, &four] {
        for m in &made {
            let plain = k.open(&m.key_id, &m.sealed, b"here").await.ok().unwrap();
            assert_eq!(plain.expose(), m.plain.expose());
        }
    }
}
