#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;

use super::*;
use crate::{
    message::Finish,
    model::{Answer, ToolResultItem, UserItem},
};

fn user(text: &str) -> Arc<Item> {
    Arc::new(Item::User(UserItem { id: "m".into(), parts: vec![Part::text(text)], fragment: Default::default() }))
}

fn call(id: &str, tool: &str, input: &str) -> Arc<Item> {
    let part = AnswerPart::Call { id: id.into(), name: tool.into(), input: input.into(), extra: None };
    Arc::new(Item::Assistant(Answer::new(vec![part], Finish::ToolCalls)))
}

fn result(id: &str, tool: &str, content: &str) -> Arc<Item> {
    Arc::new(Item::Result(ToolResultItem {
        call: id.into(),
        name: tool.into(),
        content: content.into(),
        is_error: false,
        attachments: vec![],
        time: Default::default(),
        fragment: Default::default(),
    }))
}

fn refs(items: &[Arc<Item>]) -> impl Iterator<Item = &Item> {
    items.iter().map(|item| &**item)
}

/// J-23, BDD-COMPACT-019, 021: the first summary is asked for under all six headings, and names no earlier one.
#[test]
fn bdd_compact_019_021_a_first_summary_is_asked_for_under_six_headings() {
    let items = [user("add a test"), call("c1", "read", r#"{"path":"a.rs"}"#), result("c1", "read", "fn a() {}")];
    let prompt = Summarise { earlier: None, items: &items, turn_prefix: 0, tokens_max: 100_000 }.prompt();
    for heading in HEADINGS {
        assert!(prompt.contains(&format!("\n## {heading}\n")), "{heading}");
    }
    assert!(prompt.contains("[user]\nadd a test"));
    assert!(prompt.contains(r#"[Tool: read] {"path":"a.rs"}"#));
    assert!(prompt.contains("[Tool Result: read]\nfn a() {}"));
    assert!(!prompt.contains("earlier-summary") && !prompt.contains("turn-in-progress"));
}

/// J-26, BDD-COMPACT-020, 022: where there is an earlier summary it is given, to be brought up to date.
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

/// J-24, COST-ERR-005, BDD-COMPACT-020 (both readings): calls reach the summariser, and the files they name are carried on.
#[test]
fn bdd_compact_020_files_are_told_from_the_calls() {
    let mut items = Vec::new();
    for n in 0..5 {
        items.push(call(&format!("r{n}"), "read_file", &format!(r#"{{"path":"f{n}.rs"}}"#)));
        items.push(result(&format!("r{n}"), "read_file", "x"));
    }
    items.push(call("w", "edit", r#"{"path":"f1.rs","old_string":"a","new_string":"b"}"#));
    items.push(call("b", "bash", "not json"));
    let prompt = Summarise { earlier: None, items: &items, turn_prefix: 0, tokens_max: 100_000 }.prompt();
    assert_eq!(prompt.matches("[Tool: read_file]").count(), 5);
    let mut files = FileOperations::default();
    files.note(refs(&items));
    assert_eq!(files.read.iter().collect::<Vec<_>>(), ["f0.rs", "f2.rs", "f3.rs", "f4.rs"]);
    assert_eq!(files.modified.iter().collect::<Vec<_>>(), ["f1.rs"]);
    // Read again after it was changed, it is still a changed file.
    files.note(refs(&[call("r", "read", r#"{"path":"f1.rs"}"#)]));
    assert!(!files.read.contains("f1.rs"));
    let text = render(Some("done"), &UserWords::default(), &files, Seq(9));
    assert!(text.contains("## Files modified\n- f1.rs\n") && text.contains("## Files read\n- f0.rs\n"));
}

#[test]
fn each_replaced_call_is_referred_to_with_its_target() {
    let items = [call("c1", "bash", r#"{"command":"cargo test"}"#), call("c2", "ls", "{}"), user("x")];
    let replaced = Replaced::of(refs(&items));
    let shown: Vec<_> = replaced.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["c1 bash cargo test", "c2 ls "]);
}

/// The rule of the first turn survives a summariser that drops it, and so does the newest; the middle goes.
#[test]
fn the_oldest_and_the_newest_words_of_the_host_are_carried_on() {
    let mut words = UserWords::default();
    words.note(refs(&[user("Never touch main.rs.")]));
    for n in 0..500 {
        words.note(refs(&[user(&format!("step {n}: {}", "word ".repeat(10)))]));
    }
    let kept: Vec<_> = words.iter().collect();
    assert_eq!(kept[0], "Never touch main.rs.");
    assert!(kept.last().unwrap().starts_with("step 499"));
    assert!(kept.iter().map(|text| tokens::of_text(text)).sum::<u64>() <= USER_WORDS_TOKENS_MAX);
    assert!(kept.len() > 50);
    let text = render(None, &words, &FileOperations::default(), Seq(3));
    assert!(text.contains("- Never touch main.rs.\n"));
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
    let prompt = Summarise { earlier: None, items: &items, turn_prefix: 0, tokens_max: 20_000 }.prompt();
    assert!(tokens::of_text(&prompt) < 12_000);
    assert!(prompt.contains("[user]\n0 word") && prompt.contains("[user]\n499 word"));
}

/// An empty summary, and one that makes nothing smaller, are refused.
#[test]
fn a_summary_must_say_something_and_be_smaller() {
    assert_eq!(check(" \n", 100), Err(BadSummary::Empty));
    assert_eq!(check(&"x".repeat(400), 100), Err(BadSummary::TooLarge { summary: 100, replaced: 100 }));
    assert_eq!(check(&"x".repeat(396), 100), Ok(()));
}
