//! A file that a call holds while it changes it.
//!
//! Nobody else who shares the toolbox writes the file meanwhile, whatever they call it, and what the session has not seen is
//! not overwritten: see [`Seen`](super::seen::Seen).

use crate::{
    tool::{
        ToolResult,
        workspace::{FileInfo, Version, WorkspaceError, WorkspacePath, WriteOptions, Written},
    },
    tools::{
        call::{Call, aborted, failure},
        locks::{FileKey, FileLock},
        seen::{CONTENT_BYTES_MAX, Glimpse},
    },
};

/// A file, or a place where none is yet, that one call may write.
pub(super) struct Held<'c> {
    call: &'c Call<'c>,
    place: &'c WorkspacePath,
    _lock: FileLock,
}

impl<'c> Held<'c> {
    /// Waits until nobody else holds the file that a path leads to, or the path itself where nothing is there yet.
    pub(super) fn take(call: &'c Call<'c>, place: &'c WorkspacePath) -> Result<Held<'c>, ToolResult> {
        loop {
            let key = key(call, place)?;
            let lock = call.locks.lock(key.clone(), call.context).ok_or_else(aborted)?;
            // Whoever held it before may have put another file in its place.
            if self::key(call, place)? == key {
                return Ok(Held { call, place, _lock: lock });
            }
        }
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
    pub(super) fn write(
        &self,
        content: &[u8],
        options: &WriteOptions,
    ) -> Result<Result<Written, WorkspaceError>, ToolResult> {
        self.call.change(|| {
            let written = self.call.workspace.write(self.place, content, options)?;
            self.call.remember(self.place, Glimpse::of_content(content));
            Ok(written)
        })
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
        let spot = self.call.workspace.spot(self.place).ok()?;
        self.call.seen.recall(&self.call.context.session, &spot)
    }
}

fn key(call: &Call, place: &WorkspacePath) -> Result<FileKey, ToolResult> {
    match call.workspace.info(place) {
        Ok(info) => {
            let (device, inode) = info.version.identity();
            Ok(FileKey::Existing(device, inode))
        }
        Err(WorkspaceError::NotFound { .. }) => Ok(FileKey::New(call.workspace.absolute(place))),
        Err(error) => Err(failure(error)),
    }
}
