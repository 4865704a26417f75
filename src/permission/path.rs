//! Rewrites the paths of a call's accesses as its session sees them, before the rules judge them.
//!
//! A tool does not know its workspace and names every absolute path as outside. Here the path gets the one spelling that rules
//! are written for: relative inside the workspace, absolute outside. An `external_directory` access is dropped where its path is
//! inside, or is only read and lies in one of the session's `read_roots`; no other access is dropped.
//!
//! Paths are text here, and a change must keep it so: no disk is read, because the core calls this code and replay calls it
//! again. This does not protect against links. The file tools find where a path really leads when they open it beneath the handle
//! of the workspace; a shell command is kept inside by a sandbox only.

use crate::tool::{Access, ReadPath, ShellPart};

/// The accesses of one call as the rules should judge them.
///
/// A path that climbs out of the workspace (`../x`) becomes the absolute path, so that there is one spelling to allow or to deny.
/// An absolute path inside the workspace becomes the relative path. A path in one of the `read_roots` may be read without the
/// permission `external_directory`, unless the call wants to do more with it. The same holds for the paths that a part of a shell
/// command reads.
pub fn seen_from(workspace: &str, read_roots: &[String], accesses: Vec<Access>) -> Vec<Access> {
    unplaced(seen(workspace, read_roots, accesses.into_iter().enumerate().collect()))
}

/// The same for accesses with their places, which the accesses that they become keep.
pub(super) fn seen(workspace: &str, read_roots: &[String], accesses: Vec<(usize, Access)>) -> Vec<(usize, Access)> {
    let accesses: Vec<_> = accesses.into_iter().map(|(at, access)| (at, climbed(workspace, access))).collect();
    let readable = |pattern: &str| {
        let only_read = accesses
            .iter()
            .filter(|(_, access)| access.pattern == pattern)
            .all(|(_, access)| matches!(access.permission.as_str(), "read" | "external_directory"));
        only_read && read_roots.iter().any(|root| beneath(root, pattern).is_some())
    };
    let seen = accesses.iter().filter_map(|(at, access)| {
        let inside = beneath(workspace, &access.pattern);
        let access = match (access.permission.as_str(), inside) {
            ("external_directory", Some(_)) => return None,
            ("external_directory", None) if readable(&access.pattern) => return None,
            ("read" | "edit", Some(inside)) => Access { pattern: inside.to_owned(), ..access.clone() },
            _ => with_reads(access.clone(), |reads| seen(workspace, read_roots, reads)),
        };
        Some((*at, access))
    });
    seen.collect()
}

/// The same accesses with absolute paths, so that they can be seen from another folder. Relative paths start at `workspace`.
pub(super) fn absolute(workspace: &str, accesses: Vec<(usize, Access)>) -> Vec<(usize, Access)> {
    let whole = accesses.into_iter().flat_map(|(at, access)| {
        let Some(pattern) = path_from(workspace, &access) else {
            return vec![(at, with_reads(access, |reads| absolute(workspace, reads)))];
        };
        // A path inside this folder may be outside the other one. If it is inside both, `seen_from` drops this access again.
        let outside = Access { permission: "external_directory".into(), pattern, part: access.part };
        vec![(at, outside.clone()), (at, Access { permission: access.permission, ..outside })]
    });
    whole.collect()
}

fn unplaced(accesses: Vec<(usize, Access)>) -> Vec<Access> {
    accesses.into_iter().map(|(_, access)| access).collect()
}

/// The absolute path of an access to a relative path.
fn path_from(workspace: &str, access: &Access) -> Option<String> {
    let is_path = matches!(access.permission.as_str(), "read" | "edit");
    if !is_path || access.pattern.starts_with('/') {
        return None;
    }
    let workspace = workspace.trim_end_matches('/');
    Some(match access.pattern.as_str() {
        "." if workspace.is_empty() => "/".to_owned(),
        "." => workspace.to_owned(),
        inside => format!("{workspace}/{inside}"),
    })
}

/// An access with the paths that a command reads as `seen` returns them. It gets each path as the accesses of a read.
fn with_reads(mut access: Access, seen: impl Fn(Vec<(usize, Access)>) -> Vec<(usize, Access)>) -> Access {
    if let Some(ShellPart::Command { reads: Some(reads), .. }) = &mut access.part {
        // A path in a home folder has one spelling, wherever it is seen from.
        for read in reads.iter_mut().filter(|read| !read.path.starts_with('~')) {
            let seen = unplaced(seen(read_accesses(read).into_iter().enumerate().collect()));
            let outside = seen.iter().any(|access| access.permission == "external_directory");
            if let Some(path) = seen.into_iter().find(|access| access.permission == "read") {
                *read = ReadPath::new(path.pattern, outside);
            }
        }
    }
    access
}

/// The accesses of a file that a command reads by name.
pub(super) fn read_accesses(read: &ReadPath) -> Vec<Access> {
    let outside = read.outside.then(|| Access::new("external_directory", &read.path));
    outside.into_iter().chain([Access::new("read", &read.path)]).collect()
}

