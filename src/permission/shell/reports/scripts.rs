//! `sed` and `awk` with scripts that only print. Both languages can write files and run programs. A script of sed is read command
//! by command, and one with a command that is not known here takes `sed` out. A program of awk is not read: one with any character
//! or word that could open, write or run something takes `awk` out, also where that stands in a string. A change must keep that
//! what is not certain takes the command out. The files that a script works on are returned as reads.

use super::{is_option, options, paths};
use crate::permission::shell::Arg;

/// `sed` with the options that are listed here (not `-i`, `-f` or `-s`), and scripts that only print what they change.
pub(super) fn sed(args: &[Arg]) -> Option<Vec<String>> {
    let mut scripts = Vec::new();
    let mut others = Vec::new();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        if arg.text == "-e" || arg.text == "--expression" {
            scripts.push(rest.next()?);
        } else if is_option(arg)
            && !matches!(
                arg.text.as_str(),
                "-n" | "-E"
                    | "-r"
                    | "-nE"
                    | "-En"
                    | "-nr"
                    | "-rn"
                    | "--quiet"
                    | "--silent"
                    | "--regexp-extended"
                    | "-u"
                    | "-z"
            )
        {
            return None;
        } else if !is_option(arg) {
            others.push(arg);
        }
    }
    let mut others = others.into_iter();
    if scripts.is_empty() {
        scripts.push(others.next()?);
    }
    let prints = scripts.iter().all(|script| !script.is_unknown() && sed_script(&script.text));
    let others: Vec<_> = others.collect();
    if !prints || others.iter().any(|arg| arg.text.starts_with(super::GLOB)) {
        return None;
    }
    paths(others)
}

/// Whether a program of jq can begin with a word that brings in another file. Such words stand before all else but comments.
pub(super) fn brings_in_jq(arg: &Arg) -> bool {
    let program = arg.text.trim_start();
    ["#", "import", "include", "module"].iter().any(|word| program.starts_with(word))
}

/// A script of commands with `;` between them.
fn sed_script(script: &str) -> bool {
    let alone = !script.contains(';');
    script.split(';').all(|command| sed_prints(command, alone))
}

/// One command of sed: an address, and one of the commands without arguments that are listed here, or a replacement without the
/// flags that write or run.
fn sed_prints(command: &str, alone: bool) -> bool {
    let Some(rest) = after_address(command.trim_matches([' ', '\n'])) else { return false };
    let rest = match rest.strip_prefix(',') {
        Some(second) => match after_address(second) {
            Some(rest) => rest,
            None => return false,
        },
        None => rest,
    };
    let rest = rest.trim_start().trim_start_matches('!');
    if matches!(rest, "" | "p" | "d" | "q" | "=" | "N" | "D" | "P" | "$!d") {
        return true;
    }
    let Some(replacement) = rest.strip_prefix('s') else { return false };
    let Some(mark) = replacement.chars().next().filter(|mark| "/|#,:@!".contains(*mark)) else { return false };
    if replacement.contains('\n') || (replacement.contains('[') && !alone) {
        // In brackets the mark does not end a pattern for each sed. Then the text has too few marks, which is an error where
        // nothing follows, and more of a script where something does.
        return false;
    }
    let parts = unescaped(&replacement[mark.len_utf8()..], mark);
    matches!(parts.as_slice(), [_, _, flags] if flags.chars().all(|c| "gpiI0123456789".contains(c)))
}

/// What is behind the address of a command.
fn after_address(command: &str) -> Option<&str> {
    if let Some(pattern) = command.strip_prefix('/') {
        let parts = unescaped(pattern, '/');
        if parts.len() < 2 || pattern.contains(['[', '\n']) {
            return None;
        }
        return pattern.get(parts[0].len() + 1..).map(|rest| rest.trim_start_matches('I'));
    }
    Some(command.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '$' | '+' | '~')))
}

/// The parts of a text between marks that no backslash stands before.
fn unescaped(text: &str, mark: char) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        if c == mark && !escaped {
            parts.push(&text[start..at]);
            start = at + mark.len_utf8();
        }
        escaped = c == '\\' && !escaped;
    }
    parts.push(&text[start..]);
    parts
}

/// `awk` with a program that has none of the characters and words that open, write or run something.
pub(super) fn awk(args: &[Arg]) -> Option<Vec<String>> {
    let operands = options(args, "", "Fv", &["field-separator=", "assign="])?;
    let (program, files) = operands.split_first()?;
    let opens = [
        "system",
        "getline",
        "close",
        "fflush",
        "extension",
        "ARGV",
        "ARGC",
        "ENVIRON",
        "SYMTAB",
        "FUNCTAB",
        "include",
        "load",
    ];
    let text = program.text.as_str();
    if program.is_unknown() || text.contains(['|', '>', '<', '@', '`']) || opens.iter().any(|word| text.contains(word))
    {
        return None;
    }
    paths(files.to_vec())
}
