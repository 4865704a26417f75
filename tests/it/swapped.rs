//! A host swaps its tools and its rules while sessions work: what a request offers, what a call runs, what a tape says.
//!
//! Each tape in a `taped::folder` is replayed byte for byte at the end of its test, without the tools and the rules of the host.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tamtam::{
    EventKind, EventStream, Outcome, Runtime, Session, SessionOptions,
    model::{BoxFuture, Item, Reply, Request, Scripted},
    permission::{Action, Profile, Rule, Ruleset},
    runtime::{Kind, StartError},
    session::{Grant, Next, Record},
    tool::{Access, Effect, Tool, ToolContext, ToolResult, Toolbox},
};
use tokio::{sync::Semaphore, time::timeout};

use crate::support::taped;

/// Far longer than anything here takes.
const LIMIT: Duration = Duration::from_secs(60);

/// Where a call waits until a test lets it go.
#[derive(Clone)]
struct Gate {
    reached: Arc<Semaphore>,
    go: Arc<Semaphore>,
}

impl Gate {
    fn new() -> Gate {
        Gate { reached: Arc::new(Semaphore::new(0)), go: Arc::new(Semaphore::new(0)) }
    }

    async fn reached(&self) {
        timeout(LIMIT, self.reached.acquire()).await.expect("a call comes to the gate").unwrap().forget();
    }

    fn let_go(&self) {
        self.go.add_permits(1);
    }
}

/// A tool that says these words, behind its gate if it has one.
struct Says {
    name: &'static str,
    words: &'static str,
    gate: Option<Gate>,
}

fn says(name: &'static str, words: &'static str) -> Says {
    Says { name, words, gate: None }
}

impl Tool for Says {
    fn name(&self) -> &str {
        self.name
    }

    fn description(&self) -> &str {
        "Says something."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object" })
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }

    fn access(&self, _: &Value) -> Vec<Access> {
        vec![Access::new(self.name, "*")]
    }

    fn permissions(&self) -> Vec<String> {
        vec![self.name.to_owned()]
    }

    fn run<'a>(&'a self, _: Value, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            if let Some(gate) = &self.gate {
                gate.reached.add_permits(1);
                gate.go.acquire().await.unwrap().forget();
            }
            ToolResult::ok(self.words)
        })
    }
}

fn offered(request: &Request) -> Vec<&str> {
    request.tools.iter().map(|tool| tool.name.as_str()).collect()
}

/// The results that a model was told, in their order.
fn results(request: &Request) -> Vec<&str> {
    let results = request.history.iter().filter_map(|item| match item.as_ref() {
        Item::Result(result) => Some(result.content.as_str()),
        _ => None,
    });
    results.collect()
}

struct Lab {
    runtime: Runtime,
    session: Session,
    model: Arc<Scripted>,
    folder: taped::Folder,
}

impl Lab {
    async fn new(tools: Toolbox, replies: impl IntoIterator<Item = Reply>, rules: Ruleset) -> Lab {
        let (folder, model) = (taped::folder(), Arc::new(Scripted::new(replies)));
        let builder = Runtime::builder().store(folder.path().join("store")).model(model.clone()).tools(tools);
        let runtime = builder.start().await.unwrap();
        let options = SessionOptions::new(folder.path()).rules(rules).asks_wait(true);
        let session = runtime.create(options).await.unwrap();
        Lab { runtime, session, model, folder }
    }

    async fn says(&self, words: &str) -> (Outcome, String) {
        let receipt = self.session.prompt(words).await.unwrap();
        let answer = timeout(LIMIT, receipt.wait()).await.expect("the turn ends").unwrap();
        (answer.outcome, answer.text)
    }

    /// The hashes of tools that its tape was told, each time that they changed.
    async fn toolsets(&self) -> usize {
        let entries = self.session.entries().await.unwrap();
        let inputs = entries.iter().filter_map(|entry| entry.to_tape().unwrap().input);
        let inputs = inputs.map(|input| serde_json::from_str::<Value>(input.get()).unwrap());
        inputs.filter(|input| input["env"]["tools"]["hash"].is_string()).count()
    }

