//! [`Address`]: a database, and how each connection to it is made.
//!
//! The one road to a server: the pool, the writer, the listener and `migrate` all connect here, so that what `sslmode` promises holds
//! for all of them. `tokio-postgres` knows three of its values and no `sslrootcert`, so both are taken out of the connection string
//! before it is read there.

use std::{error::Error as _, net::IpAddr, time::Duration};

use tokio_postgres::{
    Client, Config, Connection, Socket,
    config::{Host, SslMode},
};

use crate::{
    PostgresError,
    tls::{Check, Tls, TlsStream},
};

/// How long a connection may take to be made, over all hosts that are named.
const CONNECT_MAX: Duration = Duration::from_secs(15);

#[derive(Clone, Debug)]
pub(crate) struct Address {
    config: Config,
    tls: Tls,
}

impl Address {
    /// Reads a connection string, and the file of certificates that it names.
    pub(crate) fn read(connection: &str, complete: impl FnOnce(&mut Config)) -> Result<Address, PostgresError> {
        let (rest, wanted) = Wanted::taken_from(connection);
        let (mode, check) = wanted.meant()?;
        let mut config: Config = rest.parse().map_err(|error: tokio_postgres::Error| {
            let which = error.source().and_then(|why| option_of(&why.to_string())).unwrap_or_default();
            wrong(format!("the connection string cannot be read: {error}{which}"))
        })?;
        complete(&mut config);
        if config.get_user().is_none() {
            return Err(wrong("the connection string names no user: add user=…".to_owned()));
        }
        if config.get_hosts().is_empty() {
            // The certificate is for the address then.
            let addresses: Vec<IpAddr> = config.get_hostaddrs().to_vec();
            for address in addresses {
                config.host(address.to_string());
            }
        }
        if config.get_hosts().is_empty() {
            return Err(wrong("the connection string names no host: add host=…".to_owned()));
        }
        let sockets = config.get_hosts().iter().filter(|host| !matches!(host, Host::Tcp(_))).count();
        if sockets > 0 && !config.get_hostaddrs().is_empty() {
            // The address would win, and the connection leave this machine.
            return Err(wrong("host is a socket of this machine, and hostaddr a server: name one of them".to_owned()));
        }
        let is_local = sockets == config.get_hosts().len();
        if sockets > 0 && !is_local && mode == SslMode::Require {
            return Err(wrong("a socket of this machine is never encrypted: leave it out beside servers".to_owned()));
        }
        // PostgreSQL encrypts nothing on a socket, and nothing leaves the machine.
        let (mode, check) = if is_local { (SslMode::Disable, Check::Nothing) } else { (mode, check) };
        config.ssl_mode(mode);
        Ok(Address { config, tls: Tls::new(check)? })
    }

    /// The version of TLS of the last connection, if that is encrypted.
    pub(crate) fn encryption(&self) -> Option<String> {
        self.tls.version()
    }

    /// Connects, within a limit: a server may take the connection and say nothing. Somebody must drive the connection.
    pub(crate) async fn connect(&self) -> Result<(Client, Connection<Socket, TlsStream>), PostgresError> {
        let connected = tokio::time::timeout(CONNECT_MAX, self.config.connect(self.tls.clone())).await;
        let silent = || format!("it did not let this program in within {} s", CONNECT_MAX.as_secs());
        let connected = connected.map_err(|_| PostgresError::Unreachable { message: silent() })?;
        connected.map_err(|error| PostgresError::of("connect", &error))
    }
}

/// Which option it is about, if it says so. Whatever else is in the text may be a part of a password.
fn option_of(why: &str) -> Option<String> {
    let kind = ["unknown option `", "invalid value for option `"].into_iter().find(|kind| why.starts_with(kind))?;
    let name = why.strip_prefix(kind)?.strip_suffix('`')?;
    let is_plain =
        (1..=32).contains(&name.len()) && name.bytes().all(|letter| letter.is_ascii_lowercase() || letter == b'_');
    is_plain.then(|| format!(": {kind}{name}`"))
}

fn wrong(what: String) -> PostgresError {
    PostgresError::Options { what }
}

/// What a connection string says of encryption.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wanted {
    sslmode: Option<String>,
    sslrootcert: Option<String>,
}

