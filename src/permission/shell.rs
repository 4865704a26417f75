//! Judges shell commands by what they would run, part by part, instead of by their text.
//!
//! A pattern over the text of a command guards nothing: `cargo *` matches `cargo test; rm -rf /`, and `rm *` does not match
//! `/bin/rm x`. So a command is read ([`analyse`]) into all simple commands in it, and the files that its redirects open. Each
//! becomes a separate access ([`with_parts`]), is judged by the rules alone ([`judge`]), and the strictest answer wins. A command
//! that cannot be read with certainty is unclear: no pattern about `bash` allows it, only a rule that has exactly its text (and
//! the text has plain characters only), a person's grant of that text, or a rule about `unclear_bash`.
//!
//! A change must never treat the unknown as harmless. Unknown syntax makes a command unclear. A program that is not on the lists
//! of `reports.rs` is not a report. An option of a wrapper and a variable that are not listed make it unclear. Any other program
//! with any options is a name for the rules; `commands.rs` lists the commands and options that would hide from the rules what
//! else is run, and they make it unclear too. The code is pure: no disk, no clock. Reading a command takes time, so workers do it
//! and never the core.
//!
//! Without the feature `shell-policy` every command is unclear.

mod parts;
mod quotes;
mod rules;

#[cfg(feature = "shell-policy")]
mod bounds;
#[cfg(feature = "shell-policy")]
mod commands;
#[cfg(feature = "shell-policy")]
mod git;
#[cfg(feature = "shell-policy")]
mod options;
#[cfg(feature = "shell-policy")]
mod paths;
#[cfg(feature = "shell-policy")]
mod redirects;
#[cfg(feature = "shell-policy")]
mod reports;
#[cfg(feature = "shell-policy")]
mod runners;
#[cfg(feature = "shell-policy")]
mod scan;
#[cfg(feature = "shell-policy")]
mod shells;
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

#[cfg(feature = "shell-policy")]
use crate::tool::one_line;

use quotes::quoted;

pub use parts::with_parts;
pub(super) use quotes::{joined, words_of};
pub(crate) use rules::restricts_reads;
pub(super) use rules::{is_by_confinement, is_plain, judge, judge_beside};

/// Replaces, in the text of a word, a part that is known only when the command runs. No command that is read has this character.
pub(super) const ANY: char = '\u{1}';

/// The same for a part that becomes names of files.
pub(super) const GLOB: char = '\u{2}';

/// Replaces the path of a file that is read without one: a file in the history of a repository.
pub(super) const HISTORY: &str = "\u{1}";

/// Replaces the `~` at the beginning of a word while its command is read; [`ANY`] replaces it in the result.
#[cfg(feature = "shell-policy")]
const HOME: char = '\u{3}';

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
    /// Files that redirects write, and those that `tee` and `find` write.
    writes: Vec<String>,
}

/// How a command counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "shell-policy"), expect(dead_code, reason = "only the parser makes it"))]
enum Role {
    /// A rule must allow it.
    Command,
    /// It counts only where a rule that denies or asks is about it: a wrapper, another name of a command, or a command that may
    /// be run by another one.
    Also,
}

/// One command: the name of its program and the words that it is given.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Simple {
    /// Without quotes, and without the folder where that is a usual one for programs.
    name: String,
    args: Vec<Arg>,
    role: Role,
    /// The paths that it reads by name, where its words are known to name files.
    reads: Option<Vec<String>>,
}

impl Simple {
    /// The text that rules are matched against: name and words with one blank between them, a word that is not plain in quotes
    /// ([`quoted`]). So two commands with different words never have the same text.
    fn text(&self) -> String {
        let mut text = quoted(&self.name).into_owned();
        for arg in &self.args {
            // A part that may become no word at all includes its blank.
            let may_vanish = arg.splits && !arg.text.is_empty() && arg.text.chars().all(|c| c == ANY);
            if !may_vanish {
                text.push(' ');
            }
            text.push_str(&quoted(&arg.text));
        }
        text
    }
}

/// A word that a program gets.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Arg {
    /// As the program gets it, with [`ANY`] and [`GLOB`] for what is not known.
    text: String,
    /// It may become several words, or none.
    splits: bool,
}

#[cfg(feature = "shell-policy")]
impl Simple {
    /// A command that reads no file.
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
        self.text.contains([ANY, GLOB, HOME])
    }

    /// Whether the word may turn out to begin with a dash, or become several words of which one does.
    fn may_be_an_option(&self) -> bool {
        self.text.starts_with([ANY, GLOB]) || (self.splits && self.text.contains(ANY))
    }

    /// The same word where a program puts something in place of a mark.
    fn with_unknown(&self, mark: &str) -> Arg {
        Arg { text: self.text.replace(mark, ANY.encode_utf8(&mut [0; 4])), splits: self.splits }
    }

    /// Whether the word can be taken for the value of an option before it. A word that looks like an option itself cannot: a
    /// program whose option has no value in this version would read it as one. A negative number is never such an option.
    fn may_be_a_value(&self) -> bool {
        let number = self.text.strip_prefix('-').is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit()));
        let known = !(self.splits && self.is_unknown());
        known && (number || !self.text.starts_with('-'))
    }

    fn shown(&self) -> String {
        one_line(&self.text)
    }
}

/// Why a command cannot be read.
#[cfg(feature = "shell-policy")]
#[derive(Debug)]
struct Unclear(String);

#[cfg(feature = "shell-policy")]
fn unclear<T>(why: impl Into<String>) -> Result<T, Unclear> {
    Err(Unclear(why.into()))
}

/// Reads a command. What that may cost is bounded (`bounds.rs`), and it never panics.
#[cfg(feature = "shell-policy")]
fn analyse(command: &str, folder: &str) -> Analysis {
    match scan::read(command, folder) {
        Ok(found) => Analysis::Found(found),
        Err(Unclear(why)) => Analysis::Unclear { why },
    }
}

/// Without a parser no command is read.
#[cfg(not(feature = "shell-policy"))]
fn analyse(_command: &str, _folder: &str) -> Analysis {
    Analysis::Unclear { why: "this build does not read shell commands".to_owned() }
}
