//! Whether a round kept the promises; and what was open when it was killed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::round::{Facts, Kill, PROMPT};
use crate::support::said::{Said, Wire, said, users};

/// What a kill can meet. A call that a person is asked about counts as an ask, not as a pending call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Met {
    Request,
    PendingCall,
    RunningCall,
    Ask,
    RetryWait,
}

pub(super) const KINDS: [Met; 5] = [Met::Request, Met::PendingCall, Met::RunningCall, Met::Ask, Met::RetryWait];

/// The tickets that are open at the end of a tape, each with what it is.
fn open(tape: &[Value]) -> BTreeMap<u64, Met> {
    let mut open = BTreeMap::new();
    for entry in tape {
        let (seq, ticket) = (entry["seq"].as_u64().unwrap(), entry["ticket"].as_u64());
        let close = |open: &mut BTreeMap<u64, Met>| ticket.and_then(|ticket| open.remove(&ticket));
        match entry["kind"].as_str().unwrap() {
            "request" => {
                open.retain(|_, met| *met != Met::RetryWait);
                open.insert(seq, Met::Request);
            }
            "retry_wait" => drop(open.insert(seq, Met::RetryWait)),
            "call" => drop(open.insert(seq, Met::PendingCall)),
            "call_started" => drop(open.insert(ticket.unwrap(), Met::RunningCall)),
            "ask" => {
                // Its call is not pending, it is asked about.
                open.remove(&entry["data"]["call"].as_u64().unwrap());
                open.insert(seq, Met::Ask);
            }
            "answer" | "request_failed" | "granted" | "ask_closed" | "result" => drop(close(&mut open)),
            "turn_finished" => open.clear(),
            _ => {}
        }
    }
    open
}

/// The kinds of ticket that a kill met.
pub(super) fn met(kill: &Kill) -> BTreeSet<Met> {
    open(&kill.tape).into_values().collect()
}

/// Everything that a round did wrong; nothing, where it kept all promises.
pub(super) fn judge(facts: &Facts) -> Vec<String> {
    let mut wrong = Vec::new();
    ends_well(facts, &mut wrong);
    let bodies: Vec<_> =
        facts.bodies.iter().map(|body| said(Wire::OpenAi, &serde_json::from_str(body).unwrap())).collect();
    for (number, said) in bodies.iter().enumerate() {
        pairs(said, number, &mut wrong);
    }
    if let Some(last) = bodies.last() {
        messages(facts, last, &mut wrong);
    }
    results(&facts.tape, &mut wrong);
    once_only(&facts.counter, &mut wrong);
    for kill in &facts.kills {
        receipts(kill, &mut wrong);
        same_bytes(facts, kill, &mut wrong);
    }
    wrong
}

fn ends_well(facts: &Facts, wrong: &mut Vec<String>) {
    if facts.code != Some(0) || facts.last["result"]["outcome"] != "done" {
        wrong.push(format!("it ended with {:?}, {}, {:?}", facts.code, facts.last, facts.stderr));
    }
    if facts.verified.0 != Some(0) {
        wrong.push(format!("verify ended with {:?}: {}", facts.verified.0, facts.verified.1));
    }
}

/// Promise 1: what was acknowledged is in the model's context once, and in order. What was not may be, but not twice.
fn messages(facts: &Facts, last: &[Said], wrong: &mut Vec<String>) {
    let users = users(last);
    let times = |text: &str| users.iter().filter(|user| **user == text).count();
    if times(PROMPT) != 1 {
        wrong.push(format!("the prompt is there {} times", times(PROMPT)));
    }
    for sent in &facts.sent {
        match (times(&sent.text), &sent.receipt) {
            (1, _) | (0, None) => {}
            (0, Some(_)) => wrong.push(format!("lost: {:?} was acknowledged and is nowhere", sent.text)),
            (n, _) => wrong.push(format!("{:?} is there {n} times", sent.text)),
        }
    }
    // Steering messages overtake queued ones, so each kind is in order for itself.
    for steers in [false, true] {
        let of_kind = facts.sent.iter().filter(|sent| sent.steers == steers);
        let places = of_kind.filter_map(|sent| users.iter().position(|user| *user == sent.text));
        if !places.is_sorted() {
            wrong.push(format!("out of order: {users:?}"));
        }
    }
    let known = |user: &&&str| **user == PROMPT || facts.sent.iter().any(|sent| sent.text == **user);
    if let Some(unknown) = users.iter().find(|user| !known(user)) {
        wrong.push(format!("nobody said {unknown:?}"));
    }
}

