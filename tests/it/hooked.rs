//! Hooks at the points between a message and the end of its turn: what they add, change, hold up and send on is on the tape, and
//! the model and the rules go by it. Each tape here replays without any hook when its folder is dropped.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tamtam::{
    Event, EventKind, MessageId, Outcome, Part, Runtime, Session, SessionOptions,
    hook::{Hook, HookCall, HookContext, Outgoing, Stopping, TurnStart, TurnStop, Verdict},
    model::{BoxFuture, ErrorKind, Item, ModelError, Reply, Request, Scripted, UserItem},
    ops::replay::Replay,
    permission::{Action, Profile, Rule, Ruleset},
    session::{Entry, ErrorReason, Grant, Next, Record},
    tape::{Store, StoreOptions, TapeAccess},
    tool::ToolResult,
    tools,
};

use crate::support::taped;

type Callback<A, B> = Box<dyn Fn(A) -> B + Send + Sync>;

/// A hook that does what a test says.
#[derive(Default)]
struct House {
    name: &'static str,
    turn: Option<Callback<TurnStart, TurnStart>>,
    context: Option<Callback<Outgoing, Outgoing>>,
    call: Option<Callback<HookCall, Verdict>>,
    stop: Option<Callback<TurnStop, Stopping>>,
    passes_over: bool,
    hangs: bool,
    errors: Arc<Mutex<Vec<String>>>,
    sees_events: bool,
    result_hangs: bool,
}

impl Hook for House {
    fn name(&self) -> &str {
        if self.name.is_empty() { "house" } else { self.name }
    }

    fn guards(&self) -> bool {
        !self.passes_over
    }

    fn limit(&self) -> Duration {
        if self.result_hangs { Duration::from_secs(3_600) } else { tamtam::hook::HOOK_LIMIT }
    }

    fn on_result<'a>(&'a self, _: &'a HookCall, result: ToolResult) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            if self.result_hangs {
                std::future::pending::<()>().await;
            }
            result
        })
    }

    fn sees_turns(&self) -> bool {
        self.turn.is_some()
    }

    fn sees_requests(&self) -> bool {
        self.context.is_some() || self.hangs
    }

    fn sees_events(&self) -> bool {
        self.sees_events
    }

    fn on_turn<'a>(&'a self, _: &'a HookContext, turn: TurnStart) -> BoxFuture<'a, TurnStart> {
        Box::pin(async move { self.turn.as_ref().unwrap()(turn) })
    }

    fn on_context<'a>(&'a self, _: &'a HookContext, request: Outgoing) -> BoxFuture<'a, Outgoing> {
        Box::pin(async move {
            if self.hangs {
                std::future::pending::<()>().await;
            }
            self.context.as_ref().unwrap()(request)
        })
    }

    fn before_call<'a>(&'a self, call: &'a HookCall) -> BoxFuture<'a, Verdict> {
        Box::pin(async move { self.call.as_ref().map_or(Verdict::Pass, |rule| rule(call.clone())) })
    }

    fn on_stop<'a>(&'a self, _: &'a HookContext, turn: &'a TurnStop) -> BoxFuture<'a, Stopping> {
        Box::pin(async move { self.stop.as_ref().map_or(Stopping::End, |rule| rule(turn.clone())) })
    }

    fn on_error(&self, event: &Event) {
        let kind = serde_json::to_value(&event.kind).unwrap();
        self.errors.lock().unwrap().push(kind["event"].as_str().unwrap_or_default().to_owned());
    }
}

struct Lab {
    runtime: Runtime,
    session: Session,
    model: Arc<Scripted>,
    folder: taped::Folder,
}

async fn lab(
    replies: impl IntoIterator<Item = Reply>,
    hooks: Vec<House>,
    options: impl Fn(SessionOptions) -> SessionOptions,
) -> Lab {
    let folder = taped::folder();
    let model = Arc::new(Scripted::new(replies));
    let builder = Runtime::builder().store(folder.path().join("store")).model(model.clone());
    let builder = builder.tools(tools::with_todos(&tools::full()));
    let builder = hooks.into_iter().fold(builder, |builder, hook| builder.hook(hook));
    let runtime = builder.start().await.unwrap();
    std::fs::create_dir(folder.path().join("w")).unwrap();
    let options = options(SessionOptions::new(folder.path().join("w")).profile(Profile::Auto));
    let session = runtime.create(options).await.unwrap();
    Lab { runtime, session, model, folder }
}

