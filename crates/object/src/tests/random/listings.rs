//! Random listings, and the comparison of the whole store with the model.

use super::*;

impl Pair {
    pub(super) fn list_arguments(&mut self) -> (&'static str, &'static str, usize) {
        let prefix = *self.rng.pick(&["", "", "a", "a/", "a/b", "b", "z/", "nothing", "b/\u{e9}"]);
        let delimiter = *self.rng.pick(&["", "/", "/", "b", "/b"]);
        (prefix, delimiter, 1 + self.rng.below(6) as usize)
    }

    pub(super) async fn list(&mut self) {
        let b = self.bucket();
        let (prefix, delimiter, max_keys) = self.list_arguments();
        let first = if self.rng.chance(3) { *self.rng.pick(&KEYS) } else { "" };
        self.trace.push(format!("list {b} {prefix:?} {delimiter:?} {first:?} {max_keys}"));
        let want = self.m(b).list(prefix, delimiter, first);
        let mut lines: Vec<String> = Vec::new();
        let mut after = first.to_owned();
        loop {
            let spec = ListSpec { prefix, delimiter, start_after: &after, max_keys };
            let page = self.store.list(b, &spec).await.unwrap();
            let mut these: Vec<String> = page.entries.iter().map(|e| e.key.clone()).collect();
            for e in &page.entries {
                let v = self.m(b).current(&e.key).cloned();
                if v.map(|v| (v.body.len() as u64, v.etag)) != Some((e.size, e.etag.to_string())) {
                    self.fail(&format!("list shows {e:?}"));
                }
            }
            these.extend(page.common_prefixes.iter().map(|p| format!("{p}/..")));
            these.sort_by_key(|l| l.strip_suffix("/..").unwrap_or(l).to_owned());
            assert!(these.len() <= max_keys && page.truncated == page.next.is_some());
            lines.extend(these);
            match page.next {
                Some(next) => after = next,
                None => break,
            }
        }
        if lines != want {
            self.fail(&format!("list {lines:?}\nmodel {want:?}"));
        }
    }

    pub(super) async fn list_versions(&mut self) {
        let b = self.bucket();
        let (prefix, delimiter, max_keys) = self.list_arguments();
        self.trace.push(format!("list versions {b} {prefix:?} {delimiter:?} {max_keys}"));
        let want = self.m(b).list_versions(prefix, delimiter, "");
        let mut lines: Vec<String> = Vec::new();
        let (mut key, mut id) = (String::new(), None);
        loop {
            let spec = VersionListSpec { prefix, delimiter, key_marker: &key, version_marker: id, max_keys };
            let page = self.store.list_versions(b, &spec).await.unwrap();
            let mut these: Vec<(String, String)> = Vec::new();
            for e in &page.entries {
                let id = id_text(raw(e.version_id));
                let line = format!("{}#{id}#{}#{}", e.entry.key, e.latest, e.delete_marker);
                these.push((e.entry.key.clone(), line));
            }
            these.extend(page.common_prefixes.iter().map(|p| (p.clone(), format!("{p}/.."))));
            these.sort_by(|a, b| a.0.cmp(&b.0));
            assert!(these.len() <= max_keys);
            lines.extend(these.into_iter().map(|t| t.1));
            if !page.truncated {
                break;
            }
            key = page.next_key.unwrap();
            id = page.next_version;
        }
        if lines != want {
            self.fail(&format!("versions {lines:?}\nmodel {want:?}"));
        }
    }

    /// Everything in the model is in the store, byte by byte.
    pub(super) async fn compare(&mut self) {
        for b in BUCKETS {
            let all: Vec<(String, Id, Option<Vec<u8>>)> = self
                .m(b)
                .keys
                .iter()
                .flat_map(|(k, l)| l.iter().map(move |v| (k, v)))
                .map(|(k, v)| (k.clone(), v.id, (!v.marker).then(|| v.body.clone())))
                .collect();
            for (k, id, body) in all {
                match (get(&self.store, b, &k, Some(version(id))).await, body) {
                    (Ok(got), Some(want)) if got == want => {}
                    (Err(Error::DeleteMarker { .. }), None) => {}
                    (got, want) => {
                        let (got, want) = (got.map(|g| g.len()), want.map(|w| w.len()));
                        self.fail(&format!("{b} {k} {id:?}: {got:?}, model {want:?}"))
                    }
                }
            }
            let want = self.m(b).list_versions("", "", "");
            let spec = VersionListSpec { max_keys: 1000, ..VersionListSpec::default() };
            let n = self.store.list_versions(b, &spec).await.unwrap().entries.len();
            assert_eq!(n, want.len());
        }
    }
}
