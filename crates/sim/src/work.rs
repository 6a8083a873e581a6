//! The calls that clients make, drawn from the seed.
//!
//! Must not depend on: faults.

use std::sync::Arc;
use std::time::Duration;

use ashlar_environment::random::Seeded;
use ashlar_environment::time::sleep;

use crate::client::{Clients, Put};
use crate::keys::Value;

/// Keys without versions, except those of renames.
pub const SINGLES: [u8; 2] = [2, 3];
/// The keys between which there are renames.
pub const PAIR: [u8; 2] = [0, 1];
/// The key of uploads.
pub const UPLOADED: u8 = 4;
/// The key with versions.
pub const WITH_VERSIONS: u8 = 100;

/// All keys in the bucket without versions.
#[must_use]
pub fn plain() -> Vec<u8> {
    PAIR.iter().chain(&SINGLES).chain(&[UPLOADED]).copied().collect()
}

/// A client.
pub struct Client {
    clients: Arc<Clients>,
    rng: Seeded,
    number: u64,
    made: u64,
    /// The values that it has put into the key with versions.
    versions: Vec<Put>,
}

impl Client {
    /// The client with this number.
    #[must_use]
    pub fn new(clients: &Arc<Clients>, number: u64) -> Client {
        let rng = Seeded::new(clients.cluster.plan.seed ^ (number + 1) << 48);
        Client { clients: clients.clone(), rng, number, made: 0, versions: Vec::new() }
    }

    fn value(&mut self) -> Value {
        self.made += 1;
        (self.number + 1) * 1000 + self.made
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.rng.below(from.len() as u64) as usize]
    }

    fn somewhere(&mut self) -> usize {
        self.rng.below(self.clients.cluster.plan.coordinators as u64) as usize
    }

    /// Makes this number of calls, one after another.
    pub async fn work(mut self, calls: u64) {
        for _ in 0..calls {
            let pause = [0, 200, 2_000, 100_000][self.rng.below(4) as usize];
            sleep(Duration::from_micros(self.rng.below(pause + 1))).await;
            match self.rng.below(22) {
                0..6 => self.single().await,
                6 | 7 => self.race().await,
                8..12 => self.pair().await,
                12..15 => self.upload().await,
                15..19 => self.versioned().await,
                19 => self.expiry().await,
                20 => self.sweeps().await,
                _ => {
                    let (at, page) = (self.somewhere(), 1 + self.rng.below(4) as usize);
                    self.clients.list(at, &plain(), page).await;
                }
            }
        }
    }

    async fn single(&mut self) {
        let (at, key, value) = (self.somewhere(), self.pick(&SINGLES), self.value());
        match self.rng.below(8) {
            0..2 => drop(self.clients.put(at, key, value).await),
            2 => self.clients.create(at, key, value).await,
            3 => {
                let got = self.clients.get(at, key).await.ok().flatten();
                let at = self.somewhere();
                match got {
                    Some(got) => self.clients.replace(at, key, &got, value).await,
                    None => self.clients.create(at, key, value).await,
                }
            }
            4 | 5 => drop(self.clients.delete(at, key).await),
            _ => drop(self.clients.get(at, key).await),
        }
    }

    /// Two coordinators change one key at the same time, each on the condition that it is unchanged.
    async fn race(&mut self) {
        let (at, key) = (self.somewhere(), self.pick(&SINGLES));
        let (first, second) = (self.value(), self.value());
        let other = (at + 1) % self.clients.cluster.plan.coordinators;
        match self.clients.get(at, key).await.ok().flatten() {
            Some(got) => {
                let one = self.clients.replace(at, key, &got, first);
                let two = self.clients.replace(other, key, &got, second);
                futures::join!(one, two);
            }
            None => {
                let one = self.clients.create(at, key, first);
                let two = self.clients.create(other, key, second);
                futures::join!(one, two);
            }
        }
    }

    /// The lifecycle passes of two coordinators remove what one of them has read.
    async fn expiry(&mut self) {
        let (at, key, value) = (self.somewhere(), self.pick(&SINGLES), self.value());
        let Some(got) = self.clients.get(at, key).await.ok().flatten() else { return };
        let (first, second, third) = (self.somewhere(), self.somewhere(), self.somewhere());
        if self.rng.below(2) == 0 {
            let one = self.clients.expire(first, key, &got);
            let two = self.clients.expire(second, key, &got);
            futures::join!(one, two);
        } else {
            let expire = self.clients.expire(first, key, &got);
            let put = self.clients.put(third, key, value);
            drop(futures::join!(expire, put));
        }
    }

    /// Two coordinators collect the same uploads.
    async fn sweeps(&mut self) {
        let (first, second) = (self.somewhere(), self.somewhere());
        futures::join!(self.clients.sweep(first), self.clients.sweep(second));
    }

    async fn pair(&mut self) {
        let (at, value) = (self.somewhere(), self.value());
        let (from, to) = if self.rng.below(2) == 0 { (0, 1) } else { (1, 0) };
        match self.rng.below(5) {
            0 | 1 => drop(self.clients.put(at, from, value).await),
            2 => drop(self.clients.delete(at, from).await),
            _ => {
                let Some(got) = self.clients.get(at, from).await.ok().flatten() else { return };
                let at = self.somewhere();
                self.clients.rename(at, from, to, &got).await;
            }
        }
    }

    async fn upload(&mut self) {
        let (at, value) = (self.somewhere(), self.value());
        let Some(upload) = self.clients.begin(at, UPLOADED, value).await.ok() else { return };
        let (first, second) = (self.somewhere(), self.somewhere());
        match self.rng.below(4) {
            0 => drop(self.clients.complete(first, UPLOADED, value, upload).await),
            1 => drop(self.clients.abort(first, UPLOADED, value, upload.0).await),
            2 => {
                let complete = self.clients.complete(first, UPLOADED, value, upload);
                let abort = self.clients.abort(second, UPLOADED, value, upload.0);
                drop(futures::join!(complete, abort));
            }
            _ => {
                let complete = self.clients.complete(first, UPLOADED, value, upload);
                let again = self.clients.complete(second, UPLOADED, value, upload);
                drop(futures::join!(complete, again));
            }
        }
        let at = self.somewhere();
        match self.rng.below(3) {
            0 => drop(self.clients.delete(at, UPLOADED).await),
            _ => drop(self.clients.get(at, UPLOADED).await),
        }
    }

    async fn versioned(&mut self) {
        let (at, value) = (self.somewhere(), self.value());
        let old = (!self.versions.is_empty()).then(|| self.rng.below(self.versions.len() as u64) as usize);
        match (self.rng.below(6), old) {
            (0, Some(old)) => {
                let put = self.versions[old].clone();
                self.clients.get_version(at, WITH_VERSIONS, &put).await;
            }
            (1, Some(old)) => {
                let put = self.versions[old].clone();
                self.clients.delete_version(at, WITH_VERSIONS, &put).await;
            }
            (2, _) => drop(self.clients.delete(at, WITH_VERSIONS).await),
            (3, _) => self.clients.versions(at, WITH_VERSIONS).await,
            (4, _) => drop(self.clients.get(at, WITH_VERSIONS).await),
            _ => self.versions.extend(self.clients.put(at, WITH_VERSIONS, value).await.ok()),
        }
    }
}
