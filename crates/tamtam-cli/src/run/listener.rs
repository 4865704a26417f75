//! Hears lines of stdin and signals while a session runs, and carries them out.
//!
//! Lines are carried out one after the other. Each line of `--json` that is taken gets one reply, in the same order; a line taken
//! after the command has begun to end is told that it is too late. While earlier replies are not read, further lines are held and
//! looked at: the first abort among them is carried out at once, and the lines before it are refused.
//!
//! A change must keep this: signals are heard by a task that never waits for the session, a line or the output, and that outlives
//! the listener. The third Ctrl-C must end a process whose tree does not go down. The lines before such an abort are not carried
//! out later, because a message among them would begin a turn after the stop.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use serde_json::Value;
use tamtam::{Delivery, Session, Steering, runtime::Commanded, session::Scope};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::timeout,
};

use super::view::View;
use crate::{
    command::{Command, bad_line, overtaken, reply},
    escape,
    failure::{Exit, Failure},
    grants::Host,
    stdin::{self, Entered, Line},
    terminal::{self, Terminal},
    typed::{self, Typed},
};

/// How long the lines read so far may delay the end of the command.
const CATCH_UP_LIMIT: Duration = Duration::from_secs(5);

/// How long the command waits for one more line when the session is idle, if stdin is open and its lines are commands. A program
/// that answers to the last event is still heard.
const LINGER: Duration = Duration::from_millis(200);

/// How long a line that is being carried out may delay the end of the command.
const STOP_LIMIT: Duration = Duration::from_millis(500);

/// Lines that may be held while the replies before them are not read. Beyond, no line is read until there is room for a reply.
const BACKLOG_LINES_MAX: usize = 1_024;

/// Bytes of held lines; the last line may exceed them.
const BACKLOG_BYTES_MAX: usize = 1 << 20;

/// The tasks that hear stdin and signals.
pub(super) struct Listener {
    task: JoinHandle<()>,
    asks: Asks,
    /// Why the user leaves the session: a second Ctrl-C, or a signal to end.
    pub(super) left: mpsc::Receiver<Failure>,
}

/// Asks the task that carries out lines.
#[derive(Clone)]
pub(super) struct Asks(mpsc::Sender<Ask>);

impl Listener {
    /// Starts to hear signals. If lines are for the session, of a person at the terminal or of a program, they are carried out from
    /// the first request of [`Asks`] on.
    pub(super) fn start(host: Host, view: View, terminal: Option<Arc<Terminal>>) -> std::io::Result<Listener> {
        let (leave, left) = mpsc::channel(1);
        // Outlives the listener: the third Ctrl-C must end a process whose tree does not go down.
        tokio::spawn(hear_signals(host.session.clone(), view.clone(), leave, Signals::new()?));
        let lines = match terminal {
            Some(terminal) => Some(stdin::Lines::Typed(terminal)),
            None if view.is_json() => Some(stdin::commands()?),
            None => None,
        };
        let (ask, asked) = mpsc::channel(1);
        let lines = Lines { number: 0, lines, backlog: Backlog::default(), host, view, is_closing: false };
        Ok(Listener { task: tokio::spawn(lines.carry_out(asked)), asks: Asks(ask), left })
    }

    /// The channel to the task that carries out lines.
    pub(super) fn asks(&self) -> Asks {
        self.asks.clone()
    }

    /// Takes no more lines. A line that is being carried out is still answered, if it takes less than [`STOP_LIMIT`].
    pub(super) async fn stop(self) {
        let Listener { mut task, asks, .. } = self;
        drop(asks);
        if timeout(STOP_LIMIT, &mut task).await.is_err() {
            task.abort();
        }
    }
}

impl Asks {
    /// Waits until the lines read so far are carried out and answered, at most for [`CATCH_UP_LIMIT`].
    pub(super) async fn catch_up(&self) {
        let (done, wait) = oneshot::channel();
        if self.0.send(Ask::CatchUp(done)).await.is_ok() {
            drop(timeout(CATCH_UP_LIMIT, wait).await);
        }
    }

    /// Waits [`LINGER`] for one more line. `true` if none came: from then on no line is carried out, and later lines are told so.
    pub(super) async fn close(&self) -> bool {
        let (done, wait) = oneshot::channel();
        if self.0.send(Ask::Close(done)).await.is_err() {
            return true;
        }
        wait.await.unwrap_or(true)
    }
}

struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
    quit: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> std::io::Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            quit: signal(SignalKind::quit())?,
        })
    }

    /// Waits for the next signal. `true` for SIGTERM, SIGHUP and SIGQUIT, which leave at once; `false` for Ctrl-C.
    async fn leaves(&mut self) -> bool {
        tokio::select! {
            _ = self.interrupt.recv() => false,
            _ = self.terminate.recv() => true,
            _ = self.hang_up.recv() => true,
            _ = self.quit.recv() => true,
        }
    }
}

