//! A server wants to know something from a person (*elicitation*): the question, and the answer that the server gets.
//!
//! Two pure functions; `ToolContext::ask` is the road between them, and it reaches the topmost session. That road carries a yes or a
//! no and no values. So a form is asked only if a yes can fill it: each field that it requires has a default, or is a yes-or-no field
//! itself. Any other form is declined at once, and so is a question that belongs to no call: nobody would know whom to ask.

use serde_json::{Map, Value, json};
use tamtam::tool::{Question, QuestionAnswer};

use crate::text::{clean, clean_line};

/// How many fields a form may have.
const FIELDS_MAX: usize = 32;

/// The question that a person gets, and the values that a yes stands for. `Err` for a form that no yes can fill.
pub(crate) fn question(server: &str, params: &Value) -> Result<(Question, Value), &'static str> {
    if params["mode"].as_str().is_some_and(|mode| mode != "form") {
        return Err("only forms are supported");
    }
    let schema = &params["requestedSchema"];
    let empty = Map::new();
    let fields = schema["properties"].as_object().unwrap_or(&empty);
    if fields.len() > FIELDS_MAX {
        return Err("the form has too many fields");
    }
    let is_required = |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
    let mut values = Map::new();
    for (name, field) in fields {
        match (&field["default"], field["type"] == "boolean") {
            (Value::Null, true) => values.insert(name.clone(), true.into()),
            (Value::Null, false) if is_required(name) => {
                return Err("the form needs values, and a person can only agree");
            }
            (Value::Null, false) => None,
            (default, _) => values.insert(name.clone(), default.clone()),
        };
    }
    let said = clean(params["message"].as_str().unwrap_or_default(), 4 * 1024);
    let mut details = format!("The server {server:?} says:\n{said}");
    if !values.is_empty() {
        let values = clean(&serde_json::to_string_pretty(&values).unwrap_or_default(), 4 * 1024);
        details.push_str(&format!("\n\nA yes answers:\n{values}"));
    }
    let title = format!("The MCP server {server:?} asks: {}", clean_line(&said, 200));
    Ok((Question::new(title).with_details(details), Value::Object(values)))
}

/// What the server is told.
pub(crate) fn response(answer: &QuestionAnswer, values: Value) -> Value {
    match answer {
        QuestionAnswer::Granted => json!({ "action": "accept", "content": values }),
        QuestionAnswer::Rejected { .. } | QuestionAnswer::Denied { .. } => declined(),
        _ => json!({ "action": "cancel" }),
    }
}

/// The answer to a question that nobody is asked.
pub(crate) fn declined() -> Value {
    json!({ "action": "decline" })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_form_is_asked_if_a_yes_can_fill_it() {
        let form = |properties: Value, required: Value| json!({"message": "Delete\u{7} all?", "requestedSchema": {"type": "object", "properties": properties, "required": required}});
        let sure =
            form(json!({"sure": {"type": "boolean"}, "n": {"type": "integer", "default": 3}}), json!(["sure", "n"]));
        let (asked, values) = question("s", &sure).unwrap();
        assert_eq!(asked.title, "The MCP server \"s\" asks: Delete all?");
        assert!(
            asked.details.starts_with("The server \"s\" says:\nDelete all?\n\nA yes answers:\n"),
            "{}",
            asked.details
        );
        assert_eq!(values, json!({"sure": true, "n": 3}));
        assert_eq!(
            response(&QuestionAnswer::Granted, values),
            json!({"action": "accept", "content": {"sure": true, "n": 3}})
        );
        let name = form(json!({"name": {"type": "string"}}), json!(["name"]));
        assert_eq!(question("s", &name).unwrap_err(), "the form needs values, and a person can only agree");
        let optional = form(json!({"name": {"type": "string"}}), json!([]));
        assert_eq!(question("s", &optional).unwrap().1, json!({}));
        assert!(question("s", &json!({"mode": "url", "url": "http://evil"})).is_err());
    }

    #[test]
    fn a_no_declines_and_silence_cancels() {
        let of = |answer| response(&answer, json!({}))["action"].clone();
        assert_eq!(of(QuestionAnswer::Rejected { message: None }), "decline");
        assert_eq!(of(QuestionAnswer::Denied { by: "x".to_owned() }), "decline");
        assert_eq!(of(QuestionAnswer::Unheard), "cancel");
        assert_eq!(of(QuestionAnswer::Expired), "cancel");
    }
}
