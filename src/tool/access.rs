//! [`Access`]: one thing that a call wants to do, as the permission rules judge it. Values only; `permission.rs` judges them.
//!
//! A tool says what a call wants. A shell command wants many things at once, so the accesses of a tool are taken apart before they
//! are judged (`permission/shell.rs`): it is replaced by one access for each part of the command, and [`ShellPart`] says how a
//! part is judged. Both types are on tapes, and a replay judges from the recorded ones without a parser of commands. So a change
//! must read what older versions wrote: an access without a part is matched as text. It must also keep that equal accesses want
//! the same, because a grant for longer than one call holds for each equal access.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One thing that a call wants to do, for the permission rules to judge.
///
/// Equal accesses want the same: what a person allowed for always holds for equal accesses.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Access {
    /// The permission that is needed, such as `read`, `edit`, `bash` or `external_directory`; for other tools usually the tool's
    /// name.
    pub permission: String,
    /// What the permission is needed for: a path (relative inside the workspace), a command, or other words of the tool; `*` if
    /// it has none.
    pub pattern: String,
    /// Which part of a shell command it is; `None` for everything else, and on tapes that are older than this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<ShellPart>,
}

/// How a part of a shell command is judged.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ShellPart {
    /// A whole shell command, as a tool names it; its parts take its place before it is judged.
    Line {
        /// The folder that it starts in, as the tool was given it; empty for the workspace.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        folder: String,
        /// Whether its tool can run it confined by the kernel.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        confined: bool,
    },
    /// A simple command, which a rule must allow.
    Command {
        /// The command with its unknown parts, if it has any: the pattern of the access shows `…` for them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unknown: Option<UnknownWords>,
        /// The files that it reads by name, where it is a program whose words are known to name files; `None` for every other
        /// command.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reads: Option<Vec<ReadPath>>,
        /// Whether it can run confined by the kernel, so that rules about `confined_bash` are about it too.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        confined: bool,
    },
    /// A wrapper, or another name of a command: it counts only where a rule is about it.
    Also {
        /// The command with its unknown parts, if it has any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unknown: Option<UnknownWords>,
    },
    /// The whole text of the command, which counts only where a rule denies it.
    Whole,
    /// The whole text of a command that cannot be judged by its parts.
    Unread {
        /// Why not: a sentence about the command.
        why: String,
        /// Whether it can run confined by the kernel, so that rules about `confined_bash` are about it too.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        confined: bool,
    },
    /// A file that the shell reads for the command.
    Read,
    /// A file that the shell, or a program whose only effect it is, writes.
    Write,
}

/// The words of a command of which some are known only when it runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct UnknownWords {
    /// The command, with U+0001 for an unknown part, and U+0002 for names of files.
    pub text: String,
    /// The hash of the whole command, on which the unknown words depend: so parts of two different commands are never equal
    /// accesses.
    pub whole: String,
}

/// A file that a command reads by name, or files that it may read.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ReadPath {
    /// The path, with U+0001 for any text and U+0002 for names of files if the command may read files that it does not name.
    pub path: String,
    /// Whether it leads out of the workspace, so that the permission `external_directory` is needed too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub outside: bool,
}

impl Access {
    /// An access.
    #[must_use]
    pub fn new(permission: impl Into<String>, pattern: impl Into<String>) -> Access {
        Access { permission: permission.into(), pattern: pattern.into(), part: None }
    }

    /// A shell command that starts in `folder` (empty: the workspace). `confined` says that the tool can run it confined by the
    /// kernel ([`ToolContext::held`](crate::tool::ToolContext::held)).
    #[must_use]
    pub fn command(command: impl Into<String>, folder: impl Into<String>, confined: bool) -> Access {
        Access::new("bash", command).into_part(ShellPart::Line { folder: folder.into(), confined })
    }

    /// Whether no word of it is unknown before the call runs.
    pub(crate) fn is_known(&self) -> bool {
        !matches!(self.part, Some(ShellPart::Command { unknown: Some(_), .. } | ShellPart::Also { unknown: Some(_) }))
    }

    /// What a shell command reads, as far as it says so by name.
    pub(crate) fn reads(&self) -> &[ReadPath] {
        match &self.part {
            Some(ShellPart::Command { reads: Some(reads), .. }) => reads,
            _ => &[],
        }
    }

    /// Whether it is a file that the shell writes for a command.
    pub(crate) fn is_write(&self) -> bool {
        self.part == Some(ShellPart::Write)
    }

