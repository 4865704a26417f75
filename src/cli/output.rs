//! Output on its way to stdout and stderr: in order, on a thread of its own, so that a slow reader holds up
//! neither the session nor Ctrl-C.

use std::{
    io::{ErrorKind, Write as _},
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
};

use tokio::sync::{mpsc, watch};

use super::render::Show;

/// Pieces that wait for a slow reader; beyond, whoever shows something waits.
const PIECES_MAX: usize = 1_024;

/// Where to show something. Clones go to the same place.
#[derive(Clone)]
pub(super) struct Output {
    pieces: mpsc::Sender<Show>,
    closed: watch::Receiver<bool>,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
}

impl Output {
    /// Starts the thread.
    pub(super) fn start() -> std::io::Result<Output> {
        let (pieces, to_write) = mpsc::channel(PIECES_MAX);
        let (close, closed) = watch::channel(false);
        let thread = std::thread::Builder::new().name("output".to_owned()).spawn(move || {
            write_all(to_write);
            // Whether it failed or there is nothing more to come: nothing is shown from here on.
            let _ = close.send(true);
        })?;
        Ok(Output { pieces, closed, thread: Arc::new(Mutex::new(Some(thread))) })
    }

    /// Shows a piece. What nobody reads any more is dropped.
    pub(super) async fn show(&self, piece: Show) {
        drop(self.pieces.send(piece).await);
    }

    /// Resolves when nobody reads stdout any more.
    pub(super) async fn closed(&self) {
        let mut closed = self.closed.clone();
        drop(closed.wait_for(|closed| *closed).await);
    }

    /// Waits until all that was shown by now is written.
    pub(super) async fn finish(self) {
        let Output { pieces, thread, .. } = self;
        drop(pieces.send(Show::End).await);
        let thread = thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            drop(tokio::task::spawn_blocking(move || thread.join()).await);
        }
    }
}

fn write_all(mut pieces: mpsc::Receiver<Show>) {
    let mut stdout = std::io::stdout();
    while let Some(piece) = pieces.blocking_recv() {
        let written = match piece {
            Show::Out(text) => stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()),
            Show::Note(line) => {
                // Where stderr is gone nobody misses a note.
                drop(writeln!(std::io::stderr(), "{line}"));
                Ok(())
            }
            Show::End => return,
        };
        if let Err(error) = written {
            if error.kind() != ErrorKind::BrokenPipe {
                drop(writeln!(std::io::stderr(), "error: failed to write to stdout: {error}"));
            }
            return;
        }
    }
}