    async fn end(self) {
        assert!(self.runtime.shutdown().await.is_empty());
        drop(self.folder);
    }
}

async fn asked(events: &mut EventStream) -> tamtam::Seq {
    loop {
        let next = timeout(LIMIT, events.next()).await.expect("somebody is asked").unwrap();
        if let Next::Event(event) = next
            && matches!(event.kind, EventKind::Ask { .. })
        {
            return event.id.seq;
        }
    }
}

fn held(name: &'static str, words: &'static str) -> (Says, Gate) {
    let gate = Gate::new();
    (Says { name, words, gate: Some(gate.clone()) }, gate)
}

/// A running turn takes new tools with its next request; a call that runs meanwhile runs on. The tape is told each set once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_takes_new_tools_with_its_next_request_and_its_running_call_runs_on() {
    let (wait, gate) = held("wait", "old");
    let replies = [Reply::call("wait", json!({})), Reply::call("fresh", json!({})), Reply::text("done")];
    let lab = Lab::new(Toolbox::default().with(wait), replies, Profile::Auto.ruleset()).await;
    let receipt = lab.session.prompt("go").await.unwrap();
    gate.reached().await;
    lab.runtime.set_tools(Toolbox::default().with(says("fresh", "new"))).unwrap();
    gate.let_go();
    let answer = timeout(LIMIT, receipt.wait()).await.unwrap().unwrap();
    assert_eq!((answer.outcome, answer.text.as_str()), (Outcome::Done, "done"));
    let requests = lab.model.requests();
    assert_eq!(requests.iter().map(offered).collect::<Vec<_>>(), [vec!["wait"], vec!["fresh"], vec!["fresh"]]);
    assert_eq!(results(&requests[2]), ["old", "new"]);
    assert_eq!(lab.toolsets().await, 2);
    lab.end().await;
}

/// The bytes of a request, and so a provider's cache, do not change by tools that are told in the same words.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_in_the_same_words_change_no_request_and_no_tape() {
    let replies =
        [Reply::call("say", json!({})), Reply::text("one"), Reply::call("say", json!({})), Reply::text("two")];
    let lab = Lab::new(Toolbox::default().with(says("say", "old")), replies, Profile::Auto.ruleset()).await;
    assert_eq!(lab.says("first").await, (Outcome::Done, "one".to_owned()));
    lab.runtime.set_tools(Toolbox::default().with(says("say", "new"))).unwrap();
    assert_eq!(lab.says("second").await, (Outcome::Done, "two".to_owned()));
    let requests = lab.model.requests();
    assert!(requests.iter().all(|request| request.tools == requests[0].tools));
    assert_eq!(results(&requests[3]), ["old", "new"]);
    assert_eq!(lab.toolsets().await, 1);
    lab.end().await;
}

/// A call that waits behind another one runs the tool that was judged, although another one has its name by now; one whose tool is
/// gone gets an error result, and the turn goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_waits_runs_what_was_judged_or_fails_where_its_tool_is_gone() {
    let (wait, gate) = held("wait", "waited");
    let calls = Reply::call("wait", json!({})).with_call("say", json!({})).with_call("gone", json!({}));
    let replies = [calls, Reply::call("say", json!({ "again": true })), Reply::text("done")];
    let tools = Toolbox::default().with(wait).with(says("say", "old")).with(says("gone", "never"));
    let lab = Lab::new(tools, replies, Profile::Auto.ruleset()).await;
    let receipt = lab.session.prompt("go").await.unwrap();
    gate.reached().await;
    lab.runtime.set_tools(Toolbox::default().with(says("say", "new"))).unwrap();
    gate.let_go();
    let answer = timeout(LIMIT, receipt.wait()).await.unwrap().unwrap();
    assert_eq!(answer.outcome, Outcome::Done);
    let gone = "tool not found: gone. Available tools: say";
    assert_eq!(results(&lab.model.requests()[2]), ["waited", "old", gone, "new"]);
    assert!(lab.runtime.crashes().is_empty());
    lab.end().await;
}

