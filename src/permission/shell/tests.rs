//! The tests of shell judgement: a corpus as data, properties over random commands, and a comparison with bash itself.
#![allow(clippy::unwrap_used, clippy::panic)]

mod against_bash;
mod costs;
mod programs;
mod readings;

use proptest::prelude::*;

use super::*;
use crate::{
    permission::{Action, Globs, Profile, Rule, Ruleset, decide, seen_from},
    tool::{Access, one_line},
};
use against_bash::{Random, script};

fn ruleset(rules: &[(&str, &str, Action)]) -> Ruleset {
    let rules = rules.iter().map(|(permission, pattern, action)| Rule::new(*permission, *pattern, *action));
    Ruleset::new("session", rules)
}

/// What a session decides about a command, and why.
struct Judged {
    action: Action,
    why: String,
    /// Whether it runs confined by the kernel.
    confined: bool,
}

fn judged(rules: &Ruleset, command: &str) -> Judged {
    by_layers(&[rules], command)
}

/// Judges a command as a session does that works in `/work`.
fn by_layers(layers: &[&Ruleset], command: &str) -> Judged {
    of_line(layers, Access::command(command, "", true))
}

fn of_line(layers: &[&Ruleset], line: Access) -> Judged {
    let parts = seen_from("/work", &["/spill".to_owned()], with_parts(vec![line]));
    let verdict = decide(layers, &parts, &Globs::default());
    Judged { action: verdict.judgement.action, why: verdict.why(&parts), confined: verdict.confined }
}

fn found(command: &str) -> Found {
    match analyse(command, "") {
        Analysis::Found(found) => found,
        Analysis::Unclear { why } => panic!("{command}: {why}"),
    }
}

fn texts(command: &str) -> Vec<String> {
    found(command).commands.iter().map(|simple| one_line(&joined(&simple.text()))).collect()
}

fn is_unclear(command: &str) -> bool {
    matches!(analyse(command, ""), Analysis::Unclear { .. })
}

#[test]
fn a_command_is_known_by_its_name_and_its_words_without_quotes() {
    for (command, expected) in [
        ("  /bin/rm   -r 'a b' \"c\"d", "rm -r a b cd"),
        ("\\r'm' $'\\x61\\t\\u0062\\063'", "rm a b3"),
        ("c \"a\\\"b\\x\" \"  $x  \" a\\ b", "c a\"b\\x   …   a b"),
        ("ls *.rs ~/x {a,b} \"*\" HEAD~1 @{u}", "ls ….rs …/x… * HEAD~1 @{u}"),
        ("> f ls -a", "ls -a"),
        ("ls > f -a", "ls -a"),
        ("ls \\\n -a", "ls -a"),
        ("git --no-pager log", "git log"),
    ] {
        assert_eq!(texts(command), [expected], "{command}");
    }
}

/// H-11: every command is found, in any place.
#[test]
fn every_command_is_found_wherever_it_stands() {
    for command in [
        "a; rm x",
        "a && rm x",
        "a || rm x",
        "a | rm x",
        "a & rm x",
        "(rm x)",
        "{ rm x; }",
        "! rm x",
        "a\nrm x",
        "if rm x; then a; fi",
        "if a; then rm x; fi",
        "if a; then b; elif rm x; then c; fi",
        "if a; then b; else rm x; fi",
        "while rm x; do a; done",
        "until a; do rm x; done",
        "for i in a; do rm x; done",
        "case a in a) rm x;; esac",
        "a $(rm x)",
        "a `rm x`",
        "a \"$(rm x)\"",
        "a <(rm x)",
        "a > >(rm x)",
        "a <<E\n$(rm x)\nE",
        "a <<E | rm x\nb\nE",
        "a <<< $(rm x)",
        "v=$(rm x)",
        "v=$(rm x) && a",
        "case $(rm x) in a) b;; esac",
        "[ -n \"$(rm x)\" ]",
        "a $(b $(rm x))",
        "time rm x",
    ] {
        assert!(texts(command).contains(&"rm x".to_owned()), "{command}: {:?}", texts(command));
    }
}

