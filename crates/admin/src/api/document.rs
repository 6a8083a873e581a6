//! The OpenAPI 3.1 description of the administration API, generated from the table of routes and the types.
//!
//! Invariant: a route does not compile unless this file states its answer and its request document. Must not
//! depend on: what a route does.

use serde_json::{Map, Value, json};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema, ToSchema};

use super::{
    OpenApi, PolicyDocument, audit, cluster, history, keys, orders, people, placement, settings, state,
};
use crate::settings as settings_requests;
use crate::table::{Route, SignInRoute};
use crate::{
    heal_limits, identities, kms, lifecycle, permissions, providers, quotas, sign_in_test, transfer,
};

type Schemas = Vec<(String, RefOr<Schema>)>;

/// The name of a type, and the schemas that describe it.
struct Shape {
    name: String,
    schemas: Schemas,
}

fn of<T: ToSchema>() -> Shape {
    let mut schemas = vec![(T::name().into_owned(), <T as PartialSchema>::schema())];
    T::schemas(&mut schemas);
    Shape { name: T::name().into_owned(), schemas }
}

/// The type that a route answers.
fn answer(route: Route) -> Shape {
    match route {
        Route::Info => of::<state::Info>(),
        Route::UsageList => of::<state::UsageList>(),
        Route::UsageGet => of::<state::BucketUsage>(),
        // One route per line.
        Route::Trace => of::<state::TraceEvent>(),
        Route::Logs => of::<state::LogLine>(),
        Route::Top => of::<state::Top>(),
        Route::History => of::<history::MetricsHistory>(),
        Route::HealStatus => of::<state::HealStatus>(),
        Route::HealLimits | Route::HealLimitsPut | Route::HealLimitsRemove => of::<state::StoredHealLimits>(),
        Route::HealStart | Route::DriveScrub => of::<state::HealStarted>(),
        Route::Drives | Route::DriveOffline | Route::DriveOnline | Route::DriveReplace => {
            of::<state::DriveList>()
        }
        Route::DriveRecover | Route::DriveRecovery => of::<state::Recovery>(),
        Route::ClusterStatus => of::<cluster::Cluster>(),
        Route::ClusterMayStop => of::<cluster::MayStop>(),
        Route::ClusterToken => of::<cluster::Token>(),
        Route::ClusterUpgrade => of::<cluster::Upgrade>(),
        Route::ClusterRemove => of::<cluster::NodeRemoved>(),
        Route::ClusterAuthority => of::<cluster::Rotation>(),
        Route::ClusterControlMembers => of::<cluster::ControlMembers>(),
        Route::AuditSearch => of::<audit::AuditRecords>(),
        Route::MetricsToken => of::<state::MetricsToken>(),
        Route::UserList => of::<people::UserList>(),
        Route::UserGet | Route::UserPut => of::<people::User>(),
        Route::UserEnable | Route::UserDisable | Route::UserRevoke => of::<people::User>(),
        Route::UserRemove | Route::GroupRemove | Route::PolicyRemove => of::<people::Removed>(),
        Route::GroupList => of::<people::GroupList>(),
        Route::GroupGet | Route::GroupMembers => of::<people::Group>(),
        Route::GroupEnable | Route::GroupDisable => of::<people::Group>(),
        Route::PolicyList => of::<people::PolicyList>(),
        Route::PolicyGet | Route::PolicyPut => of::<people::NamedPolicy>(),
        Route::PolicyAttach | Route::PolicyDetach => of::<people::Associated>(),
        Route::MappingList => of::<people::MappingList>(),
        Route::KeyList => of::<people::KeyList>(),
        Route::KeyCreate | Route::KeyGet | Route::KeyEdit => of::<people::Key>(),
        Route::KeyRemove => of::<people::KeyRemoved>(),
        Route::QuotaGet | Route::QuotaPut | Route::QuotaRemove => of::<state::BucketQuota>(),
        Route::LifecycleStatus => of::<state::LifecycleStatus>(),
        Route::LifecycleTest => of::<state::LifecycleTest>(),
        Route::LifecycleSimulate => of::<state::LifecycleForecast>(),
        Route::KmsStatus => of::<keys::EncryptionStatus>(),
        Route::KmsKeyList => of::<keys::EncryptionKeyList>(),
        Route::KmsKeyGet | Route::KmsKeyCreate | Route::KmsKeyRotate => of::<keys::EncryptionKey>(),
        Route::RewrapStart | Route::RewrapStatus => of::<keys::Rewrap>(),
        Route::Simulate => of::<people::Simulated>(),
        Route::Permissions => of::<people::Permissions>(),
        Route::ProviderGet | Route::ProviderPut | Route::ProviderEdit => of::<settings::Provider>(),
        Route::ProviderEnable | Route::ProviderDisable => of::<settings::Provider>(),
        Route::ProviderRemove => of::<settings::ProviderRemoved>(),
        Route::ProviderTest => of::<settings::SignInTest>(),
        Route::IamExport => of::<transfer::Document>(),
        Route::IamImport => of::<people::Imported>(),
        Route::EventList => of::<state::EventTargetList>(),
        Route::EventTest => of::<state::EventTest>(),
        Route::DeadLetterList => of::<state::DeadLetterList>(),
        Route::DeadLetterReplay | Route::DeadLetterRemove => of::<state::DeadLetterCount>(),
        Route::SettingList => of::<settings::SettingList>(),
        Route::SettingGet | Route::SettingPut => of::<settings::Setting>(),
        Route::SettingRemove => of::<settings::SettingRemoved>(),
        Route::ServiceStop | Route::ServiceRestart => of::<state::Ending>(),
        Route::Placement => of::<placement::ObjectPlacement>(),
        Route::PlacementHeal => of::<placement::ObjectHealed>(),
        Route::Why => of::<state::RequestRecord>(),
        Route::Document => of::<OpenApi>(),
    }
}

