//! `tamtam run` and `resume`: drives one session to the end of its turns.
//!
//! ```text
//! stdin ─► listener: one line after the other is carried out and answered ─┐
//! Ctrl-C ─► abort; a second one leaves                                     ├─► output (its own thread)
//! session's events ─► narrator: shown as they come ────────────────────────┘
//! ```
//!
//! The command ends when the session is idle and none of its tasks is open, with the outcome of the newest turn that ended
//! meanwhile. It ends earlier, and `resume` can continue the session, if the session refuses a call of this command or was closed,
//! the tape cannot be written, the session crashes twice without progress, nobody reads the output, Ctrl-C is pressed twice, or
//! SIGTERM, SIGHUP or SIGQUIT comes.
//!
//! A change must keep this: the narrator waits for the reader of the output, and the listener waits for room after an answer, but
//! not before it carries out an abort. The task that hears signals waits for neither, so that a reader that takes nothing cannot
//! block a stop.

mod door;
mod listener;
mod narrator;
mod open;
mod used;
pub(crate) mod view;

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tamtam::{
    Delivery, EventStream, Message, ModelRef, Outcome, Part, Seq, Session,
    model::ErrorKind,
    runtime::{CommandError, Commanded},
    session::{Next, TurnEnd},
};
use tokio::sync::mpsc;

use super::{
    arguments::{ResumeArguments, RunArguments},
    attach,
    environment::Environment,
    escape, failed_to_start,
    failure::{Exit, Failure},
    grants::Host,
    models::{self, Takes},
    output::Output,
    print, stdin,
    terminal::Terminal,
};
pub(super) use door::Door;
use listener::Listener;
use narrator::{Heard, Narrator};
use open::{Opened, Said};
pub(super) use open::{TASKS_QUEUED, audience, builder};
use used::Used;
use view::View;

/// How long the shutdown of the runtime may take.
const LEAVE_LIMIT: Duration = Duration::from_secs(12);

/// How long the end of a command waits for a summary that the session has begun.
const SUMMARY_LIMIT: Duration = Duration::from_secs(120);

/// How often a wait looks for a request to stop.
const STOP_LOOKED_AT: Duration = Duration::from_millis(50);

/// Carries out `run`: one prompt to its end.
pub(super) async fn run(given: RunArguments, environment: &Environment) -> Result<Exit, Failure> {
    let json = given.turn.json;
    let begin = async {
        let text = stdin::prompt(&given.prompt, json)?;
        if text.trim().is_empty() && given.file.is_empty() {
            return Err(Failure::usage("the prompt is empty: say what to do"));
        }
        if is_command(&text) && given.file.is_empty() {
            return Ok((
                open::for_run(&given, Said { text: &text, may_be_command: true }, environment).await?,
                Prompt::Command(text),
            ));
        }
        let mut prompt = Message::user(text.clone());
        for path in &given.file {
            prompt = prompt.with_part(attach::part(path)?);
        }
        let said = Said { text: &text, may_be_command: false };
        let opened = open::for_run(&given, said, environment).await?;
        let prompt = expanded(&opened, prompt).await?;
        Ok((opened, Prompt::Message(Box::new(prompt))))
    };
    let (opened, prompt) = begin.await.map_err(|failure| not_begun(failure, json))?;
    let door = door(&opened, given.listen.as_deref(), environment, json).await?;
    drive(opened, Some(prompt), json, door).await
}

/// Carries out `resume`: continues the unfinished work of a session to its end, and then says what is to be said.
pub(super) async fn resume(given: ResumeArguments, environment: &Environment) -> Result<Exit, Failure> {
    let json = given.turn.json;
    let begin = async {
        let text = stdin::prompt(&given.prompt, json)?;
        if text.trim().is_empty() && !given.prompt.is_empty() {
            return Err(Failure::usage("the prompt is empty: say what to do, or leave it out"));
        }
        let may_be_command = is_command(&text);
        let opened = open::for_resume(&given, Said { text: &text, may_be_command }, environment).await?;
        let prompt = match may_be_command {
            true => Prompt::Command(text),
            false => Prompt::Message(Box::new(expanded(&opened, Message::user(text)).await?)),
        };
        Ok((opened, (!given.prompt.is_empty()).then_some(prompt)))
    };
    let (opened, prompt) = begin.await.map_err(|failure| not_begun(failure, json))?;
    let door = door(&opened, given.listen.as_deref(), environment, json).await?;
    drive(opened, prompt, json, door).await
}

