//! [`Pool`]: the connections for everything but appends, and trying again when one of them breaks.
//!
//! A caller blocks on its own thread, with a connection that is its own meanwhile. At most
//! [`connections`](crate::PostgresOptions::connections) are open; a caller more waits its turn, for [`PATIENCE`] too. A connection that broke is left, and
//! what is safe to do twice is done again on another one, for [`PATIENCE`] in all. Only what waits for its own caller has a connection
//! beside these ([`Pool::run_apart`]): it would hold up everybody else for as long.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    task::Poll,
    time::{Duration, Instant},
};

use tamtam::tape::TapeError;
use tokio::{
    runtime::Handle,
    sync::{Notify, Semaphore, SemaphorePermit},
    task::AbortHandle,
};
use tokio_postgres::{AsyncMessage, Client};

use crate::{PostgresError, address::Address, thread::wait};

/// How long to go on without a server before a caller is told.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// How long a statement may take before the server gives it up. A lock that somebody holds is the usual cause.
pub(crate) const STATEMENT_MAX: Duration = Duration::from_secs(10);

/// How long an operation of several statements may take before its connection counts as dead.
const OPERATION_MAX: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Pool {
    address: Address,
    /// Drives the connections.
    thread: Handle,
    turns: Semaphore,
    /// Work on large outputs may take long: it leaves a connection to everybody else.
    outputs: Semaphore,
    idle: Mutex<Vec<Client>>,
}

/// Why an operation ended: what the server said, or what is to be told to the caller.
pub(crate) enum Failure {
    Server(tokio_postgres::Error),
    Told(TapeError),
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Failure {
        Failure::Server(error)
    }
}

impl From<TapeError> for Failure {
    fn from(error: TapeError) -> Failure {
        Failure::Told(error)
    }
}

impl Pool {
    pub(crate) fn new(address: Address, thread: Handle, connections: usize) -> Pool {
        let outputs = Semaphore::new(connections.saturating_sub(1).max(1));
        Pool { address, thread, turns: Semaphore::new(connections), outputs, idle: Mutex::default() }
    }

