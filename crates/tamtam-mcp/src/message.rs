//! One line of a server as values: JSON-RPC 2.0, read without trust.
//!
//! A pure function. What has not the form of a message is [`Incoming::Stray`], and costs nothing but its count.

use serde_json::{Value, json};

use crate::secrets::Secrets;

/// The longest id of a request of the server that is echoed, in bytes.
const ID_BYTES_MAX: usize = 256;

/// The error code of an unknown method.
pub(crate) const NO_METHOD: i64 = -32_601;

/// A message of a server.
#[derive(Debug, PartialEq)]
pub(crate) enum Incoming {
    /// The answer to the request of that id.
    Answer(u64, Result<Value, Rejected>),
    /// The server asks something.
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    /// No message, or one that nobody can have asked for.
    Stray,
}

impl Incoming {
    /// Takes out what nobody is shown.
    pub(crate) fn without(&mut self, secrets: &Secrets) {
        match self {
            Incoming::Answer(_, Ok(said))
            | Incoming::Request { params: said, .. }
            | Incoming::Notification { params: said, .. } => secrets.take_out(said),
            Incoming::Answer(_, Err(rejected)) => rejected.message = secrets.text(&rejected.message).into_owned(),
            Incoming::Stray => {}
        }
    }
}

/// A request was answered with an error.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("error {code}: {message}")]
pub(crate) struct Rejected {
    pub(crate) code: i64,
    pub(crate) message: String,
}

/// The messages of one line: one, or those of a batch, which servers of 2025-03-26 may send. `None` if the line is not JSON.
pub(crate) fn read(line: &[u8]) -> Option<Vec<Incoming>> {
    match serde_json::from_slice(line).ok()? {
        Value::Array(batch) => Some(batch.into_iter().map(one).collect()),
        message => Some(vec![one(message)]),
    }
}

fn one(message: Value) -> Incoming {
    let Value::Object(mut fields) = message else { return Incoming::Stray };
    let method = fields.remove("method");
    let params = fields.remove("params").unwrap_or_default();
    match (method, fields.remove("id")) {
        (Some(Value::String(method)), None) => Incoming::Notification { method, params },
        (Some(Value::String(method)), Some(id)) if is_id(&id) => Incoming::Request { id, method, params },
        (None, Some(Value::Number(id))) => match (id.as_u64(), fields.remove("result"), fields.remove("error")) {
            (Some(id), Some(result), None) => Incoming::Answer(id, Ok(result)),
            (Some(id), None, Some(error)) => Incoming::Answer(id, Err(rejected(&error))),
            _ => Incoming::Stray,
        },
        _ => Incoming::Stray,
    }
}

fn is_id(id: &Value) -> bool {
    id.is_number() || id.as_str().is_some_and(|text| text.len() <= ID_BYTES_MAX)
}

fn rejected(error: &Value) -> Rejected {
    let message = error["message"].as_str().unwrap_or("no reason was given");
    Rejected { code: error["code"].as_i64().unwrap_or_default(), message: crate::text::clean(message, 4 * 1024) }
}

/// The line of a request.
pub(crate) fn request(id: u64, method: &str, params: &Value) -> String {
    line(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
}

/// The line of a notification.
pub(crate) fn notification(method: &str, params: &Value) -> String {
    line(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
}

/// The line of an answer to a request of the server.
pub(crate) fn answer(id: &Value, result: Result<Value, Rejected>) -> String {
    line(&match result {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err(Rejected { code, message }) => {
            json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
        }
    })
}

fn line(message: &Value) -> String {
    let mut line = message.to_string();
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_message_or_a_batch_and_all_else_is_stray() {
        let answer = |id| Incoming::Answer(id, Ok(json!({})));
        let rejected = Rejected { code: -1, message: "no".to_owned() };
        for (line, expected) in [
            ("Server is up", None),
            ("{", None),
            ("7", Some(vec![Incoming::Stray])),
            (r#"{"id":7,"result":{}}"#, Some(vec![answer(7)])),
            (r#"{"id":"7","result":{}}"#, Some(vec![Incoming::Stray])),
            (r#"{"id":-7,"result":{}}"#, Some(vec![Incoming::Stray])),
            (r#"{"id":7,"result":{},"error":{}}"#, Some(vec![Incoming::Stray])),
            (r#"{"id":7,"error":{"code":-1,"message":"no"}}"#, Some(vec![Incoming::Answer(7, Err(rejected))])),
            (
                r#"[{"id":1,"result":{}},{"method":"x"}]"#,
                Some(vec![answer(1), Incoming::Notification { method: "x".to_owned(), params: Value::Null }]),
            ),
            (r#"{"id":[],"method":"x"}"#, Some(vec![Incoming::Stray])),
        ] {
            assert_eq!(read(line.as_bytes()), expected, "{line}");
        }
        let deep = format!("{{\"id\":1,\"result\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(read(deep.as_bytes()), None, "no depth of a server's text reaches our stack");
    }

    #[test]
    fn what_is_sent_is_one_line() {
        assert_eq!(request(1, "ping", &json!({"a": "x\ny"})).matches('\n').count(), 1);
        assert!(notification("n", &json!({})).ends_with('\n'));
        assert_eq!(answer(&json!("a"), Ok(json!({}))).matches('\n').count(), 1);
    }
}
