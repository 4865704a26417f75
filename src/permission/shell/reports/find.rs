//! `find` with tests and printing only. What is not listed here takes the command out: `-exec`, `-delete`, `-fprintf` and what a
//! later version adds. A change must not list an expression that writes, removes or runs something. The folders that are searched
//! and the files that others are compared with are returned as reads.

use super::{path, paths};
use crate::permission::shell::Arg;

/// Expressions without a value.
const ALONE: &[&str] = &[
    "!",
    "(",
    ")",
    ",",
    "-a",
    "-and",
    "-daystart",
    "-depth",
    "-empty",
    "-executable",
    "-false",
    "-follow",
    "-ls",
    "-mount",
    "-nogroup",
    "-noleaf",
    "-not",
    "-nouser",
    "-o",
    "-or",
    "-print",
    "-print0",
    "-prune",
    "-quit",
    "-readable",
    "-true",
    "-writable",
    "-xdev",
    "-nowarn",
    "-d",
];

/// Expressions with one value.
pub(in crate::permission::shell) const VALUED: &[&str] = &[
    "-amin",
    "-anewer",
    "-atime",
    "-cmin",
    "-cnewer",
    "-ctime",
    "-fstype",
    "-gid",
    "-group",
    "-ilname",
    "-iname",
    "-inum",
    "-ipath",
    "-iregex",
    "-iwholename",
    "-links",
    "-lname",
    "-maxdepth",
    "-mindepth",
    "-mmin",
    "-mtime",
    "-name",
    "-newer",
    "-newermt",
    "-path",
    "-perm",
    "-printf",
    "-regex",
    "-regextype",
    "-samefile",
    "-size",
    "-type",
    "-uid",
    "-used",
    "-user",
    "-wholename",
];

pub(super) fn reads(args: &[Arg]) -> Option<Vec<String>> {
    let is_expression = |arg: &Arg| arg.text.starts_with('-') || matches!(arg.text.as_str(), "!" | "(");
    let links = args.iter().take_while(|arg| matches!(arg.text.as_str(), "-L" | "-P" | "-H")).count();
    let start = args[links..].iter().position(is_expression).map_or(args.len(), |at| at + links);
    let mut read = paths(args[links..start].iter().collect())?;
    if args[links..start].iter().any(|arg| arg.text.starts_with([super::ANY, super::GLOB])) {
        return None;
    }
    if read.is_empty() {
        read.push(".".into());
    }
    let mut rest = args[start..].iter();
    while let Some(arg) = rest.next() {
        let text = arg.text.as_str();
        if VALUED.contains(&text) {
            let value = rest.next()?;
            if value.splits {
                return None;
            }
            if matches!(text, "-newer" | "-anewer" | "-cnewer" | "-samefile") {
                read.push(path(value)?);
            }
        } else if !ALONE.contains(&text) {
            return None;
        }
    }
    Some(read)
}
