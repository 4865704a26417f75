//! Rewrites the paths of a call's accesses as its session sees them, before the rules judge them.
//!
//! A tool does not know its workspace and names every absolute path as outside. Here the path gets the one spelling that rules
//! are written for: relative inside the workspace, absolute outside.
//! Paths are text here, and a change must keep it so: no disk is looked at, because the core calls this code and replay calls it
//! again. This is no protection against links. Where a path really leads is found when it is opened beneath the handle of the
//! workspace, which nothing leaves.

use crate::tool::Access;

/// The accesses of one call as the rules should judge them.
///
/// A path that climbs out of the workspace (`../x`) becomes the absolute path, so that there is one spelling to allow or to deny.
/// An absolute path inside the workspace becomes the relative path. A path in one of the `read_roots` may be read without the
/// permission `external_directory`.
pub fn seen_from(workspace: &str, read_roots: &[String], accesses: Vec<Access>) -> Vec<Access> {
    let accesses: Vec<_> = accesses.into_iter().map(|access| climbed(workspace, access)).collect();
    let readable = |pattern: &str| {
        let only_read = accesses
            .iter()
            .filter(|access| access.pattern == pattern)
            .all(|access| matches!(access.permission.as_str(), "read" | "external_directory"));
        only_read && read_roots.iter().any(|root| beneath(root, pattern).is_some())
    };
    let seen = accesses.iter().filter_map(|access| {
        let inside = beneath(workspace, &access.pattern);
        match (access.permission.as_str(), inside) {
            ("external_directory", Some(_)) => None,
            ("external_directory", None) if readable(&access.pattern) => None,
            ("read" | "edit", Some(inside)) => Some(Access::new(&access.permission, inside)),
            _ => Some(access.clone()),
        }
    });
    seen.collect()
}

/// The same accesses with absolute paths, so that they can be seen from another folder. Relative paths start at `workspace`.
pub(super) fn absolute(workspace: &str, accesses: &[Access]) -> Vec<Access> {
    let whole = accesses.iter().flat_map(|access| {
        let is_path = matches!(access.permission.as_str(), "read" | "edit");
        if !is_path || access.pattern.starts_with('/') {
            return vec![access.clone()];
        }
        let workspace = workspace.trim_end_matches('/');
        let pattern = match access.pattern.as_str() {
            "." if workspace.is_empty() => "/".to_owned(),
            "." => workspace.to_owned(),
            inside => format!("{workspace}/{inside}"),
        };
        // A path inside this folder may be outside the other one. Where it is inside both, `seen_from` drops this access again.
        vec![Access::new("external_directory", pattern.clone()), Access::new(&access.permission, pattern)]
    });
    whole.collect()
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
    Access { permission: access.permission, pattern }
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
        assert_eq!(absolute("/", &[Access::new("read", ".")])[1].pattern, "/");
        assert_eq!(absolute("/", &[Access::new("read", "x")])[1].pattern, "/x");
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
