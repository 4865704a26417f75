//! Models behind their own addresses, and a session that continues with another one: over real wires, to servers of
//! this process.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use serde_json::{Value, json};
use tamtam::{
    Delivery, EventKind, ModelRef, Outcome, Runtime, Session, SessionOptions,
    model::{Api, BoxFuture, HttpOptions, Model, ModelError, ModelLimits, Models, Provider, Request, Router, Secret},
    permission::Profile,
    runtime::Kind,
    session::{Entry, Next, Record},
};

use crate::support::{
    fault_server::{Act, FaultServer, refusal},
    streams::answer,
    taped,
};

/// These words as an answer.
fn says(api: Api, words: &str) -> Vec<Act> {
    answer(api, words, &[])
}

fn at(name: &str, server: &FaultServer) -> Provider {
    Provider::known(name).unwrap().with_key(Secret::new("k")).with_base_url(server.url())
}

fn model(name: &str) -> ModelRef {
    name.parse().unwrap()
}

async fn session(folder: &taped::Folder, router: Router, first: &str) -> (Runtime, Session) {
    let builder = Runtime::builder().store(folder.path().join("store")).models(Arc::new(router), model(first));
    let runtime = builder.start().await.unwrap();
    let session = runtime.create(SessionOptions::new(folder.path()).profile(Profile::Auto)).await.unwrap();
    (runtime, session)
}

async fn say(session: &Session, text: &str) -> String {
    let answer = session.prompt(text).await.unwrap().wait().await.unwrap();
    assert_eq!(answer.outcome, Outcome::Done, "{text}");
    answer.text
}

/// MODEL-001, MODEL-009, PROVIDER-003, MODEL-002, MODEL-006, MODEL-007, PROVIDER-ERR-003, CROSS-001: a session that names no model
/// has the runtime's, also after another one was switched. A session is switched to a model of another
/// provider and back: the next request goes there, with all that was said, and with the window that the host gave to that model.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_goes_on_with_another_providers_model() {
    let folder = taped::folder();
    let deepseek = FaultServer::answering(|_, _| says(Api::OpenAiChat, "from deepseek")).await;
    let anthropic = FaultServer::answering(|_, _| says(Api::AnthropicMessages, "from anthropic")).await;
    let (first, second) = (model("deepseek/deepseek-chat"), model("anthropic/claude-new"));
    let mut limits = ModelLimits::default();
    limits.context = 150_000;
    let router = Router::new(HttpOptions::default())
        .with(at("deepseek", &deepseek))
        .with(at("anthropic", &anthropic))
        .with_limits(second.clone(), limits);
    let (runtime, session) = session(&folder, router, "deepseek:deepseek-chat").await;
    assert_eq!(session.state().await.unwrap().settings.model.to_string(), "deepseek/deepseek-chat");
    assert_eq!(say(&session, "one").await, "from deepseek");
    for (to, expected) in [(&second, "from anthropic"), (&first, "from deepseek"), (&second, "from anthropic")] {
        session.configure(|settings| settings.model = to.clone()).await.unwrap();
        assert_eq!(&session.state().await.unwrap().settings.model, to);
        assert_eq!(say(&session, &format!("now {to}")).await, expected);
    }
    assert_eq!((deepseek.seen().len(), anthropic.seen().len()), (2, 2));
    let other = runtime.create(SessionOptions::new(folder.path())).await.unwrap();
    assert_eq!(other.state().await.unwrap().settings.model, first, "the switch was one session's");
    let told: Value = serde_json::from_str(&anthropic.seen()[0].body).unwrap();
    let roles: Vec<_> = told["messages"].as_array().unwrap().iter().map(|message| message["role"].clone()).collect();
    assert_eq!(roles, ["user", "assistant", "user"]);
    assert!(told.to_string().contains("from deepseek"), "{told}");
    let entries = session.entries().await.unwrap();
    let inputs = entries.iter().filter_map(|entry| entry.to_tape().unwrap().input);
    let inputs = inputs.map(|input| serde_json::from_str::<Value>(input.get()).unwrap());
    let seen: Vec<_> =
        inputs.flat_map(|input| input["env"]["models"].as_object().cloned().unwrap_or_default()).collect();
    let large: Vec<_> = seen.iter().filter(|(_, seen)| seen["window"]["context"] == 150_000).collect();
    assert_eq!((seen.len(), large.len()), (2, 1), "each model is looked at, and said once: {seen:?}");
    assert!(runtime.shutdown().await.is_empty());
}

