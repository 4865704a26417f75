//! What can be seen.

use std::sync::Arc;

use cucumber::{gherkin, then};
use tamtam::{
    Event, EventKind, Outcome, Part,
    model::{AnswerPart, Item, Request},
    session::{Granted, Record},
};

use crate::{
    hooks::HostHook,
    lab::{Lab, kind, seen, within},
    steps::{
        quoted, text,
        when::{answer_arrives, reject_next_ask},
    },
    tape,
};

#[then(expr = "the answer is {string}")]
fn answer_is(lab: &mut Lab, wanted: String) {
    assert_eq!((&lab.answer().outcome, lab.answer().text.as_str()), (&Outcome::Done, text(&wanted).as_str()));
}

#[then(expr = "the answer is {string} {int} times over")]
fn answer_is_long(lab: &mut Lab, wanted: String, times: usize) {
    assert!(lab.answer().text == wanted.repeat(times), "another text of {} bytes came", lab.answer().text.len());
}

#[then(expr = "the turn took {int} steps")]
fn turn_took(lab: &mut Lab, count: u32) {
    assert_eq!(lab.answer().steps, count);
}

#[then(expr = "the turn failed with {string}")]
fn turn_failed(lab: &mut Lab, wanted: String) {
    let Outcome::Failed { error } = &lab.answer().outcome else { panic!("it ended as {:?}", lab.answer().outcome) };
    assert!(error.contains(&wanted), "it failed with {error:?}");
}

#[then(expr = "the turn was aborted because of {string}")]
fn turn_aborted(lab: &mut Lab, reason: String) {
    assert_eq!(lab.answer().outcome, Outcome::Aborted { reason });
}

#[then("the session goes on working")]
async fn works(lab: &mut Lab) {
    lab.reply(tamtam::model::Reply::text("still here"));
    let session = lab.session().await;
    let receipt = within("a receipt", session.prompt("Are you there?")).await.unwrap();
    let answer = within("an answer", receipt.wait()).await.unwrap();
    assert_eq!((answer.outcome, answer.text.as_str()), (Outcome::Done, "still here"));
}

/// Each row: the number of an offer, and what it allows.
#[then("the ask offers:")]
async fn ask_offers(lab: &mut Lab, step: &gherkin::Step) {
    let newest = |events: &[Arc<Event>]| {
        events.iter().rev().find_map(|event| match &event.kind {
            EventKind::Ask { offers, .. } => Some(offers.clone()),
            _ => None,
        })
    };
    lab.until("an ask", |events| newest(events).is_some()).await;
    let offers = newest(&lab.events()).unwrap();
    let offered: Vec<_> = offers.into_iter().map(|offer| vec![offer.offer.to_string(), offer.allows]).collect();
    assert_eq!(offered, step.table().expect("a table of offers").rows);
}

/// Each row: the scope of a grant, and what it allows.
#[then("the standing grants are:")]
async fn standing_grants(lab: &mut Lab, step: &gherkin::Step) {
    let grants = lab.session().await.grants().await.unwrap();
    let scope = |grant: &Granted| serde_json::to_value(grant.scope).unwrap().as_str().unwrap().to_owned();
    let listed: Vec<_> = grants.iter().map(|grant| vec![scope(grant), grant.allows()]).collect();
    assert_eq!(listed, step.table().expect("a table of grants").rows);
}

#[then("there are no standing grants")]
async fn no_standing_grants(lab: &mut Lab) {
    assert_eq!(lab.session().await.grants().await.unwrap(), []);
}

#[then(expr = "the files {string} are there")]
fn files_are_there(lab: &mut Lab, names: String) {
    for name in names.split(' ') {
        assert!(lab.path(name).exists(), "{name} does not exist");
    }
}

#[then(regex = r"^(\d+) asks? (?:was|were) on the tape$")]
async fn asks_on_the_tape(lab: &mut Lab, times: usize) {
    let entries = lab.session().await.entries().await.unwrap();
    assert_eq!(entries.iter().filter(|entry| matches!(entry.record, Record::Ask { .. })).count(), times);
}