#[test]
fn redirects_are_reads_and_writes_from_each_folder_that_they_may_start_in() {
    let opened = |command: &str| (found(command).reads, found(command).writes);
    let strings = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>();
    for (command, reads, writes) in [
        ("a > f 2>> g < h", &["h"][..], &["f", "g"][..]),
        ("a &> f; b >| g; c >& h", &[], &["f", "g", "h"]),
        ("a 2>&1 > /dev/null < /dev/stdin", &[], &[]),
        ("cd s && a > f", &[], &["f", "s/f"]),
        ("cd /s; a > ../f", &[], &["../f", "/f"]),
        ("{ a; } > x/../f", &[], &["f"]),
        ("a | tee f g", &[], &["f", "g"]),
        ("find . -fprint f", &[], &["f"]),
    ] {
        assert_eq!(opened(command), (strings(reads), strings(writes)), "{command}");
    }
}

/// H-11: the strictest part decides, and the explanation names it.
#[test]
fn the_part_that_decides_is_named() {
    let rules = ruleset(&[
        ("bash", "*", Action::Allow),
        ("edit", "**", Action::Allow),
        ("bash", "rm *", Action::Deny),
        ("edit", "a", Action::Ask),
    ]);
    let why = |command: &str| judged(&rules, command).why;
    assert_eq!(why("ls; /bin/rm x"), "`rm x`: denied by the rule `deny bash rm *`");
    assert_eq!(why("ls > a"), "it writes `a`: asked about by the rule `ask edit a`");
    assert_eq!(why("ls > b"), "`ls`: allowed by the rule `allow bash *`");
    assert!(
        why("eval x").starts_with("the command cannot be judged by its parts: it has the command `eval`: asked about")
    );
    assert!(!why(&format!("ls {}\nrm x", "y".repeat(500))).contains('\n'));
}

/// A rule about a wrapper counts, and a wrapper alone does not cause a question.
#[test]
fn a_wrapper_is_judged_where_a_rule_is_about_it() {
    let rules = ruleset(&[
        ("bash", "cargo *", Action::Allow),
        ("bash", "nice *", Action::Deny),
        ("bash", "nohup *", Action::Ask),
    ]);
    let action = |command: &str| judged(&rules, command).action;
    assert_eq!(action("timeout 5 cargo test"), Action::Allow);
    assert_eq!(action("nice cargo test"), Action::Deny);
    assert_eq!(action("nohup cargo test"), Action::Ask);
    // It changes rights, so a rule must allow it.
    assert_eq!(action("sudo cargo test"), Action::Ask);
}

/// A deny over the whole text still holds.
#[test]
fn a_rule_that_denies_the_whole_text_denies_it() {
    let rules = ruleset(&[("bash", "*", Action::Allow), ("bash", "*curl*|*sh*", Action::Deny)]);
    assert_eq!(judged(&rules, "curl x | sh").action, Action::Deny);
    assert_eq!(judged(&rules, "curl x").action, Action::Allow);
}

/// What runs confined is allowed where the paths that it names are.
#[test]
fn a_report_is_a_read_of_its_paths() {
    let mut rules = Profile::Edits.ruleset();
    rules.rules.push(Rule::new("read", "secret/**", Action::Deny));
    let action = |command: &str| judged(&rules, command).action;
    assert_eq!(action("cat src/a /work/b /spill/c"), Action::Allow);
    assert_eq!(action("cat src/../secret/a"), Action::Deny);
    assert_eq!(action("cd secret && cat a"), Action::Deny);
    assert_eq!(action("cat /etc/passwd"), Action::Ask);
    // What it does not name is the kernel's to refuse.
    assert_eq!(action("cat \"$x\""), Action::Allow);
    // A rule of a person about bash goes before what the profile says of confined commands.
    let later = ruleset(&[("bash", "*", Action::Deny)]);
    assert_eq!(by_layers(&[&rules, &later], "ls").action, Action::Deny);
}

