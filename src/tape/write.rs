//! [`Writer`]: the state that the handles, the store and the I/O thread of one store share, and the thread's work on queued
//! appends. In [`Durability::Power`] the thread writes appends in groups, in `Process` one at a time. An append in place is
//! written by its handle (`handle.rs`, `disk.rs`).
//!
//! An append is reported as done only when it survives what the [`Durability`] names: the session file has it (`Process`), or the
//! commit log is synced and the session file is written (`Power`). An append that is too large for the log is synced in its
//! session file instead. An append that the thread panicked over is tried once more, and is not written twice.
//!
//! A change must keep the lock order of a store, outermost first: [`Writer::commit`] → `Log::state` → `Log::file` → the list in
//! [`OpenFiles`]. Code that holds the list may take another `Log::file` only with `try_lock`. `Queue::inner`, `live`, `owner`,
//! `Log::claim`, `Log::then` and `disk::UnderWay` come last: no other lock is taken under them. Only `Queue::run` takes `file`
//! before `state`, after a second panic over an append: `is_on_its_way` keeps all others from that `file` then.
//!
//! `commit`, `file` and `owner` may be held over the disk, and so may `state` by a handle that writes in place. The I/O thread
//! must not hold `state` over the disk: the tape's handle would wait. `live`, `Queue::inner` and `UnderWay` must never be held
//! over the disk, because every append or every mark passes through them.

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Condvar, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{
    Durability, StoreOptions, TapeError,
    commit::{CommitLog, sync_mark},
    disk::{Disk, OpenFiles},
    handle::Log,
    layout::{Layout, remove_file, sync_folder},
    owner::Owner,
    queue::{Append, Job, Mark, What},
    store::remove_reserves,
};
use crate::{lock::Lock, words::ids::SessionId};

/// The most appends that are written together in [`Durability::Power`].
const GROUP_APPENDS_MAX: usize = 1024;

/// The state that the handles, the store and the I/O thread of one store share.
pub(super) struct Writer {
    pub(super) layout: Layout,
    pub(super) options: StoreOptions,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) files: OpenFiles,
    /// This store's identity and its lock file; `None` once the store has ended, and in a store that only reads.
    pub(super) owner: Lock<Option<Arc<Owner>>>,
    /// The tapes that are open for writing. A session whose claim is still being taken has an empty `Weak`. Never hold this lock
    /// over the disk.
    pub(super) live: Lock<HashMap<SessionId, Weak<Log>>>,
    /// Signalled when a tape leaves `live`.
    pub(super) released: Condvar,
    /// The commit log: in `Power` only, from the first append on.
    commit: Lock<Option<CommitLog>>,
    /// A session was erased, and the commit log may still have bytes of it.
    pub(super) has_erased: AtomicBool,
}

impl Writer {
    pub(super) fn new(layout: Layout, options: StoreOptions, disk: Arc<dyn Disk>, owner: Option<Owner>) -> Writer {
        Writer {
            files: OpenFiles::new(&options, disk.clone()),
            owner: Lock::new(owner.map(Arc::new)),
            live: Lock::default(),
            released: Condvar::new(),
            commit: Lock::new(None),
            has_erased: AtomicBool::new(false),
            layout,
            options,
            disk,
        }
    }

    /// This store as an owner; [`TapeError::Closed`] once the store has ended.
    pub(super) fn owner(&self) -> Result<Arc<Owner>, TapeError> {
        self.owner.lock().clone().ok_or(TapeError::Closed)
    }

    /// Works on some jobs of the queue's head and [finishes](Writer::finish) them. A [`What::Release`] comes alone.
    pub(super) fn work(&self, jobs: &[Arc<Job>]) {
        // Marks first: the appends of this group may have been queued after them. A mark before its time does no harm.
        for job in jobs {
            if let What::Mark = job.what {
                let _began = self.files.in_thread();
                self.put_mark(&job.log);
                self.finish(job, Ok(()));
            }
        }
        let mut appends = Vec::new();
        for job in jobs {
            match &job.what {
                What::Append(append) => {
                    // The append fails with the error of the mark. The tape's holder then marks the turn again.
                    let mark_failed = job.log.state.lock().mark_failed.take();
                    match mark_failed {
                        Some(error) => self.finish(job, Err(error)),
                        None => appends.push((&**job, append)),
                    }
                }
                What::Release => {
                    let _began = self.files.in_thread();
                    self.release(&job.log);
                    self.finish(job, Ok(()));
                }
                What::Mark => {}
            }
        }
        if self.options.durability == Durability::Process {
            appends.iter().for_each(|(job, append)| self.finish(job, self.write_once(job, append, false)));
        } else if !appends.is_empty() {
            self.append_with_commit_log(&appends);
        }
    }

