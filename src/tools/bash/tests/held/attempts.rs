//! The corpus of attempts to get past the rules, each one really run wherever a profile or a rule lets it run without a yes: what it is
//! after does not come about.
//!
//! A scene is a workspace that a stranger has prepared (`permission/shell/corpus/setup.sh`), with a folder outside of it. An attempt
//! is after one of these: to run something that makes `marker` outside (`exec`, `write`), to print a canary that the rules deny to be
//! read (`read`), to connect (`network`), or to end a process outside (`signal`).

use std::{
    collections::{BTreeMap, BTreeSet},
    io::ErrorKind,
    net::TcpListener,
    os::unix::process::CommandExt as _,
    process::{Child, Command, Stdio},
};

use serde::Deserialize;

use super::*;
use crate::permission::{Action, Globs, PROFILES, Profile, Rule, Ruleset, decide, seen_from, with_parts};

/// What a denied file has in it.
const CANARY: &str = "CANARY-7F3A";
/// The paths that the rules of these tests deny to be read.
const DENIED: &[&str] = &["secrets", ".env"];
/// For attempts that wait for ever.
const SECONDS: u64 = 2;
/// Many attempts wait until they are ended, so several are run at a time, each on its own stage.
const AT_ONCE: usize = 4;
/// Of these attempts one is run as it is too.
const CONTROL: usize = 30;
/// The programs that a person's rule names, each with any arguments.
const PROGRAMS: [&str; 20] = [
    "git", "find", "tar", "ssh", "split", "sort", "grep", "rg", "ls", "cat", "head", "tail", "wc", "diff", "echo",
    "printf", "rsync", "zip", "man", "date",
];

#[derive(Deserialize)]
struct Attempt {
    command: String,
    #[serde(default)]
    class: String,
    #[serde(default)]
    effect: String,
    /// Left out in the older corpus: what the rules said.
    #[serde(default)]
    expected: Option<Action>,
}

/// The attempts of both corpora, each command once.
fn attempts() -> Vec<Attempt> {
    let texts = [
        include_str!("../../../../permission/shell/corpus/attempts.jsonl"),
        include_str!("../../../../permission/shell/corpus/bypasses.jsonl"),
    ];
    let mut seen = BTreeSet::new();
    let read = |line: &str| serde_json::from_str::<Attempt>(line).unwrap();
    let all = texts.iter().flat_map(|text| text.lines()).map(read);
    let all = all.filter(|attempt| attempt.expected != Some(Action::Allow));
    all.filter(|attempt| seen.insert(attempt.command.clone())).collect()
}

/// A prepared workspace, a folder outside, a server that must not be reached, and a process that must not be ended.
struct Stage {
    scene: Scene,
    server: TcpListener,
    process: Child,
    before: BTreeMap<PathBuf, Option<String>>,
}

impl Stage {
    fn new() -> Stage {
        let scene = scene();
        let outside = scene.folder.path().join("outside");
        fs::create_dir_all(outside.join("dir")).unwrap();
        fs::write(outside.join("secret"), CANARY).unwrap();
        let setup = scene.folder.path().join("setup.sh");
        fs::write(&setup, include_str!("../../../../permission/shell/corpus/setup.sh")).unwrap();
        let built = Command::new("/bin/bash")
            .arg(&setup)
            .arg(&outside)
            .current_dir(scene.path(""))
            .env_clear()
            .envs([("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", scene.folder.path().to_str().unwrap())])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        server.set_nonblocking(true).unwrap();
        let process = Command::new("/bin/sleep").arg("1000").process_group(0).spawn().unwrap();
        fs::write(outside.join("pid"), process.id().to_string()).unwrap();
        let before = beside(&scene);
        Stage { scene, server, process, before }
    }

    /// A stage whose repository has no hooks: a rule about git allows what its hooks run, which cannot be planted without a yes.
    fn without_hooks() -> Stage {
        let stage = Stage::new();
        fs::remove_dir_all(stage.scene.path(".git/hooks")).unwrap();
        stage
    }

    /// The attempt with the places of this stage in it, also where they are written in base64.
    fn aimed(&self, command: &str) -> String {
        use base64::Engine as _;
        let outside = self.scene.folder.path().join("outside").display().to_string();
        let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
        let hidden = encode(&format!("touch {outside}/marker\n"));
        let port = self.server.local_addr().unwrap().port().to_string();
        let aimed = command.replace("dG91Y2ggL291dHNpZGUvbWFya2Vy", &hidden).replace("/outside", &outside);
        aimed.replace("PORT", &port)
    }

