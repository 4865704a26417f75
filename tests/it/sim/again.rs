//! The tape of a schedule, replayed from its entries alone: no signal is told.

use tamtam::{replay::Replay, session::Entry, tape::Append};

use super::{Broken, hold};

/// Every decision is found, and made again as it was. Of one that a crash cut in two, as no append on a disk is, the part that
/// was written must be the beginning.
pub(super) fn replays(entries: &[Entry], appends: &[(usize, bool)]) -> Result<(), Broken> {
    let mut rest = entries;
    let mut whole = Vec::new();
    let mut tape = Vec::new();
    for (length, is_whole) in appends.iter().filter(|(length, _)| *length > 0) {
        let (these, others) = rest.split_at(*length);
        let line = entries.len() - rest.len() + 1;
        let entries = these.iter().map(|entry| entry.to_tape().unwrap()).collect();
        tape.push(Append { file: "schedule".into(), line, entries });
        whole.push(*is_whole);
        rest = others;
    }
    hold!(rest.is_empty(), "{} entries are in no append", rest.len());
    let replay = Replay::of(tape).map_err(|error| error.to_string())?;
    for (step, is_whole) in replay.zip(whole) {
        if let Some(found) = step.difference
            && (is_whole || found.recorded.is_some())
        {
            return Err(format!("the tape does not replay: decision {} ({}): {found}", step.number, step.signal));
        }
    }
    Ok(())
}
