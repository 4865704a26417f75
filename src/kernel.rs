//! The core: all that a session *decides*, as functions of values. The shell (`actor/session.rs`) carries the decisions out.
//!
//! ```text
//! decide(&State, &[Input], &Env, now) -> Decision { entries, stops, replies, after }    after: the state with the entries applied
//! State::apply(&entry)               -> all that changes the state of a session that has begun, live and in recovery
//! ```
//!
//! Nothing here awaits, reads a clock, touches a disk, draws a random number or calls a tool. A change must keep that, because
//! replay and the simulator (`kernel/tests/sim/`) decide again from values alone. Stored formats ([`State`], [`Record`],
//! [`Settings`] and the types in them) must stay readable.
//!
//! An [`Input`] comes in: a command, a worker's report, time that passed, or a recovery. Entries for the tape, the workers to
//! stop, and replies come out. The shell stops workers at once, and gives the replies once the entries are written. Then it
//! begins the work that the state says is due.
//!
//! **The open table.** A turn has no phase. [`State::open`] lists the open work as *tickets*: model requests, calls, asks, budget
//! asks, waits, summaries, branch summaries and tasks. The seq of the entry that opened a ticket names it. A report is taken only
//! if its ticket is open. Tasks, summaries and branch summaries belong to the session and outlive the turn; a turn ends only when
//! no request and no call of it is open. Recovery is one rule for each kind of ticket (`recover.rs`).
//!
//! | file | what it decides |
//! |---|---|
//! | `input.rs`, `report.rs`, `delivery.rs`, `reply.rs`, `refusal.rs`, `outcome.rs` | what goes in, what comes out, and how things end |
//! | `mailbox.rs` | which inputs wait, and which are decided next |
//! | `decide.rs` | what follows from an input: entries, stops, replies |
//! | `state.rs`, `open.rs` | the fold of a tape; what is open in it, by ticket |
//! | `settings.rs`, `sections.rs`, `first.rs` | the settings of a session; the sections of its system prompt; the first entries of a tape |
//! | `due.rs` | which open tickets need a worker |
//! | `inbox.rs`, `edit.rs` | which messages are accepted, refused or delivered; how a waiting message is edited or withdrawn |
//! | `advance.rs` | what happens next, the agent's loop: the steps of a turn, the turns of a session |
//! | `batch.rs`, `judged.rs` | the calls of one answer: their order, permission, skipping; the verdict on a call |
//! | `repeats.rs` | which calls repeat those before them, and what follows from that |
//! | `grants.rs`, `question.rs` | what people allowed for more than one call; the questions that a running call asks |
//! | `toolset.rs`, `switch.rs` | which tools a turn has; how another agent takes over in a session |
//! | `tasks.rs`, `child.rs`, `link.rs` | what a parent and a child tell each other |
//! | `task_ask.rs` | the questions of children, on the tape of their parent |
//! | `end.rs` | what follows from the end of a session for its turn, messages and children |
//! | `retry.rs` | whether and when a failed request is made again |
//! | `compact.rs`, `bytes.rs`, `context.rs` | when the conversation is made smaller, and what replaces the older part; how large it is |
//! | `spent.rs`, `bill.rs` | what was used, and what that cost |
//! | `digest.rs`, `transcript.rs` | what a list shows of a session; what a page shows of its conversation |
//! | `limits.rs`, `budget.rs` | the values of a budget: limits, and what happens at a breach |
//! | `account.rs`, `spending.rs` | what is used, reserved and left of a budget; what the budget allows |
//! | `pin.rs` | words that stay in the context whatever is summed up |
//! | `env.rs` | what a decision may read beside the state, and what of it was read |
//! | `record.rs`, `recorded.rs` | the entries of a tape, and which input they followed from |
//! | `undo.rs`, `branch.rs` | how a compaction is undone; how the summary of an abandoned branch joins the conversation |
//! | `back.rs`, `trail.rs` | how the conversation goes back to a point, and which points there are |
//! | `merge.rs`, `said.rs` | how the messages of a fork become part of the conversation that it was made from |
//! | `restored.rs` | the record that files were put back |
//! | `handoff.rs` | how an anchor is begun |
//! | `recover.rs` | what becomes of each open ticket after a crash |
//! | `apply.rs` | what each entry does to the state |

