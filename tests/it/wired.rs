//! Whole sessions over models that are reached by HTTP: what a server receives of a session, and what a session makes of a server
//! that fails.
//!
//! The clock is real, because the sockets are: a session waits about a second before it asks again. No test asserts a duration.

use std::{path::Path, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tamtam::{
    EventKind, Outcome, Runtime, Session, SessionOptions,
    hook::{Hook, HookCall},
    model::{Api, BoxFuture, Endpoint, ErrorKind, HttpModel, HttpOptions, Provider, Router, Secret},
    permission::{Action, Profile, Rule},
    runtime::{Agent, Builder},
    session::Next,
    tool::{Tool, ToolContext, ToolResult},
};

use crate::support::{
    fault_server::{Act, FaultServer, Unheard, chunk, chunked_head},
    streams::{APIS, Called, answer, body, said},
    taped,
};

fn builder(folder: &Path, api: Api, url: &str) -> Builder {
    let endpoint = Endpoint::new(api, "p", url, "m").with_key(Secret::new("sk-test"));
    let model = HttpModel::new(endpoint, HttpOptions::default()).unwrap();
    Runtime::builder().store(folder.join("store")).model(Arc::new(model))
}

fn call(tool: &'static str, input: Value) -> Called {
    Called { id: format!("call_{tool}"), tool, input }
}

async fn session(runtime: &Runtime, folder: &Path) -> Session {
    runtime.create(SessionOptions::new(folder).profile(Profile::Auto)).await.unwrap()
}

// ── what a server receives ──

fn bodies(server: &FaultServer) -> Vec<Value> {
    server.seen().iter().map(|seen| serde_json::from_str(&seen.body).unwrap()).collect()
}

/// Who says the last message of a request, and its last text.
fn last_message(body: &Value) -> (String, String) {
    let message = said(body).last().unwrap();
    let text = match message.get("content").unwrap_or(&message["parts"]) {
        Value::String(text) => text.clone(),
        blocks => blocks.as_array().unwrap().last().unwrap()["text"].as_str().unwrap_or_default().to_owned(),
    };
    (message["role"].as_str().unwrap().to_owned(), text)
}

/// P-06: the reminder of the last step is the last thing that the model reads, behind the results of the step before; no other
/// request has it, no request has it in its system prompt, and the next turn's history does not hold it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reminder_is_put_at_the_end_of_the_messages_and_stays_nowhere() {
    for api in APIS {
        let folder = taped::folder();
        std::fs::write(folder.path().join("a.txt"), "the content").unwrap();
        let read = answer(api, "", &[call("read", json!({"path": "a.txt"}))]);
        let server = FaultServer::start([read, answer(api, "so much", &[]), answer(api, "next", &[])]).await;
        let runtime = builder(folder.path(), api, &server.url()).tools(tamtam::tools::full()).start().await.unwrap();
        let session = session(&runtime, folder.path()).await;
        session.configure(|settings| settings.steps_max = Some(2)).await.unwrap();
        for prompt in ["read a.txt", "and now?"] {
            session.prompt(prompt).await.unwrap().wait().await.unwrap();
        }
        let bodies = bodies(&server);
        let [first, last, next] = &bodies[..] else { panic!("{} requests", bodies.len()) };
        let (role, reminder) = last_message(last);
        assert_eq!(role, "user");
        assert!(reminder.contains("last step"), "{last}");
        let text = last.to_string();
        assert!(text.find("the content").unwrap() < text.find("last step").unwrap(), "{text}");
        assert_eq!(text.matches("last step").count(), 1, "{text}");
        assert_eq!((last_message(first).1.as_str(), last_message(next).1.as_str()), ("read a.txt", "and now?"));
        assert!(!next.to_string().contains("last step"), "{next}");
        assert!(runtime.shutdown().await.is_empty());
    }
}

/// A hook that lets each call pass, and marks its result.
struct Wrapping;

impl Hook for Wrapping {
    fn name(&self) -> &str {
        "wrapping"
    }

