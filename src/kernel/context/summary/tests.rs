#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;

use super::*;
use crate::{
    model::{ModelAnswer, ToolResultItem, UserItem},
    words::message::Finish,
};

fn user(text: &str) -> Arc<Item> {
    Arc::new(Item::User(UserItem { id: "m".into(), parts: vec![Part::text(text)], fragment: Default::default() }))
}

fn call(id: &str, tool: &str, input: &str) -> Arc<Item> {
    let part = AnswerPart::Call { id: id.into(), name: tool.into(), input: input.into(), extra: None };
    Arc::new(Item::Assistant(ModelAnswer::new(vec![part], Finish::ToolCalls)))
}

fn result(id: &str, tool: &str, content: &str) -> Arc<Item> {
    Arc::new(Item::Result(ToolResultItem {
        call: id.into(),
        name: tool.into(),
        content: content.into(),
        is_error: false,
        attachments: vec![],
        time: Default::default(),
        seq: Default::default(),
        fragment: Default::default(),
    }))
}

/// J-12, J-15, J-23, BDD-COMPACT-019, 021, PROMPT-007: the first summary is asked for under all six headings, for what is done, under way
/// and open, for what was decided and what was tried, and names no earlier one; calls and results are told as such.
#[test]
fn bdd_compact_019_021_a_first_summary_is_asked_for_under_six_headings() {
    let items = [user("add a test"), call("c1", "read", r#"{"path":"a.rs"}"#), result("c1", "read", "fn a() {}")];
    let prompt = Summarise { earlier: None, items: &items, turn_prefix: 0, tokens_max: 100_000 }.prompt();
    for heading in HEADINGS {
        assert!(prompt.contains(&format!("\n## {heading}\n")), "{heading}");
    }
    assert!(prompt.contains("Done, In Progress, Blocked") && prompt.contains("tried and given up"), "{prompt}");
    assert!(prompt.contains("[user]\nadd a test"));
    assert!(prompt.contains(r#"[Tool: read] {"path":"a.rs"}"#));
    assert!(prompt.contains("[Tool Result: read]\nfn a() {}"));
    assert!(!prompt.contains("earlier-summary") && !prompt.contains("turn-in-progress"));
}

/// J-26, BDD-COMPACT-020, PROMPT-006: where there is an earlier summary it is given, to be brought up to date.
/// BDD-COMPACT-022: the prompt to the summariser holds the earlier summary word for word, and asks for an update of it.
#[test]
fn bdd_compact_022_a_second_summary_updates_the_first() {
    let items = [user("go on")];
    let prompt =
        Summarise { earlier: Some("之前的摘要内容"), items: &items, turn_prefix: 0, tokens_max: 100_000 }.prompt();
    assert!(prompt.contains("<earlier-summary>\n之前的摘要内容\n</earlier-summary>"));
    assert!(prompt.contains("Update the earlier summary"));
}

/// J-22: the part of a turn that is cut off is told apart from the turns before it.
#[test]
fn the_beginning_of_a_split_turn_is_named_as_such() {
    let items = [user("first"), user("second")];
    let prompt = Summarise { earlier: None, items: &items, turn_prefix: 1, tokens_max: 100_000 }.prompt();
    let (before, prefix) = prompt.split_once("<turn-in-progress>").unwrap();
    assert!(before.contains("first") && !before.contains("second"));
    assert!(prefix.contains("second") && prefix.contains("The turn in progress goes on"));
}

/// J-24, BDD-COMPACT-020 (DSL reading): calls reach the summariser by their names.
/// COST-ERR-005: each of five pairs of call and result is in what the summariser reads.
#[test]
fn bdd_compact_020_calls_reach_the_summariser() {
    let mut items = Vec::new();
    for n in 0..5 {
        items.push(call(&format!("r{n}"), "read_file", &format!(r#"{{"path":"f{n}.rs"}}"#)));
        items.push(result(&format!("r{n}"), "read_file", "x"));
    }
    let prompt = Summarise { earlier: None, items: &items, turn_prefix: 0, tokens_max: 100_000 }.prompt();
    assert_eq!(prompt.matches("[Tool: read_file]").count(), 5);
}

#[test]
fn long_texts_are_shown_by_both_ends() {
    let items = [result("c", "bash", &format!("BEGIN{}END", "x".repeat(90_000)))];
    let prompt = Summarise { earlier: None, items: &items, turn_prefix: 0, tokens_max: 100_000 }.prompt();
    assert!(prompt.len() < 5_000 && prompt.contains("BEGIN") && prompt.contains("END"));
    assert!(prompt.contains("[… 88008 characters left out …]"));
}

/// A conversation that is larger than the window of the one who sums it up is shown by both ends too.
#[test]
fn what_is_summed_up_fits_into_the_window_of_the_summariser() {
    let items: Vec<_> = (0..500).map(|n| user(&format!("{n} {}", "word ".repeat(100)))).collect();
    let earlier = "said before ".repeat(1_000);
    for (turn_prefix, earlier) in [(0, None), (1, None), (250, Some(&*earlier)), (499, Some(&*earlier))] {
        let prompt = Summarise { earlier, items: &items, turn_prefix, tokens_max: 20_000 }.prompt();
        let taken = tokens::of_text(&prompt);
        assert!(taken < 20_100, "{turn_prefix}: {taken}");
        assert!(taken > 18_000, "{turn_prefix}: the room is used: {taken}");
        assert!(prompt.contains("[user]\n0 word") && prompt.contains("[user]\n499 word"));
    }
}

/// An empty summary, and one that makes nothing smaller, are refused.
#[test]
fn a_summary_must_say_something_and_be_smaller() {
    assert_eq!(check(Some(" \n"), " \n", 100), Err(BadSummary::Empty));
    assert_eq!(check(Some("x"), &"x".repeat(400), 100), Err(BadSummary::TooLarge { summary: 100, replaced: 100 }));
    assert_eq!(check(Some("x"), &"x".repeat(396), 100), Ok(()));
}
