//! Reads stdin: the whole of it as a prompt, or line by line for a running session ([`Lines`]).
//!
//! Text on stdin that the command would not read is refused at the start ([`prompt`]) or reported at the end ([`has_text`]).
//! Nothing waits for such text, because a pipe may never be written to.
//!
//! At most [`LINES_MAX`] lines wait to be taken; beyond that, the thread stops reading until lines are taken. A line that is too
//! long or not UTF-8 is reported in its place, so line numbers stay right.
//!
//! A change must keep the reading of lines on a thread of its own: a read that never returns must not delay the end of the process.

use std::{
    io::{BufRead as _, Read as _},
    sync::Arc,
};

use tamtam::Seq;
use tokio::sync::mpsc;

use super::{failure::Failure, terminal::Terminal};

/// Longest line, in bytes.
pub(super) const LINE_BYTES_MAX: u64 = 8 << 20;

/// Lines that may wait to be taken; beyond, reading waits.
const LINES_MAX: usize = 64;

/// A line without its line break, or why it cannot be used.
pub(super) type Line = Result<Entered, &'static str>;

/// A line that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entered {
    pub(super) text: String,
    /// The question that was on the person's screen while the line was typed; `None` for a line of a program.
    pub(super) about: Option<Seq>,
}

/// Where the lines for a running session come from.
pub(super) enum Lines {
    /// A program writes commands.
    Commands(mpsc::Receiver<Line>),
    /// A person types.
    Typed(Arc<Terminal>),
}

impl Lines {
    /// The next line; `None` once stdin has ended. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<Line> {
        match self {
            Lines::Commands(lines) => lines.recv().await,
            Lines::Typed(terminal) => terminal.next().await,
        }
    }

    /// The next line that is there already.
    pub(super) fn try_next(&mut self) -> Option<Line> {
        match self {
            Lines::Commands(lines) => lines.try_recv().ok(),
            Lines::Typed(terminal) => terminal.try_next(),
        }
    }
}

/// The words of a prompt; a `-` alone stands for the text of stdin. Refuses to pass over text that waits in stdin and that nothing
/// would read. Blocks until stdin ends, where it is the prompt.
pub(super) fn prompt(words: &[String], is_json: bool) -> Result<String, Failure> {
    if words != ["-"] {
        if !is_json && has_text() {
            let but = if words.is_empty() { "nothing reads it" } else { "the prompt was given as an argument" };
            return Err(Failure::usage(format!(
                "stdin has data, but {but}: use - to read the prompt from stdin, or redirect stdin from /dev/null"
            )));
        }
        return Ok(words.join(" "));
    }
    if is_json {
        return Err(Failure::usage("with --json, stdin is for commands: give the prompt as an argument"));
    }
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(LINE_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| Failure::usage(format!("cannot read the prompt from stdin: {error}")))?;
    if bytes.len() as u64 > LINE_BYTES_MAX {
        return Err(Failure::usage("the prompt on stdin is too long: the limit is 8 MiB"));
    }
    let text = String::from_utf8(bytes).map(|text| text.trim_end_matches(['\n', '\r']).to_owned());
    text.map_err(|_| Failure::usage("the prompt on stdin is not UTF-8 text: attach a file with --file"))
}

/// Whether stdin is a file or a pipe with text in it that was not read. Never waits for text.
pub(super) fn has_text() -> bool {
    let stdin = std::io::stdin();
    let Ok(facts) = rustix::fs::fstat(&stdin) else { return false };
    match rustix::fs::FileType::from_raw_mode(facts.st_mode) {
        rustix::fs::FileType::RegularFile => {
            let read = rustix::fs::tell(&stdin).unwrap_or_default();
            u64::try_from(facts.st_size).is_ok_and(|size| size > read)
        }
        rustix::fs::FileType::Fifo | rustix::fs::FileType::Socket => {
            rustix::io::ioctl_fionread(&stdin).is_ok_and(|bytes| bytes > 0)
        }
        _ => false,
    }
}

/// Starts the thread that reads the commands of a program. The channel ends with stdin, or with a failed read; a thread in a blocked read ends with the process.
pub(super) fn commands() -> std::io::Result<Lines> {
    let (send, receive) = mpsc::channel(LINES_MAX);
    std::thread::Builder::new().name("stdin".to_owned()).spawn(move || {
        let mut stdin = std::io::stdin().lock();
        while let Ok(Some(line)) = read_line(&mut stdin) {
            if send.blocking_send(line).is_err() {
                return;
            }
        }
    })?;
    Ok(Lines::Commands(receive))
}

/// Reads the next line; `None` at the end.
fn read_line(stdin: &mut impl std::io::BufRead) -> std::io::Result<Option<Line>> {
    let mut bytes = Vec::new();
    stdin.by_ref().take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut bytes)?;
    if bytes.is_empty() {
        return Ok(None);
    }
    // The line break does not count. A line that has it is read to its end.
    let is_too_long = bytes.len() as u64 > LINE_BYTES_MAX && !bytes.ends_with(b"\n");
    if is_too_long {
        skip_line(stdin)?;
    }
    Ok(Some(match String::from_utf8(bytes) {
        _ if is_too_long => Err("the line is too long: the limit is 8 MiB"),
        Ok(line) => Ok(Entered { text: line.trim_end_matches(['\n', '\r']).to_owned(), about: None }),
        Err(_) => Err("the line is not UTF-8"),
    }))
}

fn skip_line(stdin: &mut impl std::io::BufRead) -> std::io::Result<()> {
    loop {
        let held = stdin.fill_buf()?;
        if held.is_empty() {
            return Ok(());
        }
        let (used, ends) = match held.iter().position(|byte| *byte == b'\n') {
            Some(at) => (at + 1, true),
            None => (held.len(), false),
        };
        stdin.consume(used);
        if ends {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A line of exactly the limit swallowed the line after it.
    #[test]
    fn a_line_that_is_too_long_is_reported_in_its_place() {
        let longest = usize::try_from(LINE_BYTES_MAX).unwrap();
        for (bytes, is_read) in [(longest, true), (longest + 1, false), (longest + 9, false)] {
            let text = "a".repeat(bytes) + "\nnext\n";
            let mut stdin = text.as_bytes();
            assert_eq!(read_line(&mut stdin).unwrap().unwrap().is_ok(), is_read, "{bytes}");
            assert_eq!(read_line(&mut stdin).unwrap().unwrap().unwrap().text, "next", "{bytes}");
            assert!(read_line(&mut stdin).unwrap().is_none());
        }
    }
}
