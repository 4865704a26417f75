//! Data that is nested too deep ends no process: it is refused where it comes in, and named if it is on a tape.
//!
//! A stack that is too small cannot be caught: the process dies, and this test binary with it. So a failing test here
//! may name another one that ran next to it.

mod table;

use std::{path::Path, sync::Arc};

use serde_json::{Value, json};
use tamtam::{
    Delivery, Message, ModelRef, Outcome, Part, Runtime, SendError, Session, SessionOptions,
    hook::{Hook, Redact},
    model::{AnswerPart, BoxFuture, Deltas, Model, ModelAnswer, ModelError, Reply, Request, Scripted},
    ops::replay::Replay,
    permission::Profile,
    runtime::{Agent, AgentSpec, Agents, AgentsConfig, StartError},
    session::{Extra, Finish, Record, Refusal, ToolState, VALUE_DEPTH_MAX},
    tape::{ImportOptions, Spills, Store, StoreOptions, TapeAccess, TapeError, TapeStoreExt as _},
    tool::{Tool, ToolContext, ToolResult},
};

use crate::support::taped;

/// Far more levels than any stack has room for.
const FAR_TOO_DEEP: usize = 100_000;

fn nested(depth: usize) -> Value {
    let level = |n| if n % 2 == 0 { json!([()]) } else { json!({"a": ()}) };
    (0..depth).fold(Value::Null, |inner, n| level(n).with(inner))
}

trait With {
    fn with(self, inner: Value) -> Value;
}

impl With for Value {
    /// Puts a value into its one place, without a walk.
    fn with(mut self, inner: Value) -> Value {
        match &mut self {
            Value::Array(items) => items[0] = inner,
            Value::Object(fields) => fields["a"] = inner,
            _ => unreachable!(),
        }
        self
    }
}

/// A tool whose details, and whose report of progress, are that deep.
struct Deep(usize);

impl Tool for Deep {
    fn name(&self) -> &str {
        "deep"
    }

    fn description(&self) -> &str {
        "Gives deep details."
    }

    fn schema(&self) -> Value {
        json!({"type": "object"})
    }

    fn run<'a>(&'a self, _: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async {
            context.progress.metadata(nested(self.0));
            ToolResult::ok("plain").with_details(nested(self.0))
        })
    }
}

/// A hook that puts deep values into results and messages.
struct DeepHook(usize);

impl Hook for DeepHook {
    fn name(&self) -> &str {
        "deep"
    }

    fn sees_answers(&self) -> bool {
        true
    }

    fn on_result<'a>(&'a self, _: &'a tamtam::hook::HookCall, result: ToolResult) -> BoxFuture<'a, ToolResult> {
        Box::pin(async { result.with_details(nested(self.0)) })
    }

    fn on_answer<'a>(
        &'a self,
        _: &'a tamtam::hook::HookContext,
        mut parts: Vec<AnswerPart>,
    ) -> BoxFuture<'a, Vec<AnswerPart>> {
        if let Some(AnswerPart::Text { extra, .. }) = parts.first_mut() {
            *extra = Some(of_provider(self.0));
        }
        Box::pin(async { parts })
    }
}

fn of_provider(depth: usize) -> Extra {
    Extra::new("fake", "api", nested(depth))
}

/// A part of text with deep data.
fn deep_text(depth: usize) -> Part {
    let mut part = Part::text("x");
    let Part::Text(text) = &mut part else { panic!("it is text") };
    text.extra = Some(of_provider(depth));
    part
}

/// A model of a host's own, whose answers carry deep data.
struct DeepModel(ModelRef, usize);

impl Model for DeepModel {
    fn id(&self) -> &ModelRef {
        &self.0
    }

    fn stream<'a>(&'a self, _: &'a Request, _: &'a mut dyn Deltas) -> BoxFuture<'a, Result<ModelAnswer, ModelError>> {
        let text = AnswerPart::Text { text: "so".into(), extra: Some(of_provider(self.1)) };
        Box::pin(async { Ok(ModelAnswer::new(vec![text], Finish::Stop)) })
    }
}