impl Lab {
    async fn ask(&self, text: &str) -> (Outcome, String) {
        let answer = self.session.prompt(text).await.unwrap().wait().await.unwrap();
        self.session.wait().await.unwrap();
        (answer.outcome, answer.text.to_string())
    }

    async fn entries(&self) -> Vec<Entry> {
        self.session.entries().await.unwrap()
    }

    async fn end(self) -> Vec<Request> {
        assert!(self.runtime.shutdown().await.is_empty());
        self.model.requests()
    }
}

/// What a request tells, item by item.
fn told(request: &Request) -> Vec<String> {
    let item = |item: &Item| match item {
        Item::User(user) => format!("user: {}", user.text()),
        Item::Assistant(answer) => format!("model: {}", answer.text()),
        Item::Result(result) => format!("result: {}", result.content),
        other => format!("{other:?}"),
    };
    request
        .history
        .iter()
        .map(|told| item(told))
        .chain(request.reminder.iter().map(|text| format!("reminder: {text}")))
        .collect()
}

fn say(text: &str) -> Item {
    Item::User(UserItem::new("house".into(), vec![Part::text(text)]))
}

fn same(options: SessionOptions) -> SessionOptions {
    options
}

/// R-03, C-26, BDD-HOOK-014: what a hook adds at the start of a turn holds for the turn: system text in each of its requests and in no
/// later one, and messages that stay in the conversation, said once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_adds_to_a_turn_where_it_begins() {
    let hook = House {
        turn: Some(Box::new(|mut turn| {
            if turn.prompt == "first" {
                turn.system.push("Speak like a gong.".to_owned());
                turn.messages.push("It is Tuesday.".to_owned());
            }
            turn
        })),
        ..House::default()
    };
    let replies = [Reply::call("ls", json!({})), Reply::text("one"), Reply::text("two")];
    let lab = lab(replies, vec![hook], |mut options| {
        options.system = Some("Be short.".into());
        options
    })
    .await;
    lab.ask("first").await;
    lab.ask("second").await;
    let said: Vec<_> = lab.session.messages().await.unwrap().iter().map(|message| message.text()).collect();
    assert_eq!(said, ["first", "It is Tuesday.", "", "one", "second", "two"].map(str::to_owned));
    let requests = lab.end().await;
    let systems: Vec<_> = requests.iter().map(|request| request.system.to_string()).collect();
    assert!(systems[0].ends_with("\n\nSpeak like a gong.") && systems[0] == systems[1], "{systems:?}");
    assert!(!systems[2].contains("gong") && systems[0].starts_with(&systems[2]), "{systems:?}");
    assert_eq!(told(&requests[0]), ["user: first", "user: It is Tuesday."]);
    assert_eq!(told(&requests[2])[..2], ["user: first", "user: It is Tuesday."]);
}

/// R-02, BDD-HOOK-011, P-06, P-07: a hook sees what each request tells; what it adds, leaves out and reminds of is in that request,
/// and the conversation stays as it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_changes_what_one_request_tells() {
    let hook = House {
        context: Some(Box::new(|mut request| {
            let kept = request
                .history
                .iter()
                .filter(|item| !matches!(&***item, Item::User(user) if user.text() == "forget this"));
            request.history = kept.map(|item| (**item).clone()).collect();
            request.history.push(say(&format!("step {}", request.step)));
            request.reminders.push("Answer in English.".to_owned());
            request
        })),
        ..House::default()
    };
    let replies = [Reply::text("fine"), Reply::call("ls", json!({})), Reply::text("done")];
    let lab = lab(replies, vec![hook], same).await;
    lab.ask("forget this").await;
    lab.ask("go").await;
    let said: Vec<_> = lab.session.messages().await.unwrap().iter().map(|message| message.text()).collect();
    assert_eq!(said, ["forget this", "fine", "go", "", "done"].map(str::to_owned));
    let prepared = lab.entries().await.iter().filter(|entry| matches!(entry.record, Record::Prepared(_))).count();
    let requests = lab.end().await;
    assert_eq!((prepared, requests.len()), (3, 3), "each request was seen once");
    assert_eq!(told(&requests[1]), ["model: fine", "user: go", "user: step 1", "reminder: Answer in English."]);
    let last = told(&requests[2]);
    assert!(last[..3] == ["model: fine", "user: go", "model: "] && last[4] == "user: step 2", "{last:?}");
}

