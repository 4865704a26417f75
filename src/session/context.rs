//! Commands on the context of a conversation: compact it, undo a compaction, pin messages, and keep a summary of an abandoned
//! branch.
//!
//! The session decides about each command, and records what the command changes. Before a model is asked to summarize a branch
//! (the abandoned part of a conversation), one entry opens a ticket for the summary and reserves its budget. Tapes are read here,
//! on a thread and never by the session's actor, and an entry that cannot be understood is an error.
//!
//! A change must keep this: every ticket that was opened is closed, even if the caller is dropped. Recording the summary closes
//! the ticket, and so does dropping [`Leaving`]. The session's own task tracker must not hold the task that opens the ticket:
//! the next incarnation would wait for that task, and the task for the next incarnation.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

use crate::{
    actor::{compaction, shared::Shared},
    error::{OpenError, SendError},
    hook::Operation,
    kernel::context::{BRANCH_SUMMARY_MAX, FileOperations, SUMMARY_SYSTEM, branch_digest, branch_prompt, of_text},
    kernel::{
        Asked, Branch, BranchRequest, BranchSummary, Compact, GiveUpBranch, LeaveBranch, ModelSeen, Open, OpenBranch,
        Pin, PinMessage, Refusal, Reserve, State, SumUpBranch, UndoCompaction, Undone, UnpinMessage, Windows as _,
        reads_max,
    },
    model::{Price, governor::Rank},
    ops::taped,
    session::Session,
    tape::TapeStoreExt as _,
    words::ids::{MessageId, Seq},
    words::labels::Labels,
    words::usage::Usage,
};

/// Tokens of a branch-summary request besides the summarized conversation.
const TASK_TOKENS: u64 = 500;

impl Session {
    /// Summarizes the older part of the conversation now, in the background. Returns when the tape has the request; events tell
    /// how the compaction ends.
    ///
    /// # Errors
    /// [`SendError::Refused`] if a summary is being written already, if nothing can be replaced by a summary, or if the budget does
    /// not allow one.
    pub async fn compact(&self) -> Result<(), SendError> {
        self.allowed(Operation::Compaction).await?;
        self.ask(Compact).await.map(drop)
    }

    /// Undoes the newest compaction: one entry puts back the messages that it replaced, and after them what was said since. Called
    /// again, it undoes the compaction before.
    ///
    /// # Errors
    /// [`SendError::Refused`]: with [`Refusal::Busy`] while a turn runs, with [`Refusal::NothingToUndo`], with
    /// [`Refusal::Compacting`] while a summary is being written, and with [`Refusal::WouldNotFit`] if the restored messages would
    /// not fit the model's window. [`SendError::Storage`] if the tape cannot be read, or does not have the newest decision within
    /// half a minute; [`SendError::Unavailable`] if an entry of it cannot be understood.
    pub async fn undo_compaction(&self) -> Result<(), SendError> {
        let now = self.state().await?;
        let newest = now.context.newest;
        if newest == Seq::ZERO {
            return Err(Refusal::NothingToUndo.into());
        }
        let id = self.slot.id.clone();
        let read = move |shared: &Shared| shared.store.read_to(&id, newest).map_err(SendError::Storage);
        let lines = self.shared.blocking(read).await?.entries;
        let undone = Undone::of(&taped::entries(&self.slot.id, &lines)?).ok_or(Refusal::NothingToUndo)?;
        self.ask(UndoCompaction { undone: undone.into() }).await.map(drop)
    }

    /// Pins a message of the context: its words stay there, whole, through later summaries and cuts. Of its files only the names
    /// stay. A message can also be sent pinned ([`Message::pinned`](crate::Message::pinned)). Pinning a message twice is the same
    /// as once. All pins together may take 2,000 tokens, or an eighth of a small window.
    ///
    /// # Errors
    /// [`SendError::Refused`]: [`Refusal::NotInContext`] if the message still waits, was never sent, or was summarized before;
    /// [`Refusal::PinsFull`] if there is no room for the pin.
    pub async fn pin(&self, message: MessageId) -> Result<(), SendError> {
        self.ask(PinMessage { message }).await.map(drop)
    }

