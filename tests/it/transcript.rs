//! A conversation as messages of parts: what a page shows of it, while it runs and afterwards.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tamtam::{
    EventKind, Message, Outcome, Part, Runtime, SessionOptions,
    model::{BoxFuture, ErrorKind, MicroUsd, ModelError, Price, Reply, Scripted, Usage},
    permission::{Action, Profile, Rule, Ruleset},
    runtime::Agent,
    session::{FilePart, Link, Next, ToolState},
    tool::{Tool, ToolContext, ToolResult},
    tools,
};

use crate::support::taped;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0";

/// Whatever is a moment becomes `"T"`; that the moments of one thing are in order is checked here.
fn without_times(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(without_times),
        Value::Object(fields) => {
            for (begins, ends) in [("start", "end"), ("created", "completed")] {
                if let (Some(begin), Some(end)) = (fields.get(begins), fields.get(ends)) {
                    assert!(begin.as_u64().unwrap() <= end.as_u64().unwrap(), "{fields:?}");
                }
            }
            for (name, value) in fields.iter_mut() {
                // A script has no clock: its thoughts are at 0.
                let is_time = matches!(name.as_str(), "start" | "end" | "created" | "completed" | "time");
                if is_time && value.as_u64().is_some_and(|time| time > 0) {
                    *value = json!("T");
                } else if name != "input" {
                    without_times(value);
                }
            }
        }
        _ => {}
    }
}

async fn told(session: &tamtam::Session) -> Value {
    let mut messages = serde_json::to_value(session.messages().await.unwrap()).unwrap();
    without_times(&mut messages);
    messages
}

