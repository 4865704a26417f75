//! Random trees of files with `.gitignore` files in them, for the property tests of `find` and `grep`, which compare what a tool
//! finds in such a tree with what git says of it ([`Tree::git`]).
//!
//! The names and patterns are few, so that several ignore rules meet the same file. The git here reads no configuration of the
//! user or the machine; a change must keep that, or the tests would depend on where they run.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::process::Command;

use proptest::prelude::*;

use super::Lab;

/// A tree: files with their lines, and ignore files by folder.
#[derive(Clone, Debug)]
pub(in crate::tools) struct Tree {
    files: Vec<(String, Vec<String>)>,
    ignores: Vec<(String, Vec<String>)>,
}

impl Tree {
    /// Writes the tree into the workspace of a lab, and makes that a git repository. Left out are files whose place is taken (by
    /// a folder, or by a file where a folder is needed) and ignore files without a folder.
    pub(in crate::tools) fn plant(&self, lab: &Lab) {
        for (file, lines) in &self.files {
            let path = lab.path(file);
            if std::fs::create_dir_all(path.parent().unwrap()).is_ok() && !path.is_dir() {
                std::fs::write(&path, lines.join("\n")).unwrap();
            }
        }
        for (folder, lines) in &self.ignores {
            let folder = lab.path(folder);
            if folder.is_dir() {
                std::fs::write(folder.join(".gitignore"), lines.join("\n")).unwrap();
            }
        }
        Tree::git(lab, &["init", "-q"]);
    }

    /// Runs git in the workspace, without the configuration files of the user and the system, and returns its output. A `git
    /// grep` that finds nothing is not an error.
    pub(in crate::tools) fn git(lab: &Lab, arguments: &[&str]) -> String {
        let mut command = Command::new("git");
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        command.env("HOME", lab.outside()).env("XDG_CONFIG_HOME", lab.outside());
        let output = command.current_dir(lab.path("")).args(arguments).output().unwrap();
        let found_nothing = arguments[0] == "grep" && output.status.code() == Some(1);
        assert!(output.status.success() || found_nothing, "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

/// A random tree: up to 19 files, and up to 4 ignore files.
pub(in crate::tools) fn any() -> impl Strategy<Value = Tree> {
    let files = proptest::collection::vec((file(), proptest::collection::vec("[ab]{0,3}", 0..4)), 1..20);
    let ignores = proptest::collection::vec(ignore_file(), 1..5);
    (files, ignores).prop_map(|(files, ignores)| Tree { files, ignores })
}

/// The path of a file, made of few names.
fn file() -> impl Strategy<Value = String> {
    let names = proptest::sample::select(vec!["a", "b", "c.tmp", "d.log", "x y", ".h"]);
    let folders = proptest::sample::select(vec!["", "a/", "b/", "a/b/", "a/a/", "b/a/b/"]);
    (folders, names).prop_map(|(folder, name)| format!("{folder}{name}"))
}

fn ignore_file() -> impl Strategy<Value = (String, Vec<String>)> {
    let patterns = vec![
        "a",
        "b/",
        "*.tmp",
        "!*.tmp",
        "!c.tmp",
        "c.tmp",
        "/a",
        "/b",
        "a/b",
        "**/d.log",
        "!d.log",
        "a/**",
        "!a",
        "*",
        "!*",
        "!*/",
        "!.gitignore",
        "# a",
        "",
        "\\#a",
        "x y",
        "x\\ y",
        "[ab]",
        "?",
        ".*",
        "!.h",
        "b/*",
        "!b/c.tmp",
        "**",
        "**/a/**",
        "/*",
        "!/a",
        "*.log ",
        "d.log\r",
        "a/*/",
        "!a/b/",
    ];
    let line = proptest::sample::select(patterns).prop_map(str::to_owned);
    let folders = proptest::sample::select(vec!["", "a", "b", "a/b", "b/a"]).prop_map(str::to_owned);
    (folders, proptest::collection::vec(line, 1..4))
}
