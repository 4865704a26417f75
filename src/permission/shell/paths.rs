//! Paths as text: joined and without `.` and `..`. No disk is looked at, so a link is not seen; what leaves the workspace through
//! a link is stopped where files are opened, or by a sandbox.

/// A path that starts from a folder, without `.` and without `..` where it can go. Paths that begin with `/` start from nowhere.
pub(super) fn joined(folder: &str, path: &str) -> String {
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
