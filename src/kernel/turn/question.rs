//! Questions of running calls: a tool asks while it runs, and a person or a rule answers ([`ToolContext::ask`]).
//!
//! ```text
//! worker ── PutQuestion ──► allowed or denied by the rules, or nobody to ask: the reply says so, nothing is recorded
//!                      └──► ask (open, names the call) ──► granted, rejected ──► the call's answers ──► the worker
//!                                                     └──► expired, withdrawn ──►
//! ```
//!
//! A question is an ask with [`OpenAsk::question`]. It belongs to its call: the entries that end the call or tell it to stop close
//! it too, in the fold ([`State::close_questions`]). So no question stays open without its call. Its answer stays on the open call,
//! so that a call that runs again has it.
//!
//! A change must keep that an answer is for an equal question only (the same texts and accesses), and that the present rules judge
//! each new question before a person is asked. An equal question of the call that is open, or that a person has answered, is not
//! judged again: it gets the ticket that it has.
//!
//! [`ToolContext::ask`]: crate::tool::ToolContext::ask

use std::sync::Arc;

use crate::{
    kernel::{
        AskClosedWhy, CallAnswer, CallState, CarriedOut, Grant, Open, OpenAsk, OpenCall, Outcome, Record, Refusal,
        State, Steering,
        draft::{Decide, Draft},
        state::short_hash,
    },
    permission::{Action, seen_from},
    tool::{Access, Question, QuestionAnswer},
    words::ids::Seq,
};

/// The most open questions of one call.
const OPEN_MAX: usize = 8;
/// The most questions of one call, those that are over included.
const ASKED_MAX: usize = 64;

/// A running call asks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PutQuestion {
    /// The ticket of the call.
    pub call: Seq,
    /// Which run of the call asks; `None` in a replay, which knows that it was the one that ran.
    pub attempt: Option<u32>,
    /// What the call wants to do, as its tool says.
    pub access: Vec<Access>,
    /// The question, without the accesses.
    pub question: Arc<Question>,
}

impl Decide for PutQuestion {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<CarriedOut, Refusal> {
        let answer = |answer| Ok(CarriedOut::Answer(answer));
        let Some(call) = draft.state.call(self.call).cloned() else { return answer(QuestionAnswer::Cancelled) };
        let is_its_run = self.attempt.is_none_or(|attempt| attempt == call.attempts);
        if call.state != CallState::Running || !is_its_run || draft.state.is_ending() {
            return answer(QuestionAnswer::Cancelled);
        }
        let settings = &draft.state.settings;
        let access = seen_from(&settings.workspace, &settings.read_roots, self.access.clone());
        if let Some(known) = known(draft, self.call, &call, &name_of(&access, &self.question)) {
            return Ok(CarriedOut::Done(known));
        }
        match draft.state.judge(&access, draft.env.globs()).action {
            Action::Allow => return answer(QuestionAnswer::Granted),
            Action::Deny => return answer(QuestionAnswer::Denied { by: denied_by(draft, &access) }),
            Action::Ask => {}
        }
        if withdraws(draft.state.strongest_steering()) {
            // A message that steers waits: the question would be withdrawn at once.
            return answer(QuestionAnswer::Cancelled);
        }
        let open = questions_of(&draft.state, self.call).count();
        if open >= OPEN_MAX || open + call.answers.len() >= ASKED_MAX {
            let why = format!("a call may have {OPEN_MAX} open questions, and {ASKED_MAX} in all");
            return answer(QuestionAnswer::Refused { why });
        }
        if !draft.reaches_someone() {
            return answer(QuestionAnswer::Unheard);
        }
        let expires = draft.now.plus(draft.state.settings.ask_limit());
        let question = Some(self.question.clone());
        Ok(CarriedOut::Done(draft.write(None, Record::Ask { call: self.call, access, expires, question })))
    }

    fn in_words(&self) -> String {
        format!("call {} asked a question", self.call)
    }

    fn about(&self) -> Option<Seq> {
        Some(self.call)
    }

    fn bytes(&self) -> usize {
        self.question.bytes()
    }
}

/// The ticket of an equal question of the call: one that is open, or one that a person answered.
fn known(draft: &Draft<'_>, call: Seq, of: &OpenCall, name: &str) -> Option<Seq> {
    let open = questions_of(&draft.state, call).find(|(_, ask)| ask.name() == name).map(|(ticket, _)| ticket);
    let by_a_person = |answer: &QuestionAnswer| match answer {
        QuestionAnswer::Granted | QuestionAnswer::Rejected { .. } => true,
        // Nobody has said anything: it is asked again.
        _ => false,
    };
    let answered = of.answers.iter().find(|known| known.question == name && by_a_person(&known.answer));
    open.or(answered.map(|known| known.ask))
}

fn denied_by(draft: &Draft<'_>, access: &[Access]) -> String {
    let judged = draft.state.settings.judge(access, draft.env.globs());
    judged.rule.map_or(judged.layer.clone(), |rule| format!("{} ({rule})", judged.layer))
}

