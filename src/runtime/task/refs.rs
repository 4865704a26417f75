//! The references of a request, as the first message of the child has them. Blocks on the disk.
//!
//! Of a file the beginning is shown, of a document and of what is remembered what the host has under that name ([`Resolve`]), of
//! everything else the name. A file is opened beneath the workspace, and only if the rules
//! about reading it are no stricter than those about the call that gives the task ([`May`]; a request of the host may name any). A
//! change must keep that: a model could read through a child what the rules keep from it.
//!
//! All of it follows the mark for data ([`NOT_THE_USER`]), in a separate part at the end of the message. The mark holds up to the
//! end of the message, so no text after it ends it. A name stays on its line: a name with a line break or another control
//! character is refused.

use std::{fmt::Write as _, panic::AssertUnwindSafe};

use futures_util::FutureExt as _;
use tokio::time::{Instant, timeout_at};

use crate::{
    actor::shared::Resolve,
    hook::{HOOK_LIMIT, HookContext},
    task::{ContextRef, ContextRefKind},
    tool::May,
    words::message::NOT_THE_USER,
};

/// The most bytes that the child is shown of one file, and the bytes of text after which no more of files is shown.
const FILE_BYTES_MAX: usize = 16 * 1_024;
const ALL_BYTES_MAX: usize = 64 * 1_024;
/// The most references of a request.
const REFS_MAX: usize = 64;

/// The text for a part after the question: names, and the beginnings of files. Empty without references. The error is words for the giver of
/// the request.
pub(super) fn told(workspace: &str, refs: &[(ContextRef, Option<String>)], may: &May) -> Result<String, String> {
    let mut text = String::new();
    for (one, found) in refs {
        let room = FILE_BYTES_MAX.min(ALL_BYTES_MAX.saturating_sub(text.len()));
        let shown = match one.kind {
            ContextRefKind::File => file(workspace, &one.id, may, room)?,
            ContextRefKind::Symbol => format!("The symbol {}.", one.id),
            ContextRefKind::Doc => with_text(format!("The document {}", one.id), found.as_deref(), room),
            ContextRefKind::Memory => with_text(format!("What is remembered as {}", one.id), found.as_deref(), room),
        };
        // Writing into a string cannot fail.
        let _ = write!(text, "\n\n{shown}");
    }
    Ok(if text.is_empty() { text } else { format!("{NOT_THE_USER}\nWhat belongs to the task:{text}") })
}

/// A name with the beginning of what the host has under it.
fn with_text(name: String, text: Option<&str>, room: usize) -> String {
    match text.map(|text| (text, &text[..text.floor_char_boundary(room)])) {
        None => format!("{name}."),
        Some((text, shown)) if shown.len() == text.len() => format!("{name}:\n{shown}"),
        Some((text, shown)) => format!("{name}, its first {} of {} bytes:\n{shown}", shown.len(), text.len()),
    }
}

/// Looks up what the host has under the names of documents and of what is remembered; the others have nothing here. The error is
/// words for the giver of the request. Names are checked before the host hears of any.
pub(super) async fn found(
    resolve: Option<(&Resolve, &HookContext)>,
    refs: &[ContextRef],
) -> Result<Vec<(ContextRef, Option<String>)>, String> {
    if refs.len() > REFS_MAX {
        return Err(format!("{} references cannot be given: {REFS_MAX} are the most", refs.len()));
    }
    refs.iter().try_for_each(check)?;
    let until = Instant::now() + HOOK_LIMIT;
    let mut all = Vec::new();
    for one in refs {
        let text = match (resolve, one.kind) {
            (Some((resolve, context)), ContextRefKind::Doc | ContextRefKind::Memory) => {
                let asked = AssertUnwindSafe(async { resolve(context.clone(), one.clone()).await }).catch_unwind();
                let cannot = |why: &str| format!("{} cannot be given: {why}", one.id);
                match timeout_at(until, asked).await {
                    Ok(Ok(found)) => found.map_err(|why| cannot(&why))?,
                    Ok(Err(_)) => return Err(cannot("the host's function for it crashed")),
                    Err(_) => return Err(cannot("the host did not find it in time")),
                }
            }
            _ => None,
        };
        all.push((one.clone(), text));
    }
    Ok(all)
}

/// A name is one line.
fn check(one: &ContextRef) -> Result<(), String> {
    match one.id.chars().find(|c| c.is_control() || is_line_break_or_turn(*c)) {
        Some(odd) => {
            Err(format!("the name {:?} cannot be given: it has the character {odd:?}; a name is one line", one.id))
        }
        None => Ok(()),
    }
}

/// Characters that break a line or turn its direction, and are not control characters.
fn is_line_break_or_turn(c: char) -> bool {
    matches!(c, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The beginning of a file, and how to read on.
#[cfg(unix)]
fn file(workspace: &str, id: &str, may: &May, room: usize) -> Result<String, String> {
    use crate::tool::{Access, Workspace, truncate};

    let failed = |error: crate::tool::WorkspaceError| format!("the file {id} cannot be given: {error}");
    let inside = Workspace::open(std::path::Path::new(workspace)).map_err(failed)?;
    let path = inside.resolve_existing(id).map_err(failed)?;
    // What is judged is the file that was opened, wherever links lead meanwhile.
    let opened = inside.open_real(&path);
    let real = match &opened {
        Ok((_, _, real)) => real.clone(),
        Err(_) => inside.real(&path).map_err(failed)?,
    };
    let named = [path.relative().to_path_buf(), real];
    if !named.iter().all(|path| may.touch(&Access::new("read", path.to_string_lossy()))) {
        return Err(format!(
            "the file {id} cannot be given: the rules about reading it are stricter than those about tasks"
        ));
    }
    let bytes_max = u64::try_from(room).unwrap_or(u64::MAX);
    let (mut open, info, _) = opened.map_err(failed)?;
    let mut bytes = Vec::new();
    let read = std::io::Read::take(&mut open, bytes_max);
    std::io::Read::read_to_end(&mut { read }, &mut bytes).map_err(|error| format!("failed to read {id}: {error}"))?;
    let is_whole = u64::try_from(bytes.len()).unwrap_or(u64::MAX) >= info.bytes;
    let text = String::from_utf8_lossy(&bytes);
    let head = truncate::head(&text, truncate::CutLimits::default()).content;
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
