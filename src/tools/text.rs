//! Finds the kind of a file by its first bytes, and returns its text as a stream, decoded to UTF-8 if the file has another
//! encoding.
//!
//! A file is judged by its first [`SNIFF_BYTES`] bytes and never by its name. Beyond these bytes nothing is read before the
//! caller asks for it, so a look at a huge file costs no more than one at a small file. A change must not read a whole file here.
//! A caller that reads a long stream puts a [`Stoppable`] around it, so that a call that must stop reads no further.

use std::io::{self, Cursor, Read};

use encoding_rs_io::DecodeReaderBytesBuilder;

use crate::{
    tool::ToolContext,
    tools::charset::{self, Guess},
};

/// How many bytes are read to tell what a file holds.
pub(super) const SNIFF_BYTES: usize = 8_192;

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An image of this MIME type, by its magic bytes and never by its name.
    Image(&'static str),
    /// Text in UTF-8, or text that is shown as if it were UTF-8.
    Utf8 { bom: bool },
    /// Text in another encoding.
    Encoded(Guess),
    /// Neither image nor text of a known encoding: the first 8 KiB have NULs as no text has them.
    Binary,
}

/// Tells what a file holds from its first [`SNIFF_BYTES`] bytes.
pub(super) fn kind(head: &[u8]) -> Kind {
    if let Some(mime) = image_type(head) {
        return Kind::Image(mime);
    }
    let head = &head[..head.len().min(SNIFF_BYTES)];
    match charset::guess(head) {
        Some(guess) => Kind::Encoded(guess),
        None if !is_text(head) => Kind::Binary,
        None => Kind::Utf8 { bom: head.starts_with(b"\xef\xbb\xbf") },
    }
}

/// How many bytes of a text there are for each NUL in it, at least.
const BYTES_FOR_A_NUL: usize = 16;

/// Whether bytes without a known encoding are text. Bytes without a NUL are always shown as text. A NUL or two in a text is a
/// slip of a program or a separator, if nothing else speaks against a text: a NUL at its very beginning, bytes that are not
/// UTF-8, or other control characters.
fn is_text(head: &[u8]) -> bool {
    let nuls = memchr::memchr_iter(0, head).count();
    let is_control = |byte: &u8| matches!(byte, 1..=7 | 0x0e..=0x1a | 0x1c..=0x1f | 0x7f);
    // The end of the head may cut through a character.
    let is_utf_8 = || std::str::from_utf8(head).map_or_else(|error| error.error_len().is_none(), |_| true);
    nuls == 0
        || (head.first() != Some(&0)
            && nuls * BYTES_FOR_A_NUL <= head.len()
            && !head.iter().any(is_control)
            && is_utf_8())
}

fn image_type(head: &[u8]) -> Option<&'static str> {
    match head {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// A file of which the beginning was read: what it holds, and all of its bytes as a stream.
pub(super) struct Sniffed<R> {
    pub(super) kind: Kind,
    head: Vec<u8>,
    rest: R,
}

/// Reads the beginning of a file and tells what it holds.
pub(super) fn look<R: Read>(mut file: R) -> io::Result<Sniffed<R>> {
    let mut head = Vec::with_capacity(SNIFF_BYTES);
    file.by_ref().take(SNIFF_BYTES as u64).read_to_end(&mut head)?;
    Ok(Sniffed { kind: kind(&head), head, rest: file })
}

impl<R: Read> Sniffed<R> {
    /// The whole text without its BOM, where it is UTF-8 and was read whole already.
    pub(super) fn whole(&self) -> Option<&[u8]> {
        match self.kind {
            Kind::Utf8 { bom } if self.head.len() < SNIFF_BYTES => Some(&self.head[if bom { 3 } else { 0 }..]),
            _ => None,
        }
    }

    /// The bytes from the beginning, as they are in the file.
    pub(super) fn bytes(self) -> impl Read {
        Cursor::new(self.head).chain(self.rest)
    }

    /// The text without its BOM. Another encoding is decoded; all other bytes come as they are.
    pub(super) fn text<'a>(mut self) -> Box<dyn Read + 'a>
    where
        R: 'a,
    {
        match self.kind {
            Kind::Encoded(guess) => {
                let mut decoder = DecodeReaderBytesBuilder::new();
                Box::new(decoder.encoding(Some(guess.charset.encoding())).build(self.bytes()))
            }
            Kind::Utf8 { bom: true } => Box::new(Cursor::new(self.head.split_off(3)).chain(self.rest)),
            _ => Box::new(self.bytes()),
        }
    }
}

/// A stream that ends with an error once the call must stop.
pub(super) struct Stoppable<'a, R> {
    pub(super) from: R,
    pub(super) context: &'a ToolContext,
}

