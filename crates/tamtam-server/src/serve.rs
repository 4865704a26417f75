//! Serves a router on a socket: connections with their limits, and an end in order.
//!
//! `axum::serve` sets no limit for the time of a header, for the number of connections, and for a client that reads nothing; so the
//! accept loop is here, over the parts that axum is made of.
//!
//! The order of the end: no new connections; the runtime drains, which finishes running turns while streams still show them; the
//! streams end with `draining`; the connections end; then the runtime does. Each wait has a bound.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::Router;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpSocket, TcpStream},
    sync::Semaphore,
    time::{Sleep, sleep},
};
use tokio_util::task::TaskTracker;

use crate::{Server, app::App};

/// How long connections may take to end after the streams have.
const CONNECTIONS_END: Duration = Duration::from_secs(2);

/// The pause after an accept that failed, such as for want of descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// The most bytes of one header, and of what is written and not sent yet: what a stalled client costs.
const BUFFER_BYTES: usize = 32 << 10;

/// The most bytes that the kernel keeps for a client that does not read (it counts its own records in, so it is told half of what it
/// may take). Left to itself it keeps megabytes for each, and a thousand stalled clients would take gigabytes.
const SEND_BYTES: u32 = 128 << 10;

/// How many connections wait to be accepted.
const BACKLOG: u32 = 1_024;

/// Why a server does not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address is not of the loopback, and there is no token.
    #[error("{address} can be reached from other machines: set a token, or bind 127.0.0.1 or a Unix socket")]
    NeedsToken {
        /// The address.
        address: SocketAddr,
    },
    /// A server listens there already.
    #[error("{at} is in use: another server listens there")]
    InUse {
        /// Where.
        at: String,
    },
    /// The address or path cannot be bound.
    #[error("failed to listen on {at}: {source}")]
    Bind {
        /// Where.
        at: String,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// A bound socket that nobody is accepted on yet.
#[derive(Debug)]
pub struct Bound {
    listener: Listener,
    at: String,
}

#[derive(Debug)]
enum Listener {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(tokio::net::UnixListener, PathBuf),
}

impl Bound {
    /// Binds an address. Any other than one of the loopback needs a token, because whoever reaches the server can run tools.
    ///
    /// # Errors
    /// See [`ServeError`].
    pub async fn tcp(address: SocketAddr, server: &Server) -> Result<Bound, ServeError> {
        if !address.ip().to_canonical().is_loopback() && server.app.options.token.is_none() {
            return Err(ServeError::NeedsToken { address });
        }
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse => ServeError::InUse { at: address.to_string() },
            _ => ServeError::Bind { at: address.to_string(), source },
        };
        let listener = listen(address).map_err(failed)?;
        let at = listener.local_addr().unwrap_or(address);
        Ok(Bound { listener: Listener::Tcp(listener), at: format!("http://{at}") })
    }

    /// Binds a Unix socket that only this user can open. A socket that a dead server left is replaced; one that a server listens on
    /// is not.
    ///
    /// # Errors
    /// See [`ServeError`].
    #[cfg(unix)]
    pub async fn unix(path: impl Into<PathBuf>) -> Result<Bound, ServeError> {
        use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, PermissionsExt as _};
        let path = path.into();
        let at = path.display().to_string();
        let failed = |source: io::Error| ServeError::Bind { at: at.clone(), source };
        if let Some(folder) = path.parent() {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        }
        if tokio::net::UnixStream::connect(&path).await.is_ok() {
            return Err(ServeError::InUse { at });
        }
        if std::fs::symlink_metadata(&path).is_ok_and(|there| !there.file_type().is_socket()) {
            return Err(failed(io::Error::new(io::ErrorKind::AlreadyExists, "something else is there")));
        }
        // The socket gets its name, in the place of a dead one, only after it has its mode: before, others could open it.
        let hidden = path.with_extension(format!("{}.new", std::process::id()));
        drop(std::fs::remove_file(&hidden));
        let listener = tokio::net::UnixListener::bind(&hidden).map_err(failed)?;
        std::fs::set_permissions(&hidden, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
        std::fs::rename(&hidden, &path).map_err(failed)?;
        Ok(Bound { listener: Listener::Unix(listener, path), at: format!("unix:{at}") })
    }

    /// Where it listens: `http://127.0.0.1:7878` or `unix:/run/user/1000/tamtam/tamtam.sock`.
    #[must_use]
    pub fn at(&self) -> &str {
        &self.at
    }

    /// The address, if it is one.
    #[must_use]
    pub fn address(&self) -> Option<(IpAddr, u16)> {
        match &self.listener {
            Listener::Tcp(listener) => listener.local_addr().ok().map(|at| (at.ip(), at.port())),
            #[cfg(unix)]
            Listener::Unix(..) => None,
        }
    }
}