/// With a rule that denies a read, a report that may read what the rule names runs confined, so that the kernel holds the rule. Where
/// it would not run confined it is a command like any other, and a person is asked at least; so is one that reads what has no
/// path, the history of a repository. One that cannot read it stays a report.
#[test]
fn a_report_that_may_read_what_is_denied_is_none() {
    let judge = |profile: Profile, denied: &str, command: &str| {
        let mut rules = profile.ruleset();
        rules.rules.push(Rule::new("read", denied, Action::Deny));
        judged(&rules, command)
    };
    for (denied, command) in [
        ("**/.env", "grep -rn KEY ."),
        ("**/.env", "grep -r KEY"),
        ("**/.env", "grep --recursive KEY src"),
        ("**/.env", "egrep -iR KEY src"),
        ("**/.env", "rg KEY"),
        ("**/.env", "diff a b"),
        ("**/.env", "git grep KEY"),
        ("**/.env", "git show HEAD:.env"),
        ("**/.env", "git log -p"),
        ("**/.env", "git log -L1,2:.env"),
        ("**/.env", "git blame .env"),
        ("**/.env", "git cat-file -p HEAD:.env"),
        ("**/.env", "git diff"),
        ("**/.env", "git stash show -p"),
        ("**/.env", "git status -v"),
        ("**/.env", "cat .e*"),
        ("**/.env", "cat .en?"),
        ("**/.env", "cat */.env"),
        ("**/.{env,key}", "cat */*"),
        ("secrets/**", "cat secrets/*"),
        ("secrets/**", "cat s*/key"),
        ("**/*.pem", "cat key.p?m"),
        ("**/*.pem", "cat *"),
        ("**/secrets.txt", "head -n 5 *.txt"),
        ("**/secrets.txt", "wc -l [r-t]*"),
    ] {
        for profile in [Profile::Auto, Profile::Opencode] {
            assert_eq!(
                judge(profile, denied, command).action,
                Action::Ask,
                "{denied}: {command} under {}",
                profile.name()
            );
        }
        for profile in [Profile::Readonly, Profile::Edits] {
            let judged = judge(profile, denied, command);
            let held = judged.action == Action::Allow && judged.confined && !command.starts_with("git");
            assert!(held || judged.action > Action::Allow, "{denied}: {command} under {}", profile.name());
        }
        assert_eq!(judged(&Profile::Readonly.ruleset(), command).action, Action::Allow, "{command} without the rule");
    }
    for (denied, command) in [
        ("**/.env", "ls *.rs"),
        ("**/.env", "cat *"),
        ("**/.env", "git status"),
        ("**/.env", "git log --oneline"),
        ("**/.env", "find . -name x"),
        ("**/.env", "grep KEY src/a.rs"),
        ("secrets/**", "grep -r KEY src"),
        ("**/*.pem", "wc -l src/*.rs"),
    ] {
        assert_eq!(judge(Profile::Readonly, denied, command).action, Action::Allow, "{denied}: {command}");
    }
    // A rule that is no longer in force, a rule about the command itself, and an operand that only looks like an option.
    let with = |rules: &[(&str, &str, Action)]| {
        let mut all = Profile::Readonly.ruleset();
        all.rules.extend(ruleset(rules).rules);
        all
    };
    let later = with(&[("read", "**/.env", Action::Deny), ("read", "**", Action::Allow)]);
    assert_eq!(judged(&later, "git diff").action, Action::Allow);
    let own = with(&[("read", "**/.env", Action::Deny), ("bash", "git diff", Action::Allow)]);
    assert_eq!(judged(&own, "git diff").action, Action::Allow);
    let denied = judged(&with(&[("read", "**/.env", Action::Deny)]), "git diff");
    assert_eq!(denied.why, "`git diff`: denied by the rule `deny read **/.env`");
    assert_eq!(judged(&with(&[("read", "-notes", Action::Deny)]), "cat -- -notes").action, Action::Deny);
}

#[test]
fn a_long_or_deep_command_is_unclear() {
    let unclear = |command: &str| matches!(analyse(command, ""), Analysis::Unclear { .. });
    assert!(unclear(&format!("ls {}", "a".repeat(bounds::TEXT_BYTES_MAX))));
    assert!(unclear(&format!("ls {}ls{}", "$(ls ".repeat(200), ")".repeat(200))));
    assert!(unclear(&"(".repeat(30_000)));
    assert!(unclear(&"ls && ".repeat(2_000)));
    assert!(!unclear(&vec!["ls"; 60].join(" && ")));
    assert!(!unclear(&vec!["ls"; 900].join("\n")));
    assert!(unclear(&vec!["ls"; 1_100].join("\n")));
    // A denied command could follow the checked arguments of a runner.
    let runs = |arguments: usize| format!("flock lock{} rm x", " -n".repeat(arguments));
    assert!(!unclear(&runs(20)));
    assert!(unclear(&runs(40)));
}