/// PROVIDER-ERR-007: a request that Anthropic is too busy for is made again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_anthropic_is_too_busy_for_is_made_again() {
    let folder = taped::folder();
    let body = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let busy = || refusal("529 Overloaded", &["retry-after-ms: 1"], body);
    let server = FaultServer::start([busy(), busy(), says(Api::AnthropicMessages, "there")]).await;
    let router = Router::new(HttpOptions::default()).with(at("anthropic", &server));
    let (runtime, session) = session(&folder, router, "anthropic/claude-new").await;
    let mut events = session.events();
    assert_eq!(say(&session, "are you there?").await, "there");
    assert_eq!(server.seen().len(), 3);
    let mut retries = 0;
    loop {
        let Some(Next::Event(event)) = events.next().await else { continue };
        match &event.kind {
            EventKind::Retry { .. } => retries += 1,
            EventKind::TurnFinished { .. } => break,
            _ => {}
        }
    }
    assert_eq!(retries, 2);
    assert!(runtime.shutdown().await.is_empty());
}

/// CROSS-ERR-003: what failed with one provider is told to nobody: the next one hears what was said, and no half of an answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_answer_is_not_told_to_the_next_provider() {
    let folder = taped::folder();
    let refused = refusal("400 Bad Request", &[], r#"{"error":{"message":"no such thing"}}"#);
    let deepseek = FaultServer::start([says(Api::OpenAiChat, "fine"), refused]).await;
    let anthropic = FaultServer::answering(|_, _| says(Api::AnthropicMessages, "from anthropic")).await;
    let router = Router::new(HttpOptions::default()).with(at("deepseek", &deepseek)).with(at("anthropic", &anthropic));
    let (runtime, session) = session(&folder, router, "deepseek/deepseek-chat").await;
    say(&session, "one").await;
    let failed = session.prompt("two").await.unwrap().wait().await.unwrap();
    assert!(matches!(failed.outcome, Outcome::Failed { .. }), "{failed:?}");
    session.configure(|settings| settings.model = model("anthropic/claude-new")).await.unwrap();
    assert_eq!(say(&session, "three").await, "from anthropic");
    let told: Value = serde_json::from_str(&anthropic.seen()[0].body).unwrap();
    let said = |words: &str| json!({"type": "text", "text": words});
    let mut messages = told["messages"].clone();
    // The mark for the provider's cache is no part of what is said.
    for block in messages.as_array_mut().unwrap().iter_mut().flat_map(|m| m["content"].as_array_mut().unwrap()) {
        block.as_object_mut().unwrap().remove("cache_control");
    }
    let expected = json!([
        {"role": "user", "content": [said("one")]},
        {"role": "assistant", "content": [said("fine")]},
        {"role": "user", "content": [said("two"), said("three")]},
    ]);
    assert_eq!(messages, expected);
    assert!(runtime.shutdown().await.is_empty());
}

/// MODEL-003: a model of an unknown provider is refused, and the session keeps its own.
/// SETTINGS-008: a host that changes the settings it was given changes its copy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_model_and_a_changed_copy_switch_nothing() {
    let folder = taped::folder();
    let (runtime, session) = session(&folder, Router::new(HttpOptions::default()), "local/own").await;
    let unknown = session.command("/model nobody/x", Delivery::Queue).await.unwrap_err();
    assert_eq!(unknown.kind(), Kind::Invalid, "{unknown}");
    assert!(unknown.to_string().starts_with("unknown provider \"nobody\""), "{unknown}");
    let mut copy = (*session.state().await.unwrap().settings).clone();
    copy.model = model("local/other");
    assert_eq!(session.state().await.unwrap().settings.model, model("local/own"));
    assert!(runtime.shutdown().await.is_empty());
}