/// Whether a path in a shell command, as it is written, may lead out of the workspace. A `~` at its beginning is a home folder; a file
/// of that name inside counts as one too.
pub(super) fn leads_out(path: &str) -> bool {
    path.starts_with(['/', '~']) || path == ".." || path.starts_with("../")
}

/// The same access; a path that begins with `..` is made absolute.
fn climbed(workspace: &str, access: Access) -> Access {
    let is_path = matches!(access.permission.as_str(), "read" | "edit" | "external_directory");
    if !is_path || !workspace.starts_with('/') || !(access.pattern == ".." || access.pattern.starts_with("../")) {
        return access;
    }
    let mut kept: Vec<&str> = workspace.split('/').filter(|piece| !piece.is_empty()).collect();
    for piece in access.pattern.split('/') {
        match piece {
            "" | "." => {}
            ".." => drop(kept.pop()),
            piece => kept.push(piece),
        }
    }
    let pattern = format!("/{}", kept.join("/"));
    Access { pattern, ..access }
}

/// The rest of a path that lies beneath a folder, both absolute and free of `.` and `..`.
fn beneath<'p>(folder: &str, path: &'p str) -> Option<&'p str> {
    let is_root = folder.starts_with('/');
    let folder = folder.trim_end_matches('/');
    if (folder.is_empty() && !is_root) || path.split('/').any(|piece| piece == "..") {
        return None;
    }
    match path.strip_prefix(folder)? {
        "" | "/" => Some("."),
        rest => rest.strip_prefix('/'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(permission: &str, path: &str) -> Vec<(String, String)> {
        let accesses = vec![Access::new("external_directory", path), Access::new(permission, path)];
        let seen = seen_from("/srv/app", &["/var/tapes/s/spill".to_owned()], accesses);
        seen.into_iter().map(|access| (access.permission, access.pattern)).collect()
    }

    fn pair(permission: &str, pattern: &str) -> (String, String) {
        (permission.to_owned(), pattern.to_owned())
    }

    /// An absolute path inside the workspace is judged as the relative one, so that rules about it hold.
    #[test]
    fn an_absolute_path_inside_is_the_relative_one() {
        assert_eq!(seen("edit", "/srv/app/.git/config"), [pair("edit", ".git/config")]);
        assert_eq!(seen("read", "/srv/app"), [pair("read", ".")]);
    }

    /// A workspace may be all there is, as in a container: then nothing is outside, and a rule about a path is about that path.
    #[test]
    fn beneath_the_root_is_everything() {
        let seen = |path: &str| {
            let accesses = vec![Access::new("external_directory", path), Access::new("read", path)];
            seen_from("/", &[], accesses).into_iter().map(|one| (one.permission, one.pattern)).collect::<Vec<_>>()
        };
        assert_eq!(seen("/etc/shadow"), [pair("read", "etc/shadow")]);
        assert_eq!(seen("/"), [pair("read", ".")]);
        assert_eq!(seen("../x"), [pair("read", "x")]);
        let whole = |path: &str| {
            let whole = absolute("/", vec![(0, Access::new("read", path))]);
            unplaced(whole).into_iter().map(|one| one.pattern).collect::<Vec<_>>()
        };
        assert_eq!(whole("."), ["/", "/"]);
        assert_eq!(whole("x"), ["/x", "/x"]);
    }

    /// F02: a sibling that only begins alike is outside, and so is everything else.
    #[test]
    fn what_is_outside_stays_outside() {
        for path in ["/srv/app-evil/x", "/etc/passwd", "/srv/app/../x"] {
            assert_eq!(seen("read", path), [pair("external_directory", path), pair("read", path)]);
        }
    }

    /// F01: a path that climbs has one spelling, wherever it arrives.
    #[test]
    fn a_path_that_climbs_is_the_absolute_one() {
        assert_eq!(
            seen("read", "../other/x"),
            [pair("external_directory", "/srv/other/x"), pair("read", "/srv/other/x")]
        );
        assert_eq!(seen("edit", "../app/x"), [pair("edit", "x")]);
        assert_eq!(seen("read", "../../../.."), [pair("external_directory", "/"), pair("read", "/")]);
        assert_eq!(seen("bash", "../x"), [pair("external_directory", "/srv/x"), pair("bash", "../x")]);
        assert_eq!(seen("read", "..x"), [pair("external_directory", "..x"), pair("read", "..x")]);
    }

    /// Design §8: the folder of large outputs may be read, and only read.
    #[test]
    fn a_read_root_may_be_read_and_not_edited() {
        let spilled = "/var/tapes/s/spill/call_1.txt";
        assert_eq!(seen("read", spilled), [pair("read", spilled)]);
        assert_eq!(seen("edit", spilled), [pair("external_directory", spilled), pair("edit", spilled)]);
    }
}
