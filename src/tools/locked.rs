//! A file that a call of a file tool holds locked while it changes the file. The file tools `write` and `edit` write through
//! [`LockedFile::write`] alone.
//!
//! While the lock is held, no other call of these tools writes the file, by any of its paths; this holds among the tools of one
//! [`Setup`](super::Setup), which share the locks. There are two exceptions: a file that does not exist yet is locked by its path
//! alone, and commands of `bash` take no lock. [`Call::refuse_stale`] and [`Call::overwritable`] refuse a file that differs from
//! what the session saw last (see [`Seen`](super::seen::Seen)); a tool must ask one of them before it writes.
//!
//! A change must keep the order of a write: the old content is kept in the vault, the change is noted there, the file is written,
//! and the change is reported in the call's log before the write returns. So a crash of the process at any moment leaves a record
//! of the change, unless its note failed: a failure to keep or to note is recorded or logged, and never stops the write. The file
//! must be locked before the write passes the gate of the call ([`Call::change`]), because a call that waits for a file must be
//! answered at once when it is stopped.

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
    words::secrets::new_mark,
};

/// How often a write looks again at a file that others change between the look and the write.
const TRIES: usize = 5;

/// The reason in the record for the unknown old content of a file that others change all the time.
const RESTLESS: &str = "it was being changed by someone else at that moment";

/// A file, or a place without a file yet, that one call has locked.
pub(super) struct LockedFile<'c> {
    call: &'c Call<'c>,
    file: &'c WorkspacePath,
    _lock: FileLock,
}

impl<'c> LockedFile<'c> {
    /// Waits until no other call holds the file that a path leads to (or the path itself, if no file exists yet), and locks it.
    /// An error if the call must stop first.
    pub(super) fn take(call: &'c Call<'c>, file: &'c WorkspacePath) -> Result<LockedFile<'c>, ToolResult> {
        let lock = call.shared.files.locks.take(&call.workspace, file, || call.context.is_cancelled());
        let lock = lock.map_err(failure)?.ok_or_else(aborted)?;
        Ok(LockedFile { call, file, _lock: lock })
    }

    /// Writes the file, and remembers that the session knows the new content. The outer error is a call that must stop, the inner
    /// one a write that failed.
    ///
    /// The old content is kept and the change is noted before the file is written, and a completed change is reported before this
    /// returns. An old content that cannot be kept is reported as not kept or not known, and does not prevent the write.
    pub(super) fn write(
        &self,
        content: &[u8],
        options: &WriteOptions,
    ) -> Result<Result<Written, WorkspaceError>, ToolResult> {
        self.call.refuse_marks(self.file, content)?;
        self.call.change(|| {
            for _ in 0..TRIES {
                let (was, found) = self.look();
                match self.replace(was, content, &WriteOptions { expect: options.expect.or(found), ..*options }) {
                    // The file changed after the look, so the kept content is not the replaced one.
                    Err(WorkspaceError::Changed { .. }) if options.expect.is_none() && found.is_some() => {}
                    done => return done,
                }
            }
            self.replace(FileState::Unknown(RESTLESS.to_owned()), content, options)
        })
    }

    fn replace(&self, was: FileState, content: &[u8], options: &WriteOptions) -> Result<Written, WorkspaceError> {
        let change = self.noted(was, content);
        match self.call.workspace.write(self.file, content, options) {
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

    /// What is at the place now, with its content kept, and the version that was found.
    fn look(&self) -> (FileState, Option<Version>) {
        let vault = self.call.vault();
        match self.call.workspace.read(self.file, vault.file_bytes_max()) {
            Ok((content, info)) => (FileState::File(vault.keep(&content, info.mode)), Some(info.version)),
            Err(WorkspaceError::NotFound { .. }) => (FileState::Absent, None),
            Err(WorkspaceError::TooLarge { .. }) => match self.call.workspace.info(self.file) {
                Ok(info) => (FileState::File(vault.too_large(info.mode, info.bytes)), None),
                Err(_) => (FileState::Unknown("its old content was not kept".to_owned()), None),
            },
            Err(error) => (FileState::Unknown(format!("its old content could not be read: {error}")), None),
        }
    }

    /// Notes the change that is about to be made, and returns it.
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
            // The result reports the change too, so only a crash at this very moment would lose it.
            tracing::warn!(session = %self.call.context.session, %error, "a change could not be noted");
        }
    }

    /// Reports the change that was made, and remembers the new content.
    fn say(&self, change: FileChange, written: &Written, content: &[u8]) {
        let (call, path) = (self.call, self.call.real(self.file));
        call.remember(path.clone(), Glimpse::of_content(content));
        // The new content is kept as well: it is the old content of the next change.
        let image = call.shared.files.keep(&call.vault(), &call.context.session, path, content, &written.info);
        let before = match change.before {
            FileState::Absent if !written.created => {
                FileState::Unknown("someone else made it at that moment".to_owned())
            }
            before => before,
        };
        call.context.changes.add(FileChange { before, after: FileState::File(image), ..change });
    }

    /// The path of the file without links, as on the tape.
    fn path(&self) -> String {
        names::shown(&self.call.path_from(&self.call.real(self.file)))
    }
}

impl Call<'_> {
    /// Refuses a content with the mark of a secret that the file does not have: the model never saw the secret, and would write
    /// the mark in its place. Also without a hook that takes secrets out now: the session may have had one before.
    pub(super) fn refuse_marks(&self, file: &WorkspacePath, content: &[u8]) -> Result<(), ToolResult> {
        let new = String::from_utf8_lossy(content);
        if new_mark("", &new).is_none() {
            return Ok(());
        }
        let old = self.workspace.read(file, CONTENT_BYTES_MAX).map(|(content, _)| content).unwrap_or_default();
        let Some(mark) = new_mark(&String::from_utf8_lossy(&old), &new) else {
            return Ok(());
        };
        Err(ToolResult::error(format!(
            "{}: nothing was written: {mark} stands for a secret that you were not shown, and the file would have the mark in its \
             place. Leave that line to the user, or change the lines around it with edit.",
            self.shown(file)
        )))
    }

