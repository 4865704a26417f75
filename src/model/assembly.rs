//! Puts the pieces of an answer together while it arrives. The wires and the scripted model use it.
//!
//! Every piece that is shown goes to the deltas (the receiver of the stream) first, so a cut-off answer loses none. Each call gets
//! an id that no other call of the answer and of the request's history has, and an answer has at most 1,024 calls.
//!
//! A change must keep this: the ids that are made up depend on the history and on the answer so far alone, so that a repeated
//! request gets the same ids; and a thought that is not complete is always the last part, because more of it goes there.

use std::{borrow::Cow, collections::HashSet};

use super::{AnswerPart, Delta, Deltas, ErrorKind, History, ModelAnswer, ModelError, halves::Halves};
use crate::{
    words::ids::{CallId, Millis},
    words::message::Span,
};

/// The most calls of one answer. A model that asks for more is out of control.
pub(crate) const CALLS_MAX: usize = 1024;

/// The parts that have arrived.
pub(crate) struct Assembly<'a> {
    pub(crate) parts: Vec<AnswerPart>,
    /// Where every piece goes first.
    deltas: &'a mut dyn Deltas,
    ids: CallIds,
    calls: u32,
    /// Whether a thought is not complete yet. It is always the last part.
    thinking: bool,
    /// Joins the halves of characters, in an answer that has some: with the place of the part that the newest piece went to.
    halves: Option<(usize, Halves)>,
}

#[cfg_attr(not(feature = "_wire"), allow(dead_code, reason = "the scripted model needs less than the wires"))]
impl<'a> Assembly<'a> {
    /// An empty answer. `history` is that of the request; call ids are made unique within it.
    pub(crate) fn new(history: &History, deltas: &'a mut dyn Deltas) -> Assembly<'a> {
        Assembly { parts: Vec::new(), deltas, ids: CallIds::new(history), calls: 0, thinking: false, halves: None }
    }

    /// More text. Text that follows text continues it, unless a provider has put something next to that.
    pub(crate) fn text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.end_reasoning();
        if !matches!(self.parts.last(), Some(AnswerPart::Text { extra: None, .. })) {
            self.parts.push(AnswerPart::Text { text: String::new(), extra: None });
        }
        self.add(self.parts.len() - 1, text);
    }

    /// The answer has halves of characters, marked by their stand-ins.
    pub(crate) fn has_halves(&mut self) {
        self.halves.get_or_insert_default();
    }

    /// Adds a piece to the text, thought or call at that place, and shows it.
    fn add(&mut self, place: usize, piece: &str) {
        let piece = match &mut self.halves {
            None => Cow::Borrowed(piece),
            Some((newest, halves)) if *newest == place => halves.join(piece),
            Some((newest, halves)) => {
                let (before, lost) = (std::mem::replace(newest, place), halves.end());
                let piece = halves.join(piece);
                lost.iter().for_each(|lost| self.show(before, lost.encode_utf8(&mut [0; 4])));
                piece
            }
        };
        self.show(place, &piece);
    }

    fn show(&mut self, place: usize, piece: &str) {
        if piece.is_empty() {
            return;
        }
        let before = &self.parts[..place.min(self.parts.len())];
        let index = before.iter().filter(|part| matches!(part, AnswerPart::Call { .. })).count();
        let Some(part) = self.parts.get_mut(place) else { return };
        let (text, delta) = match part {
            AnswerPart::Text { text, .. } => (text, Delta::Text(piece.to_owned())),
            AnswerPart::Reasoning { text, .. } => (text, Delta::Reasoning(piece.to_owned())),
            AnswerPart::Call { input, .. } => {
                let index = u32::try_from(index).unwrap_or(u32::MAX);
                (input, Delta::CallInput { index, text: piece.to_owned() })
            }
        };
        self.deltas.delta(delta);
        text.push_str(piece);
    }

    /// Begins a thought, unless one has begun, and returns its place among the parts.
    pub(crate) fn start_reasoning(&mut self) -> usize {
        if !self.thinking {
            self.thinking = true;
            let time = Span { start: Millis::now(), end: None };
            self.parts.push(AnswerPart::Reasoning { text: String::new(), time, extra: None });
            self.deltas.delta(Delta::ReasoningStarted);
        }
        self.parts.len() - 1
    }

    /// More of a thought; begins one where none has begun.
    pub(crate) fn reasoning(&mut self, more: &str) {
        if more.is_empty() {
            return;
        }
        let place = self.start_reasoning();
        self.add(place, more);
    }

