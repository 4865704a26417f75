//! Programs that report, with the meaning of their words: data for `permission/shell/reports.rs`, which reads it.
//!
//! No option of a program in the table makes it write a file, connect, or run another program; the few exceptions are in
//! [`MORE`]. A change adds a program only after reading what its options do in each common version (GNU, BSD, busybox).

/// The meaning of a program's words that are not options.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Operands {
    /// Files and folders that it reads.
    Paths,
    /// At most one of them: a second one would be written.
    OnePath,
    /// A pattern, then files.
    Pattern,
    /// Text.
    Words,
}

/// The programs, by the meaning of their words.
const PROGRAMS: &[(Operands, &[&str])] = &[
    (
        Operands::Paths,
        &[
            "b2sum",
            "base32",
            "base64",
            "cat",
            "cksum",
            "cmp",
            "column",
            "comm",
            "cut",
            "df",
            "diff",
            "du",
            "expand",
            "file",
            "fmt",
            "fold",
            "head",
            "hexdump",
            "join",
            "ls",
            "md5sum",
            "nl",
            "od",
            "paste",
            "readlink",
            "realpath",
            "rev",
            "sha1sum",
            "sha256sum",
            "sha512sum",
            "shuf",
            "sort",
            "stat",
            "sum",
            "tac",
            "tail",
            "tree",
            "unexpand",
            "wc",
            "zcat",
        ],
    ),
    (Operands::OnePath, &["uniq", "xxd"]),
    (Operands::Pattern, &["egrep", "fd", "fgrep", "grep", "rg"]),
    (
        Operands::Words,
        &[
            ":", "[", "arch", "basename", "break", "continue", "dirname", "echo", "exit", "expr", "false", "free",
            "groups", "id", "locale", "lsblk", "lscpu", "nproc", "pgrep", "printf", "ps", "pwd", "read", "seq",
            "sleep", "test", "tr", "true", "tty", "type", "uname", "uptime", "wait", "which", "whoami",
        ],
    ),
];

/// Options with which a program of the table writes or runs something, or reads files that another file names: letters, and
/// beginnings of long names.
pub(super) const MORE: &[(&str, &str, &[&str])] = &[
    ("diff", "l", &["pag"]),
    ("du", "", &["files"]),
    ("file", "C", &["c"]),
    ("rg", "z", &["search-z", "pre", "host"]),
    ("shuf", "o", &["o"]),
    ("sort", "oT", &["o", "comp", "t", "files"]),
    ("tree", "oR", &["o"]),
    ("wc", "", &["files"]),
];

/// The meaning of a program's words; `None` for a program that is not in the table.
pub(super) fn operands_of(name: &str) -> Option<Operands> {
    PROGRAMS.iter().find(|(_, names)| names.contains(&name)).map(|(operands, _)| *operands)
}
