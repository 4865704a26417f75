//! The form of a text file besides its text: encoding, byte order mark, line ends. A model sees none of them, so a file that it
//! overwrites keeps its form ([`as_before`]), and the result says which.
//!
//! A change must keep that `read` shows of the new file exactly the text that was written: a text that cannot be had in the old form
//! is written as UTF-8. The code is pure.

use std::{borrow::Cow, io::Read as _};

use crate::tools::{
    charset::Charset,
    text::{self, Kind},
};

/// The form of a text file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Form {
    /// `None` for UTF-8.
    charset: Option<Charset>,
    bom: bool,
    /// Each line ends in CRLF.
    crlf: bool,
}

/// The bytes of a text that replaces the content of a file, and what of the file's form they have or lost, in words. Nothing is
/// kept of a file that is not text, or that has the usual form (UTF-8 without a mark, LF).
pub(super) fn as_before<'t>(old: &[u8], text: &'t str) -> (Cow<'t, [u8]>, Option<String>) {
    let Some(form) = Form::of(old) else { return (Cow::Borrowed(text.as_bytes()), None) };
    let text = if form.crlf { Cow::Owned(with_crlf(text)) } else { Cow::Borrowed(text) };
    if let (Some(charset), Some(bytes)) = (form.charset, form.encoded(&text)) {
        return (Cow::Owned(bytes), Some(format!("kept: {}", form.words(charset.name()))));
    }
    if let Some(charset) = form.charset {
        let lost = format!("now UTF-8: the text cannot be had in {}, as the file was", charset.name());
        return (text.into_owned().into_bytes().into(), Some(lost));
    }
    let said = (form.bom || form.crlf).then(|| format!("kept: {}", form.words("")));
    match form.bom && !text.starts_with('\u{feff}') {
        true => (format!("\u{feff}{text}").into_bytes().into(), said),
        false => match text {
            Cow::Borrowed(text) => (Cow::Borrowed(text.as_bytes()), said),
            Cow::Owned(text) => (Cow::Owned(text.into_bytes()), said),
        },
    }
}

impl Form {
    /// The form of a content; `None` if it is not text, or cannot be decoded without loss.
    fn of(content: &[u8]) -> Option<Form> {
        let (charset, bom, text) = match text::kind(content) {
            Kind::Utf8 { bom } => (None, bom, Cow::Borrowed(content)),
            Kind::Encoded(guess) => {
                let text = guess.charset.decode(content)?;
                (Some(guess.charset), guess.certain, Cow::Owned(text.into_bytes()))
            }
            Kind::Image(_) | Kind::Binary => return None,
        };
        let mut ends = memchr::memchr_iter(b'\n', &text).peekable();
        let crlf = ends.peek().is_some() && ends.all(|at| at > 0 && text[at - 1] == b'\r');
        Some(Form { charset, bom, crlf })
    }

    /// The text in the old encoding; `None` if that lacks a character, or the bytes would be taken for another encoding.
    fn encoded(self, text: &str) -> Option<Vec<u8>> {
        let bare = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mark = if self.bom { "\u{feff}" } else { "" };
        let bytes = self.charset?.encode(&format!("{mark}{bare}")).ok()?;
        let mut shown = Vec::new();
        text::look(&bytes[..]).ok()?.text().read_to_end(&mut shown).ok()?;
        (shown == bare.as_bytes()).then_some(bytes)
    }

    fn words(self, charset: &str) -> String {
        // The mark of UTF-16 is part of the encoding.
        let bom = if self.bom && self.charset.is_none() { "BOM" } else { "" };
        let crlf = if self.crlf { "CRLF" } else { "" };
        [charset, bom, crlf].into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(", ")
    }
}

/// The text with a CR before each LF that has none.
fn with_crlf(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn written(old: &[u8], text: &str) -> (Vec<u8>, Option<String>) {
        let (bytes, said) = as_before(old, text);
        (bytes.into_owned(), said)
    }

    fn utf_16(text: &str) -> Vec<u8> {
        text.encode_utf16().flat_map(u16::to_le_bytes).collect()
    }

    #[test]
    fn a_text_takes_the_form_of_the_one_before() {
        let kept = |words: &str| Some(format!("kept: {words}"));
        for (old, text, expected, said) in [
            (&b"a\nb\n"[..], "x\ny", b"x\ny".to_vec(), None),
            (b"a\r\nb\n", "x\ny\n", b"x\ny\n".to_vec(), None),
            (b"", "x\n", b"x\n".to_vec(), None),
            (b"a\r\nb", "x\r\ny\n", b"x\r\ny\r\n".to_vec(), kept("CRLF")),
            (b"\xef\xbb\xbfa\n", "x\n", b"\xef\xbb\xbfx\n".to_vec(), kept("BOM")),
            (b"\xef\xbb\xbfa\r\n", "\u{feff}x\n", b"\xef\xbb\xbfx\r\n".to_vec(), kept("BOM, CRLF")),
            (&utf_16("\u{feff}a\r\n"), "größe 好\n", utf_16("\u{feff}größe 好\r\n"), kept("UTF-16LE, CRLF")),
            (b"caf\xe9\n", "gr\u{f6}\u{df}e\n", b"gr\xf6\xdfe\n".to_vec(), kept("windows-1252")),
            (b"\0\x01\x02", "x\n", b"x\n".to_vec(), None),
        ] {
            assert_eq!(written(old, text), (expected, said), "{text:?} over {old:?}");
        }
    }

    /// What the old encoding does not have, or what would be read back as something else.
    #[test]
    fn a_text_that_cannot_be_had_in_the_old_encoding_is_utf_8() {
        for (old, text) in [(&b"caf\xe9\n"[..], "好\n"), (b"caf\xe9\n", "\u{c3}\u{a9}\n"), (&utf_16("ab\n"), "ä\n")] {
            let (bytes, said) = written(old, text);
            assert_eq!(
                (bytes, said.unwrap().split(':').next()),
                (text.as_bytes().to_vec(), Some("now UTF-8")),
                "{text}"
            );
        }
    }
}
