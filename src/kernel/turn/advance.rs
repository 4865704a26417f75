//! What happens next: the agent's loop (steps of a turn, turns of a session), as a function that runs until nothing more follows.
//! Also the commands that steer the loop: abort, go on, pause, resume.
//!
//! ```text
//! idle ──queued message──► turn begins ──► request ──answer──► calls? ──yes──► run them, record results ─┐
//!   ▲                                        ▲                  │ no                                    │
//!   │                                        └── next step ◄────┼── steering waits ◄────────────────────┘
//!   └──────────── turn ends, next queued message ◄──────────────┘
//! ```
//!
//! [`advance`] decides from the state, the time and `Env`, and not from the input that came. So after a crash it continues from the
//! same place. It starts no worker: it opens tickets, and `due.rs` says which of them need one.
//!
//! A change must keep this: each pass of the loop writes an entry or ends the loop, or it would never end. The hash of a request
//! covers all that determines the request, because a repeated request must have the same bytes.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    kernel::{
        CallState, CarriedOut, Open, Outcome, Record, Refusal, RequestOpened, State, Steering, Stop, Turn,
        budget::spending::{self, Fit},
        children::tasks,
        context::{
            compact::{self, Room},
            fullness,
        },
        draft::{Decide, Draft},
        state::{Next, short_hash},
        turn::{batch, end, inbox, recover, switch, toolset},
    },
    model::ModelAnswer,
    words::{ids::Seq, message::Finish},
};

/// A host ends the running turn.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Abort {
    /// Why, for the record.
    pub reason: String,
    /// The turn that is meant; `None` for whichever runs.
    pub turn: Option<Seq>,
}

impl Decide for Abort {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<CarriedOut, Refusal> {
        draft.state.expects(self.turn)?;
        end::abort(draft, &self.reason);
        Ok(CarriedOut::Done(draft.state.seq))
    }

    fn in_words(&self) -> String {
        "abort".to_owned()
    }

    fn said(&self) -> Option<String> {
        Some(self.reason.clone())
    }

    fn ends_the_turn(&self) -> bool {
        true
    }

    fn is_for(&self, state: Option<&State>) -> Result<bool, Refusal> {
        let (Some(turn), Some(state)) = (self.turn, state) else { return Ok(self.turn.is_none()) };
        match state.expects(self.turn) {
            // The id of a turn is the entry that began it, and no turn begins twice.
            Err(refusal) if state.seq >= turn => Err(refusal),
            expected => Ok(expected.is_ok()),
        }
    }
}

/// A host releases a queue on hold, and lets an interrupted turn go on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GoOn;

impl Decide for GoOn {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<CarriedOut, Refusal> {
        let waited = draft.state.waits;
        // A go-on while a turn is being ended means that the end of the turn must not hold the queue.
        let ending = draft.state.turn.as_ref().is_some_and(|turn| turn.ending.is_some() && !turn.released);
        if draft.state.on_hold || waited || ending {
            draft.write(None, Record::Released {});
        }
        if waited {
            recover::start_again(draft);
        }
        Ok(CarriedOut::Done(draft.state.seq))
    }

    fn in_words(&self) -> String {
        "go on".to_owned()
    }
}

/// A host or operator wants nothing new to start.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pause;

impl Decide for Pause {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<CarriedOut, Refusal> {
        if !draft.state.paused {
            draft.write(None, Record::Paused {});
        }
        Ok(CarriedOut::Done(draft.state.seq))
    }

    fn in_words(&self) -> String {
        "pause".to_owned()
    }
}

/// A host or operator lifts the pause.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Resume;

impl Decide for Resume {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<CarriedOut, Refusal> {
        if draft.state.paused {
            draft.write(None, Record::Resumed {});
        }
        Ok(CarriedOut::Done(draft.state.seq))
    }

    fn in_words(&self) -> String {
        "the pause is over".to_owned()
    }
}

/// The reminder that the model gets on the last step of a turn, in place of tools.
pub(crate) const LAST_STEP_REMINDER: &str = "This is the last step of this turn: no tools can be used any more. \
     Answer with text only: say what is done, what is left to do, and what the user should do next.";
/// The same where the answer must fit a schema.
pub(crate) const LAST_STEP_SHAPED: &str = "This is the last step of this turn: no tools can be used any more. \
     Give your final answer now, as JSON alone.";

/// Writes the entries that follow from the state, until nothing more follows.
pub(in crate::kernel) fn advance(draft: &mut Draft<'_>) {
    if draft.state.closed.is_some() {
        end::wind_up(draft);
    }
    loop {
        if switch::at_border(draft) {
            continue;
        }
        let progressed = match &draft.state.turn {
            None => begin_turn(draft),
            Some(turn) if turn.ending.is_some() => end_what_is_open(draft),
            Some(_) => go_on(draft),
        };
        if !progressed {
            return;
        }
    }
}

