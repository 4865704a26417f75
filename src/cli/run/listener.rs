//! Input from outside while a session runs: lines of stdin, and signals.

use std::time::Duration;

use tamtam::{Delivery, Runtime, Session, Steering};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

use super::view::View;
use crate::cli::{
    command::{Command, bad_line},
    escape,
    failure::{Exit, Failure},
    stdin::{self, Line},
    typed::{self, Typed},
};

/// How long the lines that are there may hold up the end.
const CATCH_UP_LIMIT: Duration = Duration::from_secs(5);

/// Hears what comes from outside.
pub(super) struct Listener {
    task: JoinHandle<()>,
    catch_up: mpsc::Sender<oneshot::Sender<()>>,
    left: mpsc::Receiver<Failure>,
}

impl Listener {
    /// Listens to signals, and to stdin where its lines are for the session.
    pub(super) fn start(runtime: Runtime, session: Session, view: View) -> std::io::Result<Listener> {
        let (leave, left) = mpsc::channel(1);
        // Not ended with the listener: one more Ctrl-C must end a process whose tree does not go down.
        tokio::spawn(hear_signals(session.clone(), view.clone(), leave, Signals::new()?));
        let lines = if view.takes_lines() { Some(stdin::lines()?) } else { None };
        let (catch_up, caught_up) = mpsc::channel(1);
        let lines = Lines { number: 0, lines, runtime, session, view };
        Ok(Listener { task: tokio::spawn(lines.carry_out(caught_up)), catch_up, left })
    }

    /// Resolves when the user wants to leave.
    pub(super) async fn left(&mut self) -> Failure {
        match self.left.recv().await {
            Some(failure) => failure,
            None => std::future::pending().await,
        }
    }

    /// Waits until the lines that were read by now are carried out and answered.
    pub(super) async fn catch_up(&self) {
        let (done, wait) = oneshot::channel();
        if self.catch_up.send(done).await.is_ok() {
            drop(tokio::time::timeout(CATCH_UP_LIMIT, wait).await);
        }
    }

    /// Takes no more lines.
    pub(super) async fn stop(self) {
        self.task.abort();
        drop(self.task.await);
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
    if !signals.leaves().await {
        view.note("aborting; press Ctrl-C again to leave".to_owned()).await;
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
    lines: Option<mpsc::Receiver<Line>>,
    runtime: Runtime,
    session: Session,
    view: View,
}

impl Lines {
    async fn carry_out(mut self, mut catch_up: mpsc::Receiver<oneshot::Sender<()>>) {
        let mut lines = self.lines.take();
        loop {
            let next = async {
                match &mut lines {
                    Some(lines) => lines.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                line = next => match line {
                    Some(line) => self.line(line).await,
                    // A closed stdin changes nothing.
                    None => lines = None,
                },
                done = catch_up.recv() => {
                    let Some(done) = done else { return };
                    while let Some(Ok(line)) = lines.as_mut().map(mpsc::Receiver::try_recv) {
                        self.line(line).await;
                    }
                    let _ = done.send(());
                }
            }
        }
    }

    async fn line(&mut self, line: Line) {
        self.number += 1;
        if self.view.is_json() {
            let read = line.map_err(str::to_owned).and_then(|line| Command::read(&line));
            let reply = match read {
                Ok(command) => command.carry_out(&self.session, &self.runtime).await,
                Err(message) => bad_line(self.number, &message),
            };
            self.view.line(reply).await;
        } else {
            self.typed(line).await;
        }
    }

    async fn typed(&self, line: Line) {
        let line = match line {
            Ok(line) => line,
            Err(why) => return self.view.note(format!("! {why}")).await,
        };
        let asked = self.view.asked();
        let done = match typed::read(&line, asked) {
            Typed::Nothing => return,
            Typed::NoAnswer => {
                let answers = asked.map(|question| question.answers()).unwrap_or_default();
                return self.view.note(format!("? {answers}")).await;
            }
            Typed::Steer(text) => self.session.send(text, Delivery::Steer(Steering::default())).await.map(drop),
            Typed::Answer(ask, grant) => self.session.answer(ask, grant).await,
        };
        if let Err(error) = done {
            self.view.note(format!("! {}", escape::line(&error.to_string()))).await;
        }
    }
}
