//! What a list shows of a session: its title, its agent, what it used. A fold of lines, apart from the state. It can be stored
//! after any line, and continued from its stored form.
//!
//! The caller must pass only the lines of the session's own files, from the first one on, in order: [`Digest::take`] does not check
//! this. A fork's digest names the parent, and the parent's lines must not count for the fork. A line that this version does not
//! understand is passed over, so no line makes a list fail.
//!
//! The stored form is part of a row of the index and can be rebuilt at any time. After a change of the form, or of what the fold
//! computes, raise the `FORM` in `ops/listing/rows.rs`. [`PASSED_OVER`] must not name a kind of entry that this fold or the bill in
//! it (`bill.rs`) needs.

use serde::{Deserialize, Serialize};

use crate::{
    kernel::{AgentChoice, Entry, Record, Settings, Spent, budget::bill::Unsettled},
    tape,
    words::{
        ids::{MessageId, Seq, SessionId},
        message::{Message, ModelRef},
    },
};

/// The longest title that a host may set, in characters.
const TITLE_CHARS_MAX: usize = 200;

/// The longest title made from the first words of a message, in characters.
const WORDS_CHARS_MAX: usize = 60;

/// Kinds of entries that may be large and are not parsed, because they change no digest.
const PASSED_OVER: &[&str] = &["result", "call", "call_started", "pruned", "granted", "ask"];

/// What a list shows of a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Digest {
    /// The title that the host set.
    title: Option<String>,
    /// The first message that was delivered, and the words that it begins with.
    first: Option<(MessageId, String)>,
    /// Until one was delivered: the messages that wait, oldest first. Each may be taken back.
    waiting: Vec<(MessageId, String)>,
    pub(crate) agent: Option<String>,
    /// The model of the agent that is in force.
    pub(crate) model: Option<ModelRef>,
    /// The session's own agent, and its model, which an agent without a model of its own has too.
    own: Option<(String, ModelRef)>,
    /// The model of the agent that was chosen last, and is in force from the next switch on.
    chosen_model: Option<ModelRef>,
    pub(crate) workspace: Option<String>,
    /// What the session itself used, its children not counted. Requests, tokens and cost are those of the newest line; the other
    /// figures (calls, time and so on) are those of the newest anchor.
    pub(crate) spent: Spent,
    /// What its ended tasks and merged forks used.
    pub(crate) spent_by_tasks: Spent,
    pub(crate) origin: Option<Parent>,
    pub(crate) ended: bool,
    /// The open requests. Closed requests are counted in `spent`.
    bill: Unsettled,
}

/// The session that a session comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Parent {
    /// It is a fork: it goes on from an entry of another session.
    ForkOf {
        /// The session.
        session: SessionId,
        /// The entry.
        seq: Seq,
    },
    /// It is a child: it does a task of another session.
    TaskOf {
        /// The session.
        session: SessionId,
        /// The ticket of the task, on the parent's tape.
        ticket: Seq,
    },
}

impl Parent {
    /// The session.
    #[must_use]
    pub fn session(&self) -> &SessionId {
        match self {
            Parent::ForkOf { session, .. } | Parent::TaskOf { session, .. } => session,
        }
    }
}

