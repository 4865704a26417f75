//! [`Tls`]: TLS for the connections, and what is checked of the server's certificate.
//!
//! It is the rustls of the model's connections, with the same cryptography and the same certificates of the system. A file of
//! certificates is read once, when the options are. Rejected: `tokio-postgres-rustls`, which brings a reader of certificates and its
//! crates along for the one field that channel binding needs.

use std::{
    error::Error as StdError,
    fmt,
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, ProtocolVersion, RootCertStore, SignatureScheme,
    client::{
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_cert_signed_by_trust_anchor, verify_server_name,
    },
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    server::ParsedCertificate,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject};
use sha2::{Digest, Sha256, Sha384, Sha512};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::{
    Socket,
    tls::{ChannelBinding, MakeTlsConnect, TlsConnect},
};

use crate::PostgresError;

/// The most bytes of a file of certificates.
const FILE_MAX: u64 = 4 * 1024 * 1024;

/// What is checked of the server's certificate.
#[derive(Clone, Debug)]
pub(crate) enum Check {
    /// Nothing: the connection is encrypted, to whoever answers.
    Nothing,
    /// That an authority of the file made it.
    Authority { file: PathBuf },
    /// That it is for the name of the host too. Without a file, the authorities are those of the system.
    Name { file: Option<PathBuf> },
}

/// How a connection comes to be encrypted.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    config: Arc<ClientConfig>,
    version: Arc<Mutex<Option<ProtocolVersion>>>,
}

impl Tls {
    pub(crate) fn new(check: Check) -> Result<Tls, PostgresError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let unusable = |error: Error| PostgresError::Options { what: format!("TLS cannot be set up: {error}") };
        let ours = |roots, has_name| Arc::new(Verifier { provider: Arc::clone(&provider), roots, has_name });
        let verifier: Arc<dyn ServerCertVerifier> = match check {
            Check::Nothing => ours(None, false),
            Check::Authority { file } => ours(Some(Roots::read(&file)?), false),
            Check::Name { file: Some(file) } => ours(Some(Roots::read(&file)?), true),
            Check::Name { file: None } => {
                let of_system = rustls_platform_verifier::Verifier::new(Arc::clone(&provider));
                Arc::new(of_system.map_err(|error| PostgresError::Options {
                    what: format!(
                        "the certificates of this system cannot be used: {error}; name a file with sslrootcert=FILE"
                    ),
                })?)
            }
        };
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let mut config =
            builder.map_err(unusable)?.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        // With `sslnegotiation=direct`, a server insists on it.
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(Tls { config: Arc::new(config), version: Arc::default() })
    }

    /// The version of the last connection, if that is encrypted.
    pub(crate) fn version(&self) -> Option<String> {
        let version = *self.version.lock().unwrap_or_else(PoisonError::into_inner);
        version.map(|version| format!("{version:?}").replace('_', "."))
    }
}

impl MakeTlsConnect<Socket> for Tls {
    type Stream = TlsStream;
    type TlsConnect = Named;
    type Error = io::Error;

    // Asked for sockets of this machine too, which have no name: so the name is read later.
    fn make_tls_connect(&mut self, host: &str) -> Result<Named, io::Error> {
        *self.version.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(Named { tls: self.clone(), host: host.to_owned() })
    }
}

/// TLS to a host of that name.
pub(crate) struct Named {
    tls: Tls,
    host: String,
}

impl TlsConnect<Socket> for Named {
    type Stream = TlsStream;
    type Error = Box<dyn StdError + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<TlsStream, Self::Error>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move {
            // An address of a link has the name of the link behind it.
            let host = self.host.split('%').next().unwrap_or_default().to_owned();
            let name = ServerName::try_from(host)
                .map_err(|_| Refused(format!("{:?} is no name of a server: check host", self.host)))?;
            match tokio_rustls::TlsConnector::from(self.tls.config).connect(name, socket).await {
                Ok(stream) => {
                    *self.tls.version.lock().unwrap_or_else(PoisonError::into_inner) =
                        stream.get_ref().1.protocol_version();
                    Ok(TlsStream(Box::new(stream)))
                }
                Err(error) => Err(match error.get_ref().and_then(|cause| cause.downcast_ref()) {
                    Some(cause) => Refused(format!("{cause}; {}", next_step(cause))).into(),
                    None => error.into(),
                }),
            }
        })
    }
}

