//! A tape that was made without a disk, replayed from its entries alone: no signal is told.

use tamtam::{kernel::Entry, ops::replay::Replay, tape::Append};

use super::{Broken, hold};

/// How an append came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Made {
    /// By a decision, all of whose entries were written.
    Whole,
    /// By a decision that a crash cut in two, as no append on a disk is: what was written must be the beginning.
    Torn,
    /// By a test, which put there what no decision would.
    ByHand,
}

/// Every decision is found, and made again as it was.
pub(crate) fn replays(entries: &[Entry], appends: &[(usize, Made)]) -> Result<(), Broken> {
    let mut rest = entries;
    let mut made = Vec::new();
    let mut tape = Vec::new();
    for (length, how) in appends.iter().filter(|(length, _)| *length > 0) {
        let (these, others) = rest.split_at(*length);
        let line = entries.len() - rest.len() + 1;
        let entries = these.iter().map(|entry| entry.to_tape().unwrap()).collect();
        tape.push(Append { file: "memory".into(), line, entries });
        made.push(*how);
        rest = others;
    }
    hold!(rest.is_empty(), "{} entries are in no append", rest.len());
    let replay = Replay::of(tape).map_err(|error| error.to_string())?;
    for (step, made) in replay.zip(made) {
        let Some(found) = step.difference else { continue };
        let excused = match made {
            Made::Whole => false,
            // What was read of the host may have been read for an entry that is lost.
            Made::Torn => found.recorded.is_none() || found.path == "in.env",
            Made::ByHand => true,
        };
        hold!(excused, "the tape does not replay: decision {} ({}): {found}", step.number, step.signal);
    }
    Ok(())
}
