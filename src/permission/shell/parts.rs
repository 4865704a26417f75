//! Splits a shell command into its parts, and returns them as accesses that rules judge one by one: each simple command, each
//! file that it opens for reading or writing by a redirect or by `tee` or `find`, and the whole text. Workers call this when they
//! ask a tool for the accesses of a call; the core never does, because parsing takes time. The accesses are on the tape, so a
//! replay as recorded needs no parser.
//!
//! A change must keep:
//!
//! - No part is lost. A command that cannot be read with certainty, or has too many parts, becomes one access, which no pattern
//!   about `bash` allows: only a rule with exactly its text, or one about `unclear_bash`.
//! - A text without a simple command is a command too, so that what rules say of all commands holds for it.
//! - The accesses of a command take 16 KiB and 16 bytes for each byte of it at most, because a model chooses the command.

use std::{cell::LazyCell, collections::HashSet};

use crate::{
    permission::{
        path::leads_out,
        shell::{ANY, Analysis, Found, GLOB, Role, Simple, analyse},
    },
    tool::{Access, ReadPath, ShellPart, UnknownWords},
};

/// The permission of shell commands.
const BASH: &str = "bash";

/// The same accesses, with each access to `bash` replaced by one for each part of its command: for each simple command in it, for
/// each file that a redirect opens or that `tee` or `find` writes, and for the whole text. A command that cannot be read with
/// certainty becomes one access, which no pattern about `bash` allows: only a rule with exactly its text, or one about
/// `unclear_bash`.
///
/// Sessions do this with what tools say. Takes up to some hundred microseconds for each KiB of a command, and nothing if there
/// is none. Never panics. Without the feature `shell-policy` no command can be read.
///
/// ```
/// use tamtam::{permission::with_parts, tool::Access};
/// # if cfg!(feature = "shell-policy") {
/// let parts = with_parts(vec![Access::new("bash", "cargo test && /bin/rm -r x > log")]);
/// let parts: Vec<_> = parts.iter().map(|part| part.to_string()).collect();
/// assert_eq!(parts[..3], ["bash cargo test", "bash rm -r x", "edit log (written by the command)"]);
/// # }
/// ```
#[must_use]
pub fn with_parts(accesses: Vec<Access>) -> Vec<Access> {
    let is_command =
        |access: &Access| access.permission == BASH && matches!(access.part, None | Some(ShellPart::Line { .. }));
    if !accesses.iter().any(is_command) {
        return accesses;
    }
    let parts = accesses.into_iter().flat_map(|access| match &access.part {
        _ if !is_command(&access) => vec![access],
        Some(ShellPart::Line { folder, confined }) => of(&access.pattern, folder, *confined),
        _ => of(&access.pattern, "", false),
    });
    parts.collect()
}

/// The accesses of one command that starts in a folder.
fn of(command: &str, folder: &str, confined: bool) -> Vec<Access> {
    let whole = command.trim_matches([' ', '\t', '\n']);
    let unread = |why: String| vec![Access::new(BASH, whole).into_part(ShellPart::Unread { why, confined })];
    let parts = match analyse(command, folder) {
        Analysis::Found(found) => parts(&found, whole, confined),
        Analysis::Unclear { why } => return unread(why),
    };
    match parts.iter().map(bytes).sum::<usize>() > PARTS_BYTES + PARTS_FACTOR * command.len() {
        true => unread("it has too many parts".to_owned()),
        false => parts,
    }
}

/// The parts of any command may take so many bytes, and so many more for each byte of it.
const PARTS_BYTES: usize = 16 * 1024;
const PARTS_FACTOR: usize = 16;

/// About how many bytes an access takes on a tape.
fn bytes(access: &Access) -> usize {
    const NAMES: usize = 64;
    let part = match &access.part {
        Some(ShellPart::Command { unknown, reads, .. }) => {
            let reads = reads.iter().flatten().map(|read| read.path.len() + NAMES / 2).sum::<usize>();
            reads + unknown.as_ref().map_or(0, |unknown| unknown.text.len() + NAMES)
        }
        Some(ShellPart::Also { unknown: Some(unknown) }) => unknown.text.len() + NAMES,
        _ => 0,
    };
    NAMES + access.pattern.len() + part
}

/// The parts of a command, each once.
fn parts(found: &Found, whole: &str, confined: bool) -> Vec<Access> {
    let hash = LazyCell::new(|| blake3::hash(whole.as_bytes()).to_hex()[..16].to_owned());
    let mut parts: Vec<_> = found.commands.iter().map(|simple| command(simple, confined, &|| hash.clone())).collect();
    // A text that only opens files, or does nothing, is a command too: what is said about all commands holds for it.
    if found.commands.is_empty() {
        let nothing = ShellPart::Command { unknown: None, reads: Some(Vec::new()), confined };
        parts.push(Access::new(BASH, whole).into_part(nothing));
    }
    let file = |permission: &'static str, path: &str, part: ShellPart| {
        let outside = leads_out(path).then(|| Access::new("external_directory", path));
        let both: Vec<_> = outside.into_iter().chain([Access::new(permission, path)]).collect();
        both.into_iter().map(move |access| access.into_part(part.clone()))
    };
    parts.extend(found.writes.iter().flat_map(|path| file("edit", path, ShellPart::Write)));
    parts.extend(found.reads.iter().flat_map(|path| file("read", path, ShellPart::Read)));
    // A rule that denies the whole text denies a command that is the whole text anyway.
    let one = Access::new(BASH, whole).into_part(ShellPart::Command { unknown: None, reads: None, confined });
    if !parts.contains(&one) {
        parts.push(Access::new(BASH, whole).into_part(ShellPart::Whole));
    }
    let mut seen = HashSet::new();
    parts.retain(|part| seen.insert(part.clone()));
    parts
}

/// The access of a simple command. `hash` returns the hash of the text that contains it.
fn command(simple: &Simple, confined: bool, hash: &dyn Fn() -> String) -> Access {
    let text = simple.text();
    let pattern = text.replace([ANY, GLOB], "…");
    let unknown = text.contains([ANY, GLOB]).then(|| UnknownWords::new(text, hash()));
    let read = |path: &String| ReadPath::new(path.clone(), leads_out(path));
    let part = match simple.role {
        Role::Command => {
            let reads = simple.reads.as_ref().map(|paths| paths.iter().map(read).collect());
            ShellPart::Command { unknown, reads, confined }
        }
        Role::Also => ShellPart::Also { unknown },
    };
    Access::new(BASH, pattern).into_part(part)
}
