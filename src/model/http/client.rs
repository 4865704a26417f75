//! The pool of connections that models share.
//!
//! It has two clients, each made at its first use: one for `http`, which reads no certificates, and one for `https`, with the
//! system's certificates and the cryptography of the crate `ring`. On Linux the dependency that reads the system's certificates
//! obeys the variables `SSL_CERT_FILE` and `SSL_CERT_DIR`; nothing else here depends on the environment.
//!
//! A change must keep this: nothing is installed for the whole process, because the host may use TLS too; no proxy comes from the
//! environment; no redirect is followed; and certificates are read on a blocking thread, because reading them takes long.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use rustls::{ClientConfig, RootCertStore, crypto::CryptoProvider};
use rustls_pki_types::{CertificateDer, pem::PemObject};

#[cfg(feature = "websocket")]
use {super::socket::Lines, crate::lock::Lock, std::collections::HashMap, tokio::time::Instant};

use super::public::{Addresses, PublicOnly};
use crate::model::{ErrorKind, HttpOptions, ModelError, Secret};

/// How long an unused connection is kept.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// A pool of connections with its limits. Cloning shares it; when the last clone is gone, its connections are closed.
#[derive(Clone)]
pub struct HttpClient(Arc<Shared>);

struct Shared {
    options: HttpOptions,
    plain: OnceLock<Result<reqwest::Client, ModelError>>,
    secure: OnceLock<Result<reqwest::Client, ModelError>>,
    /// WebSockets: the clients that ask for them (plain, secure), those that sessions keep, and the addresses that have none.
    #[cfg(feature = "websocket")]
    sockets: Sockets,
}

#[cfg(feature = "websocket")]
#[derive(Default)]
struct Sockets {
    plain: OnceLock<Result<reqwest::Client, ModelError>>,
    secure: OnceLock<Result<reqwest::Client, ModelError>>,
    lines: Lines,
    none_at: Lock<HashMap<String, Instant>>,
}

/// How long an address that has no WebSocket is not asked for one.
#[cfg(feature = "websocket")]
const NONE_FOR: Duration = Duration::from_secs(10 * 60);

/// The most addresses without a WebSocket that are remembered.
#[cfg(feature = "websocket")]
const NONE_AT_MAX: usize = 256;

impl HttpClient {
    /// A pool without connections. Certificates are read at the first `https` request.
    #[must_use]
    pub fn new(options: HttpOptions) -> HttpClient {
        HttpClient(Arc::new(Shared {
            options,
            plain: OnceLock::new(),
            secure: OnceLock::new(),
            #[cfg(feature = "websocket")]
            sockets: Sockets::default(),
        }))
    }

    /// Its limits.
    #[must_use]
    pub fn options(&self) -> &HttpOptions {
        &self.0.options
    }

    /// The client of a scheme, made at its first request. The client of `https` is made on a blocking thread, because it reads the
    /// system's certificates.
    pub(super) async fn for_scheme(&self, scheme: &str) -> Result<reqwest::Client, ModelError> {
        match scheme {
            "https" => self.secure(|shared| &shared.secure, Speaks::Newest).await,
            _ => self.plain(|shared| &shared.plain, Speaks::Newest),
        }
    }

    /// The client of a scheme that asks for WebSockets.
    #[cfg(feature = "websocket")]
    pub(super) async fn for_upgrade(&self, scheme: &str) -> Result<reqwest::Client, ModelError> {
        match scheme {
            "https" => self.secure(|shared| &shared.sockets.secure, Speaks::Http1).await,
            _ => self.plain(|shared| &shared.sockets.plain, Speaks::Http1),
        }
    }

    fn plain(&self, place: Place, speaks: Speaks) -> Result<reqwest::Client, ModelError> {
        let options = &self.0.options;
        place(&self.0).get_or_init(|| client(options, options.proxies.http.as_ref(), no_tls()?, speaks)).clone()
    }

