//! How appends get to the disk: in place by the caller, or in groups by the I/O thread, in either durability.

use std::{
    collections::HashMap,
    sync::{
        Arc, Condvar, Weak,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use super::{
    Durability, StoreOptions, TapeError,
    commit::{CommitLog, sync_mark},
    disk::{Disk, OpenFiles},
    layout::{Layout, remove_file, sync_folder},
    line::Chain,
    log::Log,
    owner::Owner,
    queue::{Job, Mark, What, Work},
    store::remove_reserves,
};
use crate::{
    lock::Lock,
    words::ids::{Seq, SessionId},
};

/// The most appends that are written together in [`Durability::Power`].
const GROUP_APPENDS_MAX: usize = 1024;

/// What the handles, the store and the I/O thread share.
pub(super) struct Writer {
    pub(super) layout: Layout,
    pub(super) options: StoreOptions,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) files: OpenFiles,
    pub(super) owner: Lock<Option<Arc<Owner>>>,
    /// The tapes that are open for writing.
    pub(super) live: Lock<HashMap<SessionId, Weak<Log>>>,
    /// One of them was given back.
    pub(super) released: Condvar,
    /// One bit for each of the last eight writes, set where it was slow.
    pace: AtomicU8,
    /// The one thing that is being done in place; of the thread's writes the one under way.
    in_place: UnderWay,
    in_thread: UnderWay,
    /// `Power` only, from the first append on.
    commit: Lock<Option<CommitLog>>,
}

impl Writer {
    pub(super) fn new(layout: Layout, options: StoreOptions, disk: Arc<dyn Disk>, owner: Option<Owner>) -> Writer {
        Writer {
            files: OpenFiles::new(options.open_files_max),
            owner: Lock::new(owner.map(Arc::new)),
            live: Lock::default(),
            released: Condvar::new(),
            pace: AtomicU8::new(0),
            in_place: UnderWay::new(),
            in_thread: UnderWay::new(),
            commit: Lock::new(None),
            layout,
            options,
            disk,
        }
    }

    /// The right to touch the disk in place, for as long as the guard is held; `None` where it is left to the thread: the last
    /// writes were slow, one of the thread's does not come back, or somebody else is at it in place. So a disk that stands
    /// still holds up one caller at most, and not each of a host's few workers in turn.
    pub(super) fn in_place(&self) -> Option<Began<'_>> {
        let is_calm = self.pace.load(Ordering::Relaxed) == 0 && !self.in_thread.is_stalled(&*self.disk);
        if is_calm { self.in_place.begin() } else { None }
    }

    /// Who we are, until the store is closed.
    pub(super) fn owner(&self) -> Result<Arc<Owner>, TapeError> {
        self.owner.lock().clone().ok_or(TapeError::Closed)
    }

    /// Whether appends need no sync, and so may be written in place.
    pub(super) fn needs_no_sync(&self) -> bool {
        self.options.durability == Durability::Process
    }

    /// Whether something that was begun on the disk does not come back.
    pub(super) fn is_stalled(&self) -> bool {
        self.in_place.is_stalled(&*self.disk) || self.in_thread.is_stalled(&*self.disk)
    }

    /// Writes one append to the tape's file and notes how long it took.
    pub(super) fn write(
        &self,
        log: &Arc<Log>,
        begin: Option<&str>,
        bytes: &[u8],
        last: Seq,
        sync: bool,
    ) -> Result<(), TapeError> {
        fault!(self.options.faults, "tape.write", log.session.as_str());
        let started = Instant::now();
        let written = self.files.write(&self.layout, &*self.disk, log, begin, bytes, last, sync);
        fault!(self.options.faults, "tape.written", log.session.as_str());
        let slow = u8::from(self.disk.is_slow(started.elapsed()));
        let _ = self.pace.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |pace| Some(pace << 1 | slow));
        written
    }

    /// Writes one queued append, unless one before it failed.
    fn append(&self, job: &Job, bytes: &[u8], begin: Option<&str>, after: &Chain, run: u64, sync: bool) -> bool {
        if let Some(error) = doomed(job, run) {
            job.finish(Err(error));
            return false;
        }
        let written = match is_written(job, after) {
            true => Ok(()),
            false => {
                let _began = self.in_thread.begin();
                self.write(&job.log, begin, bytes, after.seq, sync)
            }
        };
        let settled = settle(job, after, written);
        fault!(self.options.faults, "tape.settled", job.log.session.as_str());
        settled
    }

    /// One sync for all of them, then the session files.
    fn append_with_commit_log(&self, jobs: &[Arc<Job>]) {
        let mut commit = self.commit.lock();
        // A single append that is too large for the log is written and synced by itself.
        if let [job] = jobs
            && let What::Append { bytes, begin, after, run } = &job.what
            && bytes.len() > self.group_bytes_max()
        {
            let session = &job.log.session;
            let finished = match commit.as_mut() {
                Some(log) => log.finish_with(&*self.disk, &self.layout, session),
                None => sync_mark(&*self.disk, &self.layout, session),
            };
            match finished {
                Ok(()) => drop(self.append(job, bytes, begin.as_deref(), after, *run, true)),
                Err(error) => self.give_up(job, &error),
            }
            return;
        }
        fault!(self.options.faults, "tape.commit", "store");
        let committed = self.commit_group(&mut commit, jobs);
        fault!(self.options.faults, "tape.committed", "store");
        let logged = match committed {
            Ok(logged) => logged,
            Err(error) => {
                jobs.iter().for_each(|job| self.give_up(job, &error));
                return;
            }
        };
        let mut withdrawn = Vec::new();
        for (job, is_logged) in jobs.iter().zip(logged) {
            let What::Append { bytes, begin, after, run } = &job.what else { continue };
            let at = if begin.is_some() { 0 } else { job.log.file.lock().length };
            if !self.append(job, bytes, begin.as_deref(), after, *run, false) {
                // One that the log does not have stood where another one of this group may stand now, which is acknowledged.
                withdrawn.extend(is_logged.then_some((&job.log.session, &after.anchor, at)));
            } else if let Some(commit) = commit.as_mut() {
                let file = job.log.file.lock();
                commit.written(&file.path, file.length);
            }
        }
        // Now that no other record of the group is waited for.
        for (session, anchor, at) in withdrawn {
            commit.iter_mut().for_each(|log| log.withdraw(&*self.disk, &self.layout, session, anchor, at));
        }
    }

    /// Says of each job whether it is in the log now: not those that are doomed, or in their files already.
    fn commit_group(&self, commit: &mut Option<CommitLog>, jobs: &[Arc<Job>]) -> Result<Vec<bool>, TapeError> {
        let disk = &*self.disk;
        let log = match commit {
            Some(log) => log,
            None => {
                let owner = self.owner.lock().as_ref().map(|owner| owner.identity.owner.clone());
                let path = self.layout.commit_log(&owner.ok_or(TapeError::Closed)?);
                commit.insert(CommitLog::make(disk, path, self.options.commit_log_bytes)?)
            }
        };
        log.make_room(disk, &self.layout, jobs.iter().map(|job| job.bytes()).sum(), jobs.len())?;
        let mut group = log.group();
        let mut ends: HashMap<&SessionId, u64> = HashMap::new();
        let mut logged = vec![false; jobs.len()];
        for (job, is_logged) in jobs.iter().zip(&mut logged) {
            let What::Append { bytes, begin, after, run } = &job.what else { continue };
            *is_logged = doomed(job, *run).is_none() && !is_written(job, after);
            if *is_logged {
                let end = ends.entry(&job.log.session).or_insert_with(|| job.log.file.lock().length);
                let at = if begin.is_some() { 0 } else { *end };
                group.push(&job.log.session, &after.anchor, at, bytes);
                *end = at + bytes.len() as u64;
            }
        }
        log.commit(disk, group).map(|()| logged)
    }

    fn group_bytes_max(&self) -> usize {
        usize::try_from(self.options.commit_log_bytes / 4).unwrap_or(usize::MAX)
    }

    /// Makes sure that the commit log has nothing of a session that could come over what is written to it from now on: by the
    /// next who has it, who may have got it after others.
    pub(super) fn finish_with(&self, session: &SessionId) -> Result<(), TapeError> {
        self.commit.lock().as_mut().map_or(Ok(()), |log| log.finish_with(&*self.disk, &self.layout, session))
    }

    /// Gives a session back. What of it is only in the commit log is brought to its files first; where that fails, the claim
    /// stays, so that the log is replayed before anybody else writes the session.
    pub(super) fn release(&self, log: &Arc<Log>) {
        fault!(self.options.faults, "tape.release", log.session.as_str());
        // What its handle is doing in place may come back late, and may write until then.
        drop(log.state.lock());
        let settled =
            self.commit.lock().as_mut().map_or(Ok(()), |commit| commit.settle(&*self.disk, &self.layout, &log.session));
        if let Some(claim) = log.claim.lock().take()
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
        if let Some(then) = log.then.lock().take() {
            then();
        }
    }
}