    /// Puts the mark that `state` wants at that moment. `state` is not locked over the disk, so a caller can ask for another mark
    /// without waiting; then the newer mark is put as well.
    fn put_mark(&self, log: &Log) {
        loop {
            let Some(mark) = log.state.lock().mark else { return };
            let put = mark.put(&self.layout, &log.session);
            let mut state = log.state.lock();
            if state.mark != Some(mark) {
                continue;
            }
            state.mark = None;
            if let Err(error) = put {
                tracing::warn!(session = %log.session, ?mark, %error, "failed to note whether a turn is open");
                // Without its mark, a restart would not find the turn: it must not begin. A mark too many does no harm.
                state.mark_failed = (mark == Mark::Open).then_some(error);
            }
            return;
        }
    }

    /// Notes how a job ended, and tells the host's `notify` in case of an append. In `Power` that may happen under
    /// [`Writer::commit`], so `notify` must not wait for the store.
    pub(super) fn finish(&self, job: &Job, done: Result<(), TapeError>) {
        if let What::Append(append) = &job.what {
            let mut state = job.log.state.lock();
            if done.is_ok() {
                state.take(append);
            }
            state.is_on_its_way = false;
            drop(state);
            fault!(self.options.faults, "tape.settled", job.log.session.as_str());
            // A function of the host: its panic must not end the thread.
            let _ = catch_unwind(AssertUnwindSafe(|| (job.log.notify)(done.map(|()| append.after.seq))));
        }
        job.is_done.store(true, Ordering::SeqCst);
    }

    /// Writes a queued append, once. If the thread panicked between the write and the note of it, the append is in its file
    /// already, and writing it again would put it there twice.
    fn write_once(&self, job: &Job, append: &Append, sync: bool) -> Result<(), TapeError> {
        if is_written(job, append) {
            return Ok(());
        }
        let _began = self.files.in_thread();
        self.files.write(&self.layout, &job.log, append, sync)
    }

    /// Writes appends in `Power`: all records to the log with one sync, then the session files, then all are reported.
    fn append_with_commit_log(&self, appends: &[(&Job, &Append)]) {
        let mut commit = self.commit.lock();
        // A single append that is too large for the log is written and synced separately.
        if let [(job, append)] = appends
            && append.bytes.len() > self.group_bytes_max()
        {
            let session = &job.log.session;
            let finished = match commit.as_mut() {
                Some(commit_log) => commit_log.finish_with(&*self.disk, &self.layout, session),
                None => sync_mark(&*self.disk, &self.layout, session),
            };
            return self.finish(job, finished.and_then(|()| self.write_once(job, append, true)));
        }
        fault!(self.options.faults, "tape.commit", "store");
        let committed = self.commit_group(&mut commit, appends);
        fault!(self.options.faults, "tape.committed", "store");
        let commit_log = match committed {
            Ok(commit_log) => commit_log,
            Err(error) => return appends.iter().for_each(|(job, _)| self.finish(job, Err(error.clone()))),
        };
        let mut failed = Vec::new();
        let mut written = Vec::new();
        for (job, append) in appends {
            let at = place_of(job, append);
            let done = self.write_once(job, append, false);
            match &done {
                Ok(()) => {
                    let file = job.log.file.lock();
                    commit_log.written(&file.path, file.length);
                }
                Err(_) => failed.push((&job.log.session, &append.after.anchor, at)),
            }
            written.push((job, done));
        }
        // After all session files were tried, because `withdraw` may begin the log again; and before any report.
        for (session, anchor, at) in failed {
            commit_log.withdraw(&*self.disk, &self.layout, session, anchor, at);
        }
        written.into_iter().for_each(|(job, done)| self.finish(job, done));
    }

