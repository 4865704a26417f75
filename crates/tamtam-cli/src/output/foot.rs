//! [`Foot`]: the last line of the screen, and how much of it fits.

use std::io::Write as _;

/// The width of a terminal that does not say it.
const COLUMNS: usize = 80;

/// The last line of the screen.
#[derive(Default)]
pub(super) struct Foot {
    /// What the person types, and the word before it; both empty while nobody types and nothing is asked.
    pub(super) prompt: &'static str,
    pub(super) typed: String,
    /// What the session does now. Drawn while there is no prompt.
    pub(super) status: String,
    pub(super) is_drawn: bool,
    pub(super) is_stale: bool,
    pub(super) has_ended: bool,
}

impl Foot {
    /// The text of the foot in a terminal of this width; empty where there is none. Of a long line its end is shown, of a status
    /// its beginning.
    pub(super) fn text(&self, columns: usize) -> String {
        // The last column stays free: a terminal may go to the next line there.
        let room = columns.saturating_sub(self.prompt.len() + 2);
        if self.prompt.is_empty() {
            return self.status.chars().take(fitting(self.status.chars(), room)).collect();
        }
        let kept = fitting(self.typed.chars().rev(), room);
        let left_out = self.typed.chars().count() - kept;
        let cut = if left_out > 0 { "…" } else { "" };
        let end: String = self.typed.chars().skip(left_out).collect();
        format!("{}{cut}{end}", self.prompt)
    }
}

/// How many of these characters fit. A character that may be wide counts as such: the foot must never take two lines.
fn fitting(characters: impl Iterator<Item = char>, columns: usize) -> usize {
    let widths = characters.map(|c| if c < '\u{1100}' { 1 } else { 2 });
    let ends = widths.scan(0, |end, width| {
        *end += width;
        Some(*end)
    });
    ends.take_while(|end| *end <= columns).count()
}

/// Writes keys to the terminal. A failed write is ignored: the text that follows meets the same failure.
pub(super) fn show(keys: &str) {
    if !keys.is_empty() {
        let mut stderr = std::io::stderr();
        drop(stderr.write_all(keys.as_bytes()).and_then(|()| stderr.flush()));
    }
}

/// The width of the terminal.
pub(crate) fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stderr());
    size.ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(COLUMNS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_foot_takes_one_line_of_any_terminal() {
        let foot = |prompt, typed: &str| Foot { prompt, typed: typed.to_owned(), ..Foot::default() };
        assert_eq!(foot("> ", "use tabs").text(40), "> use tabs");
        assert_eq!(foot("answer> ", "").text(40), "answer> ");
        assert_eq!(foot("> ", "use tabs and no blanks").text(12), "> …o blanks");
        assert_eq!(foot("> ", "你好世界").text(10), "> …好世界");
        let status = Foot { status: "… waiting for a/b (12 s)".to_owned(), ..Foot::default() };
        assert_eq!(status.text(80), "… waiting for a/b (12 s)");
        assert_eq!(status.text(12), "… waiting");
    }
}
