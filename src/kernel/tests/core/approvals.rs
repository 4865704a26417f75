//! An approval is for what was shown: the tool, its arguments and what the call wants. It covers nothing else, also not behind a
//! restart with other tools or in another folder.

use serde_json::{Value, json};
use tamtam::{
    Seq,
    event::{EventKind, events_of},
    kernel::{AnswerAsk, AskClosedWhy, CallState, CallVerdict, Grant, Record, Refusal, Settings, ask_digest},
    model::BoxFuture,
    permission::Action,
    session::Finish,
    tool::{Access, Effect, Question, QuestionAnswer, Tool, ToolContext, ToolResult},
};

use super::play::{Play, call, rules};

/// The tool `deploy`; `to` is what its calls want.
struct Deploy {
    to: &'static str,
}

impl Tool for Deploy {
    fn name(&self) -> &str {
        "deploy"
    }

    fn description(&self) -> &str {
        "deploys"
    }

    fn schema(&self) -> Value {
        json!({"type": "object"})
    }

    fn effect(&self) -> Effect {
        Effect::Idempotent
    }

    fn access(&self, _: &Value) -> Vec<Access> {
        vec![Access::new("deploy", self.to)]
    }

    fn run<'a>(&'a self, _: Value, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async { ToolResult::ok("") })
    }
}

/// A session that asks about everything, and whose model calls `deploy`.
fn asked(pause: bool) -> (Play, Seq, Seq) {
    let mut play = Play::with(|settings: &mut Settings| settings.rules = vec![rules("s", &[("*", "*", Action::Ask)])]);
    play.toolbox = play.toolbox.with(Deploy { to: "test" });
    play.send("go");
    play.answer(vec![call("c0", "deploy", "{}")], Finish::ToolCalls);
    let (ask, ticket) = (play.asks()[0], play.state.calls().next().unwrap().0);
    if pause {
        play.pause();
    }
    (play, ask, ticket)
}

fn wants(play: &Play) -> Vec<String> {
    let open = play.asks().into_iter().filter_map(|ask| match &play.state.open[&ask] {
        tamtam::kernel::Open::Ask(ask) => Some(ask.access.iter().map(Access::to_string).collect::<Vec<_>>().join(", ")),
        _ => None,
    });
    open.collect()
}

/// A yes that was given, or is being given, for one call does not let another one run behind a restart (claude-code #78777).
#[test]
fn an_approval_covers_nothing_else_behind_a_restart() {
    // Allowed, and not started yet.
    let (mut play, ask, ticket) = asked(true);
    play.grant(ask, Grant::Once).unwrap();
    assert_eq!(play.call_state(ticket), Some(CallState::Allowed));
    play.crash();
    assert_eq!(play.call_state(ticket), Some(CallState::Allowed), "the same call stays allowed");
    let (mut play, ask, ticket) = asked(true);
    play.grant(ask, Grant::Once).unwrap();
    play.toolbox = play.toolbox.with(Deploy { to: "production" });
    play.crash();
    assert_eq!(play.call_state(ticket), Some(CallState::Pending));
    play.resume();
    assert_eq!((wants(&play), play.started()), (vec!["deploy production".to_owned()], vec![]));
    // Running.
    let (mut play, ask, ticket) = asked(false);
    play.grant(ask, Grant::Once).unwrap();
    assert_eq!(play.started(), [ticket]);
    play.crash();
    assert_eq!((play.started(), wants(&play)), (vec![ticket], vec![]), "what was allowed runs again");
    let (mut play, ask, _) = asked(false);
    play.grant(ask, Grant::Once).unwrap();
    play.toolbox = play.toolbox.with(Deploy { to: "production" });
    play.crash();
    assert_eq!((wants(&play), play.started()), (vec!["deploy production".to_owned()], vec![]));
    // Being asked about: the answer to the old question comes too late.
    let (mut play, ask, _) = asked(false);
    play.toolbox = play.toolbox.with(Deploy { to: "production" });
    play.crash();
    let is_withdrawn = |record: &Record| matches!(record, Record::AskClosed { why: AskClosedWhy::Withdrawn });
    assert!(play.entries.iter().any(|entry| is_withdrawn(&entry.record)));
    assert_eq!(play.grant(ask, Grant::Once), Err(Refusal::AskClosed { ask }));
    assert_eq!((wants(&play), play.started()), (vec!["deploy production".to_owned()], vec![]));
}

