//! Compactions and pins as data: what a session knows of its context, and what its tape says of a compaction.
//!
//! All types here are stored formats: do not rename or retype a field or a variant, and give each new field a serde default.
//! Nothing here decides; `compact.rs`, `pin.rs` and `undo.rs` do.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    kernel::{
        Reserve, Sent,
        context::{Carried, Fullness, Meter, Replaced},
    },
    model::{History, Price},
    tool::Todo,
    words::{
        ids::{MessageId, Seq},
        is_default,
        message::ModelRef,
        usage::Usage,
    },
};

/// What a session knows of its context beside the history. Part of the stored form of a state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ContextState {
    /// Our estimate of the history's tokens.
    pub(crate) estimated: u64,
    /// Our estimate of the history's bytes in a request.
    pub bytes: u64,
    /// The provider's last figure for the context, and the factor learned from it.
    pub(crate) meter: Meter,
    /// The newest summary, as the model wrote it.
    pub summary: Option<Arc<str>>,
    /// The number of items at the front of the history that stand for the part that was cut off: 0 or 1.
    pub(crate) front: usize,
    /// The data that is carried on, beside the summary, from the part that was cut off.
    pub(crate) carried: Arc<Carried>,
    /// The pinned messages, in the order in which they were pinned: their words stay whatever is cut off.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<Pin>,
    /// Models whose provider refused a request as too large, and the size that their windows count as since, in tokens.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub learned: Vec<(ModelRef, u64)>,
    /// Models whose provider refused a request because of its bytes, and how many a request may have since, by our estimate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub learned_bytes: Vec<(ModelRef, u64)>,
    /// How full the context was at the newest request; zero after the history was replaced.
    pub fullness: Fullness,
    /// The number of compactions that failed in a row.
    pub failures: u32,
    /// The number of compactions that took place.
    pub compactions: u64,
    /// A finished compaction that is put in place as soon as no request is open.
    pub(crate) ready: Option<Arc<Compacted>>,
    /// The ticket of that compaction; 0 for none.
    pub(crate) ready_ticket: Seq,
    /// The entry that recorded that compaction; 0 for none.
    pub(crate) ready_entry: Seq,
    /// The entry that recorded the newest compaction in place, or the newest handoff with a summary; 0 for none.
    pub(crate) newest: Seq,
    /// The newest request that was answered, as far as a provider's cache goes by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sent: Option<Arc<Sent>>,
    /// The to-do list of the session. It stays over a compaction, and goes back with the conversation.
    #[serde(skip_serializing_if = "is_default")]
    pub todos: Arc<[Todo]>,
    /// The deferred tools that were found, in that order. They stay over a compaction, and go back with the conversation.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) found: Arc<[String]>,
}

/// Why a compaction was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CompactionReason {
    /// The context was too full.
    Threshold,
    /// The provider refused a request as too large.
    Overflow,
    /// A host asked for it.
    Asked,
}

/// A compaction that was opened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OpenCompaction {
    /// Why it was opened.
    pub reason: CompactionReason,
    /// The model that writes the summary.
    pub model: ModelRef,
    /// The position of the first history item that stays; the items before it are replaced.
    pub(crate) first_kept: usize,
    /// The position at which the turn begins that the cut goes through; `None` for a cut between turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) split_turn: Option<usize>,
    /// The tokens that the next request would have taken.
    pub used: u64,
    /// The tokens that a request may take.
    pub usable: u64,
    /// The most tokens that the summariser may be shown, by our estimate.
    pub(crate) room: u64,
    /// The price of the tokens of the request for the summary; `None` where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// The tokens that are reserved for that request.
    pub(crate) reserved: Reserve,
}

/// A finished compaction: what takes the place of the items before the cut.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Compacted {
    /// What the model wrote; `None` where the oldest part was cut off without a summary.
    pub summary: Option<Arc<str>>,
    /// The tokens that writing it took: the provider's figures.
    pub usage: Usage,
    /// Our estimate of those tokens, where the provider gave no figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated: Option<Usage>,
    /// The number of further tries that the provider read and that came to nothing, or that nobody waited for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) lost: u32,
    /// The position of the first history item that stays; the items before it are replaced.
    pub(crate) first_kept: usize,
    /// The calls among the replaced items.
    pub(crate) replaced: Vec<Replaced>,
    /// The most tokens of the host's own words that are carried on.
    pub(crate) carry: u64,
}

/// A pinned message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Pin {
    /// The message.
    pub message: MessageId,
    /// The words of the message, whole.
    pub text: Arc<str>,
}

/// The entry that undoes a compaction: what stood in the context before it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Undone {
    /// The entry that recorded the compaction.
    pub compaction: Seq,
    /// The items that the compaction replaced.
    pub(crate) history: History,
    /// The number of items at the front that stood for the part that an earlier compaction cut off: 0 or 1.
    pub(crate) front: usize,
    /// The summary before the compaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Arc<str>>,
    /// The data that was carried on before the compaction.
    pub(crate) carried: Arc<Carried>,
    /// The entry that recorded the compaction before this one; 0 for none.
    pub(crate) newest: Seq,
}

/// What the refusal of a request taught about its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Learned {
    /// The request was too large: the size that the model's window counts as from then on, in tokens.
    Window(u64),
    /// The request had too many bytes: how many it may have from then on, by our estimate.
    Bytes(u64),
    /// A file was refused: the request is made once more without the files of the conversation so far.
    Files,
}