mod account;
mod advance;
mod apply;
mod back;
mod batch;
mod bill;
pub(crate) mod bounds;
mod branch;
mod budget;
mod bytes;
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
mod grants;
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
mod question;
mod record;
mod recorded;
mod recover;
mod refusal;
mod repeats;
mod reply;
mod report;
mod restored;
mod retry;
mod said;
mod sections;
mod settings;
mod spending;
mod spent;
mod state;
mod switch;
mod task_ask;
mod tasks;
#[cfg(test)]
mod tests;
pub(crate) mod toolset;
mod trail;
mod transcript;
mod undo;

pub(crate) use account::Account;
pub(crate) use advance::LAST_STEP_REMINDER;
pub(crate) use back::WentBack;
pub use back::{RolledBack, Way};
pub use bill::{Bill, BillKind, BillLine};
pub use bounds::TITLE_BYTES_MAX;
pub use branch::{Branch, BranchRequest, BranchSummary, OpenBranch};
pub use budget::{Breach, Budget, Extent, OnBreach, OpenBudgetAsk};
pub(crate) use compact::{Asked, prompt as compaction_prompt, reads_max};
pub use compact::{Compacted, CompactionReason, ContextState, OpenCompaction};
pub(crate) use decide::{Decision, decide, decide_and_watch};
pub use delivery::{Delivery, Grant, Scope, Steering};
pub(crate) use digest::Digest;
pub use digest::Parent;
pub(crate) use due::Due;
pub(crate) use env::{Env, EnvSeen, ModelSeen, ToolsSeen, Windows, jitter_of, tools_tokens};
pub(crate) use first::first_entries;
pub use grants::Granted;
pub use handoff::AnchorMark;
pub(crate) use inbox::{INBOX_QUEUED_MAX, INBOX_STEERING_MAX, Seen, SeenMessages, says_nothing};
pub(crate) use input::*;
pub use judged::CallVerdict;
pub use limits::{Limits, Resource, ShownLimits};
pub(crate) use link::StopLevel;
pub use link::{Down, DownReason, Link, NextTask, OpenTask, Origin, TaskEnd, TaskOrder, Terms, Tie};
pub(crate) use mailbox::kept;
pub(crate) use mailbox::{Act, CommandEnd, Left, Mailbox, NotTaken};
pub(crate) use merge::MergedLast;
pub(crate) use merge::plan_merge;
pub use merge::{ForkMade, Merged};
pub use open::{CallState, Open, OpenAsk, OpenCall, OpenRequest, OpenWait};
pub use outcome::{AskClosedWhy, Outcome};
pub use pin::Pin;
pub(crate) use question::CallAnswer;
pub(crate) use question::digest as ask_digest;
pub use record::{BadRecord, CallOpened, Entry, Record, RequestOpened};
pub(crate) use recorded::{Recorded, read_back};
pub use refusal::Refusal;
pub use repeats::Repeats;
pub use reply::Disposition;
pub(crate) use reply::{CarriedOut, Receipt, Reply, Stop};
pub(crate) use report::{NoSummary, Report};
pub use restored::{RefusedFile, RestoredFiles};
pub use retry::Learned;
pub use sections::{Layer, PromptSection};
pub use settings::{CompactionSettings, Mode, RestartPolicy, Settings};
pub(crate) use spent::Reserve;
pub use spent::{Charge, ShownSpent, ShownTasks, Spent};
pub use state::{State, Turn, TurnEnd, Waiting};
pub use switch::{AgentChoice, AgentParts, Switched};
pub use task_ask::{AskAnswer, AskFrom, OpenTaskAsk, TaskAsk};
pub(crate) use tasks::never_made;
pub(crate) use trail::is_whole;
pub use trail::{NoPoint, Point, RollbackTarget, Trail};
pub(crate) use trail::{find_point, look_back};
pub use transcript::Transcript;
pub use undo::Undone;
