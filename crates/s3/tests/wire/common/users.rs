//! Users over a control store in memory.

use std::sync::Arc;

use ashlar_cluster::{Embedded, MemoryMedium};
use ashlar_format::DeploymentId;
use ashlar_iam::{Entity, Iam, Root, Secret};
use ashlar_s3::Keys;

use super::{KEY, Req, SECRET, Server, unix};

/// Users, none yet, of a deployment whose root is [`KEY`]; and what runs their changes.
pub fn users() -> (Arc<Iam>, tokio::runtime::Runtime) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let iam = runtime.block_on(async {
        let control = Embedded::create(DeploymentId([3; 16]), MemoryMedium::one_drive(), Vec::new())
            .await
            .unwrap()
            .control();
        let root = Root { access_key: KEY.into(), secret: Secret::new(SECRET) };
        // It never shows the same millisecond twice: what is made after a revocation is later.
        let now = std::sync::atomic::AtomicI64::new(unix(0) * 1000);
        let clock = Arc::new(move || now.fetch_add(1, std::sync::atomic::Ordering::SeqCst));
        Arc::new(Iam::open(control, root, None, clock).await.unwrap())
    });
    (iam, runtime)
}

pub const USERS_SECRET: &str = "secret-of-the-user";

/// A server with users.
pub struct World {
    pub server: Server,
    pub iam: Arc<Iam>,
    pub runtime: tokio::runtime::Runtime,
}

impl World {
    /// A server with the buckets `b-1` (versioned) and `b-2`, the key `k` in both.
    pub fn new() -> World {
        let (iam, runtime) = users();
        let for_server = iam.clone();
        let server = Server::with(move |config| config.verifier.keys = Keys::over(for_server));
        let world = World { server, iam, runtime };
        for bucket in ["b-1", "b-2"] {
            world.server.make_bucket(bucket);
        }
        let on = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
        world.root("PUT", "/b-1").q("versioning", "").body(on).send().expect(200);
        for bucket in ["b-1", "b-2"] {
            world.server.put(&format!("/{bucket}/k"), b"hello").expect(200);
        }
        world
    }

    pub fn root(&self, method: &str, path: &str) -> Req {
        self.server.req(method, path)
    }

    /// A user with one policy of its own that has these statements.
    pub fn user(&self, name: &str, statements: &str) {
        let document = format!("{{\"Version\":\"2012-10-17\",\"Statement\":[{statements}]}}");
        self.runtime.block_on(async {
            self.iam.put_user(name, &Secret::new(USERS_SECRET), true).await.unwrap();
            let old: Vec<String> = self.iam.user(name).unwrap().policies.into_iter().collect();
            self.iam.detach(Entity::User(name), &old).await.unwrap();
            if !statements.is_empty() {
                let policy = format!("of-{name}");
                self.iam
                    .put_policy(&policy, document.as_bytes())
                    .await
                    .unwrap_or_else(|e| panic!("{document}: {e}"));
                self.iam.attach(Entity::User(name), &[policy]).await.unwrap();
            }
        });
    }

    pub fn by(&self, user: &str, method: &str, path: &str) -> Req {
        self.root(method, path).set(|r| {
            r.key = user.into();
            r.secret = USERS_SECRET.into();
        })
    }
}

pub fn allow(actions: &str, resource: &str) -> String {
    format!(r#"{{"Effect":"Allow","Action":[{actions}],"Resource":["{resource}"]}}"#)
}
