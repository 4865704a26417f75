//! The sessions of a store, as people want to see them: newest first, with title, age, size, cost and status, a page at a
//! time, as a list or as a tree of forks and children.
//!
//! The list comes from the index: a page costs its own rows and a look at the names and lengths of files, and only entries that
//! were appended since the last list are read from tapes ([`ListCost`] counts them). No tape is folded twice. The index decides
//! nothing: if there is no index and none can be made, the list is there all the same, with less in it ([`SessionPage::indexed`]).

mod folded;
mod query;
#[cfg(feature = "sqlite")]
mod rows;

use std::path::Path;

use serde::Serialize;

use crate::{
    kernel::{Digest, Parent},
    tape::{
        Behind, Mark, SessionStatus, SessionStatuses, SessionSummary, Store, TapeError, TapeStore, TapeStoreExt as _,
    },
    words::ids::{Millis, Seq, SessionId},
    words::message::ModelRef,
    words::usage::{Cost, Usage},
};

pub use query::{BadSessionCursor, SessionCursor, SessionQuery, Shape};

/// A page of sessions.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SessionPage {
    /// Those that were used last first; in a tree, each is followed by what is below it.
    pub sessions: Vec<ListedSession>,
    /// Where to go on; absent on the last page.
    pub next: Option<SessionCursor>,
    /// Whether what was done last may be missing, because the index has not read it.
    pub behind: Behind,
    /// Whether it comes from the index. If not, there is none and none could be made: titles, agents, tokens, costs and who
    /// belongs to whom are not known, and all sessions were looked at. Tapes that are not kept in files have none either: there
    /// the sessions of the page are read, and all is known but who their children are.
    pub indexed: bool,
    /// In a tree, more is below a session of this page than is shown: at most 1,000 sessions are.
    pub cut: bool,
    /// What it took.
    pub cost: ListCost,
}

/// What a list took, in things that were looked at and not in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListCost {
    /// Sessions whose folder was listed and whose files' lengths were asked for.
    pub folders: u64,
    /// Sessions of which something was read, because it was appended since.
    pub tapes: u64,
    /// Bytes of tapes that were read.
    pub bytes: u64,
    /// Rows of the index that were read; without an index, sessions whose files' ends were.
    pub rows: u64,
}

/// A session on a list.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ListedSession {
    /// Which.
    pub session: SessionId,
    /// What its host called it, else the words that its first message begins with; a fork's until it has its own are its
    /// parent's. Absent where nothing was said yet.
    pub title: Option<String>,
    /// Its agent.
    pub agent: Option<String>,
    /// Its model.
    pub model: Option<ModelRef>,
    /// The folder that it works in.
    pub workspace: Option<String>,
    /// When it was made.
    pub created: Option<Millis>,
    /// When it was used last.
    pub last: Option<Millis>,
    /// Its last entry.
    pub seq: Seq,
    /// Entries of its own: without those that a fork has from its parent.
    pub entries: Option<u64>,
    /// The size of its own entries, in bytes.
    pub bytes: u64,
    /// The size of what is kept beside them, in bytes: large outputs, and what files held before they were changed.
    pub beside_bytes: u64,
    /// Model requests that it made itself; unknown without an index.
    pub requests: Option<u64>,
    /// How many of those gave no figures, so that ours are counted.
    pub estimated: u64,
    /// Tokens that it used itself, without its children.
    pub usage: Option<Usage>,
    /// What that cost. What is unknown is no zero: see [`Cost::exact`].
    pub cost: Option<Cost>,
    /// Whether it is awake, asleep, parked or deleted.
    pub status: SessionStatus,
    /// A turn of it is not over.
    pub open: bool,
    /// It is never swept.
    pub protected: bool,
    /// It has ended for good.
    pub ended: bool,
    /// The session that it belongs to.
    pub parent: Option<Parent>,
    /// Forks that go on from it.
    pub forks: u64,
    /// Children that do tasks of it.
    pub children: u64,
    /// In a tree, how far below its root it stands.
    pub depth: u32,
}

/// Lists sessions of a store. Blocks on the disk; not for an async thread. Takes no claim, and may run beside whatever else is
/// done with the store.
///
/// # Errors
/// [`TapeError::Query`] where too much is looked for; [`TapeError::Newer`] where a later version of this library made the index;
/// [`TapeError::Index`]; [`TapeError::Io`].
pub fn sessions(store: &Store, query: &SessionQuery) -> Result<SessionPage, TapeError> {
    let filter = query.filter()?;
    #[cfg(feature = "sqlite")]
    if let Some(page) = rows::page(store, query, &filter)? {
        return Ok(page);
    }
    without_index(store, SessionStatuses::of_all(store)?, query, &filter, &|_| Ok(()))
}

