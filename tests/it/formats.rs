//! The formats that other programs rely on (`docs/FORMATS.md`): one line of each kind, as it is stored or sent.
//!
//! A change here is a change of a promise. Before accepting one, answer: old reader and new data, new reader and old data,
//! old writer and new data.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tamtam::{
    Delivery, Message, Millis, Outcome, Seq, SessionId, Steering,
    model::{AnswerPart, ErrorKind, MicroUsd, ModelAnswer, ModelError, PicoUsd, Price, Usage},
    permission::{Action, Chain, Rule, Ruleset},
    session::{
        AgentChoice, AskClosedWhy, CallVerdict, Down, DownReason, Entry, Finish, Grant, Learned, Limits, Link, Record,
        Scope, Settings, Spent, State, TaskOrder,
    },
    tape::Cause,
    tool::{Access, Question, ToolResult},
};

/// What hosts only read: they cannot make it, so it comes from its stored form.
fn stored<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn model() -> tamtam::ModelRef {
    "openai/gpt-x".parse().unwrap()
}

fn session() -> SessionId {
    "ticket-1".parse().unwrap()
}

/// One access of each kind of part of a shell command.
fn parts_of_a_command() -> Vec<Access> {
    let unknown = json!({"text": "rm \u{1}", "whole": "0123456789abcdef"});
    let parts = json!([
        {"permission": "bash", "pattern": "cargo test", "part": {"command": {}}},
        {"permission": "bash", "pattern": "cat a /b", "part": {"command": {
            "reads": [{"path": "a"}, {"path": "/b", "outside": true}],
        }}},
        {"permission": "bash", "pattern": "rm …", "part": {"command": {"unknown": unknown}}},
        {"permission": "bash", "pattern": "nice rm …", "part": {"also": {"unknown": unknown}}},
        {"permission": "bash", "pattern": "eval x", "part": {"unread": {"why": "it has the command `eval`"}}},
        {"permission": "read", "pattern": "c", "part": "read"},
        {"permission": "edit", "pattern": "d", "part": "write"},
        {"permission": "bash", "pattern": "cargo test > d", "part": "whole"},
    ]);
    serde_json::from_value(parts).unwrap()
}

