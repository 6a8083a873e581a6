//! Tests of delegation: no sequence of administration calls gives the caller, or a credential that the
//! caller made, a permission that the caller did not have.
//!
//! The callers differ in how they hold their policies: attached to a user, through a group, through claims,
//! a provider's role or a mapping, by an access key or a session. All but one are bound by a `Deny`. The
//! calls are random, from a table of every route that changes identities, imports included. Permissions are
//! computed by `ashlar_policy::decide` from the stored state, not by asking the routes.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use ashlar_cluster::{Embedded, MemoryMedium};
use ashlar_format::DeploymentId;
use ashlar_iam::{Assume, Entity, Federated, Iam, Identity, NewKey, Root, Secret};
use ashlar_idp::{Environment, Idp, ProviderContext, Web, WebAsk, Within};
use ashlar_object::{Options, Store};
use ashlar_policy::{Action, BucketRules, Context as Facts, Request as Question, decide};
use ashlar_s3::target::Query;
use ashlar_s3::{Config, Context, Keys, Origins, Service, Verifier};
use bytes::Bytes;
use serde_json::{Value, json};

use super::admin_request::{AdminRequest, AdminResult};
use super::identities::Identities;
use super::table::Route;
use super::transfer;

const ROOT: &str = "root-of-the-test";
const SECRET: &str = "a-long-enough-secret";
/// A user of an external directory.
const PERSON: &str = "uid=bound,ou=people,dc=test";

/// A client for identity providers of which none answers.
struct Silent;

impl Web for Silent {
    fn ask(&self, _: WebAsk) -> Within<'_> {
        Box::pin(async { Err("connection refused".into()) })
    }
}

fn statement(effect: &str, actions: &[&str], resource: &str) -> Value {
    json!({ "Effect": effect, "Action": actions, "Resource": resource })
}

fn policy(statements: &[Value]) -> Value {
    json!({ "Version": "2012-10-17", "Statement": statements })
}

fn maker() -> Value {
    policy(&[statement("Allow", &["admin:*"], "*"), statement("Allow", &["s3:*"], "arn:aws:s3:::*")])
}

fn fence() -> Value {
    policy(&[statement("Deny", &["s3:GetObject"], "arn:aws:s3:::secret/*")])
}

struct World {
    iam: Arc<Iam>,
    identities: Identities,
}

impl World {
    async fn new() -> World {
        let control = Embedded::create(DeploymentId([3; 16]), MemoryMedium::one_drive(), Vec::new())
            .await
            .unwrap()
            .control();
        let root = Root { access_key: ROOT.into(), secret: Secret::new(SECRET) };
        // The clock never returns the same millisecond twice, so that a session begun after a revocation is
        // later.
        let now = AtomicI64::new(1_800_000_000_000);
        let clock: ashlar_idp::Clock = Arc::new(move || now.fetch_add(1, Ordering::SeqCst));
        let iam = Arc::new(Iam::open(control, root, None, clock.clone()).await.unwrap());
        let provider_context = ProviderContext {
            iam: iam.clone(),
            environment: Environment::new(Vec::<(String, String)>::new()),
            web: Arc::new(Silent),
            clock,
            authorities: Vec::new(),
        };
        let idp = Idp::new(provider_context);
        let config = Config {
            context: Context {
                store: Store::in_memory(Options::default()).await.unwrap(),
                encryption: ashlar_s3::sse::Encryption::default(),
                region: "us-east-1".into(),
                owner_id: "0".repeat(64),
                owner_name: "root".into(),
                clock: || 1_800_000_000_000,
                notifications: Default::default(),
                people: None,
                me: std::sync::Weak::new(),
                any_region: false,
            },
            verifier: Verifier {
                keys: Keys::over(iam.clone()),
                region: "us-east-1".into(),
                any_region: false,
                v2: false,
            },
            authenticator: None,
            domains: Vec::new(),
            websites: Vec::new(),
            origins: Origins::default(),
            audit: None,
            host_id: "host".into(),
        };
        let world = World { identities: Identities::new(Arc::new(Service::new(config)), idp), iam };
        world.people().await;
        world
    }

