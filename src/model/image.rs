//! Looks at the bytes of an image, so that none is sent that every provider refuses: a refused image stays in the conversation, and
//! each later request would be refused with it.
//!
//! An image is whole if it has its header and its end. The pixels are not decoded, so a provider may refuse one that passes here;
//! the session learns from that. Pure functions of bytes, which may be anything.

use base64::Engine as _;

/// What kind of image this is, by its bytes; the error says why it cannot be sent.
pub(crate) fn kind(base64: &str) -> Result<&'static str, &'static str> {
    let decoded = base64::engine::general_purpose::STANDARD.decode(base64);
    let bytes = decoded.map_err(|_| "its bytes are not base64")?;
    let (kind, is_whole) = match &bytes[..] {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', chunks @ ..] => ("image/png", is_png(chunks)),
        [0xff, 0xd8, segments @ ..] => ("image/jpeg", is_jpeg(segments)),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', rest @ ..] => ("image/gif", is_gif(rest)),
        [b'R', b'I', b'F', b'F', a, b, c, d, rest @ ..] if rest.starts_with(b"WEBP") => {
            ("image/webp", u32::from_le_bytes([*a, *b, *c, *d]) as usize <= rest.len() && rest.len() > 16)
        }
        _ => return Err("its bytes are not an image of a known kind"),
    };
    if is_whole { Ok(kind) } else { Err("it is not whole") }
}

/// Chunks up to the last one; the first has a width and a height.
fn is_png(mut chunks: &[u8]) -> bool {
    let size = chunks.get(8..16).unwrap_or_default();
    let is_sized = chunks.get(4..8) == Some(b"IHDR") && size.chunks(4).all(|side| side != [0; 4]) && size.len() == 8;
    while let [a, b, c, d, name @ ..] = chunks {
        if name.starts_with(b"IEND") {
            return is_sized;
        }
        // Behind the length: the name, the data and a checksum.
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        chunks = name.get(length.saturating_add(8)..).unwrap_or_default();
    }
    false
}

/// Segments up to the pixels, among them one with a width and a height, and the end mark after the pixels.
fn is_jpeg(mut segments: &[u8]) -> bool {
    let mut is_sized = false;
    while let [0xff, mark, rest @ ..] = segments {
        match (mark, rest) {
            // A fill byte before the mark.
            (0xff, _) => segments = &segments[1..],
            (0xda, pixels) => return is_sized && memchr::memmem::rfind(pixels, &[0xff, 0xd9]).is_some(),
            (_, [a, b, data @ ..]) => {
                let is_frame = matches!(mark, 0xc0..=0xcf) && !matches!(mark, 0xc4 | 0xc8 | 0xcc);
                is_sized |= is_frame && data.get(1..5).is_some_and(|size| size[..2] != [0, 0] && size[2..] != [0, 0]);
                let length = usize::from(u16::from_be_bytes([*a, *b]));
                segments = rest.get(length.max(2)..).unwrap_or_default();
            }
            _ => return false,
        }
    }
    false
}

/// A width and a height, and the end mark; some programs leave bytes of 0 behind it.
fn is_gif(rest: &[u8]) -> bool {
    let is_sized = rest.get(..4).is_some_and(|size| size[..2] != [0, 0] && size[2..] != [0, 0]);
    is_sized && rest.iter().rev().find(|byte| **byte != 0) == Some(&b';')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::samples::PNG;

    const JPEG: &[u8] =
        b"\xff\xd8\xff\xe0\0\x04JF\xff\xc0\0\x0b\x08\0\x01\0\x01\x01\x01\x11\0\xff\xda\0\x02pixels\xff\xd9";
    const GIF: &[u8] = b"GIF89a\x01\0\x01\0\0\0\0;\0";
    const WEBP: &[u8] = b"RIFF\x16\0\0\0WEBPVP8L\x09\0\0\0\x2f\0\0\0\0\0\0\0\0\0";

    fn of(bytes: &[u8]) -> Result<&'static str, &'static str> {
        kind(&base64::engine::general_purpose::STANDARD.encode(bytes))
    }

    #[test]
    fn a_whole_image_is_known_by_its_bytes() {
        for (bytes, expected) in [(PNG, "image/png"), (JPEG, "image/jpeg"), (GIF, "image/gif"), (WEBP, "image/webp")] {
            assert_eq!(of(bytes), Ok(expected));
        }
    }

    #[test]
    fn an_image_that_is_cut_anywhere_is_none() {
        for bytes in [PNG, JPEG, &GIF[..GIF.len() - 1], WEBP] {
            for end in 0..bytes.len() {
                // The checksum of the last chunk of a PNG is read by no decoder that could refuse it for that.
                let is_checksum = bytes == PNG && end >= PNG.len() - 4;
                assert!(is_checksum || of(&bytes[..end]).is_err(), "{end} bytes of {bytes:?}");
            }
        }
        assert_eq!(kind("***"), Err("its bytes are not base64"));
        assert_eq!(of(b"<svg/>"), Err("its bytes are not an image of a known kind"));
        let empty = [&PNG[..16], &[0; 4], &PNG[20..]].concat();
        assert_eq!(of(&empty), Err("it is not whole"), "a width of 0");
    }
}
