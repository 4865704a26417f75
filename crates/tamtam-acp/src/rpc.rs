//! JSON-RPC 2.0 as the protocol uses it: what a line of the client is, and how a request is refused.
//!
//! Pure: a line in, a value out. A change must keep that no line makes a panic, and that a refusal names the cause and the next step.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tamtam::{
    MessageId, OpenError, SendError,
    runtime::{DeleteError, Kind},
    session::{BranchError, PassivateError},
};

/// The longest id of a request, in bytes of JSON.
const ID_BYTES_MAX: usize = 256;

/// The line is no JSON.
const NO_JSON: i64 = -32_700;
/// The JSON is no request.
const NO_REQUEST: i64 = -32_600;
const NO_METHOD: i64 = -32_601;
const BAD_PARAMS: i64 = -32_602;
/// It was understood, and cannot be done.
const FAILED: i64 = -32_603;
/// The client has cancelled the request.
const CANCELLED: i64 = -32_800;
/// A key is missing.
const NO_KEY: i64 = -32_000;
/// There is no such session.
const NOT_FOUND: i64 = -32_002;

/// Why a request was refused, as its sender is told.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fault {
    pub(crate) code: i64,
    pub(crate) message: String,
    /// `{"kind": …}`, by which a program decides.
    pub(crate) data: Option<Value>,
}

impl Fault {
    fn new(code: i64, message: impl Into<String>) -> Fault {
        Fault { code, message: message.into(), data: None }
    }

    /// With the kind by which a program decides.
    pub(crate) fn kind(self, kind: impl Into<Value>) -> Fault {
        Fault { data: Some(json!({ "kind": kind.into() })), ..self }
    }

    /// With the id of the message that it is about.
    pub(crate) fn about(mut self, message: &MessageId) -> Fault {
        self.data.get_or_insert_with(|| json!({}))["message"] = json!(message);
        self
    }

    pub(crate) fn no_json(why: &impl std::fmt::Display) -> Fault {
        Fault::new(NO_JSON, format!("the line is no JSON: {why}"))
    }

    pub(crate) fn no_request(why: &str) -> Fault {
        Fault::new(NO_REQUEST, why)
    }

    pub(crate) fn no_method(method: &str) -> Fault {
        let method: String = method.chars().take(80).collect();
        Fault::new(NO_METHOD, format!("there is no method {method:?}: docs/EDITORS.md lists those that there are"))
    }

    pub(crate) fn bad_params(why: impl std::fmt::Display) -> Fault {
        Fault::new(BAD_PARAMS, why.to_string())
    }

    pub(crate) fn failed(why: impl std::fmt::Display) -> Fault {
        Fault::new(FAILED, why.to_string())
    }

    pub(crate) fn cancelled() -> Fault {
        Fault::new(CANCELLED, "the request was cancelled")
    }

    pub(crate) fn no_key(why: &str) -> Fault {
        Fault::new(NO_KEY, why).kind("auth_required")
    }

    pub(crate) fn not_found(why: impl std::fmt::Display) -> Fault {
        Fault::new(NOT_FOUND, why.to_string()).kind("not_found")
    }

    fn of(kind: Kind, why: &impl std::fmt::Display) -> Fault {
        let code = match kind {
            Kind::NotFound => NOT_FOUND,
            Kind::Invalid => BAD_PARAMS,
            _ => FAILED,
        };
        Fault::new(code, why.to_string()).kind(name_of(kind))
    }

    pub(crate) fn shown(&self) -> Value {
        let mut shown = json!({ "code": self.code, "message": self.message });
        if let Some(data) = &self.data {
            shown["data"] = data.clone();
        }
        shown
    }

    /// A fault that the client sent in answer to a request of ours.
    fn read(value: &Value) -> Fault {
        let message = value["message"].as_str().unwrap_or("no message").chars().take(1_000).collect::<String>();
        Fault::new(value["code"].as_i64().unwrap_or(FAILED), message)
    }
}

/// The names that the HTTP server has for the same kinds.
fn name_of(kind: Kind) -> &'static str {
    match kind {
        Kind::NotFound => "not_found",
        Kind::Exists => "exists",
        Kind::Busy => "busy",
        Kind::Retry => "retry",
        Kind::Limit => "limit",
        Kind::Stale => "stale",
        Kind::Invalid => "invalid",
        Kind::Parked => "parked",
        Kind::Closed => "closed",
        Kind::Storage => "storage",
        Kind::Damaged => "damaged",
        Kind::Unsettled => "unsettled",
        _ => "failed",
    }
}

impl From<SendError> for Fault {
    fn from(error: SendError) -> Fault {
        Fault::of(error.kind(), &error)
    }
}

impl From<OpenError> for Fault {
    fn from(error: OpenError) -> Fault {
        Fault::of(error.kind(), &error)
    }
}

impl From<BranchError> for Fault {
    fn from(error: BranchError) -> Fault {
        Fault::of(error.kind(), &error)
    }
}

impl From<DeleteError> for Fault {
    fn from(error: DeleteError) -> Fault {
        Fault::of(error.kind(), &error)
    }
}

impl From<PassivateError> for Fault {
    fn from(error: PassivateError) -> Fault {
        Fault::failed(error)
    }
}

/// What a line of the client is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Incoming {
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    /// The answer to a request of ours.
    Answer {
        id: Value,
        result: Result<Value, Fault>,
    },
}

