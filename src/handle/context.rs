//! What a host can say about the context of a conversation: have it summed up, have that undone, take along what came of a
//! branch. The tape is read here, off the actor; what follows from it is one recorded entry.

use std::sync::Arc;

use crate::{
    actors::summary,
    context::{BRANCH_SUMMARY_MAX, FileOperations, SUMMARY_SYSTEM, branch_digest, branch_prompt, of_text},
    error::SendError,
    handle::Session,
    ids::{MessageId, Seq},
    model::Price,
    session::{
        Asked, Branch, BranchRequest, BranchSummary, Entry, Pin, Refusal, Reserve, Signal, State, Undone, Windows as _,
    },
    usage::Usage,
};

/// Tokens of the request that has a branch summed up, beside what was said on it.
const TASK_TOKENS: u64 = 500;

impl Session {
    /// Has the older part of the conversation summed up now, in the background. Returns when the wish is on the tape; events
    /// tell how it ends.
    ///
    /// # Errors
    /// [`SendError::Refused`] where a summary is being written already, or there is nothing that one could replace.
    pub async fn compact(&self) -> Result<(), SendError> {
        self.ask(|reply| Signal::Compact { reply }).await.map(drop)
    }

    /// Puts back what the newest compaction replaced, and behind it what was said since: read from the tape, and put in place
    /// by one entry. Asked again, it undoes the compaction before.
    ///
    /// # Errors
    /// [`SendError::Busy`] while a turn runs; [`SendError::Refused`] where there is nothing to undo, a summary is being
    /// written, or what comes back would not fit the model's window; [`SendError::Storage`] where the tape cannot be read.
    pub async fn undo_compaction(&self) -> Result<(), SendError> {
        let newest = self.state().await?.context.newest;
        if newest == Seq::ZERO {
            return Err(SendError::Refused(Refusal::NothingToUndo));
        }
        let (store, id) = (self.host.store.clone(), self.slot.id.clone());
        let read = tokio::task::spawn_blocking(move || store.read_to(&id, newest)).await;
        let lines = read.map_err(|_| SendError::Closed)?.map_err(SendError::Storage)?.entries;
        let entries: Result<Vec<_>, _> = lines.iter().map(Entry::from_tape).collect();
        // The session was made from these entries, so they can be read; what cannot is not undone.
        let undone = entries.ok().and_then(|entries| Undone::of(&entries));
        let undone = Arc::new(undone.ok_or(SendError::Refused(Refusal::NothingToUndo))?);
        self.ask(|reply| Signal::UndoCompaction { undone, reply }).await.map(drop)
    }

    /// Pins a message that stands in the context: its words stay there, whole, whatever is summed up or cut off later. A message
    /// can be sent pinned ([`Message::pinned`](crate::Message::pinned)). Asked again it is the same pin; of files only the names are kept. What may be
    /// pinned takes 2,000 tokens together, or an eighth of a small window.
    ///
    /// # Errors
    /// [`SendError::Refused`]: [`Refusal::NotInContext`] where the message waits, was never said, or was summed up before, and
    /// [`Refusal::PinsFull`] where there is no room for it.
    pub async fn pin(&self, message: MessageId) -> Result<(), SendError> {
        self.ask(|reply| Signal::Pin { message, reply }).await.map(drop)
    }

    /// Takes a pin back. The words stay where they stand now, and the next compaction sums them up.
    ///
    /// # Errors
    /// [`SendError::Refused`] with [`Refusal::NotPinned`].
    pub async fn unpin(&self, message: MessageId) -> Result<(), SendError> {
        self.ask(|reply| Signal::Unpin { message, reply }).await.map(drop)
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
    /// [`SendError::Busy`] while a turn runs here; [`SendError::Refused`] where nothing was said there; [`SendError::Storage`]
    /// where the branch's tape cannot be read.
    pub async fn leave_branch(&self, branch: &Session, after: Seq) -> Result<(), SendError> {
        let (store, id) = (branch.host.store.clone(), branch.slot.id.clone());
        let read = tokio::task::spawn_blocking(move || store.read(&id, Seq::ZERO)).await;
        let lines = read.map_err(|_| SendError::Closed)?.map_err(SendError::Storage)?;
        let entries: Vec<_> = lines.iter().map_while(|line| Entry::from_tape(line).ok()).collect();
        let left = Branch::of(&entries, after);
        if left.items.is_empty() {
            return Err(SendError::Refused(Refusal::Empty));
        }
        let state = self.state().await?;
        if let Some(turn) = &state.turn {
            return Err(SendError::Busy { turn: turn.id });
        }
        let key = format!("{}/branch/{}/{}", self.slot.id, branch.slot.id, left.to);
        let branch = self.sum_up(&state, &left, key).await;
        self.ask(|reply| Signal::LeaveBranch { branch: branch.into(), reply }).await.map(drop)
    }

    /// Has a branch summed up by the model that sums up here; where it cannot, the beginnings of what was said stand for it.
    pub(super) async fn sum_up(&self, state: &State, left: &Branch, key: String) -> BranchSummary {
        let settings = &state.settings;
        let model = settings.compaction.model.clone().unwrap_or_else(|| settings.model.clone());
        let room = self.host.window(&model).usable().saturating_sub(TASK_TOKENS);
        let asked = Asked { model, prompt: branch_prompt(&left.items, room), tokens_max: BRANCH_SUMMARY_MAX };
        let price = self.host.price(&asked.model);
        let input = of_text(&asked.prompt) + of_text(SUMMARY_SYSTEM);
        let reserved = state.reserve_for_summary(price.as_ref(), input, BRANCH_SUMMARY_MAX);
        let (written, request) = match reserved {
            Some(reserved) => self.write_branch(&asked, key, price, reserved).await,
            // The budget does not allow the request.
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

    /// What a model wrote, and the request as it is to be recorded.
    async fn write_branch(
        &self,
        asked: &Asked,
        key: String,
        price: Option<Price>,
        reserved: Reserve,
    ) -> (Option<(String, Usage)>, Option<BranchRequest>) {
        let tries = summary::Tries::default();
        let written = tokio::time::timeout(summary::LIMIT, summary::write(&self.host, asked, key, &tries)).await;
        let written = written.ok().and_then(Result::ok);
        let estimated = written.as_ref().filter(|(_, usage)| usage.total() == 0).map(|(text, _)| Usage {
            input: reserved.input,
            output: of_text(text),
            ..Usage::default()
        });
        let lost = tries.in_vain(written.is_some());
        let request = BranchRequest { model: asked.model.clone(), price, reserved, estimated, lost };
        (written, Some(request))
    }
}
