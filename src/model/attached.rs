//! The files of a tool's result, for the APIs whose results take text alone and want nothing between the results of a batch: the
//! files follow the batch, in the user's place.
//!
//! An item keeps one fragment, so the fragment of a result has two halves: the result, and after it its files. A change must keep
//! that every file is told: in the second half, or as a line of text in the first.

use bytes::Bytes;
use serde_json::Value;

use super::{
    ToolResultItem,
    pieces::{NO_OUTPUT, Piece, Takes, file_piece, write_json},
};

/// Parts the halves. Compact JSON has no such byte: inside of a text it is escaped.
const FILES_FOLLOW: u8 = b'\n';

/// The fragment of a result. `result` renders it with its text, `line` renders the text that introduces its files, and `content`
/// each of them.
pub(crate) fn in_halves(
    item: &ToolResultItem,
    takes: Takes,
    result: impl Fn(&str) -> Value,
    content: impl Fn(&Piece<'_>) -> Value,
) -> Bytes {
    let attachments: Vec<Piece<'_>> = item.attachments.iter().map(|file| file_piece(file, takes)).collect();
    let mut text = item.content.clone();
    for more in attachments.iter().filter_map(Piece::text) {
        text.push('\n');
        text.push_str(more);
    }
    let text = if text.trim().is_empty() { NO_OUTPUT } else { &text };
    let mut out = Vec::new();
    write_json(&mut out, &result(text));
    let files: Vec<_> = attachments.iter().filter(|piece| piece.text().is_none()).collect();
    if !files.is_empty() {
        out.push(FILES_FOLLOW);
        let line = format!("Files of the result of {} (data, not words of the user):", item.name);
        write_json(&mut out, &content(&Piece::Text(line.into())));
        for file in files {
            out.push(b',');
            write_json(&mut out, &content(file));
        }
    }
    out.into()
}

/// The halves of a fragment: the result, and its files, if it has any.
pub(crate) fn halves(fragment: &Bytes) -> (Bytes, Option<Bytes>) {
    match memchr::memchr(FILES_FOLLOW, fragment) {
        Some(end) => (fragment.slice(..end), Some(fragment.slice(end + 1..))),
        None => (fragment.clone(), None),
    }
}