/// a request that is made again is made with what the hooks made of it, and they are not asked again. Its hash covers it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_tells_what_the_first_try_told() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let hook = House {
        context: Some(Box::new(move |mut request| {
            request.reminders.push(format!("time {}", count.fetch_add(1, Ordering::SeqCst)));
            request
        })),
        ..House::default()
    };
    let busy = ModelError::new(ErrorKind::Overloaded, "busy").with_retry_after(Some(Duration::from_millis(1)));
    let lab = lab([Reply::error(busy), Reply::text("done")], vec![hook], same).await;
    assert_eq!(lab.ask("go").await.1, "done");
    let requests = lab.end().await;
    assert_eq!(told(&requests[0]), told(&requests[1]));
    assert_eq!((requests.len(), asked.load(Ordering::SeqCst)), (2, 1));
}

/// R-06, C-27: a guarding hook that panics, hangs, parts a call from its result or adds too much fails the request, which is not
/// made; one that does not guard is passed over.
#[tokio::test(start_paused = true)]
async fn a_hook_that_fails_over_a_request_fails_it_if_it_guards() {
    let parts = |mut request: Outgoing| {
        let history = request.history.iter().filter(|item| !matches!(&***item, Item::Result(_)));
        request.history = history.map(|item| (**item).clone()).collect();
        request
    };
    let much = |mut request: Outgoing| {
        request.reminders.push("x".repeat(300_000));
        request
    };
    let make = |what: &str| -> House {
        let context: Option<Callback<Outgoing, Outgoing>> = match what {
            "panicked" => Some(Box::new(|request| {
                assert!(request.step < 2, "the house is broken");
                request
            })),
            "parted the call" => Some(Box::new(parts)),
            "added" => Some(Box::new(move |request| if request.step < 2 { request } else { much(request) })),
            _ => None,
        };
        House { hangs: what == "took longer", context, ..House::default() }
    };
    for what in ["panicked", "took longer", "parted the call", "added"] {
        for guards in [true, false] {
            let hook = House { passes_over: !guards, ..make(what) };
            let lab = lab([Reply::call("todo_read", json!({})), Reply::text("done")], vec![hook], same).await;
            let (outcome, _) = lab.ask("go").await;
            match (&outcome, guards) {
                (Outcome::Failed { error }, true) => {
                    assert!(error.contains("the hook house failed in on_context") && error.contains(what), "{error}");
                }
                (Outcome::Done, false) => {}
                other => panic!("{what}: {other:?}"),
            }
            let requests = lab.end().await.len();
            let made = match (what, guards) {
                (_, false) => 2,
                ("took longer", true) => 0,
                _ => 1,
            };
            assert_eq!(requests, made, "{what} {guards}");
        }
    }
}

fn rewrites(to: Value) -> House {
    House { call: Some(Box::new(move |_| Verdict::Rewrite(to.clone()))), ..House::default() }
}

/// The result of each call, with the reason of its error.
async fn results(lab: &Lab) -> Vec<(Option<ErrorReason>, String)> {
    let results = lab.entries().await.into_iter().filter_map(|entry| match entry.record {
        Record::Result { result, .. } => Some((result.error, result.content.clone())),
        _ => None,
    });
    results.collect()
}