    fn on_result<'a>(&'a self, call: &'a HookCall, mut result: ToolResult) -> BoxFuture<'a, ToolResult> {
        result.content.insert_str(0, &format!("[{} passed the hook] ", call.tool));
        Box::pin(async move { result })
    }
}

/// A tool of the host, with a schema that not every provider takes as it is.
struct Note;

impl Tool for Note {
    fn name(&self) -> &str {
        "note"
    }

    fn description(&self) -> &str {
        "Notes it."
    }

    fn schema(&self) -> Value {
        json!({"type": "object", "properties": {"what": {"type": ["string", "null"], "title": "What"}}, "required": ["what"]})
    }

    fn run<'a>(&'a self, arguments: Value, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move { ToolResult::ok(arguments.to_string()) })
    }
}

/// E-03, E-02: the tools of a request are those of the registry that the session's agent has, no more and no fewer, each with its
/// schema as that provider takes it; and what runs is the tool of the registry, within the host's hooks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tools_of_a_request_are_the_agents_in_the_words_of_the_provider() {
    let as_it_is = Note.schema();
    let of_gemini =
        json!({"type": "object", "properties": {"what": {"type": "string", "nullable": true}}, "required": ["what"]});
    for (provider, api, of_note) in [
        ("openai", Api::OpenAiChat, &as_it_is),
        ("openai", Api::OpenAiResponses, &as_it_is),
        ("gemini", Api::GeminiGenerateContent, &of_gemini),
        ("anthropic", Api::AnthropicMessages, &as_it_is),
    ] {
        let folder = taped::folder();
        let called = [call("note", json!({"what": "the content"})), call("bash", json!({"command": "touch ran"}))];
        let server = FaultServer::start([answer(api, "", &called), answer(api, "done", &[])]).await;
        let mut known = Provider::known(provider).unwrap().with_key(Secret::new("k")).with_base_url(server.url());
        known.api = api;
        let router = Router::new(HttpOptions::default()).with(known);
        let model = format!("{provider}/m").parse().unwrap();
        let builder = Runtime::builder().store(folder.path().join("store")).models(Arc::new(router), model);
        let runtime = builder.tools(tamtam::tools::full()).tool(Note).hook(Wrapping).start().await.unwrap();
        let mut agent = Agent::new("reader", "Reads.");
        agent.tools = Some(["not*", "read"].map(str::to_owned).into());
        agent.permission = vec![Rule::new("*", "**", Action::Allow)];
        let options = SessionOptions::from_agent(&agent, folder.path()).unwrap();
        let session = runtime.create(options).await.unwrap();
        assert_eq!(session.prompt("go").await.unwrap().wait().await.unwrap().outcome, Outcome::Done);

        let bodies = bodies(&server);
        assert_eq!(bodies.len(), 2);
        for body in &bodies {
            let told = body["tools"][0].get("functionDeclarations").unwrap_or(&body["tools"]);
            let told = told.as_array().unwrap().iter().map(|tool| match api {
                Api::OpenAiChat => (&tool["function"]["name"], &tool["function"]["parameters"]),
                Api::AnthropicMessages => (&tool["name"], &tool["input_schema"]),
                _ => (&tool["name"], &tool["parameters"]),
            });
            let (names, schemas): (Vec<_>, Vec<_>) = told.unzip();
            assert_eq!(names, ["note", "read"], "{provider}");
            assert_eq!(schemas[0], of_note, "{provider}");
            assert_eq!(schemas[1]["required"], json!(["path"]), "{provider}");
        }
        let results = Value::from(said(&bodies[1]).clone()).to_string();
        assert!(results.contains("[note passed the hook]") && results.contains("the content"), "{results}");
        assert!(results.contains("The tool bash is not among those of this agent"), "{results}");
        assert!(!folder.path().join("ran").exists());
        assert!(runtime.shutdown().await.is_empty());
    }
}

// ── what a session makes of a server that fails ──