/// The first Ctrl-C aborts the turn, the second leaves the session, the third ends the process at once.
async fn hear_signals(session: Session, view: View, leave: mpsc::Sender<Failure>, mut signals: Signals) {
    let leaves = signals.leaves().await;
    view.set_stopping(true);
    if !leaves {
        view.note("Stopping… press Ctrl-C again to quit now".to_owned());
        let aborting = session.clone();
        // Not awaited here, so that the second Ctrl-C is heard while a full disk delays the abort.
        tokio::spawn(async move { aborting.abort("interrupted by the user").await });
        signals.leaves().await;
        // A command that came meanwhile has taken the first one back.
        view.set_stopping(true);
    }
    let message = format!("detached: continue with `tamtam resume {}`", session.id());
    drop(leave.send(Failure { exit: Exit::Aborted, ..Failure::failed(message) }).await);
    signals.leaves().await;
    terminal::give_back();
    std::process::exit(Exit::Aborted.code().into());
}

/// Carries out lines, one after the other.
struct Lines {
    /// The number of the newest line that was answered.
    number: u64,
    /// The lines of stdin; `None` if they are not for the session, or stdin is closed.
    lines: Option<stdin::Lines>,
    /// Empty, except while there is no room for replies.
    backlog: Backlog,
    host: Host,
    view: View,
    /// Whether the command is ending: lines are answered and not carried out.
    is_closing: bool,
}

/// What the end of the command asks of the task that carries out lines.
enum Ask {
    /// Carry out the lines read so far.
    CatchUp(oneshot::Sender<()>),
    /// Wait [`LINGER`] for one more line; if none comes, carry out none from then on. Answered with whether none came.
    Close(oneshot::Sender<bool>),
}

impl Lines {
    /// Takes no line before the first request of the command.
    async fn carry_out(mut self, mut asked: mpsc::Receiver<Ask>) {
        let mut ask = asked.recv().await;
        loop {
            match ask {
                Some(Ask::CatchUp(done)) => {
                    self.catch_up().await;
                    let _ = done.send(());
                }
                Some(Ask::Close(done)) => {
                    self.is_closing = !self.one_more().await;
                    let _ = done.send(self.is_closing);
                }
                None => return,
            }
            ask = loop {
                tokio::select! {
                    ask = asked.recv() => break ask,
                    // What a person types from now on is given back at the end.
                    line = next(&mut self.lines), if !self.is_closing || self.view.is_json() => self.line(line).await,
                }
            };
        }
    }

    async fn catch_up(&mut self) {
        while let Some(line) = self.lines.as_mut().and_then(stdin::Lines::try_next) {
            self.line(Some(line)).await;
        }
    }

    /// Stdin is closed. That does not end the command, but no program can answer a question any more.
    fn ended(&mut self) {
        self.lines = None;
        if self.view.is_json() {
            let view = self.view.clone();
            // Not awaited here, so that no other line waits for the tape.
            tokio::spawn(async move { view.nobody_answers().await });
        }
    }

    /// Carries out one more line if one comes within [`LINGER`], and says whether one came. Of a person only a line that is there
    /// counts: people do not answer within a fifth of a second.
    async fn one_more(&mut self) -> bool {
        if !self.view.is_json() {
            let line = self.lines.as_mut().and_then(stdin::Lines::try_next);
            let came = line.is_some();
            if came {
                self.line(line).await;
            }
            return came;
        }
        if self.lines.is_none() {
            return false;
        }
        match timeout(LINGER, next(&mut self.lines)).await {
            Ok(line) => {
                let came = line.is_some();
                self.line(line).await;
                came
            }
            Err(_) => false,
        }
    }

    /// Carries out a line and answers it. `None` means that stdin is closed, which does not end the command.
    async fn line(&mut self, line: Option<Line>) {
        let Some(line) = line else { return self.ended() };
        if !self.view.is_json() {
            return self.typed(line).await;
        }
        self.command(read(line).1).await;
        self.room().await;
        while let Some(command) = self.backlog.next() {
            self.command(command).await;
            self.room().await;
        }
    }

    /// Carries out a command and answers it.
    async fn command(&mut self, command: Result<Command, String>) {
        let answer = match command {
            Ok(command) if self.is_closing => command.too_late(),
            Ok(command) => {
                // A program that sends another command than a stop is there and reads.
                self.view.set_stopping(command.stops());
                command.carry_out(&self.host).await
            }
            Err(message) => bad_line(&message),
        };
        self.answer(answer);
    }

