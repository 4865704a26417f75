//! A session's mailbox: what waits for its actor, in order, and what the actor does next. A plain value, without a lock, a clock or
//! a disk; the actor and the simulator drive the same one.
//!
//! An input stays here until the tape has what was decided about it. So a crash, a panic of an engine, a full disk and a slow one are
//! one case: the input is still here.
//!
//! ```text
//!   command, report ──► waiting ── next ──► in hand ── handed_over ──► in flight ── recorded ──► gone, its sender is answered
//!                          ▲                   │                          │
//!                          └─── refused, or the incarnation died ─────────┘
//! ```
//!
//! **What one append takes**: what waits, up to 64 inputs and 1 MiB. Commands come in the order of their arrival, then reports; reports
//! that came before a stop are taken before it. What begins an anchor stands alone, and so does an input that was too large beside
//! others, or that an incarnation died over.
//!
//! **Where the disk refuses**, commands are answered so and go; stops and reports stay and are tried again. What a stop stops is
//! stopped at once, whatever the disk does.
//!
//! **No poison**: a command over which two incarnations died is answered [`CommandEnd::Crashed`], a report becomes a failure of its
//! ticket.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::{
    ids::{CommandId, MessageId, Millis, Seq},
    message::{ErrorReason, Finish},
    model::{Answer, AnswerPart, ErrorKind, ModelError},
    session::{
        Abort, Command, Down, DownReason, End, INBOX_QUEUED_MAX, INBOX_STEERING_MAX, Input, NoSummary, Reply, ReplyTo,
        Report, State,
    },
    tape::TapeError,
    tool::{Changes, ToolResult},
};

/// Commands that add work and may wait here.
const COMMANDS_MAX: usize = INBOX_STEERING_MAX + INBOX_QUEUED_MAX;

/// Commands of every kind that may wait here, those included that stop or answer: more than anybody means, and a bound for whoever
/// repeats an abort while a disk refuses.
const COMMANDS_OF_ALL_KINDS_MAX: usize = 4 * COMMANDS_MAX;

/// Inputs of one append, at most.
pub const BATCH_MAX: usize = 64;

/// Bytes of the inputs of one append, about, where it is more than one.
const BATCH_BYTES_MAX: usize = 1024 * 1024;

/// How long after a refusal of the disk what stays is tried again.
const REFUSED_WAIT: Duration = Duration::from_millis(500);

/// How many incarnations may die over an input before it is taken for the cause.
const DEATHS_MAX: u8 = 2;

/// How much of words that somebody else chose the length of is kept where the whole does not fit.
const WORDS_BYTES_MAX: usize = 64 * 1024;

/// See the module.
#[derive(Debug, Default)]
pub struct Mailbox {
    /// By the number of their arrival.
    waiting: BTreeMap<u64, Waiting>,
    arrivals: u64,
    hand: Option<Hand>,
    incarnation: u32,
    /// What this incarnation is told first, until the tape has what follows from it.
    recover: Option<Input>,
    refused: Option<Refused>,
    /// The moment that the core was last told had passed: it is told once of each.
    timed: Option<Millis>,
    /// The same, where only its stops could be carried out.
    stopped: Option<Millis>,
}

#[derive(Debug)]
struct Waiting {
    input: Input,
    /// Whether the disk has refused it before.
    tried: bool,
    /// Whether what it stops was told to stop.
    stopped: bool,
    /// Whether it is decided about alone.
    alone: bool,
    /// How many incarnations died over it.
    deaths: u8,
}

/// What is being decided about, or written.
#[derive(Debug)]
struct Hand {
    /// The numbers of their arrival, how often an incarnation died over each, and whether what it stops was told so; nothing for what
    /// follows from the state alone.
    of: Vec<Option<(u64, u8, bool)>>,
    inputs: Arc<Vec<Input>>,
    /// From hand-over to pop: the newest entry, and the replies.
    flight: Option<(Seq, Vec<(ReplyTo, Reply)>)>,
}

#[derive(Debug)]
struct Refused {
    until: Millis,
    error: TapeError,
}

