//! [`serve`]: one client over a pair of streams, from its first line to its last.

use std::{io, sync::Arc, time::Duration};

use serde_json::Value;
use tamtam::Runtime;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
    task::JoinSet,
};

use crate::{
    connection::Connection,
    options::AcpOptions,
    peer::Peer,
    rpc,
    wire::{self, FRAMES_MAX, Lines, TooLong},
};

/// How long answers may still go out after the client's last line.
const LAST_WAIT: Duration = Duration::from_millis(500);

/// Why a connection ended before the client's last line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Reading failed.
    #[error("failed to read from the client: {0}")]
    Read(#[source] io::Error),
    /// Writing failed: the client reads no more.
    #[error("failed to write to the client: {0}")]
    Write(#[source] io::Error),
}

/// Serves one client: reads its lines until the last one, and answers. Any number of clients may be served beside each other, and
/// share sessions: what one does, all see.
///
/// Returns when the client has closed its side. What its sessions do goes on, as if it had never been there: a client that dies
/// loses nothing, and a host that ends with its client shuts the runtime down. Dropping the future ends the connection likewise.
///
/// A client that reads slowly makes its own updates wait, and no session.
///
/// # Errors
/// [`ServeError`]: a stream failed. The connection has ended as above.
pub async fn serve(
    runtime: Runtime,
    options: AcpOptions,
    input: impl AsyncRead + Unpin + Send,
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> Result<(), ServeError> {
    let (out, frames) = mpsc::channel(FRAMES_MAX);
    let mut lines = Lines::new(input, options.line_bytes_max);
    let peer = Peer::new(out);
    let ending = Ending(Arc::new(Connection::new(runtime, options, peer.clone())));
    let mut tasks = JoinSet::new();
    let mut writing = JoinSet::new();
    writing.spawn(wire::write(output, frames));
    let read = loop {
        let line = tokio::select! {
            written = writing.join_next() => return Err(write_error(written)),
            Some(_) = tasks.join_next(), if !tasks.is_empty() => continue,
            line = lines.next() => line,
        };
        // Where the client is gone, the writing has ended, and the next look says so.
        let _ = match line {
            Err(error) => break Err(ServeError::Read(error)),
            Ok(None) => break Ok(()),
            Ok(Some(Err(TooLong))) => peer.answer(Value::Null, Err(lines.too_long())).await,
            Ok(Some(Ok(line))) => match rpc::read(&line) {
                Ok(message) => ending.0.take(message, &mut tasks).await,
                Err((id, fault)) => peer.answer(id, Err(fault)).await,
            },
        };
    };
    // Answers that are nearly there still go out; a prompt is left to go on without this client.
    let rest = async { while tasks.join_next().await.is_some() {} };
    drop(tokio::time::timeout(LAST_WAIT, rest).await);
    tasks.shutdown().await;
    drop(ending);
    drop(peer);
    // All that has frames is gone or on its way, so this ends with the last one.
    match tokio::time::timeout(LAST_WAIT, writing.join_next()).await {
        Ok(Some(Ok(Err(error)))) if read.is_ok() => Err(ServeError::Write(error)),
        _ => read,
    }
}

/// Held sessions are shown by tasks of their own, which end with the connection, however that ends.
struct Ending(Arc<Connection>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.end();
    }
}

fn write_error(written: Option<Result<io::Result<()>, tokio::task::JoinError>>) -> ServeError {
    ServeError::Write(match written {
        Some(Ok(Err(error))) => error,
        _ => io::ErrorKind::BrokenPipe.into(),
    })
}