/// Waits for the turn of the newest message, whose first call was judged so. An ask is rejected with a word.
#[then(regex = r"^the call is (allowed|asked about|denied)$")]
async fn call_is(lab: &mut Lab, verdict: String) {
    if verdict == "asked about" {
        reject_next_ask(lab, Some("not now".to_owned())).await;
    }
    answer_arrives(lab).await;
    let asks = of_newest_turn(lab).iter().filter(|event| kind(&event.kind) == "ask").count();
    assert_eq!(asks, usize::from(verdict == "asked about"));
    assert_eq!(call_was_allowed(lab), verdict == "allowed");
}

/// Whether the newest result that the model was told is no error.
fn call_was_allowed(lab: &Lab) -> bool {
    let requests = lab.requests();
    let newest =
        requests.last().expect("the model was not asked").history.iter().rev().find_map(|item| match &**item {
            Item::Result(result) => Some(!result.is_error),
            _ => None,
        });
    newest.expect("the model was told no result")
}

#[then(expr = "the file {string} is there only if the call was allowed")]
fn there_if_allowed(lab: &mut Lab, name: String) {
    assert_eq!(lab.path(&name).exists(), call_was_allowed(lab));
}

#[then("the turn was rejected")]
fn was_rejected(lab: &mut Lab) {
    let answer = lab.answer.as_ref().expect("no answer arrived");
    assert!(matches!(answer.outcome, Outcome::Rejected { .. }), "{:?}", answer.outcome);
}

#[then(expr = "the turn was ended as a loop of {word}")]
fn was_a_loop(lab: &mut Lab, tool: String) {
    let answer = lab.answer.as_ref().expect("no answer arrived");
    assert_eq!(answer.outcome, Outcome::DoomLoop { tool });
}

#[then(expr = "the message was refused with {string}")]
fn refused(lab: &mut Lab, wanted: String) {
    let refusal = lab.refusal.as_ref().expect("it was not refused").to_string();
    assert!(refusal.contains(&wanted), "it was refused with {refusal:?}");
}

/// It was asked once, about exactly that.
#[then(expr = "the newest request reminds the model of {string}")]
fn request_reminds(lab: &mut Lab, wanted: String) {
    let requests = lab.model.requests();
    assert_eq!(requests.last().unwrap().reminder.as_deref(), Some(&*wanted));
}

#[then(expr = "the system prompt of request {int} ends with {string}")]
fn system_ends_with(lab: &mut Lab, number: usize, wanted: String) {
    let requests = lab.model.requests();
    assert!(requests[number - 1].system.ends_with(&wanted), "{}", requests[number - 1].system);
}

#[then("nobody can sum up the conversation, because \"the case is open\"")]
async fn nobody_sums_up(lab: &mut Lab) {
    let session = lab.session().await;
    let refused = within("a refusal", session.compact()).await.unwrap_err().to_string();
    assert!(refused.contains("a hook refused the compaction: the case is open"), "{refused}");
}

