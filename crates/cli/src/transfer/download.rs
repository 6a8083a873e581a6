//! Downloads a key to a local file: written to a temporary file in the same folder, verified, then renamed.
//!
//! Invariants: all ranges are of one version (by its ETag); a stored CRC of the whole object is compared with
//! the received data; the file gets the time of the object.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

use ashlar_checksum::{Algorithm, Digest, Hasher, combine_crc};
use ashlar_client::{GetOptions, Head};
use futures::{StreamExt, TryStreamExt, stream};

use super::{Engine, retry};
use crate::{
    failure::{Failure, Kind, Outcome, While},
    location::Remote,
    tree::Item,
};

impl Engine {
    pub(super) async fn download(&self, from: &Remote, item: &Item, to: &Path) -> Outcome {
        if to.is_dir() {
            return Err(Failure::usage(format!("{} is a folder", to.display())));
        }
        let folder = to.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::create_dir_all(folder).when(|| format!("cannot make {}", folder.display()))?;
        let partial = Partial::create(to)?;
        let modified = if item.size <= self.part_size.saturating_mul(2) {
            self.whole(from, item, &partial).await?
        } else {
            self.in_ranges(from, item, &partial).await?
        };
        if let Some(modified) = modified {
            partial.file.set_modified(modified)?;
        }
        partial.keep(to).when(|| format!("cannot rename the downloaded file to {}", to.display()))
    }

    /// One request; an interrupted one continues at the interruption.
    async fn whole(&self, from: &Remote, item: &Item, partial: &Partial) -> Outcome<Option<SystemTime>> {
        let _permit = self.permit().await;
        let options =
            GetOptions { version_id: item.version_id.clone(), checksum: true, ..GetOptions::default() };
        let mut object = from.client.get_object(&from.bucket, &from.key, &options).await?;
        let head = std::mem::take(&mut object.head);
        let expected = stored_crc(&head);
        let mut hasher = expected.map(|d| Hasher::new(d.algorithm()));
        let mut at = 0;
        let mut broken = None;
        loop {
            match object.body.piece().await {
                Ok(Some(piece)) => {
                    partial.file.write_all_at(&piece, at)?;
                    if let Some(hasher) = &mut hasher {
                        hasher.update(&piece);
                    }
                    at += piece.len() as u64;
                    self.progress.done(piece.len() as u64);
                }
                Ok(None) => break,
                Err(error) => {
                    broken = Some(error);
                    break;
                }
            }
        }
        if let Some(error) = broken {
            // The rest as one range, which reports a permanent failure.
            tracing::debug!(%error, at, "the download was interrupted; continuing");
            let rest = (at, object.length.saturating_sub(at));
            let digest =
                self.range(from, item, &head.etag, rest, partial, expected.map(|d| d.algorithm())).await?;
            if let (Some(hasher), Some(expected), Some(rest_crc)) = (hasher.take(), expected, digest) {
                let all = combine_crc(expected.algorithm(), &hasher.finish(), &rest_crc, rest.1);
                check(&from.to_string(), Some(expected), all)?;
            }
        } else {
            check(&from.to_string(), expected, hasher.map(Hasher::finish))?;
        }
        Ok(head.modified.or(item.modified).map(SystemTime::from))
    }

    /// Several ranges of the part size at a time.
    async fn in_ranges(&self, from: &Remote, item: &Item, partial: &Partial) -> Outcome<Option<SystemTime>> {
        let options =
            GetOptions { version_id: item.version_id.clone(), checksum: true, ..GetOptions::default() };
        let head = from.client.head_object(&from.bucket, &from.key, &options).await?;
        partial.file.set_len(head.size)?;
        let expected = stored_crc(&head);
        let algorithm = expected.map(|d| d.algorithm());
        let etag = head.etag.as_str();
        let mut digests: Vec<(u32, u64, Option<Digest>)> = stream::iter(self.parts(head.size, 0))
            .map(|(number, offset, length)| async move {
                let _permit = self.permit().await;
                let digest = self.range(from, item, etag, (offset, length), partial, algorithm).await?;
                Outcome::Ok((number, length, digest))
            })
            .buffer_unordered(self.parallel)
            .try_collect()
            .await?;
        digests.sort_by_key(|(number, ..)| *number);
        let all = digests.into_iter().map(|(_, length, digest)| Some((digest?, length))).reduce(|a, b| {
            let ((a, a_len), (b, b_len)) = (a?, b?);
            Some((combine_crc(algorithm?, &a, &b, b_len)?, a_len + b_len))
        });
        check(&from.to_string(), expected, all.flatten().map(|(digest, _)| digest))?;
        Ok(head.modified.or(item.modified).map(SystemTime::from))
    }