fn calls_deep() -> Arc<Scripted> {
    Arc::new(Scripted::new([Reply::call("deep", json!({})), Reply::text("done"), Reply::text("again")]))
}

fn options(folder: &Path) -> SessionOptions {
    SessionOptions::new(folder).id("s".parse().unwrap()).profile(Profile::Auto)
}

async fn turn(session: &Session) -> Outcome {
    let outcome = session.prompt("go").await.unwrap().wait().await.unwrap().outcome;
    session.wait().await.unwrap();
    outcome
}

/// The details of the one call, as the tape has them.
async fn details(session: &Session) -> Value {
    let entries = session.entries().await.unwrap();
    let result = entries.into_iter().find_map(|entry| match entry.record {
        Record::Result { result, .. } => Some(result.details.clone()),
        _ => None,
    });
    result.unwrap()
}

fn left_out() -> Value {
    json!({"left_out": format!("nested deeper than {VALUE_DEPTH_MAX} levels")})
}

/// From a tool of a host: the result is kept, and a note takes the place of its details. The session is there after a restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn details_that_are_too_deep_are_left_out_and_the_result_is_kept() {
    for (depth, kept) in [(VALUE_DEPTH_MAX, true), (VALUE_DEPTH_MAX + 1, false), (2_000, false), (FAR_TOO_DEEP, false)]
    {
        let folder = taped::folder();
        let builder = || {
            Runtime::builder()
                .store(folder.path().join("store"))
                .model(calls_deep())
                .tool(Deep(depth))
                .hook(Redact::new())
        };
        let runtime = builder().start().await.unwrap();
        let session = runtime.create(options(folder.path())).await.unwrap();
        let heard = session.events();
        assert_eq!(turn(&session).await, Outcome::Done);
        drop(heard);
        assert!(runtime.shutdown().await.is_empty());
        let runtime = builder().start().await.unwrap();
        let session = runtime.open(&"s".parse().unwrap()).await.unwrap();
        assert_eq!(details(&session).await, if kept { nested(depth) } else { left_out() }, "{depth}");
        let said = format!("{:?}", session.messages().await.unwrap());
        assert!(said.contains("plain"), "the text of the result is kept");
        assert!(runtime.shutdown().await.is_empty());
    }
}

/// The same from hooks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_cannot_put_in_what_is_too_deep() {
    let folder = taped::folder();
    let builder = Runtime::builder().store(folder.path().join("store")).model(calls_deep());
    let runtime = builder.tool(Deep(3)).hook(DeepHook(FAR_TOO_DEEP)).start().await.unwrap();
    let session = runtime.create(options(folder.path())).await.unwrap();
    assert_eq!(turn(&session).await, Outcome::Done);
    assert_eq!(details(&session).await, left_out());
    assert!(!format!("{:?}", session.entries().await.unwrap()).contains("Extra"), "it is left out of the answer");
    assert!(runtime.shutdown().await.is_empty());
}

/// From a model of a host: the request fails, and says why.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_too_deep_fails_its_request() {
    for (depth, is_fine) in [(VALUE_DEPTH_MAX, true), (FAR_TOO_DEEP, false)] {
        let folder = taped::folder();
        let model = Arc::new(DeepModel("fake/deep".parse().unwrap(), depth));
        let runtime = Runtime::builder().store(folder.path().join("store")).model(model).start().await.unwrap();
        let session = runtime.create(options(folder.path())).await.unwrap();
        session.configure(|settings| settings.retries_max = 0).await.unwrap();
        match turn(&session).await {
            Outcome::Done => assert!(is_fine),
            Outcome::Failed { error, .. } => {
                assert!(!is_fine && format!("{error:?}").contains("nested deeper than 96"), "{error:?}")
            }
            other => panic!("{other:?}"),
        }
        assert!(runtime.shutdown().await.is_empty());
    }
}

