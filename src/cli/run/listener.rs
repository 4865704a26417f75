//! Input from outside while a session runs: lines of stdin, and signals.

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

/// How long the lines that are there may hold up the end.
const CATCH_UP_LIMIT: Duration = Duration::from_secs(5);

/// How long the command stays for one more line when all is done, where stdin is open and its lines are commands: whoever answers to
/// the last event is heard.
const LINGER: Duration = Duration::from_millis(200);

/// How long a line that is being carried out may hold up a command that is left.
const STOP_LIMIT: Duration = Duration::from_millis(500);

/// Hears what comes from outside.
pub(super) struct Listener {
    task: JoinHandle<()>,
    asks: Asks,
    /// The user wants to leave.
    pub(super) left: mpsc::Receiver<Failure>,
}

/// Asks the lines something.
#[derive(Clone)]
pub(super) struct Asks(mpsc::Sender<Ask>);

impl Listener {
    /// Listens to signals, and from the first [`Asks::catch_up`] on to stdin, where its lines are for the session.
    pub(super) fn start(runtime: Runtime, session: Session, view: View) -> std::io::Result<Listener> {
        let (leave, left) = mpsc::channel(1);
        // Not ended with the listener: one more Ctrl-C must end a process whose tree does not go down.
        tokio::spawn(hear_signals(session.clone(), view.clone(), leave, Signals::new()?));
        let lines = if view.takes_lines() { Some(stdin::lines()?) } else { None };
        let (ask, asked) = mpsc::channel(1);
        let lines = Lines { number: 0, lines, runtime, session, view, is_closing: false };
        Ok(Listener { task: tokio::spawn(lines.carry_out(asked)), asks: Asks(ask), left })
    }

    /// Where its lines are asked.
    pub(super) fn asks(&self) -> Asks {
        self.asks.clone()
    }

    /// Takes no more lines; what is being carried out is answered.
    pub(super) async fn stop(self) {
        let Listener { mut task, asks, .. } = self;
        drop(asks);
        if timeout(STOP_LIMIT, &mut task).await.is_err() {
            task.abort();
        }
    }
}

impl Asks {
    /// Waits until the lines that were read by now are carried out and answered.
    pub(super) async fn catch_up(&self) {
        let (done, wait) = oneshot::channel();
        if self.0.send(Ask::CatchUp(done)).await.is_ok() {
            drop(timeout(CATCH_UP_LIMIT, wait).await);
        }
    }

    /// Whether no line is carried out any more: none came for a moment. Those that come later are answered so.
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

    /// Whether the next one asks to leave at once.
    async fn leaves(&mut self) -> bool {
        tokio::select! {
            _ = self.interrupt.recv() => false,
            _ = self.terminate.recv() => true,
            _ = self.hang_up.recv() => true,
        }
    }
}

/// The first Ctrl-C aborts the turn, the second leaves, the third ends the process as it is.
async fn hear_signals(session: Session, view: View, leave: mpsc::Sender<Failure>, mut signals: Signals) {
    let leaves = signals.leaves().await;
    view.stop_waiting(true);
    if !leaves {
        view.note("aborting; press Ctrl-C again to leave".to_owned());
        let aborting = session.clone();
        // Not awaited here, so that the second Ctrl-C is heard while a full disk holds this one up.
        tokio::spawn(async move { aborting.abort("interrupted by the user").await });
        signals.leaves().await;
    }
    let message = format!("left the session; `tamtam resume {}` continues it", session.id());
    drop(leave.send(Failure { exit: Exit::Aborted, message }).await);
    signals.leaves().await;
    std::process::exit(Exit::Aborted.code().into());
}

/// Carries out lines, one after the other.
struct Lines {
    number: u64,
    /// `None` where stdin is not for the session, or closed.
    lines: Option<mpsc::Receiver<Line>>,
    runtime: Runtime,
    session: Session,
    view: View,
    /// The command ends: lines are answered, and not carried out.
    is_closing: bool,
}

/// What the end of the command asks of the lines.
enum Ask {
    /// To carry out what is there.
    CatchUp(oneshot::Sender<()>),
    /// To wait a moment for one more line, and where none comes to carry out none from then on. Whether none came.
    Close(oneshot::Sender<bool>),
}

impl Lines {
    /// Begins with what is first asked.
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

    /// Carries out one more line, where one comes in time.
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

    /// Answers a line; `None` where stdin is closed, which changes nothing.
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
                    self.view.stop_waiting(true);
                } else {
                    // Whoever goes on is there and reads.
                    self.view.stop_waiting(false);
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

/// The next line; where stdin is closed, it waits for ever. `None` where it is closed just now.
async fn next(lines: &mut Option<mpsc::Receiver<Line>>) -> Option<Line> {
    match lines {
        Some(lines) => lines.recv().await,
        None => std::future::pending().await,
    }
}