/// A model chooses the command: what becomes of it takes no more room than its length allows, and a person is asked about the rest.
#[test]
fn the_parts_of_a_command_take_bounded_room() {
    let size = |command: &str| {
        let parts = with_parts(vec![Access::new("bash", command)]);
        (parts.len(), serde_json::to_string(&parts).unwrap().len())
    };
    let folders: String = (0..12).map(|n| format!("cd {n}{}; ", "x".repeat(900))).collect();
    let opened =
        format!("{folders}{}", "a > b; ".to_owned() + &(0..400).map(|n| format!("> f{n}; ")).collect::<String>());
    for command in [opened, "env ".repeat(80) + &"y".repeat(60_000), (0..900).map(|n| format!("ls {n}\n")).collect()] {
        let (many, bytes) = size(&command);
        assert!(bytes < 40 * 1024 + 17 * command.len(), "{many} parts in {bytes} bytes, of {} bytes", command.len());
    }
    assert_eq!(size("ls; ls; ls").0, 2);
    assert_eq!(size("cargo test").0, 1);
}

/// What a person allowed for always holds for equal accesses: those of another command are not equal where a value is not known.
#[test]
fn accesses_with_unknown_parts_are_equal_in_equal_commands_only() {
    let parts = |command: &str| with_parts(vec![Access::new("bash", command)]);
    let both = |one: &str, other: &str| parts(one).iter().any(|access| parts(other).contains(access));
    assert!(both("cargo test; ls", "cargo  test | cat"));
    assert!(both("rm $x; ls", "rm $x; ls"));
    assert!(!both("rm $x; ls", "rm $y; pwd"));
    assert!(!both("x=a; rm \"$x\"; ls", "x=/; rm \"$x\"; pwd"));
    assert!(!both("eval a", "eval b"));
    assert!(!both("cat a", "cd c; cat a"));
}

/// Frames around a command in which it stays a command.
const FRAMES: &[(&str, &str)] = &[
    ("", ""),
    (" ", ""),
    ("ls; ", ""),
    ("ls && ", ""),
    ("false || ", ""),
    ("ls | ", ""),
    ("ls & ", ""),
    ("", " | cat"),
    ("", "; ls"),
    ("", " &"),
    ("(", ")"),
    ("{ ", "; }"),
    ("if ls; then ", "; fi"),
    ("if ", "; then ls; fi"),
    ("while ", "; do ls; done"),
    ("for i in a b; do ", "; done"),
    ("echo $(", ")"),
    ("echo \"a $(", ") b\""),
    ("cat <(", ")"),
    // Both parentheses: after a word such as `watch` these are not keywords, and the second one alone would close a `$(`.
    ("case a in (a) ", ";; esac"),
    ("cat <<E\n$(", ")\nE\n"),
    ("! ", ""),
    ("ls\n", "\n"),
    ("ls # a\n", ""),
    ("timeout 5 ", ""),
    ("env ", ""),
    ("nohup nice ", ""),
    ("command ", ""),
    ("/usr/bin/", ""),
    ("\\", ""),
    ("time ", ""),
    ("x=$(", ")"),
    ("> /dev/null ", ""),
    ("", " > /dev/null"),
    ("sudo ", ""),
    ("xargs ", ""),
    ("NO_COLOR=1 ", ""),
    ("\t", ""),
    ("bash -c '", "'"),
    ("sh -c \"", "\""),
    ("watch ", ""),
    ("find . -exec ", " \\;"),
    ("[ -n \"$(", ")\" ] && ls"),
    ("until ", "; do break; done"),
];

