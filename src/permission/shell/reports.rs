//! Says which commands only report: they print, and write no file, run no other program, and send nothing away. (What the settings
//! of a git repository make git run is not looked at, see `reports/git.rs`.)
//!
//! A program is listed with the options that it may have (`reports/table.rs`; git, find, sed and awk have code of their own). An
//! option that is not listed takes the command out, because a deny list of options never ends: GNU programs take shortened names,
//! letters in one word, and new options each year. Only a program without any harmful option may have every option (a `*` in the
//! table). What a command reads by name is returned, so that it can be judged as a read of that path. A change must keep all of
//! this, because profiles allow these commands where they allow no others.
//!
//! A report may also read files that it does not name: those below a folder, in a repository, or behind a wildcard. Such a read is
//! returned as a path with a mark in it ([`ANY`], [`GLOB`]); a rule that denies any path that it may be keeps the command from
//! counting as a report (`rules.rs`).
//!
//! Rejected: programs that belong to a language and are found through files in the workspace (`cargo`, `rustc`, `go`, `node`,
//! `npm`). A `rust-toolchain.toml` or `.cargo/config.toml` makes even `cargo --version` run a program of the workspace.

mod find;
mod git;
mod scripts;
mod table;

use crate::permission::shell::{ANY, Arg, GLOB, words::SUBSTITUTED};

use table::{Operands, ROWS, Row, VERSIONED};

/// The paths that a command reads by name; `None` where the command is not known to only report.
pub(super) fn reads(name: &str, args: &[Arg]) -> Option<Vec<String>> {
    if VERSIONED.contains(&name) && matches!(args, [only] if only.text == "--version") {
        return Some(Vec::new());
    }
    let mut reads = match name {
        "git" => git::reads(args),
        "find" => find::reads(args),
        "sed" => scripts::sed(args),
        "awk" | "gawk" | "mawk" => scripts::awk(args),
        "jq" if args.iter().any(scripts::brings_in_jq) => None,
        _ => ROWS.iter().find(|row| row.name == name)?.reads(args),
    }?;
    if descends(name, args) {
        let below: Vec<_> = reads.iter().map(|folder| format!("{folder}/{ANY}")).collect();
        reads.extend(if below.is_empty() { vec![ANY.to_string()] } else { below });
    }
    Some(reads)
}

/// Whether a report prints what is in the files below the folders that it names, or in a repository, whichever files those are.
fn descends(name: &str, args: &[Arg]) -> bool {
    let searches = |arg: &Arg| match arg.text.strip_prefix("--") {
        Some(long) => long.ends_with("recursive"),
        None => arg.text.starts_with('-') && arg.text.contains(['r', 'R']),
    };
    match name {
        "rg" | "diff" => true,
        "grep" | "egrep" | "fgrep" => args.iter().any(searches),
        "git" => git::prints_contents(args),
        _ => false,
    }
}

impl Row {
    fn reads(&self, args: &[Arg]) -> Option<Vec<String>> {
        if self.operands != Operands::Words && args.iter().any(|arg| arg.splits && arg.text.contains(ANY)) {
            return None;
        }
        let operands = match self.letters {
            "*" => {
                let options = args.iter().position(|arg| arg.text == "--").unwrap_or(args.len());
                let after = args.iter().skip(options + 1);
                args[..options].iter().filter(|arg| !is_option(arg)).chain(after).collect()
            }
            _ => self.operands_of(args)?,
        };
        // In an option of a program whose options are all harmless, a path would be a file that is read.
        if self.letters == "*" && args.iter().any(|arg| is_option(arg) && arg.text.contains('/')) {
            return None;
        }
        match self.operands {
            Operands::Paths => paths(operands),
            Operands::Words => Some(Vec::new()),
            Operands::None => operands.is_empty().then(Vec::new),
            Operands::OnePath if operands.len() > 1 => None,
            Operands::OnePath => paths(operands),
            Operands::Pattern => {
                // Then the first operand is no pattern. Where this is guessed wrongly, a pattern is judged as a path.
                let letter = |text: &str| !text.starts_with("--") && text.contains('e') && self.valued.contains('e');
                let given = |arg: &Arg| {
                    is_option(arg) && (letter(&arg.text) || arg.text.starts_with("--regexp") || arg.text == "--files")
                };
                let given = args.iter().any(given);
                paths(operands.into_iter().skip(usize::from(!given)).collect())
            }
            Operands::Plus => operands.iter().all(|arg| arg.text.starts_with('+')).then(Vec::new),
        }
    }

