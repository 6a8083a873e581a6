//! The contract of every driver.

use ashlar_kms::{Error, Kms};

/// Tests all operations. The default key is "main", and no other key may exist. `versions`: keys have
/// versions.
pub async fn kept(kms: &Kms, versions: bool) {
    match kms.create_key("main").await {
        // The built-in driver makes the default key itself.
        Ok(()) | Err(Error::Exists(_)) => {}
        Err(e) => panic!("{e}"),
    }
    kms.ensure_default().await.ok().unwrap();
    assert_eq!(kms.default_key(), "main");

    // A key that does not exist is never created by accident.
    assert!(matches!(kms.generate("one", b"x").await, Err(Error::Missing(n)) if n == "one"));
    assert!(matches!(kms.generate("one", b"x").await, Err(Error::Missing(_))));
    assert!(matches!(kms.key_status("one").await, Err(Error::Missing(_))));
    for name in ["one", "two"] {
        kms.create_key(name).await.ok().unwrap();
        assert!(matches!(kms.create_key(name).await, Err(Error::Exists(n)) if n == name));
    }
    for bad in ["../one", "", "a/b", "a b", "-a"] {
        assert!(matches!(kms.create_key(bad).await, Err(Error::Invalid(_))), "{bad}");
        assert!(matches!(kms.generate(bad, b"x").await, Err(Error::Invalid(_))), "{bad}");
    }

    let made = kms.generate("one", b"here").await.ok().unwrap();
    let again = kms.generate("one", b"here").await.ok().unwrap();
    assert_eq!(made.key_id, "one");
    assert_ne!(made.plain.expose(), again.plain.expose());
    assert!(!made.sealed.windows(32).any(|w| w == made.plain.expose()), "in clear");
    let opened = kms.open("one", &made.sealed, b"here").await.ok().unwrap();
    assert_eq!(opened.expose(), made.plain.expose());
    for (name, context) in [("one", &b"there"[..]), ("two", b"here"), ("one", b"")] {
        assert!(matches!(kms.open(name, &made.sealed, context).await, Err(Error::Sealed)), "{name}");
    }
    for at in 0..made.sealed.len() {
        let mut bad = made.sealed.clone();
        bad[at] ^= 1;
        assert!(kms.open("one", &bad, b"here").await.is_err(), "byte {at}");
        assert!(kms.open("one", &made.sealed[..at], b"here").await.is_err(), "cut at {at}");
    }

    assert!(kms.rewrap("one", "one", &made.sealed, b"here").await.ok().unwrap().is_none());
    let moved = kms.rewrap("one", "two", &made.sealed, b"here").await.ok().unwrap().unwrap();
    assert_eq!(kms.open("two", &moved, b"here").await.ok().unwrap().expose(), made.plain.expose());
    assert!(kms.open("one", &moved, b"here").await.is_err());
    assert!(kms.rewrap("one", "two", &made.sealed, b"there").await.is_err());
    assert!(matches!(kms.rewrap("one", "none", &made.sealed, b"here").await, Err(Error::Missing(_))));

    let bound = kms.rebind("one", &made.sealed, b"here", b"there").await.ok().unwrap();
    assert_eq!(kms.open("one", &bound, b"there").await.ok().unwrap().expose(), made.plain.expose());
    assert!(kms.open("one", &bound, b"here").await.is_err());
    assert!(kms.rebind("one", &made.sealed, b"elsewhere", b"there").await.is_err());

    let names = |keys: Vec<ashlar_kms::KeyStatus>| keys.into_iter().map(|k| k.name).collect::<Vec<_>>();
    assert_eq!(names(kms.list_keys("").await.ok().unwrap()), ["main", "one", "two"]);
    assert_eq!(names(kms.list_keys("t").await.ok().unwrap()), ["two"]);
    assert!(kms.list_keys("x").await.ok().unwrap().is_empty());
    let status = kms.key_status("one").await.ok().unwrap();
    assert_eq!((status.name.as_str(), status.version), ("one", u32::from(versions)));
    match kms.rotate("one").await {
        Ok(version) => assert_eq!((versions, version), (true, 2)),
        Err(e) => assert!(!versions && matches!(e, Error::Invalid(_)), "{e}"),
    }
    let opened = kms.open("one", &made.sealed, b"here").await.ok().unwrap();
    assert_eq!(opened.expose(), made.plain.expose());
}
