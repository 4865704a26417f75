//! The figures of permission in `docs/PERFORMANCE.md`: shell commands read and judged, decisions over many rules, and what the judgement of
//! commands costs in a step.
//!
//! `cargo bench --bench shell` prints all of them, and `-- decision` one group: `command`, `decision` or `step`.
#![allow(clippy::unwrap_used, missing_docs)]

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tamtam::{
    model::BoxFuture,
    permission::{Action, Globs, Profile, Rule, Ruleset, decide, judge, seen_from, with_parts},
    tool::{Access, Effect, Tool, ToolContext, ToolResult},
    tools::{Bash, BashOptions},
};

#[path = "support/parts.rs"]
mod parts;

/// Runs of a measurement; the quickest counts, because other work disturbs and never helps.
const RUNS: usize = 200;
/// Rules of the large set.
const RULES: usize = 1_000;
/// Steps of a turn.
const STEPS: u32 = 32;

fn quickest(mut work: impl FnMut() -> Duration) -> Duration {
    (0..RUNS).map(|_| work()).min().unwrap()
}

/// A command of about 1 KiB, of the kind that a model writes.
fn command() -> String {
    let part = "grep -rn \"fn main\" --include='*.rs' . | head -n 20 > /dev/null; if [ -f Cargo.toml ]; then cat Cargo.toml; fi\n";
    part.repeat(1_024_usize.div_ceil(part.len()))
}

/// How long it takes to read a command and to judge it by the rules of a session.
fn read_and_judged(access: &Access) -> Duration {
    let (rules, globs) = (Profile::Readonly.ruleset(), Globs::default());
    quickest(|| {
        let wanted = vec![black_box(access).clone()];
        let start = Instant::now();
        let parts = seen_from("/work", &[], with_parts(wanted));
        let verdict = decide(&[&rules], &parts, &globs);
        assert_eq!(verdict.judgement.action, Action::Allow, "{}", verdict.why(&parts));
        start.elapsed()
    })
}

fn commands() {
    let long = command();
    println!(
        "shell command of {} bytes, read and judged: {:.1?}",
        long.len(),
        read_and_judged(&Access::command(&long, "", true))
    );
    println!("`ls -la src`, read and judged: {:.1?}", read_and_judged(&Access::command("ls -la src", "", true)));
    println!("a call without a command, judged: {:.1?}", read_and_judged(&Access::new("read", "src/lib.rs")));
}

/// As many rules about commands as about paths. The matching ones come first and the last match wins, so all are checked.
fn many_rules() -> Ruleset {
    let all = [
        Rule::new("bash", "*", Action::Allow),
        Rule::new("read", "**", Action::Allow),
        Rule::new("edit", "**", Action::Ask),
    ];
    let others = (all.len()..RULES).map(|n| match n % 4 {
        0 => Rule::new("edit", format!("src/part{n}/**"), Action::Allow),
        1 => Rule::new("read", format!("**/secret{n}.pem"), Action::Deny),
        _ => Rule::new("bash", format!("tool{n} *"), Action::Deny),
    });
    Ruleset::new("many", all.into_iter().chain(others))
}

fn decisions() {
    let rules = many_rules();
    for access in [
        Access::new("bash", "cargo test --all"),
        Access::new("read", "src/a/b/lib.rs"),
        Access::new("edit", "src/a/b/lib.rs"),
    ] {
        let decision = |globs: &Globs| {
            let start = Instant::now();
            let judged = judge([black_box(&rules)], black_box(&access), globs);
            assert!(judged.rule.is_some_and(|rule| rule.pattern.starts_with('*')));
            start.elapsed()
        };
        let warm = Globs::default();
        let (again, first) = (quickest(|| decision(&warm)), quickest(|| decision(&Globs::default())));
        println!(
            "`{access}` over {} rules: {again:.1?}; the first time, with no glob compiled: {first:.1?}",
            rules.rules.len()
        );
    }
}

/// A tool that wants its argument, as `bash` and as another permission. It does nothing, or starts a shell that runs `true`.
struct Wants {
    access: Access,
    shell: Option<Bash>,
}

impl Tool for Wants {
    fn name(&self) -> &str {
        "nothing"
    }

    fn description(&self) -> &str {
        "Does nothing."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object" })
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }

    fn access(&self, _: &Value) -> Vec<Access> {
        vec![self.access.clone()]
    }

    fn run<'a>(&'a self, _: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        match &self.shell {
            Some(shell) => shell.run(json!({ "command": "true" }), context),
            None => Box::pin(async { ToolResult::ok("ok") }),
        }
    }
}

/// How long a step takes whose call wants that. The median of some turns.
async fn step(access: Access, turns: usize, runs: bool) -> Duration {
    let folder = tempfile::tempdir().unwrap();
    let model = std::sync::Arc::new(parts::Calls::new(STEPS));
    let path = std::env::var_os("PATH").unwrap();
    let shell = runs.then(|| Bash::new(BashOptions::new([("PATH".into(), path)])));
    let runtime = parts::runtime(folder.path(), model, Wants { access, shell }).await;
    let session = runtime.create(parts::options(folder.path())).await.unwrap();
    let mut times = Vec::new();
    for _ in 0..turns {
        let start = Instant::now();
        let answer = session.prompt("go").await.unwrap().wait().await.unwrap();
        assert_eq!(answer.steps, STEPS);
        times.push(start.elapsed() / STEPS);
    }
    drop(runtime.shutdown().await);
    parts::percentile(&mut times, 50.0)
}

/// Five times each, in turn, so that both meet the same noise.
fn steps() {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let command = "cargo test --workspace 2>&1 | tail -n 40";
    for (runs, turns, what) in [(false, 200, "does nothing"), (true, 10, "runs `true`")] {
        let (mut on, mut off) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            off.push(tokio.block_on(step(Access::new("plain", command), parts::scaled(turns), runs)));
            on.push(tokio.block_on(step(Access::new("bash", command), parts::scaled(turns), runs)));
        }
        let [on, off] = [&mut on, &mut off].map(|times| parts::percentile(times, 50.0));
        let more = (on.as_secs_f64() / off.as_secs_f64() - 1.0) * 100.0;
        println!(
            "a step whose call wants a command and {what}, judged by its parts: {on:.1?}; by its text: {off:.1?}; {more:+.1} %"
        );
    }
}

fn main() {
    let asked: Vec<_> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    for (name, group) in [("command", commands as fn()), ("decision", decisions), ("step", steps)] {
        if asked.is_empty() || asked.iter().any(|arg| arg == name) {
            group();
        }
    }
}