/// The type of the document that a route takes.
fn order(route: Route) -> Option<Shape> {
    Some(match route {
        Route::HealStart => of::<orders::Order>(),
        Route::HealLimitsPut => of::<heal_limits::Order>(),
        Route::DriveOffline | Route::DriveOnline | Route::DriveReplace => of::<orders::Order>(),
        Route::DriveRecover => of::<orders::RecoverOrder>(),
        Route::ClusterToken => of::<cluster::TokenOrder>(),
        Route::ClusterUpgrade => of::<cluster::UpgradeOrder>(),
        Route::ClusterRemove => of::<cluster::RemoveOrder>(),
        Route::ClusterAuthority => of::<cluster::RotationOrder>(),
        Route::ClusterControlMembers => of::<cluster::ControlMembersOrder>(),
        Route::UserPut => of::<identities::UserOrder>(),
        Route::GroupMembers => of::<identities::Members>(),
        Route::PolicyPut => of::<PolicyDocument>(),
        Route::PolicyAttach | Route::PolicyDetach => of::<identities::Association>(),
        Route::KeyCreate => of::<identities::KeyOrder>(),
        Route::KeyEdit => of::<identities::KeyPatch>(),
        Route::QuotaPut => of::<quotas::Order>(),
        Route::LifecycleTest => of::<lifecycle::Order>(),
        Route::LifecycleSimulate => of::<lifecycle::ForecastOrder>(),
        Route::RewrapStart => of::<kms::Order>(),
        Route::Simulate => of::<identities::Simulation>(),
        Route::Permissions => of::<permissions::PermissionOrder>(),
        Route::ProviderPut | Route::ProviderEdit => of::<providers::Order>(),
        Route::ProviderTest => of::<sign_in_test::SignInTestOrder>(),
        Route::IamImport => of::<transfer::Document>(),
        Route::SettingPut => of::<settings_requests::Order>(),
        Route::ServiceStop | Route::ServiceRestart => of::<orders::EndOrder>(),
        // A document that is sent anyway must be empty, or is not read.
        Route::Info
        | Route::UsageList
        | Route::UsageGet
        | Route::Trace
        | Route::Logs
        | Route::Top
        | Route::History
        | Route::HealStatus
        | Route::HealLimits
        | Route::HealLimitsRemove
        | Route::Drives
        | Route::DriveScrub
        | Route::DriveRecovery
        | Route::ClusterStatus
        | Route::ClusterMayStop
        | Route::MetricsToken
        | Route::UserList
        | Route::UserEnable
        | Route::UserDisable
        | Route::UserRevoke
        | Route::UserGet
        | Route::UserRemove
        | Route::GroupList
        | Route::GroupEnable
        | Route::GroupDisable
        | Route::GroupGet
        | Route::GroupRemove
        | Route::PolicyList
        | Route::PolicyGet
        | Route::PolicyRemove
        | Route::MappingList
        | Route::KeyList
        | Route::KeyGet
        | Route::KeyRemove
        | Route::QuotaGet
        | Route::QuotaRemove
        | Route::LifecycleStatus
        | Route::KmsStatus
        | Route::KmsKeyList
        | Route::KmsKeyRotate
        | Route::KmsKeyGet
        | Route::KmsKeyCreate
        | Route::RewrapStatus
        | Route::ProviderGet
        | Route::ProviderRemove
        | Route::ProviderEnable
        | Route::ProviderDisable
        | Route::IamExport
        | Route::EventList
        | Route::EventTest
        | Route::DeadLetterList
        | Route::DeadLetterReplay
        | Route::DeadLetterRemove
        | Route::SettingList
        | Route::SettingGet
        | Route::SettingRemove
        | Route::Placement
        | Route::PlacementHeal
        | Route::Why
        | Route::AuditSearch
        | Route::Document => return None,
    })
}