/// Listens as `TcpListener::bind` does; the sockets that are accepted have the listener's bound of what waits to be sent.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A server that starts again takes the address of its predecessor, whose connections may still be closing.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.set_send_buffer_size(SEND_BYTES)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves until `stop` resolves. Then running turns are finished, streams end, and so does the runtime. Returns what the shutdown of the
/// runtime left over.
pub async fn serve(server: Server, bound: Bound, stop: impl Future<Output = ()>) -> tamtam::runtime::Leftover {
    let (app, connections) = accept(&server, bound, stop).await;
    app.runtime.drain(app.options.drain_time_max).await;
    end(&app, connections).await;
    app.runtime.shutdown().await
}

/// Serves until `stop` resolves; then the streams end, and the runtime goes on. For a host that has other uses for its runtime, and
/// ends it itself.
pub async fn serve_beside(server: Server, bound: Bound, stop: impl Future<Output = ()>) {
    let (app, connections) = accept(&server, bound, stop).await;
    end(&app, connections).await;
}

/// Takes connections until `stop` resolves.
async fn accept(server: &Server, bound: Bound, stop: impl Future<Output = ()>) -> (App, TaskTracker) {
    let (app, router, connections) = (server.app.clone(), server.router(), TaskTracker::new());
    let places = Arc::new(Semaphore::new(app.options.connections_max.min(Semaphore::MAX_PERMITS)));
    tokio::pin!(stop);
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut stop => break,
            accepted = bound.listener.accept() => accepted,
        };
        let Ok(socket) = accepted else {
            sleep(ACCEPT_AGAIN).await;
            continue;
        };
        // One connection too many is closed at once: a queue of them would look like a server that hangs.
        let Ok(place) = places.clone().try_acquire_owned() else {
            tracing::warn!(max = app.options.connections_max, "too many connections");
            continue;
        };
        let (app, router) = (app.clone(), router.clone());
        connections.spawn(async move {
            connection(&app, router, socket).await;
            drop(place);
        });
    }
    #[cfg(unix)]
    if let Listener::Unix(_, path) = &bound.listener {
        drop(std::fs::remove_file(path));
    }
    (app, connections)
}

/// Ends the streams, and gives the connections a moment.
async fn end(app: &App, connections: TaskTracker) {
    app.draining.send_replace(true);
    connections.close();
    let _ = tokio::time::timeout(CONNECTIONS_END, connections.wait()).await;
}

async fn connection(app: &App, router: Router, socket: Socket) {
    let io = TokioIo::new(Guarded { socket, stalls: app.options.stall_time_max, stalled: None });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(app.options.header_time_max).max_buf_size(BUFFER_BYTES);
    let connection = builder.serve_connection(io, TowerToHyperService::new(router));
    tokio::pin!(connection);
    let mut draining = app.draining.subscribe();
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = crate::events::is_true(&mut draining) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended badly");
    }
}

enum Socket {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(tokio::net::UnixStream),
}

impl Listener {
    async fn accept(&self) -> io::Result<Socket> {
        match self {
            Listener::Tcp(listener) => {
                let (socket, _) = listener.accept().await?;
                // Events are small and wanted now.
                socket.set_nodelay(true)?;
                Ok(Socket::Tcp(socket))
            }
            #[cfg(unix)]
            Listener::Unix(listener, _) => Ok(Socket::Unix(listener.accept().await?.0)),
        }
    }
}

/// A socket whose writes fail when the client has read nothing for too long.
struct Guarded {
    socket: Socket,
    stalls: Duration,
    /// Since a write had to wait.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Guarded {
    /// Passes a write's result on, or fails when it has waited for too long.
    fn in_time<T>(&mut self, wrote: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if wrote.is_ready() {
            self.stalled = None;
            return wrote;
        }
        let stalls = self.stalls;
        match self.stalled.get_or_insert_with(|| Box::pin(sleep(stalls))).as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Guarded {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.socket {
            Socket::Tcp(socket) => Pin::new(socket).poll_read(cx, buffer),
            #[cfg(unix)]
            Socket::Unix(socket) => Pin::new(socket).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Guarded {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let wrote = match &mut self.socket {
            Socket::Tcp(socket) => Pin::new(socket).poll_write(cx, bytes),
            #[cfg(unix)]
            Socket::Unix(socket) => Pin::new(socket).poll_write(cx, bytes),
        };
        self.in_time(wrote, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = match &mut self.socket {
            Socket::Tcp(socket) => Pin::new(socket).poll_write_vectored(cx, parts),
            #[cfg(unix)]
            Socket::Unix(socket) => Pin::new(socket).poll_write_vectored(cx, parts),
        };
        self.in_time(wrote, cx)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = match &mut self.socket {
            Socket::Tcp(socket) => Pin::new(socket).poll_flush(cx),
            #[cfg(unix)]
            Socket::Unix(socket) => Pin::new(socket).poll_flush(cx),
        };
        self.in_time(flushed, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.socket {
            Socket::Tcp(socket) => Pin::new(socket).poll_shutdown(cx),
            #[cfg(unix)]
            Socket::Unix(socket) => Pin::new(socket).poll_shutdown(cx),
        }
    }
}
