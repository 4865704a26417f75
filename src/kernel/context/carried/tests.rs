#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use crate::{
    kernel::context::{render, window::CARRY_MAX},
    model::{ModelAnswer, ToolResultItem},
    words::message::{Finish, Part},
};

fn user(id: &str, text: &str) -> Item {
    Item::User(UserItem { id: id.into(), parts: vec![Part::text(text)], fragment: Default::default() })
}

fn calls(calls: &[(&str, &str, &str)]) -> Item {
    let part = |(id, tool, input): &(&str, &str, &str)| AnswerPart::Call {
        id: (*id).into(),
        name: (*tool).into(),
        input: (*input).into(),
        extra: None,
    };
    Item::Assistant(ModelAnswer::new(calls.iter().map(part).collect(), Finish::ToolCalls))
}

fn result(id: &str, seq: u64, is_error: bool) -> Item {
    Item::Result(ToolResultItem {
        call: id.into(),
        name: "read".into(),
        content: "x".into(),
        is_error,
        attachments: vec![],
        time: Default::default(),
        seq: Seq(seq),
        fragment: Default::default(),
    })
}

/// A call with its result.
fn done(id: &str, tool: &str, path: &str) -> [Item; 2] {
    [calls(&[(id, tool, &format!(r#"{{"path":"{path}"}}"#))]), result(id, 7, false)]
}

/// J-24, BDD-COMPACT-020 (seed), BDD-COMPACT-018 (seed: the file list): read and changed files are told from the calls that did
/// what they were to do.
/// COST-ERR-005: the files of the calls that succeeded stand in the text that takes the place of the calls.
#[test]
fn bdd_compact_020_files_are_told_from_the_calls_that_succeeded() {
    let mut items: Vec<Item> = (0..5).flat_map(|n| done("r", "read_file", &format!("f{n}.rs"))).collect();
    items.extend(done("w", "edit", "f1.rs"));
    items.extend([calls(&[("b", "bash", "not json")]), result("b", 8, false)]);
    // What was refused, or went wrong, touched nothing.
    items.extend([calls(&[("no", "edit", r#"{"path":"secret.rs"}"#)]), result("no", 9, true)]);
    let mut files = FileOperations::default();
    files.note(&items);
    assert_eq!(files.read, ["f0.rs", "f2.rs", "f3.rs", "f4.rs"]);
    assert_eq!(files.modified, ["f1.rs"]);
    // Read again after it was changed, it is still a changed file.
    files.note(&done("r", "read", "f1.rs"));
    assert!(!files.read.contains(&"f1.rs".to_owned()));
    let carried = Carried { files, ..Carried::default() };
    let text = render(Some("done"), &carried, Seq(9));
    assert!(text.contains("## Files modified\n- f1.rs\n") && text.contains("## Files read\n- f0.rs\n"));
}

/// PROMPT-005: files that were read, written and edited are all listed, for the model that goes on.
#[test]
fn files_of_every_kind_of_call_are_listed() {
    let items: Vec<Item> = [("read", "/a.txt"), ("write", "/b.txt"), ("edit", "/c.txt")]
        .into_iter()
        .flat_map(|(tool, path)| done("c", tool, path))
        .collect();
    let mut files = FileOperations::default();
    files.note(&items);
    let text = render(Some("done"), &Carried { files, ..Carried::default() }, Seq(9));
    assert!(text.contains("## Files read\n- /a.txt\n"), "{text}");
    assert!(text.contains("## Files modified\n- /b.txt\n- /c.txt\n"), "{text}");
}

/// Where there are too many files the newest stay, however often the conversation is summed up, and changed ones before read
/// ones.
#[test]
fn of_too_many_files_the_newest_stay() {
    let mut carried = Carried::default();
    for n in 0..1_000 {
        let items: Vec<Item> =
            done("r", "read", &format!("r{n}.rs")).into_iter().chain(done("w", "write", &format!("w{n}.rs"))).collect();
        carried.note(items.iter(), &Replaced::of(&items), CARRY_MAX);
    }
    assert_eq!(carried.files.modified.last().unwrap(), "w999.rs");
    assert!(carried.files.modified.len() == LISTED_MAX && carried.files.read.last().unwrap() == "r999.rs");
    let text = render(Some("sum"), &carried, Seq(9));
    assert!(tokens::of_text(&text) < 3 * CARRY_MAX, "{}", tokens::of_text(&text));
    carried.files.fit(100);
    assert!(carried.files.read.is_empty() && carried.files.modified.last().unwrap() == "w999.rs");
}

/// C-p18: each call that is replaced is referred to by id, tool, target and the entry that opened it; ids that repeat are
/// told apart by their place.
#[test]
fn each_replaced_call_is_referred_to_with_its_target_and_its_entry() {
    let items = [
        calls(&[("c1", "bash", r#"{"command":"cargo test"}"#), ("c2", "ls", "{}")]),
        result("c1", 4, false),
        result("c2", 5, true),
        user("m", "x"),
        calls(&[("c1", "read", r#"{"path":"a.rs"}"#)]),
        result("c1", 9, false),
    ];
    let replaced = Replaced::of(&items);
    let shown: Vec<_> = replaced.iter().map(ToString::to_string).collect();
    let expected = ["entry 4, call c1: bash cargo test", "entry 5, call c2: ls", "entry 9, call c1: read a.rs"];
    assert_eq!(shown, expected);
    let mut carried = Carried::default();
    carried.note(items.iter(), &replaced, CARRY_MAX);
    let text = render(Some("sum"), &carried, Seq(9));
    assert!(expected.iter().all(|line| text.contains(&format!("\n- {line}\n"))), "{text}");
}

/// Of too many calls the newest are named and the others counted.
#[test]
fn of_too_many_calls_the_newest_are_named_and_the_others_counted() {
    let mut carried = Carried::default();
    for n in 0..5_000 {
        let items = done(&format!("c{n}"), "read", &format!("f{n}.rs"));
        carried.note(items.iter(), &Replaced::of(&items), CARRY_MAX);
    }
    assert_eq!(carried.calls.earlier + carried.calls.newest.len() as u64, 5_000);
    assert_eq!(carried.calls.newest.last().unwrap().call.as_str(), "c4999");
    assert!(render(None, &carried, Seq(9)).contains(&format!("- {} before these\n", carried.calls.earlier)));
}

/// The rule of the first turn survives a summariser that drops it, and so does the newest; the middle goes.
#[test]
fn the_oldest_and_the_newest_words_of_the_host_are_carried_on() {
    let mut carried = Carried::default();
    let mut note = |items: &[Item]| carried.note(items.iter(), &[], CARRY_MAX);
    note(&[user("m0", "Never touch main.rs.")]);
    for n in 0..500 {
        note(&[user("m", &format!("step {n}: {}", "word ".repeat(10)))]);
        note(&[user("m", "go on")]);
    }
    let kept: Vec<_> = carried.users.iter().collect();
    assert_eq!(kept[0], "Never touch main.rs.");
    assert!(kept.last().unwrap().starts_with("step 499"));
    assert_eq!(kept.iter().filter(|said| **said == "go on").count(), 1, "the same words take room once");
    assert!(kept.iter().map(|text| tokens::of_text(text)).sum::<u64>() <= CARRY_MAX);
    assert!(kept.len() > 50);
    assert!(render(None, &carried, Seq(3)).contains("- Never touch main.rs.\n"));
}

/// What the runtime says is no word of the host's; a branch's summary is kept as it is.
#[test]
fn only_the_hosts_words_are_its_own_words() {
    let items =
        [user("task-4", "Task a is over."), user("m", "hello"), user("branch-9", "[Another branch: it failed.]")];
    let mut carried = Carried::default();
    carried.note(items.iter(), &[], CARRY_MAX);
    assert_eq!(carried.users.iter().collect::<Vec<_>>(), ["hello"]);
    assert_eq!(carried.branches.iter().collect::<Vec<_>>(), ["[Another branch: it failed.]"]);
    assert!(render(Some("sum"), &carried, Seq(9)).contains("[Another branch: it failed.]"));
}

/// In a small window even the first and the newest words are shortened: what is carried on must not fill it.
#[test]
fn what_is_carried_on_fits_a_small_window_too() {
    let mut words = Vec::new();
    for n in 0..9 {
        note_words(&mut words, &format!("{n} {}", "搜索目标".repeat(250)));
    }
    fit_words(&mut words, 100);
    assert!(words.iter().map(|text| tokens::of_text(text)).sum::<u64>() < 150);
    assert!(words.first().unwrap().starts_with("0 "));
}