impl Digest {
    /// The digest of these lines.
    pub(crate) fn of<'l>(lines: impl IntoIterator<Item = &'l tape::TapeEntry>) -> Digest {
        let mut digest = Digest::default();
        lines.into_iter().for_each(|line| digest.take(line));
        digest
    }

    /// Takes the next line of the tape. What this version does not understand is passed over.
    pub(crate) fn take(&mut self, line: &tape::TapeEntry) {
        if PASSED_OVER.contains(&line.kind.as_str()) {
            return;
        }
        let Ok(entry) = Entry::from_tape(line) else { return };
        self.bill.apply(&entry).into_iter().for_each(|line| self.spent += line.charge);
        match &entry.record {
            Record::State(state) => {
                self.settle(&state.settings);
                self.chosen_model = state.next_agent.as_ref().and_then(|choice| self.model_of(choice));
                // The state holds the sum of everything before it.
                (self.spent, self.spent_by_tasks) = (state.spent, state.spent_by_tasks);
                self.origin = match (&state.origin, self.origin.take()) {
                    (Some(origin), _) => Some(Parent::TaskOf { session: origin.parent.clone(), ticket: origin.ticket }),
                    (None, before @ Some(Parent::ForkOf { .. })) => before,
                    (None, _) => None,
                };
            }
            Record::Settings(settings) => self.settle(settings),
            Record::Adopted { tie, .. } => {
                self.origin = Some(Parent::TaskOf { session: tie.parent.clone(), ticket: tie.ticket });
            }
            Record::Forked(forked) => {
                self.origin = Some(Parent::ForkOf { session: forked.parent.clone(), seq: forked.seq });
                // What was used before is the parent's.
                (self.spent, self.spent_by_tasks) = Default::default();
            }
            Record::Imported(imported) => {
                // Keep the origin only for a fork that begins with this import.
                let begins = |seq: Seq| entry.seq == Seq(seq.0.saturating_add(2));
                self.origin = self.origin.take().filter(|of| matches!(of, Parent::ForkOf { seq, .. } if begins(*seq)));
                self.workspace = Some(imported.workspace.clone());
                // The agent that it was switched to stays behind.
                (self.agent, self.model) = self.own.clone().unzip();
            }
            Record::Accepted { message, .. } if self.first.is_none() => self.waiting.extend(words(message)),
            // The message still waits, so the model will read the edited words.
            Record::Edited { message } => {
                if let Some(at) = self.waiting.iter().position(|(id, _)| *id == message.id) {
                    self.waiting.splice(at..=at, words(message));
                }
            }
            Record::Withdrawn { id } => self.waiting.retain(|(waiting, _)| waiting != id),
            Record::Delivered { ids } => {
                if let Some(at) = self.waiting.iter().position(|(id, _)| ids.contains(id)) {
                    self.first = Some(self.waiting.swap_remove(at));
                    self.waiting.clear();
                }
            }
            Record::AgentChosen { choice, .. } => self.chosen_model = self.model_of(choice),
            Record::AgentSwitched { agent } => {
                self.agent = Some(agent.clone());
                self.model = self.chosen_model.take().or(self.model.take());
            }
            Record::TaskStarted { .. } => self.spent.tasks = self.spent.tasks.saturating_add(1),
            Record::TaskFinished { down, .. } => {
                self.spent_by_tasks += down.spent.unwrap_or_else(Spent::unknown);
            }
            Record::TaskLeft {} => self.spent_by_tasks += Spent::unknown(),
            Record::Merged(merged) => self.spent_by_tasks += merged.spent,
            Record::Ended { .. } => self.ended = true,
            _ => {}
        }
    }

    fn settle(&mut self, settings: &Settings) {
        self.title = settings.title.as_deref().map(|title| plain(title, TITLE_CHARS_MAX)).filter(|t| !t.is_empty());
        self.agent = Some(settings.agent.clone());
        self.model = Some(settings.model.clone());
        let own = settings.switched.as_ref().and_then(|s| Some((s.own.agent.clone(), s.own.model.clone()?)));
        self.own = Some(own.unwrap_or_else(|| (settings.agent.clone(), settings.model.clone())));
        self.workspace = Some(settings.workspace.clone());
    }

    fn model_of(&self, choice: &AgentChoice) -> Option<ModelRef> {
        let of_its_own = match choice {
            AgentChoice::Own => None,
            AgentChoice::Other(parts) => parts.model.as_ref(),
        };
        of_its_own.or(self.own.as_ref().map(|(_, model)| model)).cloned()
    }

    /// The title that the host set, else the first words of the first message that was delivered or waits.
    pub(crate) fn title(&self) -> Option<&str> {
        let first = self.first.as_ref().or(self.waiting.first());
        self.title.as_deref().or(first.map(|(_, words)| words.as_str()))
    }
}

