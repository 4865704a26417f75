//! Promise 8 in a whole runtime: rights only narrow. What a parent or the host denies is denied below it, for anything
//! named, searched, restarted or brought in.

mod arguments;
mod dojo;
mod granted;
mod host;
mod import;
#[cfg(feature = "tools")]
mod mask;
#[cfg(feature = "tools")]
mod paths;
#[cfg(all(feature = "tools", feature = "shell-policy"))]
mod shell;

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tamtam::{
    Runtime, Session, SessionOptions,
    model::{BoxFuture, Reply, Scripted, transcript},
    permission::{Action, Profile, Rule, Ruleset},
    runtime::{Builder, Child},
    session::{DownReason, Entry, Link, Record},
    tape::TapeStoreExt as _,
    tool::{Access, Effect, Tool, ToolContext, ToolResult},
};

use crate::support::taped;

/// A tool that counts its runs. The first waits until it is stopped, where it is told to.
#[derive(Clone)]
struct Probe {
    name: &'static str,
    effect: Effect,
    waits: bool,
    runs: Arc<AtomicUsize>,
}

impl Probe {
    fn new(name: &'static str, effect: Effect) -> Probe {
        Probe { name, effect, waits: false, runs: Arc::default() }
    }

    fn waiting(self) -> Probe {
        Probe { waits: true, ..self }
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    async fn has_run(&self, times: usize) {
        until(async || self.runs() >= times).await;
    }
}

impl Tool for Probe {
    fn name(&self) -> &str {
        self.name
    }

    fn description(&self) -> &str {
        "Counts its runs."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object" })
    }

    fn effect(&self) -> Effect {
        self.effect
    }

    fn access(&self, _: &Value) -> Vec<Access> {
        vec![Access::new(self.name, "*")]
    }

    fn run<'a>(&'a self, _: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        let first = self.runs.fetch_add(1, Ordering::SeqCst) == 0;
        Box::pin(async move {
            if self.waits && first {
                context.cancelled().await;
            }
            ToolResult::ok("ran")
        })
    }
}

/// Looks until it is so; 20 s at most.
async fn until(is_so: impl AsyncFn() -> bool) {
    let look = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), look).await.expect("it comes to be so");
}

fn rules(name: &str, lines: &[(&str, &str, Action)]) -> Ruleset {
    let lines = lines.iter().map(|(permission, pattern, action)| Rule::new(*permission, *pattern, *action));
    Ruleset::new(name, lines)
}

fn everything() -> Ruleset {
    rules("everything", &[("*", "*", Action::Allow), ("read", "**", Action::Allow), ("edit", "**", Action::Allow)])
}

fn options(workspace: impl AsRef<Path>, rules: Ruleset) -> SessionOptions {
    let mut options = SessionOptions::new(workspace.as_ref());
    options.rules = Some(rules);
    options
}

fn builder(folder: &Path, model: &Arc<Scripted>) -> Builder {
    Runtime::builder().store(folder.join("store")).model(model.clone())
}

/// What the model was shown in its newest request.
fn shown(model: &Scripted) -> String {
    transcript(model.requests().last().unwrap())
}

async fn down(child: &Child) -> DownReason {
    let down = tokio::time::timeout(Duration::from_secs(60), child.down()).await.expect("the DOWN comes");
    down.unwrap().reason.clone()
}

async fn say(session: &Session, text: &str) {
    let turn = async { session.prompt(text).await.unwrap().wait().await.unwrap() };
    tokio::time::timeout(Duration::from_secs(60), turn).await.expect("the turn ends");
}

async fn idle(session: &Session) {
    tokio::time::timeout(Duration::from_secs(60), session.wait()).await.expect("it comes to rest").unwrap();
}

/// The records of a session that are of a kind.
fn kinds(folder: &Path, session: &Session, kind: &str) -> Vec<Record> {
    use tamtam::tape::{Store, StoreOptions, TapeAccess};
    let reading = StoreOptions::default().access(TapeAccess::Read);
    let entries = Store::open(folder.join("store"), reading).unwrap().read(session.id(), tamtam::Seq::ZERO).unwrap();
    let of_kind = entries.iter().filter(|entry| entry.kind == kind);
    of_kind.map(|entry| Entry::from_tape(entry).unwrap().record).collect()
}