fn begin_turn(draft: &mut Draft<'_>) -> bool {
    if draft.state.on_hold || draft.state.paused || draft.state.closed.is_some() {
        return false;
    }
    inbox::deliver_queued(draft)
}

/// Writes the next entries of a running turn. Gives false if nothing more follows before the next input.
fn go_on(draft: &mut Draft<'_>) -> bool {
    if let Some((ticket, request)) = draft.state.request() {
        // While the model streams, only the strongest steering does not wait for the end of the answer.
        if !request.closing && draft.state.strongest_steering() == Some(Steering::AbortRunning) {
            draft.write(Some(ticket), Record::Closing { why: None });
            draft.stop(Stop::Request(ticket));
        }
        return false;
    }
    if let Some((_, wait)) = draft.state.wait() {
        // Our own back-off is cut short by a message; a wait that the server asked for is not.
        let asks = draft.state.budget_ask().is_some();
        if wait.server || draft.state.steering.is_empty() || draft.state.paused || draft.state.waits || asks {
            return false;
        }
        request_again(draft);
        return true;
    }
    if draft.state.calls().next().is_some() {
        return batch::go_on(draft);
    }
    if draft.state.paused || draft.state.waits || draft.state.budget_ask().is_some() {
        return false;
    }
    match draft.state.turn.as_ref().map(|turn| turn.next.clone()) {
        None => return false,
        // A message that steers is read before the turn may end. It never stretches a turn beyond its limit; it begins the next
        // one.
        Some(Next::End(outcome)) if draft.state.has_no_steps_left() || draft.state.steering.is_empty() => {
            finish(draft, outcome)
        }
        Some(_) => match compact::make_room(draft) {
            Room::Awaited => return false,
            Room::Never => {}
            Room::Made => {
                inbox::deliver_steering(draft);
                // Another try where the one before was too large, or another model has the step: it eats no step.
                let tries = |turn: &Arc<Turn>| turn.overflows.saturating_add(turn.tried);
                let before = draft.state.turn.as_ref().map_or(0, tries);
                open_request(draft, before.saturating_add(1));
            }
        },
    }
    true
}

fn finish(draft: &mut Draft<'_>, outcome: Outcome) {
    draft.write(None, Record::TurnFinished { outcome });
}

/// Ends a wait before a retry: the request is made again, with the steering messages that came meanwhile.
fn request_again(draft: &mut Draft<'_>) {
    inbox::deliver_steering(draft);
    let attempt = draft.state.turn.as_ref().map_or(1, |turn| turn.retries.saturating_add(1));
    open_request(draft, attempt);
}

fn open_request(draft: &mut Draft<'_>, attempt: u32) {
    // A message that was just delivered may have brought an agent.
    switch::at_border(draft);
    let Some(turn) = draft.state.turn.clone() else { return };
    let settings = draft.state.settings.clone();
    let step = turn.step.saturating_add(u32::from(attempt == 1));
    let last = settings.steps_max.is_some_and(|max| step >= max.max(1));
    let model = draft.state.model_now().clone();
    let (room, used) = fullness::fullness(draft);
    let wanted = settings.params.max_output.unwrap_or(room.output);
    let by_window = room.answer_max(used, wanted);
    let Some(fit) = spending::for_request(draft, &model, by_window.unwrap_or(wanted)) else { return };
    let Fit { model, price, reserved, output_max, instead } = fit;
    // The model that a budget asks instead stands in no model's place of the chain.
    let fallen = turn.fallen.as_ref().filter(|_| instead.is_none());
    let fallback = fallen.map(|fallen| fallen.why.clone());
    let max_output = output_max.or(by_window);
    let system = short_hash(draft.state.system().as_bytes());
    let tools = match last {
        true => String::new(),
        false => draft.env.toolbox_hash(&draft.state.env).to_owned(),
    };
    let params = serde_json::to_string(&(&settings.params, &turn.tools, &settings.allowed_tools())).unwrap_or_default();
    let masked = if last { BTreeSet::new() } else { masked(draft) };
    let limit = max_output.map(|max| format!("\n{max}")).unwrap_or_default();
    let mask: String = masked.iter().map(|tool| format!("\n-{tool}")).collect();
    let found: String = draft.state.context.found.iter().map(|tool| format!("\n+{tool}")).collect();
    let hash = [&system, &tools, &model.to_string(), &params, &last.to_string(), &draft.state.history_hash];
    let misfit = turn.misfit.as_deref().map(|why| format!("\n?{why}")).unwrap_or_default();
    let hash = short_hash((hash.map(String::as_str).join("\n") + &limit + &mask + &found + &misfit).as_bytes());
    if turn.refused == hash {
        let error = format!(
            "the request takes more than {model} reads at once, and nothing more can be left out of it: send a shorter message, \
             offer fewer tools, or choose a model with a larger window"
        );
        return finish(draft, Outcome::Failed { error });
    }
    let opened = RequestOpened {
        model,
        attempt,
        last,
        items: draft.state.history.len(),
        system,
        tools,
        masked,
        used,
        usable: room.usable(),
        estimated: fullness::estimated(draft),
        price,
        reserved,
        max_output,
        instead,
        fallback,
        hash,
    };
    // The entry changes the turn, which would be copied as long as it is held here.
    drop(turn);
    draft.write(None, Record::Request(opened));
}

