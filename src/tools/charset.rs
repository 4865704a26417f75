//! Encodings of text other than UTF-8: which one a file has, and the way from its bytes to text and back.
//!
//! A byte order mark is certain. Without one the encoding is a guess, and the `read` tool says so to the model.
//!
//! Every encoding here encodes each character separately. So a text that was decoded without loss is encoded to the same bytes
//! again, and an edit changes only the bytes of the text that it replaces. A change must not add an encoding with a state between
//! characters, because an edit would then change other bytes. The code is pure.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_16BE, UTF_16LE, WINDOWS_1252};

/// How many bytes are read to recognize UTF-16 without a byte order mark.
const UTF_16_SNIFF_BYTES: usize = 512;

/// An encoding other than UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Charset {
    Utf16Le,
    Utf16Be,
    /// Latin letters in one byte each. Text in any other encoding of single bytes is shown in this one too.
    Windows1252,
}

/// An encoding, and whether it is certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Guess {
    pub(super) charset: Charset,
    /// Whether the file says so itself, by its byte order mark.
    pub(super) certain: bool,
}

impl Charset {
    /// Its usual name.
    pub(super) fn name(self) -> &'static str {
        self.encoding().name()
    }

    pub(super) fn encoding(self) -> &'static Encoding {
        match self {
            Charset::Utf16Le => UTF_16LE,
            Charset::Utf16Be => UTF_16BE,
            Charset::Windows1252 => WINDOWS_1252,
        }
    }

    /// The text of some bytes, with a byte order mark as a character; `None` if decoding would lose bytes.
    pub(super) fn decode(self, bytes: &[u8]) -> Option<String> {
        self.encoding().decode_without_bom_handling_and_without_replacement(bytes).map(Cow::into_owned)
    }

    /// The bytes of a text, or the first character that the encoding does not have.
    pub(super) fn encode(self, text: &str) -> Result<Vec<u8>, char> {
        let bytes: fn(u16) -> [u8; 2] = match self {
            Charset::Utf16Le => u16::to_le_bytes,
            Charset::Utf16Be => u16::to_be_bytes,
            Charset::Windows1252 => return windows_1252(text),
        };
        Ok(text.encode_utf16().flat_map(bytes).collect())
    }
}

fn windows_1252(text: &str) -> Result<Vec<u8>, char> {
    let (bytes, _, has_strangers) = WINDOWS_1252.encode(text);
    match has_strangers {
        false => Ok(bytes.into_owned()),
        // The characters are tried one by one only where one of them is known to fail.
        true => Err(text.chars().find(|c| WINDOWS_1252.encode(c.encode_utf8(&mut [0; 4])).2).unwrap_or('\u{fffd}')),
    }
}

/// The encoding that the beginning of a file points to, if it is not UTF-8.
pub(super) fn guess(head: &[u8]) -> Option<Guess> {
    let certain = |charset| Some(Guess { charset, certain: true });
    let likely = |charset| Some(Guess { charset, certain: false });
    match head {
        // The mark of UTF-32, which begins like that of UTF-16.
        [0xff, 0xfe, 0, 0, ..] => None,
        [0xff, 0xfe, ..] => certain(Charset::Utf16Le),
        [0xfe, 0xff, ..] => certain(Charset::Utf16Be),
        _ if is_plain_utf_16(head, 0) => likely(Charset::Utf16Le),
        _ if is_plain_utf_16(head, 1) => likely(Charset::Utf16Be),
        _ if is_single_bytes(head) => likely(Charset::Windows1252),
        _ => None,
    }
}

/// Whether every second byte is a printable character of ASCII and the others are NUL.
fn is_plain_utf_16(head: &[u8], letters: usize) -> bool {
    let head = &head[..head.len().min(UTF_16_SNIFF_BYTES)];
    let printable = |byte: u8| byte.is_ascii_graphic() || matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
    head.len() >= 4
        && head.len().is_multiple_of(2)
        && head.iter().enumerate().all(|(at, byte)| if at % 2 == letters { printable(*byte) } else { *byte == 0 })
}