/// A-16, C-p2, C-p3, C-p4, C-p5, C-p7, C-p8, C-p9, C-p10, C-p11, C-p12, C-16, K-12, B-03, H-15: a turn is told as messages with every
/// field: text, thought and file, the retry, the bounds of each step with its tokens, and each call from pending over running
/// to completed or error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_is_told_as_messages_while_it_runs_and_afterwards() {
    let folder = taped::folder();
    std::fs::create_dir(folder.path().join("work")).unwrap();
    let work = |name: &str| folder.path().join("work").join(name);
    std::fs::write(work("dot.png"), PNG).unwrap();
    let usage = Usage::new(7, 5).reasoning(2).cache_read(3).cache_write(1);
    let busy = ModelError::new(ErrorKind::Overloaded, "busy").with_retry_after(Some(Duration::from_millis(1)));
    let wait = r#"{"command":"until [ -e ../go ]; do sleep 0.02; done"}"#;
    let model = Arc::new(Scripted::new([
        Reply::error(busy),
        Reply::empty()
            .with_reasoning("hm")
            .with_text("I look.")
            .with_raw_call("c1", "bash", wait)
            .with_raw_call("c2", "bash", r#"{"command":"rm -r ."}"#)
            .with_raw_call("c3", "read", r#"{"path":"dot.png"}"#)
            .with_raw_call("c4", "read", r#"{"path":"none"}"#)
            .with_usage(usage),
        Reply::text("Done.").with_usage(usage),
    ]));
    let builder = Runtime::builder().store(folder.path().join("store")).model(model).tools(tools::full());
    let runtime = builder.start().await.unwrap();
    let mut options = SessionOptions::new(work(""));
    let rules = vec![Rule::new("*", "**", Action::Allow), Rule::new("bash", "rm *", Action::Deny)];
    options.rules = Some(Ruleset::new("test", rules));
    let session = runtime.create(options).await.unwrap();
    assert!(session.state().await.unwrap().is_idle());
    let mut events = session.events();
    let message =
        Message::user("look").with_id("m-1".into()).with_part(Part::file("text/plain", Some("a.txt".into()), b"note"));
    let receipt = session.prompt(message).await.unwrap();
    while let Some(next) = events.next().await {
        if matches!(next, Next::Event(event) if matches!(&event.kind, EventKind::CallStarted { call, .. } if call.as_str() == "c1"))
        {
            break;
        }
    }

    assert!(!session.state().await.unwrap().is_idle());
    let running = told(&session).await;
    let states: Vec<&Value> = running[1]["parts"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|part| part["type"] == "tool")
        .map(|part| &part["state"])
        .collect();
    assert_eq!(states[0], &json!({"status": "running", "input": wait, "time": {"start": "T"}}));
    assert_eq!(states[2], &json!({"status": "pending", "input": r#"{"path":"dot.png"}"#}));

    // Beside the workspace: what appears in it while a command runs is taken for its work.
    std::fs::write(folder.path().join("go"), "").unwrap();
    let answer = receipt.wait().await.unwrap();
    assert_eq!((answer.outcome, answer.text.as_str()), (Outcome::Done, "Done."));
    session.wait().await.unwrap();
    assert!(session.state().await.unwrap().is_idle());
    let mut messages = told(&session).await;
    let metadata = messages[1]["parts"][4]["state"].as_object_mut().unwrap().remove("metadata").unwrap();
    assert_eq!(metadata["exit_code"], 0);
    messages[1]["parts"][6]["state"].as_object_mut().unwrap().remove("metadata").unwrap();
    let (image, span) = (FilePart::inline("image/png", Some("dot.png".into()), PNG), json!({"start": "T", "end": "T"}));
    let call = |id: &str, tool: &str, state: Value| json!({"type": "tool", "callID": id, "tool": tool, "state": state});
    let finish = |step: u32, finish: &str, tokens: Usage| json!({"type": "step-finish", "step": step, "finish": finish, "tokens": tokens});
    let answered = |parts: Value, finish: &str, tokens: Usage| {
        json!({"role": "assistant", "sessionID": session.id(), "parts": parts, "agent": "build", "model": {"provider": "scripted", "model": "script"},
            "time": {"created": "T", "completed": "T"}, "tokens": tokens, "finish": finish})
    };
    let calls = [
        call(
            "c1",
            "bash",
            json!({"status": "completed", "input": wait, "output": "(no output)",
            "title": "until [ -e ../go ]; do sleep 0.02; done", "time": span}),
        ),
        call(
            "c2",
            "bash",
            json!({"status": "error", "input": r#"{"command":"rm -r ."}"#, "reason": "denied",
            "error": "Permission denied: bash rm -r . by test (deny bash rm *).", "time": span}),
        ),
        call(
            "c3",
            "read",
            json!({"status": "completed", "input": r#"{"path":"dot.png"}"#, "title": "Read dot.png",
            "output": format!("[Image: image/png, {} bytes]", PNG.len()), "time": span, "attachments": [image]}),
        ),
        call(
            "c4",
            "read",
            json!({"status": "error", "input": r#"{"path":"none"}"#, "reason": "failed",
            "error": "none: No such file or directory (ENOENT)", "time": span}),
        ),
    ];
    let mut parts = vec![
        json!({"type": "step-start", "step": 1}),
        json!({"type": "retry", "attempt": 1, "error": "busy", "time": "T"}),
        json!({"type": "reasoning", "text": "hm", "time": {"start": 0}}),
        json!({"type": "text", "text": "I look."}),
    ];
    parts.extend(calls);
    parts.push(finish(1, "tool-calls", usage));
    let rest = json!([{"type": "step-start", "step": 2}, {"type": "text", "text": "Done."}, finish(2, "stop", usage)]);
    let mut expected = json!([
        {"id": "m-1", "role": "user", "sessionID": session.id(), "agent": "build",
            "model": {"provider": "scripted", "model": "script"}, "time": {"created": "T", "completed": "T"}, "parts": [
            {"type": "text", "text": "look"},
            {"type": "file", "url": "data:text/plain;base64,bm90ZQ==", "filename": "a.txt", "mime": "text/plain"},
        ]},
        answered(json!(parts), "tool-calls", usage),
        answered(rest, "stop", usage),
    ]);
    for n in [1, 2] {
        let id = messages[n]["id"].as_str().unwrap();
        assert!(id.starts_with("answer-"), "{id}");
        expected[n]["id"] = id.into();
    }
    assert_eq!(messages, expected, "{messages:#}");
    assert!(runtime.shutdown().await.is_empty());
}

/// C-p2, C-p17: of what an agent did a host has all of it: each thought, each call with its input, output and times, which files it
/// changed and how, and what each step and the whole took and cost, exactly.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_agent_did_can_be_seen_whole() {
    let folder = taped::folder();
    std::fs::create_dir(folder.path().join("work")).unwrap();
    std::fs::write(folder.path().join("work/a.txt"), "one\n").unwrap();
    let edit = r#"{"path":"a.txt","old_string":"one","new_string":"two"}"#;
    let used = |input: u64, output: u64| Usage::new(input, output);
    let replies = [
        Reply::empty().with_reasoning("It says one.").with_raw_call("c1", "edit", edit).with_usage(used(1_000, 50)),
        Reply::text("Done.").with_usage(used(2_000, 10)),
    ];
    let price = Price::new(MicroUsd(1_000_000), MicroUsd(4_000_000));
    let model = Scripted::new(replies).with_price("scripted/script".parse().unwrap(), price);
    let builder = Runtime::builder().store(folder.path().join("store")).model(Arc::new(model)).tools(tools::full());
    let runtime = builder.start().await.unwrap();
    let options = SessionOptions::new(folder.path().join("work")).profile(Profile::Auto);
    let session = runtime.create(options).await.unwrap();
    let answer = session.prompt("make it two").await.unwrap().wait().await.unwrap();
    let messages = session.messages().await.unwrap();
    let parts: Vec<&Part> = messages[1].parts.iter().collect();
    let thought = parts.iter().find_map(|part| match part {
        Part::Reasoning(thought) => Some(thought.text.as_str()),
        _ => None,
    });
    assert_eq!(thought, Some("It says one."));
    let call = parts.iter().find_map(|part| match part {
        Part::Tool(call) => Some(call),
        _ => None,
    });
    let ToolState::Completed { input, output, time, .. } = &call.unwrap().state else { panic!("{call:?}") };
    assert_eq!((input.as_str(), time.start <= time.end.unwrap()), (edit, true));
    assert!(output.contains("a.txt"), "{output}");
    let patch = parts.iter().find_map(|part| match part {
        Part::Patch(patch) => Some(patch),
        _ => None,
    });
    let patch = patch.unwrap();
    assert_eq!(patch.files, ["a.txt"]);
    assert!(patch.diff.as_deref().is_some_and(|diff| diff.contains("-one\n+two\n")), "{patch:?}");
    assert!(parts.iter().any(|part| matches!(part, Part::Snapshot(before) if before.snapshot == patch.hash)));
    let figures = |message: &Message| {
        let finish = message.parts.iter().find_map(|part| match part {
            Part::StepFinish(finish) => Some((finish.tokens, finish.cost)),
            _ => None,
        });
        assert_eq!(finish, Some((message.tokens.unwrap(), message.cost)), "the step and its message say the same");
        (message.tokens.unwrap(), message.cost.map(|cost| cost.0))
    };
    assert_eq!(figures(&messages[1]), (used(1_000, 50), Some(1_200)));
    assert_eq!(figures(&messages[2]), (used(2_000, 10), Some(2_040)));
    assert_eq!(answer.spent.usage, used(3_000, 60));
    assert_eq!(answer.spent.cost.exact().map(|cost| cost.0), Some(3_240 * 1_000_000));
    assert!(runtime.shutdown().await.is_empty());
}

/// C-p2, C-p4, C-p5: a message names its session, agent and model; another agent, a task and a compaction are parts of the message
/// where they came: before the step that follows, and behind the answer that was the newest. A fork's messages are the fork's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_a_task_and_a_compaction_are_parts_where_they_came() {
    let folder = taped::folder();
    let model = Arc::new(Scripted::new((0..9).map(|_| Reply::text("Fine."))));
    let runtime = Runtime::builder().store(folder.path().join("store")).model(model).start().await.unwrap();
    let session = runtime.create(SessionOptions::new(folder.path())).await.unwrap();
    session.configure(|settings| settings.compaction.keep = Some(0)).await.unwrap();
    let say = async |text: &str| {
        let text = format!("{text} {}", "word ".repeat(500));
        assert_eq!(session.prompt(text).await.unwrap().wait().await.unwrap().outcome, Outcome::Done);
    };
    say("one").await;
    let task = SessionOptions::new(folder.path());
    let child = session.spawn_child(task, "Count the words.\nAll of them.", Link::DETACHED).await.unwrap();
    child.down().await.unwrap();
    session.switch_agent(Agent::plan().for_session(session.id()).unwrap()).await.unwrap();
    say("two").await;
    let mut events = session.events();
    session.compact().await.unwrap();
    while !matches!(events.next().await.unwrap(), Next::Event(event) if matches!(event.kind, EventKind::CompactionFinished { .. }))
    {
    }
    say("three").await;
    let messages = session.messages().await.unwrap();
    let marks = |message: &Message| -> Vec<Value> {
        let is_mark = |part: &&Part| matches!(part, Part::Agent(_) | Part::Subtask(_) | Part::Compaction(_));
        message.parts.iter().filter(is_mark).map(|part| serde_json::to_value(part).unwrap()).collect()
    };
    let subtask = json!({"type": "subtask", "prompt": "Count the words.\nAll of them.", "description": "Count the words.", "agent": "build"});
    let expected = [
        vec![],
        vec![subtask],
        vec![],
        vec![json!({"type": "agent", "name": "plan"})],
        vec![],
        vec![json!({"type": "compaction", "auto": false})],
    ];
    assert_eq!(messages.iter().map(marks).collect::<Vec<_>>(), expected);
    assert!(matches!(messages[3].parts[..2], [Part::Agent(_), Part::StepStart(_)]), "{:?}", messages[3].parts);
    let names: Vec<_> = messages.iter().map(|message| message.agent.as_deref().unwrap()).collect();
    assert_eq!(names, ["build", "build", "plan", "plan", "plan", "plan"]);
    assert!(messages.iter().all(|message| message.session.as_ref() == Some(session.id()) && message.model.is_some()));
    let at = session.state().await.unwrap().seq;
    let fork = session.fork(at).await.unwrap();
    assert!(fork.messages().await.unwrap().iter().all(|message| message.session.as_ref() == Some(fork.id())));
    assert!(runtime.shutdown().await.is_empty());
}

/// C-p14: a conversation is read from its end, message by message with all parts, or page by page: also while its session
/// sleeps, which it goes on doing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_is_read_newest_message_first() {
    let folder = taped::folder();
    let replies = (0..5).flat_map(|n| [Reply::call("ls", json!({})), Reply::text(format!("answer {n}"))]);
    let model = Arc::new(Scripted::new(replies.chain([Reply::text("meanwhile")])));
    let builder = Runtime::builder().store(folder.path().join("store")).model(model).tools(tools::full());
    let runtime = builder.start().await.unwrap();
    std::fs::create_dir(folder.path().join("work")).unwrap();
    let options = SessionOptions::new(folder.path().join("work")).profile(Profile::Auto);
    let session = runtime.create(options).await.unwrap();
    assert_eq!(session.newest_first().next().await.unwrap(), None, "nothing was said");
    for n in 0..5 {
        session.prompt(format!("question {n}")).await.unwrap().wait().await.unwrap();
    }
    let mut expected = session.messages().await.unwrap();
    expected.reverse();
    assert_eq!(expected.len(), 15);
    runtime.passivate(session.id()).await.unwrap();

    let mut stream = runtime.session(session.id()).newest_first();
    let mut streamed = Vec::new();
    while let Some(message) = stream.next().await.unwrap() {
        streamed.push(message);
    }
    assert_eq!(streamed, expected, "whole, with all parts");
    let states = streamed
        .iter()
        .flat_map(|message| &message.parts)
        .filter(|part| matches!(part, Part::Tool(call) if matches!(call.state, ToolState::Completed { .. })));
    assert_eq!(states.count(), 5);
    for limit in [1, 4, 15, 1_000] {
        let (mut paged, mut before) = (Vec::new(), None);
        loop {
            let page = session.messages_before(before, limit).await.unwrap();
            assert!(page.messages.len() == limit || page.next.is_none());
            paged.extend(page.messages);
            assert!(paged.len() <= expected.len(), "the pages come to an end");
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        assert_eq!(paged, expected, "pages of {limit}");
    }
    assert_eq!(runtime.awake(), [], "nobody was woken for it");

    // What is said, or taken back, between two pages moves nothing of what is older.
    let first = session.messages_before(None, 4).await.unwrap();
    session.prompt("question 5").await.unwrap().wait().await.unwrap();
    let second = session.messages_before(first.next, 4).await.unwrap();
    assert_eq!(second.messages, expected[4..8]);
    session.rollback(expected[8].id.clone()).await.unwrap();
    assert_eq!(session.messages_before(second.next, 99).await.unwrap().messages, expected[9..]);
    assert!(runtime.shutdown().await.is_empty());
}

/// Says how far it is, and goes on when it is told to.
struct Slow(Arc<tokio::sync::Semaphore>);

impl Tool for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn description(&self) -> &str {
        "Takes its time."
    }

    fn schema(&self) -> Value {
        json!({"type": "object"})
    }

    fn run<'a>(&'a self, _: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            for done in 1..=3 {
                context.progress.metadata(json!({"done": done}));
                self.0.acquire().await.unwrap().forget();
            }
            ToolResult::ok("done").with_details(json!({"done": "all"}))
        })
    }
}

