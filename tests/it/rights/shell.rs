//! Shell commands in a whole session: each is judged by its parts, with the tools and the rules that a session has.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use tamtam::{
    permission::{Globs, seen_from, with_parts},
    runtime::Agent,
    session::{AgentChoice, Settings},
};

use super::*;

/// The accesses of a command as a session judges them that works in `/work`.
fn accesses(command: &str) -> Vec<Access> {
    let tools = tamtam::tools::full();
    let facts = tools.facts("bash", &json!({ "command": command }).to_string());
    assert_eq!(facts.unusable, None, "{command}");
    seen_from("/work", &[], with_parts(facts.access))
}

/// What is decided about a command that runs as it is, and why, in words. One that would run confined does not: what the kernel then
/// holds is shown where each attempt is really run (`tools/bash/tests/held`).
fn decided(layers: Vec<Ruleset>, command: &str) -> (Action, String) {
    let (action, why, confined) = decided_or_confined(layers, command);
    (if confined && action == Action::Allow { Action::Ask } else { action }, why)
}

/// The same, and whether it would run confined.
fn decided_or_confined(layers: Vec<Ruleset>, command: &str) -> (Action, String, bool) {
    let mut settings = Settings::new("/work", "scripted/model".parse().unwrap());
    settings.rules = layers;
    let accesses = accesses(command);
    let verdict = settings.decide(&accesses, &Globs::default());
    (verdict.judgement.action, verdict.why(&accesses), verdict.confined)
}

fn judged(layers: Vec<Ruleset>, command: &str) -> Action {
    decided(layers, command).0
}

#[derive(Deserialize)]
struct Attempt {
    command: String,
    profile: Profile,
    rules: Vec<(String, String, Action)>,
    expected: Action,
    class: String,
}

