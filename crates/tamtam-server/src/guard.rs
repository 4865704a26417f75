//! What every request passes before a route sees it: the name under which it came, where it came from, its token, and what it may see.
//!
//! The order is the order of the checks below. A page in a browser can send requests to this machine, also under a name of its own
//! (DNS rebinding): so the name must be one of ours before anything else is looked at, and a request that names its origin must come
//! from our own pages. A change must keep that nothing but the page's files, health and the login passes without a token where one is
//! set, and that the scope comes from here alone.

use axum::{
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, Uri, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    answer::Done,
    app::{App, Said},
    describe::{Answers, Operation},
    options::{Denied, RequestInfo, Scope, Secret, ServerOptions},
    problem::{Answered, Problem, Refused},
};

/// The name of the cookie.
const COOKIE: &str = "tamtam";

/// Passes a request on, or refuses it. Whoever refuses it, here or on its route, it is logged here and once; without its words, which
/// the sentence of an error may repeat.
pub(crate) async fn guard(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = match check(&app.options, &request) {
        Ok(scope) => {
            if let Some(scope) = scope {
                request.extensions_mut().insert(scope);
            }
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    };
    if let Some(Refused(kind)) = response.extensions().get() {
        tracing::debug!(%method, path, status = response.status().as_u16(), kind = kind.as_str(), "request refused");
    }
    response
}

/// What the request may see; `None` for a path that shows nothing of the runtime.
fn check(options: &ServerOptions, request: &Request) -> Answered<Option<Scope>> {
    let (headers, path) = (request.headers(), request.uri().path());
    let host = host_of(headers, request.uri())?;
    check_origin(options, headers, host)?;
    if is_open(path) {
        return Ok(None);
    }
    if let Some(secret) = &options.token
        && !has_token(secret, headers)
    {
        return Err(Problem::unauthorized());
    }
    let Some(authorize) = &options.authorize else { return Ok(Some(Scope::All)) };
    let info = RequestInfo { method: request.method(), path, headers, extensions: request.extensions() };
    authorize(&info).map(Some).map_err(Problem::from)
}

impl From<Denied> for Problem {
    fn from(denied: Denied) -> Problem {
        match denied {
            Denied::Unauthorized => Problem::unauthorized(),
            Denied::Forbidden(why) => Problem::forbidden(why),
            Denied::Invalid(why) => Problem::invalid(why),
        }
    }
}

pub(crate) fn is_open(path: &str) -> bool {
    matches!(path, "/" | "/healthz" | "/readyz" | "/openapi.json" | "/v1/login" | "/v1/logout")
        || path.starts_with("/page/")
}

/// The host that the client named, with its port.
fn host_of<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Answered<&'a str> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next().map(|host| host.to_str().unwrap_or_default());
    let host = host.or_else(|| uri.authority().map(|authority| authority.as_str())).unwrap_or_default();
    if hosts.next().is_some() { Err(Problem::misdirected("two names at once")) } else { Ok(host) }
}

/// The name in a host, without its port.
fn name_of(host: &str) -> &str {
    if let Some(end) = host.find(']').filter(|_| host.starts_with('[')) {
        return &host[1..end];
    }
    host.rsplit_once(':').map_or(host, |(name, _)| name)
}

/// Whether a client may call the server so. An address is always right: only a name can be made to mean another machine.
fn is_ours(options: &ServerOptions, host: &str) -> bool {
    let name = name_of(host).trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.parse::<std::net::IpAddr>().is_ok() || options.hosts.contains(&name)
}