    /// Removes a pin. The words stay where they are, and the next compaction sums them up.
    ///
    /// # Errors
    /// [`SendError::Refused`] with [`Refusal::NotPinned`].
    pub async fn unpin(&self, message: MessageId) -> Result<(), SendError> {
        self.ask(UnpinMessage { message }).await.map(drop)
    }

    /// The pinned messages, in the order in which they were pinned.
    ///
    /// # Errors
    /// Among others [`SendError::Closed`] and [`SendError::Parked`].
    pub async fn pins(&self) -> Result<Vec<Pin>, SendError> {
        Ok(self.state().await?.context.pins.clone())
    }

    /// Leaves a branch: summarizes everything that was said in `branch` after that entry, with this session's model for
    /// compactions. The summary precedes this session's next turn. If no model can write it, the beginnings of the branch's
    /// messages replace it. Returns when the summary is on the tape.
    ///
    /// # Errors
    /// [`SendError::Refused`]: with [`Refusal::Empty`] if nothing was said in the branch, with [`Refusal::Busy`] while a turn runs
    /// here, and with [`Refusal::Leaving`] while another branch's summary is being written here. [`SendError::Storage`] if the
    /// branch's tape cannot be read; [`SendError::Unavailable`] if an entry of it cannot be understood.
    pub async fn leave_branch(&self, branch: &Session, after: Seq) -> Result<(), SendError> {
        let id = branch.slot.id.clone();
        let read = move |shared: &Shared| shared.store.read(&id, Seq::ZERO).map_err(SendError::Storage);
        let lines = branch.shared.blocking(read).await?;
        let left = Branch::of(&taped::entries(&branch.slot.id, &lines)?, after);
        if left.items.is_empty() {
            return Err(Refusal::Empty.into());
        }
        let state = self.state().await?;
        if let Some(turn) = &state.turn {
            return Err(Refusal::Busy { turn: turn.id }.into());
        }
        let key = format!("{}/branch/{}/{}", self.slot.id, branch.slot.id, left.to);
        let leaving = self.begin_leaving(&state, &left).await?;
        let branch = self.sum_up(&left, leaving.as_ref(), key).await;
        let recorded = self.ask(LeaveBranch { branch: branch.into() }).await.map(drop);
        // The recorded summary has closed the ticket. If it could not be recorded, dropping `leaving` closes it.
        drop(leaving);
        recorded
    }

    /// Opens the ticket of a branch's summary, which reserves its budget. `None` if the budget does not allow a summary.
    pub(super) async fn begin_leaving(&self, state: &State, left: &Branch) -> Result<Option<Leaving>, SendError> {
        let settings = &state.settings;
        let model = settings.compaction.model.clone().unwrap_or_else(|| settings.model.clone());
        let name = model.clone();
        let seen = self.shared.blocking(move |shared| Ok::<_, SendError>(shared.models.seen(&name)));
        let ModelSeen { window, price } = seen.await?;
        let room = window.usable().saturating_sub(TASK_TOKENS);
        let prompt = branch_prompt(&left.items, room);
        let asked = Asked { model, prompt, tokens_max: BRANCH_SUMMARY_MAX, reads_max: 1 };
        let input = of_text(&asked.prompt) + of_text(SUMMARY_SYSTEM);
        let wanted = Reserve { input, output: BRANCH_SUMMARY_MAX };
        let request = OpenBranch { model: asked.model.clone(), price, wanted, reserved: Reserve::default() };
        let (session, labels) = (self.clone(), settings.labels.clone());
        let begin = async move {
            match session.record(SumUpBranch { request: Box::new(request) }).await {
                Ok(ticket) => {
                    let tries = Arc::default();
                    let mut leaving = Leaving { session, ticket, asked, labels, price, input, tries };
                    // The core decided with the ticket whether a budget limits the summary.
                    if let Some(Open::Branch(open)) = leaving.session.state().await?.open.get(&ticket) {
                        leaving.asked.reads_max = reads_max(&open.reserved);
                    }
                    Ok(Some(leaving))
                }
                Err(SendError::Refused(Refusal::SummaryOverBudget)) => Ok(None),
                Err(error) => Err(error),
            }
        };
        // A separate task: a caller that drops the future leaves no ticket open. The task does not belong to the session: the
        // next incarnation would wait for the task, and the task for the next incarnation.
        self.shared.tasks.spawn_on(begin, &self.shared.tokio).await.map_err(OpenError::lost)?
    }