/// Promise 2, as the model sees it: each answer is followed by one result for each of its calls, in their order.
fn pairs(said: &[Said], number: usize, wrong: &mut Vec<String>) {
    let mut expected = Vec::new();
    for (at, said_at) in said.iter().enumerate() {
        if let Said::Model(_, calls) = said_at {
            let results = said[at + 1..].iter().map_while(|said| match said {
                Said::Result(id, _) => Some(id),
                _ => None,
            });
            let (results, calls): (Vec<_>, Vec<_>) = (results.collect(), calls.iter().map(|(id, ..)| id).collect());
            if results != calls {
                wrong.push(format!("request {number}: calls {calls:?} have the results {results:?}"));
            }
            expected.extend(calls);
        }
    }
    let results = said.iter().filter(|said| matches!(said, Said::Result(..))).count();
    if results != expected.len() {
        wrong.push(format!("request {number}: {results} results of {} calls", expected.len()));
    }
}

/// Promise 2, on the tape.
fn results(tape: &[Value], wrong: &mut Vec<String>) {
    for call in tape.iter().filter(|entry| entry["kind"] == "call") {
        let results = tape.iter().filter(|entry| entry["kind"] == "result" && entry["ticket"] == call["seq"]).count();
        if results != 1 {
            wrong.push(format!("call {} has {results} results", call["seq"]));
        }
    }
}

/// Promise 4: no command ran twice.
fn once_only(counter: &str, wrong: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    wrong.extend(
        counter.lines().filter(|token| !seen.insert(*token)).map(|token| format!("token {token} stands twice")),
    );
}

/// The receipt means: it is on the tape.
fn receipts(kill: &Kill, wrong: &mut Vec<String>) {
    for id in &kill.acknowledged {
        let accepted = |entry: &&Value| entry["kind"] == "accepted" && entry["data"]["message"]["id"] == id.as_str();
        let times = kill.tape.iter().filter(accepted).count();
        if times != 1 {
            wrong.push(format!("message {id} was acknowledged and is on the tape {times} times"));
        }
    }
}

/// Design §3: a request that was open is sent again byte for byte, unless a message that aborts came after it. Looked at
/// where the server had got all requests that the tape has.
fn same_bytes(facts: &Facts, kill: &Kill, wrong: &mut Vec<String>) {
    let open = open(&kill.tape);
    let Some((request, Met::Request)) = open.first_key_value() else { return };
    let requests = kill.tape.iter().filter(|entry| entry["kind"] == "request").count();
    // A request that an earlier kill left open has come again, and stands once on the tape.
    let again = facts.kills.iter().take_while(|earlier| !std::ptr::eq(*earlier, kill)).count();
    let aborted = kill.tape.iter().any(|entry| {
        entry["kind"] == "accepted"
            && entry["seq"].as_u64() > Some(*request)
            && entry["data"]["delivery"].to_string().contains("abort_running")
    });
    if aborted || again > 0 || requests != kill.requests {
        return;
    }
    let (before, after) = (&facts.bodies[kill.requests - 1], facts.bodies.get(kill.requests));
    if after != Some(before) {
        wrong.push(format!("request {request} was not sent again byte for byte:\n{before}\n{after:?}"));
    }
}