/// a call runs with the arguments that a hook put in place of its own; the hooks behind it see those, and no hook sees a call
/// twice. The conversation keeps what the model wrote, and the budget counts one call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rewritten_call_runs_with_the_new_arguments() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let see = |name: &'static str, verdict: fn(&Value) -> Verdict| {
        let seen = seen.clone();
        let call = move |call: HookCall| {
            seen.lock().unwrap().push(format!("{name} {} {}", call.arguments["path"], call.access[0].pattern));
            verdict(&call.arguments)
        };
        House { name, call: Some(Box::new(call)), ..House::default() }
    };
    let hooks = vec![
        see("a", |_| Verdict::Rewrite(json!({ "path": "b.txt", "content": "new" }))),
        see("b", |_| Verdict::Rewrite(json!({ "path": "c.txt", "content": "newer" }))),
        see("c", |_| Verdict::Pass),
    ];
    let replies = [Reply::call("write", json!({ "path": "a.txt", "content": "old" })), Reply::text("done")];
    let lab = lab(replies, hooks, same).await;
    lab.ask("go").await;
    let w = lab.folder.path().join("w");
    assert_eq!(std::fs::read_to_string(w.join("c.txt")).unwrap(), "newer");
    assert!(!w.join("a.txt").exists() && !w.join("b.txt").exists());
    let file = |name: &str| format!("\"{name}\" {name}");
    assert_eq!(
        *seen.lock().unwrap(),
        [format!("a {}", file("a.txt")), format!("b {}", file("b.txt")), format!("c {}", file("c.txt"))]
    );
    let state = lab.session.state().await.unwrap();
    assert_eq!(state.spent.calls, 1, "held up twice, and run once");
    let requests = lab.end().await;
    let Item::Assistant(answer) = &**requests[1].history.iter().nth(1).unwrap() else { panic!() };
    assert!(answer.calls().next().unwrap().1.contains("a.txt"), "the model reads what it wrote");
}

/// R-01, P17: what a hook puts in place of a call's arguments is judged anew: a rule that denies it denies it, and a person who said
/// yes to the call before is asked about the call that it is now.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rewrite_cannot_widen_what_a_call_may() {
    let rule = |pattern: &str, action| Rule::new("edit", pattern, action);
    let rules =
        Ruleset::new("test", [rule("*", Action::Ask), rule("free.txt", Action::Allow), rule("shut.txt", Action::Deny)]);
    for (from, to, asked) in [
        ("free.txt", "shut.txt", vec![]),
        ("free.txt", "other.txt", vec!["other.txt"]),
        ("one.txt", "two.txt", vec!["one.txt", "two.txt"]),
    ] {
        let write = |path: &str| json!({ "path": path, "content": "text" });
        let replies = [Reply::call("write", write(from)), Reply::text("done")];
        let set = rules.clone();
        let lab = lab(replies, vec![rewrites(write(to))], move |mut options| {
            options.rules = Some(set.clone());
            options
        })
        .await;
        let mut events = lab.session.events();
        lab.session.prompt("go").await.unwrap();
        let mut patterns = Vec::new();
        loop {
            match events.next().await {
                Some(Next::Event(event)) => match &event.kind {
                    EventKind::Ask { ask, access, .. } => {
                        patterns.push(access[0].pattern.clone());
                        lab.session.answer(*ask, Grant::Once).await.unwrap();
                    }
                    EventKind::TurnFinished { .. } => break,
                    _ => {}
                },
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(patterns, asked, "{from} to {to}");
        let results = results(&lab).await;
        let is_denied = results[0].0 == Some(ErrorReason::Denied);
        assert_eq!((is_denied, results.len()), (to == "shut.txt", 1), "{results:?}");
        assert!(!lab.folder.path().join("w").join(from).exists());
        lab.end().await;
    }
}

/// arguments that the tool can make nothing of, that are nested too deep or are no object, answer the call; and the tool does
/// not run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rewrite_that_cannot_be_carried_out_answers_the_call() {
    let deep = (0..300).fold(json!(1), |value, _| json!([value]));
    let large = json!({ "path": "a.txt", "content": "x".repeat(300_000) });
    for (to, expected) in [
        (json!({ "path": 7 }), "path"),
        (json!("text"), "JSON object"),
        (deep, "nested too deep"),
        (large, "are the most"),
    ] {
        let replies = [Reply::call("write", json!({ "path": "a.txt", "content": "old" })), Reply::text("done")];
        let lab = lab(replies, vec![rewrites(to)], same).await;
        lab.ask("go").await;
        let results = results(&lab).await;
        assert!(results[0].0.is_some() && results[0].1.contains(expected), "{expected}: {results:?}");
        assert!(!lab.folder.path().join("w/a.txt").exists());
        lab.end().await;
    }
}