/// What a host itself gives is refused in words, and nothing of it is left to be dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_host_gives_too_deep_is_refused_in_words() {
    let folder = taped::folder();
    let model = Arc::new(Scripted::new([Reply::text("hello")]));
    let runtime = Runtime::builder().store(folder.path().join("store")).model(model).start().await.unwrap();
    let session = runtime.create(options(folder.path())).await.unwrap();
    let is_nested =
        |error: &SendError| matches!(error, SendError::Refused(Refusal::Nested { max: VALUE_DEPTH_MAX, .. }));

    let with = |part| Message::user("go").with_part(part);
    let text = |depth| deep_text(depth);
    let state = json!({"status": "completed", "input": "{}", "output": "x", "metadata": {}, "time": {"start": 0}});
    let tool = json!({"type": "tool", "callID": "c", "tool": "t", "state": state});
    let mut tool: Part = serde_json::from_value(tool).unwrap();
    let Part::Tool(part) = &mut tool else { panic!("it is a call: {tool:?}") };
    let ToolState::Completed { metadata, .. } = &mut part.state else { panic!("it is completed") };
    *metadata = nested(FAR_TOO_DEEP);
    part.extra = Some(of_provider(FAR_TOO_DEEP));
    let both = with(text(FAR_TOO_DEEP)).with_part(tool);
    let error = session.send(both, Delivery::Queue).await.unwrap_err();
    assert!(is_nested(&error), "{error}");
    assert!(error.to_string().contains("nested deeper than 96 levels"), "{error}");
    session.send(with(text(VALUE_DEPTH_MAX)), Delivery::Queue).await.unwrap().wait().await.unwrap();

    let deep = |settings: &mut tamtam::session::Settings| settings.params.options = nested(FAR_TOO_DEEP);
    let error = session.configure(deep).await.unwrap_err();
    assert!(is_nested(&error), "{error}");
    let mut asked = options(folder.path()).id("t".parse().unwrap());
    asked.params.options = nested(FAR_TOO_DEEP);
    let error = runtime.create(asked).await.unwrap_err();
    assert!(error.to_string().contains("nested deeper than 96 levels"), "{error}");

    let mut agent = Agent::new("deep", "Is deep.");
    agent.options = json!({"a": ()}).with(nested(FAR_TOO_DEEP));
    assert!(Agents::built_in().with(agent).unwrap_err().to_string().contains("nested deeper than 96 levels"));
    let mut spec = AgentSpec::default();
    spec.options = json!({"a": ()}).with(nested(FAR_TOO_DEEP));
    let mut config = AgentsConfig::default();
    config.agents.push(("deep".to_owned(), spec, None));
    let (_, wrong) = Agents::build(&config).unwrap();
    assert!(wrong[0].1.to_string().contains("nested deeper than 96 levels"), "{}", wrong[0].1);
    // The configuration is the host's, and so is its drop.
    std::mem::forget(config);
    assert!(runtime.shutdown().await.is_empty());
}

struct WithSchema(fn() -> Value);

impl Tool for WithSchema {
    fn name(&self) -> &str {
        "odd"
    }

    fn description(&self) -> &str {
        "Is odd."
    }

    fn schema(&self) -> Value {
        (self.0)()
    }

    fn run<'a>(&'a self, _: Value, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async { ToolResult::ok("") })
    }
}

