//! Users over a control store in memory.

use std::sync::Arc;

use ashlar_cluster::{Control, Medium};
use ashlar_format::{DeploymentId, DriveId};
use ashlar_iam::{Iam, Root, Secret};

use super::{KEY, SECRET, unix};

#[derive(Default)]
struct Slots(parking_lot::Mutex<[Option<Vec<u8>>; 2]>);

impl Medium for Slots {
    fn read(&self, slot: usize) -> std::io::Result<Option<Vec<u8>>> {
        Ok(self.0.lock()[slot].clone())
    }
    fn write(&self, slot: usize, bytes: &[u8]) -> std::io::Result<()> {
        self.0.lock()[slot] = Some(bytes.to_vec());
        Ok(())
    }
}

/// Users, none yet, of a deployment whose root is [`KEY`]; and what runs their changes.
pub fn users() -> (Arc<Iam>, tokio::runtime::Runtime) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let iam = runtime.block_on(async {
        let media: Vec<(DriveId, Arc<dyn Medium>)> = vec![(DriveId([1; 16]), Arc::new(Slots::default()))];
        let control = Control::create(DeploymentId([3; 16]), media, Vec::new()).await.unwrap();
        let root = Root { access_key: KEY.into(), secret: Secret::new(SECRET) };
        // It never shows the same millisecond twice: what is made after a revocation is later.
        let now = std::sync::atomic::AtomicI64::new(unix(0) * 1000);
        let clock = Arc::new(move || now.fetch_add(1, std::sync::atomic::Ordering::SeqCst));
        Arc::new(Iam::open(control, root, None, clock).await.unwrap())
    });
    (iam, runtime)
}
