//! Replaces envelopes: a change of the record alone that moves no data.
//!
//! Must not depend on: who seals content keys.

use ashlar_format::{Version, VersionId};
use futures::future::BoxFuture;

use crate::get::find;
use crate::registry::OpenBucket;
use crate::seal::{self, Sealed};
use crate::store::ChangeContext;
use crate::{Error, Result, Store};

impl Store {
    /// Replaces the envelope of a version, if it still is `from`. Parts, ETag and time stay, so the envelope
    /// of a locked version may be replaced too. Every version of the key with the same envelope, since it
    /// shares the data, gets the new one. Returns false if the envelope is another one now.
    ///
    /// # Errors
    /// As [`Store::get`], and `InvalidArgument` (the envelope is too long), `Conflict`.
    pub fn replace_envelope<'a>(
        &'a self,
        bucket: &'a OpenBucket,
        key: &'a str,
        version: Option<VersionId>,
        from: &'a str,
        to: &'a str,
    ) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            seal::check_envelope(to)?;
            let key = self.inner.object_key(bucket, key)?;
            let decide = |list: &[Version], _: &crate::Bucket| {
                let index = find(list, version)?;
                let same = |v: &Version| Sealed::of(&v.meta).map(|s| s.filter(|s| s.envelope == from));
                if same(&list[index])?.is_none() {
                    return Ok((None, false));
                }
                let mut next = list.to_vec();
                for v in &mut next {
                    if let Ok(Some(sealed)) = same(v) {
                        let envelope = to.to_owned();
                        seal::set(&mut v.meta, &Sealed { envelope, ..sealed });
                    }
                }
                Ok((Some(next), true))
            };
            match self
                .inner
                .change(
                    bucket.handle(),
                    &key,
                    None,
                    false,
                    ChangeContext { version, ..ChangeContext::default() },
                    decide,
                )
                .await
            {
                Err(Error::Busy) => Err(Error::Conflict),
                other => other,
            }
        })
    }
}
