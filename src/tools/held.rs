//! A file that a call holds while it changes it.
//!
//! Nobody else who shares the toolbox writes the file meanwhile, whatever they call it, and what the session has not seen is
//! not overwritten: see [`Seen`](super::seen::Seen). What the file was before is kept, and noted, before it is changed.

use crate::{
    tool::{
        FileChange, FileImage, FileState, ToolResult,
        files::{FileLock, Note},
        workspace::{FileInfo, Version, WorkspaceError, WorkspacePath, WriteOptions, Written},
    },
    tools::{
        call::{Call, aborted, failure},
        names,
        seen::{CONTENT_BYTES_MAX, Glimpse},
    },
};

/// How often a write looks again at a file that others change between the look and the write.
const TRIES: usize = 5;

/// What is known of a file that others change all the time.
const RESTLESS: &str = "it was being changed by someone else at that moment";

/// A file, or a place where none is yet, that one call may write.
pub(super) struct Held<'c> {
    call: &'c Call<'c>,
    place: &'c WorkspacePath,
    _lock: FileLock,
}

impl<'c> Held<'c> {
    /// Waits until nobody else holds the file that a path leads to, or the path itself where nothing is there yet.
    pub(super) fn take(call: &'c Call<'c>, place: &'c WorkspacePath) -> Result<Held<'c>, ToolResult> {
        let lock = call.shared.files.locks.take(&call.workspace, place, || call.context.is_cancelled());
        let lock = lock.map_err(failure)?.ok_or_else(aborted)?;
        Ok(Held { call, place, _lock: lock })
    }

    /// Refuses a content that is not what the session has last seen there.
    pub(super) fn refuse_stale(&self, content: &[u8], info: &FileInfo) -> Result<(), ToolResult> {
        match self.recalled() {
            Some(Glimpse::Content(hash)) if hash != blake3::hash(content) => Err(self.stale()),
            Some(Glimpse::State(version)) if version != info.version => Err(self.stale()),
            _ => Ok(()),
        }
    }

    /// The state in which the file may be overwritten, for one who has not read it: what is there must be what the session
    /// has last seen. `None` where any state will do.
    pub(super) fn overwritable(&self) -> Result<Option<Version>, ToolResult> {
        let version = match self.recalled() {
            None => return Ok(None),
            Some(Glimpse::State(_)) => self.call.workspace.info(self.place).map(|info| (Vec::new(), info)),
            Some(Glimpse::Content(_)) => self.call.workspace.read(self.place, CONTENT_BYTES_MAX),
        };
        match version {
            Ok((content, info)) => self.refuse_stale(&content, &info).map(|()| Some(info.version)),
            // It was smaller when it was seen.
            Err(WorkspaceError::TooLarge { .. }) => Err(self.stale()),
            // What was deleted cannot be overwritten; what else is wrong is said by the write.
            Err(_) => Ok(None),
        }
    }

    /// Writes the file, and remembers that the session knows what is in it now.
    ///
    /// What was there is kept and the change is noted before anything is changed, and the change is said before this returns.
    /// That it could not be kept is said too, and is no reason not to write.
    pub(super) fn write(
        &self,
        content: &[u8],
        options: &WriteOptions,
    ) -> Result<Result<Written, WorkspaceError>, ToolResult> {
        self.call.change(|| {
            for _ in 0..TRIES {
                let (was, found) = self.look();
                match self.replace(was, content, &WriteOptions { expect: options.expect.or(found), ..*options }) {
                    // What was kept is not what would be replaced.
                    Err(WorkspaceError::Changed { .. }) if options.expect.is_none() && found.is_some() => {}
                    done => return done,
                }
            }
            self.replace(FileState::Unknown(RESTLESS.to_owned()), content, options)
        })
    }

    fn replace(&self, was: FileState, content: &[u8], options: &WriteOptions) -> Result<Written, WorkspaceError> {
        let change = self.noted(was, content);
        match self.call.workspace.write(self.place, content, options) {
            Ok(written) => {
                self.say(change, &written, content);
                Ok(written)
            }
            Err(error) => {
                self.note(change, true);
                Err(error)
            }
        }
    }

    /// What is at the place, kept; and the state in which it was found.
    fn look(&self) -> (FileState, Option<Version>) {
        let vault = self.call.vault();
        match self.call.workspace.read(self.place, vault.file_bytes_max()) {
            Ok((content, info)) => (FileState::File(vault.keep(&content, info.mode)), Some(info.version)),
            Err(WorkspaceError::NotFound { .. }) => (FileState::Absent, None),
            Err(WorkspaceError::TooLarge { .. }) => match self.call.workspace.info(self.place) {
                Ok(info) => (FileState::File(vault.too_large(info.mode, info.bytes)), None),
                Err(_) => (FileState::Unknown("its old content was not kept".to_owned()), None),
            },
            Err(error) => (FileState::Unknown(format!("its old content could not be read: {error}")), None),
        }
    }

    /// Writes down what is about to be done.
    fn noted(&self, before: FileState, content: &[u8]) -> FileChange {
        let mode = if let FileState::File(image) = &before { image.mode } else { 0o644 };
        let hash = Some(blake3::hash(content).to_hex().to_string());
        let after = FileImage { hash, mode, bytes: content.len() as u64, not_kept: None, stamp: None };
        let change = FileChange { path: self.path(), before, after: FileState::File(after) };
        self.note(change.clone(), false);
        change
    }

    fn note(&self, change: FileChange, not_made: bool) {
        let Some((_, seq)) = self.call.context.changes.place() else { return };
        let note = Note { seq, restore: None, change, not_made };
        if let Err(error) = self.call.vault().note(&note) {
            // The result says it too; only a crash right now would lose it.
            tracing::warn!(session = %self.call.context.session, %error, "a change could not be noted");
        }
    }

    /// Says what was done, and remembers it.
    fn say(&self, change: FileChange, written: &Written, content: &[u8]) {
        let call = self.call;
        call.remember(self.place, Glimpse::of_content(content));
        // Kept as well: it is what is there before the next change, whoever makes that.
        let path = call.real(self.place);
        let image = call.shared.files.keep(&call.vault(), &call.context.session, path, content, &written.info);
        let before = match change.before {
            FileState::Absent if !written.created => {
                FileState::Unknown("someone else made it at that moment".to_owned())
            }
            before => before,
        };
        call.context.changes.add(FileChange { before, after: FileState::File(image), ..change });
    }

    /// Where the file is, without links, as it stands on the tape.
    fn path(&self) -> String {
        names::shown(&self.call.path_from(&self.call.real(self.place)))
    }

    /// What the model is told of a file that somebody else changed.
    pub(super) fn stale(&self) -> ToolResult {
        ToolResult::error(format!(
            "{}: the file was changed by someone else since you last read or wrote it, so nothing was changed. Read it again \
             first.",
            self.call.shown(self.place)
        ))
    }

    fn recalled(&self) -> Option<Glimpse> {
        self.call.shared.seen.recall(&self.call.context.session, self.call.real(self.place))
    }
}