/// How a session got over a fault at its provider: the kinds of failures that were told, and what it had answered in the end.
struct GotOver {
    failed: Vec<ErrorKind>,
    retries: Vec<(u32, bool)>,
    text: String,
}

/// Asks a session over the provider at that address once, and does something as soon as it is told that a request failed.
async fn got_over(api: Api, url: &str, then: impl FnOnce()) -> GotOver {
    let folder = taped::folder();
    let runtime = builder(folder.path(), api, url).start().await.unwrap();
    let session = session(&runtime, folder.path()).await;
    let mut events = session.events();
    let receipt = session.prompt("say ok").await.unwrap();
    let (mut then, mut seen) = (Some(then), GotOver { failed: Vec::new(), retries: Vec::new(), text: String::new() });
    let listen = async {
        loop {
            let Next::Event(event) = events.next().await.unwrap() else { continue };
            match event.kind {
                EventKind::RequestFailed { kind, .. } => {
                    seen.failed.push(kind);
                    then.take().into_iter().for_each(|then| then());
                }
                EventKind::Retry { attempt, server, .. } => seen.retries.push((attempt, server)),
                EventKind::TurnFinished { .. } => break,
                _ => {}
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), listen).await.expect("the turn ends");
    let answer = receipt.wait().await.unwrap();
    assert_eq!(answer.outcome, Outcome::Done);
    seen.text = answer.text.to_string();
    assert!(runtime.shutdown().await.is_empty());
    seen
}

impl GotOver {
    /// One failure of that kind, one retry of our own accord, and the answer of the second request alone.
    fn in_one_retry(self, failed: ErrorKind) {
        assert_eq!((self.failed, self.retries), (vec![failed], vec![(1, false)]));
        assert_eq!(self.text, "ok");
    }
}

/// SESSION-RETRY-001: nobody listens at the provider's address, so nothing can be fetched; the session asks again, and somebody
/// does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_retry_001_a_provider_that_cannot_be_reached_is_asked_again() {
    let over = async |api: Api| {
        let unheard = Unheard::new();
        let (url, heard) = (unheard.url(), std::sync::OnceLock::new());
        let listen = || drop(heard.set(unheard.listen([answer(api, "ok", &[])])));
        got_over(api, &url, listen).await.in_one_retry(ErrorKind::Network);
        assert_eq!(heard.get().unwrap().seen().len(), 1);
    };
    tokio::join!(over(APIS[0]), over(APIS[1]), over(APIS[2]), over(APIS[3]));
}

/// SESSION-RETRY-002: the connection is reset before there is an answer; the session asks again on another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_retry_002_a_connection_that_is_reset_is_made_again() {
    let over = async |api: Api| {
        let server = FaultServer::start([vec![Act::Reset], answer(api, "ok", &[])]).await;
        got_over(api, &server.url(), || ()).await.in_one_retry(ErrorKind::Network);
        assert_eq!(server.seen().iter().map(|seen| seen.connection).collect::<Vec<_>>(), [0, 1]);
    };
    tokio::join!(over(APIS[0]), over(APIS[1]), over(APIS[2]), over(APIS[3]));
}

/// SESSION-RETRY-003: the connection is terminated in the middle of an answer; the session asks again, and nothing of the first
/// half is in what it answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_retry_003_a_connection_that_ends_in_mid_answer_is_made_again() {
    let over = async |api: Api| {
        let half = body(api, "the first half", &[]);
        let end = half.find("the first half").unwrap()
            + half[half.find("the first half").unwrap()..].find("\n\n").unwrap()
            + 2;
        let cut = vec![chunked_head(), chunk(&half[..end])];
        let server = FaultServer::start([cut, answer(api, "ok", &[])]).await;
        got_over(api, &server.url(), || ()).await.in_one_retry(ErrorKind::Truncated);
        assert_eq!(server.seen()[0].body, server.seen()[1].body, "the same request, byte for byte");
    };
    tokio::join!(over(APIS[0]), over(APIS[1]), over(APIS[2]), over(APIS[3]));
}
