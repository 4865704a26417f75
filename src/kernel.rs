//! The core: all that a session *decides*, as functions of values. The shell (`actor/session.rs`) carries the decisions out.
//!
//! ```text
//! decide(&State, &[Input], &Env, now) -> Decision { entries, stops, replies, after }    after: the state with the entries applied
//! State::apply(&entry)               -> all that changes the state of a session that has begun, live and in recovery
//! ```
//!
//! | here and in the folder | what it decides |
//! |---|---|
//! | `kernel/*.rs` | the values and verbs that all use: inputs, entries, the state, the open table, one decision |
//! | `turn/` | messages, requests and calls of a turn; how it ends, and what a crash leaves of it |
//! | `context/` | how large the conversation is, when it is made smaller, and what replaces the older part |
//! | `budget/` | what may be used, what was used, and what that cost |
//! | `children/` | what a parent and a child tell each other |
//! | `history/` | rollback, branches, merges, anchors; what lists and pages show |
//!
//! Nothing here awaits, reads a clock, touches a disk, draws a random number or calls a tool. A change must keep that, because
//! replay and the simulator (`kernel/tests/sim/`) decide again from values alone. Stored formats ([`State`], [`Record`],
//! [`Settings`] and the types in them) must stay readable.

mod apply;
pub(crate) mod bounds;
mod budget;
mod children;
pub(crate) mod context;
mod decide;
mod delivery;
mod draft;
mod env;
mod history;
mod input;
mod mailbox;
mod open;
mod open_table;
mod prepared;
mod record;
mod recorded;
mod refusal;
mod reply;
mod report;
mod settings;
mod state;
mod table;
#[cfg(test)]
mod tests;
mod turn;

pub use bounds::TITLE_BYTES_MAX;
pub(crate) use budget::bill::charged;
pub use budget::bill::{Bill, BillKind, BillLine};
pub use budget::breach::{Breach, Budget, Extent, OnBreach, OpenBudgetAsk};
pub use budget::limits::{Limits, Resource, ShownLimits};
pub(crate) use budget::spent::{Account, Reserve};
pub use budget::spent::{Charge, ShownSpent, ShownTasks, Spent};
pub(crate) use children::link::StopLevel;
pub use children::link::{
    AskFrom, Down, DownReason, Link, NextTask, OpenTask, OpenTaskAsk, Origin, TaskAsk, TaskEnd, TaskOrder, Terms, Tie,
};
pub(crate) use children::tasks::never_made;
pub(crate) use context::compact::{Asked, prompt as compaction_prompt, reads_max};
pub use context::compaction::{Compacted, CompactionReason, ContextState, Learned, OpenCompaction, Pin, Undone};
pub use context::prefix::{CacheMiss, CacheMissed};
pub(crate) use context::prefix::{Prefix, Sent};
pub(crate) use decide::{Decision, decide, decide_and_watch};
pub use delivery::{AskAnswer, Delivery, Grant, Granted, Scope, Steering};
pub(crate) use env::{Env, EnvSeen, ModelSeen, Recorded, ToolsSeen, Windows, jitter_of, tools_tokens};
pub use history::branch::Branch;
pub use history::changes::{
    AnchorMark, BranchRequest, BranchSummary, ForkMade, Merged, OpenBranch, RefusedFile, RestoredFiles, RolledBack, Way,
};
pub(crate) use history::changes::{MergedLast, WentBack};
pub(crate) use history::digest::Digest;
pub use history::digest::Parent;
pub(crate) use history::first::first_entries;
pub(crate) use history::merge::plan_merge;
pub use history::trail::{NoPoint, Point, RollbackTarget, Trail};
pub(crate) use history::trail::{find_point, is_whole, look_back};
pub use history::transcript::Transcript;
pub(crate) use input::*;
pub(crate) use mailbox::{Act, CommandEnd, Left, Mailbox, NotTaken, kept};
pub(crate) use open::CallAnswer;
pub use open::{CallState, Open, OpenAsk, OpenCall, OpenRequest, OpenWait};
pub use open_table::OpenTable;
pub(crate) use prepared::{CallGate, PreparedFor, Shown, TurnAdded};
pub use prepared::{Gated, Prepared};
pub use record::{BadRecord, CallOpened, Entry, Record, RequestOpened};
pub(crate) use recorded::read_back;
pub use refusal::Refusal;
pub use reply::Disposition;
pub(crate) use reply::{CarriedOut, Receipt, Reply, ReplyTo, Stop};
pub(crate) use report::{NoSummary, Report};
pub use settings::{CompactionSettings, Layer, Mode, PromptSection, RestartPolicy, Settings, Switched};
pub use state::{Ahead, State, Turn, TurnEnd, Waiting};
pub(crate) use turn::advance::{LAST_STEP_REMINDER, LAST_STEP_SHAPED};
pub use turn::agent::{AgentChoice, AgentParts};
pub(crate) use turn::due::Due;
pub use turn::fallback::{Fallback, FellBack};
pub(crate) use turn::fallback::{Fallen, fault as fallback_fault};
pub(crate) use turn::inbox::{INBOX_QUEUED_MAX, INBOX_STEERING_MAX, says_nothing};
pub use turn::judged::CallVerdict;
pub use turn::outcome::{AskClosedWhy, Outcome};
pub(crate) use turn::question::digest as ask_digest;
pub use turn::repeats::Repeats;
pub(crate) use turn::seen::{Seen, SeenMessages};
pub(crate) use turn::toolset;