/// A schema that is none is refused at the start, and so is one that is too deep.
#[tokio::test]
async fn a_schema_that_no_model_can_be_told_of_is_refused_at_the_start() {
    for (schema, says) in [
        ((|| json!({"type": "object"})) as fn() -> Value, None),
        (|| json!(true), None),
        (|| json!({}), None),
        (|| json!(null), Some("the schema of the tool \"odd\" is null: a JSON schema is an object")),
        (|| json!([1]), Some("the schema of the tool \"odd\" is a list")),
        (|| json!("object"), Some("the schema of the tool \"odd\" is a text")),
        (|| json!(7), Some("the schema of the tool \"odd\" is a number")),
        (|| json!({"type": "string"}), Some("are not a JSON object")),
        (|| nested(VALUE_DEPTH_MAX + 1), Some("is nested deeper than 96 levels: make it flatter")),
        (|| nested(FAR_TOO_DEEP), Some("is nested deeper than 96 levels: make it flatter")),
    ] {
        let builder = Runtime::builder().in_memory().model(Arc::new(Scripted::new([])));
        match (builder.tool(WithSchema(schema)).start().await, says) {
            (Ok(runtime), None) => drop(runtime.shutdown().await),
            (Err(StartError::Tools(why)), Some(says)) => assert!(why.contains(says), "{why}"),
            (Ok(_), Some(says)) => panic!("started: {says}"),
            (Err(error), _) => panic!("{error}"),
        }
    }
}

/// A value at the bound stands deepest in the state of an anchor: of a handoff, of a fork, of an export. All of it is read again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_as_deep_as_it_may_be_is_read_from_everything_that_has_it() {
    let folder = taped::folder();
    let of_model = Arc::new(Scripted::new([Reply::call("deep", json!({})), Reply::text("done"), Reply::text("again")]));
    let builder = || {
        let tools = Runtime::builder().store(folder.path().join("store")).tool(Deep(VALUE_DEPTH_MAX));
        tools.model(of_model.clone()).hook(DeepHook(VALUE_DEPTH_MAX))
    };
    let runtime = builder().start().await.unwrap();
    let mut asked = options(folder.path());
    asked.params.options = json!({"a": ()}).with(nested(VALUE_DEPTH_MAX - 1));
    let session = runtime.create(asked).await.unwrap();
    let deep = deep_text(VALUE_DEPTH_MAX);
    session.pause().await.unwrap();
    session.send(Message::user("waits").with_part(deep), Delivery::Queue).await.unwrap();
    let mut agent = Agent::new("deep", "Is deep.");
    agent.options = json!({"a": ()}).with(nested(VALUE_DEPTH_MAX - 1));
    session.switch_agent(agent.for_session(session.id()).unwrap()).await.unwrap();
    // An anchor while the message waits, and one after the turn.
    session.handoff("waiting", None).await.unwrap();
    session.resume().await.unwrap();
    session.wait().await.unwrap();
    session.handoff("over", None).await.unwrap();
    let fork = session.fork(session.state().await.unwrap().seq).await.unwrap();
    let fork = fork.id().clone();
    assert!(runtime.shutdown().await.is_empty());

    let reading = StoreOptions::default().access(TapeAccess::Read);
    let store = Store::open(folder.path().join("store"), reading).unwrap();
    assert_eq!(store.verify_all().unwrap(), []);
    let runtime = builder().start().await.unwrap();
    for id in [session.id().clone(), fork] {
        assert!(Replay::open(&store, &id).unwrap().all(|step| step.difference.is_none()), "{id}");
        let opened = runtime.open(&id).await.unwrap();
        opened.messages().await.unwrap();
        opened.entries().await.unwrap();
        let mut file = Vec::new();
        store.export(&id, Spills::Left, &mut file).unwrap();
        let other = tempfile::tempdir().unwrap();
        let into = Store::open(other.path(), StoreOptions::default()).unwrap();
        into.import(&mut &file[..], &ImportOptions::as_it_was()).unwrap();
        assert_eq!(into.verify_all().unwrap(), []);
    }
    assert!(runtime.shutdown().await.is_empty());
}

const SUM_FIELD_BYTES: usize = 26;

