//! The tools of the to-do list: `todo_write` replaces the list of the session, `todo_read` shows it.
//!
//! The tools keep nothing: a good result of `todo_write` holds the list, the tape has the result, and the context of a later call
//! has the newest list (`tool/todo.rs`). A change must keep `todos` in the details of that result, because the fold takes the
//! list from there. The tools touch nothing outside of their session, so the permission profiles treat them like a read
//! (permission `todo`).

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    model::BoxFuture,
    tool::{Access, Effect, Todo, Tool, ToolContext, ToolResult, parse_arguments, todo},
};

/// Replaces the to-do list of the session.
#[derive(Clone, Copy, Debug, Default)]
pub struct TodoWrite;

/// Shows the to-do list of the session.
#[derive(Clone, Copy, Debug, Default)]
pub struct TodoRead;

#[derive(Deserialize)]
struct NewList {
    todos: Vec<Todo>,
}

fn read(arguments: Value) -> Result<Vec<Todo>, String> {
    let NewList { todos } = parse_arguments(arguments).map_err(|error| error.to_string())?;
    todo::check(&todos)?;
    Ok(todos)
}

fn access() -> Vec<Access> {
    vec![Access::new("todo", "*")]
}

impl Tool for TodoWrite {
    fn name(&self) -> &'static str {
        todo::TODO_WRITE
    }

    fn aliases(&self) -> &[&str] {
        &["todowrite", "TodoWrite"]
    }

    fn description(&self) -> &'static str {
        "Replaces the to-do list of this session. For work of three steps or more: write the steps first, keep one in_progress, and \
         mark each completed as soon as it is done."
    }

    fn schema(&self) -> Value {
        // Written out: some providers read no references, which a schema of nested types has.
        let content = json!({ "type": "string", "description": "What is to be done, in one line." });
        let status = json!({ "type": "string", "enum": ["pending", "in_progress", "completed", "cancelled"] });
        let priority = json!({ "type": "string", "enum": ["high", "medium", "low"] });
        let properties = json!({ "content": content, "status": status, "priority": priority });
        let item = json!({ "type": "object", "properties": properties, "required": ["content", "status"] });
        let about = "The whole list, in the order in which it is to be done. It takes the place of the list before.";
        let todos = json!({ "type": "array", "items": item, "description": about });
        json!({ "type": "object", "properties": { "todos": todos }, "required": ["todos"] })
    }

    /// The same list, written twice, is the same list.
    fn effect(&self) -> Effect {
        Effect::Idempotent
    }

    fn answers_at_once(&self) -> bool {
        true
    }

    fn access(&self, _: &Value) -> Vec<Access> {
        access()
    }

    fn permissions(&self) -> Vec<String> {
        vec!["todo".to_owned()]
    }

    fn check(&self, arguments: &Value) -> Result<(), String> {
        read(arguments.clone()).map(drop)
    }

    fn run<'a>(&'a self, arguments: Value, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            match read(arguments) {
                Ok(todos) => {
                    let open = todos.iter().filter(|todo| todo.is_open()).count();
                    let said = format!("{open} of {} to-do items open", todos.len());
                    ToolResult::ok(format!("The list is kept: {said}."))
                        .with_details(json!({ "todos": todos }))
                        .with_title(said)
                }
                Err(error) => ToolResult::error(error),
            }
        })
    }
}

impl Tool for TodoRead {
    fn name(&self) -> &'static str {
        "todo_read"
    }

    fn aliases(&self) -> &[&str] {
        &["todoread", "TodoRead"]
    }

    fn description(&self) -> &'static str {
        "Shows the to-do list of this session."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object", "properties": {} })
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }

    fn parallel(&self) -> bool {
        true
    }

    fn answers_at_once(&self) -> bool {
        true
    }

    fn access(&self, _: &Value) -> Vec<Access> {
        access()
    }

    fn permissions(&self) -> Vec<String> {
        vec!["todo".to_owned()]
    }

    fn run<'a>(&'a self, _: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            let text = match &*context.todos {
                [] => "The list is empty.".to_owned(),
                todos => todo::render(todos),
            };
            ToolResult::ok(text).with_details(json!({ "todos": *context.todos }))
        })
    }
}
