//! A child's side of its task: the messages from its parent. Its DOWN follows from its own entries (`apply/tasks.rs`).

use serde_json::{Map, Value, json};

use crate::{
    kernel::{
        Entry, Held, Limits, Link, Origin, Record, Recorded, Refusal, Tie, advance,
        command::{Decide, first},
        decide::Draft,
    },
    permission::Chain,
    words::ids::{Seq, SessionId},
};

/// To a child: its parent wants its task stopped.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StopTask {
    /// The parent.
    pub parent: SessionId,
    /// The task's ticket on its tape.
    pub ticket: Seq,
    /// Why.
    pub why: String,
}

impl Decide for StopTask {
    fn is() -> &'static str {
        "stop_task"
    }

    fn read_back(recorded: &Recorded, wrote: &[Entry]) -> Option<StopTask> {
        let (parent, ticket) = parent_of(&recorded.fields)?;
        Some(StopTask { parent, ticket, why: advance::why_aborted(wrote) })
    }

    fn record(&self, fields: &mut Map<String, Value>) {
        record_parent(fields, &self.parent, self.ticket);
    }

    fn name(&self) -> &'static str {
        "stopped by its parent"
    }

    fn decide(&self, draft: &mut Draft<'_>) -> Result<Held, Refusal> {
        stop(draft, &self.parent, self.ticket, &self.why);
        Ok(Held::Done(draft.state.seq))
    }

    fn stops(&self) -> bool {
        true
    }

    fn in_words(&self) -> String {
        format!("parent {} stopped the task", self.parent)
    }
}

/// To a child: its parent is gone for good.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Orphan {
    /// The parent.
    pub parent: SessionId,
    /// The task's ticket on its tape.
    pub ticket: Seq,
    /// Why.
    pub why: String,
}

impl Decide for Orphan {
    fn is() -> &'static str {
        "orphaned"
    }

    fn read_back(recorded: &Recorded, wrote: &[Entry]) -> Option<Orphan> {
        let (parent, ticket) = parent_of(&recorded.fields)?;
        match first(wrote)? {
            Record::Orphaned { why } => Some(Orphan { parent, ticket, why: why.clone() }),
            _ => None,
        }
    }

    fn record(&self, fields: &mut Map<String, Value>) {
        record_parent(fields, &self.parent, self.ticket);
    }

    fn name(&self) -> &'static str {
        "orphaned"
    }

    fn decide(&self, draft: &mut Draft<'_>) -> Result<Held, Refusal> {
        orphan(draft, &self.parent, self.ticket, &self.why);
        Ok(Held::Done(draft.state.seq))
    }

    fn in_words(&self) -> String {
        format!("parent {} has ended", self.parent)
    }
}

/// To a child: who its parent is, and what that one may not do. An orphan is taken over by it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BeAdopted {
    /// How it is tied now.
    pub tie: Tie,
    /// The rules of its new ancestors.
    pub above: Vec<Chain>,
}

impl Decide for BeAdopted {
    fn is() -> &'static str {
        "adopted"
    }

    fn read_back(recorded: &Recorded, wrote: &[Entry]) -> Option<BeAdopted> {
        match first(wrote)? {
            Record::Adopted { tie, above } => Some(BeAdopted { tie: tie.clone(), above: above.clone() }),
            // Who is its child already only says by whom it is told.
            Record::Narrowed { above } => {
                let (parent, ticket) = parent_of(&recorded.fields)?;
                let (link, grant) = (Link::default(), Limits::default());
                Some(BeAdopted { tie: Tie { parent, ticket, link, depth: 0, grant }, above: above.clone() })
            }
            _ => None,
        }
    }

    fn record(&self, fields: &mut Map<String, Value>) {
        record_parent(fields, &self.tie.parent, self.tie.ticket);
    }

    fn name(&self) -> &'static str {
        "adopted"
    }

    fn decide(&self, draft: &mut Draft<'_>) -> Result<Held, Refusal> {
        adopted(draft, &self.tie, &self.above)
    }

    fn in_words(&self) -> String {
        format!("parent {} said what it may not do", self.tie.parent)
    }
}

/// The origin, where that ticket of that parent is the one that the task belongs to.
fn origin<'d>(draft: &'d Draft<'_>, parent: &SessionId, ticket: Seq) -> Option<&'d Origin> {
    let origin = draft.state.origin.as_deref()?;
    (origin.parent == *parent && origin.ticket == ticket).then_some(origin)
}

/// The parent wants the task stopped: its turn is aborted, or its prompt taken back where it still waits.
pub(super) fn stop(draft: &mut Draft<'_>, parent: &SessionId, ticket: Seq, why: &str) {
    let Some(origin) = origin(draft, parent, ticket).filter(|origin| origin.end.is_none()) else { return };
    let prompt = origin.prompt.clone();
    if draft.state.turn.as_ref().is_some_and(|turn| turn.messages.contains(&prompt)) {
        advance::abort(draft, why);
    } else if draft.state.queue.iter().chain(&draft.state.steering).any(|waiting| waiting.message.id == prompt) {
        draft.write(None, Record::Withdrawn { id: prompt });
    }
}

/// The parent is gone for good, and this session is not: it is an orphan from here on.
pub(super) fn orphan(draft: &mut Draft<'_>, parent: &SessionId, ticket: Seq, why: &str) {
    if origin(draft, parent, ticket).is_some_and(|origin| origin.orphaned.is_none()) {
        draft.write(None, Record::Orphaned { why: why.to_owned() });
    }
}

/// Another session takes this one over, and only an orphan can be adopted; or the parent says once more what its own rules are,
/// and where there are others among them than before, they hold here too.
pub(super) fn adopted(draft: &mut Draft<'_>, tie: &Tie, above: &[Chain]) -> Result<Held, Refusal> {
    let already = origin(draft, &tie.parent, tie.ticket).is_some_and(|origin| origin.orphaned.is_none());
    let orphan = draft.state.origin.as_ref().is_some_and(|origin| origin.orphaned.is_some());
    if already {
        let known = &draft.state.settings.above;
        let more: Vec<_> = above.iter().filter(|chain| !known.contains(chain)).cloned().collect();
        if !more.is_empty() {
            draft.write(None, Record::Narrowed { above: more });
        }
        return Ok(Held::Done(draft.state.seq));
    }
    if !orphan {
        return Err(Refusal::NotAnOrphan { session: draft.state.session.clone() });
    }
    let seq = draft.write(None, Record::Adopted { tie: tie.clone(), above: above.to_vec() });
    Ok(Held::Done(seq))
}

/// Who it is told by: no entry says so of one that is its child already.
fn record_parent(fields: &mut Map<String, Value>, parent: &SessionId, ticket: Seq) {
    fields.insert("parent".to_owned(), json!(parent));
    fields.insert("ticket".to_owned(), json!(ticket));
}

fn parent_of(fields: &Map<String, Value>) -> Option<(SessionId, Seq)> {
    let parent = fields.get("parent")?.as_str()?.parse().ok()?;
    Some((parent, Seq(fields.get("ticket")?.as_u64()?)))
}