/// What an actor does next.
#[derive(Clone, Debug)]
pub enum Act {
    /// Decides about these, in one append.
    Decide(Arc<Vec<Input>>),
    /// Carries out what it stops, and no more: the record has to wait.
    Stop(Box<Input>),
    /// Nothing.
    Rest,
}

/// What became of a command.
#[derive(Clone, Debug)]
pub enum CommandEnd {
    /// It was decided so, and that is on the tape.
    Decided(Reply),
    /// The disk refused it. It never takes effect.
    NotRecorded(TapeError),
    /// Two incarnations died over it. It never takes effect.
    Crashed,
}

/// Why an input is not taken.
#[derive(Clone, Debug)]
pub enum NotTaken {
    /// So many wait already.
    Full(usize),
    /// The disk is full, and what is open comes first.
    Disk(TapeError),
}

/// A command that was in hand when its actor ended for good.
#[derive(Debug)]
pub struct Left {
    /// Whom to answer.
    pub reply: ReplyTo,
    /// Which message, where it sends one.
    pub message: Option<MessageId>,
    /// What was decided, and the entry through which the tape has that, if it has.
    pub decided: Option<(Seq, Reply)>,
}

impl Waiting {
    fn new(input: Input) -> Waiting {
        Waiting { input, tried: false, stopped: false, alone: false, deaths: 0 }
    }
}

impl Mailbox {
    // ---- what comes in -------------------------------------------------------------------------------------------------

    /// Puts in what somebody wants.
    ///
    /// # Errors
    /// [`NotTaken`]: nothing was taken.
    pub fn command(&mut self, reply: ReplyTo, command: Command, id: Option<CommandId>) -> Result<(), NotTaken> {
        let (depth, adds) = (self.depth(), command.adds_work());
        if reply != ReplyTo::NOBODY && depth >= if adds { COMMANDS_MAX } else { COMMANDS_OF_ALL_KINDS_MAX } {
            return Err(NotTaken::Full(depth));
        }
        let stays = self.waiting.values().any(|waiting| waiting.tried);
        if let Some(refused) = self.refused.as_ref().filter(|refused| adds && stays && refused.error.is_full()) {
            // The disk's reserve is for what stays: it closes what is open.
            return Err(NotTaken::Disk(refused.error.clone()));
        }
        self.put(Waiting::new(Input::Command { reply, command, id }));
        Ok(())
    }

    /// Puts in what a worker of that incarnation reports of its ticket. A report of an earlier incarnation, or a second one of the same
    /// ticket, is dropped: no ticket is worked on twice at a time.
    pub fn report(&mut self, incarnation: u32, ticket: Seq, report: Report) -> bool {
        let is_news = incarnation == self.incarnation && !self.has_report(ticket);
        if is_news {
            self.put(Waiting::new(report.of(ticket)));
        }
        is_news
    }

    fn put(&mut self, waiting: Waiting) {
        self.waiting.insert(self.arrivals, waiting);
        self.arrivals += 1;
    }

    // ---- what is done ---------------------------------------------------------------------------------------------------

    /// What the actor does next, over the state that the tape has.
    pub fn next(&mut self, state: &State, now: Millis) -> Act {
        let due = state.due().filter(|due| *due <= now);
        let must_wait = self.refused.as_ref().is_some_and(|refused| now < refused.until);
        if self.hand.is_some() || (must_wait && self.waiting.values().all(|waiting| waiting.tried)) {
            return self.next_stop(due);
        }
        if let Some(recover) = self.recover.clone() {
            let reports = self.waiting.iter().filter(|(_, waiting)| waiting.input.reported().is_some());
            let reports: Vec<_> = reports.map(|(at, _)| *at).collect();
            return self.take(reports, Some(recover));
        }
        let (batch, is_all) = self.batch();
        let is_news = self.timed != due;
        let timer = due.filter(|_| is_all && is_news).map(|_| Input::Timer);
        if timer.is_some() {
            self.timed = due;
        }
        match batch.is_empty() && timer.is_none() {
            true => Act::Rest,
            false => self.take(batch, timer),
        }
    }

