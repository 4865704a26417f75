//! Work on a session's tape without its actor: decodes lines that were read, folds them into a state, and appends one entry to
//! the tape of a session that is not open.
//!
//! Decoding and folding take no claim and may run alongside a working session. Appending needs a [`Claimed`], which releases the
//! claim when dropped.
//!
//! A change must keep this: nothing is appended without the claim, because one process writes a tape; and an entry that is appended
//! here names its input, because otherwise the tape could not be replayed.

use std::sync::{
    Arc,
    mpsc::{Receiver, channel},
};

use crate::{
    error::OpenError,
    kernel::{Entry, Record, Recorded, State},
    tape::{self, Appended, TapeError, TapeStore, TapeStoreExt as _, TapeWriter},
    words::ids::{Millis, Seq, SessionId},
};

/// Decodes lines of a session's tape.
pub(crate) fn entries<'l>(
    session: &SessionId,
    lines: impl IntoIterator<Item = &'l tape::TapeEntry>,
) -> Result<Vec<Entry>, OpenError> {
    let entries: Result<_, _> = lines.into_iter().map(Entry::from_tape).collect();
    entries.map_err(|bad| OpenError::damaged(session, bad))
}

/// Folds lines of a session's tape into its state.
pub(crate) fn state(session: &SessionId, lines: &[tape::TapeEntry]) -> Result<State, OpenError> {
    let begins = "a tape begins with a state";
    State::fold(entries(session, lines)?).ok_or_else(|| OpenError::damaged(session, begins))
}

/// The state of a session as its tape has it, read from the newest anchor on. Blocks on the disk.
pub(crate) fn newest(store: &dyn TapeStore, session: &SessionId) -> Result<State, OpenError> {
    let last = store.summary(session)?.seq;
    match store.read_to(session, last) {
        // Whoever made it died before its first entry.
        Err(TapeError::NoEntry { .. }) => Err(TapeError::Missing { session: session.clone() }.into()),
        read => state(session, &read?.entries),
    }
}

/// A session that is claimed for one entry. Dropping it releases the claim.
pub(crate) struct Claimed {
    tape: Box<dyn TapeWriter>,
    settled: Receiver<Result<Seq, TapeError>>,
    /// The state that its entries make.
    pub(crate) state: State,
}

impl Claimed {
    /// Claims and reads a session that is not open. Blocks on the disk.
    pub(crate) fn of(store: &dyn TapeStore, session: &SessionId) -> Result<Claimed, OpenError> {
        let (settle, settled) = channel();
        // There is no receiver if the append was answered at once.
        let loaded = store.load(session, Arc::new(move |result| drop(settle.send(result))))?;
        if let Some(damage) = loaded.read_only {
            return Err(TapeError::Damaged(damage).into());
        }
        Ok(Claimed { state: state(session, &loaded.entries)?, tape: loaded.tape, settled })
    }

    /// Appends one record, as an input of that name would have, and returns the entry once the tape has it. Blocks on the disk.
    pub(crate) fn record(mut self, now: Millis, input: &'static str, record: Record) -> Result<Seq, TapeError> {
        let entry = Entry {
            seq: self.state.seq.next(),
            time: now.max(self.state.time),
            cause: None,
            turn: None,
            step: None,
            ticket: None,
            input: Some(Recorded::new(input)),
            record,
        };
        let line = entry.to_tape().map_err(TapeError::engine)?;
        match self.tape.append(&[line]) {
            Appended::Now(done) => done,
            Appended::Later => {
                self.settled.recv().unwrap_or_else(|_| Err(TapeError::engine("it did not answer an append")))
            }
        }
    }
}
