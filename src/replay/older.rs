//! What became of a call, by the words of its result: on tapes of before `judged` stood beside it, and on those alone.
//!
//! Those words were the runtime's own, but nothing on such a tape tells them from the words of a tool. Nothing is added here any
//! more: what is new is data.

use crate::{session::Judged, tool::ToolResult};

/// What was made of a call that was judged and not run.
pub(super) fn judged(result: &ToolResult) -> Option<Judged> {
    let text = &result.content;
    if text.starts_with("The tool ") && text.contains(" crashed over these arguments; the call was not run") {
        return Some(Judged::Crashed);
    }
    match text.strip_prefix("Permission denied: ") {
        Some(why) if why.ends_with("nobody listens who could answer.") => Some(Judged::Unheard),
        Some("nobody answered the question in time.") => Some(Judged::Expired),
        Some(_) => Some(Judged::Denied),
        None => None,
    }
}

/// The tool that was not found, and those there were.
pub(super) fn not_found(result: &ToolResult) -> Option<(&str, impl Iterator<Item = &str>)> {
    let (name, listed) = result.content.strip_prefix("tool not found: ")?.split_once(". Available tools: ")?;
    Some((name, listed.split(", ").filter(|name| !name.is_empty())))
}