impl<R: Read> Read for Stoppable<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.context.is_cancelled() {
            return Err(io::Error::other("the call was stopped"));
        }
        self.from.read(out)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;

    fn text(bytes: &[u8]) -> String {
        let mut text = Vec::new();
        let mut reader = look(bytes).unwrap().text();
        let mut chunk = [0; 3];
        loop {
            match reader.read(&mut chunk).unwrap() {
                0 => return String::from_utf8(text).unwrap(),
                read => text.extend_from_slice(&chunk[..read]),
            }
        }
    }

    fn utf16(text: &str, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
        "\u{feff}".encode_utf16().chain(text.encode_utf16()).flat_map(bytes).collect()
    }

    #[test]
    fn magic_bytes_tell_an_image() {
        assert_eq!(kind(b"\x89PNG\r\n\x1a\n\0\0"), Kind::Image("image/png"));
        assert_eq!(kind(b"\xff\xd8\xff\xe0"), Kind::Image("image/jpeg"));
        assert_eq!(kind(b"GIF89a...."), Kind::Image("image/gif"));
        assert_eq!(kind(b"RIFF\x10\0\0\0WEBPVP8 "), Kind::Image("image/webp"));
        assert_eq!(kind(b"GIF8 is a format"), Kind::Utf8 { bom: false });
        assert_eq!(kind(b"\xff\xfe\0\0a\0\0\0"), Kind::Binary);
        assert_eq!(kind(b""), Kind::Utf8 { bom: false });
    }

    /// Nasty case 6.
    #[test]
    fn utf_16_is_decoded_across_chunks() {
        let long = "größe 你好 😀\n".repeat(20_000);
        for bytes in [u16::to_le_bytes as fn(u16) -> [u8; 2], u16::to_be_bytes] {
            assert_eq!(text(&utf16(&long, bytes)), long);
        }
        assert_eq!(text(b"\xff\xfea\0\x00\xd8b\0"), "a\u{fffd}b", "a lone surrogate is shown as such");
        assert_eq!(text(b"\xff\xfea\0b"), "a\u{fffd}", "half a unit at the end too");
        assert_eq!(text(b"\xef\xbb\xbfabc"), "abc");
    }

    #[test]
    fn a_few_nuls_make_no_text_binary() {
        let text = Kind::Utf8 { bom: false };
        let with = |nul: &[u8], more: &[u8]| kind(&[b"fn main() { a(); }\n", nul, b"fn b() { c(); }\n", more].concat());
        assert_eq!(with(b"\0", "größe\n".as_bytes()), text);
        assert_eq!(with(b"\0\0", b"\x1b[1m\x08\x0c\n"), text);
        for (nul, more) in [(&b"\0\0\0"[..], &b""[..]), (b"\0", b"\xff"), (b"\0", b"\x01"), (b"\0", b"\x7f")] {
            assert_eq!(with(nul, more), Kind::Binary, "{nul:?} {more:?}");
        }
        assert_eq!(kind(b"a\0b"), Kind::Binary);
        assert_eq!(kind(&[&b"\0"[..], &[b'a'; 100]].concat()), Kind::Binary);
        // Only the beginning counts; a character that its end cuts through speaks against nothing.
        let mut bytes = vec![b'a'; SNIFF_BYTES];
        bytes[SNIFF_BYTES - 1] = 0xc3;
        bytes[1] = 0;
        bytes.extend([0xb6, 0, 0, 0, 0xff]);
        assert_eq!(kind(&bytes), text);
    }
}
