//! [`bounded`]: keeps the result of a call that ran within limits, for any tool and hooks.
//!
//! A call's worker (`actor/worker.rs`) runs it after the hooks; only the log of changed files is added later. The content may
//! exceed the tool's own limits by the room for notices (8 KiB, 100 lines). Title, details and attachments have fixed limits, so
//! that they fit a line of the tape. The text says what of the content and the attachments was left out. A result within the limits
//! comes out unchanged, without a look at the disk.
//!
//! A change must not let the result of a tool bypass this step. It must not fail a call because its output cannot be kept: the text
//! of the result says so instead. The disk is used on a blocking thread.

use std::io;

use serde_json::json;

use crate::tool::{
    SpillPlace, ToolResult,
    truncate::{BothEnds, CutLimits, NO_FOLDER, SPILL_BYTES_MAX, SpillFile, count_lines, head_tail},
};

/// How much a result may take beyond the limits of an output: room for the tool's own words about it.
const WORDS_BYTES: usize = 8 * 1024;
const WORDS_LINES: usize = 100;
/// How many bytes the details of a result may take as JSON.
const DETAILS_BYTES_MAX: usize = 1024 * 1024;
/// The limit for all attachments of a result together, in bytes: a little less than one line of a tape may take.
const ATTACHMENTS_BYTES_MAX: usize = 12 * 1024 * 1024;
/// How many characters a title may have.
const TITLE_CHARS_MAX: usize = 500;

/// Cuts a result that is larger than `limits` and the room for notices.
///
/// Both ends are kept, or the beginning where only characters are limited ([`CutLimits::chars`]). The whole content
/// goes to a spill file at `place`, named after `id`; if that file is cut too, the text says so. Without a place, and where it does
/// not take the file, the rest is lost, and the text says so. The first attachment that exceeds the total limit is left out, and all after it; the text says how
/// many. Details that are too large give way to their size in bytes. A result within the limits is given back as it was, without a
/// look at the disk.
pub(crate) async fn bounded(
    mut result: ToolResult,
    limits: CutLimits,
    place: Option<SpillPlace>,
    id: impl FnOnce() -> String,
) -> ToolResult {
    // A `Value` can always be written as JSON.
    let details_bytes = serde_json::to_vec(&result.details).map_or(0, |json| json.len());
    if details_bytes > DETAILS_BYTES_MAX {
        result.details = json!({ "dropped_bytes": details_bytes });
    }
    result.title = result.title.map(|title| title.chars().take(TITLE_CHARS_MAX).collect());
    let left_out = leave_out_attachments(&mut result);
    let (bytes, lines) = (result.content.len(), count_lines(&result.content));
    let is_within = bytes <= limits.max_bytes.saturating_add(WORDS_BYTES)
        && lines <= limits.max_lines.saturating_add(WORDS_LINES)
        && (limits.max_chars == usize::MAX
            || result.content.chars().count() <= limits.max_chars.saturating_add(WORDS_BYTES));
    if is_within {
        result.content.extend(left_out);
        return result;
    }
    let whole = std::mem::take(&mut result.content);
    let limits_only_chars = limits == CutLimits { max_chars: limits.max_chars, ..CutLimits::bytes(usize::MAX) };
    let (shown, end) = match limits_only_chars {
        true => (beginning(&whole, limits.max_chars), ""),
        false => (both_ends(&whole, limits), "]"),
    };
    let kept = match place {
        Some(place) => keep(place, id(), whole).await,
        None => Err(io::Error::other(NO_FOLDER)),
    };
    let where_it_is = match kept {
        Ok(file) if limits_only_chars && file.dropped == 0 => format!("Full output saved to: {}", file.path.display()),
        Ok(file) => file.notice(),
        Err(error) => format!("The full output could not be kept: {error}"),
    };
    result.content = format!("{shown}{where_it_is}{end}");
    result.content.extend(left_out);
    result
}

/// Keeps a text in a spill file of the usual size.
async fn keep(place: SpillPlace, id: String, text: String) -> io::Result<SpillFile> {
    let at = place.clone();
    let written = tokio::task::spawn_blocking(move || {
        let mut spill = at.create(&id, SPILL_BYTES_MAX)?;
        spill.write(text.as_bytes())?;
        Ok(spill)
    });
    place.keep(written.await.unwrap_or_else(|lost| Err(io::Error::other(lost)))?).await
}

/// Removes the first attachment that does not fit and all after it. Returns a notice that says how many.
fn leave_out_attachments(result: &mut ToolResult) -> Option<String> {
    let mut room = ATTACHMENTS_BYTES_MAX;
    let fits = result.attachments.iter().take_while(|file| match room.checked_sub(file.url.len()) {
        Some(rest) => {
            room = rest;
            true
        }
        None => false,
    });
    let left_out = result.attachments.split_off(fits.count());
    let bytes: usize = left_out.iter().map(|file| file.url.len()).sum();
    let notice = format!(
        "\n[{} attachments of {bytes} bytes are left out: {ATTACHMENTS_BYTES_MAX} bytes is the limit for all of a result]",
        left_out.len()
    );
    (!left_out.is_empty()).then_some(notice)
}

/// Both ends, and how much of the whole they are. The caller adds where the whole is.
fn both_ends(whole: &str, limits: CutLimits) -> String {
    let half = limits.max_lines / 2;
    let max_bytes = limits.max_bytes.min(limits.max_chars);
    let cut = head_tail(whole, BothEnds { head_lines: half, tail_lines: limits.max_lines - half, max_bytes });
    let (bytes, lines) = (cut.total_bytes, cut.total_lines);
    let (shown_bytes, shown_lines) = (cut.output_bytes, cut.output_lines);
    format!("{}\n[{shown_bytes} of {bytes} bytes and {shown_lines} of {lines} lines are shown. ", cut.content)
}

