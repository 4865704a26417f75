//! The document of the interface, in OpenAPI 3.1, whose schemas are JSON Schema 2020-12: `GET /openapi.json`.
//!
//! It says nothing of this runtime and is the same for everybody, so it needs no token, like the files of the page. It is made once,
//! when it is first asked for, and is checked in as `docs/openapi.json`.

use std::{collections::BTreeMap, sync::OnceLock};

use axum::{
    http::header,
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value, json};

use crate::{
    answer::Bytes,
    describe::{Operation, SAID, SCHEMAS, Schemas},
    guard::is_open,
    routes::{Route, table},
};

pub(crate) async fn document() -> Bytes {
    static TEXT: OnceLock<String> = OnceLock::new();
    let text: &'static str = TEXT.get_or_init(|| openapi().to_string());
    let response: Response = ([(header::CONTENT_TYPE, "application/json")], text).into_response();
    Bytes(response)
}

/// The document of [`Server::router`](crate::Server::router)'s interface, as `GET /openapi.json` serves it.
#[must_use]
pub fn openapi() -> Value {
    let mut schemas = Schemas::new();
    let mut paths: Map<String, Value> = Map::new();
    for route in table() {
        let operation = operation(&route, &mut schemas);
        let path = paths.entry(route.path).or_insert_with(|| json!({ "parameters": of_path(route.path) }));
        path[route.method] = operation;
    }
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tamtam", "version": env!("CARGO_PKG_VERSION"),
            "description": "A running Tamtam runtime over HTTP. `docs/HTTP.md` says what clients may rely on.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        // Where a host mounts the router under a path, the document is under that path too.
        "servers": [{ "url": "." }],
        "security": [{ "bearer": [] }, { "cookie": [] }, {}],
        "paths": paths,
        "components": { "securitySchemes": {
            "bearer": { "type": "http", "scheme": "bearer" },
            "cookie": { "type": "apiKey", "in": "cookie", "name": "tamtam" },
        } },
    });
    let (shown, said) = (schemas.shown.take_definitions(true), schemas.said.take_definitions(true));
    let names = names(&shown, &said);
    let mut all = shown;
    for (name, mut schema) in said {
        rename(&mut schema, &names);
        all.insert(names[&name].clone(), schema);
    }
    rename(&mut document, &names);
    document["components"]["schemas"] = all.into();
    document
}

fn operation(route: &Route, schemas: &mut Schemas) -> Value {
    let mut operation = Operation { schemas, parameters: Vec::new(), body: None, responses: Map::new() };
    (route.describe)(&mut operation);
    let Operation { parameters, body, responses, .. } = operation;
    let mut names = route.handler.rsplit("::");
    let (function, module) = (names.next().unwrap_or_default(), names.next().unwrap_or_default());
    let mut shown = json!({
        "operationId": format!("{module}_{function}"), "tags": [module], "summary": route.about, "responses": responses,
    });
    if !parameters.is_empty() {
        shown["parameters"] = parameters.into();
    }
    if let Some(body) = body {
        shown["requestBody"] = body;
    }
    if is_open(route.path) {
        shown["security"] = json!([]);
    }
    shown
}

/// What a path names.
fn of_path(path: &str) -> Vec<Value> {
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let of = |name: &str| {
        let schema = match name {
            "ask" | "grant" | "ticket" => json!({ "type": "integer", "minimum": 0 }),
            _ => json!({ "type": "string", "minLength": 1 }),
        };
        json!({ "name": name, "in": "path", "required": true, "schema": schema })
    };
    names.map(of).collect()
}

/// The name in the document of each schema of what clients send: its own, or, where what is shown under that name is another
/// schema, its own with `Input` behind it.
fn names(shown: &Map<String, Value>, said: &Map<String, Value>) -> BTreeMap<String, String> {
    let mut names: BTreeMap<String, String> = said.keys().map(|name| (name.clone(), name.clone())).collect();
    loop {
        let differs = |(name, schema): (&String, &Value)| {
            let mut schema = schema.clone();
            rename(&mut schema, &names);
            let is_other = names[name] == *name && shown.get(name).is_some_and(|shown| *shown != schema);
            is_other.then(|| name.clone())
        };
        let others: Vec<String> = said.iter().filter_map(differs).collect();
        if others.is_empty() {
            return names;
        }
        names.extend(others.into_iter().map(|name| (name.clone(), format!("{name}Input"))));
    }
}

/// Lets references to what clients send name the schemas of the document.
fn rename(value: &mut Value, names: &BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(at)) = fields.get_mut("$ref")
                && let Some(name) = at.strip_prefix(SAID).and_then(|name| names.get(name))
            {
                *at = format!("{SCHEMAS}{name}");
            }
            fields.values_mut().for_each(|value| rename(value, names));
        }
        Value::Array(values) => values.iter_mut().for_each(|value| rename(value, names)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The checked-in document is what the server serves. After a change: `TAMTAM_ACCEPT=1 cargo test -p tamtam-server document`.
    #[test]
    fn the_checked_in_document_is_that_of_the_routes() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
        let now = format!("{:#}\n", openapi());
        if std::env::var_os("TAMTAM_ACCEPT").is_some() {
            std::fs::write(&path, &now).unwrap();
        }
        assert!(
            std::fs::read_to_string(&path).unwrap() == now,
            "run this test with TAMTAM_ACCEPT=1, and read the difference"
        );
    }

    /// Every reference leads to a schema, no schema is left over, and no operation has the id of another.
    #[test]
    fn the_document_is_whole() {
        let document = openapi();
        let text = document.to_string();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        let named: std::collections::BTreeSet<&str> =
            text.split("\"$ref\":\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
        let there: std::collections::BTreeSet<String> = schemas.keys().map(|name| format!("{SCHEMAS}{name}")).collect();
        assert_eq!(named, there.iter().map(String::as_str).collect());
        let operations =
            document["paths"].as_object().unwrap().values().flat_map(|path| path.as_object().unwrap().values());
        let ids: Vec<&str> = operations.filter_map(|operation| operation["operationId"].as_str()).collect();
        assert_eq!(ids.len(), table().len());
        assert_eq!(ids.iter().collect::<std::collections::BTreeSet<_>>().len(), ids.len());
    }
}