/// A tape file with another text in place of one, and all checksums as they should be.
fn forged(lines: &[u8], from: &str, to: &str) -> Vec<u8> {
    let text = std::str::from_utf8(lines).unwrap();
    let (mut sum, mut out) = ("0".repeat(16), String::new());
    for line in text.lines() {
        let body = line[..line.len() - SUM_FIELD_BYTES].replacen(from, to, 1);
        sum = blake3::hash(format!("{sum}{body}").as_bytes()).to_hex()[..16].to_owned();
        out.push_str(&format!("{body},\"sum\":\"{sum}\"}}\n"));
    }
    out.into_bytes()
}

/// From a stranger, or from a disk: a line of 60 KB that is 30,000 levels deep, with a good checksum. The line is named wherever the
/// tape is read, and the session can be read up to it. Found when a service was tried: the process was killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_that_is_too_deep_is_named_and_ends_no_process() {
    let folder = taped::folder();
    folder.may_leave_out(taped::LeftOut::Damaged);
    let path = folder.path().join("store");
    let builder = || Runtime::builder().store(&path).model(calls_deep()).tool(Deep(0));
    let runtime = builder().start().await.unwrap();
    let session = runtime.create(options(folder.path())).await.unwrap();
    turn(&session).await;
    assert!(runtime.shutdown().await.is_empty());
    let (id, reading) = (session.id().clone(), StoreOptions::default().access(TapeAccess::Read));
    let open = || Store::open(&path, reading.clone()).unwrap();
    let mut good = Vec::new();
    open().export(&id, Spills::Left, &mut good).unwrap();

    let tape = path.join("sessions/s/anchors/001_session-start/entries.jsonl");
    let lines = std::fs::read(&tape).unwrap();
    let deep = format!("\"content\":\"plain\",\"details\":{}1{}", "[".repeat(30_000), "]".repeat(30_000));
    let damaged = forged(&lines, "\"content\":\"plain\"", &deep);
    assert_eq!(forged(&lines, "-", "-"), lines, "the checksums are made as the tape makes them");
    std::fs::write(&tape, &damaged).unwrap();

    let says = "nested deeper than 127 levels";
    let findings = open().verify(&id).unwrap();
    assert!(findings[0].to_string().contains(says), "{}", findings[0]);
    let error = open().export(&id, Spills::Left, &mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains(says), "{error}");
    let error = Replay::open(&open(), &id).err().unwrap();
    assert!(error.to_string().contains(says), "{error}");
    let runtime = builder().start().await.unwrap();
    let session = runtime.session(&id);
    for error in [
        runtime.open(&id).await.unwrap_err().to_string(),
        session.messages().await.unwrap_err().to_string(),
        session.entries().await.unwrap_err().to_string(),
        session.state().await.unwrap_err().to_string(),
        session.prompt("go on").await.unwrap_err().to_string(),
        session.changes(tamtam::Seq(0)).await.unwrap_err().to_string(),
    ] {
        assert!(error.contains(says), "{error}");
    }
    // The way out: a fork of the part in front of it.
    let fork = runtime.session(&id).fork(tamtam::Seq(4)).await.unwrap();
    assert_eq!(turn(&fork).await, Outcome::Done);
    assert!(runtime.shutdown().await.is_empty());

    // An export that is forged in the same way.
    let at = good.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let mut header: Value = serde_json::from_slice(&good[..at]).unwrap();
    let lines = forged(&good[at..], "\"content\":\"plain\"", &deep);
    header["anchors"][0]["bytes"] = lines.len().into();
    header["anchors"][0]["hash"] = blake3::hash(&lines).to_hex().to_string().into();
    let file = [header.to_string().as_bytes(), b"\n", &lines].concat();
    let other = tempfile::tempdir().unwrap();
    let into = Store::open(other.path(), StoreOptions::default()).unwrap();
    let error = into.import(&mut &file[..], &ImportOptions::as_it_was()).unwrap_err();
    assert!(matches!(&error, TapeError::Import { what, .. } if what.contains(says)), "{error}");
}