/// The words that a message begins with; `None` if it has none, so that the next message can give the title.
fn words(message: &Message) -> Option<(MessageId, String)> {
    let words = plain(&message.text(), WORDS_CHARS_MAX);
    (!words.is_empty()).then(|| (message.id.clone(), words))
}

/// A text as one line: white space becomes one blank, control characters are left out, and a long text is cut between words.
fn plain(text: &str, chars_max: usize) -> String {
    let visible = |word: &str| word.chars().filter(|c| !c.is_control()).take(chars_max + 1).collect::<String>();
    let words = text.split_whitespace().map(visible).filter(|word| !word.is_empty());
    let line = words.take(chars_max + 1).collect::<Vec<_>>().join(" ");
    let Some((end, next)) = line.char_indices().nth(chars_max) else { return line };
    let end = if next == ' ' { end } else { line[..end].rfind(' ').unwrap_or(end) };
    format!("{}…", &line[..end])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_title_is_one_line_of_whole_words() {
        for (text, expected) in [
            ("  Mend the\n\tbuild ", "Mend the build"),
            ("", ""),
            ("\u{1b}[31mred\u{7}", "[31mred"),
            (&"word ".repeat(20), "word word word word word word word word word word word word…"),
            (&"字".repeat(70), &format!("{}…", "字".repeat(60))),
        ] {
            assert_eq!(plain(text, WORDS_CHARS_MAX), expected);
        }
    }

    #[test]
    fn the_first_message_that_says_something_is_the_title_until_the_host_sets_one() {
        let mut digest = Digest::default();
        let mut settings = Settings::new("/srv", "x/y".parse().unwrap());
        let line = |seq: u64, record: Record| {
            let at = Seq(seq);
            let entry = Entry {
                seq: at,
                time: crate::Millis(seq),
                cause: None,
                turn: None,
                step: None,
                ticket: None,
                input: None,
                record,
            };
            entry.to_tape().unwrap()
        };
        let accepted = |id: &str, text: &str| {
            let message = Message { id: id.into(), ..Message::user(text) };
            Record::Accepted { message: message.into(), delivery: crate::Delivery::Queue, agent: None, added: 0 }
        };
        digest.take(&line(1, accepted("a", " ")));
        assert_eq!(digest.title(), None);
        digest.take(&line(2, accepted("b", "second")));
        digest.take(&line(3, accepted("c", "third")));
        assert_eq!(digest.title(), Some("second"));
        let edited = Message { id: "b".into(), ..Message::user("changed") };
        digest.take(&line(4, Record::Edited { message: edited.into() }));
        assert_eq!(digest.title(), Some("changed"));
        settings.title = Some("A  name".into());
        digest.take(&line(5, Record::Settings(Box::new(settings.clone()))));
        assert_eq!((digest.title(), digest.agent.as_deref()), (Some("A name"), Some("build")));
        let written = serde_json::to_string(&digest).unwrap();
        assert_eq!(serde_json::from_str::<Digest>(&written).unwrap(), digest);
        settings.title = None;
        digest.take(&line(6, Record::Settings(Box::new(settings))));
        assert_eq!(digest.title(), Some("changed"));
        for (seq, id, title) in [(7, "b", Some("third")), (8, "c", None)] {
            digest.take(&line(seq, Record::Withdrawn { id: id.into() }));
            assert_eq!(digest.title(), title, "a message that waits behind one that was taken back gives the title");
        }
        digest.take(&line(9, accepted("d", "fourth")));
        digest.take(&line(10, accepted("e", "fifth")));
        let edited = Message { id: "d".into(), ..Message::user(" ") };
        digest.take(&line(11, Record::Edited { message: edited.into() }));
        assert_eq!(digest.title(), Some("fifth"));
        digest.take(&line(12, accepted("f", "sixth")));
        digest.take(&line(13, Record::Delivered { ids: vec!["f".into()] }));
        digest.take(&line(14, Record::Withdrawn { id: "e".into() }));
        digest.take(&line(15, accepted("g", "seventh")));
        assert_eq!((digest.title(), digest.waiting.len()), (Some("sixth"), 0), "a delivered message keeps the title");
    }
}
