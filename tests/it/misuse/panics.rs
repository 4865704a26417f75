//! A host's code that panics, in each callback that runs while a session works: what it costs, and that the next turn is whole.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use tamtam::{
    Event, Message, Outcome, Runtime, SendError, SessionOptions,
    hook::{Hook, HookCall, HookContext, Input, Verdict},
    model::{AnswerPart, BoxFuture, Deltas, Item, Model, ModelAnswer, ModelError, ModelLimits, Price, Request, Usage},
    permission::Profile,
    runtime::{EnvironmentProvider, Place, Section},
    session::Finish,
    tool::{Access, Effect, Tool, ToolContext, ToolResult, Toolbox, truncate::CutLimits},
};
use tokio::time::timeout;

/// Far longer than anything here takes.
const LIMIT: Duration = Duration::from_secs(60);

/// The callback that panics now.
type At = Arc<Mutex<&'static str>>;

/// A host: each of its callbacks panics where it is told to.
#[derive(Clone)]
struct Host {
    at: At,
    id: tamtam::ModelRef,
}

impl Host {
    fn enter(&self, callback: &str) {
        let at = *self.at.lock().unwrap();
        if at == callback {
            std::panic::panic_any("on purpose");
        }
    }
}

impl Tool for Host {
    fn name(&self) -> &str {
        self.enter("Tool::name");
        "odd"
    }
    fn description(&self) -> &str {
        "Is odd."
    }
    fn schema(&self) -> Value {
        self.enter("Tool::schema");
        json!({ "type": "object" })
    }
    fn effect(&self) -> Effect {
        Effect::Read
    }
    fn limit(&self, _: &Value) -> Duration {
        self.enter("Tool::limit");
        LIMIT
    }
    fn output(&self) -> CutLimits {
        self.enter("Tool::output");
        CutLimits::default()
    }
    fn access(&self, _: &Value) -> Vec<Access> {
        self.enter("Tool::access");
        vec![Access::new("odd", "*")]
    }
    fn pollable(&self, _: &Value) -> bool {
        self.enter("Tool::pollable");
        false
    }
    fn loop_key(&self, _: &Value) -> String {
        self.enter("Tool::loop_key");
        "odd".to_owned()
    }
    fn check(&self, _: &Value) -> Result<(), String> {
        self.enter("Tool::check");
        Ok(())
    }
    fn run<'a>(&'a self, _: Value, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        self.enter("Tool::run");
        Box::pin(async {
            self.enter("Tool::run, awaited");
            ToolResult::ok("ran")
        })
    }
}

impl Hook for Host {
    fn name(&self) -> &str {
        "odd"
    }
    fn sees_answers(&self) -> bool {
        true
    }
    fn on_input<'a>(&'a self, _: &'a HookContext, message: Message) -> BoxFuture<'a, Input> {
        self.enter("Hook::on_input");
        Box::pin(async { Input::Pass(Box::new(message)) })
    }
    fn on_answer<'a>(&'a self, _: &'a HookContext, parts: Vec<AnswerPart>) -> BoxFuture<'a, Vec<AnswerPart>> {
        self.enter("Hook::on_answer");
        Box::pin(async { parts })
    }
    fn before_call<'a>(&'a self, _: &'a HookCall) -> BoxFuture<'a, Verdict> {
        self.enter("Hook::before_call");
        Box::pin(async { Verdict::Pass })
    }
    fn on_result<'a>(&'a self, _: &'a HookCall, result: ToolResult) -> BoxFuture<'a, ToolResult> {
        self.enter("Hook::on_result");
        Box::pin(async { result })
    }
    fn on_event(&self, _: &Event) {
        self.enter("Hook::on_event");
    }
}

impl Model for Host {
    fn id(&self) -> &tamtam::ModelRef {
        &self.id
    }
    fn limits(&self) -> ModelLimits {
        self.enter("Model::limits");
        ModelLimits::default()
    }
    fn price(&self) -> Option<Price> {
        self.enter("Model::price");
        None
    }
    fn stream<'a>(
        &'a self,
        request: &'a Request,
        _: &'a mut dyn Deltas,
    ) -> BoxFuture<'a, Result<ModelAnswer, ModelError>> {
        // The call, and then the result of it as a text.
        let part = match request.history.last().map(|last| last.as_ref()) {
            Some(Item::Result(result)) => AnswerPart::Text { text: result.content.clone(), extra: None },
            _ => AnswerPart::Call { id: "c".into(), name: "odd".into(), input: "{}".into(), extra: None },
        };
        let is_call = matches!(part, AnswerPart::Call { .. });
        let finish = if is_call { Finish::ToolCalls } else { Finish::Stop };
        let mut answer = ModelAnswer::new(vec![part], finish);
        answer.usage = Usage::default();
        Box::pin(async move { Ok(answer) })
    }
}

impl EnvironmentProvider for Host {
    fn name(&self) -> &str {
        "odd"
    }
    fn sections<'a>(&'a self, _: &'a Place) -> BoxFuture<'a, Result<Vec<Section>, String>> {
        self.enter("EnvironmentProvider::sections");
        Box::pin(async { Ok(Vec::new()) })
    }
}