fn corpus() -> Vec<Attempt> {
    let lines = include_str!("../../../src/permission/shell/corpus/bypasses.jsonl").lines();
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The rules of plan mode over the profile that allows most.
fn planning() -> Vec<Ruleset> {
    let AgentChoice::Other(plan) = Agent::plan().for_session(&"s".parse().unwrap()).unwrap() else { panic!("own") };
    vec![Profile::Auto.ruleset(), plan.last_rules.clone().unwrap()]
}

/// Must show 1 of the issue, P12: no attempt of the corpus is allowed in a session, whatever a rule allows beside it, also not in plan
/// mode over the profile that allows most; each verdict is explained in one line.
#[test]
fn no_attempt_of_the_corpus_runs_in_a_session_without_an_answer() {
    let mut wrong = Vec::new();
    let mut judge = |why: &str, is_right: bool, command: &str| {
        if !is_right {
            wrong.push(format!("{why}: {command}"));
        }
    };
    let mut classes = BTreeMap::<_, BTreeSet<_>>::new();
    for attempt in corpus() {
        let lines = attempt.rules.iter().map(|(permission, pattern, action)| Rule::new(permission, pattern, *action));
        let own = Ruleset::new("session", lines);
        let command = &attempt.command;
        let (action, why) = decided(vec![attempt.profile.ruleset(), own.clone()], command);
        judge("as is", (action == Action::Allow) == (attempt.expected == Action::Allow), command);
        judge("explained in one line", !why.is_empty() && !why.contains('\n'), command);
        if attempt.expected == Action::Allow {
            continue;
        }
        classes.entry(attempt.class).or_default().insert(command.clone());
        let mut cargo = own.clone();
        cargo.rules.push(Rule::new("bash", "cargo *", Action::Allow));
        let layers = vec![attempt.profile.ruleset(), cargo];
        let behind = format!("cargo test; {command}");
        let is_cargo = ["cargo test", "cargo --version"].contains(&command.as_str());
        judge("behind cargo", is_cargo || judged(layers, &behind) != Action::Allow, &behind);
        if [Profile::Readonly, Profile::Edits].contains(&attempt.profile) && attempt.rules.is_empty() {
            for profile in [Profile::Readonly, Profile::Edits] {
                judge(profile.name(), judged(vec![profile.ruleset()], command) != Action::Allow, command);
            }
            judge("in plan mode", judged(planning(), command) != Action::Allow, command);
        }
        // Whatever else a command does: one that is denied in it denies it.
        let deny =
            rules("deny", &[("*", "**", Action::Allow), ("*", "*", Action::Allow), ("bash", "rm *", Action::Deny)]);
        let behind = format!("/bin/rm -rf x; {command}");
        judge("behind rm", judged(vec![deny], &behind) != Action::Allow, &behind);
    }
    let distinct: usize = classes.values().map(BTreeSet::len).sum();
    println!("{distinct} attempts in {} classes", classes.len());
    assert!(distinct >= 600 && classes.len() >= 20, "{distinct} in {}", classes.len());
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

/// Of 300 harmless commands at most one in twenty is asked about. Where the kernel can confine nothing, each is.
#[test]
fn harmless_commands_run_in_a_session_without_an_ask() {
    let lines = include_str!("../../../src/permission/shell/corpus/harmless.jsonl").lines();
    let commands: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(commands.len() >= 300, "{}", commands.len());
    for profile in [Profile::Readonly, Profile::Edits] {
        let of = |command: &&Value| decided_or_confined(vec![profile.ruleset()], command["command"].as_str().unwrap());
        let asked = commands.iter().filter(|command| of(command).0 != Action::Allow).count();
        let held = tamtam::tools::process::SandboxLevel::probe().holds();
        assert!(asked * 20 <= commands.len() || !held, "{}: {asked} of {}", profile.name(), commands.len());
    }
}

/// The access that decided is the one of the session, also where the rule is of an ancestor that works elsewhere.
#[test]
fn a_parents_rule_names_the_part_of_the_childs_command() {
    let mut parent = Settings::new("/work", "scripted/model".parse().unwrap());
    parent.rules = vec![rules("parent", &[("*", "**", Action::Allow), ("edit", "docs/secret/**", Action::Deny)])];
    let mut child = Settings::new("/work/docs", "scripted/model".parse().unwrap());
    child.rules = vec![everything()];
    child.above = parent.above_children();
    for (command, expected) in [
        ("ls > secret/a", "it writes `secret/a`: denied by the rule `deny edit docs/secret/**`"),
        ("ls; echo > ../docs/secret/a", "it writes `secret/a`: denied by the rule `deny edit docs/secret/**`"),
        ("ls > a", "`ls`: allowed by the rule `allow * *`"),
    ] {
        let facts = tamtam::tools::full().facts("bash", &json!({ "command": command }).to_string());
        let accesses = seen_from("/work/docs", &[], with_parts(facts.access));
        assert_eq!(child.decide(&accesses, &Globs::default()).why(&accesses), expected, "{command}");
    }
}

async fn session(folder: &Path, model: &Arc<Scripted>, lines: &[(&str, &str, Action)]) -> (Runtime, Session) {
    let work = folder.join("work");
    std::fs::create_dir_all(work.join(".git")).unwrap();
    let runtime = builder(folder, model).tools(tamtam::tools::full()).start().await.unwrap();
    let session = runtime.create(options(work, rules("session", lines))).await.unwrap();
    (runtime, session)
}

fn bash(command: &str) -> Reply {
    Reply::call("bash", json!({ "command": command }))
}

/// Must show of the issue: `allow cargo *` lets nothing else run, and the model is told which part was the reason. The tape replays
/// when the folder is let go of.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_stands_behind_an_allowed_command_does_not_run() {
    let folder = taped::folder();
    let commands = [
        "cargo --version; touch marker",
        "cargo --version\ntouch marker",
        "cargo --version $(touch marker)",
        "cargo --version > marker",
        "env cargo --version | tee marker",
    ];
    let replies = commands.iter().map(|command| bash(command)).chain([Reply::text("done")]);
    let model = Arc::new(Scripted::new(replies));
    let lines = [("bash", "cargo *", Action::Allow)];
    let (runtime, session) = session(folder.path(), &model, &lines).await;
    say(&session, "go").await;
    let said = shown(&model);
    for part in ["bash touch marker must", "edit marker (written by the command) must"] {
        assert!(said.contains(&format!("Permission denied: {part} be asked for")), "{part}: {said}");
    }
    assert!(!folder.path().join("work/marker").exists());
    assert_eq!(kinds(folder.path(), &session, "call_started").len(), 0);
    assert!(runtime.shutdown().await.is_empty());
}

/// A redirect is an edit: what may not be edited is not written by a command either, wherever it starts from.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_through_a_redirect_is_judged_as_an_edit() {
    let folder = taped::folder();
    let commands = ["echo x > .git/config", "cd .git && echo x >> config", "echo x | tee .git/config", "echo x > a"];
    let replies = commands.iter().map(|command| bash(command)).chain([Reply::text("done")]);
    let model = Arc::new(Scripted::new(replies));
    let (runtime, session) = session(folder.path(), &model, &[]).await;
    session.configure(|settings| settings.rules = vec![Profile::Auto.ruleset()]).await.unwrap();
    say(&session, "go").await;
    let said = shown(&model);
    let denied = "Permission denied: edit .git/config (written by the command) must be asked for";
    assert_eq!(said.matches(denied).count(), 3, "{said}");
    assert!(!folder.path().join("work/.git/config").exists());
    assert_eq!(std::fs::read_to_string(folder.path().join("work/a")).unwrap(), "x\n");
    assert!(runtime.shutdown().await.is_empty());
}

/// Promise 8: what a parent denies, a child cannot do behind another command or by another name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_cannot_hide_what_its_parent_denies() {
    let folder = taped::folder();
    let commands = ["true; /bin/rm x", "sh -c 'rm x'", "find . -name x -delete", "true"];
    let replies = commands.iter().map(|command| bash(command)).chain([Reply::text("done")]);
    let model = Arc::new(Scripted::new(replies));
    let lines = [("*", "*", Action::Allow), ("bash", "rm *", Action::Deny)];
    let (runtime, parent) = session(folder.path(), &model, &lines).await;
    std::fs::write(folder.path().join("work/x"), "").unwrap();
    let child = options(folder.path().join("work"), everything());
    let child = parent.spawn_child(child, "work", Link::DETACHED).await.unwrap();
    assert_eq!(down(&child).await, DownReason::Done);
    let said = shown(&model);
    assert_eq!(said.matches("Permission denied: bash rm x by session (deny bash rm *)").count(), 2, "{said}");
    assert!(said.contains("Permission denied: bash rm … by session"), "{said}");
    assert!(folder.path().join("work/x").exists());
    assert_eq!(kinds(folder.path(), child.session(), "call_started").len(), 1);
    assert!(runtime.shutdown().await.is_empty());
}