    /// The thought is complete.
    pub(crate) fn end_reasoning(&mut self) {
        if std::mem::take(&mut self.thinking) {
            if let Some(AnswerPart::Reasoning { time, .. }) = self.parts.last_mut() {
                time.end = Some(Millis::now());
            }
            self.deltas.delta(Delta::ReasoningEnded);
        }
    }

    /// Adds a thought that is not shown, whole.
    #[cfg(any(feature = "anthropic", feature = "gemini"))]
    pub(crate) fn hidden_reasoning(&mut self, extra: crate::words::message::Extra) {
        self.end_reasoning();
        let now = Millis::now();
        let time = Span { start: now, end: Some(now) };
        self.parts.push(AnswerPart::Reasoning { text: String::new(), time, extra: Some(extra) });
    }

    /// Begins a call and returns its place among the parts.
    pub(crate) fn start_call(&mut self, given_id: &str, name: &str) -> Result<usize, ModelError> {
        if self.calls as usize >= CALLS_MAX {
            return Err(ModelError::new(
                ErrorKind::AnswerTooLarge,
                format!("one answer has more than {CALLS_MAX} calls"),
            ));
        }
        self.end_reasoning();
        let id = self.ids.unique(given_id);
        self.deltas.delta(Delta::CallPending { index: self.calls, id: id.clone(), name: name.to_owned() });
        self.calls += 1;
        self.parts.push(AnswerPart::Call { id, name: name.to_owned(), input: String::new(), extra: None });
        Ok(self.parts.len() - 1)
    }

    /// More of the arguments of the call at that place.
    pub(crate) fn call_input(&mut self, place: usize, more: &str) {
        if !more.is_empty() {
            self.add(place, more);
        }
    }

    /// All parts; the answer is complete.
    pub(crate) fn finish(mut self) -> Vec<AnswerPart> {
        if let Some((place, mut halves)) = self.halves.take() {
            halves.end().iter().for_each(|lost| self.show(place, lost.encode_utf8(&mut [0; 4])));
        }
        self.end_reasoning();
        self.parts
    }
}

/// Gives each call an id that no other call of the history and of this answer has.
///
/// Providers differ: some send no id, some send the same id for each call, some count from 0 in every answer. A missing id
/// becomes `call_<n>`, where n counts the earlier calls of the history and of this answer. A taken id gets a suffix: `_2`, `_3` …
struct CallIds {
    /// Read only when the answer has a call.
    history: Option<History>,
    taken: HashSet<String>,
}

impl CallIds {
    fn new(history: &History) -> CallIds {
        CallIds { history: Some(history.clone()), taken: HashSet::new() }
    }

    fn unique(&mut self, given: &str) -> CallId {
        if let Some(history) = self.history.take() {
            self.taken = history.answers().flat_map(calls).map(|(id, _)| id.as_str().to_owned()).collect();
        }
        let given = given.trim();
        let (stem, mut n, mut id) = match given {
            "" => ("call", self.taken.len(), format!("call_{}", self.taken.len())),
            given => (given, 1, given.to_owned()),
        };
        while self.taken.contains(&id) {
            n += 1;
            id = format!("{stem}_{n}");
        }
        self.taken.insert(id.clone());
        id.into()
    }
}

/// The calls of an answer, in their order.
pub(crate) fn calls(answer: &ModelAnswer) -> impl Iterator<Item = (&CallId, &str)> {
    answer.parts.iter().filter_map(|part| match part {
        AnswerPart::Call { id, name, .. } => Some((id, name.as_str())),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;
    use crate::{model::Item, words::message::Finish};

    /// V11
    #[test]
    fn call_ids_are_unique_within_the_conversation() {
        let call = |id: &str| AnswerPart::Call { id: id.into(), name: "t".into(), input: "{}".into(), extra: None };
        let before = ModelAnswer::new(vec![call("call_0"), call("x")], Finish::ToolCalls);
        let history: History = [Item::Assistant(before)].into_iter().collect();
        let mut ids = CallIds::new(&history);
        let given = ["", "x", "x", "", "y", "call_0"];
        let unique: Vec<String> = given.iter().map(|id| ids.unique(id).as_str().to_owned()).collect();
        assert_eq!(unique, ["call_2", "x_2", "x_3", "call_5", "y", "call_0_2"]);
    }

    #[test]
    fn a_call_may_not_be_one_too_many() {
        let mut deltas = |_: Delta| {};
        let history = History::default();
        let mut assembly = Assembly::new(&history, &mut deltas);
        for _ in 0..CALLS_MAX {
            assembly.start_call("", "t").unwrap();
        }
        assert_eq!(assembly.start_call("", "t").unwrap_err().kind, ErrorKind::AnswerTooLarge);
    }
}
