//! A final answer that must fit a schema: given to each provider in its own way, checked, asked for once more, and a typed end.

use std::sync::Arc;

use serde_json::{Value, json};
use tamtam::{
    Outcome, Runtime, Session, SessionOptions,
    model::{AnswerSchema, Api, HttpOptions, Params, Provider, Reply, Router, Scripted, Secret},
    ops::replay::Replay,
    tape::{Store, StoreOptions},
};

use crate::support::{fault_server::FaultServer, streams::answer, taped};

fn schema() -> AnswerSchema {
    let properties = json!({"n": {"type": "integer"}});
    let schema = json!({"type": "object", "properties": properties, "required": ["n"], "additionalProperties": false});
    AnswerSchema::new(schema).unwrap()
}

fn options(folder: &taped::Folder) -> SessionOptions {
    SessionOptions::new(folder.path()).params(Params::default().answer_schema(schema()))
}

async fn scripted(folder: &taped::Folder, replies: Vec<Reply>) -> (Runtime, Session, Arc<Scripted>) {
    let model = Arc::new(Scripted::new(replies));
    let builder = Runtime::builder().store(folder.path().join("store")).model(model.clone());
    let runtime = builder.start().await.unwrap();
    let session = runtime.create(options(folder)).await.unwrap();
    (runtime, session, model)
}

/// An answer that fits ends the turn; one that does not is asked for once more, with the reason; and a second one ends the turn with
/// it. The next turn begins anew. A replay comes out the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_does_not_fit_is_asked_for_once_more() {
    let folder = taped::folder();
    let texts =
        ["{\"n\": 1}", "The answer is 2.", "```json\n{\"n\": 2}\n```", "{\"n\": \"x\"}", "{}", "{}", "{\"n\": 3}"];
    let (runtime, session, model) = scripted(&folder, texts.map(Reply::text).to_vec()).await;
    let mut ends = Vec::new();
    for _ in 0..4 {
        let ended = session.prompt("hi").await.unwrap().wait().await.unwrap();
        ends.push((ended.outcome.clone(), ended.json(), ended.steps));
    }
    let error = "the required n is missing".to_owned();
    assert_eq!(
        ends,
        [
            (Outcome::Done, Some(json!({"n": 1})), 1),
            (Outcome::Done, Some(json!({"n": 2})), 2),
            (Outcome::BadAnswer { error }, Some(json!({})), 2),
            (Outcome::Done, Some(json!({"n": 3})), 2),
        ]
    );
    let reminders: Vec<_> = model.requests().iter().map(|request| request.reminder.clone()).collect();
    let why =
        |n: usize| reminders[n].as_deref().and_then(|said| said.split("wrong with it: ").nth(1)).unwrap_or_default();
    assert_eq!([0, 1, 3, 5].map(|n| reminders[n].clone()), [None, None, None, None]);
    assert!(why(2).starts_with("it is not JSON: "), "{reminders:?}");
    assert_eq!([why(4), why(6)], ["at /n: \"x\" is no integer", "the required n is missing"]);
    let id = session.id().clone();
    assert!(runtime.shutdown().await.is_empty());
    let store = Store::open(folder.path().join("store"), StoreOptions::default()).unwrap();
    assert_eq!(Replay::open(&store, &id).unwrap().first_difference(), None);
}

/// On the last step the model is asked for JSON, not for a report; and a misfit there ends the turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_step_asks_for_the_json_alone() {
    let folder = taped::folder();
    let model = Arc::new(Scripted::new(["one"].map(Reply::text)));
    let runtime = Runtime::builder().in_memory().model(model.clone()).start().await.unwrap();
    let mut options = options(&folder);
    options.steps_max = Some(1);
    let ended = runtime.create(options).await.unwrap().prompt("hi").await.unwrap().wait().await.unwrap();
    assert!(matches!(ended.outcome, Outcome::BadAnswer { .. }) && ended.steps == 1, "{ended:?}");
    let asked = model.requests()[0].reminder.clone().unwrap();
    assert!(
        asked.contains("last step") && asked.ends_with("as JSON alone.") && !asked.contains("text only"),
        "{asked}"
    );
    assert!(runtime.shutdown().await.is_empty());
}

/// Each API is given the schema where it takes one, and is told it in words where it does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_api_is_given_the_schema_or_told_it() {
    let json = schema().as_json().clone();
    let openai = json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": json, "strict": true}});
    let responses = json!({"format": {"type": "json_schema", "name": "answer", "schema": json, "strict": true}});
    let messages = json!({"format": {"type": "json_schema", "schema": json}});
    let gemini = json!({"responseMimeType": "application/json", "responseJsonSchema": json});
    for (model, api, field, expected, is_told) in [
        ("openai/gpt-5", Api::OpenAiChat, "response_format", openai, false),
        ("deepseek/deepseek-flash", Api::OpenAiChat, "response_format", json!({"type": "json_object"}), true),
        ("openai/gpt-5", Api::OpenAiResponses, "text", responses, false),
        ("own/claude-opus-5", Api::AnthropicMessages, "output_config", messages, false),
        ("own/claude-3-5-haiku", Api::AnthropicMessages, "output_config", Value::Null, true),
        ("anthropic/claude-opus-5", Api::AnthropicMessages, "output_config", Value::Null, true),
        ("gemini/gemini-2.5-flash", Api::GeminiGenerateContent, "generationConfig", gemini, false),
    ] {
        let folder = taped::folder();
        let server = FaultServer::answering(move |_, _| answer(api, "{\"n\": 1}", &[])).await;
        let name = model.split('/').next().unwrap();
        // At another address a known provider may be another server, so one of them has a name of its own.
        let known = Provider::known(name).map(|known| known.with_key(Secret::new("k")).with_base_url(server.url()));
        let mut provider = known.unwrap_or_else(|| Provider::custom(name, api, server.url()));
        provider.api = api;
        let router = Arc::new(Router::new(HttpOptions::default()).with(provider));
        let runtime = Runtime::builder().in_memory().models(router, model.parse().unwrap()).start().await.unwrap();
        let session = runtime.create(options(&folder).tools([""; 0])).await.unwrap();
        let ended = session.prompt("hi").await.unwrap().wait().await.unwrap();
        assert_eq!((ended.outcome.clone(), ended.json()), (Outcome::Done, Some(json!({"n": 1}))), "{model}");
        let body: Value = serde_json::from_str(&server.seen()[0].body).unwrap();
        assert_eq!(body[field], expected, "{model}");
        assert_eq!(body.to_string().contains("Your final answer must be JSON alone"), is_told, "{model}");
        assert!(runtime.shutdown().await.is_empty());
    }
}