/// a hook has a person asked, whatever the rules allow; where nobody listens, the call is denied; the answer holds for the
/// call, which the hook does not see again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_has_a_person_asked() {
    let hook = || House { call: Some(Box::new(|_| Verdict::Ask("it is Friday".to_owned()))), ..House::default() };
    let replies = || [Reply::call("write", json!({ "path": "a.txt", "content": "x" })), Reply::text("done")];
    let unheard = lab(replies(), vec![hook()], same).await;
    unheard.ask("go").await;
    let refused = results(&unheard).await;
    assert!(
        refused[0].0 == Some(ErrorReason::Denied) && refused[0].1.contains("hook house: it is Friday"),
        "{refused:?}"
    );
    unheard.end().await;

    for grant in [Grant::Once, Grant::Reject(Some("no".to_owned()))] {
        let heard = lab(replies(), vec![hook(), hook()], same).await;
        let mut events = heard.session.events();
        heard.session.prompt("go").await.unwrap();
        let (mut asks, mut gated) = (0, 0);
        while let Some(Next::Event(event)) = events.next().await {
            match &event.kind {
                EventKind::CallGated { ask: Some(why), .. } => gated += usize::from(why == "it is Friday"),
                EventKind::Ask { ask, access, .. } => {
                    let hooks = access.iter().filter(|access| access.permission == "hook").count();
                    asks += 1;
                    assert_eq!(hooks, asks, "{access:?}");
                    heard.session.answer(*ask, grant.clone()).await.unwrap();
                }
                EventKind::TurnFinished { .. } => break,
                _ => {}
            }
        }
        let is_yes = grant == Grant::Once;
        let expected = if is_yes { (2, 2) } else { (1, 1) };
        assert_eq!((asks, gated), expected);
        assert_eq!(heard.folder.path().join("w/a.txt").exists(), is_yes);
        heard.end().await;
    }
}

/// a hook may take its time, but no more than ten minutes.
#[tokio::test(start_paused = true)]
async fn a_hook_that_takes_its_time_has_ten_minutes() {
    let hook = House { result_hangs: true, ..House::default() };
    let lab = lab([Reply::call("todo_read", json!({})), Reply::text("done")], vec![hook], same).await;
    let mut events = lab.session.events();
    lab.ask("go").await;
    assert!(results(&lab).await[0].1.contains("withheld: the hook house failed"));
    let why = loop {
        match events.next().await {
            Some(Next::Event(event)) if matches!(event.kind, EventKind::HookError { .. }) => break event.kind.clone(),
            Some(_) => {}
            None => panic!("no hook failed"),
        }
    };
    assert!(matches!(&why, EventKind::HookError { error, .. } if error == "took longer than 600 s"), "{why:?}");
    lab.end().await;
}

/// R-06, B-04: an abort does not wait for a hook that takes its time; what the hook has not passed is not shown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abort_does_not_wait_for_a_slow_hook() {
    let hook = House { result_hangs: true, ..House::default() };
    let lab = lab([Reply::call("todo_read", json!({}))], vec![hook], same).await;
    let mut events = lab.session.events();
    let receipt = lab.session.prompt("go").await.unwrap();
    loop {
        match events.next().await {
            Some(Next::Event(event)) if matches!(event.kind, EventKind::CallStarted { .. }) => break,
            Some(_) => {}
            None => panic!("no call was started"),
        }
    }
    lab.session.abort("enough").await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(60), receipt.wait()).await.expect("the turn ends").unwrap();
    assert!(matches!(ended.outcome, Outcome::Aborted { .. }), "{ended:?}");
    let results = results(&lab).await;
    assert!(!results[0].1.contains("The list is empty"), "{results:?}");
    lab.end().await;
}