/// A yes to a call whose tool is gone runs nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_a_person_grants_after_its_tool_is_gone_gets_an_error_result() {
    let replies = [Reply::call("say", json!({})), Reply::text("done")];
    let lab = Lab::new(Toolbox::default().with(says("say", "said")), replies, Profile::Strict.ruleset()).await;
    let mut events = lab.session.events();
    let receipt = lab.session.prompt("go").await.unwrap();
    let ask = asked(&mut events).await;
    lab.runtime.set_tools(Toolbox::default()).unwrap();
    lab.session.answer(ask, Grant::Once).await.unwrap();
    assert_eq!(timeout(LIMIT, receipt.wait()).await.unwrap().unwrap().outcome, Outcome::Done);
    assert_eq!(results(&lab.model.requests()[1]), ["tool not found: say. Available tools: "]);
    lab.end().await;
}

/// The request that a crash cut off is made again with the tools that it had, whatever was set meanwhile; the one after it has the
/// new ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_a_crash_cut_off_is_made_again_with_its_own_tools() {
    let replies = [Reply::call("say", json!({})).at_barrier("asked"), Reply::text("done")];
    let lab = Lab::new(Toolbox::default().with(says("say", "old")), replies, Profile::Auto.ruleset()).await;
    let receipt = lab.session.prompt("go").await.unwrap();
    let barrier = lab.model.barrier("asked");
    timeout(LIMIT, barrier.reached()).await.unwrap();
    let both = Toolbox::default().with(says("say", "new")).with(says("more", "more"));
    lab.runtime.set_tools(both).unwrap();
    lab.runtime.operate().crash(lab.session.id().as_str(), "on purpose").unwrap();
    timeout(LIMIT, barrier.reached_times(2)).await.unwrap();
    barrier.release();
    assert_eq!(timeout(LIMIT, receipt.wait()).await.unwrap().unwrap().outcome, Outcome::Done);
    let requests = lab.model.requests();
    assert_eq!(requests.iter().map(offered).collect::<Vec<_>>(), [vec!["say"], vec!["say"], vec!["more", "say"]]);
    assert_eq!((requests[0].key == requests[1].key, results(&requests[2])), (true, vec!["old"]));
    assert_eq!(lab.runtime.crashes().len(), 1);
    lab.end().await;
}

/// A session that slept, and a fork of it, have the tools and the rules of the moment when they next ask a model.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_slept_and_a_fork_have_the_present_tools_and_rules() {
    let replies = ["one", "two", "three"].map(Reply::text);
    let lab = Lab::new(Toolbox::default().with(says("say", "old")), replies, Profile::Auto.ruleset()).await;
    assert_eq!(lab.says("first").await.1, "one");
    lab.runtime.passivate(lab.session.id()).await.unwrap();
    lab.runtime.change_tools(|now| now.with(says("more", "more")).with(says("denied", "never"))).unwrap();
    let denies = Ruleset::new("incident", [Rule::new("denied", "*", Action::Deny)]);
    lab.runtime.set_rules(Some(denies.clone()));
    assert!(!lab.runtime.awake().contains(lab.session.id()), "nobody was woken for it");
    assert_eq!(lab.says("second").await.1, "two");
    let fork = lab.session.fork(tamtam::session::ForkOptions::default()).await.unwrap();
    lab.runtime.set_rules(None);
    let answer = fork.prompt("third").await.unwrap().wait().await.unwrap();
    assert_eq!(answer.text, "three");
    let requests = lab.model.requests();
    let tools: Vec<_> = requests.iter().map(offered).collect();
    assert_eq!(tools, [vec!["say"], vec!["more", "say"], vec!["denied", "more", "say"]]);
    let host = |entry: &tamtam::session::Entry| match &entry.record {
        Record::HostRules { rules } => Some(rules.clone()),
        _ => None,
    };
    let entries = lab.session.entries().await.unwrap();
    assert_eq!(entries.iter().filter_map(host).collect::<Vec<_>>(), [Some(denies)]);
    lab.end().await;
}