    /// What is to be stopped while the record of it has to wait.
    fn next_stop(&mut self, due: Option<Millis>) -> Act {
        let stop = self.waiting.values_mut().find(|waiting| waiting.input.is_stop() && !waiting.stopped);
        if let Some(stop) = stop {
            stop.stopped = true;
            return Act::Stop(Box::new(stop.input.clone()));
        }
        match due {
            // A limit of time that is over stops what runs.
            Some(_) if self.recover.is_none() && self.stopped != due => {
                self.stopped = due;
                Act::Stop(Box::new(Input::Timer))
            }
            _ => Act::Rest,
        }
    }

    /// What the next append takes, in its order, and whether that is all there is.
    fn batch(&self) -> (Vec<u64>, bool) {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        for at in self.in_order() {
            let waiting = &self.waiting[&at];
            let alone = waiting.alone || waiting.deaths > 0 || waiting.input.stands_alone();
            let size = waiting.input.bytes();
            let fits = batch.len() < BATCH_MAX && bytes + size <= BATCH_BYTES_MAX && !alone;
            if !batch.is_empty() && !fits {
                return (batch, false);
            }
            batch.push(at);
            bytes += size;
            if alone {
                return (batch, false);
            }
        }
        (batch, true)
    }

    /// Commands as they came, then reports; those that came before a stop are before it.
    fn in_order(&self) -> Vec<u64> {
        let (mut order, mut reports) = (Vec::with_capacity(self.waiting.len()), Vec::new());
        for (at, waiting) in &self.waiting {
            match &waiting.input {
                Input::Report { .. } => reports.push(*at),
                input => {
                    if input.is_stop() {
                        order.append(&mut reports);
                    }
                    order.push(*at);
                }
            }
        }
        order.append(&mut reports);
        order
    }

    fn take(&mut self, batch: Vec<u64>, last: Option<Input>) -> Act {
        let (mut of, mut inputs) = (Vec::new(), Vec::new());
        for at in batch {
            let Some(waiting) = self.waiting.remove(&at) else { continue };
            of.push(Some((at, waiting.deaths, waiting.stopped)));
            inputs.push(waiting.input);
        }
        if let Some(last) = last {
            of.push(None);
            inputs.push(last);
        }
        let inputs = Arc::new(inputs);
        self.hand = Some(Hand { of, inputs: inputs.clone(), flight: None });
        Act::Decide(inputs)
    }

    // ---- what became of it -----------------------------------------------------------------------------------------------

    /// What was decided is handed to the tape, through that entry, and will be answered so.
    pub fn handed_over(&mut self, upto: Seq, replies: Vec<(ReplyTo, Reply)>) {
        if let Some(hand) = &mut self.hand {
            hand.flight = Some((upto, replies));
        }
    }

    /// The tape has what was decided, or there was nothing to record: the inputs leave, and their senders are answered.
    pub fn recorded(&mut self) -> Vec<(ReplyTo, Reply)> {
        let Some(hand) = self.hand.take() else { return Vec::new() };
        if recovers(&hand) {
            self.recover = None;
        }
        let (_, replies) = hand.flight.unwrap_or_default();
        self.refused = None;
        replies
    }

    /// The tape does not take what was decided: nothing of it is there, and the state is what it was. Commands are answered so; stops
    /// and reports stay.
    pub fn refused(&mut self, error: &TapeError, now: Millis) -> Vec<(ReplyTo, CommandEnd)> {
        let Some(hand) = self.hand.take() else { return Vec::new() };
        self.timed = None;
        let is_the_inputs = matches!(error, TapeError::TooLarge { .. } | TapeError::AnchorExists { .. });
        let (is_alone, recovers) = (hand.of.len() == 1, recovers(&hand));
        self.put_back(hand, |waiting| match is_the_inputs {
            true => waiting.alone = true,
            false => waiting.tried = true,
        });
        if is_the_inputs && !is_alone && !recovers {
            // Each by itself: the others fit, as far as anybody knows.
            return Vec::new();
        }
        if is_the_inputs {
            return self.make_smaller(error);
        }
        self.refused = Some(Refused { until: now.plus(REFUSED_WAIT), error: error.clone() });
        // What comes behind what the disk refuses is refused as well: tried, it would be recorded out of its order.
        self.give_up(|input| !input.is_stop(), &CommandEnd::NotRecorded(error.clone()))
    }

