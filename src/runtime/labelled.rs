//! What a host does with all sessions of a label at once, such as those of a tenant: list them, add up what they used, see their open
//! questions, drain and delete them.
//!
//! The labels of a session are on its tape, and the index has them. So a list touches the files of these sessions only, once the index
//! knows what was appended; without an index, and over any other engine, all tapes are read. Questions and a drain look at the states
//! of the sessions that are awake, and read no file.
//!
//! A change must keep that each answer is complete as of one moment after the call, or says what it lacks; and that no method
//! touches a file of a session without the labels.
//!
//! Rejected: to walk the pages of [`Runtime::sessions`]. A session that is used between two pages moves to the first, and is missed.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde::Serialize;
use tokio::time::timeout;

use crate::{
    actor::{shared::Shared, slot::Slot},
    error::{DeleteError, OpenError},
    kernel::{Open, Spent},
    ops::{ListedSession, SessionPage, listing},
    runtime::{Deletion, Runtime, delete, report::come_to_rest},
    tape::Behind,
    words::{
        ids::{Seq, SessionId},
        labels::{BadLabel, Labels},
    },
};

/// How long a session that is just waking may take to show its questions.
const WAKE_WAIT: Duration = Duration::from_secs(2);

/// All sessions that have certain labels. Made by [`Runtime::labelled`]; cheap to clone.
#[derive(Clone, Debug)]
pub struct Labelled {
    runtime: Runtime,
    labels: Labels,
}

/// What the sessions of a label used together. The outcome of [`Labelled::bill`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LabelledBill {
    /// How many sessions were added up.
    pub sessions: u64,
    /// What they used themselves. A child counts where it has the labels, and a merged fork as itself: so nothing counts twice.
    #[serde(with = "crate::event::shown::spent")]
    pub spent: Spent,
    /// Whether sessions may be missing, as in a [`SessionPage`].
    pub behind: Behind,
}

/// The open questions of the sessions of a label. The outcome of [`Labelled::asks`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LabelledAsks {
    /// The questions, by session and ticket.
    pub asks: Vec<LabelledAsk>,
    /// Sessions that were waking and did not come up in time: their labels and questions are not known.
    pub unknown: Vec<SessionId>,
}

/// An open question of a session: [`Session::answer`](crate::Session::answer) takes `session` and `ask`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LabelledAsk {
    /// The session that asks.
    pub session: SessionId,
    /// The labels of the session.
    pub labels: Labels,
    /// The ticket of the question.
    pub ask: Seq,
    /// What an answer names that is for this and nothing else ([`Session::answer_shown`](crate::Session::answer_shown)); `None` for
    /// [`Open::BudgetAsk`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The question: [`Open::Ask`], [`Open::BudgetAsk`], or [`Open::TaskAsk`] of a child that has not the labels itself.
    pub open: Arc<Open>,
}

/// What became of the sessions of a label. The outcome of [`Labelled::delete`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LabelledDeletion {
    /// The sessions that are deleted.
    pub deleted: Vec<(SessionId, Deletion)>,
    /// The sessions that are not, and why.
    pub kept: Vec<(SessionId, DeleteError)>,
    /// Whether sessions may be missing, as in a [`SessionPage`].
    pub behind: Behind,
}

impl Runtime {
    /// All sessions that have these labels, whatever others they have: those of a tenant, say.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tamtam::{Runtime, SessionOptions, model::{Reply, Scripted}, session::Labels};
    ///
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
    /// # let folder = tempfile::tempdir()?;
    /// let model = Scripted::new([Reply::text("Hello.")]);
    /// let runtime = Runtime::builder().store(folder.path()).model(Arc::new(model)).start().await?;
    /// let acme = Labels::new([("tenant", "acme")])?;
    /// let session = runtime.create(SessionOptions::new(folder.path()).labels(acme.clone())).await?;
    /// session.prompt("Say hello.").await?.wait().await?;
    /// session.wait().await?;
    /// let tenant = runtime.labelled(acme)?;
    /// assert_eq!(tenant.sessions().await?.sessions.len(), 1);
    /// assert_eq!(tenant.bill().await?.spent.requests, 1);
    /// assert!(tenant.asks().await.asks.is_empty());
    /// assert!(tenant.delete().await?.kept.is_empty());
    /// runtime.shutdown().await;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`BadLabel::None`] without a label: that would be every session.
    pub fn labelled(&self, labels: Labels) -> Result<Labelled, BadLabel> {
        if labels.is_empty() { Err(BadLabel::None) } else { Ok(Labelled { runtime: self.clone(), labels }) }
    }
}

impl Labelled {
    /// The labels.
    #[must_use]
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// All of these sessions, last used first, as of one moment and on one page: its `next` is `None`. [`SessionPage::behind`] counts
    /// the sessions whose tape cannot be read, and whose labels are therefore not known; `Behind::No` says that none is missing. For
    /// more sessions than a host wants in memory, [`Runtime::sessions`] has pages.
    ///
    /// The index is brought up to date first, however many sessions have changed since.
    ///
    /// # Errors
    /// If the store or its index cannot be read.
    pub async fn sessions(&self) -> Result<SessionPage, OpenError> {
        let labels = self.labels.clone();
        let list = move |shared: &Shared| match shared.store.files() {
            Some(files) => Ok(listing::all(files, labels)?),
            None => Ok(listing::all_of(&*shared.store, labels)?),
        };
        self.shared().blocking(list).await
    }

