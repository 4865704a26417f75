//! The to-do list of a session: what its model wants to do, in the model's own words, as a list of [`Todo`].
//!
//! The list is a fact of the tape and no memory of a tool. The tool `todo_write` (`tools/todo.rs`) puts the whole list into the
//! details of its result, and the state takes it from there (`kernel/apply.rs`), unless the list cannot be read or is over the
//! limits. So the list survives a crash, and a fork has it.
//!
//! A change must keep that the lists of existing tapes are read, because [`Todo`] is a stored format: no field or variant renamed,
//! none retyped, each new field with a serde default.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::words::message::ToolResult;

/// The tool whose results hold lists.
pub(crate) const TODO_WRITE: &str = "todo_write";

/// The most items of a list, and the most bytes of all their texts.
pub(crate) const TODOS_MAX: usize = 100;
pub(crate) const TODO_BYTES_MAX: usize = 16 * 1_024;

/// One item of a to-do list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Todo {
    /// What is to be done, in one line.
    pub content: String,
    /// How far it is.
    pub status: TodoStatus,
    /// How much it matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<TodoPriority>,
}

/// How far an item of a to-do list is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TodoStatus {
    /// Not begun.
    Pending,
    /// Under way.
    InProgress,
    /// Done.
    Completed,
    /// Not to be done any more.
    Cancelled,
}

/// How much an item of a to-do list matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TodoPriority {
    /// Before all others.
    High,
    /// In between.
    Medium,
    /// After all others.
    Low,
}

impl Todo {
    /// Whether the item still has to be done.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.status, TodoStatus::Pending | TodoStatus::InProgress)
    }
}

/// Refuses a list that is too large to be kept.
pub(crate) fn check(todos: &[Todo]) -> Result<(), String> {
    let bytes: usize = todos.iter().map(|todo| todo.content.len()).sum();
    if todos.len() > TODOS_MAX || bytes > TODO_BYTES_MAX {
        return Err(format!(
            "The list has {} items with {bytes} bytes. At most {TODOS_MAX} items with {TODO_BYTES_MAX} bytes are kept: leave out \
             what is done, and shorten the rest.",
            todos.len()
        ));
    }
    Ok(())
}

/// The new list that a result holds; `None` if it holds none. A hook may have changed the result, so it is checked again.
pub(crate) fn of_result(tool: &str, result: &ToolResult) -> Option<Vec<Todo>> {
    if tool != TODO_WRITE || result.is_error() {
        return None;
    }
    let todos = Vec::<Todo>::deserialize(result.details.get("todos")?).ok()?;
    check(&todos).is_ok().then_some(todos)
}

/// The list as text, a line for each item.
pub(crate) fn render(todos: &[Todo]) -> String {
    let mut text = String::new();
    for todo in todos {
        let mark = match todo.status {
            TodoStatus::Pending => ' ',
            TodoStatus::InProgress => '>',
            TodoStatus::Completed => 'x',
            TodoStatus::Cancelled => '-',
        };
        let priority = match todo.priority {
            Some(TodoPriority::High) => " (high)",
            Some(TodoPriority::Low) => " (low)",
            Some(TodoPriority::Medium) | None => "",
        };
        let content: String = todo.content.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "- [{mark}] {content}{priority}");
    }
    text
}