/// Lists the sessions of any engine, which has no index: those that are shown, and those that a filter passes over, are read
/// from their tapes.
///
/// # Errors
/// [`TapeError::Query`] where too much is looked for; as the engine's own.
pub(crate) fn sessions_of(store: &dyn TapeStore, query: &SessionQuery) -> Result<SessionPage, TapeError> {
    let statuses = SessionStatuses::of_all(store)?;
    without_index(store, statuses, query, &query.filter()?, &|listed| folded::fill(store, listed))
}

/// The list as the ends of the files show it, with what else is known of each session.
fn without_index(
    store: &dyn TapeStore,
    statuses: SessionStatuses<'_>,
    query: &SessionQuery,
    filter: &query::Filter,
    fill: &dyn Fn(&mut ListedSession) -> Result<(), TapeError>,
) -> Result<SessionPage, TapeError> {
    let mut all = store.list()?;
    let cost = ListCost { rows: all.len() as u64, folders: all.len() as u64, ..ListCost::default() };
    let used = |summary: &SessionSummary| summary.last.unwrap_or_default();
    all.sort_by(|one, other| (used(other), &other.id).cmp(&(used(one), &one.id)));
    let mut sessions = Vec::new();
    let mut next = None;
    for summary in all.into_iter().filter(|summary| query.is_behind_cursor(used(summary), &summary.id)) {
        let mut listed = ListedSession::bare(summary, &statuses);
        fill(&mut listed)?;
        if !filter.takes(&listed) {
            continue;
        }
        if sessions.len() == query.page_limit() {
            next = cursor_behind(&sessions);
            break;
        }
        listed.beside_bytes = beside(store, &listed.session);
        sessions.push(listed);
    }
    Ok(SessionPage { sessions, next, behind: Behind::No, indexed: false, cut: false, cost })
}

/// Where a page ended: behind its last session at the top.
fn cursor_behind(sessions: &[ListedSession]) -> Option<SessionCursor> {
    let last = sessions.iter().rfind(|listed| listed.depth == 0)?;
    Some(SessionCursor { last: last.last.unwrap_or_default(), session: last.session.clone() })
}

impl ListedSession {
    /// What is known of it by its files alone.
    fn bare(summary: SessionSummary, statuses: &SessionStatuses<'_>) -> ListedSession {
        let SessionSummary { id: session, created, last, seq, bytes, .. } = summary;
        ListedSession {
            title: None,
            agent: None,
            model: None,
            workspace: None,
            created,
            last,
            seq,
            entries: None,
            bytes,
            beside_bytes: 0,
            requests: None,
            estimated: 0,
            usage: None,
            cost: None,
            status: statuses.of(&session),
            open: statuses.has(Mark::Open, &session),
            protected: statuses.has(Mark::Protected, &session),
            ended: false,
            parent: None,
            forks: 0,
            children: 0,
            depth: 0,
            session,
        }
    }
}

impl ListedSession {
    /// What its own entries say of it.
    fn take(&mut self, digest: &Digest) {
        self.title = digest.title().map(str::to_owned);
        self.agent.clone_from(&digest.agent);
        self.model.clone_from(&digest.model);
        self.workspace.clone_from(&digest.workspace);
        self.requests = Some(digest.spent.requests);
        self.estimated = digest.spent.estimated;
        self.usage = Some(digest.spent.usage);
        self.cost = Some(digest.spent.cost);
        self.ended = digest.ended;
        self.parent = digest.origin.clone();
    }

    /// A fork that was brought in goes on from nobody here, whoever has that name now.
    fn goes_on_from(&mut self, here: Option<&SessionId>) {
        self.parent = self.parent.take().filter(|parent| match parent {
            Parent::ForkOf { session, .. } => Some(session) == here,
            Parent::TaskOf { session, .. } => *session != self.session,
        });
    }

    /// What it has from the session that it goes on from, as long as it has nothing of its own.
    fn inherit(&mut self, digest: &Digest) {
        self.title = self.title.take().or_else(|| digest.title().map(str::to_owned));
        self.agent = self.agent.take().or_else(|| digest.agent.clone());
        self.model = self.model.take().or_else(|| digest.model.clone());
        self.workspace = self.workspace.take().or_else(|| digest.workspace.clone());
    }

    fn lacks_something(&self) -> bool {
        self.title.is_none() || self.agent.is_none()
    }
}

/// How large the folders beside a tape are. What cannot be looked at counts nothing.
pub(crate) fn beside(store: &dyn TapeStore, session: &SessionId) -> u64 {
    let folders = [store.spill_path(session), store.files_path(session)];
    folders.iter().flatten().map(|folder| folder_bytes(folder)).sum()
}

fn folder_bytes(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).filter(std::fs::Metadata::is_file).map(|file| file.len()).sum()
}
