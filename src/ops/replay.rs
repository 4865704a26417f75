//! Replays a session from its tape: makes every decision again, with no network and no tool, and compares the outcomes.
//!
//! An append of a tape is one decision of the core, and records its inputs and everything the core looked at. Only the first append
//! and those of a fork or an import follow from no decision; of these a replay checks that they read back as they were written. For
//! every other append it reads the inputs back (`decision.rs`), decides again, and compares each new entry with the recorded one:
//! all its fields, its data, and, unless values were given in place of the recorded ones, its input. Requests are built again from
//! the folded history, so their hashes are compared too. The next decision starts from the fold of the recorded entries.
//!
//! A replay starts nothing, writes nothing, takes no claim and asks no one. Calls are judged again by their recorded facts, or by
//! the facts that given tools state ([`Replay::toolbox`]).
//!
//! A change must keep this: a replay infers nothing that the tape does not say. If the core comes to look at something new, the
//! tape must record it first.

mod case;
mod decision;
mod difference;
mod diverge;

use std::{path::PathBuf, sync::Arc};

use crate::{
    error::Kind,
    kernel::{BadRecord, EnvSeen, Settings, State, ToolsSeen, tools_tokens},
    permission::Globs,
    tape::{Append, Store, TapeError},
    tool::Toolbox,
    words::ids::{Millis, Seq, SessionId},
};

pub use case::{CheckError, Checked, check, write_test};
use decision::Recorded;
pub use difference::Difference;
pub use diverge::{Divergence, diverge};

/// Why a tape cannot be replayed at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The tape cannot be read.
    #[error(transparent)]
    Tape(#[from] TapeError),
    /// An entry has a kind that this version does not know, or a shape that it cannot read.
    #[error(transparent)]
    Entry(#[from] BadRecord),
    /// An entry names no input, or an input that cannot have written it: no decision of this library wrote it.
    #[error("{} line {line}: entry {seq} cannot be replayed: {why}", .file.display())]
    NoInput {
        /// The entry.
        seq: Seq,
        /// The file that contains it.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// The tape is empty, or does not begin with a state.
    #[error("there is nothing to replay: a tape begins with an entry of the kind state")]
    NoBeginning,
}

impl ReplayError {
    /// What a caller can do about it.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            ReplayError::Tape(error) => error.kind(),
            ReplayError::Entry(_) | ReplayError::NoInput { .. } => Kind::Damaged,
            ReplayError::NoBeginning => Kind::Invalid,
        }
    }
}

/// The caller's values in place of the recorded ones.
#[derive(Clone, Debug, Default)]
struct Given {
    prompt: Option<Arc<str>>,
    settings: Option<Arc<Settings>>,
    toolbox: Option<Toolbox>,
    /// The hash and size of the toolbox, as a decision sees them.
    seen: EnvSeen,
}

impl Given {
    fn is_nothing(&self) -> bool {
        self.prompt.is_none() && self.settings.is_none() && self.toolbox.is_none()
    }

    /// Puts the given values over the recorded state.
    fn put_into(&self, state: &mut State) {
        if let Some(settings) = &self.settings {
            state.settings = settings.clone();
        }
        if let Some(prompt) = self.prompt.as_ref().filter(|prompt| state.settings.system != **prompt) {
            Arc::make_mut(&mut state.settings).system = prompt.clone();
        }
    }
}

/// A replay of one tape: an iterator over its decisions, in order.
///
/// After a difference the replay continues from the recorded entries, so that later decisions are judged separately.
///
/// ```
/// # use std::sync::Arc;
/// # use tamtam::{Runtime, SessionOptions, model::{Reply, Scripted}};
/// use tamtam::{ops::replay::Replay, tape::{TapeAccess, Store, StoreOptions}};
/// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
/// # let folder = tempfile::tempdir()?;
/// # let model = Arc::new(Scripted::new([Reply::text("Hello.")]));
/// # let runtime = Runtime::builder().store(folder.path()).model(model).start().await?;
/// # let session = runtime.create(SessionOptions::new(folder.path())).await?;
/// # session.prompt("Say hello.").await?.wait().await?;
/// # let id = session.id().clone();
/// # runtime.shutdown().await;
///
/// let reading = StoreOptions::default().access(TapeAccess::Read);
/// let store = Store::open(folder.path(), reading)?;
/// for step in Replay::open(&store, &id)? {
///     assert_eq!(step.difference, None);
/// }
/// let other = Replay::open(&store, &id)?.prompt("You are a drum.").first_difference();
/// assert!(other.is_some_and(|found| found.path == "data.system"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct Replay {
    decisions: Vec<Recorded>,
    given: Given,
    globs: Globs,
    /// The index of the next append.
    next: usize,
    /// The fold of all appends before it, with the given values; `None` before the first.
    state: Option<State>,
}

