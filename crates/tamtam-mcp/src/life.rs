//! The actor of a server: starts it when somebody wants it, feeds its connection, and ends it when nobody does.
//!
//! ```text
//!            a user comes            listed its tools            nobody used it for a while
//!   asleep ───────────────► starting ───────────────► ready ────────────────────────────────► asleep
//!                               │ refused, too slow     │ ended, a line too long, a flood
//!                               └───────────┬───────────┘
//!                                           ▼
//!                       down: the incarnation ends with the reason; its supervisor starts the next one, or parks it
//! ```
//!
//! However an incarnation ends, its open calls get the reason and its whole process tree is gone before the next one begins. A server
//! at an address (`http`) has no process: to start it is to greet it, and to end it is to end its session. One that no longer knows
//! the session is greeted again at once, which is no crash.
//!
//! A change must keep that nothing here waits for a call or for a person: questions of the server are futures beside the reading.

use std::{error::Error, io, process::ExitStatus, sync::Arc, time::Duration};

use tamtam::{
    model::HttpOptions,
    supervisor::{ChildContext, ChildSpec, Start},
    tools::process::{Process, Processes},
};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout},
};

use crate::{
    config::Transport,
    connection::{Connection, RequestError},
    hello::{HelloError, hello, tools},
    http::Web,
    offer::{Offer, offer},
    server::{Phase, Server},
    stdio,
};

/// The least time between two lists, however often the server says that its tools have changed, and however short its list holds.
const LIST_PAUSE: Duration = Duration::from_secs(1);
/// A list that holds longer than that holds as long as the server is up.
const HOLDS_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Why an incarnation ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Why {
    #[error("failed to start its program {program}: {error}")]
    Program {
        program: String,
        #[source]
        error: io::Error,
    },
    #[error(transparent)]
    Hello(#[from] HelloError),
    #[error("failed to list its tools: {0}")]
    List(RequestError),
    #[error("it was not ready within {0:?}")]
    Slow(Duration),
    #[error("its process ended ({0})")]
    Ended(ExitStatus),
    #[error("its process closed its output")]
    Closed,
    #[error("it wrote a line of more than {0} bytes")]
    TooLong(usize),
    #[error("it does not know the session that it has just opened")]
    NoSession,
    #[error("it sent more than {0} messages in a second that answer nothing")]
    Flood(u32),
}

/// The same with the last words of the server, for the crash report.
#[derive(Debug, thiserror::Error)]
#[error("{why}{}", last(.last_words))]
struct Failure {
    why: Why,
    last_words: String,
}

fn last(words: &str) -> String {
    if words.is_empty() { String::new() } else { format!("; stderr: {words}") }
}

/// How a life of the server ended without a failure.
pub(crate) enum Rest {
    Unused,
    Stopping,
    /// It no longer knows the session: the next one is opened at once.
    Renewed,
}

/// What a server is reached by.
#[derive(Clone)]
pub(crate) struct Means {
    pub(crate) processes: Processes,
    pub(crate) http: HttpOptions,
}

/// The other end of a connection.
enum Peer {
    Program(Box<Process>),
    Web(Web),
}

impl Peer {
    async fn start(server: &Server, means: &Means) -> Result<Peer, Why> {
        match &server.config.transport {
            Transport::Stdio(program) => match stdio::start(program, &means.processes).await {
                Ok(process) => Ok(Peer::Program(Box::new(process))),
                Err(error) => Err(Why::Program { program: program.command.clone(), error }),
            },
            Transport::Http(address) => {
                Ok(Peer::Web(Web::new(address, &server.config, &means.http, server.secrets.clone())))
            }
        }
    }

    fn pid(&self) -> Option<i32> {
        match self {
            Peer::Program(process) => process.id(),
            Peer::Web(_) => None,
        }
    }

    /// Carries lines until that fails, or the session is gone.
    async fn pump(
        &mut self,
        server: &Server,
        connection: &Connection,
        lines: mpsc::Receiver<String>,
    ) -> Result<Rest, Why> {
        match self {
            Peer::Program(process) => Err(stdio::pump(server, connection, process, lines).await),
            Peer::Web(web) => web.pump(server, connection, lines).await,
        }
    }

    /// Ends it; a program politely, or at once where it failed.
    async fn end(&mut self, is_polite: bool) {
        match self {
            Peer::Program(process) if is_polite => stdio::end_politely(process).await,
            Peer::Program(process) => drop(process.end().await),
            Peer::Web(web) => web.end().await,
        }
    }
}

/// The child that is this server's actor.
pub(crate) fn child(server: &Arc<Server>, means: &Means) -> ChildSpec {
    let (server, means) = (server.clone(), means.clone());
    ChildSpec::with_start(server.config.name.clone(), move |cx| {
        let (server, means) = (server.clone(), means.clone());
        async move {
            // Before the starter is answered: whoever comes then finds the actor.
            server.born(cx.node().clone());
            Ok(Start::run(live(server, means, cx)))
        }
    })
}

async fn live(server: Arc<Server>, means: Means, cx: ChildContext) -> Result<(), Box<dyn Error + Send + Sync>> {
    loop {
        server.phase(Phase::Asleep, None);
        cx.node().idle();
        tokio::select! {
            biased;
            () = cx.stopping() => return Ok(()),
            () = server.wanted() => {}
        }
        match serve(&server, &means, &cx).await? {
            Rest::Unused | Rest::Renewed => {}
            Rest::Stopping => return Ok(()),
        }
    }
}

/// One life of the server.
async fn serve(server: &Arc<Server>, means: &Means, cx: &ChildContext) -> Result<Rest, Failure> {
    cx.node().doing("starting");
    server.phase(Phase::Starting, None);
    let (connection, lines) = Connection::new();
    let mut up = Up { server, connection: &connection, why: Some("its actor was killed".to_owned()) };
    let failed = |why| Failure { why, last_words: server.last_words() };
    let started = tokio::select! {
        biased;
        () = cx.stopping() => None,
        started = Peer::start(server, means) => Some(started),
    };
    let mut peer = match started {
        None => return Ok(Rest::Stopping),
        Some(Ok(peer)) => peer,
        Some(Err(why)) => {
            let failure = failed(why);
            up.why = Some(failure.to_string());
            return Err(failure);
        }
    };
    server.phase(Phase::Starting, peer.pid());
    let ended = tokio::select! {
        biased;
        () = cx.stopping() => Ok(Rest::Stopping),
        ended = peer.pump(server, &connection, lines) => ended,
        ended = talk(server, &connection, cx) => ended,
    };
    let ended = match ended {
        // A server that forgets each session at once would be greeted for ever.
        Ok(Rest::Renewed) if !server.gives_up(&connection) => Err(Why::NoSession),
        ended => ended,
    };
    match ended {
        Ok(rest) => {
            match rest {
                // The server sleeps, or is greeted again: that is no failure for those who come now.
                Rest::Unused | Rest::Renewed => up.why = None,
                Rest::Stopping => up.why = Some("it was stopped".to_owned()),
            }
            drop(up);
            peer.end(true).await;
            Ok(rest)
        }
        Err(why) => {
            let failure = failed(why);
            // Nobody waits for the sweep: its calls are answered first.
            up.why = Some(failure.to_string());
            drop(up);
            peer.end(false).await;
            Err(failure)
        }
    }
}

/// Answers all users when the incarnation ends, also where it is dropped.
struct Up<'a> {
    server: &'a Server,
    connection: &'a Connection,
    /// Why this try failed; `None` if it did not.
    why: Option<String>,
}