impl Wanted {
    /// The connection string without its words about encryption, and these.
    fn taken_from(connection: &str) -> (String, Wanted) {
        let mut wanted = Wanted::default();
        let is_url = ["postgres://", "postgresql://"].iter().any(|scheme| connection.starts_with(scheme));
        let rest = if is_url { wanted.take_from_url(connection) } else { wanted.take_from_words(connection) };
        (rest, wanted)
    }

    /// Keeps a value that is ours.
    fn take(&mut self, key: &str, value: impl FnOnce() -> String) -> bool {
        let place = match key {
            "sslmode" => &mut self.sslmode,
            "sslrootcert" => &mut self.sslrootcert,
            _ => return false,
        };
        *place = Some(value());
        true
    }

    fn take_from_url(&mut self, url: &str) -> String {
        // A `?` before the `@` is of the password.
        let from = url.find('@').unwrap_or(0);
        let Some(at) = url[from..].find('?').map(|at| from + at + 1) else { return url.to_owned() };
        let is_other = |parameter: &&str| {
            let decoded = |value: &str| percent_encoding::percent_decode_str(value).decode_utf8_lossy().into_owned();
            !parameter.split_once('=').is_some_and(|(key, value)| self.take(&decoded(key), || decoded(value)))
        };
        let others: Vec<&str> = url[at..].split('&').filter(is_other).collect();
        format!("{}{}", &url[..at], others.join("&"))
    }

    /// What is no `key=value` is left for the reader that comes after, which says what is wrong.
    fn take_from_words(&mut self, words: &str) -> String {
        let (mut rest, mut left) = (String::new(), words);
        while let Some((key, after)) = left.split_once('=') {
            let (value, end) = value_of(after.trim_start());
            match self.take(key.trim(), || value) {
                true => rest.push(' '),
                false => rest.push_str(&left[..left.len() - end.len()]),
            }
            left = end;
        }
        rest + left
    }

    fn meant(self) -> Result<(SslMode, Check), PostgresError> {
        // A key without a value takes the next word for one, and that may be a password.
        let is_a_word = |value: &&str| value.split('/').next().is_some_and(|before| before.contains('='));
        for (key, value) in [("sslmode", &self.sslmode), ("sslrootcert", &self.sslrootcert)] {
            if value.as_deref().filter(is_a_word).is_some() {
                return Err(wrong(format!("{key} has no value")));
            }
        }
        let of_system = self.sslrootcert.as_deref() == Some("system");
        let file = self.sslrootcert.filter(|_| !of_system);
        let is_named = of_system || file.is_some();
        match (self.sslmode.as_deref(), file) {
            (None | Some("disable" | "prefer"), _) if is_named => {
                Err(wrong("sslrootcert is to check the server: add sslmode=verify-full".to_owned()))
            }
            (Some("require" | "verify-ca"), None) if of_system => Err(wrong(
                "sslrootcert=system goes with sslmode=verify-full alone: anybody may have a certificate of a public \
                     authority"
                    .to_owned(),
            )),
            (Some("disable"), _) => Ok((SslMode::Disable, Check::Nothing)),
            (None | Some("prefer"), _) => Ok((SslMode::Prefer, Check::Nothing)),
            (Some("require"), None) => Ok((SslMode::Require, Check::Nothing)),
            (Some("require" | "verify-ca"), Some(file)) => {
                Ok((SslMode::Require, Check::Authority { file: file.into() }))
            }
            (Some("verify-ca"), None) => Err(wrong(
                "sslmode=verify-ca needs the authority's certificate: add sslrootcert=FILE, or take \
                     sslmode=verify-full"
                    .to_owned(),
            )),
            (Some("verify-full"), file) => Ok((SslMode::Require, Check::Name { file: file.map(Into::into) })),
            (Some(other), _) => {
                let is_plain =
                    other.len() <= 16 && other.bytes().all(|letter| letter.is_ascii_alphabetic() || letter == b'-');
                let shown = if is_plain { other } else { "…" };
                Err(wrong(format!("sslmode={shown:?}: take disable, prefer, require, verify-ca or verify-full")))
            }
        }
    }
}

