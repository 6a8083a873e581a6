//! Random uploads in parts.

use super::*;

impl Pair {
    pub(super) async fn multipart(&mut self) {
        let b = self.bucket();
        let open = self.m(b).uploads.len();
        match self.rng.below(8) {
            0 | 1 if open < 4 => {
                let k = self.key();
                let id = self.store.create_upload(b, k, UploadSpec::default()).await.unwrap();
                self.trace.push(format!("create upload {b} {k} {id}"));
                self.m(b).uploads.push(MUpload { key: k.into(), id: id.0, parts: BTreeMap::new() });
            }
            2..=4 if open > 0 => {
                let i = self.rng.below(open as u64) as usize;
                let (u, number, body) =
                    (self.m(b).uploads[i].clone(), self.rng.below(4) as u16 + 1, self.body());
                self.trace.push(format!("part {b} {} {} {number} {}", u.key, UploadId(u.id), body.len()));
                let p = part(&self.store, b, &u.key, UploadId(u.id), number, &body).await.unwrap();
                assert_eq!(p.etag.to_string(), etag_of(&body));
                let entry = (body.to_vec(), etag_of(&body));
                self.m(b).uploads[i].parts.insert(number, entry);
                let l = self.store.list_parts(b, &u.key, UploadId(u.id), 0, 1000).await.unwrap();
                let got: Vec<(u16, String)> =
                    l.parts.iter().map(|p| (p.number, p.etag.to_string())).collect();
                let want: Vec<(u16, String)> =
                    self.m(b).uploads[i].parts.iter().map(|(n, p)| (*n, p.1.clone())).collect();
                assert_eq!(got, want);
            }
            5 if open > 0 => {
                let i = self.rng.below(open as u64) as usize;
                let u = self.m(b).uploads.remove(i);
                self.trace.push(format!("abort {b} {} {}", u.key, UploadId(u.id)));
                self.store.abort_upload(b, &u.key, UploadId(u.id)).await.unwrap();
                assert!(self.store.abort_upload(b, &u.key, UploadId(u.id)).await.is_err());
            }
            6 | 7 if open > 0 => self.complete(b).await,
            _ => {
                let (prefix, delimiter, max_uploads) = self.list_arguments();
                self.trace.push(format!("list uploads {b} {prefix:?} {delimiter:?} {max_uploads}"));
                let want = self.m(b).list_uploads(prefix, delimiter);
                let mut lines: Vec<String> = Vec::new();
                let (mut key, mut id) = (String::new(), None);
                loop {
                    let spec = UploadListSpec {
                        prefix,
                        delimiter,
                        key_marker: &key,
                        upload_marker: id,
                        max_uploads,
                    };
                    let page = self.store.list_uploads(b, &spec).await.unwrap();
                    let mut these: Vec<(String, String)> =
                        page.uploads.iter().map(|u| (u.key.clone(), format!("{}#{}", u.key, u.id))).collect();
                    these.extend(page.common_prefixes.iter().map(|p| (p.clone(), format!("{p}/.."))));
                    these.sort_by(|a, b| a.0.cmp(&b.0));
                    lines.extend(these.into_iter().map(|t| t.1));
                    if !page.truncated {
                        break;
                    }
                    key = page.next_key.unwrap();
                    id = page.next_upload;
                }
                if lines != want {
                    self.fail(&format!("uploads {lines:?}\nmodel {want:?}"));
                }
            }
        }
    }

    async fn complete(&mut self, b: &'static str) {
        let open = self.m(b).uploads.len() as u64;
        let i = self.rng.below(open) as usize;
        let u = self.m(b).uploads[i].clone();
        let (c, mc) = self.conditions(b, &u.key);
        let chosen: Vec<(u16, Vec<u8>, String)> = u
            .parts
            .iter()
            .filter(|_| !self.rng.chance(5))
            .map(|(n, p)| (*n, p.0.clone(), p.1.clone()))
            .collect();
        let list: Vec<CompletedPart> = chosen
            .iter()
            .map(|(number, _, etag)| CompletedPart {
                number: *number,
                etag: ETag::parse(etag).unwrap(),
                checksum: None,
            })
            .collect();
        self.trace.push(format!("complete {b} {} {} of {} parts {c:?}", u.key, UploadId(u.id), list.len()));
        let id = UploadId(u.id);
        let got = self.store.complete_upload(b, &u.key, id, &list, None, &c).await;
        let last = chosen.len().saturating_sub(1);
        if chosen.is_empty() {
            assert!(matches!(got, Err(Error::InvalidRequest(_))));
            return;
        }
        if chosen.iter().take(last).any(|p| p.1.len() < 100) {
            assert!(matches!(got, Err(Error::EntityTooSmall { .. })));
            return;
        }
        let want = self.m(b).allows(&u.key, &mc, false);
        same!(self, got, want);
        let Ok(done) = got else { return };
        let again = self.store.complete_upload(b, &u.key, id, &list, None, &c).await.unwrap();
        assert_eq!(again.committed.version_id, done.committed.version_id);
        assert_eq!(again.committed.etag, done.committed.etag);
        let vid = self.given(b, done.committed.version_id);
        let md5s: Vec<u8> = chosen.iter().flat_map(|p| md5_once(&p.1)).collect();
        let etag = format!("{}-{}", etag_of(&md5s), chosen.len());
        assert_eq!(done.committed.etag.to_string(), etag);
        let body = chosen.iter().flat_map(|p| p.1.clone()).collect();
        let v = MVersion { id: vid, marker: false, body, etag, meta: vec![], tags: vec![] };
        self.m(b).uploads.remove(i);
        self.m(b).add(&u.key, v);
    }
}
