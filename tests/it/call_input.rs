//! The arguments of a call are shown while the model still writes them, and used only when they are whole.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tamtam::{
    EventKind, Runtime, SessionOptions,
    model::{AnswerPart, BoxFuture, Delta, Deltas, Model, ModelAnswer, ModelError, Request},
    permission::Profile,
    session::{Finish, Next, Record},
    tool::{PartialJson, Tool, ToolContext, ToolResult},
};
use tokio::sync::Semaphore;

use crate::support::taped;

const PIECES: [&str; 3] = ["{\"name\": \"va", "l\", \"coun", "t\": 2}"];

/// Writes one call in three pieces, then says what came of it. Behind the last piece it waits until it is let go.
struct InPieces {
    id: tamtam::ModelRef,
    written: Semaphore,
    go_on: Semaphore,
}

fn in_pieces() -> Arc<InPieces> {
    Arc::new(InPieces { id: "test/pieces".parse().unwrap(), written: Semaphore::new(0), go_on: Semaphore::new(0) })
}

impl Model for InPieces {
    fn id(&self) -> &tamtam::ModelRef {
        &self.id
    }

    fn stream<'a>(
        &'a self,
        request: &'a Request,
        deltas: &'a mut dyn Deltas,
    ) -> BoxFuture<'a, Result<ModelAnswer, ModelError>> {
        Box::pin(async move {
            if request.history.len() > 1 {
                return Ok(ModelAnswer::new(vec![AnswerPart::Text { text: "done".into(), extra: None }], Finish::Stop));
            }
            let (id, name) = ("c1".into(), "take".to_owned());
            deltas.delta(Delta::CallPending { index: 0, id, name: name.clone() });
            for text in PIECES {
                deltas.delta(Delta::CallInput { index: 0, text: text.to_owned() });
            }
            self.written.add_permits(1);
            self.go_on.acquire().await.unwrap().forget();
            let call = AnswerPart::Call { id: "c1".into(), name, input: PIECES.concat(), extra: None };
            Ok(ModelAnswer::new(vec![call], Finish::ToolCalls))
        })
    }
}

/// Takes anything and says what it was; counts how often.
#[derive(Clone, Default)]
struct Take(Arc<AtomicUsize>);

impl Tool for Take {
    fn name(&self) -> &str {
        "take"
    }

    fn description(&self) -> &str {
        "Takes it."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object" })
    }

    fn run<'a>(&'a self, arguments: Value, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move { ToolResult::ok(arguments.to_string()) })
    }
}

/// STREAM-ERR-003: a start, three pieces, an end; and what can be shown after each of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arguments_in_three_pieces_are_shown_as_they_come() {
    let folder = taped::folder();
    let model = in_pieces();
    model.go_on.add_permits(1);
    let builder = Runtime::builder().store(folder.path().join("store")).model(model);
    let runtime = builder.tool(Take::default()).start().await.unwrap();
    let session = runtime.create(SessionOptions::new(folder.path()).profile(Profile::Auto)).await.unwrap();
    let mut events = session.events();
    session.prompt("go").await.unwrap();

    let (mut seen, mut shown, mut arguments) = (Vec::new(), Vec::new(), PartialJson::new());
    let result = async {
        loop {
            let Next::Event(event) = events.next().await.unwrap() else { continue };
            match &event.kind {
                EventKind::CallPending { index: 0, name, .. } => seen.push(name.clone()),
                EventKind::CallInput { index: 0, text } => {
                    assert!(!event.id.is_durable());
                    arguments.push(text);
                    seen.push(text.clone());
                    shown.push(Value::Object(arguments.fields()));
                }
                EventKind::CallFinished { content, .. } => return content.clone(),
                _ => {}
            }
        }
    };
    let result = tokio::time::timeout(Duration::from_secs(60), result).await.expect("the call ends");

    assert_eq!(seen, ["take", PIECES[0], PIECES[1], PIECES[2]]);
    assert_eq!(shown, [json!({"name": "va"}), json!({"name": "val"}), json!({"name": "val", "count": 2})]);
    assert_eq!(serde_json::from_str::<Value>(&result).unwrap(), json!({"name": "val", "count": 2}));
    assert!(runtime.shutdown().await.is_empty());
}

/// STREAM-012: a call that is written in three pieces is announced once, shown piece by piece, complete, begun and ended.
///
/// D-03: a call runs when its answer is complete, and not before: while the model still writes, its arguments may be whole to the
/// eye, and no call is open, none was started and none is on the tape.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_starts_when_its_answer_is_complete_and_not_before() {
    let folder = taped::folder();
    let (model, take) = (in_pieces(), Take::default());
    let builder = Runtime::builder().store(folder.path().join("store")).model(model.clone());
    let runtime = builder.tool(take.clone()).start().await.unwrap();
    let session = runtime.create(SessionOptions::new(folder.path()).profile(Profile::Auto)).await.unwrap();
    let mut events = session.events();
    let receipt = session.prompt("go").await.unwrap();
    let mut kinds = Vec::new();
    let mut next = async |wanted: &str| {
        let seen = async {
            loop {
                let Next::Event(event) = events.next().await.unwrap() else { continue };
                let event = serde_json::to_value(&event.kind).unwrap();
                kinds.push(event["event"].as_str().unwrap().to_owned());
                if event["event"] == wanted {
                    return event;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(60), seen).await.expect("it is shown")
    };
    model.written.acquire().await.unwrap().forget();
    for piece in PIECES {
        assert_eq!(next("call_input").await["text"], piece);
    }
    assert_eq!((session.state().await.unwrap().calls().count(), take.0.load(Ordering::SeqCst)), (0, 0));
    let on_tape = session.entries().await.unwrap();
    assert!(on_tape.iter().all(|entry| !matches!(entry.record, Record::Call { .. } | Record::CallStarted { .. })));

    model.go_on.add_permits(1);
    assert_eq!(next("call_started").await["input"], PIECES.concat(), "the text that was received");
    receipt.wait().await.unwrap();
    next("call_finished").await;
    assert_eq!(take.0.load(Ordering::SeqCst), 1);
    let of_call = |kind: &&String| kind.starts_with("call_") || *kind == "part_updated";
    let of_call: Vec<_> = kinds.iter().filter(of_call).map(String::as_str).collect();
    let expected =
        ["call_pending", "call_input", "call_input", "call_input", "part_updated", "call_started", "call_finished"];
    assert_eq!(of_call, expected);
    assert!(runtime.shutdown().await.is_empty());
}
