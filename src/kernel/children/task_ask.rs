//! Questions of children, on the tape of their parent: a child's question to a person is put to its parent too, by the parent to
//! its own parent, and so on up to the topmost session, where people are (decision 0029).
//!
//! ```text
//! child     ask ───────────────────────────────────► granted ──► the call runs
//!            │ TaskAsked                                 ▲ AnswerAsk
//! parent    task_ask ──► (its parent …) ──► granted ─────┘ …until the child's ask is over: TaskAskOver ──► ask_closed
//! ```
//!
//! The child's tape owns the question: its time limit is decided there, and only an answer that stands there lets the call run. The
//! parent's tape has a copy, and the answer that a person gave to the copy. While the question is open, both commands may come
//! again after a crash of either side, and then change nothing.
//!
//! A change must keep that a copy never decides: no rule and no grant of the parent answers it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    kernel::{
        AskClosedWhy, CarriedOut, Grant, Open, OpenAsk, Record, Refusal, State,
        decide::Draft,
        input::Decide,
        turn::{answer_ask::AnswerAsk, grants, question},
    },
    permission::{Offer, Rule, offers},
    tool::{Access, Question},
    words::ids::{CallId, Millis, Seq, SessionId},
};

/// One session on the way of a question. Stored format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AskFrom {
    /// The session.
    pub session: SessionId,
    /// The name of its agent.
    pub agent: String,
}

/// A question of a child, as its parent is told of it. Stored format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TaskAsk {
    /// The question's ticket on the child's tape.
    pub ask: Seq,
    /// The way that the question came: first the child, last the session that makes the call.
    pub from: Vec<AskFrom>,
    /// The id that the model gave to the call.
    pub call: CallId,
    /// Which tool.
    pub name: String,
    /// Its arguments, as received.
    pub input: Arc<str>,
    /// What is asked about.
    pub access: Vec<Access>,
    /// When the question expires and the call is denied.
    pub expires: Millis,
    /// Whether the question stays open until then, also while nobody listens.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waits: bool,
    /// The question that the running call asks; `None` where the question is about the call itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<Arc<Question>>,
}

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

/// An open question of a child. Part of the stored form of a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OpenTaskAsk {
    /// The ticket of the task.
    pub task: Seq,
    /// The question.
    pub asked: Arc<TaskAsk>,
    /// The answer that a person gave, until the child has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<AskAnswer>,
}

/// A person's answer. Part of the stored form of a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AskAnswer {
    /// The answer.
    pub grant: Grant,
    /// Who gave it, as the host says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// The rules of the offer that the person chose.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
}

/// The longest name of a person who answers, in bytes.
const WHO_BYTES_MAX: usize = 256;

/// The name of a person as a tape has it: at most 256 bytes.
pub(in crate::kernel) fn named(who: Option<&String>) -> Option<String> {
    who.filter(|who| !who.is_empty()).map(|who| who[..who.floor_char_boundary(WHO_BYTES_MAX)].to_owned())
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

/// Takes a person's answer to a child's question. The child is told until it has it.
pub(in crate::kernel) fn answer(
    draft: &mut Draft<'_>,
    given: &AnswerAsk,
    open: &OpenTaskAsk,
) -> Result<CarriedOut, Refusal> {
    let AnswerAsk { ask, grant, who, .. } = given;
    match grant {
        _ if open.answer.is_some() => Err(Refusal::AskClosed { ask: *ask }),
        Grant::Raise(_) => Err(Refusal::NotABudget { ask: *ask }),
        _ => {
            let (grant, rules) = grants::chosen(given, &open.asked.access, false)?;
            let answered = Record::Granted { grant, who: named(who.as_ref()), rules };
            Ok(CarriedOut::Done(draft.write(Some(*ask), answered)))
        }
    }
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