/// Why there is no encrypted connection, and what to do: it would be the same again.
#[derive(Debug)]
pub(crate) struct Refused(String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for Refused {}

fn next_step(error: &Error) -> &'static str {
    use CertificateError::{
        Expired, ExpiredContext, NotValidForName, NotValidForNameContext, NotValidYet, NotValidYetContext,
        UnknownIssuer,
    };
    match error {
        Error::InvalidCertificate(UnknownIssuer) => {
            "name the file with the certificate of its authority: sslrootcert=FILE"
        }
        Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. }) => {
            "set host to a name that is among the alternative names of the certificate (its common name does not count), with \
             hostaddr for where it is; or take sslmode=verify-ca, which does not look at the name"
        }
        Error::InvalidCertificate(Expired | ExpiredContext { .. }) => {
            "renew the certificate of the server, or correct the clock of this machine"
        }
        Error::InvalidCertificate(NotValidYet | NotValidYetContext { .. }) => "correct the clock of this machine",
        error if is_own_authority(error) => {
            "the certificate is its own authority: name a file that has it with sslrootcert=FILE"
        }
        Error::InvalidCertificate(_) => {
            "give the server another certificate, of X.509 version 3, or take sslmode=disable on a network that is yours"
        }
        _ => "check that the server speaks TLS 1.2 or 1.3",
    }
}

/// Whether the certificate is one of an authority itself, of which `rustls` has the word alone.
fn is_own_authority(error: &Error) -> bool {
    matches!(error, Error::InvalidCertificate(CertificateError::Other(why)) if why.to_string().contains("CaUsedAsEndEntity"))
}

/// Certificates of authorities.
#[derive(Debug)]
struct Roots {
    store: RootCertStore,
    certificates: Vec<CertificateDer<'static>>,
}

impl Roots {
    fn read(file: &Path) -> Result<Roots, PostgresError> {
        let wrong = |why: String| PostgresError::Options { what: format!("sslrootcert={} {why}", file.display()) };
        let unread = |error| wrong(format!("cannot be read: {error}"));
        // A FIFO or a device may never end.
        if !std::fs::metadata(file).map_err(unread)?.is_file() {
            return Err(wrong("is no file".to_owned()));
        }
        let mut text = Vec::new();
        let read = File::open(file).and_then(|file| file.take(FILE_MAX + 1).read_to_end(&mut text));
        if read.map_err(unread)? as u64 > FILE_MAX {
            return Err(wrong(format!("has more than {FILE_MAX} bytes: name a file of certificates")));
        }
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
        let certificates = read.map_err(|error| wrong(format!("is not PEM: {error}")))?;
        let mut store = RootCertStore::empty();
        let (taken, _) = store.add_parsable_certificates(certificates.iter().cloned());
        if taken == 0 {
            return Err(wrong("has no certificate in it: take the PEM file of the authority".to_owned()));
        }
        Ok(Roots { store, certificates })
    }
}

/// Checks a certificate as far as `sslmode` says. That the server has the key of what it shows is checked always.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    roots: Option<Roots>,
    has_name: bool,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(roots) = &self.roots else { return Ok(ServerCertVerified::assertion()) };
        let parsed = ParsedCertificate::try_from(certificate)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        match verify_server_cert_signed_by_trust_anchor(&parsed, &roots.store, intermediates, now, algorithms) {
            // What `openssl req -x509` makes is its own authority. It was found to be in time before it was found to be one.
            Err(error) if is_own_authority(&error) && roots.certificates.contains(certificate) => {}
            checked => checked?,
        }
        if self.has_name {
            verify_server_name(&parsed, name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// An encrypted connection.
pub(crate) struct TlsStream(Box<tokio_rustls::client::TlsStream<Socket>>);

impl tokio_postgres::tls::TlsStream for TlsStream {
    fn channel_binding(&self) -> ChannelBinding {
        let certificates = self.0.get_ref().1.peer_certificates();
        let end_point = certificates.and_then(<[_]>::first).and_then(|certificate| end_point(certificate));
        end_point.map_or_else(ChannelBinding::none, ChannelBinding::tls_server_end_point)
    }
}

impl AsyncRead for TlsStream {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, into)
    }
}

impl AsyncWrite for TlsStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

/// The certificate's hash by the algorithm of its signature (RFC 5929, `tls-server-end-point`), by which a password is bound to
/// the connection. `None` for an algorithm that names no hash: then it is not bound.
fn end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
    const ECDSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04];
    // A sequence of what is signed, the algorithm, and the signature.
    let (fields, _) = element(certificate)?;
    let (_, after) = element(fields)?;
    let (algorithm, _) = element(after)?;
    let (name, _) = element(algorithm)?;
    let which = name.strip_prefix(RSA).or_else(|| name.strip_prefix(ECDSA))?;
    match which {
        // MD5 and SHA-1 count as SHA-256.
        [4 | 5 | 11] | [1] | [3, 2] => Some(Sha256::digest(certificate).to_vec()),
        [12] | [3, 3] => Some(Sha384::digest(certificate).to_vec()),
        [13] | [3, 4] => Some(Sha512::digest(certificate).to_vec()),
        _ => None,
    }
}

/// The content of the first element of some DER, and what is behind it.
fn element(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&length, rest) = der.get(1..)?.split_first()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(length), rest),
        // The length of the length, which has the highest bit.
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(length - 0x80))?;
            (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}
