//! Says of a command which files it reads by name, and whether it is a report: a program that prints, and that no option makes
//! write a file, connect, or run another program.
//! This is a convenience, not a guard. An unasked command runs confined by the kernel, whatever the program. This knowledge has two
//! uses: a path that a command names is judged as a read of that path, so that a person sees a rule instead of a refusal of the
//! kernel; and a report may accompany a command that a rule names (`cargo test | tail`) without a question, if the whole then runs
//! as that rule says.
//!
//! A report may also read files that it does not name: those below a folder, or behind a wildcard. Such a read is returned as a
//! path with a mark in it ([`ANY`], [`GLOB`]), and one of the history of a repository as [`HISTORY`].

mod find;
mod git;
mod table;

pub(super) use find::VALUED as FIND_VALUED;

use crate::permission::shell::{ANY, Arg, GLOB, HISTORY, words::SUBSTITUTED};

use table::{MORE, Operands, operands_of};

/// The paths that a report reads; `None` for a command that is not a report.
pub(super) fn reads(name: &str, args: &[Arg]) -> Option<Vec<String>> {
    let mut reads = match name {
        "git" => {
            return git::reports(args)
                .then(|| git::prints_contents(args).then(|| HISTORY.to_owned()))
                .map(Vec::from_iter);
        }
        "find" => find::reads(args),
        // It reads the clock of the machine, and sets it with any other word.
        "date" => args.iter().all(|arg| arg.text.starts_with('+') || arg.text == "-u").then(Vec::new),
        _ => operands(name, args),
    }?;
    if descends(name, args) {
        let below: Vec<_> = reads.iter().map(|folder| format!("{folder}/{ANY}")).collect();
        reads.extend(if below.is_empty() { vec![format!("./{ANY}")] } else { below });
    }
    Some(reads)
}

/// The paths among the words of a program in the table.
fn operands(name: &str, args: &[Arg]) -> Option<Vec<String>> {
    let kind = operands_of(name)?;
    if kind == Operands::Words {
        return Some(Vec::new());
    }
    // What is not known may become an option, or several words.
    if args.iter().any(|arg| arg.text.contains(ANY)) || does_more(name, args) {
        return None;
    }
    let end = args.iter().position(|arg| arg.text == "--").unwrap_or(args.len());
    let behind = args.iter().skip(end + 1);
    let mut words: Vec<_> = args[..end].iter().filter(|arg| !is_option(arg)).chain(behind).collect();
    // The value of an option, such as a number of lines.
    words.retain(|word| word.text.is_empty() || !word.text.chars().all(|c| c.is_ascii_digit()));
    let gives_pattern = |arg: &Arg| match arg.text.strip_prefix("--") {
        Some(long) => long.starts_with("regexp") || long.starts_with("file"),
        None => arg.text.contains(['e', 'f']),
    };
    match kind {
        Operands::OnePath if words.len() > 1 => return None,
        Operands::Pattern
            if !args[..end].iter().any(|arg| is_option(arg) && gives_pattern(arg)) && !words.is_empty() =>
        {
            words.remove(0);
        }
        _ => {}
    }
    let in_options = args[..end].iter().filter(|arg| is_option(arg)).filter_map(|arg| {
        let path = arg.text.find('/').map(|slash| &arg.text[slash..])?;
        (!path.contains(GLOB)).then(|| path.to_owned())
    });
    let mut reads: Vec<_> = in_options.collect();
    reads.extend(paths(words)?);
    Some(reads)
}

/// Whether an option makes a program of the table do more than print its input.
fn does_more(name: &str, args: &[Arg]) -> bool {
    let Some((_, letters, longs)) = MORE.iter().find(|(program, ..)| *program == name) else { return false };
    let in_arg = |arg: &Arg| match arg.text.strip_prefix("--") {
        Some(long) => longs.iter().any(|begins| long.starts_with(begins)),
        None => is_option(arg) && arg.text.contains(|c| letters.contains(c)),
    };
    args.iter().any(|arg| in_arg(arg) || arg.text.starts_with(GLOB))
}

/// Whether a report prints the contents of all files below the folders that it names.
fn descends(name: &str, args: &[Arg]) -> bool {
    let searches = |arg: &Arg| match arg.text.strip_prefix("--") {
        Some(long) => long.ends_with("recursive"),
        None => arg.text.starts_with('-') && arg.text.contains(['r', 'R']),
    };
    match name {
        "rg" | "diff" => true,
        "grep" | "egrep" | "fgrep" => args.iter().any(searches),
        _ => false,
    }
}

/// Whether an argument is an option. A single dash is the standard input.
fn is_option(arg: &Arg) -> bool {
    arg.text.starts_with('-') && arg.text.len() > 1
}

/// The paths that operands name; `None` if one is not known. A glob names the folder that it is in, and itself.
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
    // A glob does not match across a slash, and `..` only if nothing but a dot precedes it.
    let climbs = text[start..].split('/').any(|piece| piece.starts_with(".\u{2}") || piece.contains(".."));
    if climbs {
        return None;
    }
    Some(match &text[..start] {
        "" => ".".to_owned(),
        folder => folder.to_owned(),
    })
}
