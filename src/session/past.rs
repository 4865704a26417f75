//! The durable events of a tape behind one of its entries, a page at a time.
//!
//! Events follow from the state before an entry, so a reading holds that state, and folds each page into it. A page has at most
//! [`ENTRIES_MAX`] entries, and fewer after pages of large ones: about [`BYTES`] are read at a time.
//!
//! A change must keep that a page is the last one only where the tape ended when it was read: what comes later is live.

use std::sync::Arc;

use crate::{
    actor::shared::Shared,
    error::OpenError,
    event::{Past, PastPage, events_of},
    kernel::State,
    ops::taped,
    tape::{TapeError, TapeStore, TapeStoreExt as _},
    words::ids::{Seq, SessionId},
};

/// The most entries of a page.
const ENTRIES_MAX: u64 = 256;

/// About how many bytes of events a page has. One entry may have more.
const BYTES: usize = 1 << 20;

/// A reading that has come to an entry.
pub(super) struct PastReading {
    /// The session that is read. The state of a fork is its parent's up to the fork's own first entries.
    session: SessionId,
    state: State,
    /// How many entries the next page has at most.
    entries: u64,
}

impl PastReading {
    /// A reading that begins behind the entry `after`; `None` if the tape does not reach it. Blocks on the disk.
    pub(super) fn behind(
        store: &dyn TapeStore,
        session: &SessionId,
        after: Seq,
    ) -> Result<Option<PastReading>, OpenError> {
        // The first entry of a tape has no event: it is the state that others are applied to.
        match store.read_to(session, after.max(Seq(1))) {
            Err(TapeError::NoEntry { .. }) => Ok(None),
            before => {
                let state = taped::state(session, &before?.entries)?;
                Ok(Some(PastReading { session: session.clone(), state, entries: ENTRIES_MAX / 4 }))
            }
        }
    }

    /// The next page. Blocks on the disk.
    pub(super) fn page(self, shared: &Arc<Shared>) -> Result<PastPage, OpenError> {
        let PastReading { session, mut state, entries } = self;
        let (from, through) = (state.seq.next(), Seq(state.seq.0.saturating_add(entries)));
        let read = taped::entries(&session, &shared.store.read_through(&session, from, through)?)?;
        let is_last = (read.len() as u64) < entries;
        let mut events = Vec::new();
        for entry in &read {
            events.extend(events_of(&state, entry).map(Arc::new));
            state.apply(entry);
        }
        let (through, bytes) = (state.seq, events.iter().map(|event| event.bytes()).sum::<usize>());
        let entries = if bytes > BYTES { entries / 2 } else { entries.saturating_mul(2) };
        let rest = PastReading { session, state, entries: entries.clamp(1, ENTRIES_MAX) };
        Ok(PastPage { events, through, rest: (!is_last).then(|| rest.later(shared.clone())) })
    }

    /// Reads on when the stream comes to it.
    fn later(self, shared: Arc<Shared>) -> Past {
        Box::new(move || {
            let tokio = shared.tokio.clone();
            tokio.spawn_blocking(move || {
                let session = self.session.clone();
                let page = self.page(&shared);
                let failed =
                    |error: &OpenError| tracing::warn!(%session, %error, "the events of a tape cannot be read on");
                page.inspect_err(failed).ok()
            })
        })
    }
}
