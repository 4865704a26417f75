//! `tamtam tape search`: what was said is found, in any session, and nothing that is typed breaks it.

use serde_json::{Value, json};

use super::lab::Lab;

fn hits(lab: &Lab, arguments: &[&str]) -> Vec<Value> {
    let all = [&["tape", "search", "--json"], arguments].concat();
    let ended = lab.run(&all);
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{arguments:?}");
    ended.lines()
}

/// BDD-TAPE-011, 012, 022: from the outside; the snippet marks the hit, and control characters are shown and not obeyed.
#[test]
fn what_was_said_is_found_by_words_phrases_and_characters() {
    let lab = Lab::new();
    assert_eq!(lab.run(&["tape", "search", "x"]).stdout, "nothing found: there are no tapes\n");
    let model = lab.script(json!(["The disk \u{1b}[2J is full.", "发生了错误信息"]));
    assert_eq!(lab.run(&["run", "--session", "a", "--model", &model, "what is wrong"]).code, 0);
    assert_eq!(lab.run(&["run", "--session", "a", "--model", &model, "and now"]).code, 0);
    let model = lab.script(json!(["No disk here."]));
    assert_eq!(lab.run(&["run", "--session", "b", "--model", &model, "look"]).code, 0);
    let sessions = |arguments: &[&str]| -> Vec<String> {
        let mut found: Vec<_> = hits(&lab, arguments).iter().map(|hit| hit["session"].to_string()).collect();
        found.dedup();
        found
    };
    let kind = ["--kind", "answer"];
    assert_eq!(sessions(&["disk", "--kind", "answer"]), ["\"b\"", "\"a\""]);
    assert_eq!(sessions(&["disk", "--session", "a"]), ["\"a\""]);
    assert_eq!(sessions(&["\"is full\""]), ["\"a\""]);
    assert_eq!(sessions(&["错误"]), ["\"a\""]);
    assert_eq!(sessions(&["误"]), ["\"a\""]);
    assert!(sessions(&["absent"]).is_empty());
    assert!(sessions(&["disk", "--until", "2001-01-01"]).is_empty());
    let hit = &hits(&lab, &[&["错误"][..], &kind].concat())[0];
    assert_eq!(hit["snippet"]["text"], "发生了错误信息");
    assert_eq!(hit["entry"]["data"]["answer"]["parts"][0]["text"], "发生了错误信息");
    let shown = lab.run(&["tape", "search", "full", "--kind", "answer"]).stdout;
    assert!(shown.contains("The disk \\u{1b}[2J is «full»."), "{shown}");
    assert_eq!(lab.run(&["tape", "search", "absent"]).stdout, "nothing found\n");
    // A page at a time.
    let first = hits(&lab, &["disk", "--limit", "1"]);
    let next = first[1]["next"].as_str().unwrap();
    let second = hits(&lab, &["disk", "--limit", "1", "--after", next]);
    assert_ne!((&first[0]["session"], &first[0]["seq"]), (&second[0]["session"], &second[0]["seq"]));
}

#[test]
fn nothing_that_is_typed_is_an_error_of_the_database() {
    let lab = Lab::new();
    let model = lab.script(json!(["Hello."]));
    assert_eq!(lab.run(&["run", "--session", "a", "--model", &model, "hi"]).code, 0);
    for words in
        ["AND", "\"", "a\"b", "NEAR(a b)", "x); drop table entries; --", "*", "tags:x", "{a b}:c", "^a", "a + b"]
    {
        let ended = lab.run(&["tape", "search", "--", words]);
        assert!(matches!(ended.code, 0 | 2), "{words}: {}", ended.stderr);
        assert!(!ended.stderr.contains("syntax") && !ended.stderr.contains("index"), "{words}: {}", ended.stderr);
    }
    let refused = lab.run(&["tape", "search", "*"]);
    assert_eq!(refused.code, 2);
    assert!(refused.error().contains("there is no word in it"), "{}", refused.stderr);
    let bad = lab.run(&["tape", "search", "x", "--after", "nowhere"]);
    assert_eq!((bad.code, bad.stderr.contains("not a page cursor")), (2, true), "{}", bad.stderr);
    assert_eq!(lab.run(&["tape", "search", "x", "--since", "yesterday"]).code, 2);
}