/// New rules hold for what is decided from then on: a call that runs is let run, one that waits behind it is denied, and so is one
/// that a person grants after all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_rules_of_the_host_hold_for_all_that_was_not_let_run() {
    let (wait, gate) = held("wait", "waited");
    let calls = Reply::call("wait", json!({})).with_call("say", json!({}));
    let tools = Toolbox::default().with(wait).with(says("say", "said")).with(says("other", "other"));
    let replies = [calls, Reply::call("other", json!({})), Reply::text("done")];
    let rule = |tool: &str, action| Rule::new(tool, "*", action);
    let rules = [rule("*", Action::Allow), rule("other", Action::Ask)];
    let lab = Lab::new(tools, replies, Ruleset::new("session", rules)).await;
    let denies = |tool: &str| Rule::new(tool, "*", Action::Deny);
    let mut events = lab.session.events();
    let receipt = lab.session.prompt("go").await.unwrap();
    gate.reached().await;
    lab.runtime.set_rules(Some(Ruleset::new("second", [denies("wait"), denies("say")])));
    gate.let_go();
    let ask = asked(&mut events).await;
    lab.runtime.set_rules(Some(Ruleset::new("third", [denies("other")])));
    lab.session.answer(ask, Grant::Once).await.unwrap();
    assert_eq!(timeout(LIMIT, receipt.wait()).await.unwrap().unwrap().outcome, Outcome::Done);
    let requests = lab.model.requests();
    assert_eq!(
        requests.iter().map(offered).collect::<Vec<_>>(),
        [vec!["other", "say", "wait"], vec!["other"], vec!["say", "wait"]]
    );
    let told = results(&requests[2]);
    assert_eq!(told[0], "waited");
    assert!(told[1].starts_with("Permission denied: say * by second"), "{told:?}");
    assert!(told[2].starts_with("Permission denied: other * by third"), "{told:?}");
    lab.end().await;
}

/// A set that no model can be shown is refused, and the present one stays.
#[tokio::test]
async fn a_set_that_no_model_can_be_shown_is_refused_and_the_present_one_stays() {
    let model = Arc::new(Scripted::new([]));
    let runtime = Runtime::builder().in_memory().model(model).with_tasks().tool(says("say", "said")).start().await;
    let runtime = runtime.unwrap();
    let twice = Toolbox::default().with(says("a", "a")).with(says("a", "b"));
    // `task` is the runtime's own, and is not among the host's.
    for bad in [twice, Toolbox::default().with(says("no spaces", "")), Toolbox::default().with(says("task", ""))] {
        let refused = runtime.set_tools(bad);
        assert!(matches!(&refused, Err(error @ StartError::Tools(_)) if error.kind() == Kind::Invalid), "{refused:?}");
    }
    assert_eq!(runtime.tools().names().collect::<Vec<_>>(), ["say"]);
    assert!(runtime.shutdown().await.is_empty());
}