/// One decision, made again.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Step {
    /// Its number among the decisions of the tape, from 1.
    pub number: usize,
    /// The inputs of the decision, in a few words.
    pub signal: String,
    /// The file that contains its entries.
    #[serde(serialize_with = "crate::words::path_text")]
    pub file: PathBuf,
    /// The line of the first of these entries, from 1.
    pub line: usize,
    /// When it was made.
    pub time: Millis,
    /// The recorded entries, by seq and kind. Never empty.
    pub recorded: Vec<(Seq, String)>,
    /// The first difference between the new decision and the recorded one; `None` if they are the same.
    pub difference: Option<Difference>,
}

impl Step {
    /// The newest entry of the decision.
    #[must_use]
    pub fn last(&self) -> Seq {
        self.recorded.last().map_or(Seq::ZERO, |(seq, _)| *seq)
    }
}

impl Replay {
    /// A replay of a session of a store, from its first entry on. Takes no lock, and reads the whole tape at once.
    ///
    /// # Errors
    /// See [`ReplayError`].
    pub fn open(store: &Store, session: &SessionId) -> Result<Replay, ReplayError> {
        Replay::of(store.appends(session)?)
    }

    /// A replay of appends that the caller has read.
    ///
    /// # Errors
    /// [`ReplayError::Entry`], [`ReplayError::NoInput`], [`ReplayError::NoBeginning`].
    pub fn of(appends: Vec<Append>) -> Result<Replay, ReplayError> {
        let decisions = appends.into_iter().enumerate().map(|(n, append)| Recorded::read(append, n == 0));
        let decisions = decisions.collect::<Result<Vec<_>, _>>()?;
        decisions.first().and_then(Recorded::begins).ok_or(ReplayError::NoBeginning)?;
        Ok(Replay { decisions, given: Given::default(), globs: Globs::default(), next: 0, state: None })
    }

    /// Begins at the newest anchor, as an opened session does. Entries before the anchor are not checked.
    #[must_use]
    pub fn from_newest_anchor(mut self) -> Replay {
        self.next = self.decisions.iter().rposition(|recorded| recorded.begins().is_some()).unwrap_or(0);
        self
    }

    /// Replays with another system prompt. The first request that it changes is the first difference.
    #[must_use]
    pub fn prompt(mut self, prompt: impl Into<Arc<str>>) -> Replay {
        self.given.prompt = Some(prompt.into());
        self
    }

    /// Replays with other settings, which hold for the whole tape.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Replay {
        self.given.settings = Some(Arc::new(settings));
        self
    }

    /// Replays with these tools: calls are judged again by the facts that these tools state. None of them runs.
    ///
    /// If the tools are not those of the tape, the first request that offers them is the first difference.
    #[must_use]
    pub fn toolbox(mut self, toolbox: Toolbox) -> Replay {
        self.given.seen.tools = Some(ToolsSeen { hash: toolbox.hash(), tokens: tools_tokens(&toolbox) });
        self.given.toolbox = Some(toolbox);
        self
    }

    /// How many decisions are on the tape.
    #[must_use]
    pub fn decisions(&self) -> usize {
        self.decisions.len()
    }

    /// Continues to the first difference, and returns it.
    pub fn first_difference(&mut self) -> Option<Difference> {
        self.find_map(|step| step.difference)
    }
}

impl Iterator for Replay {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        let recorded = self.decisions.get(self.next)?;
        let Recorded { append, entries, .. } = recorded;
        let decided = match &self.state {
            Some(state) if !recorded.inputs.is_empty() => recorded.again(state, &self.given, &self.globs).entries,
            // No decision wrote this append. The check is only that it reads back as it was written.
            _ => entries.clone(),
        };
        let step = Step {
            number: self.next + 1,
            signal: self.state.as_ref().map_or("the beginning", |_| &*recorded.words).to_owned(),
            file: append.file.clone(),
            line: append.line,
            time: entries.first()?.time,
            recorded: append.entries.iter().map(|entry| (entry.seq, entry.kind.clone())).collect(),
            // With given values a decision looks at other things. So only its outcome is compared, and not its inputs.
            difference: difference::first(append, &decided, self.given.is_nothing()),
        };
        self.state = self.state.take().or_else(|| recorded.begins().cloned());
        let state = self.state.as_mut()?;
        entries.iter().for_each(|entry| state.apply(entry));
        self.given.put_into(state);
        self.next += 1;
        Some(step)
    }
}
