//! A turn from its prompt to its end: it streams, works on real files, and gets over a refusal.

use serde_json::{Value, json};

use super::{Lab, over_each_wire};
use crate::support::{
    aimock::{answer, call},
    said::{Said, Wire},
    tamtam::{event, is_event},
};

over_each_wire! {
    /// B-23
    hello_py_is_written_and_the_turn_ends;
    text_is_shown_while_the_answer_still_streams;
    several_calls_work_on_real_files;
    a_429_is_waited_for_and_asked_again_with_the_same_bytes;
}

fn deltas(lines: &[Value]) -> Vec<&str> {
    lines.iter().filter(|line| event(line) == "text_delta").map(|line| line["text"].as_str().unwrap()).collect()
}

fn hello_py_is_written_and_the_turn_ends(wire: Wire) {
    let source = "print(\"Hello, world!\")\n";
    let write = call("call_w", "write", &json!({"path": "hello.py", "content": source}));
    let lab = Lab::new(
        wire,
        &[
            answer(0, &json!({"content": "I write it.", "toolCalls": [write]})),
            answer(1, &json!({"content": "hello.py is there."})),
        ],
    );
    let ended = lab.run("create hello.py").end();
    lab.done(&ended, "hello.py is there.");
    assert_eq!(lab.text("hello.py"), source);

    let requests = lab.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0], [Said::User("create hello.py".to_owned())]);
    let arguments = json!({"path": "hello.py", "content": source});
    let answered = Said::Model("I write it.".to_owned(), vec![("call_w".to_owned(), "write".to_owned(), arguments)]);
    assert_eq!(requests[1][..2], [requests[0][0].clone(), answered]);
    let Said::Result(id, text) = &requests[1][2] else { panic!("{requests:#?}") };
    assert!(id == "call_w" && text.contains("hello.py"), "{text}");
    assert_eq!(requests[1].len(), 3);

    // Call 1, write, call 2, stop: as events. How many pieces an answer comes in is the server's business.
    let is_piece = |name: &str| matches!(name, "" | "text_delta" | "call_input");
    let told: Vec<_> = ended.lines.iter().map(event).filter(|name| !is_piece(name)).collect();
    let expected = [
        "queued",
        "turn_started",
        "step_started",
        "call_pending",
        "part_updated",
        "part_updated",
        "call_started",
        "call_finished",
        "step_finished",
        "step_started",
        "part_updated",
        "step_finished",
        "turn_finished",
    ];
    assert_eq!(told, expected);
    let finishes: Vec<_> =
        ended.lines.iter().filter(|line| event(line) == "step_finished").map(|line| &line["finish"]).collect();
    assert_eq!(finishes, ["tool-calls", "stop"]);
}

fn text_is_shown_while_the_answer_still_streams(wire: Wire) {
    let text = "A gong is struck once, and then it is heard for a long time.";
    let slow = json!({"match": {"turnIndex": 0}, "response": {"content": text}, "chunkSize": 5, "latency": 100});
    let lab = Lab::new(wire, &[slow]);
    let mut run = lab.run("tell me of gongs");
    run.until("the first text", is_event("text_delta"));
    let before = lab.tap.answered();
    let ended = run.end();
    lab.done(&ended, text);
    // The server went on sending long after the first piece was shown: several more of its pieces came.
    let after = lab.tap.answered();
    assert!(after > before + 200, "{before} of {after} bytes had come when the first text was shown");
    let deltas = deltas(&ended.lines);
    assert_eq!(deltas.concat(), text);
    assert!(deltas.len() >= 5, "{deltas:?}");
    let at = |name| ended.lines.iter().position(|line| event(line) == name).unwrap();
    let last_delta = ended.lines.iter().rposition(|line| event(line) == "text_delta").unwrap();
    assert!(last_delta < at("part_updated") && at("part_updated") < at("turn_finished"));
}

fn several_calls_work_on_real_files(wire: Wire) {
    let read = |id: &str, path: &str| call(id, "read", &json!({"path": path}));
    let edit = json!({"path": "config.txt", "old_string": "colour = red", "new_string": "colour = green"});
    let lab = Lab::new(
        wire,
        &[
            answer(0, &json!({"content": "I look.", "toolCalls": [read("c1", "NOTES.md"), read("c2", "config.txt")]})),
            answer(
                1,
                &json!({"toolCalls": [call("c3", "write", &json!({"path": "a/b/out.txt", "content": "cellar\n"}))]}),
            ),
            answer(2, &json!({"toolCalls": [call("c4", "edit", &edit)]})),
            answer(
                3,
                &json!({"toolCalls": [call("c5", "bash", &json!({"command": "cat config.txt a/b/out.txt | tee both.txt"}))]}),
            ),
            answer(4, &json!({"content": "All done."})),
        ],
    );
    lab.put("NOTES.md", "The gong is in the cellar.\n");
    lab.put("config.txt", "size = 3\ncolour = red\n");
    let ended = lab.run("put it in order").end();
    lab.done(&ended, "All done.");
    assert_eq!(lab.text("a/b/out.txt"), "cellar\n");
    assert_eq!(lab.text("config.txt"), "size = 3\ncolour = green\n");
    assert_eq!(lab.text("both.txt"), "size = 3\ncolour = green\ncellar\n");

    let requests = lab.requests();
    assert_eq!(requests.len(), 5);
    for pair in requests.windows(2) {
        // Promise 12: what was said is said again, and something is added.
        assert_eq!(pair[1][..pair[0].len()], pair[0][..]);
    }
    let results: Vec<_> = requests[4]
        .iter()
        .filter_map(|said| if let Said::Result(id, text) = said { Some((id.as_str(), text.as_str())) } else { None })
        .collect();
    let ids: Vec<_> = results.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, ["c1", "c2", "c3", "c4", "c5"]);
    assert!(results[0].1.contains("The gong is in the cellar."), "{}", results[0].1);
    assert!(results[1].1.contains("colour = red"), "{}", results[1].1);
    assert!(results[4].1.contains("colour = green\ncellar"), "{}", results[4].1);
}

fn a_429_is_waited_for_and_asked_again_with_the_same_bytes(wire: Wire) {
    let refusal =
        json!({"error": {"message": "slow down", "type": "rate_limit_error"}, "status": 429, "retryAfter": 1});
    let once =
        |nth: usize, response: Value| json!({"match": {"turnIndex": 0, "sequenceIndex": nth}, "response": response});
    let lab = Lab::new(wire, &[once(0, refusal), once(1, json!({"content": "Here I am."}))]);
    let ended = lab.run("are you there?").end();
    lab.done(&ended, "Here I am.");

    let asked = lab.asked();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0].body, asked[1].body);
    let journal = lab.server.journal();
    let statuses: Vec<_> = journal.iter().map(|entry| &entry["response"]["status"]).collect();
    assert_eq!(statuses, [429, 200]);
    // By the server's clock: the second it asked for has passed.
    let times: Vec<_> = journal.iter().map(|entry| entry["timestamp"].as_u64().unwrap()).collect();
    assert!(times[1] - times[0] >= 1_000, "{times:?}");
    let retries: Vec<_> = ended.lines.iter().filter(|line| event(line) == "retry").collect();
    assert_eq!(retries.len(), 1);
    assert_eq!(json!([retries[0]["attempt"], retries[0]["server"]]), json!([1, true]));
    let waited = retries[0]["until"].as_u64().unwrap() - retries[0]["time"].as_u64().unwrap();
    assert_eq!(waited, 1_000);
}
