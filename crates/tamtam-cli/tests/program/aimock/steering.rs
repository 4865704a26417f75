//! A message while four calls of one answer are on their way.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{Lab, over_each_wire};
use crate::support::{
    aimock::{answer, call},
    said::{Said, Wire},
    tamtam::{Ended, LIMIT, Tamtam, event, is_event},
};

over_each_wire! {
    /// T-02: by default the running call finishes, and those behind it are skipped.
    a_steering_message_skips_the_calls_that_have_not_started;
    /// Promise 10: what the message aborts is gone, with all it started, before the model is asked again.
    an_aborting_message_leaves_no_process_when_the_model_is_asked_again;
}

const MESSAGE: &str = "stop and read NOTES.md";

/// One answer with a slow command and three writes, then what the message asks for.
fn fixtures(command: &str) -> Vec<Value> {
    let write = |id: &str, path: &str| call(id, "write", &json!({"path": path, "content": "x\n"}));
    let slow = call("c1", "bash", &json!({"command": command}));
    let calls = json!([slow, write("c2", "a.txt"), write("c3", "b.txt"), write("c4", "c.txt")]);
    vec![
        answer(0, &json!({"content": "Four things.", "toolCalls": calls})),
        answer(1, &json!({"toolCalls": [call("c5", "read", &json!({"path": "NOTES.md"}))]})),
        answer(2, &json!({"content": "I have read it."})),
    ]
}

/// Waits until the command has made the file `begun`; then sends the message, makes the file `go` when that is taken, and lets the
/// run come to its end.
fn steer(lab: &Lab, mut run: Tamtam, message: &Value) -> Ended {
    run.until("the command", |line| event(line) == "call_started" && line["name"] == "bash");
    let until = Instant::now() + LIMIT;
    while !lab.file("begun").exists() {
        assert!(Instant::now() < until, "the command does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(!lab.mark.processes(run.pid()).is_empty(), "the command's processes would not be found if they were left");
    run.say(message);
    let receipt = run.until("the receipt", |line| line["reply"]["command"] == "send");
    assert!(receipt["reply"]["error"].is_null() && receipt["reply"]["message"].is_string(), "{receipt}");
    lab.put("go", "");
    run.until("the delivery", is_event("delivered"));
    run.end()
}

/// The request after the message: four results in the order of the calls, the first one as given, the rest skipped, and
/// then the message.
fn judge(lab: &Lab, ended: &Ended, first: impl Fn(&str) -> bool) {
    lab.done(ended, "I have read it.");
    let requests = lab.requests();
    assert_eq!(requests.len(), 3);
    let [Said::User(prompt), Said::Model(_, calls), rest @ ..] = &requests[1][..] else { panic!("{requests:#?}") };
    assert_eq!((prompt.as_str(), calls.len()), ("do four things", 4));
    let [results @ .., Said::User(message)] = rest else { panic!("{rest:#?}") };
    assert_eq!(message, MESSAGE);
    let results: Vec<_> = results
        .iter()
        .map(|said| if let Said::Result(id, text) = said { (id.as_str(), text.as_str()) } else { panic!("{said:?}") })
        .collect();
    let ids: Vec<_> = results.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, ["c1", "c2", "c3", "c4"]);
    assert!(first(results[0].1), "{}", results[0].1);
    for (_, text) in &results[1..] {
        assert!(text.starts_with("Skipped due to queued user message") && text.contains("write"), "{text}");
    }
    for skipped in ["a.txt", "b.txt", "c.txt"] {
        assert!(!lab.file(skipped).exists(), "{skipped} was written");
    }
}

fn a_steering_message_skips_the_calls_that_have_not_started(wire: Wire) {
    // It runs until the message is taken, however long that takes.
    let lab = Lab::new(wire, &fixtures("touch begun; until [ -e go ]; do sleep 0.05; done; echo one"));
    lab.put("NOTES.md", "The gong is in the cellar.\n");
    let ended = steer(&lab, lab.run("do four things"), &json!({"send": MESSAGE, "delivery": "steer"}));
    judge(&lab, &ended, |result| result.contains("one") && !result.contains("Skipped"));
}

fn an_aborting_message_leaves_no_process_when_the_model_is_asked_again(wire: Wire) {
    let left = Arc::new(Mutex::new(Vec::new()));
    let seen = left.clone();
    // One of its processes has left the group and the session of the command. Both sleep longer than any test waits.
    let command = "echo begun; setsid sleep 600 & touch begun; sleep 600; echo one";
    let lab = Lab::with_hook(wire, &fixtures(command), move |request| {
        if request.number == 1 {
            *seen.lock().unwrap() = request.mark.processes(0);
        }
    });
    lab.put("NOTES.md", "The gong is in the cellar.\n");
    let run = lab.run("do four things");
    let tamtam = run.pid();
    let message = json!({"send": MESSAGE, "delivery": "steer", "steering": "abort_running"});
    let ended = steer(&lab, run, &message);
    // The result says what is known: what the command had said, and that it was aborted.
    judge(&lab, &ended, |result| result.contains("begun") && result.contains("aborted") && !result.contains("one"));
    let finished = |line: &&Value| event(line) == "call_finished" && line["call"] == "c1";
    assert_eq!(ended.lines.iter().find(finished).unwrap()["error"], "aborted");
    // Looked up when the next request was on its way: the run itself carries the mark, and nothing else does.
    assert_eq!(*left.lock().unwrap(), [tamtam]);
    assert_eq!(lab.mark.processes(0), Vec::<u32>::new());
}