#[then(expr = "the hook was shown the error {word}")]
async fn hook_was_shown(lab: &mut Lab, wanted: String) {
    let seen = lab.hooks.iter().find_map(|hook| match hook {
        HostHook::WatchErrors(seen) => Some(seen.clone()),
        _ => None,
    });
    let seen = seen.expect("a hook watches errors");
    // An observer sees an event some time after it happened.
    within("the error", async {
        while !seen.lock().unwrap().contains(&wanted) {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[then(expr = "the input hook was asked about {string}")]
fn input_hook_was_asked(lab: &mut Lab, wanted: String) {
    let asked = lab.hooks.iter().filter_map(|hook| match hook {
        HostHook::PassOn(asked) => Some(asked.lock().unwrap().clone()),
        _ => None,
    });
    assert_eq!(asked.collect::<Vec<_>>(), [[text(&wanted)]]);
}

#[then(expr = "the file {string} holds {string}")]
fn file_holds(lab: &mut Lab, name: String, content: String) {
    assert_eq!(std::fs::read_to_string(lab.path(&name)).unwrap(), text(&content));
}

#[then(expr = "the question shows {string}")]
fn question_shows(lab: &mut Lab, details: String) {
    let events = lab.events();
    let question = events.iter().rev().find_map(|event| match &event.kind {
        tamtam::EventKind::Ask { question, .. } => question.clone(),
        _ => None,
    });
    assert_eq!(question.expect("a question").details, text(&details));
}

#[then(expr = "the file {string} does not exist")]
fn no_file(lab: &mut Lab, name: String) {
    assert!(!lab.path(&name).exists(), "{name} exists");
}

/// A request that was cut off is let go of by its own task, a moment after the turn has ended.
#[then("the model answers nobody any more")]
async fn answers_nobody(lab: &mut Lab) {
    seen("the request to be let go of", || lab.model.streaming() == 0).await;
}

#[then(expr = "the newest receipt says {word}")]
fn receipt_says(lab: &mut Lab, wanted: String) {
    let disposition = lab.receipts.last().expect("nothing was sent").disposition;
    assert_eq!(serde_json::to_value(disposition).unwrap(), wanted.as_str());
}

/// The process whose id the command wrote there.
#[then(expr = "the process of {string} is gone")]
fn process_is_gone(lab: &mut Lab, file: String) {
    let id = std::fs::read_to_string(lab.path(&file)).unwrap();
    let status = std::fs::read_to_string(format!("/proc/{}/status", id.trim())).unwrap_or_default();
    // One that is dead and was not yet taken notice of by its new parent is gone as well.
    let is_gone = status.is_empty() || status.contains("State:\tZ") || status.contains("State:\tX");
    assert!(is_gone, "process {} runs", id.trim());
}

#[then(expr = "the model was asked {int} time(s)")]
fn asked(lab: &mut Lab, times: usize) {
    assert_eq!(lab.requests().len(), times);
}

/// Each row: who speaks (`user`, `model`, `call`, `result`, `failed`: a result that is an error), and a text that is in it.
/// A call is shown as `id name arguments`, a result as `id name: content`, its tabs as spaces.
#[then("the newest request tells the model:")]
fn newest_request(lab: &mut Lab, step: &gherkin::Step) {
    check_history(lab.requests().last().expect("the model was not asked"), step);
}

#[then(expr = "the newest request has {string} {int} times")]
fn newest_request_at_length(lab: &mut Lab, text: String, times: usize) {
    let told = told(lab.requests().last().expect("the model was not asked"));
    assert_eq!(told.iter().map(|(_, told)| told.matches(&text).count()).sum::<usize>(), times);
}

#[then(expr = "request {int} tells the model:")]
fn numbered_request(lab: &mut Lab, number: usize, step: &gherkin::Step) {
    check_history(&lab.requests()[number - 1], step);
}

/// What a request tells, in the words of the tables.
fn told(request: &Request) -> Vec<(&'static str, String)> {
    let mut told = Vec::new();
    for item in request.history.iter() {
        match item.as_ref() {
            Item::User(user) => told.push(("user", user.parts.iter().map(of_part).collect())),
            Item::Assistant(answer) => told.extend(answer.parts.iter().map(|part| match part {
                AnswerPart::Text { text, .. } => ("model", text.clone()),
                AnswerPart::Reasoning { text, .. } => ("thought", text.clone()),
                AnswerPart::Call { id, name, input, .. } => ("call", format!("{id} {name} {input}")),
                other => panic!("a part that the steps do not know: {other:?}"),
            })),
            Item::Result(result) => {
                let who = if result.is_error { "failed" } else { "result" };
                told.push((who, format!("{} {}: {}", result.call, result.name, result.content.replace('\t', " "))));
            }
            other => panic!("an item that the steps do not know: {other:?}"),
        }
    }
    told
}

fn of_part(part: &Part) -> String {
    match part {
        Part::Text(text) => text.text.clone(),
        Part::File(file) => format!("[{}]", file.mime),
        other => panic!("a part that no user sends: {other:?}"),
    }
}

fn check_history(request: &Request, step: &gherkin::Step) {
    let told = told(request);
    let rows = &step.table().expect("a table").rows;
    let fits = rows.iter().zip(&told).all(|(row, (who, what))| row[0] == *who && what.contains(&text(&row[1])));
    assert!(fits && rows.len() == told.len(), "the model was told:\n{told:#?}");
}

#[then(expr = "nowhere was the model told {string}")]
fn never_told(lab: &mut Lab, text: String) {
    for request in lab.requests() {
        let told = told(&request);
        assert!(told.iter().all(|(_, what)| !what.contains(&text)), "the model was told:\n{told:#?}");
    }
}

/// Each row: the kind of an event, and a text that is in its JSON form. Others may stand between them.
#[then("the events show in this order:")]
async fn events_in_order(lab: &mut Lab, step: &gherkin::Step) {
    let rows = step.table().expect("a table").rows.clone();
    let in_order = |events: &[Arc<Event>]| {
        let mut rows = rows.iter().peekable();
        for event in events {
            let fits = |row: &&Vec<String>| {
                let in_it = row.get(1).is_none_or(|part| serde_json::to_string(event).unwrap().contains(part.as_str()));
                row[0] == kind(&event.kind) && in_it
            };
            rows.next_if(fits);
        }
        rows.next().is_none()
    };
    lab.until("events in this order", in_order).await;
}

/// All events of these kinds, in order, and no other ones of these kinds.
#[then(expr = "the only {word} event(s) is/are about {string}")]
fn only_events(lab: &mut Lab, wanted: String, about: String) {
    let events: Vec<_> = lab.events().into_iter().filter(|event| kind(&event.kind) == wanted).collect();
    let about = text(&about);
    let is_about = |event: &Event| serde_json::to_string(event).unwrap().contains(&about);
    assert!(!events.is_empty() && events.iter().all(|event| is_about(event)), "{}", lab.events_text());
}

#[then(expr = "{int} {word} event(s) was/were shown")]
fn counted_events(lab: &mut Lab, times: usize, wanted: String) {
    let shown = lab.events().iter().filter(|event| kind(&event.kind) == wanted).count();
    assert_eq!(shown, times, "{}", lab.events_text());
}

/// All of the events that can be played again, and no other.
#[then("exactly these durable events were shown:")]
fn exactly_durable(lab: &mut Lab, step: &gherkin::Step) {
    check_all(&lab.events(), |event| event.id.is_durable(), step);
}

#[then("exactly these events were shown:")]
fn exactly(lab: &mut Lab, step: &gherkin::Step) {
    check_all(&lab.events(), |_| true, step);
}

fn check_all(events: &[Arc<Event>], counts: impl Fn(&Event) -> bool, step: &gherkin::Step) {
    let shown: Vec<_> = events.iter().filter(|event| counts(event)).map(|event| kind(&event.kind)).collect();
    let wanted: Vec<_> = step.table().expect("a table").rows.iter().map(|row| row[0].clone()).collect();
    assert_eq!(shown, wanted);
}

#[then("each text delta stands inside a step")]
fn deltas_in_steps(lab: &mut Lab) {
    let mut in_step = false;
    for event in lab.events() {
        match &event.kind {
            EventKind::StepStarted { .. } => in_step = true,
            EventKind::StepFinished { .. } | EventKind::TurnFinished { .. } => in_step = false,
            EventKind::TextDelta { text } => assert!(in_step, "{text:?} stands outside of a step"),
            _ => {}
        }
    }
}

/// A row for each step: the names in call order.
#[then("each step ends with the names of its calls:")]
fn steps_name_calls(lab: &mut Lab, step: &gherkin::Step) {
    let wanted: Vec<_> = step.table().expect("a table").rows.iter().map(|row| row[0].clone()).collect();
    let ends = lab.events().into_iter().filter_map(|event| match &event.kind {
        EventKind::StepFinished { calls, .. } => Some(calls.join(", ")),
        _ => None,
    });
    assert_eq!(ends.collect::<Vec<_>>(), wanted);
}

#[then(regex = r"^the text was shown in the pieces (.+)$")]
fn text_pieces(lab: &mut Lab, pieces: String) {
    assert_eq!(deltas(lab), quoted(&pieces));
}

/// The deltas of the newest turn, each as it came.
#[then(expr = "the text was shown in these pieces:")]
fn pieces(lab: &mut Lab, step: &gherkin::Step) {
    let wanted: Vec<_> = step.table().expect("a table").rows.iter().map(|row| text(&row[0])).collect();
    assert_eq!(deltas(lab), wanted);
}

/// What was shown from the start of the newest turn on.
fn of_newest_turn(lab: &Lab) -> Vec<Arc<Event>> {
    let mut events = lab.events();
    let newest = events.iter().rposition(|event| matches!(event.kind, EventKind::TurnStarted { .. })).unwrap_or(0);
    events.split_off(newest)
}

fn deltas(lab: &Lab) -> Vec<String> {
    let events = of_newest_turn(lab);
    let deltas = events.iter().filter_map(|event| match &event.kind {
        EventKind::TextDelta { text } => Some(text.clone()),
        _ => None,
    });
    deltas.collect()
}

#[then("these messages wait:")]
async fn messages_wait(lab: &mut Lab, step: &gherkin::Step) {
    let wanted: Vec<_> = step.table().expect("a table").rows.iter().map(|row| text(&row[0])).collect();
    let queue = lab.session().await.queue().await.unwrap();
    assert_eq!(queue.iter().map(|waiting| waiting.message.text()).collect::<Vec<_>>(), wanted);
}

#[then("no message waits")]
async fn no_message_waits(lab: &mut Lab) {
    assert_eq!(lab.session().await.queue().await.unwrap(), []);
}

/// Kinds of entries in order; others may stand between them.
#[then("the tape holds in this order:")]
fn tape_in_order(lab: &mut Lab, step: &gherkin::Step) {
    let lines = lab.tape();
    let mut rows = step.table().expect("a table").rows.iter().peekable();
    for line in &lines {
        let fits = |row: &&Vec<String>| {
            row[0] == tape::kind(line) && row.get(1).is_none_or(|part| line.to_string().contains(part.as_str()))
        };
        rows.next_if(fits);
    }
    assert!(rows.next().is_none(), "{}", lines.iter().map(|line| format!("{line}\n")).collect::<String>());
}

#[then(expr = "the tape holds no {word} entry")]
fn tape_holds_none(lab: &mut Lab, unwanted: String) {
    assert!(lab.tape().iter().all(|line| tape::kind(line) != unwanted));
}

#[then(expr = "the text {string} is nowhere on the tape")]
fn not_on_the_tape(lab: &mut Lab, unwanted: String) {
    assert!(lab.tape().iter().all(|line| !line.to_string().contains(&unwanted)));
}

/// The conversation as a page would show it: each row who speaks and the text of the message.
#[then("the conversation reads:")]
async fn conversation(lab: &mut Lab, step: &gherkin::Step) {
    let messages = lab.session().await.messages().await.unwrap();
    let said: Vec<_> =
        messages.iter().map(|message| (format!("{:?}", message.role).to_lowercase(), message.text())).collect();
    let wanted: Vec<_> =
        step.table().expect("a table").rows.iter().map(|row| (row[0].clone(), text(&row[1]))).collect();
    assert_eq!(said, wanted);
}
