//! Requests to servers that are no models, over the same pool of connections: [`HttpClient::send`].
//!
//! The HTTP crate stays behind this file and its neighbours, so another crate that must speak HTTP, such as the client of MCP, needs
//! neither a second HTTP crate nor one in our signatures. It gets a request with headers that nothing prints, and an answer that is
//! read in bounded pieces: as one text, or as server-sent events.
//!
//! A change must keep this: no redirect is followed and no request is made twice; what is kept of an answer has a bound; and no error
//! shows a header, or an address with its user, password or query.

use std::{collections::VecDeque, fmt, net::IpAddr, time::Duration};

use tokio::time::timeout;

use super::{HttpClient, innermost};
use crate::model::{
    ErrorKind, ModelError, Secret,
    endpoint::without_secrets,
    sse::{Decoder, Event},
};

/// A request to a server that is no model.
///
/// ```
/// use tamtam::model::{HttpRequest, Secret};
///
/// let request = HttpRequest::post("https://example.com/mcp?key=sk-1", "{}").header("authorization", Secret::new("Bearer sk-1"));
/// assert_eq!(format!("{request:?}"), "HttpRequest(POST https://example.com/mcp)");
/// ```
#[derive(Clone)]
pub struct HttpRequest {
    method: reqwest::Method,
    url: String,
    headers: Vec<(String, Secret)>,
    body: Vec<u8>,
}

impl HttpRequest {
    fn new(method: reqwest::Method, url: impl Into<String>, body: Vec<u8>) -> HttpRequest {
        HttpRequest { method, url: url.into(), headers: Vec::new(), body }
    }

    /// A GET of an `http` or `https` address.
    #[must_use]
    pub fn get(url: impl Into<String>) -> HttpRequest {
        HttpRequest::new(reqwest::Method::GET, url, Vec::new())
    }

    /// A POST with this body.
    #[must_use]
    pub fn post(url: impl Into<String>, body: impl Into<Vec<u8>>) -> HttpRequest {
        HttpRequest::new(reqwest::Method::POST, url, body.into())
    }

    /// A DELETE.
    #[must_use]
    pub fn delete(url: impl Into<String>) -> HttpRequest {
        HttpRequest::new(reqwest::Method::DELETE, url, Vec::new())
    }

    /// The same request with one more header, whose value no log and no error shows. A later value of a name replaces an earlier one.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Secret>) -> HttpRequest {
        let name = name.into();
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(&name));
        self.headers.push((name, value.into()));
        self
    }

    fn sendable(&self) -> Result<(reqwest::Url, reqwest::header::HeaderMap), ModelError> {
        use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
        let at = without_secrets(&self.url);
        let bad = |what: String| ModelError::new(ErrorKind::InvalidRequest, what);
        let url: reqwest::Url = self.url.trim().parse().map_err(|_| bad(format!("bad url {at:?}: not a url")))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(bad(format!("bad url {at:?}: use http://HOST or https://HOST")));
        }
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let known =
                HeaderName::try_from(name.as_str()).map_err(|_| bad(format!("{name:?} is no name of a header")))?;
            let mut value = HeaderValue::try_from(value.reveal())
                .map_err(|_| bad(format!("the header {name} has characters that no header can carry")))?;
            value.set_sensitive(true);
            headers.insert(known, value);
        }
        Ok((url, headers))
    }
}

impl fmt::Debug for HttpRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HttpRequest({} {})", self.method, without_secrets(&self.url))
    }
}

impl HttpClient {
    /// Makes a request and returns when the head of its answer is there, whatever its status.
    ///
    /// Follows no redirect: the headers would go elsewhere. Waits for the connection no longer than
    /// [`connect_timeout`](super::super::HttpOptions::connect_timeout), and for the head no longer than
    /// [`first_timeout`](super::super::HttpOptions::first_timeout). Dropping the future closes the connection, or with HTTP/2 its stream; the
    /// server may have read the request.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidRequest`] for an address or a header that cannot be sent, [`ErrorKind::Network`] if the server cannot be
    /// reached, [`ErrorKind::Timeout`] if it does not answer in time.
    pub async fn send(&self, request: HttpRequest) -> Result<HttpAnswer, ModelError> {
        let options = self.options();
        let (url, headers) = request.sendable()?;
        let at = without_secrets(url.as_str());
        // A name is judged when it is looked up.
        if let Some(literal) = literal(&url).filter(|literal| !options.addresses.has(*literal)) {
            return Err(ModelError::new(ErrorKind::InvalidRequest, format!("{literal} is no public address")));
        }
        let client = self.for_scheme(url.scheme()).await?;
        let sent = client.request(request.method, url).headers(headers).body(request.body).send();
        let response = timeout(options.first_timeout, sent).await.map_err(|_| {
            let what = format!("{at} sent nothing of its answer within {:?}", options.first_timeout);
            ModelError::new(ErrorKind::Timeout, what)
        })?;
        let response = response.map_err(|error| {
            let what = if error.is_connect() { "failed to connect to" } else { "failed to send to" };
            ModelError::new(ErrorKind::Network, format!("{what} {at}: {}", innermost(&error)))
        })?;
        let decoder = Decoder::new(options.event_bytes_max);
        Ok(HttpAnswer { at, response, decoder, ready: VecDeque::new(), bytes_max: options.answer_bytes_max })
    }
}

