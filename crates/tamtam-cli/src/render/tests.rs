//! Tables of events and the pieces that they are shown as, by the rows CLI-RENDER.

use std::sync::Arc;

use tamtam::{
    Delivery, EventKind, Message, Millis, Outcome, Part, Seq, Steering,
    model::{ErrorKind, RetryClass, Usage},
    session::{AskClosedWhy, ErrorReason, Finish, Grant, Limits, Scope},
    tool::{Access, Question},
};

use super::{Renderer, Screen, Show};

fn screen(is_terminal: bool) -> Screen {
    Screen { is_terminal, is_coloured: false, columns: 80 }
}

fn show(is_terminal: bool, events: &[EventKind]) -> Vec<Show> {
    let mut renderer = Renderer::new(screen(is_terminal));
    events.iter().flat_map(|kind| renderer.show(kind, Millis(1_000))).collect()
}

fn out(pieces: &[Show]) -> String {
    let texts = pieces.iter().map(|piece| match piece {
        Show::Out(text) => text.as_str(),
        Show::EndLine => "\n",
        Show::Note(_) | Show::Asked(_) => "",
    });
    texts.collect()
}

fn notes(pieces: &[Show]) -> Vec<&str> {
    pieces.iter().filter_map(|piece| if let Show::Note(line) = piece { Some(line.as_str()) } else { None }).collect()
}

fn delta(text: &str) -> EventKind {
    EventKind::TextDelta { text: text.to_owned() }
}

fn complete(text: &str) -> EventKind {
    EventKind::PartUpdated { part: Part::text(text) }
}

fn started(name: &str, input: &str) -> EventKind {
    EventKind::CallStarted { ticket: Seq(5), call: "c".into(), name: name.into(), input: input.into(), attempt: 1 }
}

fn finished(error: Option<ErrorReason>, content: &str) -> EventKind {
    EventKind::CallFinished {
        ticket: Seq(5),
        call: "c".into(),
        name: "read_file".into(),
        error,
        content: content.into(),
        title: None,
        details: serde_json::Value::Null,
        attachments: vec![],
    }
}

fn turn_finished() -> EventKind {
    let cost = Default::default();
    let (outcome, usage) = (Outcome::Done, Usage::default());
    EventKind::TurnFinished { outcome, text: "".into(), messages: vec![], usage, estimated: 0, cost, tasks: None }
}

/// CLI-RENDER-001, 002, 008: what streams is printed as it comes, joined, and its line is ended once.
#[test]
fn text_streams_and_ends_with_a_line_break() {
    let pieces = show(true, &[delta("你好"), delta("世界"), complete("你好世界"), turn_finished()]);
    assert_eq!(out(&pieces), "你好世界\n");
    assert!(notes(&pieces).is_empty());
    let whole_lines = show(true, &[delta("one\n"), complete("one\n")]);
    assert_eq!(out(&whole_lines), "one\n");
}

/// What was not streamed, because it was missed or happened before, is printed when it is complete.
#[test]
fn text_that_was_not_streamed_is_printed_when_complete() {
    assert_eq!(out(&show(false, &[complete("all of it")])), "all of it\n");
    assert_eq!(out(&show(false, &[delta("all"), complete("all of it")])), "all of it\n");
    assert_eq!(out(&show(false, &[delta("lost"), complete("all of it")])), "lost\nall of it\n");
}

/// A request that fails in the middle of its answer is made again; its text begins anew.
///
/// CLI-RENDER-005: the error goes to stderr.
#[test]
fn the_text_of_a_failed_request_is_not_taken_for_that_of_the_next() {
    let failed = EventKind::RequestFailed {
        error: "连接超时".to_owned(),
        kind: ErrorKind::Network,
        class: RetryClass::Transient,
        fallback: None,
    };
    let pieces = show(false, &[delta("half"), failed, delta("half and half"), complete("half and half")]);
    assert_eq!(out(&pieces), "half\nhalf and half\n");
    assert_eq!(notes(&pieces), ["! request failed: 连接超时"]);
}

/// Another model is never asked in silence: it is named where the one before it failed, and the first again where it comes back.
#[test]
fn a_model_that_stands_in_is_named() {
    let failed = EventKind::RequestFailed {
        error: "a answered 529".to_owned(),
        kind: ErrorKind::Overloaded,
        class: RetryClass::Transient,
        fallback: Some("b/y".to_owned()),
    };
    let pieces = show(false, &[step("a/x"), failed, step("b/y"), turn_finished(), step("a/x")]);
    let expected = ["model a/x", "! request failed: a answered 529: continues with b/y", "model b/y", "model a/x"];
    assert_eq!(notes(&pieces), expected);
}

