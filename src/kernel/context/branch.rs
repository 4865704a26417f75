//! The request for the summary of a branch (messages that a conversation leaves, to go on from an earlier point), the digest that
//! stands in where no model can write the summary, and the message that stands in the conversation for the branch afterwards.
//!
//! Pure functions of items. Request and digest are bounded in tokens, and neither has results of calls. [`render_branch`] runs in
//! the fold: a change must give the same text for existing tapes, because request hashes depend on it.

use std::sync::Arc;

use crate::{
    kernel::context::{
        FileOperations,
        carried::within,
        summary::{self, words},
        tokens,
    },
    model::{AnswerPart, Item},
    words::ids::Seq,
};

/// The most tokens of a branch's summary.
pub(crate) const BRANCH_SUMMARY_MAX: u64 = 2_048;

/// The most characters of each item in the digest of a branch that no model could sum up.
const DIGEST_CHARS_MAX: usize = 200;

/// The request to the summariser of a branch. Results are left out, because the calls say enough. If the branch is larger than
/// `tokens_max`, only its newest part is shown.
#[must_use]
pub(crate) fn branch_prompt(items: &[Arc<Item>], tokens_max: u64) -> String {
    let mut shown = Vec::new();
    let mut taken = 0;
    for item in items.iter().rev() {
        let Some(text) = line(item) else { continue };
        let size = tokens::of_text(&text);
        if taken + size > tokens_max {
            // Of the item that does not fit, the beginning and the end are shown if there is some room.
            let room = tokens_max.saturating_sub(taken);
            if taken < tokens_max / 10 * 9 && room > 0 {
                shown.push(within(&text, room));
            }
            break;
        }
        taken += size;
        shown.push(text);
    }
    shown.reverse();
    format!(
        "<branch>\n{}\n</branch>\n\nThe conversation above is a branch that the user has left, to go on from an earlier point. \
         Say in a few sentences for each heading what is worth knowing of it there. Use exactly these headings:\n\n\
         ## Goal\n(what the user wanted on this branch)\n\n## Tried\n(what was done, and what came of it)\n\n\
         ## Findings\n(facts, decisions and limits that hold elsewhere too)\n",
        shown.join("\n\n")
    )
}

/// The digest of a branch that no model can sum up: the beginning of each item.
#[must_use]
pub(crate) fn branch_digest(items: &[Arc<Item>], tokens_max: u64) -> String {
    let lines = items.iter().filter_map(|item| line(item));
    let lines: Vec<_> = lines.map(|text| text.chars().take(DIGEST_CHARS_MAX).collect::<String>()).collect();
    within(&lines.join("\n"), tokens_max)
}

fn line(item: &Item) -> Option<String> {
    match item {
        Item::User(user) => Some(format!("[user] {}", words(&user.parts))),
        Item::Assistant(answer) => {
            let parts = answer.parts.iter().filter_map(|part| match part {
                AnswerPart::Text { text, .. } if !text.is_empty() => Some(format!("[assistant] {text}")),
                AnswerPart::Call { name, input, .. } => Some(format!("[call] {name} {input}")),
                AnswerPart::Text { .. } | AnswerPart::Reasoning { .. } => None,
            });
            let parts: Vec<_> = parts.collect();
            (!parts.is_empty()).then(|| parts.join("\n"))
        }
        Item::Result(_) => None,
    }
}

/// The text of the message that stands in the context for a branch.
#[must_use]
pub(crate) fn render_branch(summary: &str, files: &FileOperations, from: Seq, to: Seq) -> String {
    let mut text = format!(
        "[Before this, another way was tried and left: entries {} to {to} of its record. It is no part of this conversation; \
         this is what came of it.]\n\n{}\n",
        from.next(),
        summary.trim()
    );
    summary::files(&mut text, "Files read there", "Files modified there", files);
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;
    use crate::model::samples::{answer, call, result, text, user};

    fn branch() -> Vec<Arc<Item>> {
        let run = AnswerPart::Call {
            id: "c".into(),
            name: "bash".into(),
            input: r#"{"command":"cargo test"}"#.into(),
            extra: None,
        };
        [
            user("How are you"),
            answer(vec![text("Fine."), run]),
            Item::Result(result("c", "SECRET OUTPUT")),
            user("Run tests"),
        ]
        .map(Arc::new)
        .to_vec()
    }

    /// BRANCHSUM-001, BRANCHSUM-002: the words and the calls of a branch are in what is summed up, and in what stands for it
    /// where no model can; results are not.
    #[test]
    fn branchsum_001_002_words_and_calls_of_a_branch_are_told() {
        for told in [branch_prompt(&branch(), 10_000), branch_digest(&branch(), 10_000)] {
            assert!(told.contains("How are you") && told.contains("Run tests"), "{told}");
            assert!(told.contains(r#"[call] bash {"command":"cargo test"}"#) && !told.contains("SECRET"), "{told}");
        }
    }

    /// Of a branch that is too large the newest part is shown, and the item at the border by its ends.
    #[test]
    fn of_a_large_branch_the_newest_part_is_told() {
        let items: Vec<_> = (0..500).map(|n| Arc::new(user(&format!("{n} {}", "word ".repeat(100))))).collect();
        let prompt = branch_prompt(&items, 2_000);
        assert!(prompt.contains("499 word") && !prompt.contains("[user] 0 word"));
        assert!(tokens::of_text(&prompt) < 2_300);
        let one = [Arc::new(user(&"x".repeat(90_000)))];
        assert!(branch_prompt(&one, 2_000).contains("characters left out"));
        assert!(tokens::of_text(&branch_digest(&items, 500)) < 550);
    }

    /// The files of a branch go along, and its place on the record is told.
    #[test]
    fn what_stands_for_a_branch_names_its_files_and_its_place() {
        let mut files = FileOperations::default();
        files.note(&[answer(vec![call("c", r#"{"path":"a.rs"}"#)]), Item::Result(result("c", "x"))]);
        let told = render_branch("## Goal\nTry.", &files, Seq(7), Seq(19));
        assert!(told.contains("entries 8 to 19") && told.contains("## Goal\nTry.\n"), "{told}");
        assert!(told.contains("## Files read there\n- a.rs\n"), "{told}");
    }
}