    /// What these sessions used, added up. [`Labelled::sessions`] has each session's part. A deleted session is on no bill.
    ///
    /// # Errors
    /// As [`Labelled::sessions`].
    pub async fn bill(&self) -> Result<LabelledBill, OpenError> {
        let page = self.sessions().await?;
        let spent = page.sessions.iter().fold(Spent::default(), |sum, listed| sum.plus(&listed.own));
        Ok(LabelledBill { sessions: page.sessions.len() as u64, spent, behind: page.behind })
    }

    /// All questions of these sessions that wait for a person, each once: at the session that asks. Reads no tape and wakes nobody: a
    /// session with an open question is awake. A parked one shows its questions, and takes no answer until it is unparked.
    pub async fn asks(&self) -> LabelledAsks {
        let (mut states, mut unknown) = (Vec::new(), Vec::new());
        for slot in self.shared().slots.all_awake() {
            let state = match slot.shown() {
                Some(state) => state,
                None => match timeout(WAKE_WAIT, slot.now()).await {
                    Ok(Ok(state)) => state,
                    // It fell asleep, or its tape cannot be read: nobody can answer it.
                    Ok(Err(_)) => continue,
                    Err(_) => {
                        unknown.push(slot.id.clone());
                        continue;
                    }
                },
            };
            if state.settings.labels.have(&self.labels) {
                states.push(state);
            }
        }
        let of: BTreeSet<_> = states.iter().map(|state| state.session.clone()).collect();
        let is_shown = |open: &Open| match open {
            Open::Ask(_) | Open::BudgetAsk(_) => true,
            // Where the child has the labels too, it is shown there.
            Open::TaskAsk(asked) => !asked.asked.from.first().is_some_and(|from| of.contains(&from.session)),
            _ => false,
        };
        let mut asks = Vec::new();
        for state in &states {
            for (ask, open) in state.open.iter().filter(|(_, open)| is_shown(open)) {
                let (session, labels) = (state.session.clone(), state.settings.labels.clone());
                let digest = state.digest_of(*ask);
                asks.push(LabelledAsk { session, labels, ask: *ask, digest, open: Arc::new(open.clone()) });
            }
        }
        LabelledAsks { asks, unknown }
    }

    /// Has these sessions take no new messages ([`SendError::Draining`](crate::SendError::Draining)), has no further session made
    /// with the labels ([`OpenError::Drained`]), and waits until their running turns are over. Other sessions go on. Open asks do not
    /// delay the drain, and nobody is woken. It holds until the runtime ends: the next one takes the sessions again.
    ///
    /// Returns the sessions that did not come to rest by the deadline, as [`Runtime::drain`]. Dropping the future ends the wait for the
    /// turns, and the drain stays.
    ///
    /// # Errors
    /// As [`Labelled::sessions`]: the sessions that sleep are not known then, and only those that are awake are drained.
    pub async fn drain(&self, deadline: Duration) -> Result<Vec<SessionId>, OpenError> {
        // First: a session that is made from here on is refused, or awake and found below.
        self.shared().slots.note_drained(&self.labels);
        self.awake();
        let page = self.sessions().await?;
        for listed in &page.sessions {
            self.shared().slots.keep_drained(self.shared().slot(&listed.session));
        }
        Ok(come_to_rest(self.shared(), deadline, || self.awake()).await)
    }

    /// The sessions with the labels that are awake. They are drained.
    fn awake(&self) -> Vec<Arc<Slot>> {
        let mut awake = self.shared().slots.all_awake();
        awake.retain(|slot| slot.shown().is_some_and(|state| state.settings.labels.have(&self.labels)));
        awake.iter().for_each(|slot| self.shared().slots.keep_drained(slot.clone()));
        awake
    }

    /// Deletes these sessions permanently, each as [`Runtime::delete`] does: forks and children before the sessions that they come
    /// from. A session that cannot be deleted is kept, and named with the reason; the others are deleted all the same. A session that is
    /// made meanwhile is not among them: [`Labelled::drain`] first, and abort what does not come to rest.
    ///
    /// Dropping the future lets the deletion finish.
    ///
    /// # Errors
    /// As [`Labelled::sessions`]; then nothing was deleted.
    pub async fn delete(&self) -> Result<LabelledDeletion, OpenError> {
        self.runtime.is_open()?;
        let labelled = self.clone();
        let shared = self.shared();
        shared
            .tasks
            .spawn_on(async move { labelled.delete_all().await }, &shared.tokio)
            .await
            .map_err(OpenError::lost)?
    }

    async fn delete_all(&self) -> Result<LabelledDeletion, OpenError> {
        let (shared, sessions) = (self.shared(), &self.runtime.inner.sessions);
        let page = self.sessions().await?;
        let mut left: Vec<ListedSession> = page.sessions;
        // What comes from a session is younger. (Where clocks were set back, the next round finds it.)
        left.sort_by_key(|listed| std::cmp::Reverse(listed.created));
        let mut left: Vec<_> = left.into_iter().map(|listed| listed.session).collect();
        let (mut erased, mut kept) = (Vec::new(), Vec::new());
        loop {
            let before = left.len();
            for session in std::mem::take(&mut left) {
                match delete::erase(shared, sessions, &session).await {
                    Ok(how) => erased.push((session, how)),
                    Err(error) => kept.push((session, error)),
                }
            }
            let depends = |(_, error): &(SessionId, DeleteError)| {
                matches!(error, DeleteError::Children { .. } | DeleteError::Task { .. })
            };
            if kept.len() == before || !kept.iter().any(depends) {
                break;
            }
            left = kept.extract_if(.., |kept| depends(kept)).map(|(session, _)| session).collect();
        }
        let deleted = delete::words_taken_out(shared, erased).await;
        Ok(LabelledDeletion { deleted, kept, behind: page.behind })
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.runtime.inner.shared
    }
}
