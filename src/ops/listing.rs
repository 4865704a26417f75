//! The sessions of a store, as people want to see them: newest first, with title, age, size, cost and status, a page at a
//! time.
//!
//! Over files the list comes from the index, the search database beside the tapes: a page costs the rows that it shows or passes
//! over, and a look at the files of the sessions that changed since the last list. Only entries that were appended since are read
//! from tapes ([`ListCost`] counts the work). Without an index, and over any other engine, the sessions that the page shows or passes over are
//! read from their tapes ([`SessionPage::indexed`] is `false`), and children are not counted.
//!
//! A change must keep this: a list takes no claim, writes to no tape and asks no actor, so that it may run alongside any work; and
//! one damaged session does not spoil the page.

mod query;
#[cfg(feature = "sqlite")]
mod rows;

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::{
    kernel::{Digest, Parent, ShownTasks, Spent},
    tape::{
        Behind, ListCost, Mark, SessionStatus, SessionStatuses, SessionSummary, Store, TapeError, TapeStore,
        TapeStoreExt as _, newest_labels,
    },
    words::ids::{Millis, Seq, SessionId},
    words::labels::Labels,
    words::message::ModelRef,
    words::usage::{Cost, Usage},
};

pub use query::{SessionCursor, SessionQuery};

/// A page of sessions.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct SessionPage {
    /// The sessions, most recently used first.
    pub sessions: Vec<ListedSession>,
    /// Where the next page begins; `None` on the last page. A page that has one may be empty, if the index reads on.
    pub next: Option<SessionCursor>,
    /// Whether the newest entries may be missing, because the index has not read them. On the last page: whether sessions may be
    /// missing on all pages, because the index could not read them; [`SessionCursor`] says what [`Behind::No`] promises.
    pub behind: Behind,
    /// Whether the page comes from the index. If not, the store has no index and none could be made, or the tapes are not kept in
    /// files. Then all sessions were checked, and the tapes of those that the page shows or skips were read; the page lacks only
    /// the children of sessions.
    pub indexed: bool,
    /// The work that the page took.
    pub cost: ListCost,
}

/// A session on a list.
#[derive(Clone, Debug, PartialEq, Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ListedSession {
    /// The id of the session.
    pub session: SessionId,
    /// The title set by its host, else the first words of its first message. A fork has its parent's title until it has its own.
    /// `None` if nothing was said yet.
    pub title: Option<String>,
    /// The name of its agent.
    pub agent: Option<String>,
    /// The model that it uses.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    #[serde(with = "crate::event::shown::maybe_model")]
    pub model: Option<ModelRef>,
    /// The folder that it works in.
    pub workspace: Option<String>,
    /// What its host says of it. A fork has the labels of its point until it gets others.
    pub labels: Labels,
    /// When it was made.
    pub created: Option<Millis>,
    /// When it was used last.
    pub last: Option<Millis>,
    /// Its last entry.
    pub seq: Seq,
    /// How many entries it has. A fork's count leaves out the entries of its parent.
    pub entries: Option<u64>,
    /// The size of its own entries, in bytes.
    pub bytes: u64,
    /// The size of the files next to its tape, in bytes: large outputs, and old contents of changed files.
    pub beside_bytes: u64,
    /// How many model requests it made, with those of its tasks that are over and of merged forks; `None` if its tape cannot be
    /// read.
    pub requests: Option<u64>,
    /// How many of these requests came without usage figures, so that estimates are counted.
    pub estimated: u64,
    /// Tokens of these requests.
    pub usage: Option<Usage>,
    /// The cost of that usage. An unknown cost is not zero: see [`Cost::exact`].
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::words::usage::ShownCost>"))]
    #[serde(flatten, with = "crate::event::shown::maybe_cost")]
    pub cost: Option<Cost>,
    /// The part of these figures that its tasks used; `None` if it gave none. Each child is also a session in the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<ShownTasks>,
    /// Whether it is awake, asleep, parked or deleted.
    pub status: SessionStatus,
    /// Whether a turn of it is not over.
    pub open: bool,
    /// Whether it is protected from sweeps.
    pub protected: bool,
    /// Whether it has ended permanently.
    pub ended: bool,
    /// The session that it is a fork or a child of.
    pub parent: Option<Parent>,
    /// How many forks continue from it.
    pub forks: u64,
    /// How many children do tasks of it; 0 without an index, because they are unknown.
    pub children: u64,
    /// What it used itself, without its tasks and merged forks.
    #[serde(skip)]
    pub(crate) own: Spent,
}

/// Lists sessions of a store of files. Blocks on the disk, so do not call it on an async thread. Takes no claim, and may run
/// alongside any other work on the store.
///
/// # Errors
/// [`TapeError::Query`] if the text is too long; [`TapeError::Newer`] if a later version of this library made the index;
/// [`TapeError::Index`]; [`TapeError::Io`].
pub fn sessions(store: &Store, query: &SessionQuery) -> Result<SessionPage, TapeError> {
    #[cfg(feature = "sqlite")]
    if let Some(page) = rows::page(store, query)? {
        return Ok(page);
    }
    sessions_of(store, query)
}