/// Whether each byte is most likely a character: the text has bytes that are not UTF-8, no valid UTF-8 beyond ASCII, and no
/// control characters.
fn is_single_bytes(head: &[u8]) -> bool {
    let mut invalid = false;
    let mut chunks = head.utf8_chunks().peekable();
    while let Some(chunk) = chunks.next() {
        let control = |byte: u8| byte.is_ascii_control() && !matches!(byte, b'\t' | b'\n' | b'\r' | 0x0b | 0x0c | 0x1b);
        if !chunk.valid().is_ascii() || chunk.valid().bytes().any(control) {
            return false;
        }
        // Bytes at the end of the head may be the beginning of a character that is cut off there.
        invalid |= !chunk.invalid().is_empty() && chunks.peek().is_some();
        invalid |= chunk.invalid().first().is_some_and(|byte| matches!(byte, 0x80..0xc2 | 0xf5..));
        invalid |= !chunk.invalid().is_empty() && head.len() < super::text::SNIFF_BYTES;
    }
    invalid
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use proptest::prelude::*;

    use super::*;

    fn charset(head: &[u8]) -> Option<Charset> {
        guess(head).map(|guess| guess.charset)
    }

    #[test]
    fn a_mark_is_certain_and_the_rest_is_a_guess() {
        assert_eq!(guess(b"\xff\xfea\0"), Some(Guess { charset: Charset::Utf16Le, certain: true }));
        assert_eq!(guess(b"\xfe\xff\0a"), Some(Guess { charset: Charset::Utf16Be, certain: true }));
        assert_eq!(guess(b"a\0b\0\n\0"), Some(Guess { charset: Charset::Utf16Le, certain: false }));
        assert_eq!(guess(b"\0a\0b"), Some(Guess { charset: Charset::Utf16Be, certain: false }));
        assert_eq!(guess(b"caf\xe9\n"), Some(Guess { charset: Charset::Windows1252, certain: false }));
    }

    #[test]
    fn what_is_utf_8_or_no_text_is_not_guessed_at() {
        for head in [
            &b"plain"[..],
            "größe 你好".as_bytes(),
            "größe \u{fffd}".as_bytes(),
            b"\xff\xfe\0\0a\0\0\0",
            b"a\0b",
            b"\x7fELF\0\0\0\xff",
            b"\x01\x02\xff",
            b"",
        ] {
            assert_eq!(charset(head), None, "{head:?}");
        }
        // UTF-8 with damage is UTF-8.
        assert_eq!(charset(b"gr\xc3\xb6\xc3\x9fe \xff\n"), None);
        // A character that is cut off by the end of the head.
        let cut = [vec![b'a'; super::super::text::SNIFF_BYTES - 1], vec![0xc3]].concat();
        assert_eq!(charset(&cut), None);
    }

    #[test]
    fn what_cannot_be_had_without_loss_is_said() {
        assert_eq!(Charset::Utf16Le.decode(b"a\0b"), None, "half a unit");
        assert_eq!(Charset::Utf16Be.decode(b"\xd8\0\0a"), None, "half a pair");
        assert_eq!(Charset::Windows1252.encode("a€好b"), Err('好'));
    }

    proptest! {
        #[test]
        fn text_comes_back_as_it_was(text in "\\PC{0,40}", bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            for charset in [Charset::Utf16Le, Charset::Utf16Be] {
                let encoded = charset.encode(&text).unwrap();
                prop_assert_eq!(charset.decode(&encoded), Some(text.clone()));
            }
            for charset in [Charset::Utf16Le, Charset::Utf16Be, Charset::Windows1252] {
                if let Some(text) = charset.decode(&bytes) {
                    prop_assert_eq!(charset.encode(&text), Ok(bytes.clone()));
                }
            }
        }
    }
}