    /// The users and groups that exist before the caller begins.
    async fn people(&self) {
        let iam = &self.iam;
        for (name, document) in [("maker", maker()), ("fence", fence())] {
            iam.put_policy(name, document.to_string().as_bytes()).await.unwrap();
        }
        let lifting = policy(&[statement("Allow", &["admin:*", "s3:ListBucket"], "*")]);
        iam.put_policy("lifting", lifting.to_string().as_bytes()).await.unwrap();
        for name in ["lifter", "bound", "member", "strong"] {
            iam.put_user(name, &Secret::new(SECRET), true).await.unwrap();
        }
        let attach = async |to: Entity<'_>, names: &[&str]| {
            let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
            iam.attach(to, &names).await.unwrap();
        };
        attach(Entity::User("lifter"), &["lifting"]).await;
        attach(Entity::User("strong"), &["readwrite"]).await;
        iam.add_members("power", &["strong".into()]).await.unwrap();
        attach(Entity::Group("power"), &["consoleAdmin"]).await;
    }

    async fn attach(&self, to: Entity<'_>) {
        self.iam.attach(to, &["maker".into(), "fence".into()]).await.unwrap();
    }

    fn ask(&self, caller: &Arc<Identity>, route: Route, name: &str, document: &Value) -> AdminRequest {
        AdminRequest {
            caller: caller.clone(),
            route,
            base: "",
            name: name.to_owned(),
            query: Query::default(),
            body: if document.is_null() { Bytes::new() } else { document.to_string().into() },
            ip: "127.0.0.1".parse().unwrap(),
            tls: true,
            authz_decision: Default::default(),
        }
    }

    async fn call(&self, caller: &Arc<Identity>, route: Route, name: &str, document: &Value) -> AdminResult {
        let req = self.ask(caller, route, name, document);
        match route {
            Route::IamImport | Route::IamExport => transfer::answer(&self.identities, &req).await,
            _ => self.identities.answer(&req).await,
        }
    }
}

/// How the test finds an identity again after each call.
#[derive(Clone, Debug)]
enum Who {
    /// By an access key.
    Key(String),
    /// By the claims of a provider.
    Federated(Box<Federated>),
    /// By the access key and token of a session.
    Session(String, String),
}

impl Who {
    fn identity(&self, iam: &Iam) -> Option<Arc<Identity>> {
        match self {
            Who::Key(name) => iam.find(name),
            Who::Federated(caller) => iam.federated(caller).map(Arc::new),
            Who::Session(key, token) => iam.session(key, token).ok(),
        }
    }
}

/// The callers, named by how each holds its policies.
const CALLERS: [&str; 8] =
    ["lifter", "user", "group", "claims", "role", "mapped user", "mapped group", "access key"];

async fn caller(world: &World, how: &str) -> Who {
    let iam = &world.iam;
    let federated = |provider: &str, id: &str| Federated {
        provider: provider.into(),
        id: id.into(),
        ..Federated::default()
    };
    let named = || vec!["maker".to_owned(), "fence".to_owned()];
    match how {
        "lifter" => Who::Key("lifter".into()),
        "user" => {
            world.attach(Entity::User("bound")).await;
            let user = iam.find("bound").unwrap();
            let s = iam.assume(&user, &Assume { duration_s: 3600, policy: None }).unwrap();
            // A session has the permissions of its user, with another secret.
            Who::Session(s.access_key, s.token)
        }
        "group" => {
            iam.add_members("fenced", &["bound".into()]).await.unwrap();
            world.attach(Entity::Group("fenced")).await;
            Who::Key("bound".into())
        }
        "claims" => {
            iam.trust([("openid/claims".to_owned(), Vec::new())].into());
            let caller = federated("openid/claims", "openid/claims/bound");
            Who::Federated(Box::new(Federated { policies: named(), ..caller }))
        }
        "role" => {
            iam.trust([("openid/role".to_owned(), named())].into());
            Who::Federated(Box::new(federated("openid/role", "openid/role/bound")))
        }
        "mapped user" => {
            iam.trust([("ldap/_".to_owned(), Vec::new())].into());
            world.attach(Entity::FederatedUser(PERSON)).await;
            Who::Federated(Box::new(federated("ldap/_", PERSON)))
        }
        "mapped group" => {
            iam.trust([("ldap/_".to_owned(), Vec::new())].into());
            world.attach(Entity::FederatedGroup("cn=fenced,dc=test")).await;
            let groups = vec!["cn=fenced,dc=test".to_owned()];
            Who::Federated(Box::new(Federated { groups, ..federated("ldap/_", PERSON) }))
        }
        _ => {
            world.attach(Entity::User("bound")).await;
            let new = NewKey { parent: "bound".into(), ..NewKey::default() };
            Who::Key(iam.add_key(new).await.unwrap().0)
        }
    }
}

