//! The description of the administration API, OpenAPI 3.1, made from the table of routes and the types.
//!
//! Invariant: a route without types fails a test. Must never know: what a route does.

use serde_json::{Map, Value, json};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema, ToSchema};

use super::{people, state};
use crate::server::table::Route;
use crate::server::{admin, identities, quotas};

type Schemas = Vec<(String, RefOr<Schema>)>;

/// A type's name, and all that is needed to describe it.
struct Shape {
    name: String,
    schemas: Schemas,
}

fn of<T: ToSchema>() -> Option<Shape> {
    let mut schemas = vec![(T::name().into_owned(), <T as PartialSchema>::schema())];
    T::schemas(&mut schemas);
    Some(Shape { name: T::name().into_owned(), schemas })
}

/// What a route answers.
fn answer(route: Route) -> Option<Shape> {
    match route {
        Route::Info => of::<state::Info>(),
        Route::HealStatus => of::<state::HealStatus>(),
        Route::HealStart | Route::DriveScrub => of::<state::HealStarted>(),
        Route::Drives | Route::DriveOffline | Route::DriveOnline | Route::DriveReplace => {
            of::<state::DriveList>()
        }
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
        Route::KeyList => of::<people::KeyList>(),
        Route::KeyCreate | Route::KeyGet | Route::KeyEdit => of::<people::Key>(),
        Route::KeyRemove => of::<people::KeyRemoved>(),
        Route::QuotaGet | Route::QuotaPut | Route::QuotaRemove => of::<state::BucketQuota>(),
        Route::Simulate => of::<people::Simulated>(),
        Route::Why => of::<state::RequestRecord>(),
        // The description itself: any object.
        Route::Document => Some(Shape { name: String::new(), schemas: Vec::new() }),
    }
}

/// The document that a route takes.
fn order(route: Route) -> Option<Shape> {
    match route {
        Route::HealStart => of::<admin::Order>(),
        Route::DriveOffline | Route::DriveOnline | Route::DriveReplace => of::<admin::Order>(),
        Route::UserPut => of::<identities::UserOrder>(),
        Route::GroupMembers => of::<identities::Members>(),
        Route::PolicyPut => Some(Shape { name: String::new(), schemas: Vec::new() }),
        Route::PolicyAttach | Route::PolicyDetach => of::<identities::Association>(),
        Route::KeyCreate => of::<identities::KeyOrder>(),
        Route::KeyEdit => of::<identities::KeyPatch>(),
        Route::QuotaPut => of::<quotas::Order>(),
        Route::Simulate => of::<identities::Simulation>(),
        _ => None,
    }
}

/// The status of a success.
fn status(route: Route) -> &'static str {
    if matches!(route, Route::HealStart | Route::DriveScrub) { "202" } else { "200" }
}

/// Statuses of refusals, and what they mean.
const REFUSALS: [(&str, &str); 9] = [
    ("400", "The request has to be changed"),
    ("403", "Not signed, or not permitted"),
    ("404", "What was named does not exist"),
    ("409", "It contradicts what is there"),
    ("411", "A body without a length"),
    ("500", "The server failed"),
    ("501", "Not implemented"),
    ("503", "Not possible now; try again"),
    ("507", "The drives are full"),
];

fn content(shape: Shape, components: &mut Map<String, Value>) -> Value {
    let schema = if shape.name.is_empty() {
        json!({ "type": "object" })
    } else {
        json!({ "$ref": format!("#/components/schemas/{}", shape.name) })
    };
    for (name, schema) in shape.schemas {
        components.insert(name, serde_json::to_value(schema).unwrap_or_default());
    }
    json!({ "application/json": { "schema": schema } })
}

fn operation(route: Route, components: &mut Map<String, Value>) -> Option<Value> {
    let mut answers = Map::new();
    let good = content(answer(route)?, components);
    answers.insert(status(route).into(), json!({ "description": "Done", "content": good }));
    for (status, what) in REFUSALS {
        let problem = content(of::<state::Problem>()?, components);
        answers.insert(status.into(), json!({ "description": what, "content": problem }));
    }
    let actions: Vec<_> = route.actions().iter().map(|a| a.name()).collect();
    let mut operation = json!({
        "operationId": route.name(),
        "description": format!("Permitted by {}.", actions.join(" or ")),
        "responses": answers,
    });
    let mut parameters = Vec::new();
    if route.pattern().contains('*') {
        let text = json!({ "type": "string", "minLength": 1 });
        parameters.push(json!({ "name": "name", "in": "path", "required": true, "schema": text }));
    }
    if route == Route::KeyList {
        parameters.push(json!({ "name": "user", "in": "query", "schema": { "type": "string" } }));
        parameters.push(json!({ "name": "all", "in": "query", "schema": { "type": "boolean" } }));
    }
    if !parameters.is_empty() {
        operation["parameters"] = json!(parameters);
    }
    if let Some(order) = order(route) {
        let required = route == Route::PolicyPut;
        operation["requestBody"] = json!({ "required": required, "content": content(order, components) });
    }
    Some(operation)
}

/// The whole description. `base`: where the paths begin, for instance `/ashlar/api/v1`.
pub fn document(base: &str) -> Value {
    let (mut paths, mut components) = (Map::new(), Map::new());
    for route in Route::ALL {
        let Some(operation) = operation(*route, &mut components) else { continue };
        let path = format!("/{}", route.pattern().replace('*', "{name}"));
        let item = paths.entry(path).or_insert_with(|| json!({}));
        item[route.method().as_str().to_ascii_lowercase()] = operation;
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

    #[test]
    fn every_route_is_described() {
        let document = document("/x");
        for route in Route::ALL {
            let path = format!("/{}", route.pattern().replace('*', "{name}"));
            let method = route.method().as_str().to_ascii_lowercase();
            assert_eq!(document["paths"][&path][&method]["operationId"], route.name(), "{route:?}");
        }
        let mut all = Vec::new();
        references(&document, &mut all);
        assert!(all.len() > 100);
        for reference in all {
            let name = reference.strip_prefix("#/components/schemas/").unwrap();
            assert!(document["components"]["schemas"][name].is_object(), "{reference}");
        }
    }
}
