//! What tests of other rooms do with events.

#![allow(clippy::unwrap_used)]

/// Adds lines of events to the file that `TAMTAM_EVENTS` names, if it names one: `tests/wire` holds them against their schema, with a
/// program that is not ours.
pub(crate) fn keep(lines: &str) {
    if let Some(path) = std::env::var_os("TAMTAM_EVENTS") {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        std::io::Write::write_all(&mut file, lines.as_bytes()).unwrap();
    }
}