    /// What is too large for the tape, or wants what it cannot have, is made smaller, or its sender is told.
    fn make_smaller(&mut self, error: &TapeError) -> Vec<(ReplyTo, CommandEnd)> {
        let (bytes, max) = match error {
            TapeError::TooLarge { bytes, max } => (*bytes, *max),
            _ => (0, 0),
        };
        let mut is_smaller = false;
        for waiting in self.waiting.values_mut().filter(|waiting| waiting.alone) {
            if let Some(smaller) = smaller(&waiting.input, bytes, max) {
                (waiting.input, is_smaller) = (smaller, true);
            }
        }
        if is_smaller {
            return Vec::new();
        }
        let mut ends = Vec::new();
        self.waiting.retain(|_, waiting| {
            if !waiting.alone {
                return true;
            }
            ends.extend(waiting.input.reply().map(|reply| (reply, CommandEnd::NotRecorded(error.clone()))));
            let Input::Report { ticket, report } = &waiting.input else { return false };
            // It has nothing left to take away: its ticket fails in a few words, or is left to the next incarnation.
            let failed = failure(report);
            let is_new = failed != *report;
            waiting.input = failed.of(*ticket);
            is_new
        });
        ends
    }

    /// Takes out the commands that are such, and says what became of them.
    fn give_up(&mut self, which: impl Fn(&Input) -> bool, end: &CommandEnd) -> Vec<(ReplyTo, CommandEnd)> {
        let gone = self
            .waiting
            .extract_if(.., |_, waiting| matches!(waiting.input, Input::Command { .. }) && which(&waiting.input));
        gone.filter_map(|(_, waiting)| waiting.input.reply()).map(|reply| (reply, end.clone())).collect()
    }

    fn put_back(&mut self, hand: Hand, change: impl Fn(&mut Waiting)) {
        let inputs = Arc::try_unwrap(hand.inputs).unwrap_or_else(|inputs| (*inputs).clone());
        for (of, input) in hand.of.into_iter().zip(inputs) {
            let Some((at, deaths, stopped)) = of else { continue };
            let mut waiting = Waiting { deaths, stopped, ..Waiting::new(input) };
            change(&mut waiting);
            self.waiting.insert(at, waiting);
        }
    }

    // ---- incarnations ----------------------------------------------------------------------------------------------------

    /// An incarnation begins, over a tape that ends there, and is told to recover so. What its predecessor had in hand is there again; what the tape has is
    /// answered as it was decided. Gives the answers.
    pub fn begin(&mut self, incarnation: u32, recover: Input, last: Seq) -> Vec<(ReplyTo, CommandEnd)> {
        self.incarnation = incarnation;
        (self.recover, self.timed, self.stopped, self.refused) = (Some(recover), None, None, None);
        let mut ends = Vec::new();
        match self.hand.take() {
            Some(Hand { flight: Some((upto, replies)), .. }) if upto <= last => {
                ends.extend(replies.into_iter().map(|(to, reply)| (to, CommandEnd::Decided(reply))));
            }
            Some(hand) => self.put_back(hand, |waiting| waiting.deaths += 1),
            None => {}
        }
        for waiting in self.waiting.values_mut() {
            (waiting.tried, waiting.stopped) = (false, false);
            if waiting.deaths >= DEATHS_MAX
                && let Input::Report { ticket, report } = &waiting.input
            {
                waiting.input = failure(report).of(*ticket);
                waiting.deaths = 0;
            }
        }
        let poison = self.waiting.extract_if(.., |_, waiting| waiting.deaths >= DEATHS_MAX);
        ends.extend(poison.filter_map(|(_, waiting)| waiting.input.reply()).map(|to| (to, CommandEnd::Crashed)));
        ends
    }

    /// Takes out the commands that nobody has in hand: whom to answer. Reports stay for the next incarnation.
    pub fn take_waiting(&mut self) -> Vec<ReplyTo> {
        let gone = self.waiting.extract_if(.., |_, waiting| matches!(waiting.input, Input::Command { .. }));
        gone.filter_map(|(_, waiting)| waiting.input.reply()).collect()
    }