fn step(model: &str) -> EventKind {
    EventKind::StepStarted { model: model.into(), attempt: 1, used: 0, usable: 0, hash: String::new(), fallback: None }
}

/// After a crash in mid-stream, and after an abort of the request, the next answer was printed behind the broken one and once more.
#[test]
fn text_of_a_request_that_is_sent_again_is_printed_once() {
    let recovered = EventKind::SessionRecovered { n: 1, resumed: true };
    let (usage, cost) = (Usage::default(), Default::default());
    let stopped = EventKind::StepFinished {
        calls: Vec::new(),
        finish: Finish::Unknown,
        usage,
        estimated: false,
        cost,
        left: Limits::default(),
        interrupted: true,
        cache_miss: None,
    };
    for broken_off in [recovered, stopped] {
        let pieces = show(false, &[delta("half"), broken_off, delta("half and half"), complete("half and half")]);
        assert_eq!(out(&pieces), "half\nhalf and half\n");
    }
}

/// CLI-RENDER-003, CLI-RENDER-009: a call is named, and a long argument is cut.
#[test]
fn a_call_is_named_and_its_arguments_are_cut() {
    let short = show(false, &[started("read_file", "{\"path\":\"a\"}")]);
    assert_eq!(notes(&short), ["→ read_file {\"path\":\"a\"}"]);
    let long = show(false, &[started("write", &"x".repeat(5_000))]);
    assert!(notes(&long)[0].starts_with("→ write xxx") && notes(&long)[0].ends_with("..."));
    assert!(notes(&long)[0].chars().count() < 150);
}

/// CLI-RENDER-004: of a result at most 250 characters.
#[test]
fn a_result_is_told_in_a_line_of_at_most_250_characters() {
    let pieces = show(false, &[finished(None, &"界 \n".repeat(1_000))]);
    assert_eq!(notes(&pieces)[0].chars().count(), 250);
    let skipped = show(false, &[finished(Some(ErrorReason::Skipped), "Skipped due to queued user message: read_file")]);
    assert_eq!(notes(&skipped), ["✗ read_file skipped: Skipped due to queued user message: read_file"]);
}

/// CLI-RENDER-006: what a person need not know is not shown.
#[test]
fn the_beginnings_of_turns_and_steps_are_not_shown() {
    let delivered = EventKind::Delivered { messages: vec![] };
    let begun = EventKind::TurnStarted { messages: vec![] };
    let steps = [begun, step("a/b"), step("a/b"), delivered, step("a/c"), turn_finished()];
    // The model is named once, and when another one answers.
    assert_eq!(notes(&show(true, &steps)), ["model a/b", "model a/c"]);
    assert_eq!(out(&show(true, &steps)), "");
}

/// CLI-RENDER-007
#[test]
fn an_error_of_the_runtime_goes_to_stderr() {
    let pieces = show(false, &[EventKind::StorageFailed { error: "failed to write /x: no space".to_owned() }]);
    assert_eq!(pieces, [Show::Note("! failed to write /x: no space".to_owned())]);
}

/// On a terminal a note stands on a line of its own; in a file the text is not broken.
#[test]
fn a_note_breaks_a_line_on_a_terminal_only() {
    let steered = EventKind::Steered {
        message: Arc::new(Message::user("use tabs")),
        delivery: Delivery::Steer(Steering::SkipRemaining),
    };
    let events = [delta("one "), steered, delta("two"), complete("one two")];
    assert_eq!(out(&show(true, &events)), "one \ntwo\n");
    assert_eq!(out(&show(false, &events)), "one two\n");
    assert_eq!(notes(&show(true, &events)), ["» steering: use tabs"]);
}

