//! The commands of git that only report, each with the options that it may have. Any other option makes the command one that does
//! more than report; so does the shortened name of an option, which git would take.
//!
//! No paths are returned as reads: git reads its repository, and [`prints_contents`] says which commands print what is in its files. An operand that leads out of the folder, or may do so, makes the
//! command one that does more: given two paths, `git diff` reads them from anywhere. What the repository's own settings make git
//! run is not looked at. The profiles that allow such commands therefore ask about edits below `.git` or deny them; only
//! `opencode` allows both.
//!
//! A change must not list an option as one with a value where git takes no separate word for it, because the word behind such an
//! option is not looked at.

use super::{options, path};
use crate::permission::shell::Arg;

/// Options of the commands that show commits and differences.
const SHOW: &[&str] = &[
    "abbrev",
    "abbrev-commit",
    "abbrev=",
    "after=",
    "all",
    "ancestry-path",
    "author=",
    "before=",
    "boundary",
    "branches",
    "branches=",
    "cached",
    "cherry",
    "cherry-pick",
    "color",
    "color-words",
    "color=",
    "committer",
    "committer=",
    "date-order",
    "date=",
    "decorate",
    "decorate=",
    "diff-algorithm=",
    "diff-filter=",
    "exit-code",
    "find-renames",
    "first-parent",
    "follow",
    "format",
    "format=",
    "full-history",
    "full-index",
    "function-context",
    "graph",
    "grep=",
    "histogram",
    "ignore-all-space",
    "ignore-blank-lines",
    "ignore-space-at-eol",
    "ignore-space-change",
    "left-right",
    "merge-base",
    "max-count=",
    "merges",
    "minimal",
    "name-only",
    "name-status",
    "no-color",
    "no-decorate",
    "no-ext-diff",
    "no-merges",
    "no-patch",
    "no-prefix",
    "no-renames",
    "no-textconv",
    "not",
    "numstat",
    "oneline",
    "patch",
    "patch-with-stat",
    "patience",
    "pickaxe-regex",
    "pretty",
    "pretty=",
    "quiet",
    "raw",
    "relative",
    "relative-date",
    "remotes",
    "reverse",
    "shortstat",
    "since=",
    "skip=",
    "stat",
    "stat=",
    "staged",
    "summary",
    "tags",
    "topo-order",
];