    /// Takes out the commands that are in hand: its actor does not come back.
    pub fn take_hand(&mut self) -> Vec<Left> {
        let Some(hand) = self.hand.take() else { return Vec::new() };
        let (upto, mut replies) = match hand.flight {
            Some((upto, replies)) => (Some(upto), replies),
            None => (None, Vec::new()),
        };
        let left = hand.inputs.iter().filter_map(|input| {
            let (reply, message) = (input.reply()?, input.message().cloned());
            let at = replies.iter().position(|(to, _)| *to == reply);
            let decided = at.and_then(|at| Some((upto?, replies.swap_remove(at).1)));
            Some(Left { reply, message, decided })
        });
        left.collect()
    }

    /// Its sender has waited long enough. Takes the command out where nobody has it in hand, and says whether that is so.
    pub fn withdraw(&mut self, reply: ReplyTo) -> bool {
        self.waiting.extract_if(.., |_, waiting| waiting.input.reply() == Some(reply)).next().is_some()
    }

    // ---- what is shown ---------------------------------------------------------------------------------------------------

    /// The incarnation that has it, or had it last.
    #[must_use]
    pub fn incarnation(&self) -> u32 {
        self.incarnation
    }

    /// How many commands have no answer yet.
    #[must_use]
    pub fn depth(&self) -> usize {
        let in_hand = self.hand.iter().flat_map(|hand| hand.inputs.iter());
        let all = self.waiting.values().map(|waiting| &waiting.input).chain(in_hand);
        all.filter(|input| matches!(input, Input::Command { .. })).count()
    }

    /// Whether nothing waits and nothing is in hand.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.hand.is_none()
    }

    /// How many reports wait.
    #[must_use]
    pub fn reports(&self) -> usize {
        self.waiting.values().filter(|waiting| waiting.input.reported().is_some()).count()
    }

    /// Whether a report of that ticket waits, or is in hand.
    #[must_use]
    pub fn has_report(&self, ticket: Seq) -> bool {
        let in_hand = self.hand.iter().flat_map(|hand| hand.inputs.iter());
        let mut all = self.waiting.values().map(|waiting| &waiting.input).chain(in_hand);
        all.any(|input| input.reported() == Some(ticket))
    }

    /// Whether a stop waits for its record: nothing starts before that.
    #[must_use]
    pub fn stop_waits(&self) -> bool {
        self.waiting.values().any(|waiting| waiting.input.is_stop())
    }

    /// Whether what was decided waits for the tape.
    #[must_use]
    pub fn is_in_flight(&self) -> bool {
        self.hand.as_ref().is_some_and(|hand| hand.flight.is_some())
    }

    /// Why the disk refused last, where something waits for it still.
    #[must_use]
    pub fn refusal(&self) -> Option<&TapeError> {
        self.refused.as_ref().map(|refused| &refused.error)
    }

    /// When it is to be asked again by itself: a moment of the state, or what the disk refused.
    #[must_use]
    pub fn due(&self, state: &State) -> Option<Millis> {
        match &self.refused {
            Some(refused) if !self.waiting.is_empty() || self.recover.is_some() => Some(refused.until),
            _ => state.due().filter(|due| self.timed != Some(*due)),
        }
    }
}

/// Whether an incarnation decides about what it found open.
fn recovers(hand: &Hand) -> bool {
    hand.inputs.iter().any(|input| matches!(input, Input::Recover { .. }))
}

/// The same input, smaller; `None` where it cannot be made so.
fn smaller(input: &Input, bytes: usize, max: usize) -> Option<Input> {
    let too_large = |what: &str| format!("{what} is too large to be recorded: {bytes} bytes, and {max} are the most");
    Some(match input {
        Input::Report { ticket, report } => smaller_report(report, too_large)?.of(*ticket),
        Input::Command { reply, command: Command::Abort(Abort { reason }), id } if reason.len() > WORDS_BYTES_MAX => {
            Input::Command { reply: *reply, command: Abort { reason: kept(reason.clone()) }.into(), id: id.clone() }
        }
        Input::Command { reply, command: Command::End(End { reason }), id } if reason.len() > WORDS_BYTES_MAX => {
            Input::Command { reply: *reply, command: End { reason: kept(reason.clone()) }.into(), id: id.clone() }
        }
        Input::Command { .. } | Input::Timer | Input::Recover { .. } | Input::Look => return None,
    })
}

