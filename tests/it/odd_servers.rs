//! Whole sessions over servers that behave strangely, on all wires: no such server ends a session, runs unjudged
//! calls, or makes work look free. `docs/PROVIDERS.md` has the table of what is expected of a server, and what happens
//! otherwise.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use serde_json::{Value, json};
use tamtam::{
    Answer as End, EventKind, Message, ModelRef, Outcome, Part, Runtime, Session, SessionOptions,
    model::{
        Api, BoxFuture, Deltas, Endpoint, HttpModel, HttpOptions, Model, ModelAnswer, ModelError, Request, Secret,
    },
    permission::{Action, Profile, Rule, Ruleset},
    session::Next,
    tool::{Access, Effect, Tool, ToolContext, ToolResult},
};

use crate::support::{
    fault_server::{Act, FaultServer, Seen, events_head, refusal, send},
    streams::{APIS, Called, answer, body, event, said},
    taped,
};

/// The smallest image: one black pixel.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0:~\x9bU\0\0\0\nIDATx\x9cc`\0\0\0\x02\0\x01H\xaf\xa4q\0\0\0\0IEND\xaeB`\x82";

/// The page of a gateway that takes no body of that size.
const PAGE: &str = "<html><head><title>413 Request Entity Too Large</title></head><body>nginx</body></html>";

/// Says which path it was called with.
struct Look;

impl Tool for Look {
    fn name(&self) -> &str {
        "look"
    }

    fn description(&self) -> &str {
        "Looks at a path."
    }

    fn schema(&self) -> Value {
        json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]})
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }

    fn access(&self, arguments: &Value) -> Vec<Access> {
        vec![Access::new("read", arguments["path"].as_str().unwrap_or("*"))]
    }

    fn run<'a>(&'a self, arguments: Value, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move { ToolResult::ok(format!("saw {}", arguments["path"])) })
    }
}

async fn started(folder: &Path, model: Arc<dyn Model>) -> (Runtime, Session) {
    let denied = Ruleset::new("test", vec![Rule::new("read", "secret", Action::Deny)]);
    let builder = Runtime::builder().store(folder.join("store")).model(model).tool(Look).rules(denied);
    let runtime = builder.start().await.unwrap();
    let session = runtime.create(SessionOptions::new(folder).profile(Profile::Auto)).await.unwrap();
    (runtime, session)
}

async fn over(folder: &Path, api: Api, server: &FaultServer) -> (Runtime, Session) {
    let mut endpoint = Endpoint::new(api, "p", server.url(), "m").with_key(Secret::new("sk-test"));
    endpoint.limits.context = 200_000;
    started(folder, Arc::new(HttpModel::new(endpoint, HttpOptions::default()).unwrap())).await
}

async fn end(session: &Session, message: impl Into<Message>) -> End {
    session.prompt(message).await.unwrap().wait().await.unwrap()
}

fn with_image(text: &str, bytes: &[u8]) -> Message {
    let mut message = Message::user(text);
    message.parts.push(Part::file("image/png", Some("shot.png".into()), bytes));
    message
}

fn has_image(seen: &Seen) -> bool {
    [r#""type":"image"#, r#""type":"input_image"#, r#""inlineData":"#].iter().any(|mark| seen.body.contains(mark))
}

/// A gateway that counts bytes: files go first, then a summary takes the place of the older part. Every turn is done, the size is
/// learned, and it is on the tape.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_with_a_limit_of_bytes_ends_no_session() {
    for api in APIS {
        let folder = taped::folder();
        let server = FaultServer::answering(move |seen, _| match seen.body.len() {
            0..60_000 => answer(api, "noted", &[]),
            _ => refusal("413 Request Entity Too Large", &["content-type: text/html"], PAGE),
        })
        .await;
        let (runtime, session) = over(folder.path(), api, &server).await;
        let image = [PNG, &[0; 20_000]].concat();
        for n in 0..3 {
            assert_eq!(
                end(&session, with_image(&format!("image {n}"), &image)).await.outcome,
                Outcome::Done,
                "{api:?}"
            );
        }
        let state = session.state().await.unwrap();
        assert_eq!((state.context.learned_bytes.len(), state.context.compactions), (1, 0), "a file was left out");
        for n in 0..12 {
            let said = format!("part {n} {}", "lorem ipsum ".repeat(750));
            assert_eq!(end(&session, said).await.outcome, Outcome::Done, "{api:?} {n}");
        }
        let refused = server.seen().iter().filter(|seen| seen.body.len() >= 60_000).count();
        assert!(refused <= 2, "{api:?}: {refused} requests were refused");
        assert!(session.state().await.unwrap().context.compactions > 0);
        assert!(runtime.shutdown().await.is_empty());
    }
}