    /// What came about of a run, besides what it printed.
    fn effects(&mut self) -> Vec<&'static str> {
        let mut effects = Vec::new();
        if beside(&self.scene) != self.before {
            effects.push("something outside changed");
        }
        match self.server.accept() {
            Ok(_) => effects.push("it connected"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        if self.process.try_wait().unwrap().is_some() {
            effects.push("it ended a process");
        }
        effects
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// What is in a scene beside its workspace.
fn beside(scene: &Scene) -> BTreeMap<PathBuf, Option<String>> {
    let mut found = sandbox::all(scene.folder.path());
    found.retain(|path, _| !path.starts_with(scene.path("")) && !path.starts_with(scene.folder.path().join("spill")));
    found
}

/// The rules under which an attempt is judged: each profile, with reads that are denied.
fn profiles() -> Vec<(Profile, Ruleset)> {
    let with = |profile: Profile| {
        let mut rules = profile.ruleset();
        rules.rules.extend(["secrets/**", "**/.env"].map(|path| Rule::new("read", path, Action::Deny)));
        (profile, rules)
    };
    PROFILES.map(with).into()
}

/// A run of an attempt without a yes: unconfined, or confined, with the files that it may write.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Confined(Vec<String>),
    AsItIs,
}

fn way(rules: &Ruleset, command: &str, workspace: &str) -> Option<Way> {
    let parts = with_parts(vec![Access::command(command, "", true)]);
    let parts = seen_from(workspace, &[], parts);
    let verdict = decide(&[rules], &parts, &Globs::default());
    (verdict.judgement.action == Action::Allow).then(|| match verdict.confined {
        true => Way::Confined(parts.iter().filter(|part| part.is_write()).map(|part| part.pattern.clone()).collect()),
        false => Way::AsItIs,
    })
}

async fn run(stage: &Stage, way: &Way, command: &str) -> ToolResult {
    let context = match way {
        Way::Confined(writes) => {
            let writes: Vec<&str> = writes.iter().map(String::as_str).collect();
            context(&stage.scene, &writes, DENIED)
        }
        Way::AsItIs => stage.scene.context(),
    };
    stage.scene.bash.run(json!({ "command": command, "timeout": SECONDS }), &context).await
}

/// Runs these attempts, one after the other on their own stage, in each way in which some profile runs them without a yes.
/// Returns how many runs there were, and those that succeeded.
async fn try_all(attempts: impl Iterator<Item = &Attempt>) -> (usize, Vec<String>) {
    let mut stage = Stage::new();
    let (mut ran, mut wrong) = (0, Vec::new());
    for attempt in attempts {
        let workspace = stage.scene.path("").display().to_string();
        let command = stage.aimed(&attempt.command);
        let ways: BTreeSet<Way> = profiles()
            .into_iter()
            .filter_map(|(profile, rules)| {
                let way = way(&rules, &command, &workspace)?;
                let by_table = matches!(profile, Profile::Auto | Profile::Opencode) && way == Way::AsItIs;
                (!by_table).then_some(way)
            })
            .collect();
        for way in &ways {
            let result = run(&stage, way, &command).await;
            ran += 1;
            let mut effects = stage.effects();
            let printed = result.content.split("[Nobody was asked").next().unwrap_or_default();
            if printed.contains(CANARY) && !attempt.command.contains("CANARY") {
                effects.push("it printed what may not be read");
            }
            if !effects.is_empty() {
                wrong.push(format!("{}: {}: {effects:?}: {}", attempt.class, attempt.command, result.content));
                stage = Stage::new();
                break;
            }
        }
    }
    stage.scene.is_clean();
    (ran, wrong)
}

/// Must show 1 of the guards: under every profile, of at least 1,200 attempts none that runs without a yes comes about. What `auto` and
/// `opencode` allow as it is, is what their table says, and is not run.
#[test]
fn no_attempt_that_nobody_said_yes_to_comes_about() {
    sandbox::as_nobody(|| {
        sandbox::block_on(async {
            let all = attempts();
            assert!(all.len() >= 1_200, "{}", all.len());
            if !can_hold(&Stage::new().scene).await {
                return;
            }
            // The control: attempts of these do come about where nothing holds them.
            let (mut controls, mut would) = (0, 0);
            for attempt in all.iter().filter(|attempt| attempt.effect == "exec").step_by(CONTROL) {
                let mut stage = Stage::new();
                run(&stage, &Way::AsItIs, &stage.aimed(&attempt.command)).await;
                controls += 1;
                would += usize::from(!stage.effects().is_empty());
            }
            assert!(would * 3 > controls, "{would} of {controls} come about where nothing holds them");
            let side_by_side = (0..AT_ONCE).map(|nth| try_all(all.iter().skip(nth).step_by(AT_ONCE)));
            let tried = futures_util::future::join_all(side_by_side).await;
            let ran: usize = tried.iter().map(|(ran, _)| ran).sum();
            let wrong: Vec<String> = tried.into_iter().flat_map(|(_, wrong)| wrong).collect();
            let classes: BTreeSet<&str> = all.iter().map(|attempt| attempt.class.as_str()).collect();
            println!(
                "{} attempts in {} classes, {ran} runs without a yes, {} came about",
                all.len(),
                classes.len(),
                wrong.len()
            );
            assert!(ran > all.len() / 2, "{ran}");
            assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n---\n"));
        });
    });
}

/// Whether an attempt tries to run another program in hiding. What a program's own options write where its arguments say so is
/// what a rule about that program allows.
fn hides_a_program(attempt: &Attempt) -> bool {
    let names_a_place = |word: &str| {
        let place = word
            .find("/outside/")
            .is_some_and(|at| word[..at].chars().all(|c| c.is_ascii_lowercase() || "-=".contains(c)));
        place && !attempt.command.contains("touch")
    };
    matches!(attempt.effect.as_str(), "exec" | "") && !attempt.command.split(' ').any(names_a_place)
}

/// The same under a person's rule that names one of twenty programs, with any arguments: what is run by it in hiding does not run.
#[test]
fn no_attempt_hides_in_what_a_rule_names() {
    sandbox::as_nobody(|| {
        sandbox::block_on(async {
            let (mut ran, mut wrong) = (0, Vec::new());
            let mut stage = Stage::without_hooks();
            let workspace = stage.scene.path("").display().to_string();
            for attempt in attempts().iter().filter(|attempt| hides_a_program(attempt)) {
                let command = stage.aimed(&attempt.command);
                let rules = PROGRAMS.map(|program| {
                    let pattern = format!("{program} *");
                    let rules = [Rule::new("bash", pattern, Action::Allow), Rule::new("bash", program, Action::Allow)];
                    Ruleset::new("session", [Profile::Strict.ruleset().rules, rules.into()].concat())
                });
                if !rules.iter().any(|rules| way(rules, &command, &workspace) == Some(Way::AsItIs)) {
                    continue;
                }
                let result = run(&stage, &Way::AsItIs, &command).await;
                ran += 1;
                // A stage that a command was let loose in is not the same any more.
                if !stage.effects().is_empty() {
                    wrong.push(format!("{}: {}: {}", attempt.class, attempt.command, result.content));
                    stage = Stage::without_hooks();
                }
            }
            println!("{ran} runs by a rule that names a program, {} came about", wrong.len());
            assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n---\n"));
        });
    });
}

/// How many random texts an ordinary run tries. `TAMTAM_GUARD_TEXTS=120000` takes about an hour.
const TEXTS: usize = 1_200;

/// A random text: attempts in frames, linked, with some characters changed.
fn random_text(random: &mut Random, attempts: &[Attempt]) -> String {
    const FRAMES: &[(&str, &str)] = &[
        ("", ""),
        ("( ", " )"),
        ("{ ", "; }"),
        ("echo $(", ")"),
        ("eval '", "'"),
        ("bash -c '", "'"),
        ("sh -c \"", "\""),
        ("if ", "; then :; fi"),
        ("cat <<E\n$(", ")\nE\n"),
        ("timeout 1 ", ""),
        ("cd sub && ", ""),
        ("x=$(", ")"),
        ("f() { ", "; }; f"),
        ("! ", ""),
        ("", " > out"),
        ("", " 2>&1 | cat"),
        ("< f ", ""),
        ("env A=1 ", ""),
        ("[[ -n $(", ") ]]"),
        ("", " &\nwait"),
        ("coproc ", ""),
        ("{ ", "; } >> f"),
        ("a=(", ")"),
    ];
    const LINKS: &[&str] = &["; ", " && ", " || ", " | ", "\n", " & ", " |& ", " # x\n"];
    const SIGNS: &[char] =
        &['\'', '"', '\\', ' ', '\n', '$', '`', '(', ')', '{', '}', '<', '>', '&', '|', ';', '~', '*', '-', '='];
    let mut text = String::new();
    for at in 0..=random.below(2) {
        if at > 0 {
            text.push_str(LINKS[random.below(LINKS.len())]);
        }
        let (before, behind) = FRAMES[random.below(FRAMES.len())];
        text.push_str(before);
        text.push_str(&attempts[random.below(attempts.len())].command);
        text.push_str(behind);
    }
    let mut chars: Vec<char> = text.chars().collect();
    for _ in 0..random.below(3) {
        let at = random.below(chars.len() + 1);
        match random.below(2) {
            0 if at < chars.len() => drop(chars.remove(at)),
            _ => chars.insert(at, SIGNS[random.below(SIGNS.len())]),
        }
    }
    chars.into_iter().collect()
}

/// A pseudo-random sequence that is the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}

/// Random texts made of the attempts, judged and really run wherever they run without a yes. `TAMTAM_GUARD_TEXTS` says how many,
/// `TAMTAM_GUARD_SEED` which.
#[test]
fn no_random_text_that_nobody_said_yes_to_comes_about() {
    let number = |name: &str, usual: u64| std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(usual);
    let texts = usize::try_from(number("TAMTAM_GUARD_TEXTS", TEXTS as u64)).unwrap();
    let mut random = Random(number("TAMTAM_GUARD_SEED", 1));
    sandbox::as_nobody(|| {
        sandbox::block_on(async {
            let all = attempts();
            let mut stage = Stage::new();
            if !can_hold(&stage.scene).await {
                return;
            }
            let workspace = stage.scene.path("").display().to_string();
            let profiles: Vec<_> = profiles()
                .into_iter()
                .filter(|(profile, _)| matches!(profile, Profile::Readonly | Profile::Edits))
                .collect();
            let (mut ran, mut wrong) = (0, Vec::new());
            for n in 0..texts {
                let text = random_text(&mut random, &all);
                // What waits is in the corpus already.
                if ["sleep", "read", "tail -f", "wait"].iter().any(|waits| text.contains(waits)) {
                    continue;
                }
                let command = stage.aimed(&text);
                let ways: BTreeSet<Way> =
                    profiles.iter().filter_map(|(_, rules)| way(rules, &command, &workspace)).collect();
                for way in ways {
                    assert!(way != Way::AsItIs, "no profile of these lets a command run as it is: {text}");
                    run(&stage, &way, &command).await;
                    ran += 1;
                }
                // A few runs share a stage, so that a look at what came about is not needed after each.
                if n % 8 == 7 || n + 1 == texts {
                    let effects = stage.effects();
                    if !effects.is_empty() {
                        wrong.push(format!("{effects:?} by one of the eight texts up to {text}"));
                        stage = Stage::new();
                    }
                }
            }
            println!("{ran} runs of {texts} random texts, {} came about", wrong.len());
            assert!(ran > texts / 4, "{ran}");
            assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n---\n"));
        });
    });
}

/// Must show 4 of the guards: the page says of each class of attempts what decides about it.
#[test]
fn the_page_says_of_each_class_what_holds_it() {
    let page = include_str!("../../../../../docs/SECURITY.md");
    let rows = page.lines().skip_while(|line| !line.starts_with("| class of attempts |")).skip(2);
    let rows: BTreeMap<&str, &str> = rows
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
            (cells[0].trim_matches('`'), cells[1])
        })
        .collect();
    let all = attempts();
    let classes: BTreeSet<&str> = all.iter().map(|attempt| attempt.class.as_str()).collect();
    assert_eq!(rows.keys().copied().collect::<Vec<_>>(), classes.into_iter().collect::<Vec<_>>());
    for (class, held) in rows {
        assert!(["kernel", "rule", "rule, kernel", "not promised"].contains(&held), "{class}: {held}");
    }
}
