//! What an editor shows of a tool call: its title, its kind, the files that it is about, and the change that it would make.
//!
//! Pure, and made from the name and the arguments alone, so that a question about a call shows the same as the call. The arguments
//! are what a model wrote: what is no JSON, or has other fields, is shown without them. Everything is bounded.

use std::path::Path;

use serde_json::{Value, json};
use tamtam::session::{ErrorReason, FilePart};

use crate::content;

/// The longest title, in characters.
const TITLE_MAX: usize = 200;
/// The longest arguments, details, or half of a change that are shown, in bytes.
const SHOWN_BYTES_MAX: usize = 64 << 10;

/// The fields of a call that its arguments decide.
pub(crate) fn facts(name: &str, input: &str, workspace: &Path) -> Value {
    let arguments: Value = serde_json::from_str(input).unwrap_or_default();
    let mut facts = json!({ "title": title(name, &arguments), "kind": kind(name) });
    if input.len() <= SHOWN_BYTES_MAX && arguments.is_object() {
        facts["rawInput"] = arguments.clone();
    }
    if let Some(path) = named_path(&arguments) {
        let mut location = json!({ "path": absolute(path, workspace) });
        if let Some(line) = arguments["offset"].as_u64().filter(|_| name == "read") {
            location["line"] = line.into();
        }
        facts["locations"] = json!([location]);
        if let Some(change) = change(name, &arguments, path, workspace) {
            facts["content"] = json!([change]);
        }
    }
    facts
}

/// The names under which the file tools take their file.
const PATH_NAMES: [&str; 4] = ["path", "file_path", "filePath", "file"];

/// The file that the arguments of a call name.
pub(crate) fn named_path(arguments: &Value) -> Option<&str> {
    PATH_NAMES.iter().find_map(|field| arguments[field].as_str())
}

fn absolute(path: &str, workspace: &Path) -> String {
    workspace.join(path).display().to_string()
}

fn title(name: &str, arguments: &Value) -> String {
    let of = |field: &str| arguments[field].as_str();
    let title = match (name, named_path(arguments)) {
        ("bash", _) => of("command").map(str::to_owned),
        ("read", Some(path)) => Some(format!("Read {path}")),
        ("write", Some(path)) => Some(format!("Write {path}")),
        ("edit", Some(path)) => Some(format!("Edit {path}")),
        ("ls", path) => Some(format!("List {}", path.unwrap_or("."))),
        ("grep" | "find", _) => of("pattern").map(|pattern| format!("Search for {pattern}")),
        ("task", _) => of("description").or(of("query")).map(str::to_owned),
        ("todo_write", _) => Some("Update the to-do list".to_owned()),
        _ => None,
    };
    cut(&title.unwrap_or_else(|| name.to_owned()))
}

/// One line of bounded length.
pub(crate) fn cut(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let mut cut: String = line.chars().take(TITLE_MAX).collect();
    if cut.len() < text.trim_end().len() {
        cut.push('…');
    }
    cut
}

pub(crate) fn kind(name: &str) -> &'static str {
    match name {
        "read" | "ls" | "skill" => "read",
        "edit" | "write" => "edit",
        "bash" => "execute",
        "grep" | "find" => "search",
        "todo_write" | "todo_read" => "think",
        "plan_enter" | "plan_exit" => "switch_mode",
        _ => "other",
    }
}

/// The change that a call would make, where its arguments say it.
fn change(name: &str, arguments: &Value, path: &str, workspace: &Path) -> Option<Value> {
    let of = |field: &str| arguments[field].as_str().filter(|text| text.len() <= SHOWN_BYTES_MAX);
    let path = absolute(path, workspace);
    match name {
        "edit" => {
            let (old, new) = (of("old_string").or(of("oldString"))?, of("new_string").or(of("newString"))?);
            Some(json!({ "type": "diff", "path": path, "oldText": old, "newText": new }))
        }
        "write" => Some(json!({ "type": "diff", "path": path, "oldText": null, "newText": of("content")? })),
        _ => None,
    }
}

/// A text as the content of a call.
pub(crate) fn said(text: &str) -> Value {
    let text = &text[..text.floor_char_boundary(SHOWN_BYTES_MAX)];
    json!({ "type": "content", "content": content::text(text) })
}

