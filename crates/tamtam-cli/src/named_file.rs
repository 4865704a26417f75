//! Reads a file that an argument names, such as a prompt, a script or rules, or one that a user wrote, such as a configuration.
//!
//! Only a regular file is read: a FIFO would wait for a writer, and a device has no end. [`bytes`] and [`text`] also have a bound.
//! [`open`] has none; its caller must read piece by piece.
//!
//! A change must keep this: this crate opens such files to read here and nowhere else, or a command could hang or fill the
//! memory. One file is opened by the library instead: that of `tamtam replay --test`.

use std::{fs::File, io::Read as _, os::unix::fs::OpenOptionsExt as _, path::Path};

/// Opens the file. The error is the reason, for the line that says what the file was for.
pub(super) fn open(path: &Path) -> Result<File, String> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let opened = File::options().read(true).custom_flags(flags).open(path);
    let file = opened.map_err(|error| error.to_string())?;
    let is_file = file.metadata().map_err(|error| error.to_string())?.is_file();
    if is_file { Ok(file) } else { Err("it is not a regular file".to_owned()) }
}

/// The bytes of the file, at most `bytes_max`; more is an error.
pub(super) fn bytes(path: &Path, bytes_max: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    open(path)?.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    let is_too_long = bytes.len() as u64 > bytes_max;
    if is_too_long { Err(format!("it has more than {bytes_max} bytes")) } else { Ok(bytes) }
}

/// The text of the file, at most `bytes_max` bytes.
pub(super) fn text(path: &Path, bytes_max: u64) -> Result<String, String> {
    String::from_utf8(bytes(path, bytes_max)?).map_err(|_| "it is not UTF-8 text".to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_a_regular_file_within_its_bound_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let (file, fifo) = (folder.path().join("file"), folder.path().join("fifo"));
        std::fs::write(&file, "12345").unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        assert_eq!((text(&file, 5), text(&file, 4)), (Ok("12345".into()), Err("it has more than 4 bytes".into())));
        for special in [fifo.as_path(), Path::new("/dev/zero"), folder.path()] {
            assert_eq!(bytes(special, 5), Err("it is not a regular file".to_owned()), "{}", special.display());
        }
        assert!(bytes(&folder.path().join("none"), 5).is_err());
    }
}
