//! The changes of a conversation as data: rollbacks, branch summaries, merges, restored files and anchors, as tapes and states hold
//! them.
//!
//! All types here are stored formats: do not rename or retype a field or a variant, and give each new field a serde default.
//! Nothing here decides; the file of each command does (`back.rs`, `branch.rs`, `merge.rs`, `restored.rs`, `handoff.rs`).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    kernel::{ContextState, Reserve, Spent, context::FileOperations},
    model::{History, Item, Price},
    tool::FileChange,
    words::{
        ids::{MessageId, Millis, Seq, SessionId},
        is_default,
        message::ModelRef,
        usage::Usage,
    },
};

/// What a host asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Way {
    /// Back to a point.
    Rollback,
    /// Back to before the newest message.
    Undo,
    /// Back to where the newest undo came from.
    Redo,
}

/// The conversation goes back to a point of the tape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RolledBack {
    /// The newest entry before this one: the rollback was worked out for the conversation as it was there.
    pub from: Seq,
    /// The conversation is what it was when this entry was the newest.
    pub to: Seq,
    /// What the host asked for.
    pub way: Way,
    /// Messages of the host that are no part of the conversation any more, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<MessageId>,
    /// Messages of the host that are part of it again, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub again: Vec<MessageId>,
    /// The number of history items that stay, from the front.
    pub(crate) keep: usize,
    /// The items that follow them.
    #[serde(default, skip_serializing_if = "History::is_empty")]
    pub(crate) items: History,
    /// Hash of the history as it was at `to`.
    pub(crate) hash: String,
    /// The context as it was at `to`.
    pub(crate) context: Arc<ContextState>,
}

/// The newest entry that went back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WentBack {
    /// The entry.
    pub(crate) entry: Seq,
    /// The point that the conversation went back to.
    pub(crate) to: Seq,
}

impl RolledBack {
    /// Whether an open compaction that cuts at `first_kept` is given up: items that it sums up are gone, or none would stay behind
    /// the cut.
    pub(in crate::kernel) fn gives_up(&self, first_kept: usize) -> bool {
        first_kept > self.keep || first_kept >= self.keep.saturating_add(self.items.len())
    }
}

/// The summary of a branch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BranchSummary {
    /// The entry after which the branch began.
    pub from: Seq,
    /// The last entry of the branch.
    pub to: Seq,
    /// The text of the summary.
    pub summary: Arc<str>,
    /// The tokens that writing it took: the provider's figures.
    pub usage: Usage,
    /// The files that were touched on the branch.
    pub files: FileOperations,
    /// The request that wrote the summary, or was to. `None` where the budget allowed none; then nothing is charged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<BranchRequest>,
}

/// A request for the summary of a branch that is about to be made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OpenBranch {
    /// The model that writes the summary.
    pub model: ModelRef,
    /// The price of the model's tokens; `None` where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// The tokens that the request reads and may write, as far as can be told before.
    pub(crate) wanted: Reserve,
    /// The tokens that are reserved for the request.
    pub(crate) reserved: Reserve,
}

/// The request that wrote the summary of a branch, or was to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BranchRequest {
    /// The ticket that was opened for the request.
    pub(crate) ticket: Seq,
    /// The model that wrote the summary.
    pub model: ModelRef,
    /// The price of the model's tokens; `None` where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// The tokens that were reserved for the request.
    pub(crate) reserved: Reserve,
    /// Our estimate of the tokens used, where the provider gave no figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated: Option<Usage>,
    /// The number of further tries that the provider read and that came to nothing.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) lost: u32,
}

/// The entry that merges a fork.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Merged {
    /// The id of the fork.
    pub fork: SessionId,
    /// Which of the forks that had this id.
    pub made: ForkMade,
    /// The newest entry of this tape before this one: the merge was planned for the conversation as it was there.
    pub onto: Seq,
    /// The entry of the fork's tape after which the merged part begins: the fork's first own entry, or the last one merged before.
    pub from: Seq,
    /// The newest entry of the fork's tape that is merged.
    pub to: Seq,
    /// The merged items. Results in them name this entry as their own.
    #[serde(default, skip_serializing_if = "History::is_empty")]
    pub items: History,
    /// What the fork has used, with its ended tasks, since it was made or last counted here.
    pub spent: Spent,
    /// The files that were changed in the fork, in the order of the changes. Their former contents are kept beside the fork's tape.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileChange>,
    /// The calls that ran in the fork without saying which files they changed, one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unlisted: Vec<String>,
    /// The folder of the fork's large outputs, because the merged items name files in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spill: Option<String>,
}

/// Tells apart the forks that had the same id: after one was deleted, another may be made under its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ForkMade {
    /// The first entry of the fork's own tape.
    pub entry: Seq,
    /// The time of that entry.
    pub time: Millis,
}

/// The newest entry that merged a fork.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MergedLast {
    /// The entry.
    pub(crate) entry: Seq,
    /// The id of the fork.
    pub(crate) fork: SessionId,
    /// Which of the forks that had this id.
    pub(crate) made: ForkMade,
    /// The newest entry of the fork's tape that is merged.
    pub(crate) to: Seq,
}

impl Merged {
    /// The hosts' messages among the merged items, oldest first.
    #[must_use]
    pub fn messages(&self) -> Vec<MessageId> {
        let said = self.items.iter().filter_map(|item| match &**item {
            Item::User(user) if !user.id.is_reserved() => Some(user.id.clone()),
            _ => None,
        });
        said.collect()
    }

    /// Whether there is nothing to merge: nothing was said, and nothing was used.
    #[must_use]
    pub(crate) fn is_nothing(&self) -> bool {
        self.items.is_empty() && self.files.is_empty() && self.unlisted.is_empty() && self.spent == Spent::default()
    }
}

/// What a restore did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RestoredFiles {
    /// Changes after this entry were taken back.
    pub since: Seq,
    /// The name of the restore in the notes beside the tape.
    pub key: String,
    /// The files that the restore changed, in the order of the changes.
    pub files: Vec<FileChange>,
    /// The files that the restore left as they are, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedFile>,
}

/// A file that was left as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RefusedFile {
    /// The path of the file, as it stands on the tape.
    pub path: String,
    /// Why.
    pub why: String,
}

/// The anchor that a session goes on from, linked to the one before it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AnchorMark {
    /// The number of the tape's file that the anchor begins, from 1.
    pub number: u64,
    /// The name of the anchor.
    pub name: String,
    /// The number of the file before it.
    pub(crate) before: u64,
    /// The name of the anchor before it.
    pub(crate) before_name: String,
    /// The last entry of the file before it.
    pub(crate) before_last: Seq,
}
