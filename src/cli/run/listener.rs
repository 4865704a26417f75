//! Hears lines of stdin and signals while a session runs, and carries them out.
//!
//! Lines are carried out one after the other. Each line of `--json` gets one reply; a line that comes after the session became
//! idle is told that it is too late.
//!
//! A change must keep this: signals are heard by a task that never waits for the session, a line or the output, and that outlives
//! the listener. The third Ctrl-C must end a process whose tree does not go down.

use std::time::Duration;

use tamtam::{Delivery, Runtime, Session, Steering};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::timeout,
};

use super::view::View;
use crate::cli::{
    command::{Command, bad_line, reply},
    escape,
    failure::{Exit, Failure},
    stdin::{self, Line},
    typed::{self, Typed},
};

/// How long the lines read so far may delay the end of the command.
const CATCH_UP_LIMIT: Duration = Duration::from_secs(5);

/// How long the command waits for one more line when the session is idle, if stdin is open and its lines are commands. A program
/// that answers to the last event is still heard.
const LINGER: Duration = Duration::from_millis(200);

/// How long a line that is being carried out may delay the end of the command.
const STOP_LIMIT: Duration = Duration::from_millis(500);

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
    /// Starts to hear signals. If lines of stdin are for the session, they are carried out from the first request of [`Asks`] on.
    pub(super) fn start(runtime: Runtime, session: Session, view: View) -> std::io::Result<Listener> {
        let (leave, left) = mpsc::channel(1);
        // Outlives the listener: the third Ctrl-C must end a process whose tree does not go down.
        tokio::spawn(hear_signals(session.clone(), view.clone(), leave, Signals::new()?));
        let lines = if view.takes_lines() { Some(stdin::lines()?) } else { None };
        let (ask, asked) = mpsc::channel(1);
        let lines = Lines { number: 0, lines, runtime, session, view, is_closing: false };
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
}

impl Signals {
    fn new() -> std::io::Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal. `true` for SIGTERM and SIGHUP, which leave at once; `false` for Ctrl-C.
    async fn leaves(&mut self) -> bool {
        tokio::select! {
            _ = self.interrupt.recv() => false,
            _ = self.terminate.recv() => true,
            _ = self.hang_up.recv() => true,
        }
    }
}

/// The first Ctrl-C aborts the turn, the second leaves the session, the third ends the process at once.
async fn hear_signals(session: Session, view: View, leave: mpsc::Sender<Failure>, mut signals: Signals) {
    let leaves = signals.leaves().await;
    view.set_stopping(true);
    if !leaves {
        view.note("aborting; press Ctrl-C again to leave".to_owned());
        let aborting = session.clone();
        // Not awaited here, so that the second Ctrl-C is heard while a full disk delays the abort.
        tokio::spawn(async move { aborting.abort("interrupted by the user").await });
        signals.leaves().await;
        // A command that came meanwhile has taken the first one back.
        view.set_stopping(true);
    }
    let message = format!("left the session; `tamtam resume {}` continues it", session.id());
    drop(leave.send(Failure { exit: Exit::Aborted, ..Failure::failed(message) }).await);
    signals.leaves().await;
    std::process::exit(Exit::Aborted.code().into());
}

/// Carries out lines, one after the other.
struct Lines {
    number: u64,
    /// The lines of stdin; `None` if they are not for the session, or stdin is closed.
    lines: Option<mpsc::Receiver<Line>>,
    runtime: Runtime,
    session: Session,
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
                    line = next(&mut self.lines) => self.line(line).await,
                }
            };
        }
    }

    async fn catch_up(&mut self) {
        while let Some(Ok(line)) = self.lines.as_mut().map(mpsc::Receiver::try_recv) {
            self.line(Some(line)).await;
        }
    }

    /// Carries out one more line if one comes within [`LINGER`], and says whether one came.
    async fn one_more(&mut self) -> bool {
        if self.lines.is_none() || !self.view.is_json() {
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
        let Some(line) = line else {
            self.lines = None;
            return;
        };
        self.number += 1;
        if !self.view.is_json() {
            return self.typed(line).await;
        }
        let answer = match line.map_err(str::to_owned).and_then(|line| Command::read(&line)) {
            Ok(command) if self.is_closing => command.too_late(),
            Ok(command) => {
                if command.stops() {
                    self.view.set_stopping(true);
                } else {
                    // A program that sends another command is there and reads.
                    self.view.set_stopping(false);
                }
                command.carry_out(&self.session, &self.runtime).await
            }
            Err(message) => bad_line(&message),
        };
        self.view.line(&reply(self.number, answer));
        self.view.room_for_answers().await;
    }

    async fn typed(&self, line: Line) {
        let line = match line {
            Ok(line) => line,
            Err(why) => return self.view.note(format!("! {why}")),
        };
        let asked = self.view.asked();
        let done = match typed::read(&line, asked) {
            Typed::Nothing => return,
            Typed::NoAnswer => {
                let answers = asked.map(|question| question.answers()).unwrap_or_default();
                return self.view.note(format!("? {answers}"));
            }
            Typed::Steer(text) => self.session.send(text, Delivery::Steer(Steering::default())).await.map(drop),
            Typed::Answer(ask, grant) => self.session.answer(ask, grant).await,
        };
        if let Err(error) = done {
            self.view.note(format!("! {}", escape::line(&error.to_string())));
        }
    }
}

/// The next line; `None` once when stdin closes. Without a channel it never resolves.
async fn next(lines: &mut Option<mpsc::Receiver<Line>>) -> Option<Line> {
    match lines {
        Some(lines) => lines.recv().await,
        None => std::future::pending().await,
    }
}