/// Whether a prompt is a command of the program's: it begins with `/`, and is no prompt of an MCP server.
fn is_command(text: &str) -> bool {
    text.starts_with('/') && !text.starts_with(OF_A_SERVER)
}

/// What a prompt of an MCP server begins with.
const OF_A_SERVER: &str = "/mcp_";

/// A prompt with what it takes from MCP servers. If a server does not give it, nothing is said, and the runtime is shut down.
async fn expanded(opened: &Opened, prompt: Message) -> Result<Message, Failure> {
    let expanded = match &opened.servers {
        Some(servers) => servers.expanded(prompt).await.map_err(|bad| bad.to_string()),
        None if prompt.text().starts_with(OF_A_SERVER) => {
            Err("there is no MCP server: see `tamtam mcp list`".to_owned())
        }
        None => return Ok(prompt),
    };
    open::or_shut_down(&opened.runtime, expanded.map_err(Failure::failed)).await
}

/// Tells a program why the command did not begin. A person reads it on stderr.
fn not_begun(failure: Failure, json: bool) -> Failure {
    if json {
        drop(print(&failure.line()));
    }
    failure
}

/// What is said to the session first.
enum Prompt {
    Message(Box<Message>),
    /// A line that begins with `/`.
    Command(String),
}

/// The door of `--listen`. A runtime whose door cannot be opened is shut down.
async fn door(
    opened: &Opened,
    at: Option<&str>,
    environment: &Environment,
    json: bool,
) -> Result<Option<Door>, Failure> {
    let door = Door::open(&opened.runtime, at, environment).await;
    open::or_shut_down(&opened.runtime, door).await.map_err(|failure| not_begun(failure, json))
}

async fn drive(opened: Opened, prompt: Option<Prompt>, json: bool, door: Option<Door>) -> Result<Exit, Failure> {
    let Opened { runtime, session, mut events, hints, asked, opened, used, trust, not_read, .. } = opened;
    let (id, has_prompt) = (session.id().clone(), prompt.is_some());
    let shown = open::or_shut_down(&runtime, screen(json).map_err(|error| failed_to_start(&error))).await;
    let (terminal, output) = shown.map_err(|failure| not_begun(failure, json))?;
    let view = View::new(json, session.clone(), output.clone());
    let state = open::or_shut_down(&runtime, session.state().await).await?;
    let is_shaped = state.settings.params.answer_schema.is_some();
    if is_shaped {
        view.keep_text();
    }
    view.listen_to(&mut events);
    not_read.iter().for_each(|why| view.warn("configuration_not_read", why));
    if let Some(why) = &hints.found {
        view.note(format!("model {} ({why})", hints.model));
    }
    let level = state.settings.params.thinking;
    if let Some(why) = level.and_then(|level| level.instead(&state.settings.model)) {
        view.warn("thinking_instead", &why);
    }
    if let Some(door) = &door {
        view.note(format!("listening on {}", door.at));
    }
    let left_out = match &prompt {
        Some(Prompt::Message(prompt)) => left_out(prompt, &hints),
        _ => Vec::new(),
    };
    let host = Host { runtime: runtime.clone(), session: session.clone(), trust };
    let listener = Listener::start(host, view.clone(), terminal).map_err(|error| failed_to_start(&error));
    let mut listener = match open::or_shut_down(&runtime, listener).await {
        Ok(listener) => listener,
        Err(failure) => {
            // What was said before stays before the line of the failure.
            output.finish().await;
            return Err(not_begun(failure, json));
        }
    };
    let drive = Drive { view: view.clone(), session, opened, left_out, output: output.clone() };
    let (ended, heard) = drive.carry_through(prompt, &asked, events, &mut listener).await;
    let used = ended.as_ref().ok().map(|ended| ended.used.since(&used)).unwrap_or_default();
    let has_nothing_to_do = !json && !has_prompt && matches!(&ended, Ok(Ended { turn: None, .. }));
    let (exit, result, message) = match ended {
        Ok(ended) => finished(ended.turn.as_deref(), is_shaped, used, heard.failed_with, &hints),
        Err(failure) => {
            let result = json!({"outcome": "interrupted", "error": failure.message});
            (failure.exit, result, failure.message)
        }
    };
    if let Some(door) = door {
        door.close().await;
    }
    // Shut down before waiting for the reader: the session must not run on while nobody reads.
    match tokio::time::timeout(LEAVE_LIMIT, runtime.shutdown()).await {
        Ok(leftover) if leftover.is_empty() => {}
        Ok(leftover) => tracing::warn!(?leftover, "something could not be stopped"),
        Err(_) => tracing::warn!(limit = ?LEAVE_LIMIT, "the shutdown was over its limit and was left"),
    }
    listener.stop().await;
    if has_nothing_to_do {
        view.note(format!("session {id} has no unfinished work; `tamtam resume {id} PROMPT` says something to it"));
    }
    if exit == Exit::Done {
        view.note_denied();
    }
    if let Some(line) = used.line(&hints).filter(|_| !json) {
        view.note(line);
    }
    if !view.takes_lines() && stdin::has_text() {
        view.warn("stdin_unread", "text came on stdin while the session ran, and was not read: give - as the prompt");
    }
    if let Some(answer) = result.get("json").filter(|_| is_shaped) {
        view.answer(answer);
    }
    view.result(&result);
    view.end_foot();
    output.finish().await;
    if exit == Exit::Done || message.is_empty() { Ok(exit) } else { Err(Failure { exit, ..Failure::failed(message) }) }
}

