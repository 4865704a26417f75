//! How requests to providers leave this machine: the proxy, and the certificates that are trusted beside the system's own.
//!
//! The library reads no variable; this file reads `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` for it, in small letters
//! first, as curl does. `--proxy` and `--ca`, or the same settings of a file, win over the variables.
//!
//! A change must keep this: a server on this machine is reached without a proxy; a proxy that cannot be used is an error before a
//! session is opened, because a request that went round it would show a key to the wrong network; and a proxy is printed through
//! [`models::shown`] only, because its address may have a password.

use std::path::{Path, PathBuf};

use clap::Args;
use tamtam::model::{HttpOptions, Proxies, Secret};
use url::Url;

use super::{environment::Environment, failure::Failure, models, named_file};

/// Largest file of certificates.
const CA_BYTES_MAX: u64 = 4 << 20;

/// Hosts that are reached without a proxy, whatever `NO_PROXY` says.
const OWN_MACHINE: &str = "localhost,127.0.0.0/8,::1";

/// What is written in the place of a proxy for none.
pub(super) const NO_PROXY: &str = "none";

/// How requests to providers leave this machine.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct NetworkArguments {
    /// HTTP proxy for requests to providers, or none [default: HTTPS_PROXY, HTTP_PROXY or ALL_PROXY, except for NO_PROXY]
    // Checked in `proxy_for`: the error of the parser of arguments would show a password.
    #[arg(long, value_name = "URL")]
    pub(super) proxy: Option<String>,
    /// File of PEM certificates to trust in addition to the system's
    #[arg(long, value_name = "FILE")]
    pub(super) ca: Option<PathBuf>,
}

/// A proxy and what names it.
pub(super) struct Named {
    /// The argument or variable.
    pub(super) by: &'static str,
    url: String,
}

impl Named {
    /// Its address, without what may be a password.
    pub(super) fn shown(&self) -> String {
        models::shown(&self.url)
    }
}

impl NetworkArguments {
    /// The options of the connections to providers.
    pub(super) fn options(&self, environment: &Environment) -> Result<HttpOptions, Failure> {
        let mut options = HttpOptions::default();
        let secret = |named: Option<Named>| named.map(|named| Secret::new(named.url));
        options.proxies = Proxies::default();
        options.proxies.http = secret(self.proxy_for("http", environment)?);
        options.proxies.https = secret(self.proxy_for("https", environment)?);
        options.proxies.except = match either(environment, "NO_PROXY") {
            Some((_, hosts)) => format!("{hosts},{OWN_MACHINE}"),
            None => OWN_MACHINE.to_owned(),
        };
        options.extra_roots_pem.extend(self.certificates(environment)?);
        Ok(options)
    }

    /// The proxy for addresses of that scheme.
    pub(super) fn proxy_for(&self, scheme: &str, environment: &Environment) -> Result<Option<Named>, Failure> {
        let of_scheme = if scheme == "https" { "HTTPS_PROXY" } else { "HTTP_PROXY" };
        let variable = || either(environment, of_scheme).or_else(|| either(environment, "ALL_PROXY"));
        let Some((by, text)) = self.proxy.as_deref().map(|text| ("--proxy", text)).or_else(variable) else {
            return Ok(None);
        };
        let url =
            proxy(text).map_err(|why| Failure::usage(format!("{by}: {why}; --proxy none goes without a proxy")))?;
        Ok(url.map(|url| Named { by, url }))
    }

    /// The text of the file of certificates.
    fn certificates(&self, environment: &Environment) -> Result<Option<String>, Failure> {
        let read = |path: &Path| {
            let text = named_file::text(path, CA_BYTES_MAX)?;
            let has_one = text.contains("-----BEGIN CERTIFICATE-----");
            if has_one { Ok(text) } else { Err("it has no PEM certificate".to_owned()) }
        };
        let path = self.ca.as_deref().map(|path| environment.absolute(path));
        let text = path.map(|path| {
            read(&path)
                .map_err(|why| Failure::usage(format!("cannot read certificates from {}: {why}", path.display())))
        });
        text.transpose()
    }
}

