//! The `read` tool: shows a page of a text file with line numbers, or an image.
//!
//! Memory is bounded by the page, not by the file; only an image (up to 4.5 MiB) is read whole. Anything but a regular file is
//! refused without a wait. A read stores nothing on the disk.
//!
//! A change must keep that a read remembers two things in memory: what the session has seen of the file, so that a later write is
//! checked against it (`seen.rs`); and of a text file up to 1 MiB that the session knows it, so that its content is kept before a
//! command of the shell runs. The doc comments of the arguments are sent to the model as their descriptions.

mod page;

use std::io::Read as _;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::{
    tool::{
        ToolResult, is_told,
        truncate::{BYTES_MAX, LINES_MAX, format_bytes},
        workspace::FileInfo,
    },
    tools::{
        call::{Call, aborted},
        charset::Guess,
        file_tool::{FileWork, Touch},
        path,
        seen::Watched,
        text::{self, Kind, Sniffed, Stoppable},
    },
    words::message::FilePart,
};

use page::{CutBy, Page, Total};

/// Largest image that is handed to a model, in bytes.
const IMAGE_BYTES_MAX: u64 = 4_718_592;

/// How many bytes past the page a file is read, in order to say how much more there is.
const SCAN_AHEAD_BYTES: usize = 64 * 1024 * 1024;

/// Largest file whose content is kept before a command because it was read, in bytes.
const KEEP_BYTES_MAX: u64 = 1024 * 1024;

/// Reads a file.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Read {
    /// Path of the file, relative to the workspace.
    #[serde(alias = "file_path", alias = "filePath", alias = "file")]
    path: String,
    /// Number of the first line to show; 1 is the first line of the file.
    offset: Option<usize>,
    /// How many lines to show, at most 2000.
    limit: Option<usize>,
}

impl FileWork for Read {
    const NAME: &'static str = "read";
    const ALIASES: &'static [&'static str] = &["read_file"];
    const DESCRIPTION: &'static str = "\
        Reads a file of the workspace. Text comes with line numbers: the number, a tab, then the line; the number is not part \
        of the file. At most 2000 lines or 50KB are shown at once, and lines are cut at 2000 characters; to read a whole \
        larger file, call again with the `offset` that the last line of the output names. PNG, JPEG, GIF and WebP images are \
        shown as images.";
    const TOUCH: Touch = Touch::Reads;
    const PATH_NAMES: &'static [&'static str] = &["path", "file_path", "filePath", "file"];

    fn work(&self, call: &Call) -> Result<ToolResult, ToolResult> {
        let path::OpenFile { path, real, file, info } = call.open_existing(&self.path)?;
        let shown = call.shown(&path);
        let failed = |error: std::io::Error| {
            if call.context.is_cancelled() { aborted() } else { ToolResult::error(format!("{shown}: {error}")) }
        };
        let mut file = Watched::new(file);
        let opened = text::look(&mut file).map_err(failed)?;
        let bom = opened.kind == Kind::Utf8 { bom: true };
        let encoded = match opened.kind {
            Kind::Image(mime) => {
                let result = image(opened, mime, info, &shown).map_err(failed)?;
                call.remember(real, file.glimpse(&info));
                return Ok(result);
            }
            Kind::Binary => {
                let bytes = info.bytes;
                return Err(ToolResult::error(format!(
                    "{shown}: Binary file detected, cannot display as text ({bytes} bytes)"
                )));
            }
            Kind::Encoded(guess) => Some(guess),
            Kind::Utf8 { .. } => None,
        };
        let first = self.offset.unwrap_or(1).max(1);
        let limit = self.limit.unwrap_or(LINES_MAX);
        let stoppable = Stoppable { from: opened.text(), context: call.context };
        let page = page::page(stoppable, first, limit, SCAN_AHEAD_BYTES).map_err(failed)?;
        call.go_on()?;
        let is_on_disk = !is_told(&real);
        if is_on_disk && info.bytes <= KEEP_BYTES_MAX {
            call.shared.files.saw(&call.context.session, real.clone(), &info);
        }
        call.remember(real, file.glimpse(&info));
        // A hint at a shell command is given only where the shell would read the same text as is shown here.
        let word = (encoded.is_none() && is_on_disk).then(|| shell_word(&shown)).flatten();
        answer(page, Told { encoded, bom }, limit, &shown, word.as_deref())
    }
}

/// The facts about a file besides its text.
struct Told {
    encoded: Option<Guess>,
    /// It begins with the byte order mark of UTF-8.
    bom: bool,
}

