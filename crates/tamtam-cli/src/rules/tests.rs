#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use tamtam::{
    permission::{Globs, judge},
    tool::Access,
};

use super::*;
use crate::config::{Said, parse};

fn said(layer: Layer, text: &str) -> Said {
    parse(layer, Path::new(layer.name()), text).unwrap()
}

fn named(folder: &tempfile::TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn decided(rights: &Rights, permission: &str, pattern: &str) -> Action {
    judge(rights.layers(), &Access::new(permission, pattern), &Globs::default()).action
}

fn arguments(permission: Option<Profile>, rules: Option<PathBuf>) -> PermissionArguments {
    PermissionArguments { permission, rules }
}

/// C-02, C-04: each file may loosen the profile and what an earlier file asks about, none what an earlier file denies.
#[test]
fn a_later_file_loosens_asks_and_the_profile_and_never_a_denial() {
    let folder = tempfile::tempdir().unwrap();
    let user = "[rules.bash]\n'rm *' = 'deny'\n'rm -i *' = 'allow'\n'git push*' = 'ask'\n";
    let project =
        "[rules]\nwebfetch = 'deny'\n[rules.bash]\n'rm *' = 'allow'\n'git push*' = 'allow'\n'cargo *' = 'ask'\n";
    let config = Config::of(vec![said(Layer::User, user), said(Layer::Project, project)]);
    let flags = named(&folder, "r.toml", "webfetch = 'allow'\n[bash]\n'rm *' = 'allow'\n'cargo *' = 'allow'\n");
    let rights = rights(&arguments(Some(Profile::Headless), Some(flags)), &config, Audience::Nobody).unwrap();
    for (permission, pattern, expected) in [
        ("bash", "rm x", Action::Deny),
        ("bash", "rm -i x", Action::Allow),
        ("bash", "git push", Action::Allow),
        ("bash", "cargo test", Action::Allow),
        ("bash", "make", Action::Deny),
        ("webfetch", "x", Action::Deny),
        ("read", "x", Action::Allow),
    ] {
        assert_eq!(decided(&rights, permission, pattern), expected, "{permission} {pattern}");
    }
    assert_eq!(rights.host.as_ref().unwrap().name, "user");
}

/// A file whose first match stands keeps its meaning among files whose last match stands.
#[test]
fn files_of_both_orders_stand_together() {
    let first = "[rules]\nmatch_order = 'first'\n[rules.bash]\n'git push*' = 'ask'\n'git *' = 'allow'\n";
    let config = Config::of(vec![said(Layer::User, first)]);
    let rights = rights(&arguments(Some(Profile::Strict), None), &config, Audience::Someone).unwrap();
    assert_eq!(decided(&rights, "bash", "git push x"), Action::Ask);
    assert_eq!(decided(&rights, "bash", "git log"), Action::Allow);
    assert_eq!(rights.host, None, "it denies nothing");
}

#[test]
fn a_rules_file_is_toml_or_json_by_its_name_and_an_error_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let of = |path| rights(&arguments(Some(Profile::Strict), Some(path)), &Config::default(), Audience::Someone);
    for (name, text) in [("a.toml", "bash = 'allow'"), ("a.json", r#"{"bash":"allow"}"#), ("a", r#"{"bash":"allow"}"#)]
    {
        let rights = of(named(&folder, name, text)).unwrap();
        assert_eq!(decided(&rights, "bash", "ls"), Action::Allow, "{name}");
    }
    let bad = of(named(&folder, "bad.toml", "\nbash = 'alow'")).unwrap_err();
    assert!(bad.message.contains("bad.toml: line 2: bash: unknown action \"alow\""), "{}", bad.message);
}