/// Forty sessions work while four owners each put their tools in and take them out again. No owner's change is lost, no call crashes,
/// each request has one of the sets whole, and each tape replays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn swaps_under_load_lose_no_change_and_show_no_half_of_a_set() {
    const PAIRS: [(&str, &str); 4] = [("a1", "a2"), ("b1", "b2"), ("c1", "c2"), ("d1", "d2")];
    let folder = taped::folder();
    let model = Arc::new(Scripted::from_fn(|request| {
        for (one, two) in PAIRS {
            let has = |name: &str| request.tools.iter().any(|tool| tool.name == name);
            if has(one) != has(two) {
                return Reply::text("half of a set");
            }
        }
        // The tool of this step may be there or not, and may be gone when it is called.
        match request.history.iter().filter(|item| matches!(item.as_ref(), Item::Assistant(_))).count() {
            steps @ 0..4 => Reply::call(PAIRS[steps].0, json!({})).with_call("say", json!({})),
            _ => Reply::text("done"),
        }
    }));
    let builder = Runtime::builder().store(folder.path().join("store")).model(model.clone()).tool(says("say", "said"));
    let runtime = builder.start().await.unwrap();
    let owners = PAIRS.map(|(one, two)| {
        let runtime = runtime.clone();
        tokio::spawn(async move {
            for _ in 0..100 {
                runtime.change_tools(|now| now.with(says(one, "1")).with(says(two, "2"))).unwrap();
                tokio::task::yield_now().await;
                runtime.change_tools(|now| now.without(|name| name == one || name == two)).unwrap();
            }
            runtime.change_tools(|now| now.with(says(one, "1")).with(says(two, "2"))).unwrap();
        })
    });
    let mut turns = Vec::new();
    for n in 0..40 {
        let options = SessionOptions::new(folder.path()).id(format!("s{n}").parse().unwrap()).profile(Profile::Auto);
        let session = runtime.create(options).await.unwrap();
        turns.push(session.prompt("go").await.unwrap());
    }
    for owner in owners {
        timeout(LIMIT, owner).await.unwrap().unwrap();
    }
    for turn in turns {
        let answer = timeout(LIMIT, turn.wait()).await.unwrap().unwrap();
        assert!(answer.outcome == Outcome::Done && answer.text != "half of a set", "{answer:?}");
    }
    assert_eq!(runtime.tools().names().collect::<Vec<_>>(), ["a1", "a2", "b1", "b2", "c1", "c2", "d1", "d2", "say"]);
    assert!(runtime.crashes().is_empty());
    assert!(runtime.shutdown().await.is_empty());
}

/// Two runtimes over one store have tools and rules of their own: the session that one gives back goes on under those of the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_runtimes_over_one_store_each_judge_by_their_own_tools_and_rules() {
    let folder = taped::folder();
    let start = async |tool: &'static str, denied: &'static str| {
        let calls = Reply::call("mine", json!({})).with_call("both", json!({}));
        let model = Arc::new(Scripted::new([calls, Reply::text("done")]));
        let rules = Ruleset::new("host", [Rule::new(denied, "*", Action::Deny)]);
        let builder = Runtime::builder().store(folder.path().join("store")).model(model.clone()).rules(rules);
        (builder.tool(says(tool, tool)).tool(says("both", tool)).start().await.unwrap(), model)
    };
    let ((one, first), (two, second)) = (start("mine", "both").await, start("other", "nothing").await);
    let options = SessionOptions::new(folder.path()).id("s".parse().unwrap()).profile(Profile::Auto);
    let session = one.create(options).await.unwrap();
    assert_eq!(session.prompt("go").await.unwrap().wait().await.unwrap().outcome, Outcome::Done);
    let claimed = two.open(session.id()).await.unwrap_err();
    assert_eq!(claimed.kind(), Kind::Busy, "{claimed}");
    assert_eq!(two.session(session.id()).peek().await.unwrap().seq, session.peek().await.unwrap().seq);
    one.passivate(session.id()).await.unwrap();
    let session = two.open(session.id()).await.unwrap();
    assert_eq!(session.prompt("go").await.unwrap().wait().await.unwrap().outcome, Outcome::Done);
    assert_eq!(results(&first.requests()[1])[0], "mine");
    assert!(results(&first.requests()[1])[1].starts_with("Permission denied"));
    let told = second.requests();
    let (told, gone) = (results(&told[1]), "tool not found: mine. Available tools: both, other");
    assert_eq!(told[2..], [gone, "other"]);
    assert!(one.shutdown().await.is_empty() && two.shutdown().await.is_empty());
}