/// What a panic costs.
enum Costs {
    Nothing,
    /// The call gets an error result that has these words.
    Call(&'static str),
    Answer,
    Message,
}

const TABLE: [(&str, Costs); 16] = [
    ("Tool::name", Costs::Call("crash")),
    ("Tool::check", Costs::Call("crashed over these arguments")),
    ("Tool::access", Costs::Call("crashed over these arguments")),
    ("Tool::pollable", Costs::Call("crashed over these arguments")),
    ("Tool::loop_key", Costs::Call("crashed over these arguments")),
    ("Tool::limit", Costs::Call("The tool crashed: on purpose")),
    ("Tool::output", Costs::Call("The tool crashed: on purpose")),
    ("Tool::run", Costs::Call("The tool crashed: on purpose")),
    ("Tool::run, awaited", Costs::Call("The tool crashed: on purpose")),
    ("Hook::on_input", Costs::Message),
    ("Hook::on_answer", Costs::Answer),
    ("Hook::before_call", Costs::Call("odd")),
    ("Hook::on_result", Costs::Call("odd")),
    ("Hook::on_event", Costs::Nothing),
    ("Model::limits", Costs::Nothing),
    ("Model::price", Costs::Nothing),
];

/// A panic costs the call, the answer or the message that it was about; the session, its next turn and the shutdown are whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_in_each_callback_costs_what_it_was_about_and_no_session() {
    for (callback, costs) in TABLE {
        let host = Host { at: Arc::new(Mutex::new("")), id: "host/odd".parse().unwrap() };
        let builder = Runtime::builder().in_memory().model(Arc::new(host.clone())).tool(host.clone());
        let runtime = builder.hook(host.clone()).environment(host.clone()).start().await.unwrap();
        *host.at.lock().unwrap() = "EnvironmentProvider::sections";
        let options = SessionOptions::new(".").profile(Profile::Auto);
        let session = runtime.create(options).await.expect("a provider that panics says nothing");
        *host.at.lock().unwrap() = callback;
        let sent = session.prompt("Go.").await;
        let answer = match (sent, &costs) {
            (Err(SendError::HookFailed { .. }), Costs::Message) => None,
            (Ok(receipt), _) => Some(timeout(LIMIT, receipt.wait()).await.expect("the turn ends").unwrap()),
            (Err(error), _) => panic!("{callback}: {error}"),
        };
        match (&costs, answer) {
            (Costs::Message, None) => {}
            (Costs::Nothing, Some(answer)) => {
                assert_eq!((answer.outcome, &*answer.text), (Outcome::Done, "ran"), "{callback}")
            }
            (Costs::Call(words), Some(answer)) => {
                assert_eq!(answer.outcome, Outcome::Done, "{callback}");
                assert!(answer.text.contains(words) && answer.text != "ran", "{callback}: {}", answer.text);
            }
            (Costs::Answer, Some(answer)) => assert_eq!(answer.outcome, Outcome::Refused, "{callback}"),
            (_, answer) => panic!("{callback}: {answer:?}"),
        }
        *host.at.lock().unwrap() = "";
        let again = session.prompt("Again.").await.unwrap();
        let again = timeout(LIMIT, again.wait()).await.expect("the turn ends").unwrap();
        assert_eq!((again.outcome, &*again.text), (Outcome::Done, "ran"), "after {callback}");
        assert!(runtime.crashes().is_empty(), "{callback}");
        assert!(runtime.shutdown().await.is_empty(), "{callback}");
    }
}

/// A tool that panics while it is put into a set costs the caller of the swap alone; and one that panics when the last who has it lets
/// go of it costs nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_panics_while_tools_are_swapped_costs_no_session() {
    struct Falls(Host);
    impl Drop for Falls {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                self.0.enter("drop");
            }
        }
    }
    impl Tool for Falls {
        fn name(&self) -> &str {
            "falls"
        }
        fn description(&self) -> &str {
            "Falls."
        }
        fn schema(&self) -> Value {
            json!({ "type": "object" })
        }
        fn run<'a>(&'a self, _: Value, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
            Box::pin(async { ToolResult::ok("fell") })
        }
    }
    let host = Host { at: Arc::new(Mutex::new("")), id: "host/odd".parse().unwrap() };
    let builder = Runtime::builder().in_memory().model(Arc::new(host.clone())).tool(host.clone());
    let runtime = builder.tool(Falls(host.clone())).start().await.unwrap();
    let session = runtime.create(SessionOptions::new(".").profile(Profile::Auto)).await.unwrap();
    *host.at.lock().unwrap() = "Tool::schema";
    let (swaps, bad) = (runtime.clone(), host.clone());
    let swap = std::thread::spawn(move || swaps.change_tools(|now| now.without(|_| true).with(bad.clone())));
    assert!(swap.join().is_err(), "the caller hears of it");
    assert_eq!(runtime.tools().names().collect::<Vec<_>>(), ["falls", "odd"]);
    *host.at.lock().unwrap() = "drop";
    runtime.set_tools(Toolbox::default().with(host.clone())).unwrap();
    *host.at.lock().unwrap() = "";
    let answer = timeout(LIMIT, session.prompt("Go.").await.unwrap().wait()).await.unwrap().unwrap();
    assert_eq!((answer.outcome, &*answer.text), (Outcome::Done, "ran"));
    assert!(runtime.crashes().is_empty());
    assert!(runtime.shutdown().await.is_empty());
}
