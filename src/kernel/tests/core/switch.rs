//! Another agent for a running session: in force at the border of a step, on the tape, and back again.

use std::{collections::BTreeSet, sync::Arc};

use tamtam::{
    Seq, SessionId,
    kernel::{AgentChoice, AgentParts, CallState, Delivery, Settings, Steering},
    permission::{Action, Globs},
    session::Finish,
    tool::Access,
};

use super::play::{Play, call, rules};
use crate::kernel::{Record, SendMessage};

fn plan() -> AgentChoice {
    let id: SessionId = "play".parse().unwrap();
    crate::agent::Agent::plan().for_session(&id).unwrap()
}

fn strict_agent() -> AgentChoice {
    AgentChoice::Other(Arc::new(AgentParts {
        agent: "careful".into(),
        system: Some("Be careful.".into()),
        model: Some("fake/other".parse().unwrap()),
        tools: Some(BTreeSet::from(["look".to_owned(), "bash".to_owned()])),
        output_max: Some(100),
        steps_max: Some(7),
        rules: Some(rules("agent careful", &[("bash", "*", Action::Deny)])),
        ..AgentParts::default()
    }))
}

fn agent(play: &Play) -> &str {
    &play.state.settings.agent
}

fn judged(settings: &Settings, permission: &str, pattern: &str) -> Action {
    settings.judge(&[Access::new(permission, pattern)], &Globs::default()).action
}

/// Design §5: idle it holds at once; in a step it waits for the border, whatever stands open.
#[test]
fn an_agent_is_in_force_from_the_border_of_a_step_on() {
    let mut play = Play::new();
    play.switch(strict_agent());
    assert_eq!((agent(&play), play.entries.len()), ("careful", 2));
    play.switch(AgentChoice::Own);
    play.send("go");
    // While the model answers.
    play.switch(strict_agent());
    assert_eq!(agent(&play), "build");
    let calls = play.answer_calls(&["bash", "bash"]);
    // Both calls are of the step that began under the old agent, also the one that has not started.
    assert_eq!(play.call_state(calls[1]), Some(CallState::Pending));
    play.returned(calls[0], "ok");
    assert_eq!((play.call_state(calls[1]), agent(&play)), (Some(CallState::Running), "build"));
    play.returned(calls[1], "ok");
    assert_eq!(agent(&play), "careful");
    let request = play.state.request().unwrap().1.clone();
    assert_eq!((&*request.system, request.model.to_string()), ("Be careful.", "fake/other".to_owned()));
    play.answer(vec![call("c2", "bash", "{}")], Finish::ToolCalls);
    assert_eq!(play.newest(1, 28), ["c2! Permission denied: bash "]);
}

/// A retry is the same request: it waits for no border, and a switch does not change it.
#[test]
fn a_retry_belongs_to_its_step() {
    let mut play = Play::new();
    play.send("go");
    play.switch(strict_agent());
    play.failed(tamtam::model::ErrorKind::Overloaded);
    assert_eq!(agent(&play), "build");
    play.later(60_000);
    assert_eq!((agent(&play), &*play.state.request().unwrap().1.system), ("build", ""));
    play.answer_text("done");
    assert_eq!(agent(&play), "careful");
}

/// Reversible: all that the agent had set comes back, and what a host changed beside it stays.
#[test]
fn a_switch_is_taken_back_whole() {
    let mut play =
        Play::with(|settings| settings.tools = Some(BTreeSet::from(["look".to_owned(), "write".to_owned()])));
    let before = (*play.state.settings).clone();
    for other in [strict_agent(), plan()] {
        play.switch(other.clone());
        assert_ne!(*play.state.settings, before);
        // Chosen again it writes nothing.
        play.switch(other);
        assert!(play.entries.is_empty());
    }
    play.configure(|settings| settings.parallel_max = 3);
    play.switch(AgentChoice::Own);
    assert_eq!(*play.state.settings, Settings { parallel_max: 3, ..before });
}

/// Promise 8: what the session may not do, no agent lets it do: not its rules, and not its tools.
#[test]
fn a_switch_takes_rights_and_gives_none() {
    let deny = |settings: &mut Settings| {
        settings.rules = vec![rules("session", &[("*", "*", Action::Ask), ("edit", "**", Action::Deny)])];
        settings.tools = Some(BTreeSet::from(["look".to_owned()]));
    };
    let mut play = Play::with(deny);
    let AgentChoice::Other(parts) = strict_agent() else { unreachable!() };
    let all = AgentParts { rules: Some(rules("agent all", &[("*", "*", Action::Allow)])), ..(*parts).clone() };
    play.switch(AgentChoice::Other(all.into()));
    let settings = &play.state.settings;
    assert_eq!((judged(settings, "bash", "ls"), judged(settings, "edit", "a")), (Action::Ask, Action::Deny));
    assert_eq!((settings.has_tool("look"), settings.has_tool("bash")), (true, false));
    // Plan mode under a session that edits nothing: not even the plan.
    play.switch(plan());
    assert_eq!(judged(&play.state.settings, "edit", ".tamtam/plans/play.md"), Action::Deny);
    // A change of settings reaches the agent in force as little as the rules of the host.
    play.configure(|settings| settings.switched = None);
    assert_eq!(judged(&play.state.settings, "edit", "x"), Action::Deny);
    assert!(play.state.settings.switched.is_some());
}

