//! A control store in memory that can be opened again.

use std::sync::Arc;

use ashlar_cluster::{Control, Embedded, Medium};
use ashlar_format::{DeploymentId, DriveId};
use parking_lot::Mutex;

/// What a drive would keep.
#[derive(Default)]
pub struct Slots(Mutex<[Option<Vec<u8>>; 2]>);

impl Medium for Slots {
    fn read(&self, slot: usize) -> std::io::Result<Option<Vec<u8>>> {
        Ok(self.0.lock()[slot].clone())
    }
    fn write(&self, slot: usize, bytes: &[u8]) -> std::io::Result<()> {
        self.0.lock()[slot] = Some(bytes.to_vec());
        Ok(())
    }
}

impl Slots {
    /// Everything that is stored.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().iter().flatten().flatten().copied().collect()
    }
}

const DEPLOYMENT: DeploymentId = DeploymentId([3; 16]);

/// A fresh store, and what it is kept on.
pub async fn create() -> (Control, Arc<Slots>) {
    let slots = Arc::new(Slots::default());
    let media: Vec<(DriveId, Arc<dyn Medium>)> = vec![(DriveId([1; 16]), slots.clone())];
    (Embedded::create(DEPLOYMENT, media, Vec::new()).await.unwrap().control(), slots)
}

/// The same again, as after a restart.
pub async fn again(slots: &Arc<Slots>) -> Control {
    let media: Vec<(DriveId, Arc<dyn Medium>)> = vec![(DriveId([1; 16]), slots.clone())];
    Embedded::open(DEPLOYMENT, media).await.unwrap().control()
}