/// Whether the document of a route is required.
fn needs_order(route: Route) -> bool {
    matches!(
        route,
        Route::DriveOffline
            | Route::DriveOnline
            | Route::DriveReplace
            | Route::HealLimitsPut
            | Route::ClusterRemove
            | Route::ClusterAuthority
            | Route::ClusterControlMembers
            | Route::PolicyPut
            | Route::PolicyAttach
            | Route::PolicyDetach
            | Route::QuotaPut
            | Route::RewrapStart
            | Route::Simulate
            | Route::Permissions
            | Route::ProviderTest
    )
}

/// The success statuses of a route.
fn statuses(route: Route) -> &'static [&'static str] {
    match route {
        Route::HealStart | Route::DriveScrub | Route::DriveRecover | Route::RewrapStart => &["202"],
        // The first is the answer to a dry run.
        Route::ServiceStop | Route::ServiceRestart => &["200", "202"],
        _ => &["200"],
    }
}

/// Error statuses with their meaning. `names`: the request names something that may not exist. `changes`: the
/// request can conflict with the present state, or exceed the space of the drives.
fn refusals(names: bool, changes: bool) -> Vec<(&'static str, &'static str)> {
    let all = [
        ("400", "The request has to be changed", true),
        ("403", "Not signed, or not permitted", true),
        ("404", "What was named does not exist", names),
        ("409", "It contradicts what is there", changes),
        ("411", "A body without a length", true),
        ("500", "The server failed", true),
        ("503", "Not possible now; try again", true),
        ("507", "The drives are full", changes),
    ];
    all.into_iter().filter(|(_, _, can)| *can).map(|(status, what, _)| (status, what)).collect()
}

/// The pattern of a route as OpenAPI writes paths, without the leading `/`.
fn path(route: Route) -> String {
    let pattern = route.pattern();
    let names = match pattern.split('/').next().unwrap_or_default() {
        "idp" => "{kind}/{name}",
        "settings" => "{subsystem}/{target}",
        "quotas" | "lifecycle" | "usage" => "{bucket}",
        "why" => "{request_id}",
        "placement" => "{object}",
        "keys" => "{access_key}",
        _ => "{name}",
    };
    pattern.replace('*', names)
}

/// The description of a path parameter.
fn parameter(name: &str) -> Value {
    let (text, schema) = match name {
        "kind" => ("", json!({ "type": "string", "enum": ["openid", "ldap", "tls"] })),
        "subsystem" => {
            let all: Vec<_> = settings_requests::SUBSYSTEMS.iter().map(|s| s.name).collect();
            ("", json!({ "type": "string", "enum": all }))
        }
        "target" => ("`_` where there is only one.", json!({ "type": "string", "minLength": 1 })),
        "object" => ("BUCKET/KEY.", json!({ "type": "string", "minLength": 1 })),
        _ => ("It may hold slashes.", json!({ "type": "string", "minLength": 1 })),
    };
    json!({ "name": name, "in": "path", "required": true, "description": text, "schema": schema })
}