/// Since when something is under way on the disk, where something is.
struct UnderWay {
    born: Instant,
    /// Nanoseconds after that, and one; 0 for nothing.
    since: AtomicU64,
}

/// Something is under way on the disk until this is dropped.
pub(super) struct Began<'u>(&'u UnderWay);

impl UnderWay {
    fn new() -> UnderWay {
        UnderWay { born: Instant::now(), since: AtomicU64::new(0) }
    }

    /// Begins something, unless something is under way.
    fn begin(&self) -> Option<Began<'_>> {
        let now = u64::try_from(self.born.elapsed().as_nanos()).unwrap_or(u64::MAX).saturating_add(1);
        let begun = self.since.compare_exchange(0, now, Ordering::Acquire, Ordering::Relaxed);
        // Made only then: whoever drops one says that it is over.
        begun.is_ok().then(|| Began(self))
    }

    fn is_stalled(&self, disk: &dyn Disk) -> bool {
        match self.since.load(Ordering::Relaxed) {
            0 => false,
            since => disk.is_stalled(self.born.elapsed().saturating_sub(Duration::from_nanos(since))),
        }
    }
}

impl Drop for Began<'_> {
    fn drop(&mut self) {
        self.0.since.store(0, Ordering::Release);
    }
}

/// Why a queued append must not be written any more.
fn doomed(job: &Job, run: u64) -> Option<TapeError> {
    let mut state = job.log.state.lock();
    if state.run == run {
        return None;
    }
    // Whoever appended that is told, and marks the turn again.
    state.mark_failed = None;
    Some(state.last_failure.clone().unwrap_or(TapeError::Closed))
}