/// A person answered the question of a running call. Without a message, a no ends the turn.
pub(in crate::kernel) fn answered(draft: &mut Draft<'_>, call: Seq, grant: &Grant) {
    if matches!(grant, Grant::Reject(None)) {
        let tool = draft.state.call(call).map_or_else(String::new, |call| call.facts.tool.clone());
        draft.write(None, Record::Ending { outcome: Outcome::Rejected { tool } });
    }
}

/// Whether a waiting message withdraws the questions of running calls: the calls finish without an answer.
fn withdraws(steering: Option<Steering>) -> bool {
    matches!(steering, Some(Steering::SkipRemaining | Steering::AbortRunning))
}

/// Withdraws the questions of running calls for a message that steers.
pub(in crate::kernel) fn steer(draft: &mut Draft<'_>, steering: Steering) {
    if !withdraws(Some(steering)) {
        return;
    }
    let open: Vec<_> = draft.state.asks().filter(|(_, ask)| ask.question.is_some()).map(|(ask, _)| ask).collect();
    for ask in open {
        draft.write(Some(ask), Record::AskClosed { why: AskClosedWhy::Withdrawn });
    }
}

fn questions_of(state: &State, call: Seq) -> impl Iterator<Item = (Seq, &OpenAsk)> {
    state.asks().filter(move |(_, ask)| ask.call == call && ask.question.is_some())
}

/// The digest of what a person is shown: the tool, its arguments, what is asked about, and the question of a running call. Two asks
/// with the same digest are about the same.
pub(crate) fn digest(tool: &str, input: &str, access: &[Access], question: Option<&Question>) -> String {
    // All of it can be written as JSON.
    short_hash(serde_json::to_string(&(tool, input, access, question)).unwrap_or_default().as_bytes())
}

/// The name of a question: equal questions have the same.
fn name_of(access: &[Access], question: &Question) -> String {
    // Both can be written as JSON.
    short_hash(serde_json::to_string(&(access, question)).unwrap_or_default().as_bytes())
}

impl OpenAsk {
    /// The name of the question; empty for the ask about a call.
    fn name(&self) -> String {
        self.question.as_ref().map_or_else(String::new, |question| name_of(&self.access, question))
    }
}

impl State {
    /// The digest of what an open ask shows, its own or a child's; `None` where there is no such ask about a call. It is that of the
    /// event [`EventKind::Ask`](crate::EventKind::Ask): an answer that names it ([`Session::answer_shown`](crate::Session::answer_shown))
    /// is for what was shown and nothing else.
    #[must_use]
    pub fn digest_of(&self, ask: Seq) -> Option<String> {
        match self.open.get(&ask)? {
            Open::Ask(asked) => {
                let call = self.call(asked.call)?;
                Some(digest(&call.facts.tool, &call.input, &asked.access, asked.question.as_deref()))
            }
            Open::TaskAsk(open) => Some(open.asked.digest()),
            _ => None,
        }
    }

    /// The tickets of the questions that a call has open.
    pub(crate) fn open_questions(&self, call: Seq) -> Vec<Seq> {
        questions_of(self, call).map(|(ask, _)| ask).collect()
    }

    /// The answer to the question `ask` of a call; `None` while it is open.
    pub(crate) fn question_answer(&self, call: Seq, ask: Seq) -> Option<QuestionAnswer> {
        if matches!(self.open.get(&ask), Some(Open::Ask(_))) {
            return None;
        }
        let answers = self.call(call).map(|call| call.answers.iter());
        let answer = answers.and_then(|mut answers| answers.find(|known| known.ask == ask));
        Some(answer.map_or(QuestionAnswer::Cancelled, |known| known.answer.clone()))
    }

    /// Notes the answer to a question on its call.
    pub(in crate::kernel) fn note_answer(&mut self, ask: Seq, of: &OpenAsk, answer: QuestionAnswer) {
        let question = of.name();
        if let Some(Open::Call(call)) = self.open.get_mut(&of.call) {
            call.answers.push(CallAnswer { ask, question, answer });
        }
    }

    /// Closes the questions of a call that is over or was told to stop.
    pub(in crate::kernel) fn close_questions(&mut self, call: Seq) {
        self.open.retain(|open| !matches!(open, Open::Ask(ask) if ask.call == call && ask.question.is_some()));
    }
}

/// The answer that a grant is to a question.
pub(in crate::kernel) fn answer_of(grant: &Grant) -> QuestionAnswer {
    match grant {
        Grant::Once | Grant::Always(_) | Grant::Offered { .. } => QuestionAnswer::Granted,
        Grant::Reject(message) => QuestionAnswer::Rejected { message: message.clone() },
        Grant::Unheard => QuestionAnswer::Unheard,
        // Refused where it is decided: it is an answer about a budget.
        Grant::Raise(_) => QuestionAnswer::Cancelled,
    }
}

/// The answer that a question has which was closed without a person.
pub(in crate::kernel) fn closed_with(why: AskClosedWhy) -> QuestionAnswer {
    match why {
        AskClosedWhy::Granted => QuestionAnswer::Granted,
        AskClosedWhy::Expired => QuestionAnswer::Expired,
        _ => QuestionAnswer::Cancelled,
    }
}