/// `compact` is a way out where the size is known: also for a conversation that is small in tokens.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compaction_makes_room_under_a_limit_of_bytes() {
    for api in APIS {
        let folder = taped::folder();
        let server = FaultServer::answering(move |seen, _| match seen.body.len() {
            0..60_000 => answer(api, "noted", &[]),
            _ => refusal("413 Too Large", &[], ""),
        })
        .await;
        let (runtime, session) = over(folder.path(), api, &server).await;
        session.configure(|settings| settings.compaction.auto = false).await.unwrap();
        let said = |n: usize| format!("part {n} {}", "lorem ipsum ".repeat(1_250));
        let mut outcomes = Vec::new();
        for n in 0..4 {
            outcomes.push(end(&session, said(n)).await.outcome);
        }
        assert!(matches!(outcomes[3], Outcome::Failed { .. }), "{outcomes:?}");
        let mut events = session.events();
        session.compact().await.unwrap();
        let is_over = |next: Next| matches!(next, Next::Event(event) if matches!(event.kind, EventKind::CompactionFinished { .. }));
        while !is_over(events.next().await.unwrap()) {}
        assert_eq!(end(&session, said(4)).await.outcome, Outcome::Done, "{api:?}");
        assert!(runtime.shutdown().await.is_empty());
    }
}

/// A refused image is sent as a line of text, at once and from then on. A refusal that is about something else ends the turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_that_is_refused_is_a_line_from_then_on() {
    for api in APIS {
        for status in ["400 Bad Request", "404 Not Found", "422 No", "500 Oops"] {
            let folder = taped::folder();
            let error = json!({"error": {"message": "Could not process image"}}).to_string();
            let server = FaultServer::answering(move |seen, _| match has_image(seen) {
                true => refusal(status, &[], &error),
                false => answer(api, "noted", &[]),
            })
            .await;
            let (runtime, session) = over(folder.path(), api, &server).await;
            let first = end(&session, with_image("see", PNG)).await;
            assert_eq!((first.outcome, first.steps), (Outcome::Done, 1), "{api:?} {status}");
            assert_eq!(end(&session, "go on").await.outcome, Outcome::Done);
            let seen = server.seen();
            assert_eq!(seen.iter().map(has_image).collect::<Vec<_>>(), [true, false, false], "{api:?} {status}");
            assert!(seen[2].body.contains("left out: the provider refused it"), "{}", seen[2].body);
            // What was said is on the tape as it was.
            let said = session.state().await.unwrap();
            assert_eq!(said.turns, 2);
            assert!(runtime.shutdown().await.is_empty());
        }
        let folder = taped::folder();
        let error = json!({"error": {"message": "Could not process image"}}).to_string();
        let server = FaultServer::answering(move |_, _| refusal("400 Bad Request", &[], &error)).await;
        let (runtime, session) = over(folder.path(), api, &server).await;
        assert!(matches!(end(&session, "no image").await.outcome, Outcome::Failed { .. }));
        assert!(matches!(end(&session, with_image("see", PNG)).await.outcome, Outcome::Failed { .. }));
        assert_eq!(server.seen().len(), 3, "{api:?}: with the image, and once more without");
        assert!(runtime.shutdown().await.is_empty());
    }
}

/// Arguments around which a server has put something run as they were judged; what is not clear is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arguments_that_mean_one_object_are_judged_and_run_as_that_object() {
    let path = |path: &str| json!({"path": path}).to_string();
    for api in APIS {
        for (input, expected) in [
            (json!(path("a")).to_string(), "saw \"a\""),
            (json!(path("secret")).to_string(), "denied"),
            (format!("{{}}{}", path("a")), "saw \"a\""),
            (format!("{{}}{}", path("secret")), "denied"),
            (path("a").repeat(2), "saw \"a\""),
            (path("a") + "\n</tool_call>", "saw \"a\""),
            (path("a") + &path("secret"), "not a JSON object"),
        ] {
            let folder = taped::folder();
            let mark = "THE ARGUMENTS";
            let called = Called { id: "c".into(), tool: "look", input: json!(mark) };
            // As the stream has them: a text within a text; Gemini, which has a tree there, a text.
            let whole = body(api, "", &[called])
                .replace(&json!(json!(mark).to_string()).to_string(), &json!(input).to_string())
                .replace(&json!(mark).to_string(), &json!(input).to_string());
            let server = FaultServer::answering(move |_, before| match before.len() {
                0 => vec![events_head(), send(&whole)],
                _ => answer(api, "end", &[]),
            })
            .await;
            let (runtime, session) = over(folder.path(), api, &server).await;
            assert_eq!(end(&session, "look").await.outcome, Outcome::Done, "{api:?} {input}");
            let told = &server.seen()[1].body;
            let told: Value = serde_json::from_str(told).unwrap();
            let last = said(&told).last().unwrap().to_string().replace('\\', "");
            assert!(last.contains(expected), "{api:?} {input}: {last}");
            assert!(runtime.shutdown().await.is_empty());
        }
    }
}

