//! [`Batch`]: which of the jobs that wait go with one statement.

use std::{
    collections::{BTreeSet, VecDeque},
    mem,
    sync::Arc,
};

use tamtam::{SessionId, tape::GivenBack};

use crate::{
    node::Job,
    tape::{Rows, Tape},
};

/// How many jobs and bytes go with one statement. One append may be larger.
const BATCH_MAX: usize = 256;
const BATCH_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Jobs of one kind, at most one of each session.
pub(crate) enum Batch {
    Nothing,
    Appends(Vec<(Arc<Tape>, Rows)>),
    Releases(Vec<(Arc<Tape>, Option<GivenBack>)>),
    Marks(Vec<(SessionId, String, bool)>),
}

impl Batch {
    /// Takes the first job, and those of its kind that may go with it: no job overtakes another one of its session.
    pub(crate) fn next(pending: &mut VecDeque<Job>) -> Batch {
        let mut batch = Batch::Nothing;
        let (mut seen, mut left, mut size) = (BTreeSet::new(), VecDeque::new(), 0);
        for job in mem::take(pending) {
            let is_first_of_session = seen.insert(job.session().clone());
            let fits = size == 0 || size + job.size() <= BATCH_BYTES_MAX;
            let (bytes, refused) = match is_first_of_session && fits && batch.len() < BATCH_MAX {
                true => (job.size(), batch.take(job)),
                false => (0, Some(job)),
            };
            match refused {
                Some(job) => left.push_back(job),
                None => size += bytes,
            }
        }
        *pending = left;
        batch
    }

    fn len(&self) -> usize {
        match self {
            Batch::Nothing => 0,
            Batch::Appends(appends) => appends.len(),
            Batch::Releases(tapes) => tapes.len(),
            Batch::Marks(marks) => marks.len(),
        }
    }

    /// Takes a job, or gives it back if it is of another kind.
    fn take(&mut self, job: Job) -> Option<Job> {
        if let Batch::Nothing = self {
            *self = match &job {
                Job::Append(..) => Batch::Appends(Vec::new()),
                Job::Release(..) => Batch::Releases(Vec::new()),
                Job::MarkOpen { .. } => Batch::Marks(Vec::new()),
            };
        }
        match (self, job) {
            (Batch::Appends(appends), Job::Append(tape, rows)) => appends.push((tape, rows)),
            (Batch::Releases(tapes), Job::Release(tape, then)) => tapes.push((tape, then)),
            (Batch::Marks(marks), Job::MarkOpen { session, about, set }) => marks.push((session, about, set)),
            (_, job) => return Some(job),
        }
        None
    }
}
