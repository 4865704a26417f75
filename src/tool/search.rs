//! What a search for tools has found: which of the deferred tools a session's model is told of.
//!
//! Pure functions of a result, which the core asks when it takes the result of a call. A hook may have changed the result, so it is
//! read without trust.

use crate::tool::ToolResult;

/// The name of the tool whose results say which deferred tools were found ([`Tool::deferred`](crate::tool::Tool::deferred)).
pub const TOOL_SEARCH: &str = "tool_search";

/// How many names one result may add.
const FOUND_BY_ONE_MAX: usize = 32;
/// How many names a session keeps.
const FOUND_MAX: usize = 256;
/// The longest name, in bytes: what providers take.
const NAME_BYTES_MAX: usize = 64;

/// What a session has found, with what this result adds; `None` if it adds nothing.
pub(crate) fn of_result(tool: &str, result: &ToolResult, known: &[String]) -> Option<Vec<String>> {
    if tool != TOOL_SEARCH || result.is_error() {
        return None;
    }
    let mut all = known.to_vec();
    for name in result.details.get("found")?.as_array()?.iter().take(FOUND_BY_ONE_MAX).filter_map(|name| name.as_str())
    {
        let is_new = (1..=NAME_BYTES_MAX).contains(&name.len()) && !all.iter().any(|known| known == name);
        if is_new && all.len() < FOUND_MAX {
            all.push(name.to_owned());
        }
    }
    (all.len() > known.len()).then_some(all)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_found_is_added_once_in_its_order_and_bounded() {
        let known = ["b".to_owned()];
        let found = |tool: &str, details| of_result(tool, &ToolResult::ok("").with_details(details), &known);
        assert_eq!(
            found(TOOL_SEARCH, json!({"found": ["c", "b", "a", "c"]})),
            Some(["b", "c", "a"].map(str::to_owned).into())
        );
        for nothing in [json!({}), json!({"found": "c"}), json!({"found": ["b", 7, "", "x".repeat(65)]}), json!(null)] {
            assert_eq!(found(TOOL_SEARCH, nothing.clone()), None, "{nothing}");
        }
        assert_eq!(found("search", json!({"found": ["c"]})), None, "another tool finds nothing");
        let mut failed = ToolResult::error("no");
        failed.details = json!({"found": ["c"]});
        assert_eq!(of_result(TOOL_SEARCH, &failed, &known), None);
        let many: Vec<_> = (0..400).map(|n| format!("t{n}")).collect();
        let one = of_result(TOOL_SEARCH, &ToolResult::ok("").with_details(json!({"found": many})), &[]);
        assert_eq!(one.map(|all| all.len()), Some(32));
        let full = of_result(TOOL_SEARCH, &ToolResult::ok("").with_details(json!({"found": ["x", "y"]})), &many[..255]);
        assert_eq!(full.map(|all| all.len()), Some(256));
    }
}