/// The terminal, where a person types at one, and the output. Who starts them shows nothing in another way from then on.
fn screen(json: bool) -> std::io::Result<(Option<Arc<Terminal>>, Output)> {
    let terminal = if !json && view::is_interactive() { Some(Terminal::own()?) } else { None };
    let output = Output::start(terminal.clone())?;
    if let Some(terminal) = &terminal {
        terminal.listen(&output)?;
    }
    Ok((terminal, output))
}

/// The session that is driven, and where it is shown.
struct Drive {
    session: Session,
    /// The last entry of the session before this command says anything to it.
    opened: Seq,
    /// Files of the prompt that the model is not sent, each with the reason.
    left_out: Vec<String>,
    output: Output,
    view: View,
}

/// A session that is idle.
struct Ended {
    /// The newest turn that ended meanwhile; `None` if none did.
    turn: Option<Arc<TurnEnd>>,
    /// All that the session used, from its beginning.
    used: Used,
}

/// Facts about the model that the line about a failed request names. The address is printed through `models::shown` only.
pub(super) struct Hints {
    pub(super) key_from: String,
    pub(super) base_url: String,
    pub(super) model: ModelRef,
    pub(super) takes: Takes,
    /// Why this model answers, where nobody named it.
    pub(super) found: Option<String>,
}

/// The files of a prompt that the model is not sent, each with the reason.
fn left_out(prompt: &Message, hints: &Hints) -> Vec<String> {
    let files = prompt.parts.iter().filter_map(|part| if let Part::File(file) = part { Some(file) } else { None });
    let refused = files.filter_map(|file| {
        let why = hints.takes.refusal(&file.mime, &hints.model)?;
        Some(format!("{} is left out: {why}", file.filename.as_deref().unwrap_or("a file")))
    });
    refused.collect()
}