/// The names between braces in a path.
fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('{').skip(1).filter_map(|rest| rest.split('}').next())
}

/// A reference to a type; adds the type and those that it uses to the components.
fn content(shape: Shape, components: &mut Map<String, Value>) -> Value {
    let reference = format!("#/components/schemas/{}", shape.name);
    for (name, schema) in shape.schemas {
        components.insert(name, serde_json::to_value(schema).unwrap_or_default());
    }
    json!({ "application/json": { "schema": { "$ref": reference } } })
}

/// The query of a search of the audit log.
fn audit_query() -> Vec<Value> {
    let text = || json!({ "type": "string" });
    let all = [
        ("since", "Requests that came at this time or later: RFC 3339, or a date.", text()),
        ("until", "Requests that came before this time.", text()),
        ("user", "Requests of this user, also with access keys and sessions of theirs.", text()),
        ("access_key", "Requests signed with this access key.", text()),
        ("bucket", "Requests about this bucket.", text()),
        ("prefix", "Requests about keys, or names, that begin with this.", text()),
        ("operation", "Requests for this operation, such as GetObject.", text()),
        ("api", "Requests to this API.", json!({ "enum": ["s3", "sts", "admin"] })),
        ("status", "A status such as 403, a class such as 4xx, or a range such as 400-499.", text()),
        ("error", "Answers with this error code.", text()),
        ("source", "The client's address, or a network such as 10.0.0.0/8.", text()),
        ("request_id", "The request with this id.", text()),
        (
            "limit",
            "Most records; 100 if left out.",
            json!({ "type": "integer", "minimum": 1, "maximum": 1000 }),
        ),
        ("cursor", "Goes on where an earlier answer ended; with the same conditions.", text()),
    ];
    let one =
        |(name, text, schema)| json!({ "name": name, "in": "query", "description": text, "schema": schema });
    all.into_iter().map(one).collect()
}

/// The description of one operation.
struct Operation {
    id: &'static str,
    method: http::Method,
    path: String,
    text: String,
    query: Vec<Value>,
    order: Option<(Shape, bool)>,
    statuses: &'static [&'static str],
    answer: Shape,
    open: bool,
}

