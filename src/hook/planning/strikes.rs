//! The three-strike rule: which failures are the same, and when a model is advised to change its approach.
//!
//! Two failures are the same where the tool is the same and the class of the error: the reason, and the first words of the text
//! without numbers, paths and quoted names. A command that ends with another code than 0 is a failure too, by that code. What was
//! refused or stopped from outside is none: another approach would not help.
//!
//! The counts are those of one session since its newest message. A change must keep their number bounded ([`CLASSES_MAX`]): the
//! texts of errors come from tools.

use std::collections::BTreeMap;

use crate::{tool::ToolResult, words::message::ErrorReason};

/// So many failures of one class are a reason to stop and think.
pub(super) const STRIKES: u32 = 3;
/// How many classes are counted. With one more, all counts are reset.
const CLASSES_MAX: usize = 64;
/// How many words of a text make its class.
const WORDS_MAX: usize = 6;
/// A longer word names something.
const WORD_BYTES_MAX: usize = 40;

/// The failures since the newest message, by tool and class.
#[derive(Clone, Debug, Default)]
pub(super) struct Strikes(BTreeMap<(String, String), u32>);

impl Strikes {
    /// Counts a result, and returns the hint that is due: at every third failure of a class.
    pub(super) fn count(&mut self, tool: &str, result: &ToolResult) -> Option<String> {
        let class = class(result)?;
        let key = (tool.to_owned(), class);
        if self.0.len() >= CLASSES_MAX && !self.0.contains_key(&key) {
            self.0.clear();
        }
        let count = self.0.entry(key.clone()).or_default();
        *count = count.saturating_add(1);
        let (count, (tool, class)) = (*count, key);
        count.is_multiple_of(STRIKES).then(|| {
            format!(
                "[Hint of the runtime: {tool} failed {count} times in this way ({class}). Change the approach, or ask the user.]"
            )
        })
    }
}

impl Strikes {
    /// The failures so far, the most frequent first, at most `max` of them.
    pub(super) fn newest(&self, max: usize) -> Vec<String> {
        let mut all: Vec<_> = self.0.iter().collect();
        all.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let line = |((tool, class), count): (&(String, String), &u32)| format!("{tool}, {count} times: {class}");
        all.into_iter().take(max).map(line).collect()
    }
}

/// The class of a failure; `None` for what is not a failure of the call.
fn class(result: &ToolResult) -> Option<String> {
    match result.error {
        None => {
            let code = result.details.get("exit_code")?.as_i64().filter(|code| *code != 0)?;
            Some(format!("exit code {code}"))
        }
        Some(ErrorReason::Failed) => Some(words(&result.content)),
        Some(ErrorReason::Timeout) => Some("timeout".to_owned()),
        Some(_) => None,
    }
}

/// The first words of a text that do not name anything.
fn words(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let is_name = |c: char| c.is_ascii_digit() || "/\\\"'`_.<>{}".contains(c);
    let is_plain = |word: &&str| word.len() <= WORD_BYTES_MAX && !word.contains(is_name);
    let plain = line.split_whitespace().map(|word| word.trim_end_matches(['.', ',', ':', ';'])).filter(is_plain);
    let words: Vec<_> = plain.filter(|word| !word.is_empty()).take(WORDS_MAX).collect();
    if words.is_empty() { "an error".to_owned() } else { words.join(" ").to_lowercase() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// I-12, C-38: the third failure of one tool in one class, wherever the others are; other names and numbers are the same
    /// class.
    #[test]
    fn the_third_failure_of_a_class_is_told() {
        let failed = |text: &str| ToolResult::error(text);
        let code = |code: i64| ToolResult::ok("").with_details(json!({ "exit_code": code }));
        let mut strikes = Strikes::default();
        for (tool, result, is_told) in [
            ("edit", failed("The text was not found in src/a.rs."), false),
            ("bash", code(1), false),
            ("edit", failed("The text was not found in b.rs, line 7."), false),
            ("read", failed("The text was not found in c.rs."), false),
            ("edit", failed("The text occurs twice"), false),
            ("edit", ToolResult::failed(ErrorReason::Denied, "The text was not found in d.rs."), false),
            ("edit", ToolResult::ok("done"), false),
            ("edit", failed("\nthe text was not found in \"e\".rs"), true),
            ("bash", code(0), false),
            ("bash", code(1), false),
            ("bash", code(2), false),
            ("bash", code(1), true),
            ("bash", code(1), false),
            ("bash", code(1), false),
            ("bash", code(1), true),
        ] {
            let hint = strikes.count(tool, &result);
            assert_eq!(hint.is_some(), is_told, "{tool} {result:?} {hint:?}");
        }
    }

    #[test]
    fn the_classes_are_bounded() {
        let mut strikes = Strikes::default();
        for n in 0..1_000_u32 {
            strikes.count(&format!("tool{n}"), &ToolResult::error("no"));
        }
        assert!(strikes.0.len() <= CLASSES_MAX);
    }
}
