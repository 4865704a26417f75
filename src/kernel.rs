//! The core: all that a session *decides*, as functions of values.
//!
//! ```text
//! decide(&State, &[Input], &Env, now) -> Decision { entries, stops, replies, after }
//! State::apply(&entry)               -> the only mutator, live and in recovery
//! ```
//!
//! Nothing here awaits, reads a clock, touches a disk, draws a random number or calls a tool: a change must keep that, because
//! replay and the simulator decide again from values alone. Stored formats (`State`, `Record`, `Settings` and the types in them)
//! must stay readable.
//!
//! What comes in is an [`Input`]: a command, a worker's report, a limit that ran out. What goes out is entries for the tape, the
//! workers to stop, and replies. The shell (`actor/session.rs`) stops workers at once, and gives the replies once the entries are
//! written. Then it begins the work that the state says is due.
//!
//! **The open table.** There are no phases. [`State::open`] lists what is open: a model request, a call, an ask, a wait, a task.
//! Each is a *ticket*, named by the seq of the entry that opened it. A report is taken only if its ticket is open. A turn ends when
//! none of its tickets is open; a task belongs to the session, and outlives the turn it was begun in. Recovery is one rule per kind
//! of ticket (`recover.rs`).
//!
//! | file | what it decides |
//! |---|---|
//! | `input.rs`, `report.rs`, `delivery.rs`, `reply.rs`, `refusal.rs`, `outcome.rs` | what goes in, what comes out, and how things end |
//! | `mailbox.rs` | which inputs wait, and which are decided next |
//! | `decide.rs` | what an input means |
//! | `state.rs`, `open.rs` | the fold of a tape; what is open in it, by ticket |
//! | `settings.rs`, `first.rs` | the settings of a session; the first entries of a tape |
//! | `due.rs` | which work is to begin, as it follows from what is open |
//! | `inbox.rs`, `edit.rs` | which messages are accepted, refused and delivered; edited, and taken back |
//! | `advance.rs` | what happens next: the double loop |
//! | `batch.rs`, `judged.rs` | the calls of one answer: order, barriers, permission, skipping; the verdict on a call |
//! | `toolset.rs` | which tools a turn has |
//! | `tasks.rs`, `child.rs`, `link.rs` | what a parent and a child tell each other |
//! | `end.rs` | what the end of a session takes with it |
//! | `retry.rs` | whether and when a failed request is made again |
//! | `compact.rs`, `context.rs` | when the conversation is made smaller, and what takes its place; how large it is |
//! | `spent.rs`, `bill.rs` | what was used, and what that cost |
//! | `digest.rs`, `transcript.rs` | what a list shows of a session; what a page shows of its conversation |
//! | `limits.rs`, `budget.rs` | the most of each resource, and what happens when that is not enough |
//! | `account.rs`, `spending.rs` | what is used, held back and left of it; what follows |
//! | `pin.rs` | words that stay in the context whatever is summed up |
//! | `env.rs` | what a decision may read beside the state, and what of it was read |
//! | `record.rs`, `recorded.rs` | the entries of a tape, and which input they followed from |
//! | `undo.rs`, `branch.rs` | how a compaction is undone; how the summary of a branch goes along |
//! | `back.rs`, `trail.rs` | how the conversation goes back to a point, and which points there are |
//! | `merge.rs`, `said.rs` | how the messages of a fork become part of the conversation that it was made from |
//! | `restored.rs` | the record of a restore of files |
//! | `handoff.rs` | how an anchor begins |
//! | `recover.rs` | what becomes of each open ticket after a crash |
//! | `apply.rs` | what each entry does to the state |

mod account;
mod advance;
mod apply;
mod back;
mod batch;
mod bill;
mod branch;
mod budget;
mod child;
mod compact;
pub(crate) mod context;
mod decide;
mod delivery;
mod digest;
mod due;
mod edit;
mod end;
mod env;
mod first;
mod handoff;
mod inbox;
mod input;
mod judged;
mod limits;
mod link;
mod mailbox;
mod merge;
mod open;
mod outcome;
mod pin;
mod record;
mod recorded;
mod recover;
mod refusal;
mod reply;
mod report;
mod restored;
mod retry;
mod said;
mod settings;
mod spending;
mod spent;
mod state;
mod tasks;
#[cfg(test)]
mod tests;
pub(crate) mod toolset;
mod trail;
mod transcript;
mod undo;

pub use account::Account;
pub(crate) use advance::LAST_STEP_REMINDER;
pub use back::{RolledBack, Way, WentBack};
pub use bill::{Bill, BillKind, BillLine};
pub use branch::{Branch, BranchRequest, BranchSummary, OpenBranch};
pub use budget::{Breach, Budget, Extent, OnBreach, OpenBudgetAsk};
pub(crate) use compact::{Asked, prompt as compaction_prompt, reads_max};
pub use compact::{Compacted, CompactionReason, ContextState, OpenCompaction};
pub(crate) use decide::{Decision, decide, decide_and_watch};
pub use delivery::{Delivery, Grant, Scope, Steering};
pub(crate) use digest::Digest;
pub use digest::Parent;
pub(crate) use due::Due;
pub(crate) use env::{Env, Windows, jitter_of, tools_tokens};
pub use env::{EnvSeen, ModelSeen, ToolsSeen};
pub(crate) use first::first_entries;
pub use handoff::AnchorMark;
pub(crate) use inbox::{INBOX_QUEUED_MAX, INBOX_STEERING_MAX, Seen, SeenMessages};
pub(crate) use input::*;
pub use judged::CallVerdict;
pub use limits::{Limits, Resource};
pub(crate) use link::StopLevel;
pub use link::{Down, DownReason, Link, OpenTask, Origin, TaskEnd, TaskOrder, Tie};
pub(crate) use mailbox::kept;
pub(crate) use mailbox::{Act, CommandEnd, Left, Mailbox, NotTaken};
pub(crate) use merge::plan_merge;
pub use merge::{ForkMade, Merged, MergedLast};
pub use open::{CallState, Open, OpenAsk, OpenCall, OpenRequest, OpenWait};
pub use outcome::{AskClosedWhy, Outcome};
pub use pin::Pin;
pub use record::{BadRecord, CallOpened, Entry, Record, RequestOpened};
pub use recorded::Recorded;
pub(crate) use recorded::read_back;
pub use refusal::Refusal;
pub use reply::Disposition;
pub(crate) use reply::{Held, Receipt, Reply, Stop};
pub(crate) use report::{NoSummary, Report};
pub use restored::{RefusedFile, RestoredFiles};
pub use settings::{CompactionSettings, Mode, RestartPolicy, Settings};
pub use spent::{Charge, Reserve, Spent};
pub use state::{Granted, State, Turn, TurnEnd, Waiting};
pub(crate) use tasks::never_made;
pub(crate) use trail::is_whole;
pub use trail::{NoPoint, Point, RollbackTarget, Trail};
pub(crate) use trail::{find_point, look_back};
pub use transcript::Transcript;
pub use undo::Undone;