/// The runtime's chain stands behind the runtime's model, in sessions that name neither a model nor a chain; one that cannot be is no
/// runtime.
#[tokio::test]
async fn a_chain_of_the_whole_runtime_stands_behind_its_model() {
    let local = || Provider::custom("local", Api::OpenAiChat, "http://127.0.0.1:1");
    let router = || Arc::new(Router::new(HttpOptions::default()).with(local()));
    let builder = || Runtime::builder().in_memory().models(router(), model("local/own"));
    let runtime = builder().fallback(["local/behind on auth".parse().unwrap()]).start().await.unwrap();
    let chain = async |options: SessionOptions| {
        let settings = runtime.create(options).await.unwrap().state().await.unwrap().settings.clone();
        settings.fallback.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(chain(SessionOptions::new(".")).await, ["local/behind on auth"]);
    assert_eq!(chain(SessionOptions::new(".").model(model("local/other"))).await, [""; 0]);
    let chosen = runtime.create(SessionOptions::new(".")).await.unwrap();
    chosen.command("/model local/other", Delivery::Queue).await.unwrap();
    assert!(chosen.state().await.unwrap().settings.fallback.is_empty(), "it stood behind the model before");
    assert_eq!(chain(SessionOptions::new(".").fallback(vec!["local/x".parse().unwrap()])).await, ["local/x"]);
    assert!(runtime.shutdown().await.is_empty());
    let twice = ["local/x", "local/x"].map(|name| name.parse().unwrap());
    let refused = builder().fallback(twice).start().await.err().unwrap();
    assert_eq!(refused.to_string(), "the fallback of the runtime names local/x twice");
}

/// CROSS-002: what was said to one model is summed up by it, and the next model of another provider reads the summary in its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_summary_by_one_model_is_read_by_the_next() {
    let folder = taped::folder();
    // Five answers, and then the summary.
    let answers = |before: usize| if before < 5 { "fine" } else { "SUMMED UP" };
    let deepseek = FaultServer::answering(move |_, before| says(Api::OpenAiChat, answers(before.len()))).await;
    let anthropic = FaultServer::answering(|_, _| says(Api::AnthropicMessages, "from anthropic")).await;
    let router = Router::new(HttpOptions::default()).with(at("deepseek", &deepseek)).with(at("anthropic", &anthropic));
    let (runtime, session) = session(&folder, router, "deepseek/deepseek-chat").await;
    for n in 1..=5 {
        say(&session, &format!("{n}: {}", "words ".repeat(6_000))).await;
    }
    let mut events = session.events();
    session.compact().await.unwrap();
    let is_over =
        |next: Next| matches!(next, Next::Event(event) if matches!(event.kind, EventKind::CompactionFinished { .. }));
    while !is_over(events.next().await.unwrap()) {}
    session.configure(|settings| settings.model = model("anthropic/claude-new")).await.unwrap();
    assert_eq!(say(&session, "go on").await, "from anthropic");
    let told: Value = serde_json::from_str(&anthropic.seen()[0].body).unwrap();
    let told = told["messages"].as_array().unwrap();
    let texts = Value::from(told.clone()).to_string();
    assert!(texts.contains("SUMMED UP") && texts.contains("go on"), "{texts:.500}");
    assert!(told.len() < 11, "five prompts, five answers and the last one: what was summed up is not told again");
    assert!(runtime.shutdown().await.is_empty());
}

/// A host's keys: the present one, and the one that comes when it has expired.
struct Keys {
    url: String,
    present: Mutex<String>,
    next: Option<String>,
    renewals: AtomicUsize,
    panics: bool,
}

impl Models for Keys {
    fn find(&self, name: &ModelRef) -> Result<Arc<dyn Model>, ModelError> {
        let key = Secret::new(self.present.lock().unwrap().clone());
        Provider::known("openai").unwrap().with_base_url(&self.url).with_key(key).model(&name.model)
    }