/// In another folder the same paths are other files.
#[test]
fn an_approval_is_for_the_folder_that_it_was_given_in() {
    let (mut play, ask, ticket) = asked(true);
    play.grant(ask, Grant::Once).unwrap();
    play.configure(|settings| settings.workspace = "/elsewhere".into());
    assert_eq!(play.call_state(ticket), Some(CallState::Pending));
    play.resume();
    assert_eq!((wants(&play).len(), play.started()), (1, vec![]));
}

/// An answer that names what it is for is refused where the ask is about something else, and the ask stays open.
#[test]
fn an_answer_for_something_else_is_refused() {
    let (mut play, ask, ticket) = asked(false);
    let digest = ask_digest("deploy", "{}", &[Access::new("deploy", "test")], None);
    assert_eq!(play.state.digest_of(ask), Some(digest.clone()));
    let answer = |play: &mut Play, digest: &str| {
        let reply = play.reply_to();
        let digest = Some(digest.to_owned());
        play.signal(AnswerAsk { ask, grant: Grant::Once, who: None, rules: None, digest }.to(reply));
        play.reply.clone().unwrap()
    };
    let others = [
        ask_digest("deploy", "{ }", &[Access::new("deploy", "test")], None),
        ask_digest("deploy", "{}", &[Access::new("deploy", "*")], None),
        ask_digest("destroy", "{}", &[Access::new("deploy", "test")], None),
        ask_digest("deploy", "{}", &[Access::new("deploy", "test")], Some(&Question::new("Go?"))),
        String::new(),
    ];
    for other in &others {
        assert_ne!(*other, digest);
        assert_eq!(answer(&mut play, other), Err(Refusal::NotShown { ask }));
        assert_eq!((play.entries.len(), play.asks()), (0, vec![ask]));
    }
    answer(&mut play, &digest).unwrap();
    assert_eq!(play.started(), [ticket]);
}

/// "Nobody was there" is no "the user rejected it": verdict, words and event say which, and the turn goes on.
#[test]
fn nobody_to_ask_is_no_rejection() {
    let (mut play, ask, _) = asked(false);
    let before = play.state.clone();
    play.grant(ask, Grant::Unheard).unwrap();
    let result = play.entries.iter().find_map(|entry| match &entry.record {
        Record::Result { result, judged } => Some((result.content.clone(), *judged)),
        _ => None,
    });
    assert_eq!(result, Some(("Permission denied: nobody was left whom to ask.".to_owned(), CallVerdict::Unheard)));
    assert!(play.state.turn.is_some(), "the model is told, and goes on");
    let closed = events_of(&before, &play.entries[0]).find_map(|event| match event.kind {
        EventKind::AskClosed { grant, why, .. } => Some((grant, why)),
        _ => None,
    });
    assert_eq!(closed, Some((None, Some(AskClosedWhy::Unheard))));
    // A question of a running call.
    let (mut play, ask, ticket) = asked(false);
    play.grant(ask, Grant::Once).unwrap();
    let question = Question { access: vec![Access::new("deploy", "more")], ..Question::new("More?") };
    play.put_question(ticket, 1, question).unwrap();
    let ask = play.asks()[0];
    play.grant(ask, Grant::Unheard).unwrap();
    assert_eq!(play.state.question_answer(ticket, ask), Some(QuestionAnswer::Unheard));
    assert_eq!(play.call_state(ticket), Some(CallState::Running));
}

/// An ask about a loop says what is repeated, and how often.
#[test]
fn an_ask_about_a_loop_says_what_repeats_and_how_often() {
    let lines = [("*", "*", Action::Allow), ("doom_loop", "*", Action::Ask)];
    let repeated = |inputs: &[&str]| {
        let mut play = Play::with(|settings: &mut Settings| settings.rules = vec![rules("s", &lines)]);
        play.toolbox = play.toolbox.with(Deploy { to: "test" });
        play.send("go");
        for input in inputs {
            play.answer(vec![call("c0", "deploy", input)], Finish::ToolCalls);
            if let [ticket] = play.started()[..] {
                play.returned(ticket, "ok");
            }
        }
        assert_eq!(wants(&play), ["deploy test, doom_loop deploy"]);
        let call = play.state.calls().next().unwrap().1;
        let repeats = play.state.repeats(call).unwrap();
        (repeats.calls, repeats.times)
    };
    assert_eq!(repeated(&["{}", "{}", "{}"]), (1, 3));
    let other = r#"{"a":1}"#;
    assert_eq!(repeated(&["{}", other, "{}", other, "{}", other]), (2, 3));
}
