//! A local file to a key: in one request, or in parts that survive an interruption.

use std::{fs::File, os::unix::fs::FileExt, path::Path, sync::Arc};

use ashlar_client::{Body, FileRange, Part, PutOptions};

use super::Engine;
use crate::{
    failure::{Outcome, While},
    mime,
    place::Remote,
};

impl Engine {
    pub(super) async fn upload(&self, from: &Path, to: &Remote) -> Outcome {
        let file = Arc::new(File::open(from).when(|| format!("cannot open {}", from.display()))?);
        let size = file.metadata()?.len();
        let mut options = self.options.clone();
        if options.content_type.is_none() {
            options.content_type =
                mime::of_name(&to.key).or_else(|| mime::of_name(from.to_str()?)).map(str::to_owned);
        }
        if size <= self.part_size {
            let _permit = self.permit().await;
            let body = self.file_body(&file, 0, size);
            to.client.put_object(&to.bucket, &to.key, body, &options).await?;
            return Ok(());
        }
        let ranges = self.parts(size, 0);
        let (upload_id, have) = match self.interrupted(&file, to, &ranges).await {
            Some(found) => found,
            None => (to.client.create_multipart(&to.bucket, &to.key, &options).await?, Vec::new()),
        };
        self.progress.done(have.iter().map(|p| p.size).sum());
        let plain = PutOptions { payload: options.payload, ..PutOptions::default() };
        let (file, upload) = (&file, upload_id.as_str());
        let (plain, client) = (&plain, &to.client);
        self.multipart(to, upload, ranges, have, plain, |number, offset, length| async move {
            let _permit = self.permit().await;
            let body = self.file_body(file, offset, length);
            Ok(client.upload_part(&to.bucket, &to.key, upload, number, body, plain).await?)
        })
        .await
    }

    fn file_body(&self, file: &Arc<File>, offset: u64, length: u64) -> Body {
        if length == 0 {
            return Body::Empty;
        }
        let range = FileRange::new(file.clone(), offset, length);
        Body::Source(Arc::new(range.with_progress(self.progress.reporter())))
    }

    /// The newest unfinished upload of this key and those of its parts that hold this file's
    /// bytes, by their MD5. `None` if there is none worth continuing.
    async fn interrupted(
        &self,
        file: &Arc<File>,
        to: &Remote,
        ranges: &[(u32, u64, u64)],
    ) -> Option<(String, Vec<Part>)> {
        if !self.resume {
            return None;
        }
        let page = to.client.list_uploads(&to.bucket, &to.key, None, None).await.ok()?;
        let upload = page.uploads.into_iter().filter(|u| u.key == to.key).max_by_key(|u| u.initiated)?;
        let there = to.client.list_parts(&to.bucket, &to.key, &upload.upload_id).await.ok()?;
        let mut have = Vec::new();
        for part in there {
            let range = ranges.iter().find(|(n, _, length)| *n == part.number && *length == part.size);
            let Some(&(_, offset, length)) = range else { continue };
            self.progress.message(&format!("comparing part {} of {to}", part.number));
            let file = file.clone();
            let hashed =
                ashlar_environment::spawn_blocking("hash-part", move || md5_of_range(&file, offset, length))
                    .await;
            if matches!(hashed, Ok(Ok(md5)) if md5 == part.etag) {
                have.push(part);
            }
        }
        (!have.is_empty()).then_some((upload.upload_id, have))
    }
}

/// MD5 of a part, in hexadecimal; holds one part in memory.
fn md5_of_range(file: &File, offset: u64, length: u64) -> std::io::Result<String> {
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(ashlar_checksum::md5_once(&bytes).iter().map(|b| format!("{b:02x}")).collect())
}
