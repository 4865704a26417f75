//! The operator's commands: look at a running server and pull its levers, over the socket of `tamtam serve` or of a host that mounted
//! the router.
//!
//! Each command is one request, but for `attach`. What the server refuses is said in its own words with the next step, and ends 1. A
//! change must keep that a command says what it did to which session, and that nothing a server sends reaches a terminal unescaped.

mod attach;
mod client;
mod shown;

use hyper::Method;
use serde_json::{Value, json};

use self::client::Client;
use super::{
    arguments::remote::{
        AnswerArguments, CrashesArguments, DrainArguments, HowDelivered, HowFar, HowGranted, HowSteered,
        LeverArguments, PsArguments, RemoveArguments, SendArguments, ServerArguments, TreeArguments,
    },
    environment::Environment,
    escape,
    failure::{Exit, Failure},
    print, print_to_be_read, serve, stdin,
};

pub(super) use attach::attach;
pub(super) use client::Place;

/// A lever of an actor.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lever {
    Stop,
    Restart,
    Park,
    Unpark,
    Passivate,
}

impl Lever {
    /// The name on the wire, and what was done in words.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Lever::Stop => ("stop", "stopped"),
            Lever::Restart => ("restart", "restarted"),
            Lever::Park => ("park", "parked"),
            Lever::Unpark => ("unpark", "no longer parked"),
            Lever::Passivate => ("passivate", "asleep"),
        }
    }
}

/// The client that the arguments name.
fn client_of(given: &ServerArguments, environment: &Environment) -> Result<Client, Failure> {
    let place = match &given.at {
        Some(at) => match Place::parse(at)? {
            Place::Socket(path) => Place::Socket(environment.absolute(&path)),
            address @ Place::Address(_) => address,
        },
        None => Place::Socket(serve::default_socket(environment)?),
    };
    let token = given.token.clone().or_else(|| environment.get(serve::TOKEN).map(str::to_owned));
    Ok(Client::new(place, token))
}

/// A part of a path, as an address has it.
fn escaped(part: &str) -> String {
    let mut text = String::with_capacity(part.len());
    for byte in part.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => text.push(char::from(byte)),
            byte => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// One JSON value a line.
fn lines(values: &[Value]) -> String {
    values.iter().map(|value| format!("{value}\n")).collect()
}

/// Carries out `ps`.
pub(super) async fn ps(given: &PsArguments, environment: &Environment) -> Result<Exit, Failure> {
    let tree =
        client_of(&given.server, environment)?.ask(Method::GET, "/v1/tree", None).await.map_err(Failure::from)?;
    let sessions = shown::sessions(&tree);
    match given.json {
        true => print(&lines(&sessions)),
        false => print(&shown::ps(&sessions)),
    }
}

/// Carries out `tree`.
pub(super) async fn tree(given: &TreeArguments, environment: &Environment) -> Result<Exit, Failure> {
    let client = client_of(&given.server, environment)?;
    let path = if given.all { "/v1/cluster" } else { "/v1/tree" };
    match given.json {
        true => print(&format!("{}\n", client.ask(Method::GET, path, None).await?)),
        false => {
            let text = client.text(&format!("{path}?format=text")).await?;
            print(&text.lines().map(|line| escape::text(line) + "\n").collect::<String>())
        }
    }
}

/// Carries out `send`.
pub(super) async fn send(given: &SendArguments, environment: &Environment) -> Result<Exit, Failure> {
    let client = client_of(&given.server, environment)?;
    let text = stdin::prompt(&given.text, false)?;
    let id = &given.session;
    let mut message = json!({ "text": text, "delivery": delivery(given.delivery) });
    if let Some(steering) = given.steering {
        if given.delivery != HowDelivered::Steer {
            return Err(Failure::usage("--steering is for a message with --delivery steer"));
        }
        message["steering"] = json!(match steering {
            HowSteered::SkipRemaining => "skip_remaining",
            HowSteered::FinishBatch => "finish_batch",
            HowSteered::AbortRunning => "abort_running",
        });
    }
    if let Some(own) = &given.message_id {
        message["id"] = json!(own);
    }
    let receipt = client.ask(Method::POST, &format!("/v1/sessions/{id}/messages"), Some(&message)).await?;
    match given.json {
        true => print(&format!("{receipt}\n")),
        false => print(&format!("{}\n", shown::receipt(id, &receipt))),
    }
}

fn delivery(how: HowDelivered) -> &'static str {
    match how {
        HowDelivered::Queue => "queue",
        HowDelivered::Steer => "steer",
        HowDelivered::Reject => "reject",
    }
}

