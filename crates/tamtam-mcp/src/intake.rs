//! What a server sends, on either transport: each message is given to the connection, what nobody asked for is counted, and questions
//! to people are put.
//!
//! [`heard`] waits for nothing. [`Intake`] belongs to the actor of a server: it holds the questions that are open, as futures beside
//! the reading, and says when a server sends too much that nobody asked for.

use futures_util::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use tamtam::tool::ToolContext;
use tokio::time::Instant;

use crate::{
    ask,
    connection::{Connection, Taken, Wish},
    life::Why,
    message,
    server::Server,
    wire::Rate,
};

/// How many questions to people may be open for one server.
const WISHES_MAX: usize = 8;

/// What some bytes of a server were.
#[derive(Default)]
pub(crate) struct Heard {
    /// Questions, each with the call that it surely belongs to.
    wishes: Vec<(Wish, Option<ToolContext>)>,
    /// Messages that answer nothing.
    unasked: u32,
}

impl Heard {
    pub(crate) fn add(&mut self, more: Heard) {
        self.wishes.extend(more.wishes);
        self.unasked = self.unasked.saturating_add(more.unasked);
    }

    /// Whether there is nothing to judge.
    pub(crate) fn is_nothing(&self) -> bool {
        self.wishes.is_empty() && self.unasked == 0
    }
}

/// Gives each message of a line to the connection. `of` is the request on whose answer it came, where the transport knows that.
pub(crate) fn heard(server: &Server, connection: &Connection, line: &[u8], of: Option<u64>) -> Heard {
    let mut heard = Heard::default();
    let Some(messages) = message::read(line) else {
        if !line.trim_ascii().is_empty() {
            server.misheard(server.secrets.text(&String::from_utf8_lossy(line)).as_bytes());
            heard.unasked = 1;
        }
        return heard;
    };
    for mut message in messages {
        message.without(&server.secrets);
        match connection.take(message) {
            Taken::Awaited => {}
            Taken::Unasked | Taken::Shown => heard.unasked = heard.unasked.saturating_add(1),
            Taken::Wish(wish) => heard.wishes.push((wish, of.and_then(|id| connection.call_of(id)))),
        }
    }
    heard
}

/// The actor's side of what was heard.
pub(crate) struct Intake<'a> {
    server: &'a Server,
    connection: &'a Connection,
    began: Instant,
    rate: Rate,
    asks: FuturesUnordered<BoxFuture<'a, ()>>,
}

impl<'a> Intake<'a> {
    pub(crate) fn new(server: &'a Server, connection: &'a Connection) -> Intake<'a> {
        let rate = Rate::new(server.config.unasked_max);
        Intake { server, connection, began: Instant::now(), rate, asks: FuturesUnordered::new() }
    }

    /// Carries the open questions on; resolves when one of them was answered, and never if there is none.
    pub(crate) async fn asking(&mut self) {
        if self.asks.next().await.is_none() {
            std::future::pending::<()>().await;
        }
    }

    /// Puts the questions, and counts the rest. An error if that was too much within a second.
    pub(crate) fn judge(&mut self, heard: Heard) -> Result<(), Why> {
        let count = heard.unasked.saturating_add(u32::try_from(heard.wishes.len()).unwrap_or(u32::MAX));
        if self.rate.is_exceeded(count, self.began.elapsed()) {
            return Err(Why::Flood(self.server.config.unasked_max));
        }
        let (server, connection) = (self.server, self.connection);
        for (wish, of) in heard.wishes {
            let call = of.or_else(|| connection.only_call()).filter(|_| self.asks.len() < WISHES_MAX);
            match call {
                Some(call) => self.asks.push(Box::pin(async move {
                    let answer = server.ask(&wish.params, &call).await;
                    connection.grant(&wish.id, Ok(answer));
                })),
                None => connection.grant(&wish.id, Ok(ask::declined())),
            }
        }
        Ok(())
    }
}
