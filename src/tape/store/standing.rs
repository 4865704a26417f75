//! How sessions stand: who has them, which are parked, deleted, pinned or in a turn.
//!
//! All of it is known from a handful of folders, each read once for any number of sessions; only who has a session is looked
//! up for each, in its claim. No tape is read.

use std::{collections::BTreeMap, sync::Mutex, sync::PoisonError};

use serde::{Deserialize, Serialize};

use crate::{
    ids::SessionId,
    tape::{
        Store, TapeError, TapeStore,
        disk::lock,
        layout::ids_in,
        owner::{Claim, is_alive},
    },
};

/// Whether the index has read everything that is on the tapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// It has.
    No,
    /// So many sessions have something that it has not read: the time was over, or their files cannot be read. The next look
    /// reads on.
    Sessions(u64),
    /// Another process writes it just now.
    Unknown,
}

/// How a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Somebody has it open: this process or another one.
    Live,
    /// It sleeps; the next message to it wakes it.
    Passive,
    /// It is kept stopped, because it crashed again and again.
    Parked,
    /// It was deleted, and is kept out of sight for the forks that go on from it.
    Hidden,
}

/// How the sessions of a store stand, as they were looked at.
#[derive(Debug)]
pub(crate) struct Standings {
    claims: Claims,
    parked: Vec<SessionId>,
    hidden: Vec<SessionId>,
    pinned: Vec<SessionId>,
    open: Vec<SessionId>,
}

/// Who has sessions open.
#[derive(Debug)]
enum Claims {
    /// Looked up where it is asked for, with the owners that were looked at and whether they live.
    Files(Store, Mutex<BTreeMap<String, bool>>),
    /// All that somebody has.
    Known(Vec<SessionId>),
}

impl Store {
    /// Reads four folders of marks.
    pub(crate) fn standings(&self) -> Result<Standings, TapeError> {
        let layout = self.layout();
        Ok(Standings {
            parked: ids_in(&layout.parked())?,
            hidden: ids_in(&layout.hidden())?,
            pinned: ids_in(&layout.pinned())?,
            open: ids_in(&layout.open())?,
            claims: Claims::Files(self.clone(), Mutex::default()),
        })
    }

    /// The sessions that somebody has open, by id: this store, or another owner who lives; and those whose claim cannot be read.
    ///
    /// # Errors
    ///
    /// [`TapeError::Io`].
    pub fn held_sessions(&self) -> Result<Vec<SessionId>, TapeError> {
        let owners = Mutex::default();
        let mut held = self.layout().session_ids()?;
        held.retain(|session| is_held(self, &owners, session));
        Ok(held)
    }
}

impl Standings {
    /// How the sessions of any engine stand. Those that are hidden are not among its sessions.
    pub(crate) fn of_engine(engine: &dyn TapeStore) -> Result<Standings, TapeError> {
        Ok(Standings {
            parked: engine.parked_sessions()?.into_iter().map(|(session, _)| session).collect(),
            hidden: Vec::new(),
            pinned: engine.pinned_sessions()?,
            open: engine.open_sessions()?,
            claims: Claims::Known(engine.held_sessions()?),
        })
    }

    /// How a session stands. Looks at its claim.
    pub(crate) fn of(&self, session: &SessionId) -> Standing {
        match () {
            () if self.is_hidden(session) => Standing::Hidden,
            () if has(&self.parked, session) => Standing::Parked,
            () if self.is_held(session) => Standing::Live,
            () => Standing::Passive,
        }
    }

    /// Whether a turn of it is open.
    pub(crate) fn is_open(&self, session: &SessionId) -> bool {
        has(&self.open, session)
    }

    /// Whether it is never swept.
    pub(crate) fn is_pinned(&self, session: &SessionId) -> bool {
        has(&self.pinned, session)
    }

    /// Whether it was deleted.
    pub(crate) fn is_hidden(&self, session: &SessionId) -> bool {
        has(&self.hidden, session)
    }

    fn is_held(&self, session: &SessionId) -> bool {
        match &self.claims {
            Claims::Files(store, owners) => is_held(store, owners, session),
            Claims::Known(held) => has(held, session),
        }
    }
}

/// Whether somebody who lives has claimed it. A claim that cannot be read is somebody's, for all that is known.
fn is_held(store: &Store, owners: &Mutex<BTreeMap<String, bool>>, session: &SessionId) -> bool {
    let layout = store.layout();
    let owner = match Claim::owner_of(layout, session) {
        Ok(Some(owner)) => owner,
        Ok(None) => return false,
        Err(_) => return true,
    };
    let ours = lock(&store.inner.writer.owner).as_ref().is_some_and(|ours| ours.identity.owner == owner);
    if ours {
        return true;
    }
    let mut owners = owners.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(lives) = owners.get(&owner) {
        return *lives;
    }
    let lives = is_alive(layout, &owner);
    owners.insert(owner, lives);
    lives
}

fn has(sorted: &[SessionId], session: &SessionId) -> bool {
    sorted.binary_search(session).is_ok()
}
