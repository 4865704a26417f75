//! The mask comes last: a model is not told of a tool that the rules deny in full, and nothing turns it on again.

use std::collections::BTreeSet;

use tamtam::{
    Message,
    kernel::{CallVerdict, Delivery, Record, RequestOpened, Settings},
    permission::{Action, Chain},
};

use super::play::{Play, rules};

const DENY_WRITE: (&str, &str, Action) = ("write", "*", Action::Deny);

/// A session that masks by those rules, behind one that allows all.
fn masking(lines: &[(&str, &str, Action)], change: impl FnOnce(&mut Settings)) -> Play {
    let lines: Vec<_> = [("*", "*", Action::Allow)].into_iter().chain(lines.iter().copied()).collect();
    let mut play = Play::with(|settings| {
        settings.rules = vec![rules("test", &lines)];
        change(settings);
    });
    play.masks = true;
    play
}

/// What the newest request leaves out, and its hash.
fn newest(play: &Play) -> RequestOpened {
    let requests = play.entries_of_the_tape().into_iter().filter_map(|entry| match entry.record {
        Record::Request(request) => Some(request),
        _ => None,
    });
    requests.last().unwrap()
}

fn masked(play: &Play) -> Vec<String> {
    newest(play).masked.into_iter().collect()
}

/// How the call of this tool was judged.
fn verdict(play: &mut Play, tool: &str) -> Option<CallVerdict> {
    play.answer_calls(&[tool]);
    let mut results = play.entries.iter().filter_map(|entry| match &entry.record {
        Record::Result { judged, .. } => Some(*judged),
        _ => None,
    });
    results.next_back()
}

/// E-06, E-07, E-09, C-10: a denied tool is not offered, and a call of it is answered so; neither the agent nor a message brings it back.
#[test]
fn nothing_turns_a_denied_tool_on_again() {
    let by_the_agent = |settings: &mut Settings| settings.tools = Some(BTreeSet::from(["write".into(), "read".into()]));
    let mut play = masking(&[DENY_WRITE], by_the_agent);
    let mut message = Message::user("go").with_id("go".into());
    message.tools = [("write".to_owned(), true), ("*".to_owned(), true)].into();
    play.send_message(message, Delivery::Queue, None).unwrap();
    assert_eq!(masked(&play), ["write"]);
    // A model that calls it all the same is told which rule denies it.
    assert_eq!(verdict(&mut play, "write"), Some(CallVerdict::Denied));
    // What the agent does not have, and what is switched off, is left out for that reason already.
    let mut play = masking(&[DENY_WRITE], |settings| settings.tools = Some(BTreeSet::from(["read".into()])));
    play.send("go");
    assert_eq!(masked(&play), [""; 0]);
}

/// A tool is offered as long as a call of it might be allowed or asked about, and is judged call by call.
#[test]
fn a_tool_that_may_do_something_is_offered() {
    for lines in [
        [("write", "src/*", Action::Deny)].as_slice(),
        &[DENY_WRITE, ("write", "docs/*", Action::Allow)],
        &[DENY_WRITE, ("write", "docs/*", Action::Ask)],
        &[("write", "*", Action::Ask)],
    ] {
        let mut play = masking(lines, |_| {});
        play.send("go");
        assert_eq!(masked(&play), [""; 0], "{lines:?}");
    }
    let mut play = masking(&[DENY_WRITE, ("write", "docs/*", Action::Allow)], |_| {});
    play.send("go");
    assert_eq!(verdict(&mut play, "write"), Some(CallVerdict::Denied));
}

/// Promise 8: the host and every ancestor mask too, whatever the session's own rules say.
#[test]
fn the_host_and_the_ancestors_mask() {
    let mut play =
        masking(&[], |settings| settings.above = vec![Chain::new("/", vec![rules("parent", &[DENY_WRITE])])]);
    play.host_rules = Some(rules("host", &[("bash", "**", Action::Deny)]));
    play.send("go");
    assert_eq!(masked(&play), ["bash", "write"]);
    assert_eq!(verdict(&mut play, "bash"), Some(CallVerdict::Denied));
    // Another host allows it again: the next request offers it.
    play.host_rules = None;
    play.send_as("more", Delivery::Queue).unwrap();
    play.answer_text("well");
    assert_eq!(masked(&play), ["write"]);
}

/// A request that is made again after a crash offers what it offered before, whatever the rules say by then; its hash covers the mask.
#[test]
fn a_request_is_made_again_with_its_mask() {
    let hash = |lines: &[(&str, &str, Action)], masks: bool| {
        let mut play = masking(lines, |_| {});
        play.masks = masks;
        play.send("go");
        newest(&play).hash
    };
    assert_ne!(hash(&[DENY_WRITE], true), hash(&[DENY_WRITE], false));
    assert_eq!(hash(&[], true), hash(&[], false), "without a mask the hash is what it was");
    let mut play = masking(&[DENY_WRITE], |_| {});
    play.send("go");
    let open = |play: &Play| play.state.request().map(|(ticket, open)| (ticket, open.masked.clone()));
    let before = open(&play);
    play.configure(|settings| settings.rules = vec![rules("test", &[("*", "*", Action::Allow)])]);
    play.crash();
    assert_eq!(open(&play), before);
    let tickets = play.answer_calls(&["write"]);
    play.returned(tickets[0], "ok");
    assert_eq!(masked(&play), [""; 0], "the next request goes by the rules of now");
}

/// Of a tool whose permissions are not known, nothing is masked; its call is judged.
#[test]
fn a_tool_without_permissions_is_not_masked() {
    let mut play = masking(&[DENY_WRITE], |_| {});
    play.masks = false;
    play.send("go");
    assert_eq!(masked(&play), [""; 0]);
    assert_eq!(verdict(&mut play, "write"), Some(CallVerdict::Denied));
}
