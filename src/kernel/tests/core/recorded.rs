//! What an entry says of the input that wrote it, and that a command is done once. Each of these tapes is replayed when its test
//! lets go of it.

use tamtam::{
    Delivery, Message, Seq,
    kernel::{CarriedOut, Input, Pause, Record, ReplyTo, Report, Resume, SendMessage, WithdrawMessage},
    model::ModelAnswer,
    session::Finish,
    tool::Effect,
};

use super::{
    play::{Play, call, text},
    tools,
};

/// What the entries of the last decision say that they followed from, in order.
fn said(play: &Play) -> Vec<(Seq, String)> {
    let said = play.entries.iter().filter_map(|entry| Some((entry.seq, entry.input.as_ref()?.is.clone())));
    said.collect()
}

fn send(id: &str) -> Input {
    let message = Message::user(id).with_id(id.into());
    SendMessage { message, delivery: Delivery::Queue, expect_turn: None, agent: None, added: 0 }.to(ReplyTo(7))
}

/// Several inputs of one append are told apart by their first entries; one that wrote nothing is not recorded.
#[test]
fn the_first_entry_of_each_input_of_an_append_says_what_it_was() {
    let mut play = Play::new();
    play.send("one");
    let ticket = play.request();
    let answer = ModelAnswer::new(vec![text("so"), call("c0", "read", "{}")], Finish::ToolCalls);
    let nothing = WithdrawMessage { id: "none".into() }.to(ReplyTo(8));
    let answered = Report::Answered { answer, calls: Vec::new() }.of(ticket);
    play.inputs(&[send("two"), nothing, answered, Input::Timer, Pause.to(ReplyTo(9))]);
    let said = said(&play);
    assert_eq!(said.iter().map(|(_, is)| is.as_str()).collect::<Vec<_>>(), ["send", "answered", "pause"]);
    assert_eq!(said[0].0, play.entries[0].seq);
}

/// A report that comes before a recovery is recorded and nothing follows from it; a replay does the same by what the tape says.
#[test]
fn a_report_before_a_recovery_is_recorded_with_it() {
    let mut play = Play::new();
    play.send("one");
    let ticket = play.request();
    let answer = ModelAnswer::new(vec![call("c0", "read", "{}")], Finish::ToolCalls);
    play.inputs(&[Report::Answered { answer, calls: Vec::new() }.of(ticket), Input::recover()]);
    assert_eq!(said(&play).iter().map(|(_, is)| is.as_str()).collect::<Vec<_>>(), ["answered", "recover"]);
    assert_eq!(play.started().len(), 1);
}

/// A command that was done under an id is not done again, whatever became of it since, and its sender is told the same; also after
/// a crash, and in the append that it was done in.
#[test]
fn a_command_is_done_once_under_its_id() {
    let mut play = Play::new();
    let pause = || Pause.to(ReplyTo(1)).under("p".into());
    let resume = |id: &str| Resume.to(ReplyTo(2)).under(id.into());
    play.inputs(&[pause(), resume("r"), pause()]);
    let done = play.entries[0].seq;
    assert_eq!(play.reply, Some(Ok(CarriedOut::Done(done))));
    assert!(!play.state.paused && play.entries.len() == 2);
    play.crash();
    play.signal(pause());
    assert_eq!((&play.reply, play.entries.len()), (&Some(Ok(CarriedOut::Done(done))), 0));
    // The newest 64 are known.
    for n in 0..32 {
        play.signal(Pause.to(ReplyTo(1)).under(format!("p{n}").into()));
        play.signal(resume(&format!("r{n}")));
    }
    assert_eq!(play.state.done.len(), 64);
    play.signal(pause());
    assert!(play.state.paused, "it was forgotten, so it is done");
}

/// A recovery with other tools says what they say by now before it judges by it.
#[test]
fn a_tool_that_is_another_after_a_crash_is_written_before_it_is_judged() {
    let (mut play, calls) = Play::with_calls(&["look"]);
    assert_eq!(play.started(), calls);
    play.crash();
    assert!(play.entries.iter().all(|entry| !matches!(entry.record, Record::CallFacts { .. })), "it is the same");
    let (mut play, calls) = Play::with_calls(&["look"]);
    play.toolbox = play.toolbox.with(tools::fake("look", Effect::Once, false));
    play.crash();
    let kinds: Vec<_> = play.entries.iter().map(|entry| (entry.ticket, entry.to_tape().unwrap().kind)).collect();
    let call = Some(calls[0]);
    let expected = [(None, "recovered"), (call, "call_facts"), (call, "result"), (None, "request")];
    assert_eq!(kinds, expected.map(|(ticket, kind)| (ticket, kind.to_owned())));
}
