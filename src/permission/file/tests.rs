#![allow(clippy::unwrap_used)]

use super::*;
use crate::permission::Action::{Allow, Ask, Deny};

fn rules(lines: &[(&str, &str, Action)]) -> Vec<Rule> {
    lines.iter().map(|(permission, pattern, action)| Rule::new(*permission, *pattern, *action)).collect()
}

fn toml(text: &str) -> Result<Vec<Rule>, String> {
    Ruleset::from_toml("t", text).map(|set| set.rules).map_err(|error| error.to_string())
}

fn json(text: &str) -> Result<Vec<Rule>, String> {
    Ruleset::from_json("t", text).map(|set| set.rules).map_err(|error| error.to_string())
}

/// H-09: a string is the rule about everything of that permission; a map has one rule for each pattern.
#[test]
fn strings_maps_and_lists_say_the_same_rules() {
    let expected = rules(&[("bash", "*", Ask), ("edit", "src/**", Allow), ("mcp_*", "*", Deny)]);
    let one = "bash = 'ask'\nedit = { 'src/**' = 'allow' }\n'mcp_*' = 'deny'\n";
    let tables = "bash = 'ask'\n[edit]\n'src/**' = 'allow'\n[mcp_]\n".replace("[mcp_]", "['mcp_*']\n'*' = 'deny'");
    let list = "rules = [{permission='bash',pattern='*',action='ask'},{permission='edit',pattern='src/**',action='allow'}]\n\
                'mcp_*' = 'deny'";
    let dotted =
        "bash = 'ask'\nedit.'src/**' = 'allow'\n[[rules]]\npermission = 'mcp_*'\npattern = '*'\naction = 'deny'\n";
    for text in [one, &tables, list, dotted] {
        assert_eq!(toml(text).unwrap(), expected, "{text}");
    }
    let map = r#"{"bash":"ask","edit":{"src/**":"allow"},"mcp_*":"deny"}"#;
    let listed = r#"[{"permission":"bash","pattern":"*","action":"ask"},{"permission":"edit","pattern":"src/**","action":"allow"},
        {"action":"deny","pattern":"*","permission":"mcp_*"}]"#;
    let lines = "# who may what\n\n{\"permission\":\"bash\",\"pattern\":\"*\",\"action\":\"ask\"}\n  # and\n\
                 {\"permission\":\"edit\",\"pattern\":\"src/**\",\"action\":\"allow\"}\n{\"mcp_*\":\"deny\"}";
    for text in [map, listed, lines] {
        assert_eq!(json(text).unwrap(), expected, "{text}");
    }
    for nothing in ["", "\n# nothing\n"] {
        assert_eq!((toml(nothing), json(nothing)), (Ok(vec![]), Ok(vec![])));
    }
}