/// The result for a page. `word` is the path as a shell takes it, where a hint at a command may help.
fn answer(
    page: Page,
    Told { encoded, bom }: Told,
    limit: usize,
    shown: &str,
    word: Option<&str>,
) -> Result<ToolResult, ToolResult> {
    let (lines, total) = match page.total {
        Total::Exactly(lines) => (lines, lines.to_string()),
        Total::AtLeast(lines) => (lines, format!("more than {lines}")),
    };
    if page.first > 1 && page.first > lines {
        let text = format!("Offset {} is beyond end of file ({total} lines total)", page.first);
        return Err(ToolResult::error(text));
    }
    let next = page.first + page.shown;
    let range = match page.shown {
        0 => "no lines".to_owned(),
        _ => format!("lines {}-{}", page.first, next - 1),
    };
    let hint = match page.cut_by {
        None if lines == 0 => Some("[The file is empty.]".to_owned()),
        None => None,
        Some(CutBy::Lines) => {
            let more = (lines + 1).saturating_sub(next);
            let more = if page.total == Total::Exactly(lines) { more.to_string() } else { format!("more than {more}") };
            Some(format!("[Showing {range} of {total}; {more} more lines. Use offset={next} to continue.]"))
        }
        Some(CutBy::Bytes) => {
            let limit = format_bytes(BYTES_MAX);
            Some(format!("[Showing {range} of {total} ({limit} limit). Use offset={next} to continue reading]"))
        }
        Some(CutBy::LongLine) => {
            let how = word.map(|word| format!(" To see it use bash: tail -n +{next} {word} | head -n 100"));
            Some(format!(
                "[Line {} goes on for more than {}; what follows it cannot be shown.{}]",
                next - 1,
                format_bytes(SCAN_AHEAD_BYTES),
                how.unwrap_or_default()
            ))
        }
    };
    let long = page.first_long.map(|(line, bytes)| {
        let how = word.map(|word| {
            let from = bytes + 1;
            format!(" To go on in line {line} use bash: sed -n '{line}p' {word} | tail -c +{from} | head -c 20000")
        });
        format!("[{} lines cut at {} characters.{}]", page.long_lines, page::LINE_CHARS_MAX, how.unwrap_or_default())
    });
    let note = encoded.map(|guess| match (guess.certain, guess.charset.name()) {
        (true, name) => format!("[The file is encoded in {name}.]"),
        (false, name) => {
            format!("[The file is not UTF-8; it is shown as {name}, which is a guess. An edit keeps its encoding.]")
        }
    });
    let invalid = (page.invalid > 0).then(|| {
        format!("[Not valid UTF-8 in {} places, shown as \u{fffd}; an edit leaves them as they are.]", page.invalid)
    });
    let nuls = (page.nuls > 0).then(|| format!("[{} NUL bytes, shown as \u{2400}.]", page.nuls));
    let mark = bom.then(|| "[The file begins with a byte order mark (BOM), which edit and write keep.]".to_owned());
    let ends = match page.ends {
        (_, 0) => None,
        (lf, crlf) if lf == crlf => Some("[Lines end in CRLF, which edit and write keep.]".to_owned()),
        (lf, crlf) => Some(format!("[{crlf} of {lf} line ends are CRLF, the others LF; an edit keeps them.]")),
    };
    let truncated_by = page.cut_by.map(|by| if by == CutBy::Lines { "lines" } else { "bytes" });
    let mut details = json!({
        "path": shown,
        "truncated": page.cut_by.is_some(),
        "truncated_details": truncated_by.map(|by| json!({
            "truncated_by": by,
            "total_lines": lines,
            "total_is_exact": page.total == Total::Exactly(lines),
            "output_lines": page.shown,
            "start_line": page.first,
            "limit": limit.min(LINES_MAX),
            "byte_limit": BYTES_MAX,
        })),
    });
    let text = (!page.text.is_empty()).then_some(page.text);
    if let Some(guess) = encoded {
        details["encoding"] = json!(guess.charset.name());
    }
    if bom {
        details["bom"] = json!(true);
    }
    if page.ends.1 > 0 {
        details["crlf_lines"] = json!(page.ends.1);
    }
    if page.long_lines > 0 {
        details["lines_cut"] = json!(page.long_lines);
    }
    let parts: Vec<String> = [text, long, invalid, nuls, note, mark, ends, hint].into_iter().flatten().collect();
    Ok(ToolResult::ok(parts.join("\n")).with_details(details).with_title(format!("Read {shown}")))
}

/// A path as one word of a shell; `None` for a path that is shown in quotes and with escapes, which a shell reads otherwise.
fn shell_word(shown: &str) -> Option<String> {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+' | '@' | ',');
    match shown {
        _ if shown.starts_with('"') => None,
        _ if shown.starts_with('-') => shell_word(&format!("./{shown}")),
        _ if shown.chars().all(plain) => Some(shown.to_owned()),
        _ => Some(format!("'{}'", shown.replace('\'', r"'\''"))),
    }
}

fn image(opened: Sniffed<impl std::io::Read>, mime: &str, info: FileInfo, shown: &str) -> std::io::Result<ToolResult> {
    let mut bytes = Vec::new();
    opened.bytes().take(IMAGE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > IMAGE_BYTES_MAX {
        return Ok(ToolResult::error(format!(
            "{shown}: the image is too large to be shown: {} bytes, at most {IMAGE_BYTES_MAX}. Make a smaller copy of it first.",
            info.bytes.max(bytes.len() as u64)
        )));
    }
    let count = bytes.len();
    let mut result = ToolResult::ok(format!("[Image: {mime}, {count} bytes]"))
        .with_details(json!({ "path": shown, "truncated": false, "image": { "mime_type": mime, "bytes": count } }))
        .with_title(format!("Read {shown}"));
    let name = std::path::Path::new(shown).file_name().map(|name| name.to_string_lossy().into_owned());
    result.attachments.push(FilePart::inline(mime, name, &bytes));
    Ok(result)
}

#[cfg(test)]
mod tests;
