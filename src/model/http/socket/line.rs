//! One WebSocket to a provider, made over the same client as every other request: its proxy, certificates and limits hold here too.

use std::time::Duration;

use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use reqwest::{Upgraded, header};
use tokio::time::{Instant, timeout};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error, Message, Utf8Bytes,
        error::CapacityError,
        handshake::{client::generate_key, derive_accept_key},
        protocol::{Role, WebSocketConfig},
    },
};

use super::super::{HttpModel, exchanges::Answered};
use crate::model::{Deltas, ErrorKind, ModelError};

/// How long one connection lives: then the provider closes it, in mid-answer too.
const LIVES: Duration = Duration::from_secs(60 * 60);

pub(super) struct Line {
    socket: WebSocketStream<Upgraded>,
    made: Instant,
}

/// What became of the wish for a WebSocket.
pub(super) enum Made {
    Line(Box<Line>),
    /// There is none here; `for_now`: it may be there the next time.
    None {
        for_now: bool,
    },
}

impl Line {
    /// Makes a connection. A server that refuses the request itself (a key, a limit) is an error as for any request.
    pub(super) async fn make(
        model: &HttpModel,
        trace: Option<&crate::words::trace::TraceContext>,
        deltas: &mut dyn Deltas,
    ) -> Result<Made, ModelError> {
        let client = model.client.for_upgrade(model.url.scheme()).await?;
        let key = generate_key();
        let get = client
            .get(model.url.clone())
            .header(header::CONNECTION, "Upgrade")
            .header(header::UPGRADE, "websocket")
            .header(header::SEC_WEBSOCKET_VERSION, "13")
            .header(header::SEC_WEBSOCKET_KEY, &key);
        // Nothing was asked yet, so nothing was read, and the limit is that of a connection.
        let limit = model.client.options().connect_timeout;
        let no_line = |why: &str| {
            let what = format!("made no WebSocket: {}", model.endpoint.quote(why));
            model.endpoint.error(ErrorKind::Network, what)
        };
        let response = match timeout(limit, model.with_headers(get, trace).send()).await {
            Err(_) => return Ok(Made::None { for_now: false }),
            Ok(sent) => sent.map_err(|error| model.not_sent(&error))?,
        };
        let status = response.status();
        let header = |name: &str| response.headers().get(name)?.to_str().ok().map(str::to_owned);
        match status.as_u16() {
            101 => {}
            401 | 402 | 408 | 409 | 429 => {
                deltas.head(status.as_u16(), &header);
                return Err(model.refused(&mut Answered::of_server(response, None)).await);
            }
            // Something on the way may not let it through. What the server itself refuses, it refuses over HTTP too.
            403 | 500 | 502..=599 => return Ok(Made::None { for_now: true }),
            _ => return Ok(Made::None { for_now: false }),
        }
        if header("sec-websocket-accept").as_deref() != Some(derive_accept_key(key.as_bytes()).as_str()) {
            return Err(no_line("the answer to its key is wrong, as of a proxy that kept an old answer"));
        }
        let upgraded = match timeout(limit, response.upgrade()).await {
            Err(_) => return Ok(Made::None { for_now: false }),
            Ok(upgraded) => upgraded.map_err(|error| no_line(&error.to_string()))?,
        };
        let most = Some(model.client.options().event_bytes_max);
        let config = WebSocketConfig::default().max_message_size(most).max_frame_size(most);
        let socket = WebSocketStream::from_raw_socket(upgraded, Role::Client, Some(config)).await;
        Ok(Made::Line(Box::new(Line { socket, made: Instant::now() })))
    }

    /// Whether another request, which may take this long, may be made on it.
    pub(super) fn has(&self, time: Duration) -> bool {
        self.made.elapsed().saturating_add(time) < LIVES
    }

    /// Whether something has come that nobody asked for, such as an end.
    pub(super) fn is_spoken_to(&mut self) -> bool {
        self.next().now_or_never().is_some()
    }

    pub(super) async fn send(&mut self, text: String) -> Result<(), Error> {
        self.socket.send(Message::text(text)).await
    }

    /// The next text; an error also where the other side has closed. Dropping the future loses none.
    pub(super) async fn next(&mut self) -> Result<Utf8Bytes, Error> {
        loop {
            match self.socket.next().await {
                Some(Ok(Message::Text(text))) => return Ok(text),
                Some(Ok(Message::Close(why))) => {
                    let why = why.map(|why| format!("closed the connection: {} {}", u16::from(why.code), why.reason));
                    return Err(Error::Io(std::io::Error::other(
                        why.unwrap_or_else(|| "closed the connection".to_owned()),
                    )));
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
                None => return Err(Error::ConnectionClosed),
            }
        }
    }
}

impl HttpModel {
    /// The error of a connection that broke, or sent too much at once.
    pub(super) fn line_broke(&self, error: &Error) -> ModelError {
        match error {
            Error::Capacity(CapacityError::MessageTooLong { .. }) => {
                let most = self.client.options().event_bytes_max;
                self.endpoint.error(ErrorKind::AnswerTooLarge, format!("sent an event of more than {most} bytes"))
            }
            error => {
                let cause = self.endpoint.quote(&error.to_string());
                self.endpoint.error(ErrorKind::Truncated, format!("broke off the stream: {cause}"))
            }
        }
    }
}