/// How a call ended.
pub(crate) struct Ended<'a> {
    pub(crate) name: &'a str,
    pub(crate) title: Option<&'a str>,
    pub(crate) error: Option<ErrorReason>,
    /// What the model was told.
    pub(crate) content: &'a str,
    pub(crate) details: &'a Value,
    pub(crate) attachments: &'a [FilePart],
}

impl Ended<'_> {
    /// The fields of a call that its result decides. `change` is the change that was shown, which stays if it was made.
    pub(crate) fn facts(&self, change: Option<&Value>) -> Value {
        let mut content: Vec<Value> = change.filter(|_| self.error.is_none()).cloned().into_iter().collect();
        // What an edit tells the model says less than the change that is shown.
        if content.is_empty() {
            content.push(said(self.content));
        }
        let images = self.attachments.iter().map(|file| json!({ "type": "content", "content": content::file(file) }));
        content.extend(images);
        let status = if self.error.is_none() { "completed" } else { "failed" };
        let mut facts = json!({ "status": status, "content": content });
        if let Some(title) = self.title {
            facts["title"] = cut(title).into();
        }
        if !self.details.is_null() && self.details.to_string().len() <= SHOWN_BYTES_MAX {
            facts["rawOutput"] = self.details.clone();
        }
        if let Some(error) = self.error {
            facts["_meta"] = json!({ "tamtam": { "error": error } });
        }
        facts
    }
}

/// The to-do list as a plan. What is cancelled is no part of it any more.
pub(crate) fn plan(todos: &Value) -> Option<Value> {
    let entries = todos.as_array()?.iter().filter(|todo| todo["status"] != "cancelled").map(|todo| {
        let priority = todo["priority"].as_str().unwrap_or("medium");
        json!({ "content": todo["content"], "priority": priority, "status": todo["status"] })
    });
    Some(json!({ "sessionUpdate": "plan", "entries": entries.collect::<Vec<_>>() }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_call_shows_its_files_and_the_change_that_it_would_make() {
        let input = r#"{"path":"src/a.rs","old_string":"x","new_string":"y"}"#;
        let shown = facts("edit", input, Path::new("/w"));
        let raw: Value = serde_json::from_str(input).unwrap();
        let change = json!({ "type": "diff", "path": "/w/src/a.rs", "oldText": "x", "newText": "y" });
        let wanted = json!({
            "title": "Edit src/a.rs", "kind": "edit", "rawInput": raw,
            "locations": [{ "path": "/w/src/a.rs" }], "content": [change],
        });
        assert_eq!(shown, wanted);
    }

    /// What a model wrote is never trusted to be what a tool takes.
    #[test]
    fn arguments_that_are_none_are_left_out() {
        for input in ["", "{", "[]", "7", r#"{"path":7,"command":[]}"#] {
            let shown = facts("bash", input, Path::new("/w"));
            assert_eq!((&shown["title"], &shown["kind"]), (&json!("bash"), &json!("execute")), "{input}");
            assert!(shown.get("locations").is_none() && shown.get("content").is_none(), "{input}");
        }
        let long = json!({ "path": "a", "content": "x".repeat(SHOWN_BYTES_MAX + 1) }).to_string();
        let shown = facts("write", &long, Path::new("/w"));
        assert!(shown.get("rawInput").is_none() && shown.get("content").is_none());
        let many = facts("bash", &json!({ "command": "echo 1\necho 2" }).to_string(), Path::new("/w"));
        assert_eq!(many["title"], "echo 1…");
    }

    #[test]
    fn the_to_do_list_is_the_plan() {
        let todos = json!([
            { "content": "a", "status": "completed", "priority": "high" },
            { "content": "b", "status": "in_progress" },
            { "content": "c", "status": "cancelled" },
        ]);
        let entries = json!([
            { "content": "a", "priority": "high", "status": "completed" },
            { "content": "b", "priority": "medium", "status": "in_progress" },
        ]);
        assert_eq!(plan(&todos).unwrap(), json!({ "sessionUpdate": "plan", "entries": entries }));
        assert_eq!(plan(&json!("x")), None);
    }
}