/// One of each kind of record.
fn records() -> Vec<Record> {
    let settings = Settings::new("/srv/app", model());
    let message = Arc::new(Message::user("hello").with_id("m-1".into()));
    let call = AnswerPart::Call { id: "c-1".into(), name: "read".into(), input: r#"{"path":"a"}"#.into(), extra: None };
    let text = AnswerPart::Text { text: "I look.".into(), extra: None };
    let answer = Arc::new(ModelAnswer::new(vec![text, call], Finish::ToolCalls));
    let error = ModelError::new(ErrorKind::RateLimited, "slow down").with_status(429);
    let price = Price::new(MicroUsd(250_000), MicroUsd(2_000_000)).cache_read(MicroUsd(25_000));
    let breach = json!({"resource": "usd", "extent": "session", "max": 9, "used": 5, "held": 1, "needs": 4});
    let grant = Limits::default().tokens(10_000).usd(PicoUsd(7));
    let request = json!({
        "model": model(), "attempt": 1, "items": 1, "system": "aa", "tools": "bb", "used": 20, "usable": 100,
        "masked": ["write"], "estimated": 18, "price": price, "reserved": {"input": 20, "output": 0},
        "max_output": 4_000, "instead": breach, "hash": "cc",
    });
    let facts = json!({
        "tool": "read", "effect": "read", "parallel": true, "access": [Access::new("read", "a")],
        "loop_key": "d1e0c5a3b2f49687",
    });
    let opened = json!({
        "answer": 5, "index": 0, "id": "c-1", "tool": "read", "effect": "read", "parallel": true,
        "access": [Access::new("read", "a")], "loop_key": "d1e0c5a3b2f49687",
    });
    let order = TaskOrder::new(settings.clone(), Message::user("help").with_id("m-2".into()));
    let mut down = Down::without_a_word(DownReason::Failed { error: "it failed".into() });
    down.lent = grant;
    (down.text, down.steps) = ("this far".into(), 2);
    let mut spent = Spent::default();
    (spent.requests, spent.calls) = (2, 1);
    down.spent = Some(spent);
    let notice = Arc::new(Message::user("Task task-1 is over: failed: it failed.").with_id("task-9".into()));
    let fresh = State::new(session(), settings.clone(), Millis(1));
    let mut merged = Spent::default();
    merged.requests = 1;
    let tie = json!({"parent": "ticket-2", "ticket": 4, "link": Link::MONITORED, "depth": 1, "grant": grant});
    let absent_before = |path: &str, after: Value| json!({"path": path, "before": "absent", "after": after});
    let result = Arc::new(ToolResult::ok("text").with_details(json!({ "lines": 1 })).with_title("read a"));
    vec![
        Record::State(Arc::new(fresh.clone())),
        Record::Settings(Box::new(settings)),
        Record::Accepted {
            message: message.clone(),
            delivery: Delivery::Steer(Steering::SkipRemaining),
            agent: Some(AgentChoice::Own),
            added: 1,
        },
        Record::Edited { message },
        Record::Withdrawn { id: "m-1".into() },
        Record::Delivered { ids: vec!["m-1".into()] },
        Record::Request(stored(request)),
        Record::Prepared(stored(json!({
            "turn": {"system": "Be short.", "messages": ["It is Tuesday."]},
            "shown": [{"kept": [0, 1]}, {"new": {"item": "user", "id": "x", "parts": [{"type": "text", "text": "note"}]}}],
            "reminders": ["Answer in English."], "hash": "dd",
        }))),
        Record::Answer { answer, interrupted: false, estimated: Some(Usage::new(18, 5)), price: None },
        Record::RequestFailed { error, estimated: None, learned: Some(Learned::Window(8_192)), fallback: None },
        Record::RetryWait { attempt: 1, until: Millis(2_000), server: true },
        Record::Call(stored(opened)),
        Record::CallFacts { index: 0, facts: stored(facts.clone()) },
        Record::CallGated(stored(json!({
            "hook": "house", "input": r#"{"path":"b"}"#, "facts": facts.clone(), "ask": "it is Friday", "passed": ["house"],
        }))),
        Record::Ask { call: Seq(6), access: vec![Access::new("bash", "ls")], expires: Millis(600_000), question: None },
        Record::Ask { call: Seq(6), access: parts_of_a_command(), expires: Millis(600_000), question: None },
        Record::Ask {
            call: Seq(6),
            access: vec![Access::new("deploy", "production")],
            expires: Millis(600_000),
            question: Some(Arc::new(Question::new("Deploy?").with_details("3 services change."))),
        },
        Record::AgentChosen { choice: tamtam::runtime::Agent::plan().for_session(&session()).unwrap(), for_turn: true },
        Record::AgentChosen { choice: AgentChoice::Own, for_turn: false },
        Record::AgentSwitched { agent: "build".into() },
        Record::Granted {
            grant: Grant::Offered { scope: Scope::Session, offer: 2 },
            who: Some("ada".into()),
            rules: vec![Rule::new("bash", "ls", Action::Allow), Rule::new("bash", "ls *", Action::Allow)],
        },
        Record::Revoked { grant: Seq(7) },
        Record::AskClosed { why: AskClosedWhy::Expired },
        Record::TaskAsk(Arc::new(
            serde_json::from_value(json!({
                "ask": 9, "from": [{"session": "task-1", "agent": "explore"}], "call": "c-1", "name": "bash",
                "input": "{}", "access": [Access::new("bash", "ls")], "expires": 600_000,
            }))
            .unwrap(),
        )),
        Record::BudgetAsk { breach: stored(breach), expires: Millis(600_000) },
        Record::CallStarted { attempt: 1, key: "ticket-1/6".into(), bytes: Some(51_200), confined: false },
        Record::Closing { why: None },
        Record::Result { result, judged: CallVerdict::Allowed },
        Record::Ending { outcome: Outcome::Aborted { reason: "enough".into() } },
        Record::Recovered { n: 1, resumed: true },
        Record::Stopped {},
        Record::TurnFinished { outcome: Outcome::Done },
        Record::Released {},
        Record::Pruned { results: vec![2], files: vec![0] },
        Record::Compaction(stored(json!({
            "reason": "threshold", "model": model(), "first_kept": 4, "split_turn": 3, "used": 90, "usable": 80,
            "room": 60, "reserved": {"input": 70, "output": 0},
        }))),
        Record::Compacted(stored(json!({
            "summary": "## Goal", "usage": Usage::default(), "lost": 1, "first_kept": 4,
            "replaced": [{"call": "c-1", "tool": "read", "target": "a", "seq": 6}], "carry": 2_000,
        }))),
        Record::CompactionFailed {
            error: "the summary is empty".into(),
            usage: Default::default(),
            estimated: None,
            lost: 1,
        },
        Record::CompactionUndone(stored(json!({
            "compaction": 6, "history": [], "front": 1, "summary": "## Goal", "newest": 2,
            "carried": {"calls": {"earlier": 0, "newest": []}, "files": {"modified": [], "read": []}, "users": []},
        }))),
        Record::Pinned { message: "m-1".into() },
        Record::Unpinned { message: "m-1".into() },
        Record::BranchOpened(stored(json!({
            "model": {"provider": "m", "model": "large"}, "wanted": {"input": 400, "output": 900},
            "reserved": {"input": 400, "output": 0},
        }))),
        Record::BranchFailed {
            error: "nobody waited for it".into(),
            usage: Usage::default(),
            estimated: None,
            lost: 1,
        },
        Record::BranchSummary(stored(json!({
            "from": 2, "to": 6, "summary": "It failed.", "usage": Usage::default(),
            "files": {"modified": [], "read": []},
            "request": {
                "ticket": 5, "model": model(), "price": price, "reserved": {"input": 40, "output": 0},
                "estimated": Usage::new(40, 3), "lost": 1,
            },
        }))),
        Record::TaskStarted {
            child: "task-1".parse().unwrap(),
            link: Link::LINKED,
            depth: 1,
            grant,
            order: Some(Arc::new(order)),
        },
        Record::TaskFinished { down: Arc::new(down), notice: Some(notice) },
        Record::TaskLeft {},
        Record::Orphaned { why: "its parent has ended".into() },
        Record::Adopted {
            tie: stored(tie),
            above: vec![Chain::new("/w", vec![Ruleset::new("parent", [])])],
            next: None,
        },
        Record::Imported(stored(json!({
            "session": "s", "from": "theirs", "last": 30, "workspace": "/w", "spill": "/store/sessions/s/spill",
        }))),
        Record::HostRules { rules: Some(Ruleset::new("host", [])) },
        Record::Narrowed { above: vec![Chain::new("/w", vec![Ruleset::new("parent", [])])] },
        Record::Merged(stored(json!({
            "fork": "ticket-1-b", "made": {"entry": 20, "time": 1}, "onto": 40, "from": 20, "to": 30,
            "items": [{"item": "user", "id": "m-3", "parts": [{"type": "text", "text": "and there?"}]}],
            "spent": merged,
            "files": [absent_before("a", json!({"unknown": "a link by now"}))],
            "unlisted": ["deploy (call 24): the tool does not say which files it changes"],
            "spill": "/srv/store/sessions/ticket-1-b/spill",
        }))),
        Record::RolledBack(stored(json!({
            "from": 40, "to": 20, "way": "undo", "gone": ["m-1"], "keep": 4, "hash": "dd", "context": fresh.context,
        }))),
        Record::Ended { why: "over".into() },
        Record::Forked(stored(json!({
            "session": "s-2", "parent": "s-1", "seq": 6, "sum": "61d3c2a09be4f7c5", "depth": 1,
            "spill": "/store/sessions/s-2/spill",
        }))),
        Record::Paused {},
        Record::Resumed {},
        Record::LoopsReset {},
        Record::Restored(stored(json!({
            "since": 3, "key": "r-1",
            "files": [absent_before("a", json!({"file": {"hash": "ab", "mode": 0o644, "bytes": 2}}))],
            "refused": [{"path": "b", "why": "someone else changed it since"}],
        }))),
    ]
}

fn entry(record: Record) -> Entry {
    let cause = Some(Cause::Message("m-1".into()));
    let mut entry = Entry::new(Seq(7), Millis(1_000), record);
    (entry.cause, entry.turn, entry.step) = (cause, Some(Seq(3)), Some(1));
    entry
}

/// Design §9: the data of each entry kind.
#[test]
fn the_data_of_each_kind_of_entry_is_as_documented() {
    let lines: Vec<Value> = records()
        .into_iter()
        .map(|record| {
            let line = entry(record).to_tape().unwrap();
            json!({ "kind": line.kind, "data": serde_json::from_str::<Value>(line.data.get()).unwrap() })
        })
        .collect();
    insta::assert_json_snapshot!("entries", lines);
}

/// What was written is what is read.
#[test]
fn every_kind_of_entry_reads_back_as_it_was_written() {
    for record in records() {
        let written = entry(record);
        assert_eq!(Entry::from_tape(&written.to_tape().unwrap()).unwrap(), written);
    }
}

/// New writer, old reader: a kind that is not known is refused by name, and nothing folds past it.
#[test]
fn an_unknown_kind_of_entry_is_refused_by_name() {
    let mut line = entry(Record::Paused {}).to_tape().unwrap();
    line.kind = "from_the_future".into();
    let refused = Entry::from_tape(&line).unwrap_err().to_string();
    assert!(refused.contains("from_the_future") && refused.contains("entry 7"), "{refused}");
}

/// The documentation names every kind.
#[test]
fn the_formats_page_names_every_kind_of_entry() {
    let page = include_str!("../../docs/FORMATS.md");
    for record in records() {
        let kind = entry(record).to_tape().unwrap().kind;
        assert!(page.contains(&format!("`{kind}`")), "docs/FORMATS.md does not name `{kind}`");
    }
}