/// A command: its name, letters without and with a value, long options, and whether it takes words that are no options.
type Row = (&'static str, &'static str, &'static str, &'static [&'static str], bool);

const ROWS: &[Row] = &[
    ("log", "abcgipqrstuwzMU0123456789", "nSGL", SHOW, true),
    ("show", "abcipqrstuwzU0123456789", "nSG", SHOW, true),
    ("diff", "abpqrRsuwzMCU0123456789", "SG", SHOW, true),
    ("whatchanged", "p", "n", SHOW, true),
    ("shortlog", "cens", "", SHOW, true),
    (
        "rev-list",
        "",
        "n",
        &[
            "all",
            "count",
            "max-count=",
            "no-merges",
            "merges",
            "since=",
            "until=",
            "author=",
            "left-right",
            "first-parent",
            "reverse",
            "objects",
        ],
        true,
    ),
    ("reflog", "0123456789", "n", &["all", "date=", "oneline"], false),
    (
        "status",
        "ablnosuvz",
        "",
        &[
            "branch",
            "ignored",
            "long",
            "no-renames",
            "porcelain",
            "porcelain=",
            "short",
            "show-stash",
            "untracked-files",
            "untracked-files=",
            "verbose",
            "ahead-behind",
        ],
        true,
    ),
    (
        "blame",
        "bceflnpstwMC0123456789",
        "L",
        &["date=", "line-porcelain", "porcelain", "root", "show-email", "show-name", "since="],
        true,
    ),
    ("annotate", "l", "L", &[], true),
    (
        "ls-files",
        "cdikmostuvz",
        "x",
        &[
            "cached",
            "deleted",
            "exclude-standard",
            "full-name",
            "ignored",
            "modified",
            "others",
            "stage",
            "error-unmatch",
        ],
        true,
    ),
    ("ls-tree", "dlrtz", "", &["full-name", "full-tree", "long", "name-only", "abbrev", "abbrev="], true),
    (
        "rev-parse",
        "q",
        "",
        &[
            "abbrev-ref",
            "absolute-git-dir",
            "all",
            "branches",
            "git-dir",
            "git-common-dir",
            "is-inside-work-tree",
            "short",
            "short=",
            "show-prefix",
            "show-toplevel",
            "symbolic-full-name",
            "tags",
            "verify",
        ],
        true,
    ),
    (
        "describe",
        "",
        "",
        &["abbrev", "abbrev=", "all", "always", "dirty", "exact-match", "long", "match=", "tags"],
        true,
    ),
    ("merge-base", "a", "", &["all", "fork-point", "is-ancestor", "octopus"], true),
    ("cat-file", "epst", "", &[], true),
    ("show-ref", "hsdq", "", &["heads", "tags", "head", "hash", "verify", "dereference"], true),
    ("for-each-ref", "", "", &["count=", "format=", "sort=", "contains=", "merged", "no-merged", "points-at="], true),
    ("name-rev", "", "", &["name-only", "tags", "always"], true),
    ("count-objects", "vH", "", &["verbose", "human-readable"], false),
    ("check-ignore", "qvnz", "", &["quiet", "verbose", "non-matching", "no-index"], true),
    (
        "grep",
        "aEFGHhIilLnopqvwWz",
        "ABCem",
        &[
            "all-match",
            "and",
            "break",
            "cached",
            "count",
            "extended-regexp",
            "files-with-matches",
            "fixed-strings",
            "heading",
            "ignore-case",
            "line-number",
            "name-only",
            "only-matching",
            "show-function",
            "untracked",
            "word-regexp",
            "perl-regexp",
        ],
        true,
    ),
];

/// Whether a command that only reports prints what is in files. A new row of such a command needs a line here.
pub(super) fn prints_contents(args: &[Arg]) -> bool {
    let patch = |arg: &Arg| match arg.text.strip_prefix("--") {
        Some(long) => ["patch", "color-words", "function-context", "verbose"].iter().any(|name| long.starts_with(name)),
        None => arg.text.starts_with('-') && arg.text.contains(['p', 'u', 'c', 'v', 'L', 'U']),
    };
    match args.first().map(|command| command.text.as_str()) {
        Some("show" | "diff" | "blame" | "annotate" | "cat-file" | "grep") => true,
        Some("log" | "whatchanged" | "status") => args.iter().any(patch),
        Some("stash") => args.len() > 1 && args[1].text == "show",
        _ => false,
    }
}

/// Whether an operand may name a path outside of the folder. `git diff` reads such a path where it is given two.
fn may_lead_out(operand: &Arg) -> bool {
    path(operand)
        .is_none_or(|_| operand.text.starts_with(['/', '~']) || operand.text.split('/').any(|piece| piece == ".."))
}

pub(super) fn reads(args: &[Arg]) -> Option<Vec<String>> {
    let (command, args) = args.split_first()?;
    let words: Vec<_> = args.iter().map(|arg| arg.text.as_str()).collect();
    let options_only = |letters, longs: &[&str]| options(args, letters, "", longs).is_some_and(|rest| rest.is_empty());
    let reports = match command.text.as_str() {
        "branch" => {
            options_only(
                "avrl",
                &["list", "all", "remotes", "show-current", "verbose", "merged", "no-merged", "no-color"],
            ) || options(
                args,
                "avr",
                "",
                &["contains=", "points-at=", "sort=", "format=", "merged=", "no-merged=", "list", "all"],
            )
            .is_some_and(|rest| rest.is_empty() || words.contains(&"--list"))
        }
        "tag" => {
            options_only("ln", &["list", "sort=", "merged", "contains=", "points-at="])
                || words.first() == Some(&"-l") && words.len() == 2 && !words[1].starts_with('-')
        }
        "remote" => {
            let one = |name: &str| !name.starts_with('-');
            matches!(words.as_slice(), [] | ["-v" | "--verbose"])
                || matches!(words.as_slice(), ["get-url", name] if one(name))
        }
        "stash" => matches!(
            words.as_slice(),
            ["list"] | ["show"] | ["show", "-p"] | ["show", "-p" | "--stat", "stash@{0}" | "stash@{1}"]
        ),
        "worktree" => matches!(words.as_slice(), ["list"] | ["list", "--porcelain"]),
        "config" => {
            (matches!(words.as_slice(), ["--list" | "-l" | "list"] | ["--get" | "--get-all" | "get", _])
                || matches!(words.as_slice(), [name] if !name.starts_with('-') && name.contains('.')))
                && args.iter().all(|arg| !arg.is_unknown())
        }
        "version" | "--version" => words.is_empty(),
        name => {
            let (_, letters, valued, longs, operands) = ROWS.iter().find(|(known, ..)| *known == name)?;
            let rest = options(args, letters, valued, longs)?;
            (rest.is_empty() || *operands) && !rest.into_iter().any(may_lead_out)
        }
    };
    reports.then(Vec::new)
}