/// a hook sends a turn on once, with words that are on the tape like any message; a second wish is passed over. A hook that
/// panics lets the turn end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_sends_a_turn_on_once() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let stops = seen.clone();
    let hook = House {
        stop: Some(Box::new(move |turn| {
            stops.lock().unwrap().push((turn.text, turn.was_sent_on));
            Stopping::GoOn("Run the tests first.".to_owned())
        })),
        ..House::default()
    };
    let panics = House { stop: Some(Box::new(|_| panic!("the house is broken"))), ..House::default() };
    let lab = lab(["one", "two", "three", "four"].map(Reply::text), vec![panics, hook], same).await;
    assert_eq!(lab.ask("go").await, (Outcome::Done, "two".to_owned()));
    assert_eq!(lab.ask("again").await.1, "four");
    let said: Vec<_> = lab.session.messages().await.unwrap().iter().map(|message| message.text()).collect();
    assert_eq!(
        said,
        ["go", "one", "Run the tests first.", "two", "again", "three", "Run the tests first.", "four"]
            .map(str::to_owned)
    );
    let expected = [("one", false), ("two", true), ("three", false), ("four", true)];
    assert_eq!(*seen.lock().unwrap(), expected.map(|(text, sent)| (text.to_owned(), sent)));
    lab.end().await;
}

/// a turn that has no step left is not sent on, and the words of the hook wait for no later turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_without_a_step_left_is_not_sent_on() {
    let hook = House { stop: Some(Box::new(|_| Stopping::GoOn("more".to_owned()))), ..House::default() };
    let lab = lab([Reply::text("one"), Reply::text("two")], vec![hook], |mut options| {
        options.steps_max = Some(1);
        options
    })
    .await;
    assert_eq!(lab.ask("go").await.1, "one");
    assert_eq!(lab.ask("on").await.1, "two");
    assert_eq!(lab.end().await.len(), 2);
}

/// a hook that wants errors alone is shown a failed call, a failed request and a failed turn, and nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_is_shown_errors_alone() {
    let errors = Arc::<Mutex<Vec<String>>>::default();
    let hook = House { errors: errors.clone(), sees_events: true, ..House::default() };
    let auth = ModelError::new(ErrorKind::Auth, "no key");
    let replies = [Reply::call("read", json!({ "path": "none.txt" })), Reply::text("done"), Reply::error(auth)];
    let lab = lab(replies, vec![hook], same).await;
    lab.ask("go").await;
    assert!(matches!(lab.ask("on").await.0, Outcome::Failed { .. }));
    lab.end().await;
    assert_eq!(*errors.lock().unwrap(), ["call_finished", "request_failed", "turn_finished"]);
}

/// messages that are queued and that steer meet the same hooks as the first one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hooks_see_queued_and_steering_messages() {
    let turns = Arc::<Mutex<Vec<String>>>::default();
    let (noted, requests) = (turns.clone(), Arc::new(AtomicUsize::new(0)));
    let count = requests.clone();
    let hook = House {
        turn: Some(Box::new(move |turn| {
            noted.lock().unwrap().push(turn.prompt.clone());
            turn
        })),
        context: Some(Box::new(move |request| {
            count.fetch_add(1, Ordering::SeqCst);
            request
        })),
        ..House::default()
    };
    let folder = taped::folder();
    let replies = [Reply::call("ls", json!({})).at_barrier("one"), Reply::text("a"), Reply::text("b")];
    let model = Arc::new(Scripted::new(replies));
    let barrier = model.barrier("one");
    let builder = Runtime::builder().store(folder.path().join("store")).model(model.clone()).tools(tools::full());
    let runtime = builder.hook(hook).start().await.unwrap();
    let session = runtime.create(SessionOptions::new(folder.path()).profile(Profile::Auto)).await.unwrap();
    session.prompt("first").await.unwrap();
    barrier.reached().await;
    session.steer("steered").await.unwrap();
    let queued = session.prompt("queued").await.unwrap();
    barrier.release();
    assert_eq!(queued.wait().await.unwrap().text, "b");
    assert!(runtime.shutdown().await.is_empty());
    assert_eq!(*turns.lock().unwrap(), ["first", "queued"]);
    assert_eq!(requests.load(Ordering::SeqCst), 3);
    assert!(told(&model.requests()[1]).contains(&"user: steered".to_owned()));
}