/// H-20, promise 8: a child is told of, and may use, the tools that its options name, and none that its parent has not; its
/// title is its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_has_the_tools_of_its_options_and_none_that_its_parent_lacks() {
    let folder = taped::folder();
    let calls = || Reply::call("one", json!({})).with_call("two", json!({})).with_call("three", json!({}));
    let done = || Reply::text("done").when("user: work");
    let model =
        Arc::new(Scripted::new([calls().when("user: work").when_answers(0), done(), calls().when_answers(0), done()]));
    let [one, two, three] = ["one", "two", "three"].map(|name| Probe::new(name, Effect::Read));
    let runtime = builder(folder.path(), &model).tool(one.clone()).tool(two.clone()).tool(three.clone());
    let runtime = runtime.start().await.unwrap();
    let mut narrow = options(folder.path(), everything());
    narrow.tools = Some(["one", "two"].map(str::to_owned).into());
    narrow.title = Some("the parent".to_owned());
    let parent = runtime.create(narrow).await.unwrap();
    let mut other = options(folder.path(), everything());
    other.tools = Some(["two", "three"].map(str::to_owned).into());
    let child = parent.spawn_child(other, "work", Link::DETACHED).await.unwrap();
    assert_eq!(down(&child).await, DownReason::Done);
    assert_eq!((one.runs(), two.runs(), three.runs()), (0, 1, 0));
    let told: Vec<_> = model.requests().last().unwrap().tools.iter().map(|spec| spec.name.clone()).collect();
    assert_eq!(told, ["two"]);
    let settings = child.session().state().await.unwrap().settings;
    assert_eq!((settings.title.as_deref(), settings.tools.as_ref().map(|tools| tools.len())), (None, Some(1)));
    // One whose options say nothing has those of its parent.
    let like = parent.spawn_child(options(folder.path(), everything()), "work", Link::DETACHED).await.unwrap();
    assert_eq!(like.session().state().await.unwrap().settings.tools, parent.state().await.unwrap().settings.tools);
    drop(down(&like).await);
    assert!(runtime.shutdown().await.is_empty());
}

/// Two that change the settings at the same moment: neither change is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_changes_of_the_settings_at_once_are_both_kept() {
    let folder = taped::folder();
    let model = Arc::new(Scripted::new([]));
    let runtime = builder(folder.path(), &model).start().await.unwrap();
    let session = runtime.create(SessionOptions::new(folder.path()).profile(Profile::Auto)).await.unwrap();
    for round in 0..20 {
        let (title, rule) = (format!("round {round}"), Rule::new("bash", format!("{round}"), Action::Deny));
        let (one, other) = tokio::join!(
            session.set_title(Some(title.clone())),
            session.configure(|settings| settings.rules[0].rules.push(rule.clone())),
        );
        one.and(other).unwrap();
        let settings = session.state().await.unwrap().settings;
        assert_eq!(settings.title.as_ref(), Some(&title));
        assert_eq!(settings.rules[0].rules.iter().filter(|kept| **kept == rule).count(), 1, "round {round}");
    }
    assert!(runtime.shutdown().await.is_empty());
}

/// L21: a call that may run again is judged again first: a person denied it while it ran.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_was_denied_while_it_ran_is_not_run_again() {
    let folder = taped::folder();
    let model = Arc::new(Scripted::new([Reply::call("look", json!({})), Reply::text("done")]));
    let look = Probe::new("look", Effect::Read).waiting();
    let runtime = builder(folder.path(), &model).tool(look.clone()).start().await.unwrap();
    let session = runtime.create(options(folder.path(), everything())).await.unwrap();
    drop(session.prompt("go").await.unwrap());
    look.has_run(1).await;
    let deny = rules("a person", &[("look", "*", Action::Deny)]);
    session.configure(|settings| settings.rules.push(deny.clone())).await.unwrap();
    runtime.operate().restart(session.id().as_str()).await.unwrap();
    idle(&session).await;
    assert_eq!(look.runs(), 1);
    assert!(shown(&model).contains("Permission denied: look *"), "{}", shown(&model));
    assert!(runtime.shutdown().await.is_empty());
}
