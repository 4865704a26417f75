//! Judges shell commands by what they would run, part by part, instead of by their text.
//!
//! A pattern over the text of a command guards nothing: `cargo *` matches `cargo test; rm -rf /`, and `rm *` does not match
//! `/bin/rm x`. So a command is read ([`analyse`]) into the simple commands in it, wherever they stand, and the files that its
//! redirects open. Each is judged by the rules for itself, and the strictest answer stands ([`judge`]). A command that cannot be
//! read with certainty is unclear: it is never allowed by a pattern, only by a rule that has exactly its text.
//!
//! What the code relies on: a kind of syntax, an option or a variable that is not known makes a command unclear or takes it out of
//! the commands that only report. A change must keep it so; a list here says what is harmless, and no list says what is harmful.
//! The code is pure: no disk, no clock. Reading a command takes time, so workers do it and never the core.
//!
//! Without the feature `shell-policy` every command is unclear.

mod rules;

#[cfg(feature = "shell-policy")]
mod commands;
#[cfg(feature = "shell-policy")]
mod paths;
#[cfg(feature = "shell-policy")]
mod redirects;
#[cfg(feature = "shell-policy")]
mod reports;
#[cfg(feature = "shell-policy")]
mod statements;
#[cfg(feature = "shell-policy")]
mod tree;
#[cfg(feature = "shell-policy")]
mod variables;
#[cfg(feature = "shell-policy")]
mod words;
#[cfg(feature = "shell-policy")]
mod wrappers;

#[cfg(all(test, feature = "shell-policy"))]
mod tests;

use crate::permission::Action;

pub(super) use rules::is_plain;
pub use rules::{ShellCommand, ShellJudgement};

/// A longer command is unclear.
#[cfg(feature = "shell-policy")]
const COMMAND_BYTES_MAX: usize = 64 * 1024;

/// Stands in the text of a word for a part that is known only when the command runs. No command that is read has this character.
pub(super) const ANY: char = '\u{1}';

/// The same for a part that becomes names of files.
pub(super) const GLOB: char = '\u{2}';

/// What a command would do.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Analysis {
    /// It cannot be said with certainty.
    Unclear {
        /// Why not: a sentence about the command.
        why: String,
    },
    /// These commands may run, and these files may be opened.
    #[cfg_attr(not(feature = "shell-policy"), expect(dead_code, reason = "only the parser makes it"))]
    Found(Found),
}

/// What was found in a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Found {
    commands: Vec<Simple>,
    /// Files that redirects read.
    reads: Vec<String>,
    /// Files that redirects write, and that programs write whose only effect it is.
    writes: Vec<String>,
}

/// How a command counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "shell-policy"), expect(dead_code, reason = "only the parser makes it"))]
enum Role {
    /// A rule must allow it.
    Command,
    /// It counts only where a rule is about it: a wrapper, or another name of a command.
    Also,
}

/// One command: the name of its program and the words that it is given.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Simple {
    /// Without folder and quotes.
    name: String,
    args: Vec<Arg>,
    role: Role,
    /// The paths that it reads by name, where it is known to only report.
    reads: Option<Vec<String>>,
}

impl Simple {
    /// The text that rules are matched against: name and words with one blank between them.
    fn text(&self) -> String {
        let mut text = self.name.clone();
        for arg in &self.args {
            // What may become no word at all has its blank in it.
            let may_vanish = arg.splits && arg.text.chars().all(|c| c == ANY);
            if !may_vanish {
                text.push(' ');
            }
            text.push_str(&arg.text);
        }
        text
    }
}

/// A word that a program is given.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Arg {
    /// As the program gets it, with [`ANY`] and [`GLOB`] for what is not known.
    text: String,
    /// It may become several words, or none.
    splits: bool,
}

#[cfg(feature = "shell-policy")]
impl Simple {
    /// A command that only reports and reads no file.
    fn reporting(name: &str, args: Vec<Arg>) -> Simple {
        Simple { name: name.to_owned(), args, role: Role::Command, reads: Some(Vec::new()) }
    }
}

#[cfg(feature = "shell-policy")]
impl Arg {
    fn plain(text: &str) -> Arg {
        Arg { text: text.to_owned(), splits: false }
    }

