//! The references of a request, as the first message of the child has them. Blocks on the disk.
//!
//! Of a file the beginning is shown, of everything else the name. A file is opened beneath the workspace, and only where the rules
//! about reading it are no stricter than those about the call that gives the task ([`May`]; a request of the host may name any). A
//! change must keep that: a model could read through a child what the rules keep from it.

use std::fmt::Write as _;

use crate::{
    task::{ContextRef, ContextRefKind},
    tool::May,
};

/// The most bytes that the child is shown of one file, and the bytes of text behind which no more of files is shown.
const FILE_BYTES_MAX: usize = 16 * 1_024;
const ALL_BYTES_MAX: usize = 64 * 1_024;

/// The text behind the question: names, and the beginnings of files. Empty without references. The error is words for the giver of
/// the request.
pub(super) fn told(workspace: &str, refs: &[ContextRef], may: &May) -> Result<String, String> {
    let mut text = String::new();
    for one in refs {
        let room = FILE_BYTES_MAX.min(ALL_BYTES_MAX.saturating_sub(text.len()));
        let shown = match one.kind {
            ContextRefKind::File => file(workspace, &one.id, may, room)?,
            ContextRefKind::Symbol => format!("The symbol {}.", one.id),
            ContextRefKind::Doc => format!("The document {}.", one.id),
            ContextRefKind::Memory => format!("What is remembered as {}.", one.id),
        };
        // Writing into a string cannot fail.
        let _ = write!(text, "\n\n{shown}");
    }
    Ok(if text.is_empty() { text } else { format!("\n\nWhat belongs to it:{text}") })
}

/// The beginning of a file, and how to read on.
#[cfg(unix)]
fn file(workspace: &str, id: &str, may: &May, room: usize) -> Result<String, String> {
    use crate::tool::{Access, Workspace, truncate};

    let failed = |error: crate::tool::WorkspaceError| format!("the file {id} cannot be given: {error}");
    let inside = Workspace::open(std::path::Path::new(workspace)).map_err(failed)?;
    let path = inside.resolve_existing(id).map_err(failed)?;
    let real = inside.real(&path).map_err(failed)?;
    let named = [path.relative().to_path_buf(), real];
    if !named.iter().all(|path| may.touch(&Access::new("read", path.to_string_lossy()))) {
        return Err(format!(
            "the file {id} cannot be given: the rules about reading it are stricter than those about tasks"
        ));
    }
    let bytes_max = u64::try_from(room).unwrap_or(u64::MAX);
    let (mut open, info) = inside.open_read(&path).map_err(failed)?;
    let mut bytes = Vec::new();
    let read = std::io::Read::take(&mut open, bytes_max);
    std::io::Read::read_to_end(&mut { read }, &mut bytes).map_err(|error| format!("failed to read {id}: {error}"))?;
    let is_whole = u64::try_from(bytes.len()).unwrap_or(u64::MAX) >= info.bytes;
    let text = String::from_utf8_lossy(&bytes);
    let head = truncate::head(&text, truncate::Limits::default()).content;
    let lines = truncate::count_lines(&head);
    Ok(match is_whole && head.len() == text.len() {
        true => format!("The file {id}:\n{head}"),
        false => {
            let next = lines.max(1) + 1;
            format!(
                "The file {id}, its first {lines} lines (it has {} bytes; read on with read, offset {next}):\n{head}",
                info.bytes
            )
        }
    })
}

#[cfg(not(unix))]
fn file(_: &str, id: &str, _: &May, _: usize) -> Result<String, String> {
    Ok(format!("The file {id}."))
}
