//! `tamtam attach ID`: follows a session that a server runs, as `run` shows one, and sends it what a person types.
//!
//! The stream is taken up again where it broke off: behind the last durable event, so nothing is missing and nothing is shown twice.
//! What was only streamed is repeated by a durable event. A question is answered by `tamtam answer`, which names it: a `y` that is
//! typed a moment early must allow nothing, and here nobody knows what was on the screen while it was typed.

use std::{
    io::{IsTerminal as _, Write as _},
    time::Duration,
};

use hyper::Method;
use serde_json::{Value, json};
use tamtam::{Event, EventKind, SessionId};

use super::{
    super::{
        arguments::remote::AttachArguments,
        environment::Environment,
        escape,
        failure::{Exit, Failure},
        note, print,
        render::{Renderer, Screen, Show},
        run::view::is_interactive,
        stdin,
    },
    client::{Client, Frame, Frames, Refused, Unanswered},
    client_of, shown,
};

/// How long a stream that broke off is tried again, and the pause before each try.
const TRIES: u32 = 60;
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// The longest text of an offer in a line.
const OFFER_MAX: usize = 200;

/// Carries out `attach`.
pub(in super::super) async fn attach(given: &AttachArguments, environment: &Environment) -> Result<Exit, Failure> {
    let client = client_of(&given.server, environment)?;
    let id = &given.session;
    let session = client.ask(Method::GET, &format!("/v1/sessions/{id}"), None).await?;
    let mut watched = Watched {
        renderer: Renderer::new(Screen {
            is_terminal: std::io::stdout().is_terminal(),
            is_coloured: false,
            columns: 80,
        }),
        id: id.clone(),
        json: given.json,
        last: given.after.map(|seq| format!("{seq}.0.{}", u32::MAX)),
    };
    if !given.json {
        note(&about(id, &session));
    }
    let mut lines = match !given.json && is_interactive() {
        true => Some(stdin::commands().map_err(|error| Failure::failed(format!("failed to read stdin: {error}")))?),
        false => None,
    };
    loop {
        let mut frames = watched.open(&client).await?;
        loop {
            let typed = async {
                match &mut lines {
                    Some(lines) => lines.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                frame = frames.next() => match frame {
                    Ok(Some(frame)) => match watched.take(frame)? {
                        Then::Next => {}
                        Then::Reconnect(pause) => {
                            tokio::time::sleep(pause).await;
                            break;
                        }
                        Then::End => return Ok(Exit::Done),
                    },
                    Ok(None) => break,
                    Err(failure) => {
                        note(&format!("{}; trying again", failure.message));
                        break;
                    }
                },
                line = typed => match line {
                    // The person left; what happens is still shown.
                    None => lines = None,
                    Some(Ok(line)) => watched.say(&client, line.text.trim()).await,
                    Some(Err(why)) => note(&format!("not sent: {why}")),
                },
            }
        }
    }
}

/// The first line: what the session is and does.
fn about(id: &SessionId, session: &Value) -> String {
    let title = session["title"].as_str().map(|title| format!(" ({title})")).unwrap_or_default();
    let now = &session["now"];
    let does = match (now["turn"].as_u64(), now["asks"].as_u64()) {
        (_, Some(asks)) if asks > 0 => "waits for an answer",
        (Some(_), _) => "is in a turn",
        _ => session["status"].as_str().unwrap_or("rests"),
    };
    format!("session {id}{title}: {does}; type a message to steer it, Ctrl-C leaves it running")
}

/// What follows from a frame.
enum Then {
    Next,
    Reconnect(Duration),
    End,
}

struct Watched {
    renderer: Renderer,
    id: SessionId,
    json: bool,
    /// The last durable event that was shown.
    last: Option<String>,
}

impl Watched {
    /// Opens the stream behind what was shown, as often as it takes.
    async fn open(&self, client: &Client) -> Result<Frames, Failure> {
        let mut tries = 0;
        loop {
            let path = format!("/v1/sessions/{}/events?looks_on=1", self.id);
            match client.stream(&path, self.last.as_deref()).await {
                Ok(frames) => return Ok(frames),
                // What the server refuses, it refuses again, but for a want of room.
                Err(Unanswered::Refused(Refused { status, words })) if status != 503 => {
                    return Err(Failure::failed(words));
                }
                Err(why) => {
                    tries += 1;
                    if tries > TRIES {
                        return Err(why.into());
                    }
                }
            }
            tokio::time::sleep(TRY_AGAIN).await;
        }
    }

    fn take(&mut self, frame: Frame) -> Result<Then, Failure> {
        match frame.name.as_str() {
            "" => {
                if let Some(id) = frame.id {
                    self.last = Some(id);
                }
                if self.json {
                    print(&format!("{}\n", frame.data))?;
                    return Ok(Then::Next);
                }
                // An event of a later server that this one does not know.
                if let Ok(event) = serde_json::from_str::<Event>(&frame.data) {
                    self.show(&event)?;
                }
                Ok(Then::Next)
            }
            "lagged" => Ok(Then::Reconnect(Duration::ZERO)),
            "draining" => {
                let retry = serde_json::from_str::<Value>(&frame.data).unwrap_or_default()["retry_ms"].as_u64();
                note("the server goes down; trying again");
                Ok(Then::Reconnect(Duration::from_millis(retry.unwrap_or(1_000).min(60_000))))
            }
            "ended" => {
                let why = serde_json::from_str::<Value>(&frame.data).unwrap_or_default();
                note(why["why"].as_str().unwrap_or("the session is gone"));
                Ok(Then::End)
            }
            _ => Ok(Then::Next),
        }
    }

    fn show(&mut self, event: &Event) -> Result<(), Failure> {
        if let EventKind::Ask { ask, name, input, offers, .. } = &event.kind {
            note(&format!("question {ask}: may {name} run? {}", escape::short(input, OFFER_MAX)));
            for offer in offers {
                note(&format!("  offer {}: {}", offer.offer, escape::short(&offer.allows, OFFER_MAX)));
            }
            note(&format!("  answer with: tamtam answer {} {ask} once|always|reject", self.id));
            return Ok(());
        }
        for piece in self.renderer.show(&event.kind, event.time) {
            match piece {
                Show::Out(text) => drop(print(&text)?),
                Show::EndLine => drop(print("\n")?),
                // Escaped by the renderer, line by line.
                Show::Note(lines) => drop(writeln!(std::io::stderr(), "{lines}")),
                Show::Asked(_) => {}
            }
        }
        Ok(())
    }

    /// Sends what a person typed to the running turn.
    async fn say(&self, client: &Client, text: &str) {
        if text.is_empty() {
            return;
        }
        let message = json!({ "text": text, "delivery": "steer" });
        match client.ask(Method::POST, &format!("/v1/sessions/{}/messages", self.id), Some(&message)).await {
            Ok(receipt) => note(&shown::receipt(&self.id, &receipt)),
            Err(why) => note(&format!("not sent: {}", Failure::from(why).message)),
        }
    }
}
