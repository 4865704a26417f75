//! A tape that answers before it has written: a fault that tests inject, to show what the rule "tape first" guards against.
//!
//! It stands in front of a session's tape where the feature `fault-injection` is on, and passes everything through unless a runtime
//! was told to hold appends back. Then an append is answered at once and written later, in order (an anchor as a plain entry); if
//! that write fails, nobody is told. What is held back when the process is killed is lost; that is its purpose. It must never be
//! part of a build without that feature.

use std::{
    sync::mpsc,
    time::{Duration, Instant},
};

use crate::tape::{Appended, OpenTape, TapeEntry, TapeError};

/// The most appends that are held back; beyond that, `append` blocks.
const WAITING_MAX: usize = 4_096;

/// A session's tape, written at once or behind.
pub(super) enum Tape {
    InTime(OpenTape),
    Behind(mpsc::SyncSender<(Instant, Vec<TapeEntry>)>),
}

impl Tape {
    pub(super) fn new(mut tape: OpenTape, hold_back: Option<Duration>) -> Tape {
        let Some(by) = hold_back else { return Tape::InTime(tape) };
        let (send, receive) = mpsc::sync_channel::<(Instant, Vec<TapeEntry>)>(WAITING_MAX);
        // The thread ends, and gives the tape back, when the session's actor is gone and all held appends are written.
        std::thread::spawn(move || {
            for (appended, entries) in receive {
                std::thread::sleep(by.saturating_sub(appended.elapsed()));
                // The tape takes one append at a time.
                while let Appended::Now(Err(TapeError::Busy { .. })) = tape.append(&entries) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
        Tape::Behind(send)
    }

    pub(super) fn begin_anchor(&mut self, name: &str, first: &TapeEntry) -> Appended {
        match self {
            Tape::InTime(tape) => tape.begin_anchor(name, first),
            // A tape that is written behind gets the entry of the anchor as an ordinary entry.
            Tape::Behind(_) => self.append(std::slice::from_ref(first)),
        }
    }

    pub(super) fn append(&mut self, entries: &[TapeEntry]) -> Appended {
        match self {
            Tape::InTime(tape) => tape.append(entries),
            Tape::Behind(send) => {
                let seq = entries.last().map_or_else(Default::default, |entry| entry.seq);
                // The thread ends only after the sender.
                drop(send.send((Instant::now(), entries.to_vec())));
                Appended::Now(Ok(seq))
            }
        }
    }
}
