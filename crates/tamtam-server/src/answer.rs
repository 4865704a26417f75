//! The answers that routes share: a value with a status, nothing, lines, files, frames.

use axum::{
    Json,
    body::Body,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::describe::{Answers, Operation};

/// 204: done, and there is nothing to say.
pub(crate) struct Done;

impl IntoResponse for Done {
    fn into_response(self) -> Response {
        StatusCode::NO_CONTENT.into_response()
    }
}

impl Answers for Done {
    fn describe(operation: &mut Operation<'_>) {
        operation.responses.insert("204".into(), json!({ "description": "Done." }));
    }
}

impl<T: JsonSchema> Answers for Json<T> {
    fn describe(operation: &mut Operation<'_>) {
        operation.answers_json::<T>("200", "What was asked for.");
    }
}

/// 201: it was made, and this is it.
pub(crate) struct Made<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Made<T> {
    fn into_response(self) -> Response {
        (StatusCode::CREATED, Json(self.0)).into_response()
    }
}

impl<T: JsonSchema> Answers for Made<T> {
    fn describe(operation: &mut Operation<'_>) {
        operation.answers_json::<T>("201", "It was made.");
    }
}

/// 201 if it was made, 200 if it was there.
pub(crate) enum MadeOrFound<T> {
    Made(T),
    Found(T),
}

impl<T: Serialize> IntoResponse for MadeOrFound<T> {
    fn into_response(self) -> Response {
        match self {
            MadeOrFound::Made(value) => Made(value).into_response(),
            MadeOrFound::Found(value) => Json(value).into_response(),
        }
    }
}

impl<T: JsonSchema> Answers for MadeOrFound<T> {
    fn describe(operation: &mut Operation<'_>) {
        Made::<T>::describe(operation);
        operation.answers_json::<T>("200", "It was there.");
    }
}

/// 202: it is on the tape, or durable on the way to it, and its work is still to come.
pub(crate) struct Accepted<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Accepted<T> {
    fn into_response(self) -> Response {
        (StatusCode::ACCEPTED, Json(self.0)).into_response()
    }
}

impl<T: JsonSchema> Answers for Accepted<T> {
    fn describe(operation: &mut Operation<'_>) {
        operation.answers_json::<T>("202", "It is on the tape, or durable on the way to it.");
    }
}

/// JSON values, one a line.
pub(crate) struct Lines<T>(pub(crate) Vec<T>);

impl<T: Serialize> IntoResponse for Lines<T> {
    fn into_response(self) -> Response {
        let mut lines = Vec::new();
        for line in self.0 {
            lines.extend(json!(line).to_string().into_bytes());
            lines.push(b'\n');
        }
        ([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from(lines)).into_response()
    }
}

impl<T: JsonSchema> Answers for Lines<T> {
    fn describe(operation: &mut Operation<'_>) {
        operation.answers("200", "One value a line.", "application/x-ndjson", json!({ "type": "string" }));
        let line = operation.shown::<T>();
        operation.responses["200"]["content"]["application/x-ndjson"]["x-line"] = line;
    }
}

/// A file as it is.
pub(crate) struct Bytes(pub(crate) Response);

impl IntoResponse for Bytes {
    fn into_response(self) -> Response {
        self.0
    }
}

impl Answers for Bytes {
    fn describe(operation: &mut Operation<'_>) {
        operation.answers("200", "The file.", "*/*", json!({}));
    }
}

/// The frames of a stream of server-sent events: each by its name (the empty one is that of a frame without a name), with the
/// schema of its data.
pub(crate) trait Frames {
    fn frames(operation: &mut Operation<'_>) -> Vec<(&'static str, serde_json::Value)>;
}

/// A stream of server-sent events.
pub(crate) struct Events<F>(pub(crate) Response, pub(crate) std::marker::PhantomData<F>);

impl<F> Events<F> {
    pub(crate) fn new(response: Response) -> Events<F> {
        Events(response, std::marker::PhantomData)
    }
}

impl<F> IntoResponse for Events<F> {
    fn into_response(self) -> Response {
        self.0
    }
}

impl<F: Frames> Answers for Events<F> {
    fn describe(operation: &mut Operation<'_>) {
        let about = "Server-sent events. `x-frames` has the data of each frame by its name; a frame without a name is under `message`.";
        operation.answers("200", about, "text/event-stream", json!({ "type": "string" }));
        let frames: serde_json::Map<_, _> =
            F::frames(operation).into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
        operation.responses["200"]["content"]["text/event-stream"]["x-frames"] = frames.into();
    }
}