    fn renew_key<'a>(&'a self, _: &'a ModelRef, request: &'a Request) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            assert!(request.session.is_some(), "it is known whose key it is");
            self.renewals.fetch_add(1, Ordering::SeqCst);
            assert!(!self.panics, "the vault is broken");
            let Some(next) = &self.next else { return false };
            self.present.lock().unwrap().clone_from(next);
            true
        })
    }
}

/// AUTH-006, AUTH-007, AUTH-ERR-004: the key of each request is the one that the host has then. One that is refused is renewed once, and
/// the request made again, which is on the tape; a new key that is refused too, a host that has none, and one that panics have failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_has_expired_is_renewed_once_and_the_request_made_again() {
    let start = async |present: &str, next: Option<&str>, panics: bool| {
        let server = FaultServer::answering(|asked, _| {
            let is_valid = ["fresh", "newest"].iter().any(|key| asked.head.contains(&format!("Bearer {key}-key-0000")));
            let body = r#"{"error":{"message":"Expired.","code":"invalid_api_key"}}"#;
            if is_valid { says(Api::OpenAiChat, "there") } else { refusal("401 Unauthorized", &[], body) }
        })
        .await;
        let key = |name: &str| format!("{name}-key-0000");
        let keys = Arc::new(Keys {
            url: server.url(),
            present: Mutex::new(key(present)),
            next: next.map(key),
            renewals: AtomicUsize::new(0),
            panics,
        });
        let folder = taped::folder();
        let builder = Runtime::builder().store(folder.path().join("store")).models(keys.clone(), model("openai/m"));
        let runtime = builder.start().await.unwrap();
        let options = SessionOptions::new(folder.path()).profile(Profile::Auto);
        let session = runtime.create(options).await.unwrap();
        // No retry is allowed: this one is none.
        session.configure(|settings| settings.retries_max = 0).await.unwrap();
        (folder, server, keys, runtime, session)
    };
    let outcome = async |session: &Session| session.prompt("go").await.unwrap().wait().await.unwrap().outcome;

    let (folder, server, keys, runtime, first) = start("fresh", None, false).await;
    assert_eq!(say(&first, "one").await, "there");
    *keys.present.lock().unwrap() = "newest-key-0000".to_owned();
    assert_eq!(say(&first, "two").await, "there");
    let sent: Vec<_> = server.seen().iter().map(|asked| asked.head.contains("newest-key")).collect();
    assert_eq!((sent, keys.renewals.load(Ordering::SeqCst)), (vec![false, true], 0), "renewed in time by the host");
    assert!(runtime.shutdown().await.is_empty());
    drop(folder);

    let (folder, server, keys, runtime, session) = start("stale", Some("fresh"), false).await;
    assert_eq!(say(&session, "one").await, "there");
    assert_eq!((server.seen().len(), keys.renewals.load(Ordering::SeqCst)), (2, 1));
    let failures: Vec<_> = session.entries().await.unwrap().iter().filter_map(renewed).collect();
    assert_eq!(failures, [true], "the tape has the refusal, and why the request is made again");
    assert_eq!(say(&session, "two").await, "there");
    // The next step may renew again.
    *keys.present.lock().unwrap() = "stale-key-0000".to_owned();
    assert_eq!(say(&session, "three").await, "there");
    assert_eq!((server.seen().len(), keys.renewals.load(Ordering::SeqCst)), (5, 2));
    let (store, id) = (folder.path().join("store"), session.id().clone());
    assert!(runtime.shutdown().await.is_empty());
    let store = tamtam::tape::Store::open(store, Default::default()).unwrap();
    assert_eq!(tamtam::ops::replay::Replay::open(&store, &id).unwrap().first_difference(), None);

    for (next, panics, requests, expected) in
        [(Some("staler"), false, 2, vec![true, false]), (None, false, 1, vec![false]), (None, true, 1, vec![false])]
    {
        let (_folder, server, keys, runtime, session) = start("stale", next, panics).await;
        assert!(matches!(outcome(&session).await, Outcome::Failed { .. }), "{next:?}");
        assert_eq!((server.seen().len(), keys.renewals.load(Ordering::SeqCst)), (requests, 1), "{next:?}");
        let failures: Vec<_> = session.entries().await.unwrap().iter().filter_map(renewed).collect();
        assert_eq!(failures, expected, "{next:?}");
        assert!(runtime.shutdown().await.is_empty());
    }
}