/// A person sees the whole call before they allow it, with nothing hidden in it.
#[test]
fn a_question_shows_the_whole_call_with_nothing_hidden() {
    let command = format!("echo {}\n\u{1b}[2Krm -rf \u{202e}x", "a".repeat(400));
    let ask = EventKind::Ask {
        ask: Seq(9),
        call: "c".into(),
        name: "bash".into(),
        input: serde_json::json!({"command": command, "timeout": 5}).to_string().into(),
        access: vec![Access::new("bash", &command)],
        expires: Millis(0),
        waits: false,
        from: Vec::new(),
        offers: tamtam::permission::offers(&[Access::new("bash", "cargo test")]),
        question: None,
        digest: String::new(),
        repeats: None,
    };
    let pieces = show(true, std::slice::from_ref(&ask));
    let question = notes(&pieces)[0];
    assert!(question.starts_with("? bash:\n    command: echo aaa"), "{question}");
    assert!(question.contains(&"a".repeat(400)));
    assert!(question.contains("\n      \\u{1b}[2Krm -rf \\u{202e}x\n    timeout: 5\n  wants: bash echo"), "{question}");
    assert!(!question.contains(['\u{1b}', '\u{202e}']));
    let offered = "\n  [1] the command `cargo test`, exactly\n  [2] `cargo test` with any arguments\n  Allow bash to run? [y] once · [1]/[2] for";
    assert!(question.contains(offered), "{question}");
    let granted = |grant, why| EventKind::AskClosed { ask: Seq(9), grant, why, who: None, rules: vec![] };
    let expired = granted(None, Some(AskClosedWhy::Expired));
    let words = "Question closed: nobody answered in time, so the call was denied";
    assert_eq!(notes(&show(true, &[expired])), [words]);
    let wider = granted(Some(Grant::Offered { scope: Scope::Turn, offer: 2 }), None);
    let pieces = show(true, &[ask.clone(), wider]);
    assert_eq!(notes(&pieces)[1], "Allowed for this turn: `cargo test` with any arguments");
    // The question of a call that runs shows what the tool says, and nothing hidden in it either.
    let EventKind::Ask { ask, call, input, access, expires, waits, from, offers, .. } = ask else { unreachable!() };
    let asked = Question::new("Go\u{1b}[2K?").with_details("- [ ] one\n\u{202e}two");
    let question = Some(asked.into());
    let ask = EventKind::Ask {
        ask,
        call,
        name: "plan_exit".into(),
        input,
        access,
        expires,
        waits,
        from,
        offers,
        question,
        digest: String::new(),
        repeats: None,
    };
    let pieces = show(true, &[ask]);
    let question = notes(&pieces)[0];
    assert!(question.starts_with("  | - [ ] one\n  | \\u{202e}two\n  wants: bash echo"), "{question}");
    assert!(question.contains("\n? Go\\u{1b}[2K?\n  [y] yes · "), "{question}");
}

/// A model cannot clear the screen; a stdout that is a file gets the text unchanged.
#[test]
fn text_is_made_safe_for_a_terminal_and_for_nothing_else() {
    assert_eq!(out(&show(true, &[delta("a\u{1b}[2Jb\n")])), "a\\u{1b}[2Jb\n");
    assert_eq!(out(&show(false, &[delta("a\u{1b}[2Jb\n")])), "a\u{1b}[2Jb\n");
}

/// FT-11: a command that did not succeed is a good result, and no success.
#[test]
fn a_command_that_failed_has_no_tick() {
    for (details, expected) in [
        (serde_json::json!({"exit_code": 0, "timed_out": false, "signal": null}), "✓ bash: make test"),
        (serde_json::json!({"exit_code": 3, "timed_out": false, "signal": null}), "✗ bash exit 3: make test\n  | made"),
        (serde_json::json!({"exit_code": null, "signal": "SIGTERM"}), "✗ bash ended by SIGTERM: make test\n  | made"),
        (serde_json::json!({"exit_code": null, "timed_out": true}), "✗ bash timed out: make test\n  | made"),
        (serde_json::Value::Null, "✓ bash: make test"),
    ] {
        let finished = EventKind::CallFinished {
            ticket: Seq(5),
            call: "c".into(),
            name: "bash".into(),
            error: None,
            content: "made".into(),
            title: Some("make test".into()),
            details,
            attachments: vec![],
        };
        assert_eq!(notes(&show(true, &[finished])), [expected]);
    }
}

fn asked(name: &str, input: &str, access: Vec<Access>) -> EventKind {
    EventKind::Ask {
        ask: Seq(9),
        call: "c".into(),
        name: name.into(),
        input: input.into(),
        access,
        expires: Millis(0),
        waits: false,
        from: Vec::new(),
        offers: Vec::new(),
        question: None,
        digest: String::new(),
        repeats: None,
    }
}

/// Sorted by name the new text came first, and the path after both.
#[test]
fn a_question_about_an_edit_shows_a_diff() {
    let input = r#"{"new_string":"one\n","old_string":"one\ntwo","path":"a.rs","replace_all":true}"#;
    let pieces = show(true, &[asked("edit", input, Vec::new())]);
    let expected =
        "? edit:\n    path: a.rs\n    replace_all: true\n    - one\n    - two\n    + one\n    + \n  Allow edit to run?";
    assert!(notes(&pieces)[0].starts_with(expected), "{pieces:?}");
}

