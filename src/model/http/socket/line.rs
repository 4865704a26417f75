//! One WebSocket to a provider, made over the same client as every other request: its proxy, certificates and limits hold here too.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use reqwest::{StatusCode, Upgraded, header};
use tokio::time::{Instant, timeout_at};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error, Message, Utf8Bytes,
        error::CapacityError,
        handshake::{client::generate_key, derive_accept_key},
        protocol::{Role, WebSocketConfig},
    },
};

use super::super::{Clock, HttpModel, exchanges::Answered};
use crate::model::{Deltas, ErrorKind, ModelError};

/// How long one connection is used. The provider closes it after an hour, in mid-answer.
const USED_FOR: Duration = Duration::from_secs(50 * 60);

pub(super) struct Line {
    socket: WebSocketStream<Upgraded>,
    made: Instant,
}

/// What became of the wish for a WebSocket.
pub(super) enum Made {
    Line(Box<Line>),
    /// The server has none here.
    None,
}

impl Line {
    /// Makes a connection. A server that refuses the request itself (a key, a limit) is an error as for any request.
    pub(super) async fn make(
        model: &HttpModel,
        trace: Option<&crate::words::trace::TraceContext>,
        clock: &Clock,
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
        let sent = timeout_at(clock.until(), model.with_headers(get, trace).send()).await;
        let response = sent.map_err(|_| model.timed_out(clock))?.map_err(|error| model.not_sent(&error))?;
        let is_refused = |status: StatusCode| {
            matches!(status.as_u16(), 401 | 402 | 403 | 408 | 409 | 429)
                || (status.is_server_error() && status.as_u16() != 501)
        };
        let status = response.status();
        if status != StatusCode::SWITCHING_PROTOCOLS && !is_refused(status) {
            return Ok(Made::None);
        }
        let header = |name: &str| response.headers().get(name)?.to_str().ok().map(str::to_owned);
        deltas.head(status.as_u16(), &header);
        if status != StatusCode::SWITCHING_PROTOCOLS {
            return Err(model.refused(&mut Answered::of_server(response, None)).await);
        }
        if header("sec-websocket-accept").as_deref() != Some(derive_accept_key(key.as_bytes()).as_str()) {
            let what = "answered the wish for a WebSocket with a wrong key: a proxy may have kept an old answer";
            return Err(model.endpoint.error(ErrorKind::Protocol, what));
        }
        let upgraded = timeout_at(clock.until(), response.upgrade()).await;
        let upgraded = upgraded.map_err(|_| model.timed_out(clock))?.map_err(|error| model.broken(&error))?;
        let most = Some(model.client.options().event_bytes_max);
        let config = WebSocketConfig::default().max_message_size(most).max_frame_size(most);
        let socket = WebSocketStream::from_raw_socket(upgraded, Role::Client, Some(config)).await;
        Ok(Made::Line(Box::new(Line { socket, made: Instant::now() })))
    }

    /// Whether another request may be made on it.
    pub(super) fn is_young(&self) -> bool {
        self.made.elapsed() < USED_FOR
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
