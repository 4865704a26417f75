//! Claims of sessions (the exclusive right to write a tape) within one store: how a session gets from its claim to a handle, and
//! back.
//!
//! `Writer::live` decides between the handles of this store, the claim's file between stores (owners). A session is in `live`
//! before its claim is taken and until the claim is released, so no two handles of a store race for the file; its log lives
//! longer than its entry there. [`Claiming`] releases the claim if it does not reach a handle, also after a panic.
//!
//! Claiming may wait: 10 s for the last handle of this store, 10 s for another store that takes over what dead owners left, and
//! for the disk. `live` must not be locked meanwhile: each mark of an open turn takes it on an async thread. Giving back must not
//! wait, except in a closed store: there it waits for a write in place of the same tape.

use std::{
    io::ErrorKind,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use super::{Inner, Store, upkeep::bury};
use crate::{
    lock::{Lock, unspoiled},
    tape::{
        Damage, Durability, Notify, TapeError,
        disk::LogFile,
        handle::{Log, State, Tape},
        line::Chain,
        owner::Claim,
        queue::{Job, What},
    },
    words::ids::SessionId,
};

/// How long a claim waits until this store's last handle of the session, which was dropped, is written out.
const GIVE_BACK_WAIT: Duration = Duration::from_secs(10);

impl Store {
    /// Claims a session, against other owners and against the other handles of this store.
    pub(super) fn claim_session<'s>(&'s self, session: &'s SessionId) -> Result<Claiming<'s>, TapeError> {
        let writer = &self.inner.writer;
        let mut live = writer.live.lock();
        let started = Instant::now();
        while let Some(entry) = live.get(session).cloned() {
            // Checked under the lock: an entry leaves `live` before its log is dropped, so one without a log is a claim on its
            // way.
            let log = entry.upgrade();
            // Unlock before anything that may wait for the disk: all sessions that are awake mark their turns through `live`.
            drop(live);
            let about_to_be_free = log.is_some_and(|log| log.given_back.load(Ordering::Acquire));
            let left = GIVE_BACK_WAIT.saturating_sub(started.elapsed());
            if !about_to_be_free || left.is_zero() {
                let by = writer.owner()?.identity.clone().holder();
                return Err(TapeError::Claimed { session: session.clone(), by });
            }
            live = writer.live.lock();
            if live.get(session).is_some_and(|now| now.ptr_eq(&entry)) {
                live = unspoiled(writer.released.wait_timeout(live, left)).0;
            }
        }
        // From here on the session is taken, though it has no log yet.
        live.insert(session.clone(), Weak::new());
        drop(live);
        let mut claiming = Claiming { store: self, session, claim: None, is_kept: false };
        let replay = |name: &str| {
            let failed = bury(&*writer.disk, &writer.layout, name)?.failed;
            // The dead owner's log may have written to any session.
            writer.files.changed.still(None);
            failed.into_iter().find(|(other, _)| other == session).map_or(Ok(()), |(_, error)| Err(error))
        };
        // Without the lock on `live`: there may be megabytes to replay.
        let owner = writer.finish_with(session).and_then(|()| writer.owner());
        let claimed = owner.and_then(|owner| Claim::take(&writer.layout, &owner, session, replay));
        claiming.claim = Some(claimed.map_err(|error| match error {
            // A removal may take the folder away while the claim is being made.
            TapeError::Io { source, .. }
                if source.kind() == ErrorKind::NotFound && !writer.layout.session(session).exists() =>
            {
                TapeError::Missing { session: session.clone() }
            }
            error => error,
        })?);
        Ok(claiming)
    }

    /// Makes the handle of a session that this store has claimed. From here on, the handle's drop releases the session: at once,
    /// with [`TapeError::Closed`], if the store was closed meanwhile.
    #[allow(clippy::too_many_arguments, reason = "private, and each is a different type")]
    pub(super) fn hand_out(
        &self,
        session: &SessionId,
        notify: Notify,
        chain: Chain,
        anchors: Vec<String>,
        file: LogFile,
        claim: Claim,
        damage: Option<Damage>,
    ) -> Result<Tape, TapeError> {
        let state = State { end: chain, anchors, is_on_its_way: false, mark: None, mark_failed: None };
        let log = Arc::new(Log {
            session: session.clone(),
            notify,
            state: Lock::new(state),
            given_back: AtomicBool::new(false),
            file: Lock::new(file),
            used: AtomicU64::new(0),
            noted: AtomicU64::new(0),
            claim: Lock::new(Some(claim)),
            then: Lock::default(),
        });
        self.inner.writer.live.lock().insert(session.clone(), Arc::downgrade(&log));
        let tape = Tape::new(Arc::clone(&self.inner), log, damage);
        // The close stops the queue and then looks at `live`: it has seen this tape there, or it is seen here.
        self.inner.must_write().map(|()| tape)
    }
}

/// A claim on its way to a handle. Dropped before it gets there, also by a panic, it releases the session: else the session could
/// not be opened until the process ends.
pub(super) struct Claiming<'s> {
    store: &'s Store,
    session: &'s SessionId,
    /// The claim; `None` if its file is gone already, or not there yet.
    pub(super) claim: Option<Claim>,
    is_kept: bool,
}

