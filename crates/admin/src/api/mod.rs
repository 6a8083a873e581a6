//! The types that the administration API takes and returns, and its OpenAPI 3.1 description, generated from
//! them.
//!
//! | file | contents |
//! |---|---|
//! | `state` | the server's state: drives, groups, healing, records of requests |
//! | `audit` | records that a search found |
//! | `cluster` | the nodes of a cluster, tokens |
//! | `people` | users, groups, policies, access keys |
//! | `keys` | keys for encryption at rest |
//! | `history` | the history of metrics |
//! | `placement` | where the shards of an object are |
//! | `settings` | settings, identity providers, sign-in |
//! | `orders` | requests about drives and the process |
//! | `document` | the OpenAPI description |
//!
//! Other documents that clients send are types beside the code that reads them.
//!
//! Invariant: an answer is serialized from the type that describes it. Must not depend on: how requests are
//! carried out.

pub mod audit;
pub mod cluster;
pub mod document;
pub mod history;
pub mod keys;
pub mod orders;
pub mod people;
pub mod placement;
pub mod settings;
pub mod state;

use serde::Serialize;
use serde_json::Value;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AnyOfBuilder, Object, ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

/// An answer as JSON. Serialization cannot fail: the types have string keys and only values that JSON can
/// express.
pub fn value(of: impl Serialize) -> Value {
    serde_json::to_value(of).unwrap_or_default()
}

fn described(text: &str) -> ObjectBuilder {
    ObjectBuilder::new().description(Some(text))
}

/// The schema of a policy document; the crate `policy` parses it.
pub struct PolicyDocument;

impl PartialSchema for PolicyDocument {
    fn schema() -> RefOr<Schema> {
        described("A policy document: see docs/policy.md.").schema_type(Type::Object).into()
    }
}

impl ToSchema for PolicyDocument {}

/// The schema of a policy document that may also be sent as a string.
pub struct PolicyOrText;

impl PartialSchema for PolicyOrText {
    fn schema() -> RefOr<Schema> {
        let text = "A policy document, or its text; an empty text is none.";
        let either = AnyOfBuilder::new().description(Some(text)).item(Object::with_type(Type::Object));
        either.item(Object::with_type(Type::String)).into()
    }
}

impl ToSchema for PolicyOrText {}

/// The schema of the OpenAPI document itself.
pub struct OpenApi;

impl PartialSchema for OpenApi {
    fn schema() -> RefOr<Schema> {
        let text = "An OpenAPI 3.1 document.";
        let object = || Object::with_type(Type::Object);
        let all = described(text).schema_type(Type::Object);
        let all = all.property("openapi", Object::with_type(Type::String)).required("openapi");
        let all = all.property("paths", object()).required("paths");
        all.property("components", object()).required("components").into()
    }
}

impl ToSchema for OpenApi {}