/// Lists the sessions of any engine, without an index. Reads the tapes of the sessions on the page, and of those that a filter
/// passes over. Blocks on the engine.
///
/// # Errors
/// [`TapeError::Query`] if the text is too long; errors of the engine.
pub(crate) fn sessions_of(store: &dyn TapeStore, query: &SessionQuery) -> Result<SessionPage, TapeError> {
    query.check()?;
    let statuses = SessionStatuses::of_all(store)?.with_claimed();
    let mut all = store.list()?;
    let cost = ListCost { rows: all.len() as u64, folders: all.len() as u64, ..ListCost::default() };
    let used = |summary: &SessionSummary| summary.last.unwrap_or_default();
    all.sort_by(|one, other| (used(other), &other.id).cmp(&(used(one), &one.id)));
    all.retain(|summary| query.is_behind_cursor(used(summary), &summary.id));
    let (mut sessions, mut next, mut unread) = (Vec::new(), None, 0);
    for summary in &all {
        let listed = match read(store, summary, &statuses) {
            // The session is still listed, with what is known without its tape.
            Err(TapeError::Damaged(_) | TapeError::Missing { .. } | TapeError::Newer { .. }) => {
                unread += 1;
                ListedSession::of(summary, &statuses, None, None)
            }
            listed => listed?,
        };
        if query.is_full(&mut sessions, listed) {
            next = sessions.last().map(SessionCursor::of);
            break;
        }
    }
    sessions.iter_mut().for_each(|listed| listed.beside_bytes = beside(store, &listed.session));
    // Without labels such a session is on the list. With labels it is not known whether it should be.
    let behind = if unread > 0 && !query.labels.is_empty() { Behind::Sessions(unread) } else { Behind::No };
    Ok(SessionPage { sessions, next, behind, indexed: false, cost })
}

/// One session of a store of files, as a list shows it. Costs what this session costs: its row of the index, and what was appended
/// to its tape since; or its tape, where the index cannot be used. Forks and children that the index has not read yet are not
/// counted. Blocks on the disk.
///
/// # Errors
/// [`TapeError::Missing`]; others as [`sessions`].
pub(crate) fn one(store: &Store, session: &SessionId) -> Result<ListedSession, TapeError> {
    #[cfg(feature = "sqlite")]
    if let Some(listed) = rows::one(store, session)? {
        return Ok(listed);
    }
    one_of(store, session)
}

/// As [`one`], of any engine: reads the tape.
///
/// # Errors
/// [`TapeError::Missing`]; errors of the engine.
pub(crate) fn one_of(store: &dyn TapeStore, session: &SessionId) -> Result<ListedSession, TapeError> {
    let (statuses, summary) = (SessionStatuses::of_one(store, session)?, store.summary(session)?);
    let mut listed = match read(store, &summary, &statuses) {
        Err(TapeError::Damaged(_) | TapeError::Newer { .. }) => ListedSession::of(&summary, &statuses, None, None),
        listed => listed?,
    };
    listed.beside_bytes = beside(store, session);
    Ok(listed)
}

/// How long a complete list may bring the index up to date before it reads the tapes instead.
const WHOLE_WAIT: Duration = Duration::from_secs(60);

/// All sessions of a store of files that have these labels, on one page. Where other processes keep the index busy, all tapes are
/// read. Blocks on the disk.
///
/// # Errors
/// As [`sessions`].
pub(crate) fn all(store: &Store, labels: Labels) -> Result<SessionPage, TapeError> {
    let (query, until) = (SessionQuery::whole(labels, WHOLE_WAIT), Instant::now() + WHOLE_WAIT);
    loop {
        let page = sessions(store, &query)?;
        // A list that names a next page reads on.
        match (page.behind, page.next.is_some()) {
            (Behind::Sessions(_), true) if Instant::now() < until => {}
            (Behind::Sessions(_), true) | (Behind::Unknown, _) => return sessions_of(store, &query),
            // What is behind cannot be read.
            (Behind::No | Behind::Sessions(_), _) => return Ok(SessionPage { next: None, ..page }),
        }
    }
}

/// As [`all`], of any engine: reads all tapes.
///
/// # Errors
/// As [`sessions_of`].
pub(crate) fn all_of(store: &dyn TapeStore, labels: Labels) -> Result<SessionPage, TapeError> {
    sessions_of(store, &SessionQuery::whole(labels, Duration::ZERO))
}

/// A session of a list, read from its tape.
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
    let mut labels = newest_labels(&own);
    if from.is_some() && (listed.lacks_something() || labels.is_none()) {
        let mut before = store.read(session, Seq::ZERO)?;
        before.retain(|entry| entry.seq <= forked_at);
        listed.inherit(&Digest::of(&before));
        labels = labels.or_else(|| newest_labels(&before));
    }
    listed.labels = labels.unwrap_or_default();
    Ok(listed)
}

impl ListedSession {
    /// A session of a list, from its summary, and from the digest of its own entries if they could be read. `here` is the session
    /// of this store that a fork continues from. An imported fork has no parent here, even if a session of that name exists.
    fn of(
        summary: &SessionSummary,
        statuses: &SessionStatuses<'_>,
        digest: Option<&Digest>,
        here: Option<&SessionId>,
    ) -> ListedSession {
        let SessionSummary { id: session, created, last, seq, bytes, .. } = summary;
        let spent = digest.map(|digest| digest.spent.plus(&digest.spent_by_tasks));
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
            labels: Labels::default(),
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
            tasks: digest.and_then(|digest| digest.spent_by_tasks.shown_as_tasks(digest.spent.tasks)),
            status: statuses.of(session),
            open: statuses.has(Mark::Open, session),
            protected: statuses.has(Mark::Protected, session),
            ended: digest.is_some_and(|digest| digest.ended),
            parent: digest.and_then(|digest| digest.origin.as_ref()).filter(is_here).cloned(),
            forks: 0,
            children: 0,
            own: digest.map(|digest| digest.spent).unwrap_or_default(),
        }
    }

    /// Fills missing fields from the digest of the parent.
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

/// The size of the folders next to a tape, in bytes. An unreadable file counts as 0.
pub(crate) fn beside(store: &dyn TapeStore, session: &SessionId) -> u64 {
    let folders = [store.spill_path(session), store.files_path(session)].into_iter().flatten();
    let files = folders.filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).filter(std::fs::Metadata::is_file).map(|file| file.len()).sum()
}