    fn answer(&mut self, answer: Value) {
        self.number += 1;
        self.view.line(&reply(self.number, answer));
    }

    /// Waits until there is room for another reply. Meanwhile lines are read and held, and the first abort among them is carried
    /// out. One is enough: no command is carried out behind it before there is room.
    async fn room(&mut self) {
        let view = self.view.clone();
        let mut room = std::pin::pin!(view.room_for_answers());
        let mut has_stopped = false;
        loop {
            tokio::select! {
                biased;
                () = &mut room => return,
                () = std::future::ready(()), if !has_stopped && self.backlog.stop().is_some() => {
                    self.overtake().await;
                    has_stopped = true;
                }
                line = next(&mut self.lines), if self.backlog.has_room() => match line {
                    Some(line) => self.backlog.push(line),
                    None => self.ended(),
                },
            }
        }
    }

    /// Refuses the held lines before an abort, and carries out the abort.
    async fn overtake(&mut self) {
        for _ in 0..self.backlog.stop().unwrap_or_default() {
            let answer = match self.backlog.next() {
                Some(Ok(command)) => overtaken(&command),
                Some(Err(message)) => bad_line(&message),
                None => return,
            };
            self.answer(answer);
        }
        if let Some(stop) = self.backlog.next() {
            self.command(stop).await;
        }
    }

    /// Carries out a line that a person typed. Each line that does nothing is shown again, with the reason.
    async fn typed(&self, line: Line) {
        let Entered { text, about } = match line {
            Ok(line) => line,
            Err(why) => return self.view.note(format!("! {why}")),
        };
        let asked = self.view.asked();
        let refused = |how: &str, why: &str| {
            let shown = escape::text(text.trim_end()).replace('\n', "\n  ");
            self.view.note(format!("! {how}: {shown}\n  ({})", escape::line(why)));
        };
        let session = &self.host.session;
        let done = match typed::read(&text, about, asked) {
            Typed::Nothing => return,
            Typed::NotUsed(why) => return refused("not used", why),
            Typed::NoAnswer => {
                let answers = asked.map(|question| question.answers()).unwrap_or_default();
                return self.view.note(format!("? {answers}"));
            }
            Typed::Steer(text) => {
                let sent = session.send(text, Delivery::Steer(Steering::default())).await;
                sent.map(drop).map_err(|error| error.to_string())
            }
            Typed::Command(line) => match session.command(&line, Delivery::Steer(Steering::default())).await {
                Ok(Commanded::Said(words)) => return self.view.said(&words),
                done => done.map(drop).map_err(|error| error.to_string()),
            },
            Typed::Answer(ask, grant) => {
                let is_project = grant.standing().is_some_and(|(scope, _)| scope == Scope::Project);
                let answered = self.host.answer(ask, grant, None, None).await;
                if is_project && answered.is_ok() {
                    self.view.note("kept for this folder: `tamtam trust --list` shows it".to_owned());
                }
                return if let Err(error) = answered {
                    refused("not used", &error.to_string());
                };
            }
        };
        if let Err(why) = done {
            refused("not sent", &why);
        }
    }
}

/// Lines that were read and not carried out, next first, each with its length.
#[derive(Default)]
struct Backlog {
    lines: VecDeque<(usize, Result<Command, String>)>,
    bytes: usize,
}

impl Backlog {
    fn has_room(&self) -> bool {
        self.lines.len() < BACKLOG_LINES_MAX && self.bytes < BACKLOG_BYTES_MAX
    }

    fn push(&mut self, line: Line) {
        let line = read(line);
        self.bytes += line.0;
        self.lines.push_back(line);
    }

    fn next(&mut self) -> Option<Result<Command, String>> {
        let (bytes, command) = self.lines.pop_front()?;
        self.bytes -= bytes;
        Some(command)
    }

    /// How many lines stand before the first abort; `None` if there is no abort.
    fn stop(&self) -> Option<usize> {
        self.lines.iter().position(|(_, command)| command.as_ref().is_ok_and(Command::stops))
    }
}

/// The length of a line, and its command or what is wrong with the line.
fn read(line: Line) -> (usize, Result<Command, String>) {
    match line {
        Ok(Entered { text, .. }) => (text.len(), Command::read(&text)),
        Err(why) => (0, Err(why.to_owned())),
    }
}

/// The next line; `None` once when stdin closes. Without a channel it never resolves.
async fn next(lines: &mut Option<stdin::Lines>) -> Option<Line> {
    match lines {
        Some(lines) => lines.next().await,
        None => std::future::pending().await,
    }
}