    /// Writes the appends to the log and syncs it, without those that are in their files already.
    fn commit_group<'c>(
        &self,
        commit: &'c mut Option<CommitLog>,
        appends: &[(&Job, &Append)],
    ) -> Result<&'c mut CommitLog, TapeError> {
        let disk = &*self.disk;
        let commit_log = match commit {
            Some(commit_log) => commit_log,
            None => {
                let path = self.layout.commit_log(&self.owner()?.identity.owner);
                commit.insert(CommitLog::make(disk, path, self.options.commit_log_bytes)?)
            }
        };
        let bytes = appends.iter().map(|(_, append)| append.bytes.len()).sum();
        commit_log.make_room(disk, &self.layout, bytes, appends.len())?;
        let mut group = commit_log.group();
        for (job, append) in appends.iter().filter(|(job, append)| !is_written(job, append)) {
            group.push(&job.log.session, &append.after.anchor, place_of(job, append), &append.bytes);
        }
        commit_log.commit(disk, group)?;
        Ok(commit_log)
    }

    fn group_bytes_max(&self) -> usize {
        usize::try_from(self.options.commit_log_bytes / 4).unwrap_or(usize::MAX)
    }

    /// Makes the commit log's records of a session void, durably. Call it before the session is claimed: other owners may have
    /// written the session since, and a replay of old records would overwrite their lines.
    pub(super) fn finish_with(&self, session: &SessionId) -> Result<(), TapeError> {
        self.commit
            .lock()
            .as_mut()
            .map_or(Ok(()), |commit_log| commit_log.finish_with(&*self.disk, &self.layout, session))
    }

    /// Takes the bytes of erased sessions out of the commit log.
    pub(super) fn forget_erased(&self) -> Result<(), TapeError> {
        let mut commit = self.commit.lock();
        let Some(log) = commit.as_mut().filter(|_| self.has_erased.load(Ordering::SeqCst)) else { return Ok(()) };
        log.make_anew(&*self.disk, &self.layout)?;
        self.has_erased.store(false, Ordering::SeqCst);
        Ok(())
    }

    /// Releases a session. First it syncs the bytes that only the commit log has durably. If that fails, the claim stays, so that
    /// the log is replayed before another owner writes the session. Waits for an operation in place on this tape.
    pub(super) fn release(&self, log: &Arc<Log>) {
        fault!(self.options.faults, "tape.release", log.session.as_str());
        // An operation of its handle in place may still be writing: wait until it is done.
        drop(log.state.lock());
        let settled =
            self.commit.lock().as_mut().map_or(Ok(()), |commit| commit.settle(&*self.disk, &self.layout, &log.session));
        let claim = log.claim.lock().take();
        if let Some(claim) = claim
            && settled.is_ok()
        {
            claim.release();
        }
        fault!(self.options.faults, "tape.released", log.session.as_str());
        let mut live = self.live.lock();
        if live.get(&log.session).is_some_and(|other| std::ptr::eq(other.as_ptr(), Arc::as_ptr(log))) {
            live.remove(&log.session);
        }
        self.released.notify_all();
        drop(live);
        let then = log.then.lock().take();
        if let Some(then) = then {
            then();
        }
    }

    /// Ends the store: removes its commit log and reserves, and lets its owner's lock go. The queue is closed and empty by then.
    pub(super) fn end(&self) {
        fault!(self.options.faults, "tape.end", "store");
        let owner = self.owner.lock().take();
        let Some(name) = owner.as_ref().map(|owner| owner.identity.owner.clone()) else { return };
        let commit_log = self.commit.lock().take();
        if commit_log.is_some_and(|mut commit_log| commit_log.cut(&*self.disk, &self.layout).is_ok()) {
            // If the log cannot be deleted, the next store replays it, which changes nothing.
            let _ = remove_file(&self.layout.commit_log(&name)).and_then(|()| sync_folder(&self.layout.commit()));
        }
        let _ = remove_reserves(&self.layout, &name);
    }

    /// The most jobs, and the most bytes of them, that are worked on together.
    pub(super) fn group_max(&self) -> (usize, usize) {
        match self.options.durability {
            Durability::Process => (1, usize::MAX),
            Durability::Power => (GROUP_APPENDS_MAX, self.group_bytes_max()),
        }
    }
}

/// Whether an append that the thread panicked over is in its file.
fn is_written(job: &Job, append: &Append) -> bool {
    job.is_retried() && job.log.file.lock().last == append.after.seq
}

/// The offset of an append in its file, in bytes.
fn place_of(job: &Job, append: &Append) -> u64 {
    if append.begin.is_some() { 0 } else { job.log.file.lock().length }
}