/// What the turn does once the calls of an answer are done: the table of [`Finish`].
///
/// `last` is the number of steps, if the turn may make no further step. The outcome is then the step limit for a turn that would
/// have gone on, and for a turn whose model was `at_work` with tools until they were taken away. Any other outcome stays as it is.
pub(in crate::kernel) fn after_answer(answer: &ModelAnswer, last: Option<u32>, at_work: bool) -> Next {
    let calls = answer.calls().next().is_some();
    let failed = |error: &str| Next::End(Outcome::Failed { error: error.to_owned() });
    let next = match (answer.finish, calls) {
        (Finish::ContentFilter, _) => Next::End(Outcome::Refused),
        (_, true) => Next::Step,
        (Finish::Steered, false) => Next::Step,
        (Finish::Stop, false) => Next::End(Outcome::Done),
        (Finish::Length, false) => Next::End(Outcome::CutShort),
        (Finish::ToolCalls, false) => failed("the model announced tool calls and sent none"),
        (Finish::Unknown, false) => failed("the model ended its answer without saying why"),
    };
    match (last, next) {
        (Some(steps), Next::Step) => Next::End(Outcome::StepLimit { steps }),
        (Some(steps), Next::End(Outcome::Done)) if at_work => Next::End(Outcome::StepLimit { steps }),
        (_, next) => next,
    }
}

/// Closes what is open in a turn that is being ended; the turn is over when nothing is left.
fn end_what_is_open(draft: &mut Draft<'_>) -> bool {
    tasks::stop_with_turn(draft);
    spending::withdraw(draft);
    if draft.state.waits {
        // The turn waits after a recovery, so no worker is alive that could be told to stop and could report.
        recover::take_down(draft);
    }
    if let Some((ticket, request)) = draft.state.request()
        && !request.closing
    {
        draft.write(Some(ticket), Record::Closing { why: None });
        draft.stop(Stop::Request(ticket));
    }
    let calls: Vec<_> = draft.state.calls().map(|(ticket, call)| (ticket, call.state)).collect();
    for (ticket, state) in calls {
        match state {
            CallState::Pending | CallState::Allowed | CallState::Asking(_) => batch::close_unstarted(draft, ticket),
            CallState::Running => {
                draft.write(Some(ticket), Record::Closing { why: None });
                draft.stop(Stop::Call(ticket));
            }
            CallState::Closing => {}
        }
    }
    let anything_left = draft.state.open.values().any(|open| matches!(open, Open::Request(_) | Open::Call(_)));
    if anything_left {
        return false;
    }
    let Some(outcome) = draft.state.turn.as_ref().and_then(|turn| turn.ending.clone()) else { return false };
    finish(draft, outcome);
    true
}

/// The tools that the next request leaves out because the rules deny them in full, and the choices of tools that they deny. The mask comes last, behind what the agent has
/// and what messages switched: so neither brings back a denied tool. Only tools that would be offered otherwise are named.
fn masked(draft: &Draft<'_>) -> BTreeSet<String> {
    let (settings, turn) = (&draft.state.settings, draft.state.turn.as_ref());
    let allowed = settings.allowed_tools();
    let is_on = |tool: &str| {
        toolset::has(allowed.as_ref(), tool) && !turn.is_some_and(|turn| toolset::is_off(&turn.tools, tool))
    };
    let globs = draft.env.globs();
    draft.env.masked(&draft.state.env, |name, permissions| match (name.split_once(toolset::CHOICE), permissions) {
        (None, _) => settings.masks(permissions) && is_on(name),
        // Of a tool that is masked itself the model is told no choice.
        (Some((tool, _)), [permission, pattern]) => {
            is_on(tool) && !settings.masks(&permissions[..1]) && settings.denies(permission, pattern, globs)
        }
        (Some(_), _) => false,
    })
}

/// Makes the request again if its wait is over.
pub(in crate::kernel) fn end_wait_when_due(draft: &mut Draft<'_>) {
    let is_due = draft.state.wait().is_some_and(|(_, wait)| wait.until <= draft.now);
    if is_due && !draft.state.paused && !draft.state.waits && draft.state.budget_ask().is_none() {
        request_again(draft);
    }
}