/// The permissions of an identity, of all that the test examines.
fn allowed(caller: &Identity) -> Vec<(&'static str, &'static str)> {
    let facts = Facts { now_ms: 1_800_000_000_000, secure: true, ..Facts::default() };
    let principal = caller.principal();
    let mut out = Vec::new();
    for action in Action::ALL {
        for bucket in ["b", "secret"] {
            let key = if action.level() == ashlar_policy::Level::Object { "k" } else { "" };
            let question = Question::new(*action, bucket, key, &principal, &facts);
            if decide(&question, &caller.authority(BucketRules::default(), false)).allowed {
                out.push((action.name(), bucket));
            }
        }
    }
    out
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n
    }

    fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

/// A random call; `mine`: a name that does not exist yet.
fn any_call(random: &mut Random, mine: &str) -> (Route, String, Value) {
    let me = ["openid/claims/bound", "openid/role/bound", PERSON];
    let user = *random.pick(&[mine, mine, "bound", "lifter", "strong", "member", ROOT]);
    let group = *random.pick(&["fenced", "power", "fresh"]);
    let own = format!("p{mine}");
    let name =
        random.pick(&["maker", "fence", "fence", "lifting", "readwrite", "consoleAdmin", &own]).to_string();
    let harmless = policy(&[statement("Deny", &["s3:PutBucketVersioning"], "arn:aws:s3:::nobody")]);
    let wide = policy(&[statement("Allow", &["*"], "*")]);
    let document = random.pick(&[harmless, maker(), wide, fence()]).clone();
    let to = match random.below(4) {
        0 => json!({ "policies": [name], "user": user }),
        1 => json!({ "policies": [name], "group": group }),
        2 => json!({ "policies": [name], "federated_user": random.pick(&me) }),
        _ => json!({ "policies": [name], "federated_group": "cn=fenced,dc=test" }),
    };
    match random.below(16) {
        0 => (Route::UserPut, user.into(), json!({ "secret": SECRET })),
        1 => (Route::UserRemove, user.into(), Value::Null),
        2 => (Route::UserDisable, user.into(), Value::Null),
        3 => (Route::UserEnable, user.into(), Value::Null),
        4 | 5 => (Route::PolicyPut, name, document),
        6 => (Route::PolicyRemove, name, Value::Null),
        7 => (Route::PolicyAttach, String::new(), to),
        8 | 9 => (Route::PolicyDetach, String::new(), to),
        10 => (Route::GroupMembers, group.into(), json!({ "add": [user] })),
        11 => (Route::GroupMembers, group.into(), json!({ "remove": [user] })),
        12 => {
            let route = *random.pick(&[Route::GroupDisable, Route::GroupEnable, Route::GroupRemove]);
            (route, group.into(), Value::Null)
        }
        13 => (Route::KeyCreate, String::new(), json!({ "user": user })),
        14 => (Route::KeyCreate, String::new(), json!({})),
        _ => {
            let all = match random.below(4) {
                0 => json!({ "policies": { (name): document } }),
                1 => json!({ "users": { (user): { "secret": SECRET, "enabled": true } },
                             "user_policies": { (user): [name] } }),
                2 => json!({ "groups": { (group): { "members": [user], "enabled": true } },
                             "group_policies": { (group): [name] } }),
                _ => {
                    json!({ "keys": { (format!("K{mine}")): { "user": user, "secret": SECRET, "enabled": true } },
                             "federated_user_policies": { (*random.pick(&me)): [name] } })
                }
            };
            (Route::IamImport, String::new(), all)
        }
    }
}