/// C-21, L-04: in plan mode nothing is edited but the plan, whatever the session allows; harmless commands run, others ask.
#[test]
fn plan_mode_edits_only_its_plan() {
    let mut play = Play::with(|settings| {
        settings.rules = vec![crate::permission::Profile::Auto.ruleset()];
    });
    play.switch(plan());
    let settings = &play.state.settings;
    for (permission, pattern, expected) in [
        ("edit", ".tamtam/plans/play.md", Action::Allow),
        ("edit", ".tamtam/plans/play.md/x", Action::Deny),
        ("edit", ".tamtam/plans/other.md", Action::Deny),
        ("edit", ".tamtam/plans/playxmd", Action::Deny),
        ("edit", ".tamtam/config.toml", Action::Deny),
        ("edit", "sub/.tamtam/plans/play.md", Action::Deny),
        ("edit", "src/main.rs", Action::Deny),
        ("edit", ".git/config", Action::Deny),
        ("edit", "/etc/passwd", Action::Deny),
        ("edit", ".", Action::Deny),
        ("read", "src/main.rs", Action::Allow),
        ("bash", "cargo test", Action::Ask),
        ("confined_bash", "ls", Action::Allow),
        ("external_directory", "/etc", Action::Ask),
    ] {
        assert_eq!(judged(settings, permission, pattern), expected, "{permission} {pattern}");
    }
    // A child of the session is bound by it, and has no plan of its own.
    let above = settings.above_children();
    let child = Settings { above, ..settings.own() };
    assert_eq!((judged(&child, "edit", "src/main.rs"), child.plan_file()), (Action::Deny, None));
    assert_eq!(judged(&child, "bash", "cargo test"), Action::Ask);
}

/// A crash between the choice and the border loses nothing; a fork has the agent, and no choice that waits.
#[test]
fn a_choice_that_waits_survives_a_crash() {
    let mut play = Play::new();
    play.send("go");
    let calls = play.answer_calls(&["look"]);
    play.switch(plan());
    let at = play.tape().len();
    play.crash();
    assert_eq!((agent(&play), play.state.next_agent.is_some()), ("build", true));
    play.returned(calls[0], "ok");
    assert_eq!(agent(&play), "plan");
    let fork = play.fork_at(at);
    assert_eq!((agent(&fork), fork.state.next_agent.clone()), ("build", None));
}

/// An import brings no agent along that would loosen what is asked about.
#[test]
fn an_imported_session_is_its_own_agent() {
    let mut play = Play::new();
    play.switch(plan());
    let at = play.tape().len();
    let here = play.imported_at(at);
    assert_eq!((agent(&here), here.state.settings.switched.is_none()), ("build", true));
    assert_eq!(judged(&here.state.settings, "confined_bash", "ls"), Action::Ask);
}

/// A message's agent has the turn of that message: wherever the process dies, and whatever is chosen before; what a host chooses in
/// that turn stays.
#[test]
fn a_message_brings_its_agent_for_one_turn() {
    let bring = |play: &mut Play, text: &str, delivery| {
        let message = tamtam::Message::user(text).with_id(text.into());
        let reply = play.reply_to();
        play.signal(
            SendMessage { message, delivery, expect_turn: None, agent: Some(strict_agent()), added: 0 }.to(reply),
        );
    };
    for died in 0..8 {
        let mut play = Play::new();
        play.send("go");
        bring(&mut play, "other", Delivery::Queue);
        assert_eq!(agent(&play), "build", "it waits");
        play.answer_text("done");
        // The end of the turn, the delivery, the choice, the switch and the request are one append.
        play.crash_after(died.min(play.entries.len()));
        if agent(&play) == "build" && play.state.request().is_some() {
            // The answer was lost, and the request was made again.
            play.answer_text("done");
        }
        assert_eq!((agent(&play), play.state.request().is_some()), ("careful", true), "{died}");
        play.answer_text("done");
        assert_eq!((agent(&play), play.state.agent_after.is_some()), ("build", false), "{died}");
        play.send("again");
        assert_eq!(&*play.state.request().unwrap().1.system, "");
    }
    let mut play = Play::new();
    play.send("go");
    bring(&mut play, "other", Delivery::Steer(Steering::FinishBatch));
    let calls = play.answer_calls(&["look"]);
    play.returned(calls[0], "ok");
    assert_eq!(agent(&play), "careful", "steered in, it has the rest of the turn");
    play.switch(plan());
    play.answer_text("done");
    assert_eq!((agent(&play), play.state.turn.is_none()), ("plan", true), "what is chosen in the turn stays");
}

/// The first entry of a torn switch is enough: the rest follows.
#[test]
fn a_torn_switch_is_finished() {
    let mut play = Play::new();
    play.switch(plan());
    play.crash_after(1);
    play.send("go");
    assert_eq!(agent(&play), "plan");
    let switched = |record: &Record| matches!(record, Record::AgentSwitched { .. });
    assert_eq!(play.tape().iter().filter(|entry| switched(&entry.record)).count(), 1);
    assert!(play.tape().iter().all(|entry| entry.seq > Seq(0)));
}
