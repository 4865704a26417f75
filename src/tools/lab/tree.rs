//! Trees of files with ignore files in them, and what git says about them: the model that find and grep are held against.

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
    /// Puts it in a workspace, and makes that a repository. What cannot be (a file where a folder is) is left out.
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

    /// What git says, untouched by the settings of whoever runs the tests. Finding nothing is no error.
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

/// Any tree.
pub(in crate::tools) fn any() -> impl Strategy<Value = Tree> {
    let files = proptest::collection::vec((file(), proptest::collection::vec("[ab]{0,3}", 0..4)), 1..20);
    let ignores = proptest::collection::vec(ignore_file(), 1..5);
    (files, ignores).prop_map(|(files, ignores)| Tree { files, ignores })
}

/// Few names, so that many rules of several ignore files meet the same file.
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
