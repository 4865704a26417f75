//! Commands on the context of a conversation: compact it, undo that, pin messages, and keep a summary of an abandoned branch. The
//! tape is read here, off the actor; each command is one recorded entry.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

use crate::{
    actor::{compaction, host::Host},
    error::SendError,
    kernel::context::{BRANCH_SUMMARY_MAX, FileOperations, SUMMARY_SYSTEM, branch_digest, branch_prompt, of_text},
    kernel::{
        Asked, Branch, BranchRequest, BranchSummary, Compact, Entry, GiveUpBranch, LeaveBranch, Open, OpenBranch, Pin,
        PinMessage, Refusal, Reserve, State, SumUpBranch, UndoCompaction, Undone, UnpinMessage, Windows as _,
        reads_max,
    },
    model::Price,
    ops::taped,
    session::Session,
    tape::TapeStoreExt as _,
    words::ids::{MessageId, Seq},
    words::usage::Usage,
};

/// Tokens of the request that has a branch summed up, beside what was said on it.
const TASK_TOKENS: u64 = 500;

impl Session {
    /// Has the older part of the conversation summed up now, in the background. Returns when the wish is on the tape; events
    /// tell how it ends.
    ///
    /// # Errors
    /// [`SendError::Refused`] where a summary is being written already, there is nothing that one could replace, or the budget
    /// does not allow one.
    pub async fn compact(&self) -> Result<(), SendError> {
        self.ask(Compact).await.map(drop)
    }

    /// Puts back what the newest compaction replaced, and behind it what was said since: read from the tape, and put in place
    /// by one entry. Asked again, it undoes the compaction before.
    ///
    /// # Errors
    /// [`Refusal::Busy`] while a turn runs; [`SendError::Refused`] where there is nothing to undo, a summary is being
    /// written, or what comes back would not fit the model's window; [`SendError::Storage`] where the tape cannot be read, or
    /// does not have within half a minute what was decided last.
    pub async fn undo_compaction(&self) -> Result<(), SendError> {
        let now = self.state().await?;
        let newest = now.context.newest;
        if newest == Seq::ZERO {
            return Err(Refusal::NothingToUndo.into());
        }
        let id = self.slot.id.clone();
        let read = move |host: &Host| host.store.read_to(&id, newest).map_err(SendError::Storage);
        let lines = self.host.blocking(read).await?.entries;
        // The session was made from these entries, so they can be read; what cannot is not undone.
        let entries = taped::entries(&self.slot.id, &lines).ok();
        let undone = entries.and_then(|entries| Undone::of(&entries)).ok_or(Refusal::NothingToUndo)?;
        self.ask(UndoCompaction { undone: undone.into() }).await.map(drop)
    }

    /// Pins a message that stands in the context: its words stay there, whole, whatever is summed up or cut off later. A message
    /// can be sent pinned ([`Message::pinned`](crate::Message::pinned)). Asked again it is the same pin; of files only the names are kept. What may be
    /// pinned takes 2,000 tokens together, or an eighth of a small window.
    ///
    /// # Errors
    /// [`SendError::Refused`]: [`Refusal::NotInContext`] where the message waits, was never said, or was summed up before, and
    /// [`Refusal::PinsFull`] where there is no room for it.
    pub async fn pin(&self, message: MessageId) -> Result<(), SendError> {
        self.ask(PinMessage { message }).await.map(drop)
    }

    /// Takes a pin back. The words stay where they stand now, and the next compaction sums them up.
    ///
    /// # Errors
    /// [`SendError::Refused`] with [`Refusal::NotPinned`].
    pub async fn unpin(&self, message: MessageId) -> Result<(), SendError> {
        self.ask(UnpinMessage { message }).await.map(drop)
    }

    /// The messages that are pinned, in the order in which they were.
    ///
    /// # Errors
    /// [`SendError::Closed`] or [`SendError::Parked`].
    pub async fn pins(&self) -> Result<Vec<Pin>, SendError> {
        Ok(self.state().await?.context.pins.clone())
    }

