//! What is offered for each kind of access, in words; and that no offer is wider than its words.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;

fn said(accesses: &[(&str, &str)]) -> Vec<String> {
    let accesses: Vec<_> = accesses.iter().map(|(permission, pattern)| Access::new(*permission, *pattern)).collect();
    offers(&accesses).into_iter().map(|offer| offer.allows).collect()
}

fn takes(offer: &Offer, permission: &str, pattern: &str) -> bool {
    grants(&offer.rules, &Access::new(permission, pattern), &Globs::default())
}

/// H-13: what a person is offered for each kind of call, in the words that they read.
#[test]
fn each_kind_of_access_is_offered_with_what_it_means() {
    let table: &[(&str, &str, &[&str])] = &[
        ("bash", "cargo test --lib", &["the command `cargo test --lib`, exactly", "`cargo test` with any arguments"]),
        ("bash", "cargo test", &["the command `cargo test`, exactly", "`cargo test` with any arguments"]),
        ("bash", "cargo run -- x", &["the command `cargo run -- x`, exactly", "`cargo run` with any arguments"]),
        ("bash", "ls -la src", &["the command `ls -la src`, exactly", "`ls` with any arguments"]),
        ("bash", "./deploy.sh now", &["the command `./deploy.sh now`, exactly", "`./deploy.sh` with any arguments"]),
        (
            "bash",
            "npm run test -- -u",
            &["the command `npm run test -- -u`, exactly", "`npm run test` with any arguments"],
        ),
        (
            "read",
            "src/a.rs",
            &["reading `src/a.rs`", "reading all files in the folder `src` and below it, except hidden ones"],
        ),
        ("read", "a.rs", &["reading `a.rs`"]),
        ("read", ".", &["reading `.`"]),
        (
            "edit",
            "src/a/b.rs",
            &["changing `src/a/b.rs`", "changing all files in the folder `src/a` and below it, except hidden ones"],
        ),
        ("edit", ".git/config", &["changing `.git/config`"]),
        ("edit", "src/.env", &["changing `src/.env`"]),
        ("edit", "src/[id]/a.ts", &["changing `src/[id]/a.ts`"]),
        (
            "external_directory",
            "/etc/hosts",
            &[
                "access to `/etc/hosts`, outside the workspace",
                "access outside the workspace to all files in the folder `/etc` and below it, except hidden ones",
            ],
        ),
        ("external_directory", "/hosts", &["access to `/hosts`, outside the workspace"]),
        ("shop", "gong", &["shop for `gong`", "every use of shop"]),
        ("mcp_files_list", "*", &["every use of mcp_files_list"]),
    ];
    for (permission, pattern, expected) in table {
        let expected: Vec<_> = expected.iter().map(|text| format!("Allows {text}.")).collect();
        assert_eq!(said(&[(permission, pattern)]), expected, "{permission} {pattern}");
    }
}

/// Interpreters, wrappers, shell syntax: what runs its arguments is offered exactly, and nothing more.
#[test]
fn a_command_that_runs_others_is_offered_exactly() {
    for command in [
        "sh run.sh",
        "bash -c ls",
        "/bin/bash x",
        "python3.11 a.py",
        "node a.js",
        "sudo ls",
        "env A=1 ls",
        "xargs ls",
        "find . -name a",
        "A=1 cargo test",
        "cargo test; ls",
        "cargo test\nls",
        "cargo test $(ls)",
        "cargo test | sh",
        "cargo test > a",
        "ls *.o",
        "ls ~",
        "git -C x log",
        "git",
        "git bisect run ls",
        "npm exec ls",
        "npx a",
        "go run .",
        "docker run a ls",
        "docker exec a ls",
        "kubectl exec a ls",
        "npm run",
        " ls",
        "ls  a",
        "echo 'a'",
        "*",
        "",
        ". a",
        "bash-5.2 a",
    ] {
        let offers = offers(&[Access::new("bash", command)]);
        assert_eq!(offers.len(), 1, "{command:?}: {offers:?}");
        assert!(takes(&offers[0], "bash", command), "{command:?}");
        for other in ["ls", "cargo test", "ls a.o", "ls b.o", "sh run.sh x", "x"] {
            assert_eq!(takes(&offers[0], "bash", other), other == command, "{command:?} takes {other:?}");
        }
    }
}

/// A command that is not whole before it runs, and a permission that is a pattern, are not a text that equals itself.
#[test]
fn what_is_not_known_whole_is_not_offered() {
    assert_eq!(said(&[("bash", "rm \u{1}")]), [""; 0]);
    assert_eq!(said(&[("read", "a"), ("bash", "ls \u{2}")]), [""; 0]);
    assert_eq!(said(&[("*", "a")]), [""; 0]);
    assert_eq!(said(&[]), [""; 0]);
    assert!(!grants(&[allow("bash", "*")], &Access::new("bash", "rm \u{1}"), &Globs::default()));
}