fn smaller_report(report: &Report, too_large: impl Fn(&str) -> String) -> Option<Report> {
    Some(match report {
        // It ends the turn as an answer that was cut short does. It is not asked for again: the same question gets as large an
        // answer, and this one was paid for.
        Report::Answered { answer, .. } if !is_short(answer) => {
            let text = format!("{}\n[{}]", kept(answer.text()), too_large("the whole answer"));
            let parts = vec![AnswerPart::Text { text, extra: None }];
            let (usage, model) = (answer.usage, answer.model.clone());
            Report::Answered {
                answer: Answer { usage, model, ..Answer::new(parts, Finish::Length) },
                calls: Vec::new(),
            }
        }
        Report::Failed { error } if error.message.len() > WORDS_BYTES_MAX => {
            let message = kept(error.message.clone());
            Report::Failed { error: ModelError { message, ..error.clone() } }
        }
        Report::CutOff { partial, thrown_away } if !partial.is_empty() => {
            Report::CutOff { partial: Vec::new(), thrown_away: *thrown_away }
        }
        Report::Returned { result } if !is_bare(result) => {
            let content = format!("{}\n[{}]", kept(result.content.clone()), too_large("the whole result"));
            let unlisted = result.changes.as_ref().map(|_| too_large("the list of changed files"));
            let changes = unlisted.map(|unlisted| Box::new(Changes { files: Vec::new(), unlisted: Some(unlisted) }));
            Report::Returned { result: ToolResult { error: result.error, changes, ..ToolResult::ok(content) } }
        }
        Report::Summarised { result: Ok((_, usage)), lost } => {
            let none = NoSummary { error: too_large("the summary"), usage: *usage, estimated: None };
            Report::Summarised { result: Err(none), lost: *lost }
        }
        Report::TaskDown { down } if down.text.len() > WORDS_BYTES_MAX => {
            let mut down = down.clone();
            down.text = format!("{}\n[{}]", kept(down.text.to_string()), too_large("the whole text")).into();
            Report::TaskDown { down }
        }
        _ => return None,
    })
}

/// Whether nothing is left to take away.
fn is_bare(result: &ToolResult) -> bool {
    result.content.len() <= WORDS_BYTES_MAX + 1024
        && result.details.is_null()
        && result.title.is_none()
        && result.attachments.is_empty()
        && result.changes.as_ref().is_none_or(|changes| changes.files.is_empty())
}

/// Whether an answer has no more than what is kept of one, and no calls.
fn is_short(answer: &Answer) -> bool {
    let is_text = |part: &AnswerPart| matches!(part, AnswerPart::Text { extra: None, .. });
    answer.parts.iter().all(is_text) && answer.text().len() <= WORDS_BYTES_MAX + 1024
}

/// What is kept of words that somebody else chose the length of: the first 64 KiB.
pub(crate) fn kept(mut words: String) -> String {
    words.truncate(words.floor_char_boundary(WORDS_BYTES_MAX));
    words
}