/// Of a failed request: whether its key was renewed.
fn renewed(entry: &Entry) -> Option<bool> {
    match &entry.record {
        Record::RequestFailed { error, .. } => Some(error.key_renewed),
        _ => None,
    }
}

/// PROVIDER-006, P4-20: where a model fails and no retry is left, the next of its agent's chain goes on with the turn over another
/// wire, with the calls of the first; it is on the tape, in the events and in the tree's words; the next turn is the first one's again.
#[cfg(feature = "tools")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_goes_on_with_the_next_model_of_a_chain_and_says_so() {
    let folder = taped::folder();
    let busy = || refusal("529 Overloaded", &["retry-after-ms: 1"], r#"{"error":{"message":"Overloaded"}}"#);
    let call = [crate::support::streams::Called { id: "c1".to_owned(), tool: "ls", input: json!({ "path": "." }) }];
    let openai = [answer(Api::OpenAiChat, "", &call), busy(), busy(), says(Api::OpenAiChat, "back again")];
    let openai = FaultServer::start(openai).await;
    let anthropic = FaultServer::answering(|_, _| says(Api::AnthropicMessages, "stood in")).await;
    let router = Router::new(HttpOptions::default()).with(at("openai", &openai)).with(at("anthropic", &anthropic));
    let store = folder.path().join("store");
    let builder = Runtime::builder().store(&store).models(Arc::new(router), model("openai/gpt-5.1"));
    let runtime = builder.tools(tamtam::tools::readonly()).start().await.unwrap();
    let agent = r#"{"name":"a","description":"x","fallback":[{"model":"anthropic/claude-new","on":["overloaded"]}]}"#;
    let agent = tamtam::runtime::Agent::from_json(agent).unwrap();
    let options = SessionOptions::from_agent(&agent, folder.path()).unwrap().profile(Profile::Auto);
    let session = runtime.create(options).await.unwrap();
    session.configure(|settings| settings.retries_max = 1).await.unwrap();
    let mut events = session.events();
    assert_eq!(say(&session, "look around").await, "stood in");
    assert_eq!((openai.seen().len(), anthropic.seen().len()), (3, 1));
    let body: Value = serde_json::from_str(&anthropic.seen()[0].body).unwrap();
    assert_eq!(
        (&body["messages"][1]["content"][0]["name"], body["messages"].as_array().unwrap().len()),
        (&json!("ls"), 3)
    );
    assert_eq!(say(&session, "and now?").await, "back again");
    let mut told = Vec::new();
    while told.len() < 7 {
        let Some(Next::Event(event)) = events.next().await else { continue };
        match &event.kind {
            EventKind::StepStarted { model, attempt, fallback, .. } => {
                let from = fallback.as_ref().map(|fell| format!(" for {} ({})", fell.from, fell.on.name()));
                told.push(format!("{model} {attempt}{}", from.unwrap_or_default()));
            }
            EventKind::RequestFailed { fallback, .. } => told.push(format!("failed, then {fallback:?}")),
            _ => {}
        }
    }
    let expected = [
        "openai/gpt-5.1 1",
        "openai/gpt-5.1 1",
        "failed, then None",
        "openai/gpt-5.1 2",
        "failed, then Some(\"anthropic/claude-new\")",
        "anthropic/claude-new 3 for openai/gpt-5.1 (overloaded)",
        "openai/gpt-5.1 1",
    ];
    assert_eq!(told, expected);
    let bill = session.bill().await.unwrap();
    assert!(bill.lines.iter().any(|line| line.model == model("anthropic/claude-new")), "{bill:?}");
    let id = session.id().clone();
    assert!(runtime.shutdown().await.is_empty());
    let store = tamtam::tape::Store::open(&store, Default::default()).unwrap();
    assert_eq!(tamtam::ops::replay::Replay::open(&store, &id).unwrap().first_difference(), None);
}
