//! [`Caught`]: an engine whose panics are answers. A panic in a method of the engine is a [`TapeError::Engine`] that names the method
//! and has the panic's words, so no caller takes it for the end of the runtime.
//!
//! A change must keep that the writer is not caught: what an append that panicked has left on the tape is unknown, so the session
//! crashes, and its next incarnation reads the tape.

use std::{
    fs::File,
    io::Write,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use super::{
    Anchor, EntryWords, FoundEntry, LoadedTape, Mark, Notify, Position, SessionSummary, SoundEnd, TapeEntry, TapeError,
    TapeStore, TapeWriter, UnreadTape, WantedWords, engine::one_by_one,
};
use crate::words::{
    ids::{Seq, SessionId},
    labels::Labels,
    panic_text,
};

/// An engine behind a catch. The runtime speaks to every engine through it.
#[derive(Debug)]
pub(crate) struct Caught(pub(crate) Arc<dyn TapeStore>);

impl Caught {
    /// Calls a method of the engine. The engine keeps its own state whole: it is used again after the panic.
    fn call<T>(&self, method: &'static str, call: impl FnOnce(&dyn TapeStore) -> T) -> Result<T, TapeError> {
        catch_unwind(AssertUnwindSafe(|| call(&*self.0)))
            .map_err(|panic| TapeError::engine(format!("`{method}` panicked: {}", panic_text(&*panic))))
    }
}

impl TapeStore for Caught {
    fn begin(
        &self,
        session: &SessionId,
        after: Option<&Position>,
        notify: Notify,
    ) -> Result<Box<dyn TapeWriter>, TapeError> {
        self.call("begin", |engine| engine.begin(session, after, notify))?
    }

    fn claim(&self, session: &SessionId, notify: Notify) -> Result<LoadedTape, TapeError> {
        self.call("claim", |engine| engine.claim(session, notify))?
    }

    fn range(&self, session: &SessionId, from: Seq, through: Seq) -> Result<Vec<TapeEntry>, TapeError> {
        self.call("range", |engine| engine.range(session, from, through))?
    }

    fn position(&self, session: &SessionId, seq: Seq) -> Result<Option<Position>, TapeError> {
        self.call("position", |engine| engine.position(session, seq))?
    }

    fn parts(&self, session: &SessionId) -> Result<Vec<Anchor>, TapeError> {
        self.call("parts", |engine| engine.parts(session))?
    }

    fn names(&self) -> Result<Vec<SessionId>, TapeError> {
        self.call("names", |engine| engine.names())?
    }

    fn summary(&self, session: &SessionId) -> Result<SessionSummary, TapeError> {
        self.call("summary", |engine| engine.summary(session))?
    }

    /// A panic over one session is not the end of the list: the sessions are asked for by themselves then.
    fn summaries(&self) -> Result<Vec<SessionSummary>, TapeError> {
        self.call("summaries", |engine| engine.summaries()).unwrap_or_else(|error| {
            tracing::error!(%error, "the sessions are listed one by one");
            one_by_one(self)
        })
    }

    fn sound_end(&self, session: &SessionId) -> Result<SoundEnd, TapeError> {
        self.call("sound_end", |engine| engine.sound_end(session))?
    }

    fn erase(&self, session: &SessionId, last: Option<Seq>, unless: &[Mark]) -> Result<Option<Mark>, TapeError> {
        self.call("erase", |engine| engine.erase(session, last, unless))?
    }

    fn mark(&self, session: &SessionId, mark: Mark, about: &str) -> Result<(), TapeError> {
        self.call("mark", |engine| engine.mark(session, mark, about))?
    }

    fn unmark(&self, session: &SessionId, mark: Mark, about: &str) -> Result<(), TapeError> {
        self.call("unmark", |engine| engine.unmark(session, mark, about))?
    }

    fn marks(&self, mark: Mark, of: Option<&SessionId>) -> Result<Vec<(SessionId, String)>, TapeError> {
        self.call("marks", |engine| engine.marks(mark, of))?
    }

    fn unread_words(&self, after: Option<&SessionId>, most: usize) -> Result<Vec<UnreadTape>, TapeError> {
        self.call("unread_words", |engine| engine.unread_words(after, most))?
    }

    fn put_words(&self, tape: &UnreadTape, words: &[EntryWords], labels: Option<&Labels>) -> Result<(), TapeError> {
        self.call("put_words", |engine| engine.put_words(tape, words, labels))?
    }

    fn find_words(&self, wanted: &WantedWords) -> Result<Vec<FoundEntry>, TapeError> {
        self.call("find_words", |engine| engine.find_words(wanted))?
    }

    /// An engine that panics here keeps no outputs, as far as this call goes.
    fn output_copies(&self) -> Option<PathBuf> {
        self.call("output_copies", |engine| engine.output_copies()).unwrap_or_else(|error| {
            tracing::error!(%error, "the place of large outputs is not known");
            None
        })
    }

    fn put_output(&self, session: &SessionId, name: &str, file: &File) -> Result<(), TapeError> {
        self.call("put_output", |engine| engine.put_output(session, name, file))?
    }

    fn get_output(&self, session: &SessionId, name: &str, to: &mut dyn Write) -> Result<bool, TapeError> {
        self.call("get_output", |engine| engine.get_output(session, name, to))?
    }

    fn outputs(&self, session: &SessionId) -> Result<Vec<(String, u64)>, TapeError> {
        self.call("outputs", |engine| engine.outputs(session))?
    }

    /// An engine that panics here has not settled.
    fn settle(&self, limit: Duration) -> bool {
        self.call("settle", |engine| engine.settle(limit)).unwrap_or_else(|error| {
            tracing::error!(%error, "whether every append is written is not known");
            false
        })
    }

    /// An engine that panics here has no folder, as far as this call goes.
    fn folder(&self, of: Option<&SessionId>) -> Option<PathBuf> {
        self.call("folder", |engine| engine.folder(of)).unwrap_or_else(|error| {
            tracing::error!(%error, "the folder beside the tapes is not known");
            None
        })
    }
}