    /// False for a command that may read what has no path, such as the history of a repository.
    pub(crate) fn keeps_to_files(&self) -> bool {
        match &self.part {
            Some(ShellPart::Command { reads, .. }) => {
                reads.as_ref().is_some_and(|reads| reads.iter().all(|read| read.path != "\u{1}"))
            }
            Some(ShellPart::Unread { .. } | ShellPart::Line { .. }) | None => false,
            Some(ShellPart::Also { .. } | ShellPart::Whole | ShellPart::Read | ShellPart::Write) => true,
        }
    }

    /// The same access as a part of a shell command.
    pub(crate) fn into_part(self, part: ShellPart) -> Access {
        Access { part: Some(part), ..self }
    }
}

impl UnknownWords {
    pub(crate) fn new(text: String, whole: String) -> UnknownWords {
        UnknownWords { text, whole }
    }
}

impl ReadPath {
    pub(crate) fn new(path: String, outside: bool) -> ReadPath {
        ReadPath { path, outside }
    }
}

/// Permission and pattern, as a person reads them. A part of a command is one line of at most some hundred characters, with what a
/// person must know of it.
impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(part) = &self.part else { return write!(f, "{} {}", self.permission, self.pattern) };
        write!(f, "{} {}", self.permission, one_line(&self.pattern))?;
        match part {
            ShellPart::Read => f.write_str(" (read by the command)"),
            ShellPart::Write => f.write_str(" (written by the command)"),
            ShellPart::Unread { why, .. } => write!(f, " (cannot be judged by its parts: {})", one_line(why)),
            ShellPart::Command { reads, .. } => {
                let outside = reads.iter().flatten().find(|read| read.outside);
                outside.map_or(Ok(()), |read| write!(f, " (reads {})", one_line(&read.path)))
            }
            ShellPart::Line { folder, .. } if !folder.is_empty() => write!(f, " (in {})", one_line(folder)),
            ShellPart::Line { .. } | ShellPart::Also { .. } | ShellPart::Whole => Ok(()),
        }
    }
}

/// How many characters of a part are shown to people.
const SHOWN_CHARS_MAX: usize = 120;

/// The first characters of a text on one line, with one sign for each unknown part.
pub(crate) fn one_line(text: &str) -> String {
    let sign = |c: char| match c {
        '\u{1}' | '\u{2}' => '…',
        c if c.is_control() => ' ',
        c => c,
    };
    let mut line: String = text.chars().take(SHOWN_CHARS_MAX).map(sign).collect();
    if text.chars().nth(SHOWN_CHARS_MAX).is_some() {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// An access of an old tape has no part, and is written as it was.
    #[test]
    fn an_access_without_a_part_is_what_old_tapes_have() {
        let old = r#"{"permission":"bash","pattern":"ls"}"#;
        let access: Access = serde_json::from_str(old).unwrap();
        assert_eq!(access, Access::new("bash", "ls"));
        assert_eq!(serde_json::to_string(&access).unwrap(), old);
    }

    #[test]
    fn a_part_comes_back_from_the_tape_and_is_one_line() {
        let command = |reads| ShellPart::Command { unknown: None, reads, confined: true };
        let outside = vec![ReadPath::new("a".into(), false), ReadPath::new("/etc/x".into(), true)];
        for (part, shown) in [
            (command(None), "bash a b"),
            (command(Some(outside)), "bash a b (reads /etc/x)"),
            (ShellPart::Also { unknown: Some(UnknownWords::new("a\u{1}b".into(), "x".into())) }, "bash a b"),
            (ShellPart::Line { folder: String::new(), confined: true }, "bash a b"),
            (ShellPart::Line { folder: "x".into(), confined: false }, "bash a b (in x)"),
            (ShellPart::Whole, "bash a b"),
            (
                ShellPart::Unread { why: "it has a\nnewline".into(), confined: false },
                "bash a b (cannot be judged by its parts: it has a newline)",
            ),
            (ShellPart::Read, "bash a b (read by the command)"),
            (ShellPart::Write, "bash a b (written by the command)"),
        ] {
            let access = Access::new("bash", "a\nb").into_part(part);
            assert_eq!(access.to_string(), shown);
            let text = serde_json::to_string(&access).unwrap();
            assert_eq!(serde_json::from_str::<Access>(&text).unwrap(), access, "{text}");
        }
    }
}