#[tokio::test]
async fn no_sequence_of_calls_escalates_privileges() {
    let seed = std::env::var("SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(0x5eed_2026_1122);
    println!("SEED={seed}");
    let rounds = std::env::var("LATTICE_ROUNDS").ok().and_then(|s| s.parse().ok()).unwrap_or(12);
    let mut random = Random(seed);
    for how in CALLERS {
        let mut taken = 0;
        for round in 0..rounds {
            let world = World::new().await;
            let first = caller(&world, how).await;
            let before = allowed(&first.identity(&world.iam).unwrap());
            assert!(before.iter().any(|(a, _)| *a == "admin:CreatePolicy"), "{how}");
            assert!(!before.contains(&("s3:GetObject", "secret")), "{how}: the Deny is in force");
            // Includes identities that can be signed in as without a call.
            let mut known = vec![first.clone()];
            let mut calls = Vec::new();
            for step in 0..6 {
                let mine = format!("m{round}x{step}");
                let Some(caller) = random.pick(&known).identity(&world.iam) else { continue };
                let (route, name, document) = any_call(&mut random, &mine);
                let reply = world.call(&caller, route, &name, &document).await;
                let done = matches!(&reply, Ok((status, _)) if status.is_success());
                calls.push(format!("{route:?} {name} {document}: {}", if done { "done" } else { "refused" }));
                let Ok((_, answer)) = reply else { continue };
                taken += 1;
                let created = match route {
                    // A caller that sets a secret can use the credential.
                    Route::UserPut => Some(name),
                    Route::KeyCreate => answer["access_key"].as_str().map(str::to_owned),
                    Route::IamImport => {
                        let records = answer["records"].as_array().unwrap();
                        let secret = |r: &&Value| {
                            r["outcome"] == "added" && (r["kind"] == "user" || r["kind"] == "key")
                        };
                        records.iter().find(secret).and_then(|r| r["name"].as_str()).map(str::to_owned)
                    }
                    _ => None,
                };
                known.extend(created.map(Who::Key));
                for caller in &known {
                    let Some(identity) = caller.identity(&world.iam) else { continue };
                    let more: Vec<_> =
                        allowed(&identity).into_iter().filter(|a| !before.contains(a)).collect();
                    assert!(more.is_empty(), "{how}: {caller:?} gained {more:?} by {calls:#?}");
                }
            }
        }
        assert!(taken > 0, "{how}: nothing was done at all");
    }
}

/// A user whose token claims `maker,fence` cannot rewrite `fence`.
#[tokio::test]
async fn policies_of_claims_roles_and_mappings_need_full_administrators() {
    for how in ["claims", "role", "mapped user", "mapped group"] {
        let world = World::new().await;
        let caller = caller(&world, how).await.identity(&world.iam).unwrap();
        let harmless = policy(&[statement("Deny", &["s3:PutBucketVersioning"], "arn:aws:s3:::nobody")]);
        let other = world.iam.find("lifter").unwrap();
        for asker in [&caller, &other] {
            for (route, document) in [(Route::PolicyPut, &harmless), (Route::PolicyRemove, &Value::Null)] {
                let refused = world.call(asker, route, "fence", document).await.unwrap_err();
                let conflict = route == Route::PolicyRemove && how != "claims";
                assert!(
                    refused.status == 403 || (conflict && refused.status == 409),
                    "{how} {route:?}: {refused:?}"
                );
            }
        }
        let import = json!({ "policies": { "fence": harmless } });
        let (_, answer) = world.call(&caller, Route::IamImport, "", &import).await.unwrap();
        assert_eq!(answer["records"][0]["outcome"], "failed", "{how}: {answer}");
        assert_eq!(world.iam.policy("fence").unwrap().policy.to_json(), world_fence(), "{how}");
        // Root, and a name that no identity can hold yet.
        world.call(&world.iam.root(), Route::PolicyPut, "fence", &fence()).await.unwrap();
        let listing = policy(&[statement("Allow", &["s3:ListBucket"], "arn:aws:s3:::*")]);
        world.call(&other, Route::PolicyPut, "fresh", &listing).await.unwrap();
    }
}

fn world_fence() -> String {
    let text = fence().to_string();
    ashlar_policy::Policy::parse(ashlar_policy::Attached::Identity, text.as_bytes()).unwrap().to_json()
}