/// The variable of this name, in small letters or in capitals, and its value.
fn either<'a>(environment: &'a Environment, name: &'static str) -> Option<(&'static str, &'a str)> {
    let small = environment.get(&name.to_lowercase());
    small.or_else(|| environment.get(name)).map(|value| (name, value))
}

/// Reads the address of a proxy; `None` for `none`. An error never quotes the text, which may have a password.
pub(super) fn proxy(text: &str) -> Result<Option<String>, String> {
    if text == NO_PROXY {
        return Ok(None);
    }
    let with_scheme = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    if with_scheme.starts_with("socks") {
        return Err("a SOCKS proxy is not supported: name an HTTP proxy".to_owned());
    }
    // With a path it may be a password that has a `/`, and the host another one than was meant.
    let is_address = |url: &Url| {
        matches!(url.scheme(), "http" | "https")
            && url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none()
    };
    match Url::parse(&with_scheme) {
        Ok(url) if is_address(&url) => Ok(Some(with_scheme)),
        _ => Err("a proxy is written as http://HOST:PORT".to_owned()),
    }
}

/// A proxy as it may be printed.
pub(super) fn proxy_shown(text: &str) -> String {
    match proxy(text) {
        Ok(url) => url.map_or_else(|| NO_PROXY.to_owned(), |url| models::shown(&url)),
        Err(why) => format!("({why})"),
    }
}

/// The words of a connection string that are no secret.
const SHOWN: [&str; 10] = [
    "host",
    "hostaddr",
    "port",
    "user",
    "dbname",
    "sslmode",
    "sslrootcert",
    "application_name",
    "connect_timeout",
    "target_session_attrs",
];