    /// Summarizes a branch. If no model can write the summary, the beginnings of the branch's messages replace it. The caller
    /// keeps `leaving`, and drops it once the summary was handed in.
    pub(super) async fn sum_up(&self, left: &Branch, leaving: Option<&Leaving>, key: String) -> BranchSummary {
        let (written, request) = match leaving {
            Some(leaving) => leaving.write(key).await,
            None => (None, None),
        };
        let (summary, usage) = match written {
            Some((text, usage)) if !text.trim().is_empty() => (text, usage),
            written => {
                let usage = written.map_or_else(Usage::default, |(_, usage)| usage);
                (branch_digest(&left.items, BRANCH_SUMMARY_MAX), usage)
            }
        };
        let mut files = FileOperations::default();
        files.note(left.items.iter().map(|item| &**item));
        BranchSummary { from: left.from, to: left.to, summary: summary.into(), usage, files, request }
    }
}

/// A branch's summary that is being written. Its ticket is open until the summary is recorded. Dropping the value before that
/// closes the ticket, and counts the tokens that requests had used by then.
pub(super) struct Leaving {
    /// The session that the summary is written for.
    session: Session,
    /// The entry that opened the ticket.
    pub(super) ticket: Seq,
    asked: Asked,
    /// The labels that the session had then.
    labels: Labels,
    price: Option<Price>,
    /// Estimated tokens that the request reads.
    input: u64,
    /// The requests that were made so far.
    tries: Arc<compaction::Tries>,
}

impl Leaving {
    /// The text that a model wrote, if one did, and the request to record.
    async fn write(&self, key: String) -> (Option<(String, Usage)>, Option<BranchRequest>) {
        let shared = &self.session.shared;
        let (tell, told) = oneshot::channel();
        let slot = &self.session.slot;
        let order = compaction::Order {
            asked: self.asked.clone(),
            key,
            of: (slot.id.clone(), self.labels.clone()),
            rank: Rank::Person,
            id: format!("compaction {} of {}", self.ticket, slot.id),
            under: slot.node(),
            tries: self.tries.clone(),
            // A separate tracker: no incarnation waits for these tasks.
            tasks: TaskTracker::new(),
        };
        let _handle = compaction::SummaryHandle::begin(shared, order, |written| drop(tell.send(written)));
        let written = told.await.ok().and_then(Result::ok);
        let estimated = written.as_ref().filter(|(_, usage)| usage.total() == 0).map(|(text, _)| Usage {
            input: self.input,
            output: of_text(text),
            ..Usage::default()
        });
        let request = BranchRequest {
            ticket: self.ticket,
            model: self.asked.model.clone(),
            price: self.price,
            reserved: Reserve { input: self.input, output: 0 },
            estimated,
            lost: self.tries.in_vain(written.is_some()),
        };
        (written, Some(request))
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let (ticket, lost) = (self.ticket, self.tries.in_vain(false));
        let why = Box::new("nobody waited for it".into());
        // If the ticket is closed already, this changes nothing. If the session is closed, it counts the reserve when it wakes.
        drop(self.session.slot.command(GiveUpBranch { ticket, why, lost }));
    }
}