    fn unknown() -> Arg {
        Arg { text: ANY.to_string(), splits: false }
    }

    fn is_unknown(&self) -> bool {
        self.text.contains([ANY, GLOB])
    }

    /// The same word where a program puts something in place of a mark.
    fn with_unknown(&self, mark: &str) -> Arg {
        Arg { text: self.text.replace(mark, ANY.encode_utf8(&mut [0; 4])), splits: self.splits }
    }

    fn shown(&self) -> String {
        shown(&self.text)
    }
}

/// A text for people, with one sign for each part that is not known.
fn shown(text: &str) -> String {
    shortened(text).replace([ANY, GLOB], "…")
}

/// The first characters of a text, on one line.
fn shortened(text: &str) -> String {
    let line: String = text
        .chars()
        .take(SHOWN_CHARS_MAX)
        .map(|c| if c.is_control() && c != ANY && c != GLOB { ' ' } else { c })
        .collect();
    if text.chars().nth(SHOWN_CHARS_MAX).is_some() { format!("{line}…") } else { line }
}

/// How many characters of a part are shown to people.
const SHOWN_CHARS_MAX: usize = 120;

/// Why a command cannot be read.
#[cfg(feature = "shell-policy")]
#[derive(Debug)]
struct Unclear(String);

#[cfg(feature = "shell-policy")]
fn unclear<T>(why: impl Into<String>) -> Result<T, Unclear> {
    Err(Unclear(why.into()))
}

/// Reads a command. Takes time in proportion to its length, and never panics.
#[cfg(feature = "shell-policy")]
fn analyse(command: &str) -> Analysis {
    match statements::read(command) {
        Ok(found) => Analysis::Found(found),
        Err(Unclear(why)) => Analysis::Unclear { why },
    }
}

/// Without a parser no command is read.
#[cfg(not(feature = "shell-policy"))]
fn analyse(_command: &str) -> Analysis {
    Analysis::Unclear { why: "this build does not read shell commands".to_owned() }
}

/// A part of a command, for the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part<'a> {
    /// A command; with the paths that it reads, where it only reports.
    Command { text: &'a str, reads: Option<&'a [String]> },
    /// A command that counts only where a rule is about it.
    Also(&'a str),
    /// A file that is read.
    Read(&'a str),
    /// A file that is written.
    Write(&'a str),
    /// The whole command as it is written, which counts only where a rule is about it.
    Whole(&'a str),
    /// The whole command, which cannot be read.
    Unread(&'a str),
}

/// Judges a command by its parts: the strictest verdict stands. Calls `verdict_of` for each part in turn, at least once; ends at
/// the first part that is denied. The second value says in one line which part decided.
fn judge(command: &str, analysis: &Analysis, mut verdict_of: impl FnMut(Part<'_>) -> Action) -> (Action, String) {
    let mut stands = (Action::Allow, String::new());
    let mut count = |part: Part<'_>, says: &dyn Fn() -> String| {
        let action = verdict_of(part);
        if action > stands.0 || stands.1.is_empty() {
            stands = (action, says());
        }
        stands.0 == Action::Deny
    };
    let whole = command.trim_matches([' ', '\t', '\n']);
    let found = match analysis {
        Analysis::Unclear { why } => {
            count(Part::Unread(whole), &|| format!("the command cannot be judged by its parts: {why}"));
            return stands;
        }
        Analysis::Found(found) => found,
    };
    let part = |text: &str| format!("`{}`", shown(text));
    for simple in &found.commands {
        let text = simple.text();
        let this = match simple.role {
            Role::Command => Part::Command { text: &text, reads: simple.reads.as_deref() },
            Role::Also => Part::Also(&text),
        };
        if count(this, &|| part(&text)) {
            return stands;
        }
    }
    let nothing = found.commands.is_empty() && found.writes.is_empty();
    if nothing && count(Part::Command { text: whole, reads: Some(&[]) }, &|| part(whole)) {
        return stands;
    }
    for path in &found.writes {
        if count(Part::Write(path), &|| format!("it writes {}", part(path))) {
            return stands;
        }
    }
    for path in &found.reads {
        if count(Part::Read(path), &|| format!("it reads {}", part(path))) {
            return stands;
        }
    }
    count(Part::Whole(whole), &|| part(whole));
    stands
}