/// D-08: while a call runs, what it says of itself is pushed to whoever listens, each time it changes; its part says that it is
/// running until it is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_running_call_says_of_itself_is_pushed() {
    let folder = taped::folder();
    let may_go_on = Arc::new(tokio::sync::Semaphore::new(0));
    let model = Arc::new(Scripted::new([Reply::call("slow", json!({})), Reply::text("ok")]));
    let builder = Runtime::builder().store(folder.path().join("store")).model(model);
    let runtime = builder.tool(Slow(may_go_on.clone())).start().await.unwrap();
    let session = runtime.create(SessionOptions::new(folder.path()).profile(Profile::Auto)).await.unwrap();
    let mut events = session.events();
    let receipt = session.prompt("go").await.unwrap();
    let (mut ticket_started, mut seen) = (None, Vec::new());
    while seen.len() < 3 {
        let next = tokio::time::timeout(Duration::from_secs(60), events.next()).await.expect("it is pushed");
        let Some(Next::Event(event)) = next else { continue };
        match &event.kind {
            EventKind::CallStarted { ticket, .. } => ticket_started = Some(*ticket),
            EventKind::CallProgress { ticket, metadata, .. } => {
                assert_eq!(Some(*ticket), ticket_started);
                seen.push(metadata.clone());
                assert_eq!(state_of_the_call(&session).await["status"], "running");
                may_go_on.add_permits(1);
            }
            _ => {}
        }
    }
    assert_eq!(seen, [json!({"done": 1}), json!({"done": 2}), json!({"done": 3})]);
    receipt.wait().await.unwrap();
    let state = state_of_the_call(&session).await;
    assert_eq!((&state["status"], &state["metadata"]), (&json!("completed"), &json!({"done": "all"})));
    assert!(runtime.shutdown().await.is_empty());
}

async fn state_of_the_call(session: &tamtam::Session) -> Value {
    let messages = session.messages().await.unwrap();
    let parts = messages.iter().flat_map(|message| &message.parts);
    let mut calls = parts.filter_map(|part| match part {
        Part::Tool(call) => Some(call),
        _ => None,
    });
    serde_json::to_value(&calls.next_back().expect("a call was made").state).unwrap()
}