fn check_origin(options: &ServerOptions, headers: &HeaderMap, host: &str) -> Answered<()> {
    if !is_ours(options, host) {
        return Err(Problem::misdirected(&host.chars().take(80).collect::<String>()));
    }
    let foreign = || Problem::forbidden("a page of another origin may not send requests here");
    if let Some(origin) = headers.get(header::ORIGIN) {
        let origin = origin.to_str().map_err(|_| foreign())?.to_ascii_lowercase();
        let is_own = origin
            .split_once("://")
            .is_some_and(|(scheme, at)| matches!(scheme, "http" | "https") && at.eq_ignore_ascii_case(host));
        return if is_own || options.origins.contains(&origin) { Ok(()) } else { Err(foreign()) };
    }
    // A browser that sends no origin with a GET still says this.
    match headers.get("sec-fetch-site").map(|site| site.as_bytes()) {
        Some(b"cross-site" | b"same-site") if headers.get("sec-fetch-mode").is_none_or(|mode| mode != "navigate") => {
            Err(foreign())
        }
        _ => Ok(()),
    }
}

fn has_token(secret: &Secret, headers: &HeaderMap) -> bool {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
    });
    if let Some(token) = bearer {
        return secret.is(token);
    }
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let ours = cookies.flat_map(|value| value.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
    let cookie = Secret::of(&secret.cookie());
    ours.filter(|(name, _)| *name == COOKIE).any(|(_, value)| cookie.is(value))
}

/// What a person signs in with.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Login {
    /// The token.
    token: String,
}

/// Gives a page the cookie, so that no token stands in an address.
pub(crate) async fn login(State(app): State<App>, Said(login): Said<Login>) -> Answered<Cookie> {
    let Some(secret) = &app.options.token else { return Ok(Cookie(None)) };
    if !secret.is(&login.token) {
        return Err(Problem::unauthorized());
    }
    Ok(Cookie::of(&secret.cookie(), ""))
}

pub(crate) async fn logout(_: Method) -> Cookie {
    Cookie::of("", "; Max-Age=0")
}

/// 204, with a cookie if there is one to set.
pub(crate) struct Cookie(Option<String>);

impl Cookie {
    fn of(value: &str, more: &str) -> Cookie {
        Cookie(Some(format!("{COOKIE}={value}; HttpOnly; SameSite=Strict; Path=/{more}")))
    }
}

impl IntoResponse for Cookie {
    fn into_response(self) -> Response {
        match self.0 {
            Some(cookie) => (StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response(),
            None => StatusCode::NO_CONTENT.into_response(),
        }
    }
}

impl Answers for Cookie {
    fn describe(operation: &mut Operation<'_>) {
        Done::describe(operation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_machine_and_addresses_are_ours_and_others_are_not() {
        let options = ServerOptions::default().host("Agents.Example");
        for ours in
            ["localhost", "localhost:80", "LOCALHOST:7878", "127.0.0.1:1", "[::1]:80", "10.1.2.3", "agents.example:443"]
        {
            assert!(is_ours(&options, ours), "{ours}");
        }
        for foreign in
            ["", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "evil.example:localhost"]
        {
            assert!(!is_ours(&options, foreign), "{foreign}");
        }
    }

    #[test]
    fn a_token_is_known_as_a_bearer_and_as_the_cookie_it_was_changed_for() {
        let secret = Secret::of("t0ken");
        let with = |name: header::HeaderName, value: &str| {
            let mut headers = HeaderMap::new();
            value.parse().into_iter().for_each(|value| drop(headers.insert(name.clone(), value)));
            has_token(&secret, &headers)
        };
        assert!(with(header::AUTHORIZATION, "Bearer t0ken") && with(header::AUTHORIZATION, "bearer t0ken"));
        assert!(with(header::COOKIE, &format!("a=b; {COOKIE}={}", secret.cookie())));
        for wrong in ["", "t0ken", "Bearer ", "Bearer t0ken2", "Basic t0ken"] {
            assert!(!with(header::AUTHORIZATION, wrong), "{wrong}");
        }
        for wrong in ["tamtam=t0ken", "tamtam=", "other=x"] {
            assert!(!with(header::COOKIE, wrong), "{wrong}");
        }
    }
}