/// What a report becomes that incarnations die over: its ticket has failed, and nothing more is said.
fn failure(report: &Report) -> Report {
    let why = "the session crashed twice over what came of it";
    match report {
        Report::Answered { .. } | Report::Failed { .. } | Report::CutOff { .. } => {
            Report::Failed { error: ModelError::new(ErrorKind::Crashed, why) }
        }
        Report::Returned { .. } => Report::Returned { result: ToolResult::failed(ErrorReason::Unknown, why) },
        Report::Summarised { lost, .. } => Report::Summarised { result: Err(why.into()), lost: *lost },
        Report::TaskDown { .. } => {
            Report::TaskDown { down: Down::without_a_word(DownReason::Lost { error: why.to_owned() }) }
        }
        Report::TaskLeft => Report::TaskLeft,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;
    use crate::{ids::Seq, message::FilePart};

    fn state() -> State {
        let settings = crate::session::Settings::new("/w", "fake/model".parse().unwrap());
        State::new("s".parse().unwrap(), settings, Millis(0))
    }

    /// A mailbox whose incarnation has recovered.
    fn awake() -> Mailbox {
        let mut mailbox = Mailbox::default();
        mailbox.begin(1, Input::recover(), Seq(1));
        assert!(matches!(mailbox.next(&state(), Millis(0)), Act::Decide(inputs) if inputs[..] == [Input::recover()]));
        mailbox.recorded();
        mailbox
    }

    fn pause(to: u64) -> Input {
        crate::session::Pause.to(ReplyTo(to))
    }

    fn abort(to: u64) -> Input {
        Abort { reason: String::new() }.to(ReplyTo(to))
    }

    fn done(ticket: u64) -> Input {
        Report::Returned { result: ToolResult::ok("done") }.of(Seq(ticket))
    }

    fn put(mailbox: &mut Mailbox, inputs: &[Input]) {
        for input in inputs.iter().cloned() {
            match input {
                Input::Command { reply, command, id } => mailbox.command(reply, command, id).unwrap(),
                Input::Report { ticket, report } => assert!(mailbox.report(1, ticket, report)),
                _ => panic!("it comes by itself"),
            }
        }
    }

    fn decides(mailbox: &mut Mailbox) -> Vec<Input> {
        match mailbox.next(&state(), Millis(0)) {
            Act::Decide(inputs) => inputs.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    fn disk() -> TapeError {
        TapeError::MemoryFull { of: "bytes", max: 0 }
    }

    /// Commands in the order of their arrival, then reports; those that came before a stop are taken before it.
    #[test]
    fn one_append_takes_what_waits_in_its_order() {
        let mut mailbox = awake();
        put(&mut mailbox, &[done(4), pause(1), done(5), pause(2)]);
        assert_eq!(decides(&mut mailbox), [pause(1), pause(2), done(4), done(5)]);
        mailbox.recorded();
        put(&mut mailbox, &[done(4), pause(1), abort(2), done(5), pause(3)]);
        assert_eq!(decides(&mut mailbox), [pause(1), done(4), abort(2), pause(3), done(5)]);
    }

    /// No append takes more than 64 inputs, or 1 MiB of them; what begins an anchor stands alone.
    #[test]
    fn one_append_takes_so_much_and_no_more() {
        let mut mailbox = awake();
        (1..=100).for_each(|to| put(&mut mailbox, &[pause(to)]));
        assert_eq!(decides(&mut mailbox).len(), BATCH_MAX);
        mailbox.recorded();
        assert_eq!(decides(&mut mailbox).len(), 100 - BATCH_MAX);
        mailbox.recorded();
        let large = Report::Returned { result: ToolResult::ok("x".repeat(BATCH_BYTES_MAX)) };
        put(&mut mailbox, &[pause(1), large.clone().of(Seq(4)), done(5)]);
        assert_eq!(decides(&mut mailbox), [pause(1)]);
        mailbox.recorded();
        assert_eq!(decides(&mut mailbox), [large.of(Seq(4))]);
        mailbox.recorded();
        let anchor = crate::session::BeginAnchor.to(ReplyTo::NOBODY);
        put(&mut mailbox, &[anchor.clone(), pause(2)]);
        mailbox.recorded();
        assert_eq!(decides(&mut mailbox), [anchor]);
    }

    /// Even aborts have a bound, far above that of what adds work.
    #[test]
    fn even_aborts_have_a_bound() {
        let mut mailbox = awake();
        let abort = || Abort { reason: String::new() };
        let taken = (1..10_000).take_while(|to| mailbox.command(ReplyTo(*to), abort().into(), None).is_ok()).count();
        assert_eq!(taken, COMMANDS_OF_ALL_KINDS_MAX);
    }

    /// Where the disk refuses, commands are told and go; stops and reports stay, and are tried again when it is time.
    #[test]
    fn what_the_disk_refuses_is_told_or_stays() {
        let mut mailbox = awake();
        put(&mut mailbox, &[pause(1), abort(2), done(4)]);
        decides(&mut mailbox);
        put(&mut mailbox, &[pause(3)]);
        let told: Vec<_> = mailbox.refused(&disk(), Millis(0)).into_iter().map(|(to, _)| to).collect();
        assert_eq!(told, [ReplyTo(1), ReplyTo(3)]);
        assert!(
            matches!(mailbox.next(&state(), Millis(0)), Act::Stop(stop) if *stop == abort(2)) || mailbox.stop_waits()
        );
        assert!(matches!(mailbox.next(&state(), Millis(1)), Act::Rest));
        assert_eq!(mailbox.due(&state()), Some(Millis(500)));
        let Act::Decide(again) = mailbox.next(&state(), Millis(500)) else { panic!("it is time") };
        assert_eq!(again[..], [abort(2), done(4)]);
    }

    /// On a full disk what adds work is not even tried while something stays: the reserve is for that.
    #[test]
    fn a_full_disk_takes_no_new_work_while_something_stays() {
        let mut mailbox = awake();
        put(&mut mailbox, &[done(4)]);
        decides(&mut mailbox);
        assert!(mailbox.refused(&disk(), Millis(0)).is_empty());
        let message = crate::message::Message::user("go");
        let send = crate::session::SendMessage { message, delivery: Default::default(), expect_turn: None };
        assert!(matches!(mailbox.command(ReplyTo(1), send.into(), None), Err(NotTaken::Disk(_))));
        put(&mut mailbox, &[abort(2)]);
    }

    /// One report a ticket, of the incarnation that is.
    #[test]
    fn a_report_names_its_incarnation_and_comes_once() {
        let mut mailbox = awake();
        let report = || Report::TaskLeft;
        assert!(!mailbox.report(0, Seq(4), report()) && mailbox.report(1, Seq(4), report()));
        assert!(!mailbox.report(1, Seq(4), report()));
    }

    /// A report over which two incarnations died becomes a failure of its ticket, and is decided about alone.
    #[test]
    fn a_poisonous_report_becomes_a_failure_of_its_ticket() {
        let mut mailbox = awake();
        put(&mut mailbox, &[done(4), done(5)]);
        decides(&mut mailbox);
        mailbox.begin(2, Input::recover(), Seq(1));
        assert_eq!(decides(&mut mailbox).len(), 3, "with the recovery");
        mailbox.begin(3, Input::recover(), Seq(1));
        let inputs = decides(&mut mailbox);
        assert!(inputs[..2].iter().all(|input| format!("{input:?}").contains("crashed twice")), "{inputs:?}");
    }

    /// What was handed over and is on the tape is answered as it was decided; what is not there is decided again.
    #[test]
    fn the_tape_says_what_became_of_what_was_in_flight() {
        for (last, is_there) in [(Seq(7), true), (Seq(6), false)] {
            let mut mailbox = awake();
            put(&mut mailbox, &[pause(1)]);
            decides(&mut mailbox);
            mailbox.handed_over(Seq(7), vec![(ReplyTo(1), Ok(crate::session::Held::Done(Seq(7))))]);
            assert!(mailbox.is_in_flight());
            assert_eq!(mailbox.begin(2, Input::recover(), last).len(), usize::from(is_there));
            assert_eq!(mailbox.depth(), usize::from(!is_there));
        }
    }

    /// However often it is too large, it is bare at some time, and then there is nothing smaller.
    #[test]
    fn a_result_is_made_smaller_once_and_keeps_its_words() {
        let mut result = ToolResult::error("é".repeat(WORDS_BYTES_MAX)).with_details("x".into()).with_title("t");
        result.attachments = vec![FilePart::inline("image/png", None, &[0; 9])];
        result.changes = Some(Box::default());
        let Some(Input::Report { report: Report::Returned { result: small }, .. }) =
            smaller(&Report::Returned { result: result.clone() }.of(Seq(4)), 99, 9)
        else {
            panic!("it is made smaller")
        };
        assert!(small.content.starts_with("éé") && small.content.ends_with("99 bytes, and 9 are the most]"));
        assert_eq!((small.error, small.attachments.len()), (result.error, 0));
        assert!(small.changes.as_ref().unwrap().unlisted.is_some());
        assert_eq!(smaller(&Report::Returned { result: *Box::new(small) }.of(Seq(4)), 99, 9), None);
        assert_eq!(smaller(&Input::Timer, 99, 9), None);
    }
}
