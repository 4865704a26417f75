//! Joins the paths of shell commands as text, and resolves `.` and `..` in them.
//!
//! A change must not look at the disk here, because the judgement of a command must not depend on it. So links are not followed,
//! and this does not protect against them: a command that leaves the workspace through a link is stopped by a sandbox only.

/// Joins `path` to `folder`, and resolves `.` and `..`. A path that begins with `/` ignores the folder. In an absolute path, a `..`
/// above the root is dropped; in a relative one, a leading `..` is kept. A path that begins with `~` is in some home folder, wherever
/// that is, and stays as it is.
pub(super) fn joined(folder: &str, path: &str) -> String {
    if path.starts_with('~') {
        return path.to_owned();
    }
    let whole = if path.starts_with('/') { path.to_owned() } else { format!("{folder}/{path}") };
    let absolute = path.starts_with('/') || folder.starts_with('/');
    let mut kept: Vec<&str> = Vec::new();
    for piece in whole.split('/') {
        match piece {
            "" | "." => {}
            ".." if kept.last().is_some_and(|last| *last != "..") => drop(kept.pop()),
            ".." if absolute => {}
            piece => kept.push(piece),
        }
    }
    match (absolute, kept.is_empty()) {
        (true, _) => format!("/{}", kept.join("/")),
        (false, true) => ".".to_owned(),
        (false, false) => kept.join("/"),
    }
}

/// The folder that a command starts in, as [`joined`] has it; empty for the workspace.
pub(super) fn start(folder: &str) -> String {
    match joined("", folder).as_str() {
        "." => String::new(),
        folder => folder.to_owned(),
    }
}
