//! Which commands of `git` report, and which of those print what is in files.
//!
//! Programs that the settings of a repository make git run are not checked: a report of git runs confined. Next to a command that
//! a rule names, which runs as that rule says, no command of git counts as a report.

use crate::permission::shell::Arg;

/// Commands that print, and change nothing that they print.
const REPORTS: &[&str] = &[
    "blame",
    "cat-file",
    "describe",
    "diff",
    "grep",
    "log",
    "ls-files",
    "ls-tree",
    "name-rev",
    "rev-list",
    "rev-parse",
    "shortlog",
    "show",
    "show-ref",
    "status",
    "version",
    "whatchanged",
];

/// Whether a command only reports.
pub(super) fn reports(args: &[Arg]) -> bool {
    match args.first().map(|command| command.text.as_str()) {
        Some("stash") => args.get(1).is_some_and(|what| matches!(what.text.as_str(), "list" | "show")),
        Some(command) => REPORTS.contains(&command),
        None => false,
    }
}

/// Whether a report prints what is in files. A new row of such a command needs a line here.
pub(super) fn prints_contents(args: &[Arg]) -> bool {
    let patch = |arg: &Arg| match arg.text.strip_prefix("--") {
        Some(long) => ["patch", "color-words", "function-context", "verbose"].iter().any(|name| long.starts_with(name)),
        None => arg.text.starts_with('-') && arg.text.contains(['p', 'u', 'c', 'v', 'L', 'U']),
    };
    match args.first().map(|command| command.text.as_str()) {
        Some("show" | "diff" | "blame" | "cat-file" | "grep") => true,
        Some("log" | "whatchanged" | "status") => args.iter().any(patch),
        Some("stash") => args.get(1).is_some_and(|what| what.text == "show"),
        _ => false,
    }
}