/// The value at the beginning of a text, and the text behind it.
fn value_of(text: &str) -> (String, &str) {
    let (is_quoted, text) = text.strip_prefix('\'').map_or((false, text), |quoted| (true, quoted));
    let (mut value, mut letters) = (String::new(), text.chars());
    loop {
        let before = letters.as_str();
        match letters.next() {
            None => return (value, ""),
            Some('\'') if is_quoted => return (value, letters.as_str()),
            Some(letter) if !is_quoted && letter.is_whitespace() => return (value, before),
            Some('\\') => value.extend(letters.next()),
            Some(letter) => value.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn wanted(mode: &str, roots: Option<&str>) -> Wanted {
        Wanted { sslmode: Some(mode.to_owned()), sslrootcert: roots.map(str::to_owned) }
    }

    #[test]
    fn the_words_about_encryption_are_taken_out_and_no_other() {
        for (given, rest, found) in [
            ("host=a user=b", "host=a user=b", Wanted::default()),
            ("host=a sslmode=require user=b", "host=a  user=b", wanted("require", None)),
            ("user=b sslmode='require'host=a", "user=b host=a", wanted("require", None)),
            ("postgresql://b@a/d?%73slmode=require", "postgresql://b@a/d?", wanted("require", None)),
            (
                "sslmode = 'verify-ca' sslrootcert='/a b/\\'c.pem' host=a",
                "   host=a",
                wanted("verify-ca", Some("/a b/'c.pem")),
            ),
            ("password='sslmode=disable' sslmode=require", "password='sslmode=disable' ", wanted("require", None)),
            (r"password=a\ sslmode=disable", r"password=a\ sslmode=disable", Wanted::default()),
            ("postgresql://b@a/d?sslmode=verify-full", "postgresql://b@a/d?", wanted("verify-full", None)),
            (
                "postgres://b:c?sslmode=x@a/d?connect_timeout=3&sslrootcert=%2Fa%20b.pem&sslmode=verify-full&options=-c",
                "postgres://b:c?sslmode=x@a/d?connect_timeout=3&options=-c",
                wanted("verify-full", Some("/a b.pem")),
            ),
            ("postgresql://b@a/d", "postgresql://b@a/d", Wanted::default()),
        ] {
            assert_eq!(Wanted::taken_from(given), (rest.to_owned(), found), "{given}");
        }
    }

    /// What would check nothing, or less than it says, is refused with what to write.
    #[test]
    fn a_mode_that_is_no_mode_or_cannot_check_is_refused_with_what_to_write() {
        for (given, why) in [
            ("sslmode=allow", "sslmode=\"allow\": take disable, prefer, require, verify-ca or verify-full"),
            ("sslrootcert=/ca.pem", "sslrootcert is to check the server: add sslmode=verify-full"),
            ("sslmode=prefer sslrootcert=/ca.pem", "sslrootcert is to check the server: add sslmode=verify-full"),
            ("sslmode=disable sslrootcert=system", "sslrootcert is to check the server: add sslmode=verify-full"),
            ("sslmode=require sslrootcert=system", "sslrootcert=system goes with sslmode=verify-full alone"),
            ("sslmode=verify-ca", "sslmode=verify-ca needs the authority's certificate: add sslrootcert=FILE"),
            ("sslmode=verify-full sslrootcert=/none.pem", "sslrootcert=/none.pem cannot be read: "),
            ("sslmode=verify-full sslrootcert=/", "sslrootcert=/ is no file"),
            ("sslmode= password=hunter2", "sslmode has no value"),
            ("sslmode=verify-full sslrootcert= password=/hunter2", "sslrootcert has no value"),
            ("sslmode=hunter2", "sslmode=\"…\": take"),
            ("sslcert=x", "cannot be read: invalid connection string: unknown option `sslcert`"),
            ("connect_timeout=hunter2", "invalid value for option `connect_timeout`"),
            ("hostaddr=10.0.0.5 host=/run/postgresql", "host is a socket of this machine, and hostaddr a server"),
            ("host=/run/postgresql,a sslmode=require", "a socket of this machine is never encrypted"),
        ] {
            let error = Address::read(&format!("host=a user=b password=hunter2 {given}"), |_| ()).unwrap_err();
            assert!(error.to_string().contains(why), "{given}: {error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn a_socket_of_this_machine_is_never_encrypted_and_an_address_is_its_own_name() {
        let read = |given: &str| Address::read(given, |_| ()).unwrap().config;
        let local = read("host=/run/postgresql user=b sslmode=verify-full");
        assert_eq!(local.get_ssl_mode(), SslMode::Disable);
        let address = read("hostaddr=127.0.0.1 user=b");
        assert_eq!(address.get_ssl_mode(), SslMode::Prefer);
        assert_eq!(address.get_hosts(), [Host::Tcp("127.0.0.1".to_owned())]);
    }
}
