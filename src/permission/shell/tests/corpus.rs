//! The corpus: attempts to get past the rules, with the verdict that each must have, and commands of every day.

use serde::Deserialize;

use crate::permission::{
    Action, Profile, Rule, Ruleset,
    shell::tests::{Judged, by_layers},
};

#[derive(Deserialize)]
struct Attempt {
    command: String,
    profile: Profile,
    /// Of the session, behind those of the profile: permission, pattern, action.
    rules: Vec<(String, String, Action)>,
    expected: Action,
    class: String,
}

#[derive(Deserialize)]
struct Harmless {
    command: String,
}

fn read<T: serde::de::DeserializeOwned>(lines: &str) -> Vec<T> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}"))).collect()
}

fn judged(command: &str, layers: &[&Ruleset]) -> Judged {
    by_layers(layers, command)
}

/// Must show 1 of the issue: no attempt is allowed under `readonly` and `edits`, and each verdict is explained in one line.
#[test]
fn no_attempt_of_the_corpus_gets_past_the_rules() {
    let attempts: Vec<Attempt> = read(include_str!("../corpus/bypasses.jsonl"));
    let mut wrong = Vec::new();
    let mut classes = std::collections::BTreeMap::new();
    for attempt in &attempts {
        let rules = attempt.rules.iter().map(|(permission, pattern, action)| Rule::new(permission, pattern, *action));
        let session = Ruleset::new("session", rules);
        let judged = judged(&attempt.command, &[&attempt.profile.ruleset(), &session]);
        if judged.action != attempt.expected || judged.why.is_empty() || judged.why.contains('\n') {
            wrong.push(format!("{:?} under {}: {}", attempt.command, attempt.profile.name(), judged.why));
        }
        if attempt.expected != Action::Allow {
            classes.entry(&attempt.class).or_insert_with(std::collections::BTreeSet::new).insert(&attempt.command);
        }
    }
    let distinct: usize = classes.values().map(std::collections::BTreeSet::len).sum();
    println!("{distinct} attempts in {} classes, {} verdicts", classes.len(), attempts.len());
    assert!(distinct >= 220, "{distinct}");
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), attempts.len(), wrong.join("\n"));
}

/// Of 300 harmless commands at most one in twenty is not allowed.
#[test]
fn harmless_commands_are_allowed() {
    let commands: Vec<Harmless> = read(include_str!("../corpus/harmless.jsonl"));
    assert!(commands.len() >= 300, "{}", commands.len());
    for profile in [Profile::Readonly, Profile::Edits] {
        let rules = profile.ruleset();
        let verdicts = commands.iter().map(|harmless| (&harmless.command, judged(&harmless.command, &[&rules])));
        let asked: Vec<_> = verdicts
            .filter(|(_, judged)| judged.action != Action::Allow)
            .map(|(command, judged)| format!("{command}: {}", judged.why))
            .collect();
        println!("{}: {} of {} not allowed", profile.name(), asked.len(), commands.len());
        assert!(asked.len() * 20 <= commands.len(), "{} under {}:\n{}", asked.len(), profile.name(), asked.join("\n"));
    }
}