/// An answer that breaks off after some text was paid for: what was read and what had arrived is counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_breaks_off_counts_what_was_read_and_what_had_arrived() {
    for api in APIS {
        let folder = taped::folder();
        let whole = body(api, &"words ".repeat(100), &[]);
        let first = &whole[..whole.find("words ").map(|at| at + whole[at..].find("\n\n").unwrap() + 2).unwrap()];
        let error = json!({"type": "error", "error": {"type": "insufficient_quota", "message": "no more"}});
        let script = vec![events_head(), send(first), send(&format!("event: error\ndata: {error}\n\n"))];
        let server = FaultServer::start([script]).await;
        let (runtime, session) = over(folder.path(), api, &server).await;
        let failed = end(&session, "x ".repeat(2_000)).await;
        assert!(matches!(failed.outcome, Outcome::Failed { .. }), "{:?}", failed.outcome);
        let usage = failed.spent.usage;
        assert!(usage.input > 900 && usage.output > 100, "{api:?}: {usage:?}");
        assert_eq!((server.seen().len(), failed.spent.estimated), (1, 1));
        assert!(runtime.shutdown().await.is_empty());
    }
}

/// A server that counts only what it writes gives no figure: the prompt is estimated, so that a budget and a compaction see it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn figures_of_a_model_that_has_read_nothing_are_no_figures() {
    for api in APIS {
        let folder = taped::folder();
        let server = FaultServer::answering(move |_, _| {
            let usage = match api {
                Api::OpenAiChat => json!({"choices": [], "usage": {"prompt_tokens": 0, "completion_tokens": 5}}),
                Api::OpenAiResponses => {
                    let usage = json!({"input_tokens": 0, "output_tokens": 5});
                    json!({"type": "response.completed", "response": {"usage": usage}})
                }
                Api::GeminiGenerateContent => {
                    json!({"usageMetadata": {"promptTokenCount": 0, "candidatesTokenCount": 5}})
                }
                _ => json!({"type": "message_delta", "delta": {}, "usage": {"input_tokens": 0, "output_tokens": 5}}),
            };
            let end = match api {
                Api::OpenAiChat => "data: [DONE]",
                Api::OpenAiResponses => "event: response.completed",
                Api::GeminiGenerateContent => "data: {\"candidates\":[{\"content\":{\"parts\":[],",
                _ => "event: message_stop",
            };
            let whole = body(api, "noted", &[]).replacen(end, &(event(&usage) + end), 1);
            assert!(whole.contains("5"), "{whole}");
            vec![events_head(), send(&whole)]
        })
        .await;
        let (runtime, session) = over(folder.path(), api, &server).await;
        let done = end(&session, "x ".repeat(2_000)).await;
        assert_eq!(done.outcome, Outcome::Done);
        assert!(done.spent.usage.input > 900 && done.spent.estimated == 1, "{api:?}: {:?}", done.spent);
        assert!(runtime.shutdown().await.is_empty());
    }
}

/// Requests whose next try would end as the first one did: one is made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_never_succeed_is_tried_once() {
    for api in APIS {
        let calls: Vec<_> =
            (0..1_100).map(|n| Called { id: format!("c{n}"), tool: "look", input: json!({}) }).collect();
        let scripts: [Vec<Act>; 3] = [
            answer(api, "", &calls),
            vec![events_head(), Act::Send(vec![b'x'; 9 << 20])],
            refusal("200 OK", &["content-type: application/json"], r#"{"choices": [{"message": {"content": "hi"}}]}"#),
        ];
        for script in scripts {
            let folder = taped::folder();
            let server = FaultServer::answering(move |_, _| script.clone()).await;
            let (runtime, session) = over(folder.path(), api, &server).await;
            let failed = end(&session, "go").await.outcome;
            assert!(matches!(failed, Outcome::Failed { .. }), "{api:?}: {failed:?}");
            assert_eq!(server.seen().len(), 1, "{api:?}: {failed:?}");
            assert!(runtime.shutdown().await.is_empty());
        }
    }
}

/// A client of the host's own that panics.
struct Panics(ModelRef, Arc<AtomicUsize>);

impl Model for Panics {
    fn id(&self) -> &ModelRef {
        &self.0
    }

    fn stream<'a>(&'a self, _: &'a Request, _: &'a mut dyn Deltas) -> BoxFuture<'a, Result<ModelAnswer, ModelError>> {
        self.1.fetch_add(1, Ordering::Relaxed);
        panic!("over this request")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_client_that_panics_is_called_twice_more_and_no_oftener() {
    let folder = taped::folder();
    let calls = Arc::<AtomicUsize>::default();
    let model = Panics("mine/m".parse().unwrap(), calls.clone());
    let (runtime, session) = started(folder.path(), Arc::new(model)).await;
    let Outcome::Failed { error } = end(&session, "go").await.outcome else { panic!("it cannot be done") };
    assert!(error.contains("the model client crashed"), "{error}");
    assert_eq!(calls.load(Ordering::Relaxed), 3);
    assert!(runtime.shutdown().await.is_empty());
}
