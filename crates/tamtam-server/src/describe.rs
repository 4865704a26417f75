//! What a route takes and answers, told from the signature of its handler, in the words of OpenAPI 3.1.
//!
//! The document is made of the types that the handlers really use: [`Takes`] for what they extract from a request, [`Answers`] for
//! what they return. So no line of the document can be left behind by a change of a handler, and no schema is written by hand. A
//! change must keep that an extractor or an answer without such a description does not compile.

use axum::{
    extract::{OriginalUri, Path, State},
    http::{HeaderMap, Method},
};
use schemars::{
    JsonSchema, Schema, SchemaGenerator,
    generate::{Contract, SchemaSettings},
};
use serde_json::{Map, Value, json};

use crate::{
    app::{App, Asked, Granted, InTrace, Labelled, LastEventId, Named, Said, Seen},
    problem::{Answered, ProblemJson},
};

/// Where the schemas of what clients send stand while the document is made; in the document all schemas stand together.
pub(crate) const SAID: &str = "#/components/said/";
/// Where schemas stand in the document.
pub(crate) const SCHEMAS: &str = "#/components/schemas/";

/// The schemas that the operations name.
pub(crate) struct Schemas {
    /// Of what clients send.
    pub(crate) said: SchemaGenerator,
    /// Of what they are shown.
    pub(crate) shown: SchemaGenerator,
}

impl Schemas {
    pub(crate) fn new() -> Schemas {
        let of = |path: &str, contract: Contract| {
            let settings = SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = path.trim_matches(['#']).to_owned().into();
                settings.contract = contract;
                settings.meta_schema = None;
            });
            settings.into_generator()
        };
        Schemas { said: of(SAID, Contract::Deserialize), shown: of(SCHEMAS, Contract::Serialize) }
    }
}

/// One operation, while it is described.
pub(crate) struct Operation<'a> {
    pub(crate) schemas: &'a mut Schemas,
    pub(crate) parameters: Vec<Value>,
    pub(crate) body: Option<Value>,
    pub(crate) responses: Map<String, Value>,
}

impl Operation<'_> {
    pub(crate) fn shown<T: JsonSchema>(&mut self) -> Value {
        self.schemas.shown.subschema_for::<T>().to_value()
    }

    /// An answer with this status and this content.
    pub(crate) fn answers(&mut self, status: &str, about: &str, kind: &str, schema: Value) {
        let content = json!({ kind: { "schema": schema } });
        self.responses.insert(status.to_owned(), json!({ "description": about, "content": content }));
    }

    pub(crate) fn answers_json<T: JsonSchema>(&mut self, status: &str, about: &str) {
        let schema = self.shown::<T>();
        self.answers(status, about, "application/json", schema);
    }
}

/// What a handler takes of a request.
pub(crate) trait Takes {
    fn describe(operation: &mut Operation<'_>);
}

/// What a handler answers.
pub(crate) trait Answers {
    fn describe(operation: &mut Operation<'_>);
}

/// A handler, whose arguments are `Args`.
pub(crate) trait Signature<Args> {
    fn describe(operation: &mut Operation<'_>);
}

macro_rules! signatures {
    ($(($($arg:ident),*)),* $(,)?) => { $(impl<F, Fut, $($arg: Takes),*> Signature<($($arg,)*)> for F
    where
        F: Fn($($arg),*) -> Fut,
        Fut: Future,
        Fut::Output: Answers,
    {
        fn describe(operation: &mut Operation<'_>) {
            $($arg::describe(operation);)*
            Fut::Output::describe(operation);
        }
    })* };
}

signatures!((), (A1), (A1, A2), (A1, A2, A3), (A1, A2, A3, A4), (A1, A2, A3, A4, A5));

macro_rules! take_nothing_of_their_own {
    ($($type:ty),*) => { $(impl Takes for $type {
        fn describe(_: &mut Operation<'_>) {}
    })* };
}

// What the path names is described with the path.
take_nothing_of_their_own!(State<App>, Granted, Seen, Named, Labelled, HeaderMap, Method, OriginalUri, Path<String>);

impl Takes for LastEventId {
    fn describe(operation: &mut Operation<'_>) {
        operation.parameters.push(json!({
            "name": "Last-Event-ID", "in": "header", "schema": { "type": "string" },
            "description": "The id of the last event that had one: the stream goes on exactly behind it. It wins over `after`.",
        }));
    }
}

impl Takes for InTrace {
    fn describe(operation: &mut Operation<'_>) {
        operation.parameters.push(json!({
            "name": "traceparent", "in": "header", "schema": { "type": "string" },
            "description": "The trace that the message belongs to (W3C Trace Context, with `tracestate`). What is no trace context is ignored.",
        }));
    }
}

/// A parameter is there or not: what is there is never null.
fn without_null(schema: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|one| one != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(any)) = schema.remove("anyOf") {
        let mut some = any.into_iter().filter(|one| one["type"] != "null");
        if let Some(Value::Object(one)) = some.next() {
            schema.extend(one);
        }
    }
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
}

impl<Q: JsonSchema, const LABELLED: bool> Takes for Asked<Q, LABELLED> {
    fn describe(operation: &mut Operation<'_>) {
        let schema = Q::json_schema(&mut operation.schemas.said).to_value();
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        let Some(fields) = schema["properties"].as_object() else { return };
        for (name, schema) in fields {
            let mut schema = schema.as_object().cloned().unwrap_or_default();
            without_null(&mut schema);
            let description = schema.remove("description");
            operation.parameters.push(json!({
                "name": name, "in": "query", "required": required.contains(&json!(name)), "description": description,
                "schema": schema,
            }));
        }
    }
}

impl<T: JsonSchema> Takes for Said<T> {
    fn describe(operation: &mut Operation<'_>) {
        let said = &mut operation.schemas.said;
        let required = T::json_schema(said).get("required").is_some();
        let schema = said.subschema_for::<T>();
        operation.body = Some(json!({ "required": required, "content": { "application/json": { "schema": schema } } }));
    }
}

impl<T: Answers> Answers for Answered<T> {
    fn describe(operation: &mut Operation<'_>) {
        T::describe(operation);
        for (status, about) in [("4XX", "Refused."), ("5XX", "Not done.")] {
            let schema = operation.shown::<ProblemJson>();
            operation.answers(status, about, "application/problem+json", schema);
        }
    }
}

/// Takes a field out of the schema of an object.
pub(crate) fn without_field(schema: &mut Schema, name: &str) {
    if let Some(Value::Object(fields)) = schema.get_mut("properties") {
        fields.remove(name);
    }
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.retain(|one| one != name);
    }
}
