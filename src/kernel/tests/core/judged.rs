//! What stands beside each result: why it is that one. Nobody has to know by its words. Each of these tapes is replayed when its
//! test lets go of it, without the tools.

use serde_json::Value;
use tamtam::{
    kernel::{CallVerdict, Grant, OnBreach, Record, Settings, Steering},
    model::BoxFuture,
    permission::Action,
    session::{ErrorReason, Finish},
    tool::{Access, Tool, ToolContext, ToolResult},
};

use super::play::{Play, call, rules};

/// Of each result on the tape, in order.
fn judged(play: &Play) -> Vec<CallVerdict> {
    let results = play.entries_of_the_tape().into_iter().filter_map(|entry| match entry.record {
        Record::Result { judged, .. } => Some(judged),
        _ => None,
    });
    results.collect()
}

fn called(change: impl FnOnce(&mut Settings), calls: &[(&str, &str)], finish: Finish) -> Play {
    let mut play = Play::with(change);
    play.send("go");
    let calls = calls.iter().enumerate().map(|(n, (name, input))| call(&format!("c{n}"), name, input));
    play.answer(calls.collect(), finish);
    play
}

fn asks(settings: &mut Settings) {
    settings.rules = vec![rules("host", &[("*", "*", Action::Ask), ("write", "*", Action::Deny)])];
}

/// A call that cannot run says by a word of its own what is missing, and one that ran says that.
#[test]
fn a_call_that_cannot_run_says_what_is_missing() {
    let free = |_: &mut Settings| {};
    let only_read = |settings: &mut Settings| settings.tools = Some(["read".to_owned()].into());
    let one_step = |settings: &mut Settings| settings.steps_max = Some(1);
    let tools = Finish::ToolCalls;
    assert_eq!(judged(&called(free, &[("gong", "{}")], tools)), [CallVerdict::NoTool]);
    assert_eq!(judged(&called(only_read, &[("bash", "{}")], tools)), [CallVerdict::NotOffered]);
    assert_eq!(judged(&called(free, &[("read", "[1]")], tools)), [CallVerdict::BadArguments]);
    assert_eq!(judged(&called(free, &[("read", "{}")], Finish::Length)), [CallVerdict::CutShort]);
    assert_eq!(judged(&called(free, &[("read", "{}")], Finish::ContentFilter)), [CallVerdict::Withheld]);
    assert_eq!(judged(&called(one_step, &[("read", "{}")], tools)), [CallVerdict::LastStep]);
    let mut ran = called(free, &[("read", "{}")], tools);
    let ticket = ran.started()[0];
    ran.returned(ticket, "Permission denied: it says so itself.");
    assert_eq!(judged(&ran), [CallVerdict::Allowed]);
}

/// A call that may not run says who says so.
#[test]
fn a_call_that_may_not_run_says_who_says_so() {
    assert_eq!(judged(&called(asks, &[("write", "{}")], Finish::ToolCalls)), [CallVerdict::Denied]);
    let mut alone = Play::with(asks);
    alone.heard = false;
    alone.send("go");
    alone.answer_calls(&["bash"]);
    assert_eq!(judged(&alone), [CallVerdict::Unheard]);
    for grant in [Grant::Reject(None), Grant::Reject(Some("not now".into()))] {
        let mut rejected = called(asks, &[("bash", "{}")], Finish::ToolCalls);
        let ask = rejected.asks()[0];
        rejected.grant(ask, grant).unwrap();
        assert_eq!(judged(&rejected), [CallVerdict::Rejected]);
    }
    let mut late = called(asks, &[("bash", "{}")], Finish::ToolCalls);
    late.later(600_001);
    assert_eq!(judged(&late), [CallVerdict::Expired]);
}

/// A call that nobody started, or saw the end of, says what came first.
#[test]
fn a_call_that_was_not_begun_or_not_seen_to_its_end_says_what_came_first() {
    let mut steered = called(asks, &[("bash", "{}")], Finish::ToolCalls);
    steered.steer("else", Steering::SkipRemaining);
    assert_eq!(judged(&steered), [CallVerdict::Skipped]);
    let mut aborted = called(asks, &[("bash", "{}")], Finish::ToolCalls);
    aborted.abort("enough");
    assert_eq!(judged(&aborted), [CallVerdict::Aborted]);
    let mut crashed = called(|_| {}, &[("bash", "{}")], Finish::ToolCalls);
    crashed.crash();
    assert_eq!(judged(&crashed), [CallVerdict::Lost]);
    let one_call = |settings: &mut Settings| {
        settings.budget.session.calls = Some(1);
        settings.budget.on_breach = OnBreach::Stop;
    };
    let mut spent = called(one_call, &[("bash", "{}"), ("bash", "{}")], Finish::ToolCalls);
    let ticket = spent.started()[0];
    spent.returned(ticket, "ok");
    assert_eq!(judged(&spent), [CallVerdict::Allowed, CallVerdict::OverBudget]);
}

/// A tool that crashes when it is asked what a call wants.
struct Brittle;

impl Tool for Brittle {
    fn name(&self) -> &str {
        "brittle"
    }

    fn description(&self) -> &str {
        "breaks"
    }

    fn schema(&self) -> Value {
        serde_json::json!({"type": "object"})
    }

    fn access(&self, _: &Value) -> Vec<Access> {
        std::panic::panic_any("brittle")
    }

    fn run<'a>(&'a self, _: Value, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async { ToolResult::ok("") })
    }
}

/// A tool that crashes over arguments has its word too, and the reason of each result is what it was before there were words.
#[test]
fn a_tool_that_crashes_over_arguments_says_so() {
    let mut play = Play::new();
    play.toolbox = play.toolbox.with(Brittle);
    play.send("go");
    play.answer_calls(&["brittle"]);
    assert_eq!(judged(&play), [CallVerdict::Crashed]);
    let reason = play.entries_of_the_tape().into_iter().find_map(|entry| match entry.record {
        Record::Result { result, .. } => result.error,
        _ => None,
    });
    assert_eq!(reason, Some(ErrorReason::Failed));
}
