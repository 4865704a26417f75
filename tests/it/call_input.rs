//! The arguments of a call are shown while the model still writes them, and used only when they are whole.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tamtam::{
    EventKind, Runtime, SessionOptions,
    event::Next,
    message::Finish,
    model::{Answer, AnswerPart, BoxFuture, Delta, Deltas, Model, ModelError, Request},
    permission::Profile,
    tool::{Tool, ToolContext, ToolResult, partial_json::PartialJson},
};

use crate::support::taped;

const PIECES: [&str; 3] = ["{\"name\": \"va", "l\", \"coun", "t\": 2}"];

/// Writes one call in three pieces, then says what came of it.
struct InPieces(tamtam::ModelRef);

impl Model for InPieces {
    fn id(&self) -> &tamtam::ModelRef {
        &self.0
    }

    fn stream<'a>(
        &'a self,
        request: &'a Request,
        deltas: &'a mut dyn Deltas,
    ) -> BoxFuture<'a, Result<Answer, ModelError>> {
        Box::pin(async move {
            if request.history.len() > 1 {
                return Ok(Answer::new(vec![AnswerPart::Text { text: "done".into(), extra: None }], Finish::Stop));
            }
            let (id, name) = ("c1".into(), "take".to_owned());
            deltas.delta(Delta::CallPending { index: 0, id, name: name.clone() });
            for text in PIECES {
                deltas.delta(Delta::CallInput { index: 0, text: text.to_owned() });
            }
            let call = AnswerPart::Call { id: "c1".into(), name, input: PIECES.concat(), extra: None };
            Ok(Answer::new(vec![call], Finish::ToolCalls))
        })
    }
}

/// Takes anything and says what it was.
struct Take;

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
        Box::pin(async move { ToolResult::ok(arguments.to_string()) })
    }
}

/// STREAM-ERR-003: a start, three pieces, an end; and what can be shown after each of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arguments_in_three_pieces_are_shown_as_they_come() {
    let folder = taped::folder();
    let model = Arc::new(InPieces("test/pieces".parse().unwrap()));
    let builder = Runtime::builder().store(folder.path().join("store")).model(model);
    let runtime = builder.tool(Take).start().await.unwrap();
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
    let result = tokio::time::timeout(Duration::from_secs(20), result).await.expect("the call ends");

    assert_eq!(seen, ["take", PIECES[0], PIECES[1], PIECES[2]]);
    assert_eq!(shown, [json!({"name": "va"}), json!({"name": "val"}), json!({"name": "val", "count": 2})]);
    assert_eq!(serde_json::from_str::<Value>(&result).unwrap(), json!({"name": "val", "count": 2}));
    assert!(runtime.shutdown().await.is_empty());
}
