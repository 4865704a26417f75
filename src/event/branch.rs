//! The kinds of events about branches: a fork is merged, the conversation goes back to an earlier point, its files are put back,
//! or the abandoned part is summarized.
//!
//! In the JSON form they are events like those of [`EventKind`](crate::event::EventKind), with no level in between. All of them are
//! durable: they follow from an entry of the tape. A change must not rename, retype or drop a variant or a field, because programs
//! read them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    kernel::{RefusedFile, Way},
    words::ids::{MessageId, Seq, SessionId},
};

/// What happened to the branches of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum BranchEvent {
    /// The messages of a fork became part of the session's conversation.
    Merged {
        /// The fork.
        fork: SessionId,
        /// The entry of the fork's tape after which the merged part begins.
        from: Seq,
        /// The last entry of the fork's tape that is merged.
        to: Seq,
        /// The number of items that the conversation gained.
        items: usize,
        /// The ids of the hosts' messages among them, oldest first.
        messages: Vec<MessageId>,
    },
    /// The conversation went back to a point of the tape.
    RolledBack {
        /// The conversation is as it was when this entry was the newest.
        to: Seq,
        /// What the host asked for.
        way: Way,
        /// The hosts' messages that are no longer part of the conversation, oldest first.
        gone: Vec<MessageId>,
        /// The hosts' messages that are part of the conversation again, oldest first.
        again: Vec<MessageId>,
    },
    /// Files were put back to what they were.
    FilesRestored {
        /// Changes after this entry were taken back.
        since: Seq,
        /// The files that were put back or deleted.
        files: Vec<String>,
        /// The files that were left as they are, and why.
        refused: Vec<RefusedFile>,
    },
    /// The summary of an abandoned branch is in the context.
    BranchSummary {
        /// The entry after which the branch began.
        from: Seq,
        /// The last entry of the branch.
        to: Seq,
        /// The summary.
        summary: Arc<str>,
    },
}
