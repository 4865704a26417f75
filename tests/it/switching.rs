//! Models behind their own addresses, and a session that continues with another one: over real wires, to servers of
//! this process.

use std::sync::Arc;

use serde_json::{Value, json};
use tamtam::{
    Delivery, EventKind, ModelRef, Outcome, Runtime, Session, SessionOptions,
    model::{Api, HttpOptions, ModelLimits, Provider, Router, Secret},
    permission::Profile,
    runtime::Kind,
    session::Next,
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

/// PROVIDER-003, MODEL-002, MODEL-006, MODEL-007, PROVIDER-ERR-003, CROSS-001: a session is switched to a model of another
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