    /// The arguments that are no options; `None` where an option is not listed.
    fn operands_of<'a>(&self, args: &'a [Arg]) -> Option<Vec<&'a Arg>> {
        options(args, self.letters, self.valued, self.longs)
    }
}

/// The arguments that are no options, where all options are among these: letters without and with a value, long names, with a
/// `=` at their end where they have a value. A value that may be left out stands in the same word: such a letter is listed among
/// those without a value, and such a name with and without its `=`.
fn options<'a>(args: &'a [Arg], letters: &str, valued: &str, longs: &[&str]) -> Option<Vec<&'a Arg>> {
    let mut operands = Vec::new();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        // What is not known may begin with a dash.
        if arg.text.starts_with([ANY, GLOB]) || (arg.splits && arg.text.contains(ANY)) {
            return None;
        }
        if arg.text == "--" {
            operands.extend(rest);
            break;
        }
        if !is_option(arg) {
            operands.push(arg);
            continue;
        }
        let takes_next = match arg.text.strip_prefix("--") {
            Some(long) => {
                let (name, value) = long.split_once('=').map_or((long, false), |(name, _)| (name, true));
                let has_value = longs.iter().any(|known| known.strip_suffix('=') == Some(name));
                if !has_value && (value || !longs.contains(&name)) {
                    return None;
                }
                // A name that is also listed without a value takes one behind `=` only.
                has_value && !value && !longs.contains(&name)
            }
            None => {
                let all: Vec<char> = arg.text.chars().skip(1).collect();
                let value = all.iter().position(|letter| valued.contains(*letter));
                let before = value.unwrap_or(all.len());
                if !all[..before].iter().all(|letter| letters.contains(*letter)) {
                    return None;
                }
                value.is_some_and(|place| place + 1 == all.len())
            }
        };
        if takes_next && rest.next().is_none_or(|value| !value.may_be_a_value()) {
            return None;
        }
    }
    Some(operands)
}

/// Whether an argument is an option. A single dash is the standard input.
fn is_option(arg: &Arg) -> bool {
    arg.text.starts_with('-') && arg.text.len() > 1
}

/// The paths that operands name; `None` where one is not known. A glob names the folder that it is in, and itself.
fn paths(operands: Vec<&Arg>) -> Option<Vec<String>> {
    let mut paths = Vec::new();
    for operand in operands.into_iter().filter(|arg| arg.text != "-" && arg.text != SUBSTITUTED) {
        paths.push(path(operand)?);
        if operand.text.contains(GLOB) {
            paths.push(operand.text.clone());
        }
    }
    Some(paths)
}

fn path(operand: &Arg) -> Option<String> {
    let text = operand.text.as_str();
    if text.contains(ANY) {
        return None;
    }
    let Some(glob) = text.find(GLOB) else { return Some(text.to_owned()) };
    let start = text[..glob].rfind('/').map_or(0, |slash| slash + 1);
    // A glob does not match across a slash, and `..` only where nothing but a dot stands before it.
    let climbs = text[start..].split('/').any(|piece| piece.starts_with(".\u{2}") || piece.contains(".."));
    if climbs {
        return None;
    }
    Some(match &text[..start] {
        "" => ".".to_owned(),
        folder => folder.to_owned(),
    })
}