impl Drive {
    /// Drives the session until it is idle. Gives how it ended, and what the events said.
    async fn carry_through(
        &self,
        prompt: Option<Prompt>,
        asked: &[Seq],
        events: EventStream,
        listener: &mut Listener,
    ) -> (Result<Ended, Failure>, Heard) {
        self.view.begin();
        self.left_out.iter().for_each(|why| self.view.warn("file_left_out", why));
        // Before the new events: an event counts as shown once a newer one was shown.
        if let Err(failure) = self.ask_again(asked).await {
            return (Err(failure), Heard::default());
        }
        let mut narrator = Narrator::start(self.session.clone(), self.view.clone(), events, self.opened);
        let ended = self.until_idle(prompt, listener, &mut narrator).await;
        let heard = narrator.stop().await;
        if let Err(failure) = ended {
            return (Err(failure), heard);
        }
        let ended = self.session.state().await.map(|state| Ended {
            turn: state.ended.back().filter(|_| heard.has_ended).cloned(),
            used: Used::of(&state),
        });
        (ended.map_err(Failure::from), heard)
    }

    /// Shows questions that were asked before this process began.
    async fn ask_again(&self, asked: &[Seq]) -> Result<(), Failure> {
        for ask in asked {
            let mut events = self.session.events_after(Seq(ask.0.saturating_sub(1))).await?;
            if let Some(Next::Event(event)) = events.next().await {
                self.view.event(&event).await;
            }
        }
        Ok(())
    }

    /// Sends the prompt, and waits until the session is idle and all its events are shown. Fails if the session is left before.
    async fn until_idle(
        &self,
        prompt: Option<Prompt>,
        listener: &mut Listener,
        narrator: &mut Narrator,
    ) -> Result<(), Failure> {
        let (lines, shown) = (listener.asks(), narrator.catch_up());
        let idle = async {
            match prompt {
                Some(Prompt::Message(prompt)) => drop(self.session.prompt(*prompt).await?),
                Some(Prompt::Command(line)) => self.command(&line).await?,
                None => {}
            }
            let mut is_given_up = false;
            loop {
                // Commands that came before the end of the turn are carried out first; they may begin another turn.
                lines.catch_up().await;
                self.session.wait().await?;
                // One look: where it is idle and has no task, nothing begins by itself any more.
                let state = self.session.state().await?;
                shown.now().await;
                if state.compaction().is_some() && state.turn.is_none() && !is_given_up {
                    is_given_up = !self.summary_is_written().await;
                    continue;
                }
                if state.tasks().next().is_none() && state.is_idle() && lines.close().await {
                    return Ok(());
                }
                // Of a task in the background the model is told when it is over.
                for task in self.session.tasks().await? {
                    task.down().await?;
                }
            }
        };
        tokio::select! {
            biased;
            left = next(&mut listener.left) => Err(left),
            left = next(&mut narrator.left) => Err(left),
            () = self.unread() => Err(Failure::quiet(Exit::Failed)),
            ended = idle => ended,
        }
    }

    /// Waits for the summary that the session has begun, so that the next command does not pay for it again. Not longer than
    /// [`SUMMARY_LIMIT`], and not after Ctrl-C: then it is false.
    async fn summary_is_written(&self) -> bool {
        if !self.view.is_json() {
            self.view.note("waiting for the summary of the conversation; Ctrl-C gives it up".to_owned());
        }
        let mut events = self.session.events();
        let written = async {
            while self.session.state().await.is_ok_and(|state| state.compaction().is_some() && state.turn.is_none()) {
                if events.next().await.is_none() {
                    return;
                }
            }
        };
        let stopped = async {
            while !self.output.is_stopping() {
                tokio::time::sleep(STOP_LOOKED_AT).await;
            }
        };
        let is_written = tokio::select! {
            () = written => true,
            () = stopped => false,
            () = tokio::time::sleep(SUMMARY_LIMIT) => false,
        };
        if !is_written {
            let why = "the summary of the conversation was given up before it was done: what it read is paid for, and the next \
                       command begins it again";
            self.view.warn("summary_given_up", why);
        }
        is_written
    }

    async fn command(&self, line: &str) -> Result<(), Failure> {
        match self.session.command(line, Delivery::Queue).await {
            Ok(Commanded::Said(words)) => self.view.said(&words),
            Ok(_) => {}
            Err(CommandError::Session(error)) => return Err(error.into()),
            Err(error) => return Err(Failure::usage(error.to_string())),
        }
        Ok(())
    }

    /// Resolves when nobody reads the output and no stop is requested. After a request to stop, the command ends without a reader.
    async fn unread(&self) {
        self.output.closed().await;
        if self.output.is_stopping() {
            std::future::pending::<()>().await;
        }
    }
}