impl Operation {
    fn of(route: Route) -> Operation {
        let actions: Vec<_> = route.actions().iter().map(|a| a.name()).collect();
        let own = if route.may_be_own() { " Nobody needs it for what is their own." } else { "" };
        let query = match route {
            Route::KeyList => vec![
                json!({ "name": "user", "in": "query", "description": "Whose; if left out, one's own.", "schema": { "type": "string" } }),
                json!({ "name": "all", "in": "query", "description": "Everybody's.", "schema": { "type": "boolean" } }),
            ],
            Route::Trace => vec![
                json!({ "name": "errors", "in": "query", "description": "Only answers with a status of 400 and above.", "schema": { "type": "boolean" } }),
                json!({ "name": "slower_ms", "in": "query", "description": "Only requests that took at least this long.", "schema": { "type": "integer", "minimum": 0 } }),
                json!({ "name": "bucket", "in": "query", "description": "Only requests about this bucket.", "schema": { "type": "string" } }),
                json!({ "name": "operation", "in": "query", "description": "Only this operation.", "schema": { "type": "string" } }),
                json!({ "name": "seconds", "in": "query", "description": "The stream ends after so many seconds.", "schema": { "type": "integer", "minimum": 1, "maximum": 3600 } }),
            ],
            Route::Logs => vec![
                json!({ "name": "last", "in": "query", "description": "How many of the last lines; 100 if left out.", "schema": { "type": "integer", "minimum": 0 } }),
                json!({ "name": "follow", "in": "query", "description": "Go on with the lines to come.", "schema": { "type": "boolean" } }),
                json!({ "name": "level", "in": "query", "description": "Only lines of this level and above.", "schema": { "enum": ["error", "warn", "info"] } }),
                json!({ "name": "seconds", "in": "query", "description": "The stream ends after so many seconds.", "schema": { "type": "integer", "minimum": 1, "maximum": 3600 } }),
            ],
            Route::AuditSearch => audit_query(),
            Route::UsageList => vec![
                json!({ "name": "contains", "in": "query", "description": "Only buckets whose name contains this.", "schema": { "type": "string" } }),
                json!({ "name": "sort", "in": "query", "description": "The order; by name if left out. Equal ones are in order of their names.", "schema": { "enum": ["name", "objects", "bytes", "created"] } }),
                json!({ "name": "descending", "in": "query", "description": "The order is reversed.", "schema": { "type": "boolean" } }),
                json!({ "name": "limit", "in": "query", "description": "At most so many buckets; all if left out.", "schema": { "type": "integer", "minimum": 0, "maximum": 1000 } }),
                json!({ "name": "offset", "in": "query", "description": "Without so many buckets at the beginning.", "schema": { "type": "integer", "minimum": 0 } }),
                json!({ "name": "brief", "in": "query", "description": "Without `sizes` and `version_counts`, which are then empty.", "schema": { "type": "boolean" } }),
            ],
            Route::Placement => vec![
                json!({ "name": "version_id", "in": "query", "description": "The version; the current one if left out.", "schema": { "type": "string" } }),
                json!({ "name": "verify", "in": "query", "description": "Read and compare every byte.", "schema": { "type": "boolean" } }),
                json!({ "name": "part", "in": "query", "description": "From this part on.", "schema": { "type": "integer", "minimum": 0, "maximum": 10_000 } }),
            ],
            Route::History => vec![
                json!({ "name": "last_s", "in": "query", "description": "How many seconds; 3600 if left out. The steps become longer with it.", "schema": { "type": "integer", "minimum": 60, "maximum": 34_560_000 } }),
                json!({ "name": "steps", "in": "query", "description": "In how many steps at most; 400 if left out.", "schema": { "type": "integer", "minimum": 1, "maximum": 400 } }),
                json!({ "name": "until_ms", "in": "query", "description": "Until when, in milliseconds since 1970; now if left out.", "schema": { "type": "integer", "minimum": 0 } }),
            ],
            Route::ClusterMayStop => vec![
                json!({ "name": "node", "in": "query", "description": "Its number; if left out, the node that answers.", "schema": { "type": "integer", "minimum": 0 } }),
            ],
            _ => Vec::new(),
        };
        Operation {
            id: route.name(),
            method: route.method(),
            path: path(route),
            text: format!("Permitted by {}.{own}", actions.join(" or ")),
            query,
            order: order(route).map(|shape| (shape, needs_order(route))),
            statuses: statuses(route),
            answer: answer(route),
            open: false,
        }
    }

    fn of_sign_in(route: SignInRoute) -> Operation {
        let (id, method, path) = route.row();
        let (text, order, answer) = match route {
            SignInRoute::Choices => {
                ("Where a browser's user can sign in.", None, of::<settings::SignInChoices>())
            }
            SignInRoute::Back => {
                let order = of::<providers::Back>();
                ("Back from the provider.", Some((order, true)), of::<settings::Session>())
            }
        };
        let (path, text) = (path.to_owned(), format!("{text} Needs no signature."));
        Operation { id, method, path, text, query: Vec::new(), order, statuses: &["200"], answer, open: true }
    }

    /// Adds the operation to the paths and its types to the components.
    fn put(self, paths: &mut Map<String, Value>, components: &mut Map<String, Value>) {
        let named = self.path.contains('{') || self.order.is_some() || self.id == "ClusterMayStop";
        let changes = self.method != http::Method::GET;
        let mut answers = Map::new();
        let mut good = content(self.answer, components);
        if matches!(self.id, "Trace" | "Logs") {
            // One operation per line.
            good = json!({ "application/x-ndjson": good["application/json"] });
        }
        for status in self.statuses {
            answers.insert((*status).into(), json!({ "description": "Done", "content": good }));
        }
        for (status, what) in refusals(named, changes) {
            let problem = content(of::<state::Problem>(), components);
            answers.insert(status.into(), json!({ "description": what, "content": problem }));
        }
        let mut out = json!({ "operationId": self.id, "description": self.text, "responses": answers });
        let parameters: Vec<Value> = names(&self.path).map(parameter).chain(self.query).collect();
        if !parameters.is_empty() {
            out["parameters"] = json!(parameters);
        }
        if let Some((order, required)) = self.order {
            out["requestBody"] = json!({ "required": required, "content": content(order, components) });
        }
        if self.open {
            out["security"] = json!([]);
        }
        let item = paths.entry(format!("/{}", self.path)).or_insert_with(|| json!({}));
        item[self.method.as_str().to_ascii_lowercase()] = out;
    }
}

