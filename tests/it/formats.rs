//! The formats that other programs rely on (`docs/FORMATS.md`): one line of each kind, as it is stored or sent.
//!
//! A change here is a change of a promise. Before accepting one, answer: old reader and new data, new reader and old data,
//! old writer and new data.

use std::sync::Arc;

use serde_json::{Value, json};
use tamtam::{
    Delivery, Message, Millis, Outcome, Seq, SessionId, Steering,
    model::{Answer, AnswerPart, ErrorKind, Item, MicroUsd, ModelError, PicoUsd, Price, Usage, UserItem},
    permission::{Action, Chain, Rule, Ruleset},
    session::{
        AgentChoice, AskClosedWhy, BranchRequest, BranchSummary, Breach, CallOpened, CallVerdict, Compacted,
        CompactionReason, Down, DownReason, Entry, Extent, Finish, ForkMade, Grant, Learned, Limits, Link, Merged,
        OpenBranch, OpenCompaction, Record, RefusedFile, Replaced, RequestOpened, Reserve, Resource, RestoredFiles,
        RolledBack, Scope, Settings, Spent, State, TaskOrder, Tie, Undone, Way,
    },
    tape::{Cause, ImportedFrom},
    tool::{Access, CallFacts, Effect, FileChange, FileImage, FileState, Question, ToolResult},
};

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
    let answer = Arc::new(Answer::new(vec![text, call], Finish::ToolCalls));
    let error = ModelError::new(ErrorKind::RateLimited, "slow down").with_status(429);
    let price = Price { cache_read: Some(MicroUsd(25_000)), ..Price::new(MicroUsd(250_000), MicroUsd(2_000_000)) };
    let breach = Breach { resource: Resource::Usd, extent: Extent::Session, max: 9, used: 5, reserved: 1, needs: 4 };
    let grant = Limits { tokens: Some(10_000), usd: Some(PicoUsd(7)), ..Limits::default() };
    let request = RequestOpened {
        model: model(),
        attempt: 1,
        last: false,
        items: 1,
        system: "aa".into(),
        tools: "bb".into(),
        used: 20,
        usable: 100,
        masked: ["write".to_owned()].into(),
        estimated: 18,
        price: Some(price),
        reserved: Reserve { input: 20, output: 0 },
        max_output: Some(4_000),
        instead: Some(breach),
        hash: "cc".into(),
    };
    let facts = CallFacts {
        tool: "read".into(),
        effect: Effect::Read,
        parallel: true,
        access: vec![Access::new("read", "a")],
        loop_key: Some("d1e0c5a3b2f49687".into()),
        unusable: None,
    };
    let opened = CallOpened { answer: Seq(5), index: 0, id: "c-1".into(), facts: facts.clone() };
    let order = TaskOrder::new(settings.clone(), Message::user("help").with_id("m-2".into()));
    let mut down = Down::without_a_word(DownReason::Failed { error: "it failed".into() });
    down.lent = grant;
    (down.text, down.steps) = ("this far".into(), 2);
    down.spent = Some(Spent { requests: 2, calls: 1, ..Spent::default() });
    let notice = Arc::new(Message::user("Task task-1 is over: failed: it failed.").with_id("task-9".into()));
    let tie = Tie { parent: "ticket-2".parse().unwrap(), ticket: Seq(4), link: Link::MONITORED, depth: 1, grant };
    let result = Arc::new(ToolResult::ok("text").with_details(json!({ "lines": 1 })).with_title("read a"));
    vec![
        Record::State(Arc::new(State::new(session(), settings.clone(), Millis(1)))),
        Record::Settings(Box::new(settings)),
        Record::Accepted {
            message: message.clone(),
            delivery: Delivery::Steer(Steering::SkipRemaining),
            agent: Some(AgentChoice::Own),
        },
        Record::Edited { message },
        Record::Withdrawn { id: "m-1".into() },
        Record::Delivered { ids: vec!["m-1".into()] },
        Record::Request(request),
        Record::Answer {
            answer,
            interrupted: false,
            estimated: Some(Usage { input: 18, output: 5, ..Usage::default() }),
            price: None,
        },
        Record::RequestFailed { error, estimated: None, learned: Some(Learned::Window(8_192)) },
        Record::RetryWait { attempt: 1, until: Millis(2_000), server: true },
        Record::Call(opened),
        Record::CallFacts { index: 0, facts },
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
        Record::BudgetAsk { breach, expires: Millis(600_000) },
        Record::CallStarted { attempt: 1, key: "ticket-1/6".into(), bytes: Some(51_200), confined: false },
        Record::Closing { why: None },
        Record::Result { result, judged: CallVerdict::Allowed },
        Record::Ending { outcome: Outcome::Aborted { reason: "enough".into() } },
        Record::Recovered { n: 1, resumed: true },
        Record::Stopped {},
        Record::TurnFinished { outcome: Outcome::Done },
        Record::Released {},
        Record::Pruned { results: vec![2], files: vec![0] },
        Record::Compaction(OpenCompaction {
            reason: CompactionReason::Threshold,
            model: model(),
            first_kept: 4,
            split_turn: Some(3),
            used: 90,
            usable: 80,
            room: 60,
            price: None,
            reserved: Reserve { input: 70, output: 0 },
        }),
        Record::Compacted(Arc::new(Compacted {
            summary: Some("## Goal".into()),
            usage: Default::default(),
            estimated: None,
            lost: 1,
            first_kept: 4,
            replaced: vec![Replaced {
                call: "c-1".into(),
                tool: "read".into(),
                target: Some("a".into()),
                seq: Some(Seq(6)),
            }],
            carry: 2_000,
        })),
        Record::CompactionFailed {
            error: "the summary is empty".into(),
            usage: Default::default(),
            estimated: None,
            lost: 1,
        },
        Record::CompactionUndone(Arc::new(Undone {
            compaction: Seq(6),
            history: Default::default(),
            front: 1,
            summary: Some("## Goal".into()),
            carried: Default::default(),
            newest: Seq(2),
        })),
        Record::Pinned { message: "m-1".into() },
        Record::Unpinned { message: "m-1".into() },
        Record::BranchOpened(OpenBranch {
            model: "m/large".parse().unwrap(),
            price: None,
            wanted: Reserve { input: 400, output: 900 },
            reserved: Reserve { input: 400, output: 0 },
        }),
        Record::BranchFailed {
            error: "nobody waited for it".into(),
            usage: Usage::default(),
            estimated: None,
            lost: 1,
        },
        Record::BranchSummary(Arc::new(BranchSummary {
            from: Seq(2),
            to: Seq(6),
            summary: "It failed.".into(),
            usage: Default::default(),
            files: Default::default(),
            request: Some(BranchRequest {
                ticket: Seq(5),
                model: model(),
                price: Some(price),
                reserved: Reserve { input: 40, output: 0 },
                estimated: Some(Usage { input: 40, output: 3, ..Usage::default() }),
                lost: 1,
            }),
        })),
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
        Record::Adopted { tie, above: vec![Chain::new("/w", vec![Ruleset::new("parent", [])])], next: None },
        Record::Imported(Box::new(ImportedFrom {
            session: "s".parse().unwrap(),
            from: "theirs".parse().unwrap(),
            last: Seq(30),
            workspace: "/w".into(),
            spill: Some("/store/sessions/s/spill".into()),
        })),
        Record::HostRules { rules: Some(Ruleset::new("host", [])) },
        Record::Narrowed { above: vec![Chain::new("/w", vec![Ruleset::new("parent", [])])] },
        Record::Merged(Arc::new(Merged {
            fork: "ticket-1-b".parse().unwrap(),
            made: ForkMade { entry: Seq(20), time: Millis(1) },
            onto: Seq(40),
            from: Seq(20),
            to: Seq(30),
            items: [Item::User(UserItem {
                id: "m-3".into(),
                parts: vec![tamtam::Part::text("and there?")],
                fragment: Default::default(),
            })]
            .into_iter()
            .collect(),
            spent: Spent { requests: 1, ..Spent::default() },
            files: vec![FileChange {
                path: "a".into(),
                before: FileState::Absent,
                after: FileState::Unknown("a link by now".into()),
            }],
            unlisted: vec!["deploy (call 24): the tool does not say which files it changes".into()],
            spill: Some("/srv/store/sessions/ticket-1-b/spill".into()),
        })),
        Record::RolledBack(Arc::new(RolledBack {
            from: Seq(40),
            to: Seq(20),
            way: Way::Undo,
            gone: vec!["m-1".into()],
            again: vec![],
            keep: 4,
            items: Default::default(),
            hash: "dd".into(),
            context: Default::default(),
        })),
        Record::Ended { why: "over".into() },
        Record::Forked(Box::new(tamtam::tape::Forked {
            session: "s-2".parse().unwrap(),
            parent: "s-1".parse().unwrap(),
            seq: Seq(6),
            sum: "61d3c2a09be4f7c5".into(),
            depth: 1,
            spill: Some("/store/sessions/s-2/spill".into()),
        })),
        Record::Paused {},
        Record::Resumed {},
        Record::LoopsReset {},
        Record::Restored(Arc::new(RestoredFiles {
            since: Seq(3),
            key: "r-1".into(),
            files: vec![FileChange {
                path: "a".into(),
                before: FileState::Absent,
                after: FileState::File(FileImage {
                    hash: Some("ab".into()),
                    mode: 0o644,
                    bytes: 2,
                    not_kept: None,
                    stamp: None,
                }),
            }],
            refused: vec![RefusedFile { path: "b".into(), why: "someone else changed it since".into() }],
        })),
    ]
}

fn entry(record: Record) -> Entry {
    let cause = Some(Cause::Message("m-1".into()));
    Entry {
        seq: Seq(7),
        time: Millis(1_000),
        cause,
        turn: Some(Seq(3)),
        step: Some(1),
        ticket: None,
        input: None,
        record,
    }
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