/// Reads one line. The value beside a fault is the id to answer under; null where the line has none.
pub(crate) fn read(line: &[u8]) -> Result<Incoming, (Value, Fault)> {
    let value: Value = serde_json::from_slice(line).map_err(|error| (Value::Null, Fault::no_json(&error)))?;
    let Value::Object(mut fields) = value else {
        return Err((Value::Null, Fault::no_request("a line has one object: batches are not part of the protocol")));
    };
    let id = fields.remove("id");
    if id.as_ref().is_some_and(|id| !is_id(id)) {
        let why = "the id of a request is a number or a text of at most 256 bytes";
        return Err((Value::Null, Fault::no_request(why)));
    }
    let answer_to = id.clone().unwrap_or_default();
    if fields.get("jsonrpc") != Some(&json!("2.0")) {
        return Err((answer_to, Fault::no_request("the line has no `\"jsonrpc\":\"2.0\"`")));
    }
    let params = fields.remove("params").unwrap_or_default();
    match (fields.remove("method"), id) {
        (Some(Value::String(method)), Some(id)) => Ok(Incoming::Request { id, method, params }),
        (Some(Value::String(method)), None) => Ok(Incoming::Notification { method, params }),
        (Some(_), _) => Err((answer_to, Fault::no_request("the method is a text"))),
        (None, Some(id)) => match (fields.remove("result"), fields.get("error")) {
            (_, Some(error)) => Ok(Incoming::Answer { id, result: Err(Fault::read(error)) }),
            (Some(result), None) => Ok(Incoming::Answer { id, result: Ok(result) }),
            (None, None) => Err((Value::Null, Fault::no_request("the line has neither a method nor a result"))),
        },
        (None, None) => Err((Value::Null, Fault::no_request("the line has neither a method nor an id"))),
    }
}

fn is_id(id: &Value) -> bool {
    match id {
        Value::String(text) => text.len() <= ID_BYTES_MAX,
        Value::Number(number) => number.is_i64() || number.is_u64(),
        // What the schema allows, although JSON-RPC discourages it.
        Value::Null => true,
        _ => false,
    }
}

/// Reads the parameters of a request. A fault names the field.
pub(crate) fn params<T: DeserializeOwned>(value: Value) -> Result<T, Fault> {
    // A request without parameters may leave them out.
    let value = if value.is_null() { json!({}) } else { value };
    serde_path_to_error::deserialize(value).map_err(|error| match error.path().to_string().as_str() {
        "." => Fault::bad_params(error.inner()),
        path => Fault::bad_params(format!("{path}: {}", error.inner())),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_line_is_a_request_a_notification_or_an_answer() {
        let request = read(br#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1}}"#).unwrap();
        assert_eq!(request, Incoming::Request { id: json!(1), method: "m".into(), params: json!({"a": 1}) });
        let notified = read(br#"{"jsonrpc":"2.0","method":"m"}"#).unwrap();
        assert_eq!(notified, Incoming::Notification { method: "m".into(), params: Value::Null });
        let answered = read(br#"{"jsonrpc":"2.0","id":"x","result":null}"#).unwrap();
        assert_eq!(answered, Incoming::Answer { id: json!("x"), result: Ok(Value::Null) });
        let refused = read(br#"{"jsonrpc":"2.0","id":"x","error":{"code":-1,"message":"no"}}"#).unwrap();
        assert_eq!(refused, Incoming::Answer { id: json!("x"), result: Err(Fault::new(-1, "no")) });
    }

    /// Whatever a line is, it is refused under the id that it has, or under null.
    #[test]
    fn what_is_no_message_is_refused_and_says_why() {
        let deep = "[".repeat(100_000);
        let long_id = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"m"}}"#, "x".repeat(257));
        let bad = [
            ("", NO_JSON, Value::Null),
            ("{", NO_JSON, Value::Null),
            ("\u{0}", NO_JSON, Value::Null),
            (&deep, NO_JSON, Value::Null),
            ("[]", NO_REQUEST, Value::Null),
            ("7", NO_REQUEST, Value::Null),
            ("{}", NO_REQUEST, Value::Null),
            (r#"{"id":7,"method":"m"}"#, NO_REQUEST, json!(7)),
            (r#"{"jsonrpc":"1.0","id":7,"method":"m"}"#, NO_REQUEST, json!(7)),
            (r#"{"jsonrpc":"2.0","id":7,"method":5}"#, NO_REQUEST, json!(7)),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"m"}"#, NO_REQUEST, Value::Null),
            (r#"{"jsonrpc":"2.0","id":{},"method":"m"}"#, NO_REQUEST, Value::Null),
            (r#"{"jsonrpc":"2.0","id":7}"#, NO_REQUEST, Value::Null),
            (&long_id, NO_REQUEST, Value::Null),
        ];
        for (line, code, id) in bad {
            let (under, fault) = read(line.as_bytes()).unwrap_err();
            let shown: String = line.chars().take(60).collect();
            assert_eq!((under, fault.code), (id, code), "{shown}");
            assert!(!fault.message.is_empty());
        }
    }

    #[test]
    fn bad_parameters_name_the_field() {
        #[derive(Debug, serde::Deserialize)]
        struct Wanted {
            #[serde(rename = "sessionId")]
            _session: String,
        }
        let fault = params::<Wanted>(json!({ "sessionId": 7 })).unwrap_err();
        assert_eq!((fault.code, fault.message.starts_with("sessionId: ")), (BAD_PARAMS, true), "{}", fault.message);
        assert_eq!(params::<Wanted>(Value::Null).unwrap_err().code, BAD_PARAMS);
    }
}