/// Whether a job that the thread panicked over is in its file: the panic came between the write and the note of it. To write it
/// again would put it there twice.
fn is_written(job: &Job, after: &Chain) -> bool {
    job.is_retried() && job.log.file.lock().last == after.seq
}

/// Notes in the tape how a queued append went.
fn settle(job: &Job, after: &Chain, written: Result<(), TapeError>) -> bool {
    let mut state = job.log.state.lock();
    match &written {
        Ok(()) => state.good = after.clone(),
        Err(error) => state.fail(error),
    }
    drop(state);
    let done = written.is_ok();
    job.finish(written.map(|()| after.seq));
    done
}

impl Work for Writer {
    fn work(&self, jobs: &[Arc<Job>]) {
        // Before the appends that were queued behind them. One that comes too early is no harm: see `Store::mark_closed`.
        for job in jobs {
            if let What::Mark(wanted) = &job.what {
                let _began = self.in_thread.begin();
                if let Err((mark, error)) = wanted.put(&self.layout, &job.log.session) {
                    tracing::warn!(session = %job.log.session, ?mark, %error, "failed to note whether a turn is open");
                    // A turn that nobody would find again must not begin. One mark too many does no harm.
                    if mark == Mark::Open {
                        job.log.state.lock().fail_mark(&error);
                    }
                }
                job.finish(Ok(Seq::ZERO));
            }
        }
        if let [job] = jobs
            && let What::Release = job.what
        {
            let _began = self.in_thread.begin();
            self.release(&job.log);
            job.finish(Ok(Seq::ZERO));
        } else if self.options.durability == Durability::Power {
            if jobs.iter().any(|job| matches!(job.what, What::Append { .. })) {
                self.append_with_commit_log(jobs);
            }
        } else {
            for job in jobs {
                if let What::Append { bytes, begin, after, run } = &job.what {
                    self.append(job, bytes, begin.as_deref(), after, *run, false);
                }
            }
        }
    }

    fn give_up(&self, job: &Job, error: &TapeError) {
        match &job.what {
            What::Append { after, run, .. } => match doomed(job, *run) {
                Some(earlier) => job.finish(Err(earlier)),
                None => drop(settle(job, after, Err(error.clone()))),
            },
            What::Mark(_) | What::Release => job.finish(Ok(Seq::ZERO)),
        }
    }

    fn end(&self) {
        fault!(self.options.faults, "tape.end", "store");
        let owner = self.owner.lock().take();
        let Some(name) = owner.as_ref().map(|owner| owner.identity.owner.clone()) else { return };
        let log = self.commit.lock().take();
        if log.is_some_and(|mut log| log.cut(&*self.disk, &self.layout).is_ok()) {
            // What cannot be deleted is replayed by the next store, which changes nothing.
            let _ = remove_file(&self.layout.commit_log(&name)).and_then(|()| sync_folder(&self.layout.commit()));
        }
        let _ = remove_reserves(&self.layout, &name);
    }

    fn group(&self) -> (usize, usize) {
        match self.options.durability {
            Durability::Process => (1, usize::MAX),
            Durability::Power => (GROUP_APPENDS_MAX, self.group_bytes_max()),
        }
    }
}