/// A rule may be a text that only equals itself, although it has wildcards in it. Then it need be no glob.
#[test]
fn a_listed_rule_may_be_exact() {
    let expected = vec![Rule { exact: true, ..Rule::new("edit", "src/[", Allow) }, Rule::new("bash", "ls *", Allow)];
    let text = "[[rules]]\npermission = 'edit'\npattern = 'src/['\naction = 'allow'\nexact = true\n\
                [[rules]]\npermission = 'bash'\npattern = 'ls *'\naction = 'allow'\nexact = false\n";
    assert_eq!(toml(text).unwrap(), expected);
    let lines: Vec<_> = expected.iter().map(|rule| serde_json::to_string(rule).unwrap()).collect();
    assert_eq!(json(&lines.join("\n")).unwrap(), expected);
    let wrong = json(r#"{"permission":"bash","pattern":"ls","action":"allow","exact":"yes"}"#).unwrap_err();
    assert_eq!(wrong, "line 1: exact: write true or false, not a text");
}

/// C-02: the order of the text decides, so it is kept: between tables, inside of them, and where they are mixed.
#[test]
fn rules_come_in_the_order_of_the_text() {
    let text = "edit.'z' = 'deny'\n'*' = 'ask'\nedit.'a' = 'allow'\nbash = 'ask'\nedit.'m' = 'deny'\n";
    let expected =
        rules(&[("edit", "z", Deny), ("*", "*", Ask), ("edit", "a", Allow), ("bash", "*", Ask), ("edit", "m", Deny)]);
    assert_eq!(toml(text).unwrap(), expected);
    let text = "b = 'ask'\n[z]\n'2' = 'ask'\n'1' = 'deny'\n[a]\n'x' = 'allow'\n";
    assert_eq!(toml(text).unwrap(), rules(&[("b", "*", Ask), ("z", "2", Ask), ("z", "1", Deny), ("a", "x", Allow)]));
    let text = r#"{"z":{"2":"ask","1":"deny"},"a":"allow","*":"ask"}"#;
    assert_eq!(json(text).unwrap(), rules(&[("z", "2", Ask), ("z", "1", Deny), ("a", "*", Allow), ("*", "*", Ask)]));
}

#[test]
fn a_file_says_which_match_stands() {
    for (text, order) in [
        ("bash = 'ask'", MatchOrder::Last),
        ("match_order = 'last'\nbash = 'ask'", MatchOrder::Last),
        ("match_order = 'first'\nbash = 'ask'", MatchOrder::First),
    ] {
        let read = Ruleset::from_toml("t", text).unwrap();
        assert_eq!((read.order, read.rules.len(), read.name.as_str()), (order, 1, "t"), "{text}");
    }
    assert_eq!(Ruleset::from_json("t", r#"{"match_order":"first"}"#).unwrap().order, MatchOrder::First);
}

#[test]
fn one_table_of_a_file_may_have_the_rules() {
    let text =
        "model = 'a/b'\n[rules]\nmatch_order = 'first'\nbash = 'ask'\n[rules.edit]\n'x' = 'deny'\n[other]\nx = 1\n";
    let read = Ruleset::from_toml_table("t", text, "rules").unwrap();
    assert_eq!((read.rules, read.order), (rules(&[("bash", "*", Ask), ("edit", "x", Deny)]), MatchOrder::First));
    assert_eq!(Ruleset::from_toml_table("t", "model = 'a/b'", "rules").unwrap().rules, []);
    let listed = "[[rules]]\npermission = 'bash'\npattern = 'ls'\naction = 'allow'\n";
    assert_eq!(Ruleset::from_toml_table("t", listed, "rules").unwrap().rules, rules(&[("bash", "ls", Allow)]));
    assert_eq!(Ruleset::from_toml_table("t", "\n[rules]\nbash = 1", "rules").unwrap_err().line, 3);
}

/// A misspelt word must not become another rule, or none: each error says where, what is allowed there, and what was perhaps meant.
#[test]
fn what_is_not_understood_is_named_by_line_and_field() {
    for (text, expected) in [
        ("\nbash = 'alow'", "line 2: bash: unknown action \"alow\": write allow, ask or deny; did you mean \"allow\"?"),
        ("bash = 'Deny'", "line 1: bash: unknown action \"Deny\": write allow, ask or deny; did you mean \"deny\"?"),
        ("bash = 'perhaps'", "line 1: bash: unknown action \"perhaps\": write allow, ask or deny"),
        (
            "[edit]\n'a' = 'allow'\n'src/**' = true",
            "line 3: edit.\"src/**\": write allow, ask or deny, not true or false",
        ),
        ("bash = 1", "line 1: bash: write an action or a table of pattern = action, not a number"),
        ("['mcp *']\n'a' = {}", "line 2: \"mcp *\".\"a\": write allow, ask or deny, not a table"),
        (
            "match_order = 'frist'",
            "line 1: match_order: unknown order \"frist\": write last or first; did you mean \"first\"?",
        ),
        ("match_order = 1", "line 1: match_order: write last or first, not a number"),
        (
            "[[rules]]\npermission = 'a'\npatern = 'b'\naction = 'ask'",
            "line 3: patern: unknown field: a rule has permission, pattern and action; did you mean \"pattern\"?",
        ),
        ("rules = ['ask']", "line 1: a rule is a table with permission, pattern and action, not a text"),
        (
            "[edit]\n'a[' = 'deny'",
            "line 2: edit.\"a[\": \"a[\" is not a pattern of paths: write one such as \"src/**\", with \\ before [ and {",
        ),
        ("'' = 'deny'", "line 1: \"\": the permission has no name: write a tool's name, or \"*\" for all"),
    ] {
        assert_eq!(toml(text).unwrap_err(), expected, "{text}");
    }
    let missing = toml("\n[[rules]]\npermission = 'a'\naction = 'ask'").unwrap_err();
    assert!(missing.ends_with("pattern: missing: a rule has permission, pattern and action"), "{missing}");
    assert!(toml("bash = 'ask'\nbash = 'deny'").unwrap_err().starts_with("line 2: not TOML: "));
    assert!(toml("bash = ask").unwrap_err().starts_with("line 1: not TOML: "));
}

/// The form of before, one rule a line, with what was an error there.
#[test]
fn a_bad_rule_in_json_is_named_by_its_line() {
    for (line, expected) in [
        (
            r#"{"permission":"bash","pattern":"*","action":"perhaps"}"#,
            "line 2: action: unknown action \"perhaps\": write allow, ask or deny",
        ),
        (
            r#"{"permission":"bash","patern":"*","action":"deny"}"#,
            "line 2: patern: unknown field: a rule has permission, pattern and action; did you mean \"pattern\"?",
        ),
        (
            r#"{"permision":"bash","pattern":"*","action":"deny"}"#,
            "line 2: permision: unknown field: a rule has permission, pattern and action; did you mean \"permission\"?",
        ),
        (r#"{"permission":"bash"}"#, "line 2: pattern: missing: a rule has permission, pattern and action"),
        (
            r#"{"permission":"bash","pattern":"*","pattern":"a","action":"deny"}"#,
            "line 2: \"pattern\": the field occurs twice: write it once",
        ),
        (r#"{"permission":7,"pattern":"*","action":"deny"}"#, "line 2: permission: write a text, not a number"),
        ("7", "line 2: rules are a map such as {bash = \"ask\"} or a list, not a number"),
        ("deny all", "line 2: not JSON: expected value"),
        (
            "{\n\"bash\":\n\"alow\"}",
            "line 4: bash: unknown action \"alow\": write allow, ask or deny; did you mean \"allow\"?",
        ),
        ("[[[[[[]]]]]]", "line 2: a rule is a table with permission, pattern and action, not a list"),
    ] {
        assert_eq!(json(&format!("#\n{line}")).unwrap_err(), expected, "{line}");
    }
}

/// A hostile file costs an error, and neither the stack nor much time.
#[test]
fn hostile_texts_are_errors() {
    let deep = 200_000;
    for text in
        ["[".repeat(deep), "{\"a\":".repeat(deep), "a.".repeat(deep) + "a = 'ask'", format!("[{}a]", "a.".repeat(deep))]
    {
        assert!(toml(&text).is_err() && json(&text).is_err(), "{}", &text[..20]);
    }
    let many: String = (0..=RULES_MAX).map(|n| format!("'{n}' = 'ask'\n")).collect();
    assert_eq!(toml(&many).unwrap_err(), "line 10001: more than 10000 rules: write patterns that say more");
    let nested = format!("{}{}", "[".repeat(deep), "]".repeat(deep));
    assert!(json(&nested).is_err());
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 500, failure_persistence: None, ..Default::default() })]

    /// No text panics, and an error names a line of the text.
    #[test]
    fn no_text_panics(text in "[a-z'\"=.\\[\\]{}#:, \n*é]{0,60}") {
        for read in [Ruleset::from_toml("t", &text), Ruleset::from_json("t", &text)] {
            if let Err(error) = read {
                proptest::prop_assert!(error.line >= 1 && error.line <= text.lines().count().max(1) + 1, "{error}");
            }
        }
    }

    /// Rules that are written as a list, in either format, come back as they were.
    #[test]
    fn rules_that_are_written_are_read_again(
        written in proptest::collection::vec(("[a-z_*]{1,6}", "[ -~é]{0,12}", 0..3usize), 0..12),
    ) {
        let expected: Vec<_> = written.iter()
            .filter(|(permission, pattern, _)| permission != "edit" && permission != "read" || pattern::is_glob(pattern))
            .map(|(permission, pattern, action)| Rule::new(permission, pattern, [Allow, Ask, Deny][*action]))
            .collect();
        let listed = serde_json::to_string(&expected).unwrap();
        proptest::prop_assert_eq!(json(&listed).unwrap(), expected.clone());
        let text = |text: &str| serde_json::to_string(text).unwrap();
        let tables: String = expected.iter().map(|rule| {
            let action = serde_json::to_string(&rule.action).unwrap();
            format!("[[rules]]\npermission = {}\npattern = {}\naction = {action}\n", text(&rule.permission), text(&rule.pattern))
        }).collect();
        proptest::prop_assert_eq!(toml(&tables).unwrap(), expected);
    }
}
