//! The plan of a mirror: two ordered trees are merged into actions.
//!
//! Invariants: every path of either tree yields exactly one action, in order; the action depends only on the
//! two items.

use futures::{Stream, StreamExt, stream, stream::Peekable};

use super::{
    failure::Outcome,
    tree::{Item, Items},
};

/// The action for one path.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    /// The target does not have it.
    Add(Item),
    /// The target has different content.
    Replace(Item),
    /// The target has the same content.
    Same(Item),
    /// Only the target has it.
    Extra(Item),
}

/// Whether the target's item is up to date: the same size, and the same ETag or not older. (A download sets
/// the time of the file to that of the object, so that both are equal afterwards.)
pub fn same(source: &Item, target: &Item) -> bool {
    if source.size != target.size {
        return false;
    }
    if let (Some(a), Some(b)) = (&source.etag, &target.etag) {
        if a == b {
            return true;
        }
        // Two plain MD5s that differ mean different content. ETags of multipart objects depend on the part
        // size.
        if !a.contains('-') && !b.contains('-') {
            return false;
        }
    }
    match (source.modified, target.modified) {
        // Whole seconds: some servers and file systems store no more.
        (Some(source), Some(target)) => target.unix_timestamp() >= source.unix_timestamp(),
        _ => false,
    }
}

/// Merges two trees while they are read. An error about one path takes the position of the path.
pub fn merge(source: Items, target: Items) -> impl Stream<Item = Outcome<Action>> + Send {
    let state = (source.peekable(), target.peekable());
    stream::unfold(state, |(mut source, mut target)| async move {
        let action = next(&mut source, &mut target).await?;
        Some((action, (source, target)))
    })
}

async fn next(source: &mut Peekable<Items>, target: &mut Peekable<Items>) -> Option<Outcome<Action>> {
    let source_next = std::pin::Pin::new(&mut *source).peek().await;
    let target_next = std::pin::Pin::new(&mut *target).peek().await;
    let order = match (source_next, target_next) {
        (None, None) => return None,
        (Some(Err(_)), _) | (Some(Ok(_)), None) => std::cmp::Ordering::Less,
        (_, Some(Err(_))) | (None, Some(Ok(_))) => std::cmp::Ordering::Greater,
        (Some(Ok(a)), Some(Ok(b))) => a.path.cmp(&b.path),
    };
    Some(match order {
        std::cmp::Ordering::Less => source.next().await?.map(Action::Add),
        std::cmp::Ordering::Greater => target.next().await?.map(Action::Extra),
        std::cmp::Ordering::Equal => match (source.next().await?, target.next().await?) {
            (Ok(a), Ok(b)) if same(&a, &b) => Ok(Action::Same(a)),
            (Ok(a), Ok(_)) => Ok(Action::Replace(a)),
            (Err(failure), _) | (_, Err(failure)) => Err(failure),
        },
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use time::OffsetDateTime;

    use super::*;
    use crate::failure::{Failure, Kind};

    fn item(path: &str, size: u64, seconds: i64, etag: Option<&str>) -> Item {
        Item {
            path: path.into(),
            size,
            modified: OffsetDateTime::from_unix_timestamp(seconds).ok(),
            etag: etag.map(str::to_owned),
            version_id: None,
        }
    }

    #[test]
    fn sameness() {
        let a = item("a", 5, 100, None);
        assert!(same(&a, &item("a", 5, 100, Some("x"))));
        assert!(same(&a, &item("a", 5, 101, None)));
        assert!(!same(&a, &item("a", 5, 99, None)));
        assert!(!same(&a, &item("a", 6, 101, None)));
        let hashed = |etag| item("a", 5, 100, Some(etag));
        assert!(same(&hashed("m"), &item("a", 5, 1, Some("m"))));
        assert!(!same(&hashed("m"), &item("a", 5, 999, Some("n"))));
        assert!(same(&hashed("m-2"), &item("a", 5, 999, Some("n"))));
        assert!(!same(&hashed("m-2"), &item("a", 5, 9, Some("n-3"))));
    }

    fn run(source: Vec<Outcome<Item>>, target: Vec<Outcome<Item>>) -> Vec<Outcome<Action>> {
        let merged = merge(stream::iter(source).boxed(), stream::iter(target).boxed());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(merged.collect())
    }

    #[test]
    fn errors_keep_their_position() {
        let broken = || Err(Failure::new(Kind::Failed, "unreadable"));
        let actions = run(
            vec![Ok(item("a", 1, 1, None)), broken(), Ok(item("c", 1, 1, None))],
            vec![Ok(item("c", 1, 1, None))],
        );
        assert!(matches!(&actions[..], [Ok(Action::Add(_)), Err(_), Ok(Action::Same(_))]));
    }

    /// Compares with the definition on maps, over random small trees.
    #[test]
    fn merge_yields_every_path_once_in_order() {
        let mut state = 0x5eed_u64;
        let mut random = move |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        for round in 0..500 {
            let mut tree = || -> BTreeMap<String, u64> {
                let path = |random: &mut dyn FnMut(u64) -> u64| {
                    (0..1 + random(3)).map(|_| ['a', 'b', '/', '.', '-'][random(5) as usize]).collect()
                };
                (0..random(12)).map(|_| (path(&mut random), random(3))).collect()
            };
            let (source, target) = (tree(), tree());
            let list = |tree: &BTreeMap<String, u64>| -> Vec<Outcome<Item>> {
                tree.iter().map(|(p, s)| Ok(item(p, *s, 7, None))).collect()
            };
            let mut expected = BTreeMap::new();
            for (path, size) in &source {
                let what = match target.get(path) {
                    None => "add",
                    Some(other) if other == size => "same",
                    Some(_) => "replace",
                };
                expected.insert(path.clone(), what);
            }
            for path in target.keys().filter(|p| !source.contains_key(*p)) {
                expected.insert(path.clone(), "extra");
            }
            let got: Vec<(String, &str)> = run(list(&source), list(&target))
                .into_iter()
                .map(|action| match action.unwrap() {
                    Action::Add(i) => (i.path, "add"),
                    Action::Replace(i) => (i.path, "replace"),
                    Action::Same(i) => (i.path, "same"),
                    Action::Extra(i) => (i.path, "extra"),
                })
                .collect();
            assert_eq!(got, expected.into_iter().collect::<Vec<_>>(), "round {round}");
        }
    }
}