/// What a program runs that is given a word which is not known may be what a rule denies.
#[test]
fn an_unknown_word_of_a_runner_may_be_what_is_denied() {
    let rules = ruleset(&[("bash", "*", Action::Allow), ("bash", "rm *", Action::Deny)]);
    for command in ["watch sh -c \"rm $x\"", "watch $x", "ssh host \"ls; $x\"", "tmux new \"ls $x\""] {
        assert_eq!(judged(&rules, command).action, Action::Ask, "{command}");
    }
    assert_eq!(judged(&ruleset(&[("bash", "*", Action::Allow)]), "watch ls $x").action, Action::Allow);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// A denied command is never allowed by its surroundings.
    #[test]
    fn a_denied_command_is_denied_in_every_frame(frames in prop::collection::vec(0..FRAMES.len(), 0..6), denied in 0..4usize) {
        let mut command = ["rm -rf x", "r''m x", "rm $x", "'rm' \"a b\""][denied].to_owned();
        for frame in frames {
            let (before, behind) = FRAMES[frame];
            // A quote inside of quotes ends them: the text is not a command then.
            if before.ends_with(['"', '\'']) && command.contains(behind) {
                continue;
            }
            command = format!("{before}{command}{behind}");
        }
        let rules = ruleset(&[("*", "*", Action::Allow), ("bash", "rm *", Action::Deny), ("bash", "rm", Action::Deny)]);
        prop_assert_ne!(judged(&rules, &command).action, Action::Allow, "{}", command);
    }

    #[test]
    fn no_text_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), text in "\\PC{0,200}") {
        let rules = Profile::Auto.ruleset();
        let _ = judged(&rules, &String::from_utf8_lossy(&bytes));
        let _ = judged(&rules, &text);
    }
}

/// Random commands and their pieces: no panic, and nothing allowed that cannot be read.
#[test]
fn random_commands_are_judged_without_a_panic() {
    let mut random = Random(3);
    let rules = Profile::Auto.ruleset();
    for _ in 0..3_000 {
        let text = script(&mut random, 3);
        let cut = text.char_indices().nth(random.below(text.chars().count() + 1)).map_or(text.len(), |(at, _)| at);
        for text in [text.as_str(), &text[..cut], &text[cut..]] {
            if matches!(analyse(text, ""), Analysis::Unclear { .. }) {
                let [held, not] = [true, false].map(|confined| of_line(&[&rules], Access::command(text, "", confined)));
                assert_eq!((held.action, held.confined, not.action), (Action::Allow, true, Action::Ask), "{text}");
            }
        }
    }
}

/// A command that a rule names runs as that rule says, with the reports next to it; with anything else a person is asked.
#[test]
fn a_report_beside_a_command_that_a_rule_names_runs_as_that_one_does() {
    let mut rules = Profile::Edits.ruleset();
    rules.rules.push(Rule::new("bash", "cargo *", Action::Allow));
    let judged = |command: &str| {
        let judged = judged(&rules, command);
        (judged.action, judged.confined)
    };
    for command in
        ["cargo test", "cargo test 2>&1 | tail -5", "cd x && cargo test | sort | uniq -c", "cargo test > log"]
    {
        assert_eq!(judged(command), (Action::Allow, false), "{command}");
    }
    for command in [
        "cargo test; python3 x.py",
        "cargo test | sort -o x",
        "cargo test; git status",
        "cargo test; cat /etc/passwd",
        "cargo test | xxd a b",
    ] {
        assert_eq!(judged(command), (Action::Ask, false), "{command}");
    }
    assert_eq!(judged("python3 x.py"), (Action::Allow, true));
    // A denial of a name holds a command that cannot be read.
    rules.rules.push(Rule::new("bash", "rm *", Action::Deny));
    assert_eq!(by_layers(&[&rules], "eval $x").action, Action::Ask);
    assert_eq!(by_layers(&[&rules], "python3 x.py; rm x").action, Action::Deny);
}

/// F3: the folder that a command starts in is a part of it.
#[test]
fn the_folder_of_a_command_is_judged_with_it() {
    let mut rules = Profile::Edits.ruleset();
    rules.rules.extend(ruleset(&[("bash", "git *", Action::Allow), ("read", "secret/**", Action::Deny)]).rules);
    let action = |command: &str, folder: &str| of_line(&[&rules], Access::command(command, folder, true)).action;
    assert_eq!(action("echo x > hooks/pre-commit", ".git"), Action::Ask);
    assert_eq!(action("cat key", "secret"), Action::Deny);
    assert_eq!(action("cat key", "/etc"), Action::Ask);
    assert_eq!(action("echo x > f", "sub"), Action::Allow);
    let confined = |folder: &str| of_line(&[&rules], Access::command("git push", folder, true)).confined;
    assert_eq!((confined(""), confined("."), confined("sub")), (false, false, true));
}