    /// A turn for work on a large output.
    pub(crate) fn turn_for_outputs(&self) -> Result<SemaphorePermit<'_>, TapeError> {
        let _context = self.thread.enter();
        let turn = wait(async { tokio::time::timeout(PATIENCE, self.outputs.acquire()).await });
        let message = || format!("other large outputs took all turns for {} s", PATIENCE.as_secs());
        let turn = turn.map_err(|_| PostgresError::Unreachable { message: message() })?;
        turn.map_err(|_| TapeError::Closed)
    }

    /// Runs what may be run twice.
    pub(crate) fn run<T>(
        &self,
        op: &'static str,
        work: impl AsyncFn(&mut Client) -> Result<T, Failure>,
    ) -> Result<T, TapeError> {
        let until = Instant::now() + PATIENCE;
        let mut pause = Duration::from_millis(20);
        loop {
            match self.once(op, until, &work) {
                Err(Failed::Server(error)) if error.is_conflict() && Instant::now() < until => {}
                Err(Failed::Server(error)) if error.is_unreachable() && Instant::now() < until => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(500));
                }
                done => return done.map_err(TapeError::from),
            }
        }
    }

    /// Runs what must not be run twice: if the connection breaks, it may have been done.
    pub(crate) fn run_once<T>(
        &self,
        op: &'static str,
        work: impl AsyncFn(&mut Client) -> Result<T, Failure>,
    ) -> Result<T, TapeError> {
        loop {
            match self.once(op, Instant::now() + PATIENCE, &work) {
                // Refused for a conflict, it was not done.
                Err(Failed::Server(error)) if error.is_conflict() => {}
                done => return done.map_err(TapeError::from),
            }
        }
    }

    /// Runs once what waits for its caller meanwhile, on a connection of its own that ends with it.
    pub(crate) fn run_apart<T>(
        &self,
        op: &'static str,
        work: impl AsyncFnOnce(&mut Client) -> Result<T, Failure>,
    ) -> Result<T, TapeError> {
        let _context = self.thread.enter();
        let done = wait(answered_in_time(async {
            let mut client = connect(&self.address, &self.thread).await.map_err(Failed::Server)?;
            work(&mut client).await.map_err(|failure| Failed::of(op, failure))
        }));
        done.map_err(TapeError::from)
    }

    /// Listens on a channel with a connection of its own, made again when it breaks, until the task is aborted.
    pub(crate) fn listen(&self, channel: String, wakes: Arc<Notify>) -> AbortHandle {
        let address = self.address.clone();
        let listening = self.thread.spawn(async move {
            loop {
                if let Ok((client, mut connection)) = address.connect().await {
                    let sql = format!("listen {channel}");
                    let mut listen = pin!(client.batch_execute(&sql));
                    let mut is_listening = false;
                    poll_fn(|context| {
                        loop {
                            if !is_listening && listen.as_mut().poll(context).is_ready() {
                                is_listening = true;
                                // What was told before is found by looking.
                                wakes.notify_one();
                            }
                            match connection.poll_message(context) {
                                Poll::Ready(Some(Ok(AsyncMessage::Notification(_)))) => wakes.notify_one(),
                                Poll::Ready(Some(Ok(_))) => {}
                                Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(()),
                                Poll::Pending => return Poll::Pending,
                            }
                        }
                    })
                    .await;
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        });
        listening.abort_handle()
    }

    /// Waits its turn until then, and works.
    fn once<T>(
        &self,
        op: &'static str,
        until: Instant,
        work: &impl AsyncFn(&mut Client) -> Result<T, Failure>,
    ) -> Result<T, Failed> {
        // The time limit is the thread's to keep.
        let _context = self.thread.enter();
        wait(async {
            // Where the server gives no answer, those that have a turn keep it for long.
            let turn = tokio::time::timeout_at(until.into(), self.turns.acquire()).await;
            let turn = turn.map_err(|_| {
                let message = format!("no connection came free in {} s", PATIENCE.as_secs());
                Failed::Server(PostgresError::Unreachable { message })
            })?;
            let _turn = turn.map_err(|_| Failed::Told(TapeError::Closed))?;
            let idle = {
                let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
                idle.retain(|client| !client.is_closed());
                idle.pop()
            };
            let all = async {
                let mut client = match idle {
                    Some(client) => client,
                    None => connect(&self.address, &self.thread).await.map_err(Failed::Server)?,
                };
                let done = work(&mut client).await;
                if !client.is_closed() {
                    self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(client);
                }
                done.map_err(|failure| Failed::of(op, failure))
            };
            answered_in_time(all).await
        })
    }
}

/// A connection that gives no answer is dropped with the work.
async fn answered_in_time<T>(work: impl Future<Output = Result<T, Failed>>) -> Result<T, Failed> {
    tokio::time::timeout(OPERATION_MAX, work).await.unwrap_or_else(|_| {
        let message = format!("no answer for {} s", OPERATION_MAX.as_secs());
        Err(Failed::Server(PostgresError::Unreachable { message }))
    })
}

enum Failed {
    Server(PostgresError),
    Told(TapeError),
}

impl Failed {
    fn of(op: &'static str, failure: Failure) -> Failed {
        match failure {
            Failure::Server(error) => Failed::Server(PostgresError::of(op, &error)),
            Failure::Told(error) => Failed::Told(error),
        }
    }
}

impl From<Failed> for TapeError {
    fn from(failed: Failed) -> TapeError {
        match failed {
            Failed::Server(error) => error.into(),
            Failed::Told(error) => error,
        }
    }
}

/// Ends the try with its caller.
struct Tried(AbortHandle);

impl Drop for Tried {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A connection that the thread drives until its client is dropped.
pub(crate) async fn connect(address: &Address, thread: &Handle) -> Result<Client, PostgresError> {
    let (address, driver) = (address.clone(), thread.clone());
    let connecting = thread.spawn(async move {
        let (client, connection) = address.connect().await?;
        driver.spawn(connection);
        let milliseconds = STATEMENT_MAX.as_millis();
        let limit = client.batch_execute(&format!("set statement_timeout = {milliseconds}")).await;
        limit.map_err(|error| PostgresError::of("connect", &error))?;
        Ok(client)
    });
    // A caller that goes on without it leaves no try behind.
    let _tried = Tried(connecting.abort_handle());
    match connecting.await {
        Ok(connected) => connected,
        Err(_) => Err(PostgresError::Unreachable { message: "the store is closed".to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::mpsc::channel;

    use super::*;

    /// A caller that gets no turn is told, and holds no thread for ever.
    #[test]
    fn a_turn_that_does_not_come_is_told_as_a_server_that_is_away() {
        let thread = crate::thread::runtime().unwrap();
        let address = crate::PostgresOptions::new("host=/none user=nobody").address().unwrap();
        let pool = Pool::new(address, thread.handle().clone(), 0);
        let (tell, told) = channel();
        std::thread::spawn(move || tell.send(pool.run("test", async |_| Ok(()))));
        let told =
            thread.block_on(async move { tokio::task::spawn_blocking(move || told.recv_timeout(12 * PATIENCE)).await });
        let error = told.unwrap().unwrap().unwrap_err();
        assert!(error.to_string().contains("no connection came free in 5 s"), "{error}");
    }
}