    async fn secure(&self, place: Place, speaks: Speaks) -> Result<reqwest::Client, ModelError> {
        if let Some(made) = place(&self.0).get() {
            return made.clone();
        }
        let shared = Arc::clone(&self.0);
        let make = move || {
            let options = &shared.options;
            let made = || client(options, options.proxies.https.as_ref(), secure_tls(options, speaks)?, speaks);
            place(&shared).get_or_init(made).clone()
        };
        let made = tokio::task::spawn_blocking(make).await;
        made.unwrap_or_else(|_| Err(unusable("failed to set up tls: the runtime is going down")))
    }

    /// The WebSockets that sessions keep.
    #[cfg(feature = "websocket")]
    pub(super) fn lines(&self) -> &Lines {
        &self.0.sockets.lines
    }

    /// Whether the address is known to have no WebSocket.
    #[cfg(feature = "websocket")]
    pub(super) fn has_no_socket(&self, url: &reqwest::Url) -> bool {
        self.0.sockets.none_at.lock().get(url.as_str()).is_some_and(|known| known.elapsed() < NONE_FOR)
    }

    #[cfg(feature = "websocket")]
    pub(super) fn note_no_socket(&self, url: &reqwest::Url) {
        let mut none_at = self.0.sockets.none_at.lock();
        if none_at.len() >= NONE_AT_MAX {
            none_at.clear();
        }
        none_at.insert(url.as_str().to_owned(), Instant::now());
    }
}

/// Where a client is kept.
type Place = fn(&Shared) -> &OnceLock<Result<reqwest::Client, ModelError>>;

/// Which HTTP a client offers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Speaks {
    Newest,
    /// The only one in which a connection becomes a WebSocket.
    #[cfg(feature = "websocket")]
    Http1,
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient").field("options", &self.0.options).finish()
    }
}

fn client(
    options: &HttpOptions,
    proxy: Option<&Secret>,
    tls: ClientConfig,
    speaks: Speaks,
) -> Result<reqwest::Client, ModelError> {
    let mut builder = reqwest::Client::builder()
        .use_preconfigured_tls(tls)
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(options.connect_timeout)
        .pool_idle_timeout(POOL_IDLE_TIMEOUT)
        .tcp_keepalive(Duration::from_secs(30))
        .user_agent(concat!("tamtam/", env!("CARGO_PKG_VERSION")));
    if speaks != Speaks::Newest {
        builder = builder.http1_only();
    }
    let is_public = options.addresses == Addresses::Public;
    if is_public && proxy.is_none() {
        builder = builder.dns_resolver(Arc::new(PublicOnly));
    }
    if let Some(proxy) = proxy {
        // The cause is left out: it would repeat the address, and with it the password.
        let proxy = reqwest::Proxy::all(proxy.reveal()).map_err(|_| unusable("the proxy is not a url"))?;
        // An exception would be a way past the proxy, and past the resolver.
        let except = if is_public { "" } else { options.proxies.except.as_str() };
        builder = builder.proxy(proxy.no_proxy(reqwest::NoProxy::from_string(except)));
    }
    builder.build().map_err(|error| unusable(&format!("failed to set up http: {}", error.without_url())))
}

fn unusable(what: &str) -> ModelError {
    ModelError::new(ErrorKind::InvalidRequest, what)
}

fn ring() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn tls() -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, ModelError> {
    let builder = ClientConfig::builder_with_provider(ring()).with_safe_default_protocol_versions();
    builder.map_err(no_tls_because)
}

fn no_tls_because(error: rustls::Error) -> ModelError {
    unusable(&format!("failed to set up tls: {error}"))
}

/// TLS without a trusted root, for the client that makes no secure connection.
fn no_tls() -> Result<ClientConfig, ModelError> {
    Ok(tls()?.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

fn secure_tls(options: &HttpOptions, speaks: Speaks) -> Result<ClientConfig, ModelError> {
    let mut extra = Vec::new();
    for pem in &options.extra_roots_pem {
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            extra.push(certificate.map_err(|_| unusable("an extra root certificate is not pem"))?);
        }
    }
    let verifier = rustls_platform_verifier::Verifier::new_with_extra_roots(extra, ring()).map_err(no_tls_because)?;
    let mut config = tls()?.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth();
    config.alpn_protocols = match speaks {
        Speaks::Newest => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        #[cfg(feature = "websocket")]
        Speaks::Http1 => vec![b"http/1.1".to_vec()],
    };
    Ok(config)
}