impl Claiming<'_> {
    /// Notes for the index that the session was made, mended, hidden or removed.
    fn note(&self) {
        self.store.inner.writer.files.changed.note(self.session);
    }

    /// The claim, which the caller must give back from now on.
    pub(super) fn keep(mut self) -> Claim {
        self.note();
        self.is_kept = true;
        self.claim.take().expect("the claim is taken out only where it is not kept")
    }
}

impl Drop for Claiming<'_> {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        self.note();
        if let Some(claim) = self.claim.take() {
            claim.release();
        }
        self.store.inner.writer.live.lock().remove(self.session);
    }
}

impl Inner {
    /// Releases a session, once: in place if nothing is queued for it and the disk is not stalled, else by the I/O thread after
    /// its last append. Does not wait for a write in place, unless the queue takes nothing more (closed).
    pub(in crate::tape) fn give_back(&self, log: &Arc<Log>) {
        if log.given_back.swap(true, Ordering::AcqRel) {
            return;
        }
        // `try_lock`: a write in place holds `state`, and must not be waited for.
        let is_idle = || log.state.try_lock().is_some_and(|state| state.is_idle());
        let is_now =
            self.writer.options.durability == Durability::Process && !self.writer.files.is_stalled() && is_idle();
        if is_now || self.queue.push(Job::new(log, What::Release)).is_err() {
            self.writer.release(log);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::tape::{StoreOptions, TapeStore as _, TapeStoreExt as _};

    /// A store that is closed while it opens a session stays the owner of it until that is over: no other store writes meanwhile.
    #[test]
    fn a_session_that_is_being_opened_is_not_taken_over_from_a_store_that_closes() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Store::open(folder.path(), StoreOptions::default()).unwrap();
        let session: SessionId = "s".parse().unwrap();
        let notify = || -> Notify { Arc::new(|_| {}) };
        let (one, other) = (open(), open());
        drop(one.create(&session, notify()).unwrap());
        one.settle(Duration::from_secs(10));
        let claiming = one.claim_session(&session).unwrap();
        let (opened, file) = one.open_claimed(&session).unwrap();
        one.close(Duration::from_secs(10)).unwrap();
        assert!(matches!(other.load(&session, notify()), Err(TapeError::Claimed { .. })));
        let handed = one.hand_out(&session, notify(), opened.chain, opened.anchors, file, claiming.keep(), None);
        assert!(matches!(handed, Err(TapeError::Closed)));
        assert!(other.load(&session, notify()).is_ok());
    }

    /// Finding: of two that deleted the last forks of a hidden session at once, one failed with the system's words for a folder
    /// that is not there, because the other one had erased the session between its look and its claim.
    #[test]
    fn a_session_that_is_removed_while_it_is_claimed_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), StoreOptions::default()).unwrap();
        let session: SessionId = "s".parse().unwrap();
        for _ in 0..2 {
            let claimed = store.claim_session(&session);
            assert!(matches!(claimed, Err(TapeError::Missing { session: ref named }) if *named == session));
        }
    }
}