/// A loop is asked about with what repeats and how often it ran, and not by the name of a permission.
#[test]
fn a_question_about_a_loop_says_what_repeats_and_how_often() {
    let call = || started("bash", r#"{"command":"echo same"}"#);
    let other = started("bash", r#"{"command":"echo other"}"#);
    let asked = asked("bash", r#"{"command":"echo same"}"#, vec![Access::new("doom_loop", "bash")]);
    let pieces = show(true, &[call(), other, call(), asked]);
    let question = notes(&pieces)[3];
    assert!(question.contains("this exact call has run 2 times in this turn"), "{question}");
    assert!(!question.contains("doom_loop"), "{question}");
}

#[test]
fn a_call_is_named_by_what_it_is_about() {
    let cases = [
        ("write", r#"{"content":"one\ntwo\n","path":"a.txt"}"#, "→ write a.txt (8 bytes, 2 lines)"),
        ("edit", r#"{"path":"a.txt","old_string":"one","new_string":"1\n2"}"#, "→ edit a.txt (-1 +2 lines)"),
        ("edit", r#"{"path":"a.txt","diff":"@@"}"#, "→ edit a.txt"),
        ("bash", r#"{"command":"cargo test\n"}"#, "→ bash cargo test"),
        ("bash", "[", "→ bash ["),
        ("task", r#"{"description":"look","prompt":"Look.","subagent_type":"general"}"#, "→ task general: look"),
    ];
    for (name, input, expected) in cases {
        assert_eq!(notes(&show(true, &[started(name, input)])), [expected]);
    }
}

fn ended(name: &str, content: &str, details: serde_json::Value) -> EventKind {
    EventKind::CallFinished {
        ticket: Seq(5),
        call: "c".into(),
        name: name.into(),
        error: None,
        content: content.into(),
        title: Some("make test".into()),
        details,
        attachments: vec![],
    }
}

/// Of a failed command the last lines are shown, as a terminal would show them and harmless; of another one none.
#[test]
fn the_last_lines_of_a_failed_command_are_shown() {
    let lines: String = (1..=12).map(|n| format!("line {n}\n")).collect();
    let content = format!("{lines}10 %\r99 %\r\n\u{1b}[2J{}\n\nCommand exited with code 1", "x".repeat(100));
    let pieces = show(true, &[ended("bash", &content, serde_json::json!({"exit_code": 1}))]);
    let kept: String = (5..=12).map(|n| format!("\n  | line {n}")).collect();
    let cut = format!("\\u{{1b}}[2J{}…", "x".repeat(66));
    assert_eq!(notes(&pieces), [format!("✗ bash exit 1: make test\n  | … 4 lines above{kept}\n  | 99 %\n  | {cut}")]);
    let silent = ended("bash", "Command exited with code 1", serde_json::json!({"exit_code": 1}));
    assert_eq!(notes(&show(true, &[silent])), ["✗ bash exit 1: make test"]);
    let good = ended("bash", &content, serde_json::json!({"exit_code": 0}));
    assert_eq!(notes(&show(true, &[good])), ["✓ bash: make test"]);
}

/// The diff of an edit: bounded, and with colours only where they are wanted.
#[test]
fn the_diff_of_an_edit_is_shown() {
    let diff = "@@ -1,2 +1,2 @@\n one\n-two\n+\ttwo\u{1b}[2J\n";
    let edit = |diff: &str| ended("edit", "Edited: a", serde_json::json!({"diff": {"content": diff}}));
    let shown = "✓ edit: make test\n  @@ -1,2 +1,2 @@\n   one\n  -two\n  +    two\\u{1b}[2J";
    assert_eq!(notes(&show(true, &[edit(diff)])), [shown]);
    let mut coloured = Renderer::new(Screen { is_coloured: true, ..screen(true) });
    let pieces = coloured.show(&edit("-two\n+\u{1b}[2J\n"), Millis(0));
    assert_eq!(notes(&pieces), ["✓ edit: make test\n  \u{1b}[31m-two\u{1b}[0m\n  \u{1b}[32m+\\u{1b}[2J\u{1b}[0m"]);
    let pieces = show(true, &[edit(&"+x\n".repeat(100))]);
    let long = notes(&pieces)[0];
    assert_eq!((long.lines().count(), long.ends_with("\n  … 60 lines more")), (42, true));
}
