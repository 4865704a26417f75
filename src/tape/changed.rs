//! Which sessions of a store changed since the index last looked at all of them, so that a list need not look at every folder.
//!
//! This store notes each session that it claims, appends to, removes or brings in ([`Changed::note`]). That is all that can change a
//! tape for as long as this store is the only owner. So a look at all sessions ([`Changed::since`] says `None`) is needed only:
//!
//! - the first time, and where the index is not the one that was looked at, or has rows of another form;
//! - while another owner lives, and once after it: each owner leaves its name in `index.opened` before it can claim a session.
//!
//! Derived, and in memory alone. A change must keep that a session is noted after its files have changed and not before, or a look in
//! between would take the note and miss the change; and that no file is touched under the lock, which every append may take.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicU64, Ordering},
};

use super::{
    TapeError,
    layout::{Layout, read_bytes},
    owner::{is_alive, owner_names},
};
use crate::{lock::Lock, words::ids::SessionId};

/// The most sessions that are noted. With more, the next look is one at all of them.
const NOTED_MAX: usize = 16_384;

/// What changed since the last look.
#[derive(Debug, Default)]
pub(super) struct Changed {
    noted: Lock<Noted>,
    /// The number of looks so far. A tape that was noted since the newest one is not noted again.
    round: AtomicU64,
}

#[derive(Debug, Default)]
struct Noted {
    sessions: BTreeSet<SessionId>,
    /// What the last look at all sessions saw; `None` where the next look must be one.
    seen: Option<Seen>,
}

/// What a look rests on: it holds while this stays the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// Which database the index is: a number that was drawn when it was made.
    pub(super) database: i64,
    /// The form of its rows.
    pub(super) form: u32,
    /// The owner that opened the store last.
    opener: Vec<u8>,
}

impl Seen {
    /// What a look rests on that begins now. `None` while another owner lives, whose changes nobody notes here.
    pub(super) fn now(layout: &Layout, owner: &str, database: i64, form: u32) -> Result<Option<Seen>, TapeError> {
        if database == 0 {
            return Ok(None);
        }
        for other in owner_names(layout)?.iter().filter(|other| *other != owner) {
            if is_alive(layout, other)? {
                return Ok(None);
            }
        }
        // Read after the look for owners: one that opens the store in between is seen here or there.
        let opener = read_bytes(&layout.opened()).unwrap_or_default();
        Ok(Some(Seen { database, form, opener }))
    }
}

impl Changed {
    /// Notes that a session's files have changed.
    pub(super) fn note(&self, session: &SessionId) {
        let mut noted = self.noted.lock();
        if noted.seen.is_none() || noted.sessions.contains(session) {
            return;
        }
        if noted.sessions.len() >= NOTED_MAX {
            *noted = Noted::default();
            return;
        }
        noted.sessions.insert(session.clone());
    }

    /// Notes an append to a tape: once between two looks. `last` is the tape's own, and begins with 0.
    pub(super) fn note_append(&self, session: &SessionId, last: &AtomicU64) {
        let round = self.round.load(Ordering::SeqCst) + 1;
        if last.swap(round, Ordering::SeqCst) != round {
            self.note(session);
        }
    }

    /// Begins a look. Takes out what was noted since the last one; `None` where all sessions must be looked at.
    pub(super) fn since(&self, seen: Option<&Seen>) -> Option<BTreeSet<SessionId>> {
        let mut noted = self.noted.lock();
        let is_same = seen.is_some() && noted.seen.as_ref() == seen;
        let sessions = std::mem::take(&mut noted.sessions);
        // From here on every change is noted: the look itself comes after it.
        noted.seen = seen.cloned();
        drop(noted);
        self.round.fetch_add(1, Ordering::SeqCst);
        is_same.then_some(sessions)
    }

    /// Ends a look that did not come to its end: these sessions are still to be looked at; `None` for all.
    pub(super) fn still(&self, sessions: Option<BTreeSet<SessionId>>) {
        let mut noted = self.noted.lock();
        match sessions {
            Some(sessions) => noted.sessions.extend(sessions),
            None => noted.seen = None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn id(name: &str) -> SessionId {
        name.parse().unwrap()
    }

    fn seen(database: i64) -> Seen {
        Seen { database, form: 1, opener: b"me".to_vec() }
    }

    #[test]
    fn a_look_at_all_comes_first_and_then_only_what_was_noted() {
        let (changed, last) = (Changed::default(), AtomicU64::new(0));
        changed.note_append(&id("early"), &AtomicU64::new(0));
        assert_eq!(changed.since(Some(&seen(7))), None);
        changed.note_append(&id("a"), &last);
        changed.note_append(&id("a"), &last);
        changed.note(&id("b"));
        assert_eq!(changed.since(Some(&seen(7))), Some([id("a"), id("b")].into()));
        assert_eq!(changed.since(Some(&seen(7))), Some(BTreeSet::new()));
        // A tape that was noted before is noted again after a look.
        changed.note_append(&id("a"), &last);
        assert_eq!(changed.since(Some(&seen(7))), Some([id("a")].into()));
    }

    #[test]
    fn what_a_look_did_not_come_to_is_looked_at_again() {
        let changed = Changed::default();
        changed.since(Some(&seen(7)));
        changed.note(&id("a"));
        let found = changed.since(Some(&seen(7)));
        changed.note(&id("b"));
        changed.still(found);
        assert_eq!(changed.since(Some(&seen(7))), Some([id("a"), id("b")].into()));
        changed.still(None);
        assert_eq!(changed.since(Some(&seen(7))), None);
    }

    #[test]
    fn another_database_and_another_owner_ask_for_a_look_at_all() {
        let changed = Changed::default();
        changed.since(Some(&seen(7)));
        assert_eq!(changed.since(Some(&seen(8))), None);
        assert_eq!(changed.since(Some(&Seen { opener: b"other".to_vec(), ..seen(8) })), None);
        assert_eq!(changed.since(None), None);
        assert_eq!(changed.since(Some(&seen(8))), None, "nobody knows what changed meanwhile");
        for n in 0..=NOTED_MAX {
            changed.note(&id(&format!("s{n}")));
        }
        assert_eq!(changed.since(Some(&seen(8))), None, "too many were noted");
    }
}
