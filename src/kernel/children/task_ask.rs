//! Questions of children, on the tape of their parent: a child's question to a person is put to its parent too, by the parent to
//! its own parent, and so on up to the topmost session, where people are (decision 0029).
//!
//! ```text
//! child     ask ───────────────────────────────────► granted ──► the call runs
//!            │ TaskAsked                                 ▲ AnswerAsk
//! parent    task_ask ──► (its parent …) ──► granted ─────┘ …until the child's ask is over: TaskAskOver ──► ask_closed
//! ```
//!
//! The child's tape owns the question: its time limit is decided there, and only an answer on that tape lets the call run. The
//! parent's tape has a copy, and the answer that a person gave to the copy. While the question is open, both commands may come
//! again after a crash of either side, and then change nothing.
//!
//! A change must keep that a copy never decides: no rule and no grant of the parent answers it.

use std::sync::Arc;

use crate::{
    kernel::{
        AskAnswer, AskClosedWhy, AskFrom, CarriedOut, Open, OpenAsk, OpenTaskAsk, Record, Refusal, State, TaskAsk,
        draft::{Decide, Draft},
        turn::question,
    },
    permission::{Offer, offers},
    words::ids::{Seq, SessionId},
};

impl TaskAsk {
    /// What a person may allow for more than this call, from narrow to wide.
    #[must_use]
    pub fn offers(&self) -> Vec<Offer> {
        offers(&self.access)
    }

    /// The digest of what a person is shown: the same as at the child.
    #[must_use]
    pub fn digest(&self) -> String {
        question::digest(&self.name, &self.input, &self.access, self.question.as_deref())
    }
}

/// A child asks a person.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TaskAsked {
    /// The ticket of the child's task.
    pub task: Seq,
    /// The question.
    pub asked: Arc<TaskAsk>,
}

impl Decide for TaskAsked {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<CarriedOut, Refusal> {
        let TaskAsked { task, asked } = self;
        let is_open = matches!(draft.state.open.get(task), Some(Open::Task(task)) if !task.queued);
        let is_known = draft.state.task_asks().any(|(_, open)| open.task == *task && open.asked.ask == asked.ask);
        if is_open && !is_known {
            draft.write(Some(*task), Record::TaskAsk(asked.clone()));
        }
        Ok(CarriedOut::Done(draft.state.seq))
    }

    fn in_words(&self) -> String {
        format!("a child asks about a call of {}", self.asked.name)
    }

    fn about(&self) -> Option<Seq> {
        Some(self.task)
    }

    fn bytes(&self) -> usize {
        self.asked.input.len() + self.asked.question.as_ref().map_or(0, |question| question.bytes())
    }
}

/// A child's question is over at the child: answered, expired or withdrawn.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TaskAskOver {
    /// The question's ticket on this session's tape.
    pub ask: Seq,
}

impl Decide for TaskAskOver {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<CarriedOut, Refusal> {
        if matches!(draft.state.open.get(&self.ask), Some(Open::TaskAsk(_))) {
            close(draft, self.ask);
        }
        Ok(CarriedOut::Done(draft.state.seq))
    }

    fn in_words(&self) -> String {
        format!("the child's question {} is over", self.ask)
    }

    fn about(&self) -> Option<Seq> {
        Some(self.ask)
    }
}

fn close(draft: &mut Draft<'_>, ask: Seq) {
    draft.write(Some(ask), Record::AskClosed { why: AskClosedWhy::OverBelow });
}

/// Closes the questions of a task that is over.
pub(in crate::kernel) fn close_of(draft: &mut Draft<'_>, task: Seq) {
    let of_task = draft.state.task_asks().filter(|(_, open)| open.task == task).map(|(ask, _)| ask);
    of_task.collect::<Vec<_>>().into_iter().for_each(|ask| close(draft, ask));
}

impl State {
    /// The open questions of children, by ticket: [`Session::answer`](crate::Session::answer) takes the ticket.
    pub fn task_asks(&self) -> impl Iterator<Item = (Seq, &OpenTaskAsk)> {
        self.open_as(|open| if let Open::TaskAsk(ask) = open { Some(ask) } else { None })
    }

    /// The tickets of the questions that nobody has answered: its own, and those of its children.
    pub(crate) fn unanswered(&self) -> impl Iterator<Item = Seq> {
        self.open.iter().filter_map(|(ticket, open)| match open {
            Open::Ask(_) => Some(*ticket),
            Open::TaskAsk(OpenTaskAsk { answer: None, .. }) => Some(*ticket),
            _ => None,
        })
    }

    /// These questions, as the parent is told of them.
    pub(crate) fn questions(&self) -> Vec<Arc<TaskAsk>> {
        self.unanswered().filter_map(|ticket| self.question(ticket)).map(Arc::new).collect()
    }

    fn question(&self, ask: Seq) -> Option<TaskAsk> {
        let here = AskFrom { session: self.session.clone(), agent: self.settings.agent.clone() };
        match self.open.get(&ask)? {
            Open::Ask(OpenAsk { call, access, expires, question }) => {
                let call = self.call(*call)?;
                Some(TaskAsk {
                    ask,
                    from: vec![here],
                    call: call.id.clone(),
                    name: call.facts.tool.clone(),
                    input: call.input.clone(),
                    access: access.clone(),
                    expires: *expires,
                    waits: self.settings.asks_wait,
                    question: question.clone(),
                })
            }
            Open::TaskAsk(open) => {
                let mut asked = (*open.asked).clone();
                asked.ask = ask;
                asked.from.insert(0, here);
                Some(asked)
            }
            _ => None,
        }
    }

    /// Notes a person's answer to a child's question; says whether the ticket is one.
    pub(in crate::kernel) fn answer_task_ask(&mut self, ask: Seq, answer: &AskAnswer) -> bool {
        match self.open.get_mut(&ask) {
            Some(Open::TaskAsk(open)) => {
                open.answer = Some(answer.clone());
                true
            }
            _ => false,
        }
    }

    /// The session to whose people the questions of this one go too; `None` for a topmost session, an orphan, and a child whose
    /// task is over.
    pub(crate) fn asks_through(&self) -> Option<&SessionId> {
        let origin = self.origin.as_ref().filter(|origin| origin.orphaned.is_none() && origin.end.is_none());
        origin.map(|origin| &origin.parent)
    }
}
