#![allow(clippy::unwrap_used)]

use super::*;

fn read(line: &str) -> Result<Called, BadCommand> {
    Commands::built_in().read(line).unwrap()
}

/// CMD-001 to CMD-004, N-01, APP-002, TEMPLATE-004, 005: a command is found by its name; an unknown one is an error that lists what
/// there is.
#[test]
fn a_line_with_a_slash_is_a_command() {
    let hello = Command::new("hello", "Greets.", Does::Say("hello".to_owned()));
    let commands =
        Commands::built_in().with([hello.clone(), Command::new("bye", "Goes.", Does::Say("bye".to_owned()))]);
    assert_eq!(commands.list().count(), Commands::built_in().list().count() + 2);
    assert_eq!(commands.read("/hello").unwrap().unwrap().text().as_deref(), Some("hello"));
    assert!(commands.get("hello").is_some() && commands.get("helo").is_none());
    for message in ["hello", " /hello", "", "say /hello"] {
        assert_eq!(commands.read(message), None, "{message:?}");
    }
    for unknown in ["/", "/helo", "/Hello", "/usr/bin/cargo is broken", "/hello/x", "//"] {
        let refused = commands.read(unknown).unwrap().unwrap_err().to_string();
        assert!(refused.contains("/bye, /compact, /hello") && refused.contains("/undo"), "{unknown}: {refused}");
    }
}

/// N-02: what is done to a session is not replaced by a text; a text is.
#[test]
fn a_file_replaces_no_act() {
    let mine = |name: &str| Command::new(name, "Mine.", Does::Say("mine".to_owned()));
    let commands = Commands::built_in().with([mine("undo"), mine("review")]);
    assert_eq!(commands.get("undo").unwrap().does, Does::Act(CommandAct::Undo));
    assert_eq!(commands.get("review").unwrap().description, "Mine.");
}

/// N-07: the arguments, one by one.
#[test]
fn quotes_hold_an_argument_together() {
    for (line, expected) in [
        ("", Ok(vec![])),
        ("  a   b ", Ok(vec!["a", "b"])),
        (r#""a b" c"#, Ok(vec!["a b", "c"])),
        ("'a b' c", Ok(vec!["a b", "c"])),
        (r#"a"b c"d"#, Ok(vec!["ab cd"])),
        (r#""" ''"#, Ok(vec!["", ""])),
        (r#""a \"b\"""#, Ok(vec!["a \"b\""])),
        (r"'a \b'", Ok(vec![r"a \b"])),
        (r"a\ b", Ok(vec!["a b"])),
        (r"a\", Ok(vec![r"a\"])),
        ("\u{e4} \u{1f600}", Ok(vec!["\u{e4}", "\u{1f600}"])),
        (r#"a "b"#, Err('"')),
        ("it's", Err('\'')),
    ] {
        let expected = expected.map(|words: Vec<&str>| words.into_iter().map(str::to_owned).collect());
        assert_eq!(words(line), expected, "{line:?}");
    }
    assert_eq!(read("/agent 'plan").unwrap_err().to_string(), "/agent: the quote ' is not closed");
    assert_eq!(read("/review it's late").unwrap().words, ["it's", "late"]);
}

/// N-07, TEMPLATE-003, TEMPLATE-006: marks are filled once, in each form.
#[test]
fn a_template_is_filled_with_its_arguments() {
    for (template, arguments, expected) in [
        ("Do $ARGUMENTS now.", "a 'b c'", "Do a 'b c' now."),
        ("$1 then $2", "a b", "a then b"),
        ("$1 then $2", "a b c d", "a then b c d"),
        ("$2 before $1", "a b c", "b c before a"),
        ("$1", "'a b'", "a b"),
        ("$1 and $2", "a", "a and"),
        ("$1 and $1", "a", "a and a"),
        ("$10 and $1", "a b c d e f g h i j k", "j k and a"),
        ("It costs $0 or $x or $.", "a", "It costs $0 or $x or $.\n\na"),
        ("Review.", "src", "Review.\n\nsrc"),
        ("Review.", "", "Review."),
        ("$ARGUMENTS", "$1 {{x}} $ARGUMENTS", "$1 {{x}} $ARGUMENTS"),
        ("{{action}} this: {{content}}", "action=Read content='a b'", "Read this: a b"),
        ("{{code}}", "", "{{code}}"),
        ("{{code}}", "other=1", "{{code}}\n\nother=1"),
        ("{{ code }} {{}} {{a-b}} {{", "", "{{ code }} {{}} {{a-b}} {{"),
        ("\u{e4}$1\u{1f600}{{x}}\u{e4}", "x=1", "\u{e4}x=1\u{1f600}1\u{e4}"),
    ] {
        let command = Command::new("t", "", Does::Say(template.to_owned()));
        let called = Commands::built_in().with([command]).read(&format!("/t {arguments}")).unwrap().unwrap();
        assert_eq!(called.text().unwrap(), expected, "{template:?} with {arguments:?}");
    }
}

/// TEMPLATE-002: the names that a template has marks for.
#[test]
fn a_template_names_its_variables() {
    let command = Command::new("t", "", Does::Say("{{action}} $1 {{content}} {{action}}".to_owned()));
    assert_eq!(command.variables(), BTreeSet::from(["action", "content"]));
    assert!(Command::new("t", "", Does::Act(CommandAct::Undo)).variables().is_empty());
}

/// N-03, TEMPLATE-001: the runtime's own commands send their arguments, and nothing that looks like a mark is left in the text.
#[test]
fn init_and_review_take_words() {
    for name in ["init", "review"] {
        let text = read(&format!("/{name} the tests")).unwrap().text().unwrap();
        assert!(text.contains("the tests") && !text.contains('$'), "{text}");
        assert!(!read(&format!("/{name}")).unwrap().text().unwrap().contains('$'));
    }
    assert_eq!(read("/agent plan").unwrap().only_word(), Ok("plan"));
    assert_eq!(read("/agent").unwrap().only_word().unwrap_err().to_string(), "/agent takes NAME");
    assert_eq!(read("/undo 2").unwrap().no_word().unwrap_err().to_string(), "/undo takes no arguments");
}