    /// Leaves a branch: what was said in `branch` after that entry is summed up, by the model that sums up here, and stands in
    /// front of the next turn of this session. Where no model can write it, the beginnings of what was said there do.
    ///
    /// # Errors
    /// [`Refusal::Busy`] while a turn runs here; [`SendError::Refused`] where nothing was said there, and with
    /// [`Refusal::Leaving`] while another summary of a branch is being written here: one at a time; [`SendError::Storage`] where
    /// the branch's tape cannot be read.
    pub async fn leave_branch(&self, branch: &Session, after: Seq) -> Result<(), SendError> {
        let id = branch.slot.id.clone();
        let read = move |host: &Host| host.store.read(&id, Seq::ZERO).map_err(SendError::Storage);
        let lines = branch.host.blocking(read).await?;
        let entries: Vec<_> = lines.iter().map_while(|line| Entry::from_tape(line).ok()).collect();
        let left = Branch::of(&entries, after);
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
        let left = self.ask(LeaveBranch { branch: branch.into() }).await.map(drop);
        // Its ticket is closed, or the session says why that cannot be written.
        drop(leaving);
        left
    }

    /// Has what a summary may take held back. `None` where the budget does not allow one.
    pub(super) async fn begin_leaving(&self, state: &State, left: &Branch) -> Result<Option<Leaving>, SendError> {
        let settings = &state.settings;
        let model = settings.compaction.model.clone().unwrap_or_else(|| settings.model.clone());
        let room = self.host.window(&model).usable().saturating_sub(TASK_TOKENS);
        let prompt = branch_prompt(&left.items, room);
        let asked = Asked { model, prompt, tokens_max: BRANCH_SUMMARY_MAX, reads_max: 1 };
        let price = self.host.price(&asked.model);
        let input = of_text(&asked.prompt) + of_text(SUMMARY_SYSTEM);
        let wanted = Reserve { input, output: BRANCH_SUMMARY_MAX };
        let request = OpenBranch { model: asked.model.clone(), price, wanted, reserved: Reserve::default() };
        let session = self.clone();
        let begin = async move {
            match session.record(SumUpBranch { request: Box::new(request) }).await {
                Ok(ticket) => {
                    let tries = Arc::default();
                    let mut leaving = Leaving { session, ticket, asked, price, input, tries };
                    // Whether a budget limits it was decided in that moment.
                    if let Some(Open::Branch(open)) = leaving.session.state().await?.open.get(&ticket) {
                        leaving.asked.reads_max = reads_max(&open.reserved);
                    }
                    Ok(Some(leaving))
                }
                Err(SendError::Refused(Refusal::SummaryOverBudget)) => Ok(None),
                Err(error) => Err(error),
            }
        };
        // A task of its own: whoever stops waiting in between leaves no ticket open that nobody would close. Not one of the session's:
        // the next incarnation would wait for it, and it for the next incarnation.
        self.host.tasks.spawn_on(begin, &self.host.tokio).await.map_err(|_| SendError::Closed)?
    }

    /// Has a branch summed up by the model that sums up here; where it cannot, the beginnings of what was said stand for it.
    /// `leaving` keeps the ticket, and is to be dropped once the summary was handed in.
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

/// A summary of a branch that is being written. Its ticket is open until the summary is handed in. Dropped before that, it says
/// that there will be none, and what was read by then counts.
pub(super) struct Leaving {
    session: Session,
    pub(super) ticket: Seq,
    asked: Asked,
    price: Option<Price>,
    input: u64,
    tries: Arc<compaction::Tries>,
}

impl Leaving {
    /// What a model wrote, and the request as it is to be recorded.
    async fn write(&self, key: String) -> (Option<(String, Usage)>, Option<BranchRequest>) {
        let host = &self.session.host;
        let (tell, told) = oneshot::channel();
        let slot = &self.session.slot;
        let order = compaction::Order {
            asked: self.asked.clone(),
            key,
            id: format!("compaction {} of {}", self.ticket, slot.id),
            under: slot.node(),
            tries: self.tries.clone(),
            // Nobody waits for what is left of it.
            tasks: TaskTracker::new(),
        };
        let _writing = compaction::Writing::begin(host, order, |written| drop(tell.send(written)));
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
        // Where the ticket is closed by now this changes nothing. A session that is closed counts what was held when it wakes.
        drop(self.session.slot.command(GiveUpBranch { ticket, why, lost }));
    }
}