/// The address that a URL has in place of a name.
fn literal(url: &reqwest::Url) -> Option<IpAddr> {
    let host = url.host_str()?;
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host).parse().ok()
}

/// The answer to an [`HttpRequest`]: its head, and its body as far as it was read. Dropping it closes the connection unless the whole
/// body was read.
pub struct HttpAnswer {
    /// The address, as it may be shown.
    at: String,
    response: reqwest::Response,
    decoder: Decoder,
    /// Events that have come and were not asked for yet.
    ready: VecDeque<Event>,
    bytes_max: usize,
}

/// One server-sent event of an [`HttpAnswer`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpEvent {
    /// Its data; empty for an event that only has an id.
    pub data: String,
    /// The newest id of the stream, from which it can be read again, if the server gave one of at most 1,024 bytes.
    pub id: Option<String>,
    /// How long the server asks to wait before the stream is read again.
    pub retry: Option<Duration>,
}

impl HttpAnswer {
    /// The status.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    /// A header; `None` if it is not there, or is no text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name)?.to_str().ok()
    }

    /// The whole body as text. The caller bounds the time.
    ///
    /// # Errors
    /// [`ErrorKind::AnswerTooLarge`] beyond [`answer_bytes_max`](super::super::HttpOptions::answer_bytes_max), [`ErrorKind::Truncated`]
    /// if the connection breaks.
    pub async fn text(mut self) -> Result<String, ModelError> {
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            if body.len() + chunk.len() > self.bytes_max {
                let what = format!("{} sent an answer of more than {} bytes", self.at, self.bytes_max);
                return Err(ModelError::new(ErrorKind::AnswerTooLarge, what));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    /// The first bytes of the body, `max` at most, and whether it goes on behind them. The caller bounds the time.
    ///
    /// # Errors
    /// [`ErrorKind::Truncated`] if the connection breaks.
    #[cfg(feature = "web-fetch")]
    pub(crate) async fn start(mut self, max: usize) -> Result<(Vec<u8>, bool), ModelError> {
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            let room = max - body.len();
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if chunk.len() > room {
                return Ok((body, true));
            }
        }
        Ok((body, false))
    }

    /// The next event of a stream of events; `None` at its end. An event that no empty line has completed is none. The caller bounds
    /// the time and the number; dropping the future loses nothing.
    ///
    /// # Errors
    /// [`ErrorKind::AnswerTooLarge`] if an event has more than [`event_bytes_max`](super::super::HttpOptions::event_bytes_max),
    /// [`ErrorKind::Truncated`] if the connection breaks. Then the answer is of no further use.
    pub async fn event(&mut self) -> Result<Option<HttpEvent>, ModelError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(HttpEvent { data: event.data, id: event.id, retry: self.decoder.retry }));
            }
            let Some(chunk) = self.chunk().await? else { return Ok(None) };
            let events = self
                .decoder
                .push(&chunk)
                .map_err(|error| ModelError::new(ErrorKind::AnswerTooLarge, format!("{} {error}", self.at)))?;
            self.ready.extend(events);
        }
    }

    async fn chunk(&mut self) -> Result<Option<bytes::Bytes>, ModelError> {
        self.response.chunk().await.map_err(|error| {
            ModelError::new(ErrorKind::Truncated, format!("{} broke off its answer: {}", self.at, innermost(&error)))
        })
    }
}

impl fmt::Debug for HttpAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HttpAnswer({} of {})", self.status(), self.at)
    }
}

#[cfg(all(test, feature = "http"))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// K01: what cannot be sent is refused before anything leaves, and the error shows no value.
    #[tokio::test]
    async fn what_cannot_be_sent_is_named_without_its_secrets() {
        let client = HttpClient::new(crate::model::HttpOptions::default());
        for (request, why) in [
            (HttpRequest::get("host/x?key=CANARY"), "bad url \"host/x\": not a url"),
            (HttpRequest::get("ftp://u:CANARY@host/x"), "bad url \"ftp://host/x\": use http://HOST or https://HOST"),
            (HttpRequest::get("http://h").header("a b", "CANARY"), "\"a b\" is no name of a header"),
            (
                HttpRequest::post("http://h", "{}").header("x-key", "CANARY\nx: y"),
                "the header x-key has characters that no header can carry",
            ),
        ] {
            let error = client.send(request).await.unwrap_err();
            assert_eq!((error.kind, error.message.as_str()), (ErrorKind::InvalidRequest, why));
        }
    }
}