/// All operations.
fn operations() -> Vec<Operation> {
    let mut all: Vec<_> = Route::ALL.iter().map(|route| Operation::of(*route)).collect();
    // Without a name, the same path lists everything.
    let (id, path, answer) = ("ProviderList", "idp/{kind}".to_owned(), of::<settings::ProviderList>());
    all.push(Operation { id, path, answer, ..Operation::of(Route::ProviderGet) });
    all.extend(SignInRoute::ALL.map(Operation::of_sign_in));
    all
}

/// The whole document. `base`: the prefix of all paths, for instance `/ashlar/api/v1`.
pub fn document(base: &str) -> Value {
    let (mut paths, mut components) = (Map::new(), Map::new());
    for operation in operations() {
        operation.put(&mut paths, &mut components);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Ashlar administration",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Signed as S3 requests are: Signature V4, service s3.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": base }],
        "security": [{ "signature": [] }],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": { "signature": {
                "type": "apiKey", "in": "header", "name": "Authorization",
                "description": "AWS4-HMAC-SHA256",
            } },
        },
    })
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn references(value: &Value, out: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                out.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
                map.values().for_each(|v| references(v, out));
            }
            Value::Array(all) => all.iter().for_each(|v| references(v, out)),
            _ => {}
        }
    }

    /// Whether a schema has content: members, or a description that explains why it has none.
    fn says(schema: &Value) -> bool {
        schema["properties"].is_object()
            || schema["allOf"].is_array()
            || schema["anyOf"].is_array()
            || schema["description"].is_string()
    }

    #[test]
    fn every_route_is_described() {
        let document = document("/x");
        let schemas = &document["components"]["schemas"];
        let mut want: Vec<_> =
            Route::ALL.iter().map(|r| (r.name(), r.method(), path(*r), order(*r).is_some())).collect();
        for route in SignInRoute::ALL {
            let (name, method, path) = route.row();
            want.push((name, method, path.to_owned(), route == SignInRoute::Back));
        }
        for (name, method, path, takes) in want {
            let operation = &document["paths"][format!("/{path}")][method.as_str().to_ascii_lowercase()];
            assert_eq!(operation["operationId"], name);
            assert_eq!(operation["requestBody"].is_object(), takes, "{name}");
            let mut all = Vec::new();
            references(operation, &mut all);
            assert!(all.len() >= 2 + usize::from(takes), "{name}: an answer, a problem, and what it takes");
            for (status, response) in operation["responses"].as_object().unwrap() {
                let all = response["content"].as_object().unwrap();
                let reference = &all.values().next().unwrap()["schema"]["$ref"];
                let own = reference.as_str().unwrap() != "#/components/schemas/Problem";
                assert_eq!(own, status.starts_with('2'), "{name} {status}");
            }
            for parameter in names(&path) {
                let all = operation["parameters"].as_array().unwrap();
                assert!(all.iter().any(|p| p["name"] == parameter && p["in"] == "path"), "{name}");
            }
        }
        let mut all = Vec::new();
        references(&document, &mut all);
        for reference in all {
            let name = reference.strip_prefix("#/components/schemas/").unwrap();
            assert!(says(&schemas[name]), "{reference} {}", schemas[name]);
        }
    }

    #[test]
    fn names_mean_one_type_and_one_request() {
        let mut seen: BTreeMap<String, Value> = BTreeMap::new();
        let mut requests = BTreeSet::new();
        for operation in operations() {
            assert!(requests.insert(operation.id), "{} occurs twice", operation.id);
            let order = operation.order.map(|(shape, _)| shape);
            for (name, schema) in order.into_iter().chain([operation.answer]).flat_map(|s| s.schemas) {
                let schema = serde_json::to_value(schema).unwrap();
                let before = seen.entry(name.clone()).or_insert_with(|| schema.clone());
                assert_eq!(*before, schema, "{name} means two types");
            }
        }
    }
}