    /// Refuses a file whose content (of a file seen in part or too large: whose state) differs from what the session saw last. A
    /// file that the session has not seen passes.
    pub(super) fn refuse_stale(&self, file: &WorkspacePath, content: &[u8], info: &FileInfo) -> Result<(), ToolResult> {
        match self.recalled(file) {
            Some(Glimpse::Content(hash)) if hash != blake3::hash(content) => Err(self.stale(file)),
            Some(Glimpse::State(version)) if version != info.version => Err(self.stale(file)),
            _ => Ok(()),
        }
    }

    /// The state in which a file may be overwritten, for a call that has not read the file; it refuses like [`Call::refuse_stale`].
    /// `None` if the file may be in any state: the session has not seen it, or it cannot be read now.
    pub(super) fn overwritable(&self, file: &WorkspacePath) -> Result<Option<Version>, ToolResult> {
        let version = match self.recalled(file) {
            None => return Ok(None),
            Some(Glimpse::State(_)) => self.workspace.info(file).map(|info| (Vec::new(), info)),
            Some(Glimpse::Content(_)) => self.workspace.read(file, CONTENT_BYTES_MAX),
        };
        match version {
            Ok((content, info)) => self.refuse_stale(file, &content, &info).map(|()| Some(info.version)),
            // The file was smaller when the session saw it.
            Err(WorkspaceError::TooLarge { .. }) => Err(self.stale(file)),
            // A deleted file has no content to lose; the write itself reports any other error.
            Err(_) => Ok(None),
        }
    }

    /// The result for a file that was changed by someone else.
    pub(super) fn stale(&self, file: &WorkspacePath) -> ToolResult {
        ToolResult::error(format!(
            "{}: the file was changed by someone else since you last read or wrote it, so nothing was changed. Read it again \
             first.",
            self.shown(file)
        ))
    }

    fn recalled(&self, file: &WorkspacePath) -> Option<Glimpse> {
        self.shared.seen.recall(&self.context.session, self.real(file))
    }
}
