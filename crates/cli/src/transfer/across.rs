//! Copies between keys: on the server if possible, otherwise through this process.

use ashlar_client::{Body, CopyOptions, GetOptions, Head, PutOptions};
use futures::TryStreamExt;

use super::{Engine, options_of, retry, same_endpoint};
use crate::{failure::Outcome, location::Remote, tree::Item};

/// The largest object that one copy request may have, by the protocol.
const COPY_LIMIT: u64 = 5 << 30;
/// The part size of copies on the server: no data passes through here, so large parts are better.
const COPY_PART: u64 = 256 << 20;

impl Engine {
    pub(super) async fn across(&self, from: &Remote, item: &Item, to: &Remote) -> Outcome {
        if same_endpoint(&from.client, &to.client) {
            self.copy_on_server(from, item, to).await
        } else {
            self.copy_through(from, item, to).await
        }
    }

    async fn copy_on_server(&self, from: &Remote, item: &Item, to: &Remote) -> Outcome {
        let source = (from.bucket.as_str(), from.key.as_str());
        let mut copy = CopyOptions { source_version: item.version_id.clone(), ..CopyOptions::default() };
        if item.size <= COPY_LIMIT {
            let _permit = self.permit().await;
            if self.changes_metadata() {
                let head = self.head(from, item).await?;
                copy.replace = Some(options_of(&head, &self.options));
            }
            to.client.copy_object(source, (&to.bucket, &to.key), &copy).await?;
            self.progress.done(item.size);
            return Ok(());
        }
        let head = self.head(from, item).await?;
        copy.source_if_match = Some(head.etag.clone());
        // Parts that the server copies have no trailing checksum.
        let options = PutOptions {
            payload: Some(ashlar_client::Payload::Unsigned),
            ..options_of(&head, &self.options)
        };
        let id = to.client.create_multipart(&to.bucket, &to.key, &options).await?;
        let (id, copy, client) = (id.as_str(), &copy, &to.client);
        let ranges = self.parts(head.size, COPY_PART);
        self.multipart(to, id, ranges, Vec::new(), &options, |number, offset, length| async move {
            let _permit = self.permit().await;
            let range = (offset, offset + length - 1);
            let part = client.upload_part_copy(&to.bucket, &to.key, id, number, source, range, copy).await?;
            self.progress.done(length);
            Ok(part)
        })
        .await
    }

    /// Streams the data from one server to the other; an interrupted transfer of a part starts again.
    async fn copy_through(&self, from: &Remote, item: &Item, to: &Remote) -> Outcome {
        let head = self.head(from, item).await?;
        let options = &options_of(&head, &self.options);
        let etag = head.etag.as_str();
        if head.size <= self.part_size {
            let _permit = self.permit().await;
            return retry(|| async {
                let body = self.stream(from, item, etag, None, head.size).await?;
                to.client.put_object(&to.bucket, &to.key, body, options).await?;
                Ok(())
            })
            .await;
        }
        let id = to.client.create_multipart(&to.bucket, &to.key, options).await?;
        let (id, client) = (id.as_str(), &to.client);
        let plain = &PutOptions { payload: options.payload, ..PutOptions::default() };
        self.multipart(
            to,
            id,
            self.parts(head.size, 0),
            Vec::new(),
            plain,
            |number, offset, length| async move {
                let _permit = self.permit().await;
                retry(|| async {
                    let range = Some((offset, Some(offset + length - 1)));
                    let body = self.stream(from, item, etag, range, length).await?;
                    Ok(client.upload_part(&to.bucket, &to.key, id, number, body, plain).await?)
                })
                .await
            },
        )
        .await
    }

    async fn head(&self, from: &Remote, item: &Item) -> Outcome<Head> {
        let options = GetOptions { version_id: item.version_id.clone(), ..GetOptions::default() };
        Ok(from.client.head_object(&from.bucket, &from.key, &options).await?)
    }

    async fn stream(
        &self,
        from: &Remote,
        item: &Item,
        etag: &str,
        range: Option<(u64, Option<u64>)>,
        length: u64,
    ) -> Outcome<Body> {
        if length == 0 {
            return Ok(Body::Empty);
        }
        let options = GetOptions {
            range,
            version_id: item.version_id.clone(),
            if_match: Some(etag.to_owned()),
            ..GetOptions::default()
        };
        let object = from.client.get_object(&from.bucket, &from.key, &options).await?;
        let report = self.progress.reporter();
        let bytes =
            object.body.map_err(std::io::Error::other).inspect_ok(move |piece| report(piece.len() as u64));
        Ok(Body::stream(length, Box::pin(bytes)))
    }

    fn changes_metadata(&self) -> bool {
        self.options.content_type.is_some()
            || !self.options.metadata.is_empty()
            || !self.options.headers.is_empty()
    }
}