/// The next failure to leave for; never resolves once the channel is closed.
async fn next(left: &mut mpsc::Receiver<Failure>) -> Failure {
    match left.recv().await {
        Some(failure) => failure,
        None => std::future::pending().await,
    }
}

/// The exit code, the JSON result and the line on stderr for an idle session.
fn finished(
    end: Option<&TurnEnd>,
    is_shaped: bool,
    used: Used,
    failed_with: Option<ErrorKind>,
    hints: &Hints,
) -> (Exit, Value, String) {
    let Some(end) = end else {
        return (Exit::Done, json!({"outcome": "idle"}), String::new());
    };
    let TurnEnd { turn, outcome, text, steps, .. } = end;
    let mut result = json!(outcome.shown());
    if let Some(result) = result.as_object_mut() {
        result.extend([
            ("text".to_owned(), json!(text)),
            ("turn".to_owned(), json!(turn)),
            ("steps".to_owned(), json!(steps)),
        ]);
        if let Some(json) = end.json().filter(|_| is_shaped && *outcome == Outcome::Done) {
            result.insert("json".to_owned(), json);
        }
        result.extend(used.fields());
    }
    let message = match outcome {
        Outcome::Done => String::new(),
        Outcome::Failed { error } => format!("{}{}", escape::short(error, 500), hint(failed_with, hints)),
        Outcome::Aborted { reason } => format!("aborted: {}", escape::short(reason, 200)),
        Outcome::Rejected { tool } => format!("stopped: {} was rejected", escape::line(tool)),
        Outcome::RecoveryLimit { recoveries } => {
            format!("stopped: {recoveries} crashes cut it off. Send a message to continue it")
        }
        Outcome::StepLimit { steps } => format!("stopped after {steps} steps: give it more with --max-steps"),
        Outcome::Budget { breach, no_switch } => {
            let no_switch = no_switch.as_ref().map(|why| format!("; {why}")).unwrap_or_default();
            format!("stopped: {breach}{no_switch}: raise it with --budget-usd or --budget-tokens")
        }
        Outcome::DoomLoop { tool } => format!(
            "stopped: the agent kept repeating the same call of {}: tell it what to do instead, or allow `doom_loop` in the rules",
            escape::line(tool)
        ),
        Outcome::CutShort => "the answer reached the model's limit of output tokens: ask for less at once".to_owned(),
        Outcome::Refused => "the provider withheld the answer: say it another way or choose another --model".to_owned(),
        Outcome::BadAnswer { error } => {
            format!("the answer does not fit the output schema: {}", escape::short(error, 500))
        }
        other => format!("{other:?}"),
    };
    (Exit::of(outcome), result, message)
}

/// Advice about a failed request, to add to its error; empty if there is none.
fn hint(kind: Option<ErrorKind>, hints: &Hints) -> String {
    let at = models::shown(&hints.base_url);
    match kind {
        Some(ErrorKind::Auth) if hints.key_from.is_empty() => format!(": {at} does not accept this key"),
        Some(ErrorKind::Auth) => format!(": check the key in {}", hints.key_from),
        Some(ErrorKind::NotFound) => format!(": check --model and --base-url ({at})"),
        Some(ErrorKind::RateLimited | ErrorKind::RetryAfterTooLong | ErrorKind::Overloaded) => {
            ": try again later, or choose another --model".to_owned()
        }
        Some(ErrorKind::Silent) => ": give it longer with --first-timeout SECONDS".to_owned(),
        // The same conversation would be refused again.
        Some(
            ErrorKind::InvalidRequest
            | ErrorKind::ContentPolicy
            | ErrorKind::FileRefused
            | ErrorKind::ContextOverflow
            | ErrorKind::RequestTooLarge,
        ) => ": /undo takes the message back, /compact sums the conversation up".to_owned(),
        Some(ErrorKind::Network | ErrorKind::Timeout) if !at.is_empty() => {
            format!(": is the server at {at} up? Check --base-url and the network")
        }
        _ => String::new(),
    }
}
