//! The text of a streaming call: shown piece by piece while the call runs, and kept for the result up to [`STREAM_BYTES_MAX`].
//!
//! What is kept is the beginning of the text without a gap; the result says how many bytes are missing. Pieces are shown in the
//! order in which they are kept. A change must pass every piece through the filters of the hooks before it is kept or shown,
//! because they remove what must not be seen, such as secrets. It must also keep the bound, because a tool may write without end.

use std::sync::Arc;

use serde_json::json;

use crate::{
    lock::Lock,
    tool::{OutputFilter, Progress, ToolResult},
};

/// How many bytes of text one streaming call keeps for its result. If that is more than a model gets
/// ([`Tool::output`](crate::tool::Tool::output)), the runtime cuts the text and keeps these bytes in a file.
pub const STREAM_BYTES_MAX: usize = 1024 * 1024;

/// How many bytes of one piece listeners are shown, at most.
const PIECE_BYTES_MAX: usize = 8 * 1024;

/// Takes the text of a streaming call, piece by piece: see [`typed_streaming`](crate::tool::typed_streaming).
///
/// Cheap to clone: all clones write one text, in the order of their writes. A write waits for nothing but another write, and cannot
/// fail. What is written after the result was made is dropped.
#[derive(Clone)]
pub struct TextSink {
    text: Arc<Lock<Option<Text>>>,
    progress: Progress,
}

/// The text so far; taken out of its [`TextSink`] when the result is made.
struct Text {
    kept: String,
    left_out_bytes: usize,
    /// What the pieces pass before they are kept and shown.
    filter: Box<dyn OutputFilter>,
}

impl TextSink {
    pub(super) fn new(progress: Progress, filter: Box<dyn OutputFilter>) -> TextSink {
        let text = Text { kept: String::new(), left_out_bytes: 0, filter };
        TextSink { text: Arc::new(Lock::new(Some(text))), progress }
    }

    /// Adds a piece of text to the result, and shows it as progress of the call: metadata `{"piece": …, "total_bytes": …}`, where
    /// the total counts this piece too. Nothing is added between two pieces.
    ///
    /// Of all pieces together the first 1 MiB ([`STREAM_BYTES_MAX`]) is kept, and the result says how much is missing. Of one piece
    /// listeners are shown the first 8 KiB. The pieces pass the filters of the hooks first, which may keep a few bytes back until
    /// the next piece: see [`ToolContext::filter`](crate::tool::ToolContext::filter).
    pub fn write(&self, piece: impl AsRef<str>) {
        // Locked until the piece is shown, so that pieces are shown in the order in which they are kept.
        let mut text = self.text.lock();
        let Some(text) = text.as_mut() else { return };
        let piece = text.filter.push(piece.as_ref().as_bytes());
        let piece = String::from_utf8_lossy(&piece);
        if piece.is_empty() {
            return;
        }
        text.add(&piece);
        let shown = &piece[..piece.floor_char_boundary(PIECE_BYTES_MAX)];
        self.progress.metadata(json!({ "piece": shown, "total_bytes": text.kept.len() + text.left_out_bytes }));
    }

    /// Ends the text, and adds the closure's own result to it.
    pub(super) fn end(&self, mut result: ToolResult) -> ToolResult {
        let Some(mut text) = self.text.lock().take() else { return result };
        let rest = text.filter.finish();
        text.add(&String::from_utf8_lossy(&rest));
        let Text { kept: mut content, left_out_bytes, .. } = text;
        if left_out_bytes > 0 {
            let max = STREAM_BYTES_MAX;
            add_line(&mut content, &format!("[{left_out_bytes} more bytes are left out: {max} bytes are kept]"));
        }
        add_line(&mut content, &result.content);
        result.content = content;
        result
    }
}

impl Text {
    fn add(&mut self, piece: &str) {
        // Once something is left out, nothing more is kept: the text has no hole.
        let room = if self.left_out_bytes == 0 { STREAM_BYTES_MAX - self.kept.len() } else { 0 };
        let (kept, left_out) = piece.split_at(piece.floor_char_boundary(room));
        self.kept.push_str(kept);
        self.left_out_bytes += left_out.len();
    }
}

fn add_line(text: &mut String, line: &str) {
    if !text.is_empty() && !text.ends_with('\n') && !line.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}

impl std::fmt::Debug for TextSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TextSink").finish_non_exhaustive()
    }
}
