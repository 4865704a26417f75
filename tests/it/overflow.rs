//! Servers whose real window is smaller than their model's stated one, over all wires: how a session handles their
//! refusals.

use std::sync::Arc;

use serde_json::{Value, json};
use tamtam::{
    Outcome, Runtime, SessionOptions,
    model::{Api, BoxFuture, Endpoint, HttpModel, HttpOptions, Secret},
    permission::Profile,
    tool::{Effect, Tool, ToolContext, ToolResult},
};

use crate::support::{
    fault_server::{Act, FaultServer, refusal},
    streams::{APIS, Called, answer, said},
    taped,
};

/// As many characters as it is asked for.
struct Large;

impl Tool for Large {
    fn name(&self) -> &str {
        "large"
    }

    fn description(&self) -> &str {
        "Gives so many characters."
    }

    fn schema(&self) -> Value {
        json!({"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]})
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }

    fn run<'a>(&'a self, arguments: Value, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        let size = arguments["size"].as_u64().unwrap_or_default();
        Box::pin(async move { ToolResult::ok("z ".repeat(size as usize / 2)) })
    }
}

/// A server that reads four characters a token, and refuses what is more than its window.
fn serve(api: Api, window: usize, says: bool, body: &str) -> Vec<Act> {
    let tokens = body.len() / 4;
    if tokens > window {
        let openai = format!(
            "This model's maximum context length is {window} tokens. However, your messages resulted in {tokens} tokens."
        );
        let message = match (api, says) {
            (_, false) => "prompt is too long".to_owned(),
            (Api::OpenAiChat | Api::OpenAiResponses, true) => openai,
            (_, true) => format!("prompt is too long: {tokens} tokens > {window} maximum"),
        };
        let error = json!({"type": "invalid_request_error", "message": message});
        return refusal("400 Bad Request", &[], &json!({"type": "error", "error": error}).to_string());
    }
    let request: Value = serde_json::from_str(body).unwrap();
    let last = said(&request).last().unwrap().to_string();
    // A summary is asked for without tools.
    let size = last.split("call large ").nth(1).filter(|_| request["tools"].is_array());
    let size = size.and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok());
    match size {
        Some(size) => answer(api, "", &[Called { id: "c".into(), tool: "large", input: json!({"size": size}) }]),
        None => answer(api, "in short", &[]),
    }
}

/// Prompts, messages and results of any size: each turn ends with an answer or a clear error, a small message is answered behind each, no
/// request is made twice, and what was learned is on the tape.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_lives_with_a_server_whose_window_is_smaller_than_is_said() {
    for (window, says) in [(2_000, true), (2_000, false), (16_000, true), (64_000, false)] {
        for api in APIS {
            let folder = taped::folder();
            let server = FaultServer::answering(move |seen, _| serve(api, window, says, &seen.body)).await;
            let mut endpoint = Endpoint::new(api, "p", server.url(), "m").with_key(Secret::new("sk-test"));
            endpoint.limits.context = 200_000;
            let model = HttpModel::new(endpoint, HttpOptions::default()).unwrap();
            let builder = Runtime::builder().store(folder.path().join("store")).model(Arc::new(model)).tool(Large);
            let runtime = builder.start().await.unwrap();
            let options = SessionOptions::new(folder.path()).profile(Profile::Auto);
            let session = runtime.create(options).await.unwrap();
            for (n, size) in [2_000, 40_000, 400_000].into_iter().enumerate() {
                for said in [format!("{n} {}", "w ".repeat(size / 2)), format!("call large {size}"), format!("{n} hi")]
                {
                    let is_small = said.ends_with("hi");
                    let end = session.prompt(said).await.unwrap().wait().await.unwrap();
                    match &end.outcome {
                        Outcome::Done => {}
                        Outcome::Failed { error } if !is_small => {
                            assert!(error.contains("more than p/m reads at once"), "{error}");
                        }
                        other => panic!("{api:?} {window} {says} {size}: {other:?}"),
                    }
                }
            }
            let mut bodies: Vec<String> = server.seen().into_iter().map(|seen| seen.body).collect();
            let made = bodies.len();
            bodies.sort_unstable();
            bodies.dedup();
            assert_eq!(bodies.len(), made, "{api:?} {window} {says}: a request was made twice");
            let learned = &session.state().await.unwrap().context.learned;
            assert!(learned.iter().any(|(_, learned)| *learned < 200_000), "{learned:?}");
            assert!(runtime.shutdown().await.is_empty());
        }
    }
}
