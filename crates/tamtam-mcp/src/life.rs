//! The actor of a server: starts its process when somebody wants it, feeds its connection, and ends it when nobody does.
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
//! However an incarnation ends, its open calls get the reason and its whole process tree is gone before the next one begins. The
//! process carries a tag of the runtime, so that the runtime's shutdown finds it, and the watcher does if the host is killed. A change
//! must keep that nothing here waits for a call or for a person: questions of the server are futures beside the reading.

use std::{
    error::Error,
    fs::File,
    io,
    path::{Path, PathBuf},
    process::ExitStatus,
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use tamtam::{
    supervisor::{ChildContext, ChildSpec, Start},
    tools::process::{Folder, Process, ProcessEvent, ProcessInput, Processes, Spec, Stream, Streams},
};
use tokio::{
    io::AsyncWriteExt as _,
    process::ChildStdin,
    sync::mpsc,
    time::{Instant, timeout},
};

use crate::{
    ask,
    config::Program,
    connection::{Connection, RequestError, Taken, Wish},
    hello::{HelloError, hello, tools},
    message,
    offer::{Offer, offer},
    server::{Phase, Server},
    wire::{Lines, Rate, TooLong},
};

/// How long a server may take to end once its input has ended, and again once it was asked to.
const ENDS_WITHIN: Duration = Duration::from_millis(1_200);
/// How long the output of a process that has ended is read.
const LAST_WORDS_WITHIN: Duration = Duration::from_millis(300);
/// How many questions to people may be open for one server.
const WISHES_MAX: usize = 8;
/// The least time between two lists, however often the server says that its tools have changed.
const LIST_PAUSE: Duration = Duration::from_secs(1);

/// Why an incarnation ended.
#[derive(Debug, thiserror::Error)]
enum Why {
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

/// How an incarnation came to rest.
enum Rest {
    Unused,
    Stopping,
}

/// The child that is this server's actor.
pub(crate) fn child(server: &Arc<Server>, processes: &Processes) -> ChildSpec {
    let (server, processes) = (server.clone(), processes.clone());
    ChildSpec::with_start(server.config.name.clone(), move |cx| {
        let (server, processes) = (server.clone(), processes.clone());
        async move {
            // Before the starter is answered: whoever comes then finds the actor.
            server.born(cx.node().clone());
            Ok(Start::run(live(server, processes, cx)))
        }
    })
}

async fn live(server: Arc<Server>, processes: Processes, cx: ChildContext) -> Result<(), Box<dyn Error + Send + Sync>> {
    loop {
        server.phase(Phase::Asleep, None);
        cx.node().idle();
        tokio::select! {
            biased;
            () = cx.stopping() => return Ok(()),
            () = server.wanted() => {}
        }
        match serve(&server, &processes, &cx).await? {
            Rest::Unused => {}
            Rest::Stopping => return Ok(()),
        }
    }
}

/// One life of the process.
async fn serve(server: &Arc<Server>, processes: &Processes, cx: &ChildContext) -> Result<Rest, Failure> {
    cx.node().doing("starting");
    server.phase(Phase::Starting, None);
    let (connection, lines) = Connection::new();
    let mut up = Up { server, connection: &connection, why: Some("its actor was killed".to_owned()) };
    let failed = |why| Failure { why, last_words: server.last_words() };
    let started = tokio::select! {
        biased;
        () = cx.stopping() => None,
        started = start(&server.config.program, processes) => Some(started),
    };
    let mut process = match started {
        None => return Ok(Rest::Stopping),
        Some(Ok(process)) => process,
        Some(Err(error)) => {
            let failure = failed(Why::Program { program: server.config.program.command.clone(), error });
            up.why = Some(failure.to_string());
            return Err(failure);
        }
    };
    server.phase(Phase::Starting, process.id());
    let ended = tokio::select! {
        biased;
        () = cx.stopping() => Ok(Rest::Stopping),
        why = pump(server, &connection, &mut process, lines) => Err(why),
        why = talk(server, &connection, cx) => why,
    };
    match ended {
        Ok(rest) => {
            match rest {
                // The server sleeps: that is no failure for those who come now.
                Rest::Unused => up.why = None,
                Rest::Stopping => up.why = Some("it was stopped".to_owned()),
            }
            drop(up);
            end_politely(&mut process).await;
            Ok(rest)
        }
        Err(why) => {
            let failure = failed(why);
            // Nobody waits for the sweep: its calls are answered first.
            up.why = Some(failure.to_string());
            drop(up);
            process.end().await;
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
        self.connection.close(self.why.as_deref().unwrap_or("it was put to sleep"));
    }
}

/// Starts the program with its own tag.
async fn start(program: &Program, processes: &Processes) -> io::Result<Process> {
    let wanted = program.clone();
    let found = tokio::task::spawn_blocking(move || {
        let folder = wanted.folder.clone().unwrap_or_else(|| PathBuf::from("/"));
        let handle = File::open(&folder)?;
        Ok::<_, io::Error>((find(&wanted)?, Folder::new(handle.into(), folder)))
    });
    let (path, folder) = found.await.unwrap_or_else(|lost| Err(io::Error::other(lost)))?;
    let environment = program.environment.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let spec = Spec::new(path, folder, processes.tag())
        .arguments(program.arguments.clone())
        .environment(environment)
        .streams(Streams::Apart)
        .input(ProcessInput::Pipe);
    processes.start(spec).await
}

/// The program's path: as it is, or by the `PATH` of its environment.
fn find(program: &Program) -> io::Result<PathBuf> {
    let command = Path::new(&program.command);
    if command.components().count() > 1 {
        let folder = program.folder.as_deref().unwrap_or(Path::new("/"));
        return Ok(folder.join(command));
    }
    let path = program.environment.iter().find(|(name, _)| name == "PATH");
    let folders = std::env::split_paths(path.map_or("", |(_, value)| value));
    let found = folders.map(|folder| folder.join(command)).find(|path| path.is_absolute() && path.is_file());
    found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such program in the PATH of its environment"))
}

/// Carries lines between the process and the connection until one of them fails.
async fn pump(server: &Server, connection: &Connection, process: &mut Process, lines: mpsc::Receiver<String>) -> Why {
    let input = process.take_input();
    tokio::select! {
        why = read(server, connection, process) => why,
        () = write(input, lines) => Why::Closed,
    }
}

/// Writes what is sent. A server that does not read is noticed by those who wait for it; one that closed its input, by its end.
async fn write(input: Option<ChildStdin>, mut lines: mpsc::Receiver<String>) {
    if let Some(mut input) = input {
        while let Some(line) = lines.recv().await {
            if input.write_all(line.as_bytes()).await.is_err() || input.flush().await.is_err() {
                break;
            }
        }
    }
    // What happened to the process is known a moment later, with its status.
    tokio::time::sleep(ENDS_WITHIN).await;
}

async fn read(server: &Server, connection: &Connection, process: &mut Process) -> Why {
    let config = &server.config;
    let mut reader = Lines::new(config.line_bytes_max);
    let (began, mut rate) = (Instant::now(), Rate::new(config.unasked_max));
    let mut asks = FuturesUnordered::new();
    let mut status = None;
    loop {
        let event = match status {
            // Its last answer may still be in the pipe; processes that it left may hold the pipe open for ever.
            Some(status) => match timeout(LAST_WORDS_WITHIN, process.next()).await {
                Ok(ProcessEvent::Closed) | Err(_) => return Why::Ended(status),
                Ok(event) => event,
            },
            None => tokio::select! {
                biased;
                Some(()) = asks.next(), if !asks.is_empty() => continue,
                event = process.next() => event,
            },
        };
        match event {
            ProcessEvent::Output(Stream::Stderr, bytes) => server.heard(&bytes),
            ProcessEvent::Output(_, bytes) => {
                let (mut wishes, mut unasked) = (Vec::<Wish>::new(), 0_u32);
                let taken = reader.push(&bytes, |line| {
                    let Some(messages) = message::read(line) else {
                        if !line.trim_ascii().is_empty() {
                            server.misheard(line);
                            unasked += 1;
                        }
                        return;
                    };
                    for message in messages {
                        match connection.take(message) {
                            Taken::Awaited => {}
                            Taken::Unasked | Taken::Shown => unasked += 1,
                            Taken::Wish(wish) => wishes.push(wish),
                        }
                    }
                });
                if taken == Err(TooLong) {
                    return Why::TooLong(config.line_bytes_max);
                }
                unasked += u32::try_from(wishes.len()).unwrap_or(u32::MAX);
                if rate.is_exceeded(unasked, began.elapsed()) {
                    return Why::Flood(config.unasked_max);
                }
                for wish in wishes {
                    match connection.only_call().filter(|_| asks.len() < WISHES_MAX) {
                        Some(call) => asks.push(async move {
                            let answer = server.ask(&wish.params, &call).await;
                            connection.grant(&wish.id, Ok(answer));
                        }),
                        None => connection.grant(&wish.id, Ok(ask::declined())),
                    }
                }
            }
            ProcessEvent::Ended(ended) => status = Some(ended),
            ProcessEvent::Closed => return Why::Closed,
            _ => {}
        }
    }
}

/// Greets the server, lists its tools, again where they have changed, and returns when nobody uses it any more.
async fn talk(server: &Server, connection: &Arc<Connection>, cx: &ChildContext) -> Result<Rest, Why> {
    let limit = server.config.start_limit;
    let greeted = timeout(limit, async {
        let hello = hello(connection).await?;
        let offer = if hello.has_tools { list(server, connection).await? } else { Offer::default() };
        Ok::<_, Why>((hello, offer))
    });
    let (hello, mut known) = greeted.await.map_err(|_| Why::Slow(limit))??;
    let offered = |offer: &Offer| Offer { tools: offer.tools.clone(), refused: offer.refused.clone() };
    server.offers(hello.clone(), offered(&known));
    server.is_up(connection);
    cx.node().doing("serving");
    loop {
        tokio::select! {
            () = server.unused() => if server.rests(connection) {
                return Ok(Rest::Unused);
            },
            () = connection.tools_changed.notified() => {
                let now = timeout(limit, list(server, connection)).await.map_err(|_| Why::Slow(limit))??;
                if now != known {
                    server.offers(hello.clone(), offered(&now));
                    known = now;
                }
                tokio::time::sleep(LIST_PAUSE).await;
            }
        }
    }
}

async fn list(server: &Server, connection: &Connection) -> Result<Offer, Why> {
    let listed = tools(connection).await.map_err(Why::List)?;
    Ok(offer(&server.config, &listed))
}

/// Ends the process: by the end of its input, which has happened, then by a request, then by force. Nothing of it is left.
async fn end_politely(process: &mut Process) {
    if !ends(process).await {
        process.ask_to_end().await;
        ends(process).await;
    }
    process.end().await;
}

/// Whether the process ends within its time.
async fn ends(process: &mut Process) -> bool {
    let ended = async {
        while process.status().is_none() {
            if let ProcessEvent::Closed = process.next().await {
                break;
            }
        }
    };
    timeout(ENDS_WITHIN, ended).await.is_ok()
}
