//! A server that is a program of this machine: started, fed with lines, read, and ended with all that it started.
//!
//! The process carries a tag of the runtime, so that the runtime's shutdown finds it, and the watcher does if the host is killed.
//! Nothing here waits for a call or for a person.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use tamtam::tools::process::{Folder, Process, ProcessEvent, ProcessInput, Processes, Spec, Stream, Streams};
use tokio::{io::AsyncWriteExt as _, process::ChildStdin, sync::mpsc, time::timeout};

use crate::{
    config::Program,
    connection::Connection,
    intake::{Heard, Intake, heard},
    life::Why,
    server::Server,
    wire::{Lines, TooLong},
};

/// How long a server may take to end once its input has ended, and again once it was asked to.
const ENDS_WITHIN: Duration = Duration::from_millis(1_200);
/// How long the output of a process that has ended is read.
const LAST_WORDS_WITHIN: Duration = Duration::from_millis(300);

/// Starts the program with its own tag.
pub(crate) async fn start(program: &Program, processes: &Processes) -> io::Result<Process> {
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
pub(crate) async fn pump(
    server: &Server,
    connection: &Connection,
    process: &mut Process,
    lines: mpsc::Receiver<String>,
) -> Why {
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
    let line_bytes_max = server.config.line_bytes_max;
    let mut reader = Lines::new(line_bytes_max);
    let mut intake = Intake::new(server, connection);
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
                () = intake.asking() => continue,
                event = process.next() => event,
            },
        };
        match event {
            ProcessEvent::Output(Stream::Stderr, bytes) => server.heard(&bytes),
            ProcessEvent::Output(_, bytes) => {
                let mut all = Heard::default();
                let taken = reader.push(&bytes, |line| all.add(heard(server, connection, line, None)));
                if taken == Err(TooLong) {
                    return Why::TooLong(line_bytes_max);
                }
                if let Err(why) = intake.judge(all) {
                    return why;
                }
            }
            ProcessEvent::Ended(ended) => status = Some(ended),
            ProcessEvent::Closed => return Why::Closed,
            _ => {}
        }
    }
}

/// Ends the process: by the end of its input, which has happened, then by a request, then by force. Nothing of it is left.
pub(crate) async fn end_politely(process: &mut Process) {
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
