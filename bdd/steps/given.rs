//! What is there before anything is said.

use std::time::Duration;

use cucumber::{gherkin, given};
use serde_json::Value;
use tamtam::{
    model::{ErrorKind, ModelError, Reply},
    permission::Profile,
    runtime::Agent,
};

use crate::{
    hooks::HostHook,
    lab::Lab,
    steps::{quoted, text},
};

#[given(expr = "the file {string} with {string}")]
fn a_file(lab: &mut Lab, name: String, content: String) {
    let path = lab.path(&name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text(&content)).unwrap();
}

/// Its mode forbids writing. Root writes all the same, so for root it is made immutable as well.
#[given(expr = "the protected file {string} with {string}")]
fn a_protected_file(lab: &mut Lab, name: String, content: String) {
    a_file(lab, name.clone(), content);
    lab.protect(&name);
}

#[given(expr = "the file {string} of {int} lines with {int} characters each")]
fn a_long_file(lab: &mut Lab, name: String, lines: usize, characters: usize) {
    let line = |number| format!("{:-<characters$}\n", format!("line {number} "));
    std::fs::write(lab.path(&name), (1..=lines).map(line).collect::<String>()).unwrap();
}

#[given(expr = "the model answers {string}")]
fn answers(lab: &mut Lab, answer: String) {
    lab.reply(Reply::text(text(&answer)));
}

#[given(expr = "the model answers {string} {int} times over")]
fn answers_at_length(lab: &mut Lab, answer: String, times: usize) {
    lab.reply(Reply::text(answer.repeat(times)));
}

#[given(regex = r"^the model answers in the pieces (.+)$")]
fn answers_in_text_pieces(lab: &mut Lab, pieces: String) {
    let reply = quoted(&pieces).into_iter().fold(Reply::empty(), |reply, piece| reply.with_text(piece));
    lab.reply(reply);
}

#[given("the model answers with nothing")]
fn answers_with_nothing(lab: &mut Lab) {
    lab.reply(Reply::empty());
}

#[given(regex = r"^the model calls (\w+) with (\{.*\})$")]
fn calls(lab: &mut Lab, tool: String, arguments: String) {
    lab.reply(Reply::empty().with_raw_call("", tool, arguments));
}

/// Each row: id, tool, arguments.
#[given("the model calls in one answer:")]
fn calls_in_one_answer(lab: &mut Lab, step: &gherkin::Step) {
    let rows = &step.table().expect("a table of calls").rows;
    let reply = rows.iter().fold(Reply::empty(), |reply, row| reply.with_raw_call(&row[0], &row[1], &row[2]));
    lab.reply(reply);
}

#[given(expr = "the model fails as {word} with {string}")]
fn fails(lab: &mut Lab, kind: String, message: String) {
    lab.reply(Reply::error(error(&kind, message)));
}

/// So that a scenario with several retries need not sit through our own backoff.
#[given(expr = "the model fails as {word} with {string} and may be asked again after {int} ms")]
fn fails_with_a_wait(lab: &mut Lab, kind: String, message: String, wait: u64) {
    let error = error(&kind, message).with_retry_after(Some(Duration::from_millis(wait)));
    lab.reply(Reply::error(error));
}

fn error(kind: &str, message: String) -> ModelError {
    let kind: ErrorKind = serde_json::from_value(Value::from(kind)).expect("a kind of model error");
    ModelError::new(kind, message)
}

/// Each row is a piece: `text`, `thought`, `gate` (waits there until the scenario lets it go), `call` (tool and arguments),
/// and at the end `hang` or `cut off`.
#[given("the model answers in pieces:")]
fn answers_in_pieces(lab: &mut Lab, step: &gherkin::Step) {
    let mut reply = Reply::empty();
    for row in &step.table().expect("a table of pieces").rows {
        let what = text(&row[1]);
        reply = match row[0].as_str() {
            "text" => reply.with_text(what),
            "thought" => reply.with_reasoning(what),
            "gate" => reply.at_barrier(what),
            "call" => {
                let (tool, arguments) = what.split_once(' ').expect("a tool and its arguments");
                reply.with_raw_call("", tool, arguments)
            }
            "hang" => reply.hanging(),
            "cut off" => reply.truncated(),
            other => panic!("no such piece: {other}"),
        };
    }
    lab.reply(reply);
}