/// the tape of a session whose hooks did something at each point replays byte for byte with no hook there: with no tools,
/// with its tools, and from the newest anchor.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tape_with_hooks_replays_without_them() {
    let hook = House {
        turn: Some(Box::new(|mut turn| {
            turn.system.push("gong".to_owned());
            turn.messages.push("note".to_owned());
            turn
        })),
        context: Some(Box::new(|mut request| {
            request.reminders.push("remember".to_owned());
            request
        })),
        call: Some(Box::new(|call| match call.arguments["path"].as_str() {
            Some("a.txt") => Verdict::Rewrite(json!({ "path": "b.txt", "content": "x" })),
            _ => Verdict::Block("no".to_owned()),
        })),
        stop: Some(Box::new(|_| Stopping::GoOn("more".to_owned()))),
        ..House::default()
    };
    let replies = [
        Reply::call("write", json!({ "path": "a.txt", "content": "x" })).with_call("read", json!({ "path": "b.txt" })),
        Reply::text("one"),
        Reply::text("two"),
    ];
    let lab = lab(replies, vec![hook], same).await;
    lab.ask("go").await;
    let id = lab.session.id().clone();
    assert!(lab.runtime.shutdown().await.is_empty());
    let options = StoreOptions::default().access(TapeAccess::Read);
    let store = Store::open(lab.folder.path().join("store"), options).unwrap();
    let kinds: Vec<_> =
        Replay::open(&store, &id).unwrap().flat_map(|step| step.recorded).map(|(_, kind)| kind).collect();
    for kind in ["prepared", "call_gated", "accepted", "result"] {
        assert!(kinds.iter().any(|recorded| recorded == kind), "{kind}: {kinds:?}");
    }
    assert_eq!(Replay::open(&store, &id).unwrap().first_difference(), None);
    assert_eq!(Replay::open(&store, &id).unwrap().toolbox(tools::with_todos(&tools::full())).first_difference(), None);
    assert_eq!(Replay::open(&store, &id).unwrap().from_newest_anchor().first_difference(), None);
}

/// Looks at its session whenever it is told of a message.
struct Looks {
    session: Mutex<Option<Session>>,
    on: tokio::runtime::Handle,
    seen: Mutex<Vec<(&'static str, bool)>>,
}

impl Hook for Looks {
    fn name(&self) -> &str {
        "looks"
    }

    fn sees_events(&self) -> bool {
        true
    }

    fn on_event(&self, event: &Event) {
        let session = self.session.lock().unwrap().clone();
        let Some(session) = session else { return };
        let state = self.on.block_on(session.state()).unwrap();
        let read =
            |id: &MessageId| state.history.iter().any(|item| matches!(&**item, Item::User(user) if user.id == *id));
        let seen = match &event.kind {
            EventKind::Queued { message, .. } => {
                let waits = state.queue.iter().any(|waiting| waiting.message.id == message.id);
                ("queued", waits || read(&message.id))
            }
            EventKind::TurnStarted { messages } => ("delivered", messages.iter().all(read)),
            _ => return,
        };
        self.seen.lock().unwrap().push(seen);
    }
}

/// CROSS-ERR-004: an observer that is told of a message, at its arrival and at its delivery, finds it in the session's state by then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_observer_finds_what_it_is_told_of_in_the_state() {
    let on = tokio::runtime::Handle::current();
    let looks = Arc::new(Looks { session: Mutex::default(), on, seen: Mutex::default() });
    let model =
        Arc::new(Scripted::new([Reply::text("one").at_barrier("first"), Reply::text("two").at_barrier("second")]));
    let builder = Runtime::builder().in_memory().model(model.clone()).hook(looks.clone());
    let runtime = builder.start().await.unwrap();
    let session = runtime.create(SessionOptions::new(".")).await.unwrap();
    *looks.session.lock().unwrap() = Some(session.clone());
    let seen_at = async |count: usize| {
        let all = async {
            while looks.seen.lock().unwrap().len() < count {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), all).await.expect("it is told");
    };
    session.prompt("hello").await.unwrap();
    model.barrier("first").reached().await;
    // The second message waits as long as the observer takes to look.
    session.prompt("and then").await.unwrap();
    seen_at(3).await;
    model.barrier("first").release();
    model.barrier("second").reached().await;
    seen_at(4).await;
    model.barrier("second").release();
    session.wait().await.unwrap();
    assert_eq!(*looks.seen.lock().unwrap(), [("queued", true), ("delivered", true)].repeat(2));
    looks.session.lock().unwrap().take();
    assert!(runtime.shutdown().await.is_empty());
}
