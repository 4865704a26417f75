//! Reads the arguments of a call as models and the servers before them write them.
//!
//! Arguments are one JSON object. Some servers wrap it, and the meaning is still clear:
//!
//! | what comes | what it means |
//! |---|---|
//! | nothing, white space, `null` | an empty object |
//! | a JSON string whose text is an object | that object |
//! | `{}{"path":"a"}` or the same object several times | the last one |
//! | an object, and after it `</tool_call>` | that object |
//!
//! Everything else is refused: of two different objects, the meant one is unknown.
//!
//! The same function produces the arguments that the rules judge, those that the tool runs with, and those that go back to a
//! provider. A change must keep it the only one: otherwise a call could do something other than what was allowed.

use serde_json::{Map, Value};

/// What some servers leave behind the arguments: the end mark of the model's own format.
const END_MARK: &str = "</tool_call>";

/// The arguments as an object; the error says why they are none.
pub(crate) fn object(input: &str) -> Result<Map<String, Value>, serde_json::Error> {
    let text = input.trim();
    let text = text.strip_suffix(END_MARK).unwrap_or(text).trim_end();
    let strict = match text {
        "" => return Ok(Map::new()),
        text => serde_json::from_str::<Option<Map<String, Value>>>(text),
    };
    let error = match strict {
        Ok(fields) => return Ok(fields.unwrap_or_default()),
        Err(error) => error,
    };
    if let Some(inner) = text.starts_with('"').then(|| serde_json::from_str::<String>(text).ok()).flatten() {
        return serde_json::from_str(&inner);
    }
    last_of(text).ok_or(error)
}

/// The last of several whole objects, if all before it are empty, or all are equal.
fn last_of(text: &str) -> Option<Map<String, Value>> {
    let objects = serde_json::Deserializer::from_str(text).into_iter::<Map<String, Value>>();
    let mut objects = objects.collect::<Result<Vec<_>, _>>().ok()?;
    let last = objects.pop()?;
    let is_clear = objects.iter().all(Map::is_empty) || objects.iter().all(|object| *object == last);
    is_clear.then_some(last)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_taken_where_they_are_clear_and_refused_where_they_are_not() {
        let path = Some(json!({"path": "a"}));
        for (input, expected) in [
            ("", Some(json!({}))),
            (" null\n", Some(json!({}))),
            (r#" {"path":"a"} "#, path.clone()),
            // Gateways that begin with an empty object, and servers that send the arguments twice.
            (r#"{}{"path":"a"}"#, path.clone()),
            (r#"{"path":"a"}{"path":"a"}"#, path.clone()),
            ("{\"path\":\"a\"}\n</tool_call>", path.clone()),
            ("</tool_call>", Some(json!({}))),
            (r#""{\"path\":\"a\"}""#, path.clone()),
            (r#"{"path":"a"}{}"#, None),
            (r#"{"path":"a"}{"path":"b"}"#, None),
            (r#"{}{"path":"a"}{"path":"b"}"#, None),
            (r#"{"path":"a"} and more"#, None),
            (r#"{"path":"#, None),
            (r#"{}{"path":"#, None),
            (r#""a""#, None),
            (r#""[1]""#, None),
            ("[1]", None),
            ("7", None),
        ] {
            assert_eq!(object(input).ok().map(Value::Object), expected, "{input}");
        }
    }
}
