//! Reads a file that goes with a prompt, and makes it a part of the message.
//!
//! The content decides the media type, never the name. A file that cannot be read, a FIFO or device, or a file that is too large is
//! a usage error. The code blocks on the disk.
//!
//! A change must keep that the message is made before a session is opened, so that a bad file starts nothing.

use std::path::Path;

use tamtam::Part;

use super::{failure::Failure, named_file};

/// Largest attached file, in bytes: in base64, as it travels, it must fit a message.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// Reads the file as a part of a message.
pub(super) fn part(path: &Path) -> Result<Part, Failure> {
    let refused = |why: String| Failure::usage(format!("cannot attach {}: {why}", path.display()));
    let bytes = named_file::bytes(path, FILE_BYTES_MAX).map_err(refused)?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    Ok(Part::file(mime(&bytes), name, &bytes))
}

/// The media type of a file: by its first bytes; else text if the whole content is UTF-8 without NUL, and bytes if not.
fn mime(bytes: &[u8]) -> &'static str {
    const MAGIC: &[(&[u8], &str)] = &[
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF87a", "image/gif"),
        (b"GIF89a", "image/gif"),
        (b"%PDF-", "application/pdf"),
    ];
    let known = MAGIC.iter().find(|(magic, _)| bytes.starts_with(magic)).map(|(_, mime)| *mime);
    match known {
        Some(mime) => mime,
        None if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") => "image/webp",
        None if std::str::from_utf8(bytes).is_ok() && !bytes.contains(&0) => "text/plain",
        None => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_told_by_its_first_bytes() {
        let cases: [(&[u8], &str); 5] = [
            (b"\x89PNG\r\n\x1a\n....", "image/png"),
            (b"RIFF....WEBPVP8 ", "image/webp"),
            ("plain, ünïcode".as_bytes(), "text/plain"),
            (b"", "text/plain"),
            (b"\x00\x01", "application/octet-stream"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(mime(bytes), expected);
        }
    }
}