impl Drop for Up<'_> {
    fn drop(&mut self) {
        // First the state: a caller that is answered may call again at once, and waits for the next try then.
        if let Some(why) = &self.why {
            self.server.is_down(why);
        }
        self.connection.close(self.why.as_deref().unwrap_or("its connection ended"));
    }
}

/// Greets the server, lists its tools, again where they have changed, and returns when nobody uses it any more.
async fn talk(server: &Server, connection: &Arc<Connection>, cx: &ChildContext) -> Result<Rest, Why> {
    let limit = server.config.start_limit;
    let greeted = timeout(limit, async {
        let hello = hello(connection).await?;
        let listed = if hello.has_tools { list(server, connection).await? } else { (Offer::default(), None) };
        Ok::<_, Why>((hello, listed))
    });
    let (hello, (mut known, mut stale)) = greeted.await.map_err(|_| Why::Slow(limit))??;
    let offered = |offer: &Offer| Offer { tools: offer.tools.clone(), refused: offer.refused.clone() };
    server.offers(hello.clone(), offered(&known));
    server.is_up(connection);
    cx.node().doing("serving");
    loop {
        tokio::select! {
            () = server.unused() => if server.rests(connection) {
                return Ok(Rest::Unused);
            },
            () = at(stale) => {
                connection.tools_changed.notify_one();
                stale = None;
            }
            () = connection.tools_changed.notified() => {
                let (now, next) = timeout(limit, list(server, connection)).await.map_err(|_| Why::Slow(limit))??;
                stale = next;
                if now != known {
                    server.offers(hello.clone(), offered(&now));
                    known = now;
                }
                tokio::time::sleep(LIST_PAUSE).await;
            }
        }
    }
}

/// What the server offers, and when it has to be asked again.
async fn list(server: &Server, connection: &Connection) -> Result<(Offer, Option<Instant>), Why> {
    let listing = tools(connection).await.map_err(Why::List)?;
    let holds = listing.holds.filter(|holds| *holds <= HOLDS_MAX);
    Ok((offer(&server.config, &listing.tools), holds.map(|holds| Instant::now() + holds.max(LIST_PAUSE))))
}

/// Resolves at that moment; never without one.
async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