/// The first characters, and how many more there are. The caller adds where the whole is.
fn beginning(whole: &str, max_chars: usize) -> String {
    let end = whole.char_indices().nth(max_chars).map_or(whole.len(), |(at, _)| at);
    let more = whole[end..].chars().count();
    format!("{}\n... (output truncated, {more} more characters) ...\n", &whole[..end])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use std::{path::PathBuf, sync::Arc};

    use super::*;
    use crate::tool::truncate::BYTES_MAX;

    async fn bound(result: ToolResult, limits: CutLimits) -> (ToolResult, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        (
            bounded(result, limits, Some(SpillPlace::Folder(Arc::new(folder.path().join("spill")))), || {
                "call".to_owned()
            })
            .await,
            folder,
        )
    }

    #[tokio::test]
    async fn what_fits_is_left_alone_and_touches_no_disk() {
        for content in ["".to_owned(), "x".repeat(BYTES_MAX), "x\n".repeat(2_000)] {
            let result = ToolResult::ok(format!("{content}\n[a notice]")).with_details(json!({"n": 1}));
            let (bound, folder) = bound(result.clone(), CutLimits::default()).await;
            assert_eq!(bound, result);
            assert!(!folder.path().join("spill").exists());
        }
    }

    /// G-01: a tool of the host's own that says too much is cut as well, and nothing of it is lost.
    #[tokio::test]
    async fn what_is_too_large_is_cut_and_kept_whole_in_a_file() {
        let limits =
            [CutLimits::default(), CutLimits::new(10, 1_000), CutLimits { max_lines: 10, ..CutLimits::chars(30_000) }];
        for (limits, content) in
            limits.into_iter().zip(["line é\n".repeat(50_000), "x\n".repeat(500), "é".repeat(60_000)])
        {
            let (bound, _folder) = bound(ToolResult::ok(content.clone()), limits).await;
            assert!(bound.content.len() < limits.max_bytes.min(limits.max_chars) + WORDS_BYTES);
            assert!(bound.content.starts_with(content.split('\n').next().unwrap().get(..1).unwrap_or("é")));
            assert!(bound.content.contains(&format!("of {} bytes", content.len())), "{}", bound.content);
            let path = bound.content.rsplit_once("Full output: ").unwrap().1.trim_end_matches(']');
            assert_eq!(std::fs::read_to_string(path).unwrap(), content);
        }
    }

    /// G-03: it is said how much is missing and where the whole is; under the preset that counts characters in its own words.
    #[tokio::test]
    async fn a_notice_says_how_much_is_missing_and_where_it_is() {
        let content = "é".repeat(60_000);
        let (bound_by_chars, folder) = bound(ToolResult::ok(content.clone()), CutLimits::chars(30_000)).await;
        let file = std::fs::read_dir(folder.path().join("spill")).unwrap().next().unwrap().unwrap().path();
        let notice =
            format!("... (output truncated, 30000 more characters) ...\nFull output saved to: {}", file.display());
        assert_eq!(bound_by_chars.content, format!("{}\n{notice}", "é".repeat(30_000)));
        assert_eq!(std::fs::read_to_string(file).unwrap(), content);
        let (bound, _folder) = bound(ToolResult::ok("x\n".repeat(5_000)), CutLimits::default()).await;
        assert!(bound.content.contains(" of 10000 bytes and 2001 of 5000 lines are shown. Full output: "));
    }

    #[tokio::test]
    async fn details_that_are_too_large_are_left_out() {
        let (bound, _folder) =
            bound(ToolResult::ok("fine").with_details(json!({"all": "x".repeat(2_000_000)})), CutLimits::default())
                .await;
        assert_eq!((bound.content.as_str(), bound.details["dropped_bytes"].as_u64()), ("fine", Some(2_000_010)));
    }

    /// What would not fit on the tape is left out, and a notice says so.
    #[tokio::test]
    async fn attachments_that_are_too_large_are_left_out() {
        let mut result = ToolResult::ok("two images").with_title("é".repeat(2_000));
        let file = |bytes: usize| crate::words::message::FilePart::inline("image/png", None, &vec![0; bytes]);
        result.attachments = vec![file(1_000), file(ATTACHMENTS_BYTES_MAX)];
        let (bound, _folder) = bound(result, CutLimits::default()).await;
        assert_eq!((bound.attachments.len(), bound.title.unwrap().chars().count()), (1, TITLE_CHARS_MAX));
        assert!(bound.content.starts_with("two images\n[1 attachments of "), "{}", bound.content);
    }

    /// If the file cannot be made, what is shown is still shown.
    #[tokio::test]
    async fn a_result_whose_whole_cannot_be_kept_says_so() {
        let folder = SpillPlace::Folder(Arc::new(PathBuf::from("/proc/no/such/folder")));
        let bound =
            bounded(ToolResult::ok("x\n".repeat(50_000)), CutLimits::default(), Some(folder), || "call".to_owned());
        let bound = bound.await;
        assert!(bound.content.contains("could not be kept") && bound.content.starts_with("x\nx\n"));
        let bound =
            bounded(ToolResult::ok("x\n".repeat(50_000)), CutLimits::default(), None, || "call".to_owned()).await;
        assert!(bound.content.contains(NO_FOLDER) && bound.content.starts_with("x\nx\n"), "{}", bound.content);
    }
}
