//! The sessions of a store, as people want to see them: newest first, with title, age, size, cost and status, a page at a
//! time, as a list or as a tree of forks and children.
//!
//! The list comes from the index: a page costs its own rows and a look at the names and lengths of files, and only entries that
//! were appended since the last list are read from tapes ([`ListCost`] counts them). No tape is folded twice. The index decides
//! nothing: if there is no index and none can be made, the sessions of the page are read from their tapes ([`SessionPage::indexed`]).

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
    /// Whether it comes from the index. If not, there is none and none could be made, or the tapes are not kept in files: all
    /// sessions were looked at, those of the page were read, and all is known of them but who their children are.
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
    /// Model requests that it made itself; unknown where its tape cannot be read.
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
    #[cfg(feature = "sqlite")]
    if let Some(page) = rows::page(store, query)? {
        return Ok(page);
    }
    sessions_of(store, query)
}

/// Lists the sessions of any engine, without an index: those that are shown, and those that a filter passes over, are read from
/// their tapes.
///
/// # Errors
/// [`TapeError::Query`] where too much is looked for; as the engine's own.
pub(crate) fn sessions_of(store: &dyn TapeStore, query: &SessionQuery) -> Result<SessionPage, TapeError> {
    query.check()?;
    let statuses = SessionStatuses::of_all(store)?;
    let mut all = store.list()?;
    let cost = ListCost { rows: all.len() as u64, folders: all.len() as u64, ..ListCost::default() };
    let used = |summary: &SessionSummary| summary.last.unwrap_or_default();
    all.sort_by(|one, other| (used(other), &other.id).cmp(&(used(one), &one.id)));
    all.retain(|summary| query.is_behind_cursor(used(summary), &summary.id));
    let (mut sessions, mut next) = (Vec::new(), None);
    for summary in &all {
        let mut listed = match read(store, summary, &statuses) {
            // It is listed all the same, as what is known beside its tape.
            Err(TapeError::Damaged(_) | TapeError::Missing { .. } | TapeError::Newer { .. }) => {
                ListedSession::of(summary, &statuses, None, None)
            }
            listed => listed?,
        };
        if !query.takes(&listed) {
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

/// A session as its tape shows it.
fn read(
    store: &dyn TapeStore,
    summary: &SessionSummary,
    statuses: &SessionStatuses<'_>,
) -> Result<ListedSession, TapeError> {
    let (session, from) = (&summary.id, summary.from.as_ref());
    let forked_at = from.map_or(Seq::ZERO, |forked| forked.seq);
    let own = store.read(session, forked_at)?;
    let digest = Digest::of(&own);
    let mut listed = ListedSession::of(summary, statuses, Some(&digest), from.map(|forked| &forked.parent));
    listed.entries = Some(own.len() as u64);
    listed.forks = store.forks_of(session)?.len() as u64;
    if from.is_some() && listed.lacks_something() {
        let all = store.read(session, Seq::ZERO)?;
        listed.inherit(&Digest::of(all.iter().take_while(|entry| entry.seq <= forked_at)));
    }
    Ok(listed)
}

/// Where a page ended: behind its last session at the top.
fn cursor_behind(sessions: &[ListedSession]) -> Option<SessionCursor> {
    let last = sessions.iter().rfind(|listed| listed.depth == 0)?;
    Some(SessionCursor { last: last.last.unwrap_or_default(), session: last.session.clone() })
}

impl ListedSession {
    /// What its files show, and what its own entries say where they can be read. A fork goes on from `here`: one that was brought
    /// in goes on from nobody here, whoever has that name now.
    fn of(
        summary: &SessionSummary,
        statuses: &SessionStatuses<'_>,
        digest: Option<&Digest>,
        here: Option<&SessionId>,
    ) -> ListedSession {
        let SessionSummary { id: session, created, last, seq, bytes, .. } = summary;
        let spent = digest.map(|digest| digest.spent);
        let is_here = |parent: &&Parent| match parent {
            Parent::ForkOf { session, .. } => Some(session) == here,
            Parent::TaskOf { session: parent, .. } => parent != session,
        };
        ListedSession {
            session: session.clone(),
            title: digest.and_then(Digest::title).map(str::to_owned),
            agent: digest.and_then(|digest| digest.agent.clone()),
            model: digest.and_then(|digest| digest.model.clone()),
            workspace: digest.and_then(|digest| digest.workspace.clone()),
            created: *created,
            last: *last,
            seq: *seq,
            entries: None,
            bytes: *bytes,
            beside_bytes: 0,
            requests: spent.map(|spent| spent.requests),
            estimated: spent.map_or(0, |spent| spent.estimated),
            usage: spent.map(|spent| spent.usage),
            cost: spent.map(|spent| spent.cost),
            status: statuses.of(session),
            open: statuses.has(Mark::Open, session),
            protected: statuses.has(Mark::Protected, session),
            ended: digest.is_some_and(|digest| digest.ended),
            parent: digest.and_then(|digest| digest.origin.as_ref()).filter(is_here).cloned(),
            forks: 0,
            children: 0,
            depth: 0,
        }
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
