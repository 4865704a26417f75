//! Shell commands: judged part by part, as the facts of the call have them. The core reads no command.

use serde_json::Value;
use tamtam::{
    Seq,
    kernel::{Grant, Open, Scope, Settings},
    model::BoxFuture,
    permission::{Action, with_parts},
    session::Finish,
    tool::{Access, Tool, ToolContext, ToolResult},
};

use super::play::{Play, call, rules};

/// A tool that runs shell commands; with their parts, as the worker tells them, or without.
pub(super) struct Shell {
    pub(super) in_parts: bool,
}

impl Tool for Shell {
    fn name(&self) -> &str {
        "shell"
    }

    fn description(&self) -> &str {
        "runs a command"
    }

    fn schema(&self) -> Value {
        serde_json::json!({"type": "object"})
    }

    fn access(&self, arguments: &Value) -> Vec<Access> {
        let whole = vec![Access::new("bash", arguments["do"].as_str().unwrap_or_default())];
        if self.in_parts { with_parts(whole) } else { whole }
    }

    fn run<'a>(&'a self, _: Value, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async { ToolResult::ok("") })
    }
}

fn play(in_parts: bool) -> Play {
    let lines = [
        ("*", "**", Action::Ask),
        ("bash", "cargo *", Action::Allow),
        ("bash", "rm *", Action::Deny),
        ("edit", ".git/**", Action::Deny),
    ];
    let mut play = Play::with(|settings: &mut Settings| settings.rules = vec![rules("test", &lines)]);
    play.toolbox = play.toolbox.with(Shell { in_parts });
    play.send("go");
    play
}

pub(super) fn calls(play: &mut Play, command: &str) {
    let input = serde_json::json!({ "do": command }).to_string();
    play.answer(vec![call("c0", "shell", &input)], Finish::ToolCalls);
}

/// What a person is asked about.
fn wanted(play: &Play, ask: Seq) -> Vec<String> {
    match &play.state.open[&ask] {
        Open::Ask(ask) => ask.access.iter().map(Access::to_string).collect(),
        other => unreachable!("{other:?}"),
    }
}

/// A command that was not split into its parts is judged by its text.
#[test]
fn a_command_without_parts_is_judged_by_its_text() {
    let mut play = play(false);
    calls(&mut play, "cargo test; touch x");
    let ticket = play.started()[0];
    play.returned(ticket, "ok");
    calls(&mut play, "rm -r x");
    assert_eq!(play.newest(1, 99), ["c0! Permission denied: bash rm -r x by test (deny bash rm *)."]);
}

/// A person is asked about the parts that nothing allows, and about no other; a denial names the part that is denied.
#[cfg(feature = "shell-policy")]
#[test]
fn a_person_is_asked_about_the_parts_that_need_it() {
    let mut play = play(true);
    calls(&mut play, "cargo test && touch x > y; cargo doc");
    let ask = play.asks()[0];
    assert_eq!(wanted(&play, ask), ["bash touch x", "edit y (written by the command)"]);
    play.grant(ask, Grant::Once).unwrap();
    let ticket = play.started()[0];
    play.returned(ticket, "ok");
    calls(&mut play, "cargo test; /bin/rm -r x");
    assert_eq!(play.newest(1, 99), ["c0! Permission denied: bash rm -r x by test (deny bash rm *)."]);
    calls(&mut play, "cargo test > .git/config");
    let text = "c0! Permission denied: edit .git/config (written by the command) by test (deny edit .git/**).";
    assert_eq!(play.newest(1, 120), [text]);
    calls(&mut play, "eval x");
    assert_eq!(
        wanted(&play, play.asks()[0]),
        ["bash eval x (cannot be judged by its parts: it has the command `eval`)"]
    );
    assert_eq!(play.started(), []);
}

/// Where nobody listens, the model is told which parts would have to be asked about.
#[cfg(feature = "shell-policy")]
#[test]
fn where_nobody_listens_the_part_is_named() {
    let mut play = play(true);
    play.heard = false;
    calls(&mut play, "cargo test; touch x");
    let text = "c0! Permission denied: bash touch x must be asked for, and nobody listens who could answer.";
    assert_eq!(play.newest(1, 120), [text]);
}

/// What was granted for always is a part: it holds in other commands, and lets nothing else through.
#[cfg(feature = "shell-policy")]
#[test]
fn a_part_that_was_granted_is_not_asked_about_again() {
    let mut play = play(true);
    calls(&mut play, "touch x");
    let ask = play.asks()[0];
    play.grant(ask, Grant::Always(Scope::Session)).unwrap();
    let ticket = play.started()[0];
    play.returned(ticket, "ok");
    calls(&mut play, "cargo test; touch  'x'");
    let ticket = play.started()[0];
    play.returned(ticket, "ok");
    calls(&mut play, "touch x; touch y");
    assert_eq!(wanted(&play, play.asks()[0]), ["bash touch y"]);
    assert_eq!(play.started(), []);
    // A command that is not read is granted as it is.
    let mut play = play_after("eval a");
    calls(&mut play, "eval a");
    assert_eq!(play.asks(), []);
    let ticket = play.started()[0];
    play.returned(ticket, "ok");
    calls(&mut play, "eval b");
    assert_eq!(play.asks().len(), 1);
    // One whose words are not known before it runs is granted once.
    let mut play = play_after("touch $a");
    calls(&mut play, "touch $a");
    assert_eq!(play.asks().len(), 1);
}

/// A session in which this command was granted for always.
#[cfg(feature = "shell-policy")]
fn play_after(command: &str) -> Play {
    let mut play = play(true);
    calls(&mut play, command);
    let ask = play.asks()[0];
    play.grant(ask, Grant::Always(Scope::Session)).unwrap();
    let ticket = play.started()[0];
    play.returned(ticket, "ok");
    play
}