    /// Downloads a range of the version with this ETag, and continues after interruptions; returns its CRC.
    async fn range(
        &self,
        from: &Remote,
        item: &Item,
        etag: &str,
        (offset, length): (u64, u64),
        partial: &Partial,
        algorithm: Option<Algorithm>,
    ) -> Outcome<Option<Digest>> {
        let mut hasher = algorithm.map(Hasher::new);
        if length == 0 {
            return Ok(hasher.map(Hasher::finish));
        }
        let state = tokio::sync::Mutex::new((offset, &mut hasher));
        retry(|| async {
            let mut state = state.lock().await;
            let (at, hasher) = &mut *state;
            let options = GetOptions {
                range: Some((*at, Some(offset + length - 1))),
                version_id: item.version_id.clone(),
                if_match: Some(etag.to_owned()),
                ..GetOptions::default()
            };
            let mut object = from.client.get_object(&from.bucket, &from.key, &options).await?;
            if object.length != offset + length - *at {
                let cause = "the server did not answer with the range asked for";
                return Err(Failure::new(Kind::Failed, cause));
            }
            while let Some(piece) = object.body.piece().await? {
                partial.file.write_all_at(&piece, *at)?;
                if let Some(hasher) = hasher {
                    hasher.update(&piece);
                }
                *at += piece.len() as u64;
                self.progress.done(piece.len() as u64);
            }
            Ok(())
        })
        .await?;
        Ok(hasher.map(Hasher::finish))
    }
}

/// The CRC of the whole object, if the server stores one.
fn stored_crc(head: &Head) -> Option<Digest> {
    let crcs = [Algorithm::Crc64Nvme, Algorithm::Crc32c, Algorithm::Crc32];
    if head.headers.get("x-amz-checksum-type").is_some_and(|t| t == "COMPOSITE") {
        return None;
    }
    crcs.into_iter().find_map(|algorithm| {
        let name = format!("x-amz-checksum-{}", algorithm.name().to_ascii_lowercase());
        Digest::from_base64(algorithm, head.headers.get(&name)?)
    })
}

fn check(what: &str, expected: Option<Digest>, received: Option<Digest>) -> Outcome {
    match (expected, received) {
        (Some(expected), Some(received)) if expected != received => {
            let cause =
                format!("`{what}` was damaged in transit: stored {expected:?}, received {received:?}");
            Err(Failure::new(Kind::Failed, cause))
        }
        _ => Ok(()),
    }
}

/// The temporary file of a download; removed unless it is kept.
struct Partial {
    file: File,
    path: PathBuf,
    kept: bool,
}

impl Partial {
    fn create(target: &Path) -> Outcome<Partial> {
        let name = target.file_name().map(|n| n.to_string_lossy()).unwrap_or_default();
        let random =
            ashlar_environment::random::u64().map_or_else(|_| std::process::id(), |random| random as u32);
        // The name must not be longer than that of the target, which may be the longest possible.
        let short: String = name.chars().take(40).collect();
        let path = target.with_file_name(format!(".{short}.{random:08x}.ashlar-part"));
        let file = File::create_new(&path).when(|| format!("cannot create {}", path.display()))?;
        Ok(Partial { file, path, kept: false })
    }

    fn keep(mut self, target: &Path) -> std::io::Result<()> {
        fs::rename(&self.path, target)?;
        self.kept = true;
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.kept {
            let _ = fs::remove_file(&self.path);
        }
    }
}