#[given(expr = "calls of {word} are held")]
fn held(lab: &mut Lab, tool: String) {
    lab.holds.hold(&tool);
}

#[given(expr = "calls of {word} may be repeated")]
fn may_repeat(lab: &mut Lab, tool: String) {
    lab.holds.may_repeat(&tool);
}

#[given(expr = "a gate of the host that blocks {word}")]
fn a_blocking_gate(lab: &mut Lab, tool: String) {
    lab.hooks.push(HostHook::Block(tool));
}

#[given("a gate of the host that lets everything pass")]
fn an_open_gate(lab: &mut Lab) {
    lab.hooks.push(HostHook::AllowAll);
}

#[given("a gate of the host that crashes")]
fn a_crashing_gate(lab: &mut Lab) {
    lab.hooks.push(HostHook::Crash);
}

#[given("a result hook of the host that hides keys")]
fn a_redacting_pipe(lab: &mut Lab) {
    lab.hooks.push(HostHook::RedactKeys);
}

#[given(expr = "a gate of the host that has a person asked about {word} because {string}")]
fn gate_asks(lab: &mut Lab, tool: String, reason: String) {
    lab.hooks.push(HostHook::Ask(tool, reason));
}

#[given(expr = "a gate of the host that sends each {word} to {string}")]
fn gate_redirects(lab: &mut Lab, tool: String, path: String) {
    lab.hooks.push(HostHook::Redirect(tool, path));
}

#[given("a gate of the host that lets nobody sum up the conversation")]
fn gate_of_compactions(lab: &mut Lab) {
    lab.hooks.push(HostHook::CancelCompaction);
}

#[given(expr = "a hook of the host that reminds the model of {string} in each request")]
fn hook_reminds(lab: &mut Lab, text: String) {
    lab.hooks.push(HostHook::Remind(text));
}

#[given(expr = "a hook of the host that leaves {string} out of each request")]
fn hook_forgets(lab: &mut Lab, text: String) {
    lab.hooks.push(HostHook::Forget(text));
}

#[given(expr = "a hook of the host that begins each turn under {string} and with {string}")]
fn hook_opens_turns(lab: &mut Lab, system: String, said: String) {
    lab.hooks.push(HostHook::OpenTurn(system, said));
}

#[given(expr = "a hook of the host that sends each turn on with {string}")]
fn hook_sends_on(lab: &mut Lab, words: String) {
    lab.hooks.push(HostHook::SendOn(words));
}

#[given("a hook of the host that never answers about a request")]
fn hook_hangs(lab: &mut Lab) {
    lab.hooks.push(HostHook::Hang);
}

#[given("a hook of the host that watches errors")]
fn hook_watches(lab: &mut Lab) {
    lab.hooks.push(HostHook::WatchErrors(Default::default()));
}

#[given(expr = "a result hook of the host that adds {string}")]
fn an_adding_pipe(lab: &mut Lab, added: String) {
    lab.hooks.push(HostHook::Append(added));
}

#[given(expr = "an input hook of the host that puts {string} before each message")]
fn an_input_pipe(lab: &mut Lab, prefix: String) {
    lab.hooks.push(HostHook::Prefix(prefix));
}

#[given("an input hook of the host that deals with every message itself")]
fn a_handling_pipe(lab: &mut Lab) {
    lab.hooks.push(HostHook::Handle);
}

#[given("an input hook of the host that passes every message on")]
fn a_passing_pipe(lab: &mut Lab) {
    lab.hooks.push(HostHook::PassOn(Default::default()));
}

#[given(expr = "the models of the host are found by name, and the session uses {string}")]
fn models_by_name(lab: &mut Lab, name: String) {
    lab.model_name = Some(name.parse().unwrap());
}

#[given(expr = "the profile {word}")]
fn a_profile(lab: &mut Lab, profile: String) {
    let profile: Profile = serde_json::from_value(Value::from(profile)).expect("a profile");
    lab.profile(profile);
}

#[given(expr = "a session that may plan, under the id {string}")]
fn may_plan(lab: &mut Lab, id: String) {
    lab.plans = Some((id.parse().unwrap(), Agent::build()));
}

#[given(expr = "a session that plans, under the id {string}")]
fn plans(lab: &mut Lab, id: String) {
    lab.plans = Some((id.parse().unwrap(), Agent::plan()));
}