/// An offer is about all accesses of the call, each for itself.
#[test]
fn an_offer_is_about_every_access_of_its_call() {
    let outside = [("external_directory", "/srv/x/a"), ("read", "/srv/x/a")];
    assert_eq!(
        said(&outside),
        [
            "Allows access to `/srv/x/a`, outside the workspace; reading `/srv/x/a`.",
            "Allows access outside the workspace to all files in the folder `/srv/x` and below it, except hidden ones; \
             reading all files in the folder `/srv/x` and below it, except hidden ones.",
        ]
    );
    // The one that has no wider step stays as narrow as it is.
    assert_eq!(
        said(&[("bash", "cargo test"), ("edit", "out.log")]),
        [
            "Allows the command `cargo test`, exactly; changing `out.log`.",
            "Allows `cargo test` with any arguments; changing `out.log`.",
        ]
    );
    assert_eq!(said(&[("bash", "ls"), ("bash", "ls")])[0], "Allows the command `ls`, exactly.");
}

/// A wildcard that a person granted takes no shell syntax and nothing hidden, with any pattern.
#[test]
fn a_granted_wildcard_is_about_plain_things() {
    let cargo = &offers(&[Access::new("bash", "cargo test")])[1];
    for (command, expected) in [
        ("cargo test", true),
        ("cargo test --lib a::b", true),
        ("cargo test; rm -rf x", false),
        ("cargo test\nrm x", false),
        ("cargo test $(rm x)", false),
        ("cargo test > a", false),
        ("cargo testify", false),
        ("cargo build", false),
        (" cargo test", false),
    ] {
        assert_eq!(takes(cargo, "bash", command), expected, "{command:?}");
    }
    let folder = &offers(&[Access::new("edit", "src/a.rs")])[1];
    for (path, expected) in [
        ("src/b.rs", true),
        ("src/a/b.rs", true),
        ("srcs/b.rs", false),
        ("b.rs", false),
        ("src/.env", false),
        ("src/.git/config", false),
        ("src/../b.rs", false),
        ("/src/b.rs", false),
    ] {
        assert_eq!(takes(folder, "edit", path), expected, "{path:?}");
    }
    assert!(!takes(folder, "read", "src/b.rs"), "no offer across permissions");
    let outside = &offers(&[Access::new("external_directory", "/home/a/x")])[1];
    assert!(
        takes(outside, "external_directory", "/home/a/y/z") && !takes(outside, "external_directory", "/home/a/.ssh/id")
    );
}

fn access() -> impl Strategy<Value = Access> {
    let permission = prop_oneof![Just("bash"), Just("read"), Just("edit"), Just("external_directory"), Just("shop")];
    let word = prop_oneof![
        Just("git"),
        Just("cargo"),
        Just("test"),
        Just("log"),
        Just("ls"),
        Just("lsof"),
        Just("run"),
        Just("src"),
        Just("a.rs"),
        Just(".env"),
        Just("*"),
        Just("?"),
        Just("[a]"),
        Just(";"),
        Just("sh"),
        Just("-x"),
        Just("\n"),
    ];
    let text = prop_oneof![
        (prop::collection::vec(word, 1..5), prop_oneof![Just(" "), Just("/"), Just("")])
            .prop_map(|(words, by)| words.join(by)),
        "[ -~]{0,12}",
        "[ a-z*?/.;$]{0,8}",
    ];
    (permission, text).prop_map(|(permission, text)| Access::new(permission, text))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    /// Never wider than what was asked: an offer takes what was asked, the first one takes nothing else, and none takes another
    /// program, another permission or shell syntax.
    #[test]
    fn an_offer_takes_what_was_asked_and_no_other_program(asked in access(), other in access()) {
        let offers = offers(std::slice::from_ref(&asked));
        prop_assert!((1..=2).contains(&offers.len()));
        let globs = Globs::default();
        for offer in &offers {
            prop_assert!(grants(&offer.rules, &asked, &globs), "{:?} does not take {:?}", offer, asked);
            prop_assert!(offer.rules.iter().all(|rule| rule.action == Action::Allow && rule.permission == asked.permission));
            if !grants(&offer.rules, &other, &globs) || other == asked {
                continue;
            }
            prop_assert_eq!(&other.permission, &asked.permission);
            let is_at_large = asked.permission == "shop" && asked.pattern == "*";
            prop_assert!(offer.offer > 1 || is_at_large, "{:?} takes {:?}", offer, other);
            if asked.permission == "bash" {
                prop_assert_eq!(other.pattern.split(' ').next(), asked.pattern.split(' ').next());
                prop_assert!(other.pattern.chars().all(is_plain));
            }
        }
    }
}