/// Carries out `answer`.
pub(super) async fn answer(given: &AnswerArguments, environment: &Environment) -> Result<Exit, Failure> {
    let client = client_of(&given.server, environment)?;
    let scope = match given.scope {
        HowFar::Turn => "turn",
        HowFar::Session => "session",
        HowFar::Project => "project",
    };
    let said = match (given.grant, given.offer, &given.message) {
        (HowGranted::Once, None, None) => json!({ "grant": "once" }),
        (HowGranted::Always, None, None) => json!({ "grant": "always", "scope": scope }),
        (HowGranted::Always, Some(offer), None) => json!({ "grant": "always", "scope": scope, "offer": offer }),
        (HowGranted::Reject, None, None) => json!({ "grant": "reject" }),
        (HowGranted::Reject, None, Some(message)) => json!({ "grant": "reject", "message": message }),
        (_, Some(_), _) => return Err(Failure::usage("--offer is for the answer `always`")),
        (_, _, Some(_)) => return Err(Failure::usage("--message is for the answer `reject`")),
    };
    let (id, ask) = (&given.session, given.ask);
    client.ask(Method::POST, &format!("/v1/sessions/{id}/asks/{ask}"), Some(&said)).await?;
    print(&format!("question {ask} of session {id} is answered\n"))
}

/// Aborts the turn of a session that a server runs.
pub(super) async fn abort(
    id: &tamtam::SessionId,
    reason: Option<&str>,
    given: &ServerArguments,
    environment: &Environment,
) -> Result<Exit, Failure> {
    let client = client_of(given, environment)?;
    let said = reason.map_or_else(|| json!({}), |reason| json!({ "reason": reason }));
    let aborted = client.ask(Method::POST, &format!("/v1/sessions/{id}/abort"), Some(&said)).await?;
    print(&match (aborted["stage"].as_str(), aborted["recorded"] == true) {
        (Some("nothing_runs"), _) => format!("session {id}: no turn runs\n"),
        (Some(_), _) => format!("session {id}: the server that has it aborts its turn\n"),
        (None, true) => format!("session {id}: its turn is aborted\n"),
        (None, false) => {
            format!("session {id}: its turn is stopped; the disk has not taken the abort yet, and is asked again\n")
        }
    })
}

/// Carries out `stop`, `restart`, `park`, `unpark` and `passivate`.
pub(super) async fn lever(lever: Lever, given: &LeverArguments, environment: &Environment) -> Result<Exit, Failure> {
    let client = client_of(&given.server, environment)?;
    let (name, done) = lever.words();
    let actor = &given.actor;
    client.ask(Method::POST, &format!("/v1/actors/{}/{name}", escaped(actor)), None).await?;
    print(&format!("{} is {done}\n", escape::line(actor)))
}

/// Carries out `crashes`.
pub(super) async fn crashes(given: &CrashesArguments, environment: &Environment) -> Result<Exit, Failure> {
    let client = client_of(&given.server, environment)?;
    let path =
        given.actor.as_ref().map_or_else(|| "/v1/crashes".to_owned(), |id| format!("/v1/actors/{}", escaped(id)));
    let mut answer = client.ask(Method::GET, &path, None).await?;
    let Value::Array(crashes) = answer["crashes"].take() else {
        return Err(Failure::failed("the server's answer has no crash reports: its version is another one"));
    };
    match given.json {
        true => print(&lines(&crashes)),
        false => print(&shown::crashes(&crashes)),
    }
}

/// Carries out `drain`.
pub(super) async fn drain(given: &DrainArguments, environment: &Environment) -> Result<Exit, Failure> {
    let client = client_of(&given.server, environment)?;
    let said = json!({ "deadline_ms": given.within.saturating_mul(1_000) });
    let answer = client.ask_within(Method::POST, "/v1/drain", Some(&said), given.within).await?;
    let left: Vec<_> = answer["left"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    match &left[..] {
        [] => print("the server takes no new messages, and every session is at rest\n"),
        left => {
            print(&format!("the server takes no new messages; not at rest: {}\n", escape::line(&left.join(", "))))?;
            Ok(Exit::Failed)
        }
    }
}

/// Carries out `rm`.
pub(super) async fn remove(given: &RemoveArguments, environment: &Environment) -> Result<Exit, Failure> {
    let client = client_of(&given.server, environment)?;
    let id = &given.session;
    if !given.yes {
        print_to_be_read(&format!("Delete session {id} with everything it said? Type its id to confirm: "))?;
        let mut typed = String::new();
        let read = std::io::stdin().read_line(&mut typed);
        if read.is_err() || typed.trim() != id.as_str() {
            return Err(Failure::usage("nothing was deleted: type the id, or give --yes"));
        }
    }
    let deletion = client.ask(Method::DELETE, &format!("/v1/sessions/{id}"), None).await?;
    let gone = match deletion["session"].as_str() {
        Some("hidden") => format!("session {id} is hidden: its forks need it, and it goes with the last of them\n"),
        _ => format!("session {id} is deleted\n"),
    };
    let left = deletion["left"].as_str().map(|why| format!("words of it may be left: {}\n", escape::line(why)));
    print(&(gone + &left.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_a_node_is_one_part_of_an_address() {
        assert_eq!(escaped("runtime/sessions/a b%"), "runtime%2Fsessions%2Fa%20b%25");
        assert_eq!(escaped("ä"), "%C3%A4");
    }
}
