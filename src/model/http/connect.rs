//! The way to a server: straight, or through the host's proxy.
//!
//! `hyper-util` pools and drives the connections, `hyper-rustls` makes them secure, and this module chooses the way. A plain request
//! goes to a proxy in the proxy's form, with the whole address in its first line. A secure request goes through a tunnel, so the
//! proxy learns the name of the server and nothing else.
//!
//! A change must keep this: the password of a proxy goes to the proxy alone, and one limit holds for the whole way to the server.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use hyper::{
    Uri,
    header::HeaderValue,
    http::uri::Scheme,
    rt::{Read, ReadBufCursor, Write},
};
use hyper_rustls::HttpsConnector;
use hyper_util::client::{
    legacy::connect::{Connected, Connection, HttpConnector, proxy::Tunnel},
    proxy::matcher::{Intercept, Matcher},
};
use rustls::ClientConfig;
use tower_service::Service;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The host's proxy: its address and the header that opens it.
pub(super) type Proxy = Intercept;

/// The proxy at that URL; `None` where it is not an `http` or `https` URL.
pub(super) fn proxy(url: &str) -> Option<Proxy> {
    let any = Uri::from_static("http://any");
    let proxy = Matcher::builder().all(url.trim()).build().intercept(&any)?;
    matches!(proxy.uri().scheme_str(), Some("http" | "https")).then_some(proxy)
}

/// A URL without `user:password@`, and the header that this part stands for.
pub(super) fn without_user(url: Uri) -> (Uri, Option<HeaderValue>) {
    let Some((_, host)) = url.authority().and_then(|authority| authority.as_str().split_once('@')) else {
        return (url, None);
    };
    let host = host.parse();
    let header = proxy(&url.to_string()).and_then(|same_form| same_form.basic_auth().cloned());
    let mut parts = url.into_parts();
    parts.authority = host.ok();
    (Uri::from_parts(parts).unwrap_or_default(), header)
}

/// Makes connections for a pool.
#[derive(Clone)]
pub(super) struct Connector {
    /// To the server, or to the proxy; secure where the address says so.
    first: HttpsConnector<HttpConnector>,
    /// For the connection within a tunnel.
    tls: Arc<ClientConfig>,
    proxy: Option<Proxy>,
    timeout: Duration,
}

impl Connector {
    /// A way through `proxy`, where there is one. `timeout` is the limit of the whole way.
    pub(super) fn new(tls: ClientConfig, proxy: Option<Proxy>, timeout: Duration) -> Connector {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(Duration::from_secs(30)));
        let mut first = tls.clone();
        if proxy.is_some() {
            // HTTP/2 is spoken with the server, not with the proxy.
            first.alpn_protocols.clear();
        }
        Connector { first: HttpsConnector::from((tcp, first)), tls: Arc::new(tls), proxy, timeout }
    }

    async fn connect(mut self, server: Uri) -> Result<Stream, BoxError> {
        let Some(proxy) = self.proxy else {
            return Ok(Stream { io: Box::new(self.first.call(server).await?), to_proxy: false });
        };
        if server.scheme() != Some(&Scheme::HTTPS) {
            return Ok(Stream { io: Box::new(self.first.call(proxy.uri().clone()).await?), to_proxy: true });
        }
        let mut tunnel = Tunnel::new(proxy.uri().clone(), self.first);
        if let Some(password) = proxy.basic_auth() {
            tunnel = tunnel.with_auth(password.clone());
        }
        let secure = HttpsConnector::from((tunnel, self.tls)).call(server).await?;
        Ok(Stream { io: Box::new(secure), to_proxy: false })
    }
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let (timeout, connecting) = (self.timeout, self.clone().connect(server));
        Box::pin(async move {
            let connected = tokio::time::timeout(timeout, connecting).await;
            connected.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
        })
    }
}

/// A connection of any of the ways.
pub(super) struct Stream {
    /// One type for all ways: each type more would be a copy of the whole of HTTP in the build.
    io: Box<dyn Io>,
    /// Whether requests on it are in the proxy's form.
    to_proxy: bool,
}

trait Io: Read + Write + Connection + Send + Unpin {}

impl<T: Read + Write + Connection + Send + Unpin> Io for T {}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        self.io.connected().proxy(self.to_proxy)
    }
}

impl Read for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl Write for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, pieces)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_user_of_an_address_becomes_a_header_and_leaves_the_address() {
        let (url, header) = without_user(Uri::from_static("https://Aladdin:open%20sesame@h:8/v1?q=1"));
        assert_eq!(url, "https://h:8/v1?q=1");
        assert_eq!(header.unwrap(), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        let plain = Uri::from_static("http://h/v1");
        assert_eq!(without_user(plain.clone()), (plain, None));
    }

    #[test]
    fn a_proxy_is_an_http_address() {
        assert_eq!(proxy(" http://user:p@host:3128 ").unwrap().uri(), "http://host:3128/");
        for none in ["", "socks5://host:1080", "ftp://host", "http://"] {
            assert!(proxy(none).is_none(), "{none}");
        }
    }
}