/// The connection of a database for people: without its password, and without what might be a part of one.
pub(super) fn database_shown(connection: &str) -> String {
    let scheme = ["postgresql://", "postgres://"].into_iter().find(|scheme| connection.starts_with(scheme));
    let Some((scheme, rest)) = scheme.and_then(|scheme| Some((scheme, connection.strip_prefix(scheme)?))) else {
        // What is not wholly of words that are no secret may be a mistyped address with a password.
        let is_plain = |word: &str| {
            word.split_once('=')
                .is_some_and(|(key, value)| SHOWN.contains(&key) && !value.contains(['@', ':', '\'', '"']))
        };
        let is_shown = connection.split_whitespace().all(is_plain);
        return if is_shown { connection.to_owned() } else { "host=… user=… dbname=…".to_owned() };
    };
    // The client takes what is before the first `@` for a user and a password, whatever it has in it; settings may hold one too.
    let (user, address) = rest.split_once('@').map_or((None, rest), |(user, address)| (Some(user), address));
    let (address, settings) = address.split_once('?').map_or((address, ""), |(address, _)| (address, "?…"));
    if address.contains('@') || user.is_some_and(|user| user.contains(['/', '?', '#'])) {
        return format!("{scheme}…");
    }
    let user = user.map(|user| format!("{}@", user.split(':').next().unwrap_or_default())).unwrap_or_default();
    format!("{scheme}{user}{address}{settings}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::failure::Exit;

    /// The proxy of each scheme, and the hosts without one.
    fn proxies(proxy: Option<&str>, variables: &[(&str, &str)]) -> Result<[Option<String>; 3], Failure> {
        let given = NetworkArguments { proxy: proxy.map(str::to_owned), ca: None };
        let proxies = given.options(&Environment::of(variables))?.proxies;
        let shown = |secret: Option<Secret>| secret.map(|secret| secret.reveal().to_owned());
        Ok([shown(proxies.http), shown(proxies.https), Some(proxies.except)])
    }

    #[test]
    fn the_proxy_comes_from_the_argument_or_from_the_variables_as_curl_reads_them() {
        let text = |text: &str| Some(text.to_owned());
        let own = text(OWN_MACHINE);
        let cases = [
            (None, &[][..], [None, None, own.clone()]),
            (None, &[("HTTPS_PROXY", "http://s:1")], [None, text("http://s:1"), own.clone()]),
            (
                None,
                &[("all_proxy", "a:1"), ("HTTP_PROXY", "h:1")],
                [text("http://h:1"), text("http://a:1"), own.clone()],
            ),
            (
                None,
                &[("https_proxy", "small:1"), ("HTTPS_PROXY", "LARGE:1")],
                [None, text("http://small:1"), own.clone()],
            ),
            (Some("none"), &[("ALL_PROXY", "socks5://a:1")], [None, None, own.clone()]),
            (None, &[("HTTPS_PROXY", "none"), ("ALL_PROXY", "a:1")], [text("http://a:1"), None, own.clone()]),
            (Some("p:3128"), &[("ALL_PROXY", "a:1")], [text("http://p:3128"), text("http://p:3128"), own]),
            (None, &[("NO_PROXY", "corp.example")], [None, None, Some(format!("corp.example,{OWN_MACHINE}"))]),
        ];
        for (given, variables, expected) in cases {
            assert_eq!(proxies(given, variables).unwrap(), expected, "{given:?} {variables:?}");
        }
    }

    #[test]
    fn a_proxy_that_cannot_be_used_is_an_error_and_is_not_passed_over() {
        for value in [
            "socks5h://127.0.0.1:1080",
            "ftp://x",
            "http://h:99999",
            "http://:8080",
            "http://a b:1",
            "http://user:hunter2/x@h:1",
            "http://user:80/hunter2@h:1",
        ] {
            for (by, refused) in
                [("HTTPS_PROXY", proxies(None, &[("HTTPS_PROXY", value)])), ("--proxy", proxies(Some(value), &[]))]
            {
                let Failure { exit, message, .. } = refused.unwrap_err();
                assert_eq!(exit, Exit::Usage);
                assert!(message.starts_with(by) && !message.contains(value), "{value}: {message}");
            }
            assert!(!proxy_shown(value).contains("hunter2"), "{value}");
        }
        assert_eq!(proxy_shown("user:hunter2@h:1"), "http://h:1");
    }

    #[test]
    fn a_file_without_a_certificate_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        let given = NetworkArguments { proxy: None, ca: Some(file.clone()) };
        let options = || given.options(&Environment::default());
        assert_eq!(options().unwrap_err().exit, Exit::Usage, "there is no such file");
        std::fs::write(&file, "-----BEGIN PRIVATE KEY-----\n").unwrap();
        assert!(options().unwrap_err().message.contains("no PEM certificate"));
        std::fs::write(&file, "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n").unwrap();
        assert_eq!(options().unwrap().extra_roots_pem.len(), 1);
    }

    #[test]
    fn a_connection_is_shown_without_its_password() {
        for (connection, expected) in [
            ("postgresql://app@db/app", "postgresql://app@db/app"),
            ("postgresql://app:hunter2@db:5432/app", "postgresql://app@db:5432/app"),
            ("postgres://app:hunter2@a,b/app?target_session_attrs=read-write", "postgres://app@a,b/app?…"),
            ("postgres://app:hunt@er2@db/app", "postgres://…"),
            ("postgres://app:hunt/er2@db/app", "postgres://…"),
            ("postgresql://app:hunt?er2@db/app", "postgresql://…"),
            ("postgresql://db/app?user=app&password=hunter2", "postgresql://db/app?…"),
            ("postgresql://db/app?pass%77ord=hunter2", "postgresql://db/app?…"),
            ("postgresql://db/app?password=hunt@er2", "postgresql://…"),
            ("host=db user=app password=a://b", "host=… user=… dbname=…"),
            ("host=db user=app dbname=app", "host=db user=app dbname=app"),
            ("host=db user=app PASSWORD = 'hunter2'", "host=… user=… dbname=…"),
            ("\"postgresql://app:hunter2@db/app\"", "host=… user=… dbname=…"),
            (" postgresql://app:hunter2@db/app", "host=… user=… dbname=…"),
            ("jdbc:postgresql://app:hunter2@db/app?a=b", "host=… user=… dbname=…"),
            ("host=db user=app pwd=hunter2", "host=… user=… dbname=…"),
            ("host=db user=app:hunter2@db", "host=… user=… dbname=…"),
        ] {
            assert_eq!(database_shown(connection), expected);
        }
    }
}
