//! A child under a budget, in a whole runtime: its grant is on its parent's tape before the child exists, it uses no
//! more, the rest comes back, and no crash of either side increases it.

use std::{path::Path, sync::Arc};

use serde_json::json;
use tamtam::{
    Runtime, Session, SessionId, SessionOptions,
    model::{Reply, Scripted, Usage},
    runtime::Child,
    session::{Budget, DownReason, Entry, Limits, Link, OnBreach, Record},
};

use super::{cuts, down, options, start, until};
use crate::support::taped;

/// What the parent may use.
const WHOLE: u64 = 100_000;
/// What the child asks for.
const GRANT: u64 = 40_000;

fn within(folder: &Path, tokens: u64) -> SessionOptions {
    let session = Limits::default().tokens(tokens);
    let mut options = options(folder);
    options.budget = Budget::default().session(session).on_breach(OnBreach::Ask);
    options
}

fn used(reply: Reply, input: u64, output: u64) -> Reply {
    reply.with_usage(Usage::new(input, output))
}

struct Lab {
    folder: taped::Folder,
    model: Arc<Scripted>,
    runtime: Runtime,
    parent: Session,
}

/// A parent that may use so much, with a workspace that is there in every copy of its store.
async fn lab(replies: impl IntoIterator<Item = Reply>) -> Lab {
    let (folder, model) = (taped::folder(), Arc::new(Scripted::new(replies)));
    let runtime = start(folder.path(), &model, &Arc::default()).await;
    let work = std::env::current_dir().unwrap();
    let parent = runtime.create(within(&work, WHOLE).id("parent".parse().unwrap())).await.unwrap();
    Lab { folder, model, runtime, parent }
}

impl Lab {
    async fn spawn(&self, tokens: u64) -> Child {
        let id: SessionId = "child".parse().unwrap();
        let work = std::env::current_dir().unwrap();
        self.parent.spawn_child(within(&work, tokens).id(id), "look it up", Link::DETACHED).await.unwrap()
    }
}

async fn left(session: &Session) -> u64 {
    session.state().await.unwrap().left().tokens.unwrap()
}

fn grant(entries: &[Entry]) -> Option<(usize, Limits)> {
    entries.iter().enumerate().find_map(|(at, entry)| match &entry.record {
        Record::TaskStarted { grant, .. } => Some((at, *grant)),
        _ => None,
    })
}

/// Promise 9: the whole way. What was granted is out of the parent's hands while the child works, whatever crashes, and what
/// the child left comes back with its DOWN, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_is_held_back_while_the_child_works_and_its_rest_comes_back() {
    let found = used(Reply::text("found it"), 900, 100).at_barrier("child").when("user: look it up");
    let lab = lab([found]).await;
    let child = lab.spawn(GRANT).await;
    assert_eq!(left(&lab.parent).await, WHOLE - GRANT);
    lab.model.barrier("child").reached().await;
    let of_child = child.session().state().await.unwrap();
    assert_eq!(
        serde_json::to_value(&of_child).unwrap()["account"]["grant"]["tokens"],
        GRANT,
        "the child knows what it has"
    );

    let refused =
        lab.parent.spawn_child(within(&std::env::current_dir().unwrap(), WHOLE), "more", Link::DETACHED).await;
    assert!(refused.unwrap_err().to_string().contains("budget"), "more than is left is refused");
    // A crash of the parent gives nothing back.
    lab.runtime.operate().restart(lab.parent.id().as_str()).await.unwrap();
    assert_eq!(left(&lab.parent).await, WHOLE - GRANT);
    lab.model.barrier("child").release();
    assert_eq!(down(&child).await, DownReason::Done);
    assert_eq!(left(&lab.parent).await, WHOLE - 1_000);
    lab.runtime.operate().restart(lab.parent.id().as_str()).await.unwrap();
    assert_eq!(left(&lab.parent).await, WHOLE - 1_000, "it comes back once");
    assert_eq!(child.session().state().await.unwrap().left().tokens, Some(0), "the child has nothing of it any more");
    assert!(lab.runtime.shutdown().await.is_empty());
}

/// Promise 9: a child uses no more than its grant, though its parent has more and somebody listens who could be asked: it
/// stops before the request that does not fit, its parent hears why, and what it did not use comes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_uses_no_more_than_its_grant_and_asks_nobody() {
    let asks = |n| used(Reply::call("quick", json!({"n": n})), 2_000, 500).when("user: look it up").when_answers(n);
    let lab = lab((0..8).map(asks).chain([Reply::text("thank you")])).await;
    let _listens = lab.parent.events();
    let child = lab.spawn(12_000).await;
    let _listens_too = child.session().events();
    let reason = down(&child).await;
    assert!(matches!(reason, DownReason::Budget { .. }), "{reason}");
    let said = "failed: the budget that the parent granted of 12000 tokens has too little left: ";
    assert!(reason.to_string().starts_with(said), "{reason}");
    let of_child = child.session().state().await.unwrap();
    let spent = of_child.spent.usage.total();
    assert!((2_500..=12_000).contains(&spent), "{spent}");
    assert_eq!(left(&lab.parent).await, WHOLE - spent);
    let entries = child.session().entries().await.unwrap();
    assert!(entries.iter().all(|entry| !matches!(entry.record, Record::BudgetAsk { .. })));
    let requests = entries.iter().filter(|entry| matches!(entry.record, Record::Request(_))).count() as u64;
    assert_eq!(requests * 2_500, spent, "each request that was made was answered: the next one was not begun");
    assert!(lab.runtime.shutdown().await.is_empty());
}

/// Promise 9, decision 0008: the child crashes in the middle of a request. What was held back for it is spent, out of its
/// grant and not out of its parent's rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_child_held_back_at_its_crash_is_spent_out_of_its_grant() {
    let found = used(Reply::text("found it"), 900, 100).at_barrier("child").when("user: look it up");
    let lab = lab([found]).await;
    let child = lab.spawn(GRANT).await;
    lab.model.barrier("child").reached().await;
    let state = child.session().state().await.unwrap();
    let request = serde_json::to_value(state.request().unwrap().1).unwrap();
    let reserved = &request["reserved"];
    let reserved = reserved["input"].as_u64().unwrap() + reserved["output"].as_u64().unwrap();
    assert!(reserved > 1_000);
    lab.runtime.operate().restart(child.session().id().as_str()).await.unwrap();
    lab.model.barrier("child").release();
    assert_eq!(down(&child).await, DownReason::Done);
    let of_child = child.session().state().await.unwrap();
    assert_eq!((of_child.spent.estimated, of_child.spent.usage.total()), (1, reserved + 1_000));
    assert_eq!(left(&lab.parent).await, WHOLE - reserved - 1_000);
    assert!(lab.runtime.shutdown().await.is_empty());
}

/// Promise 9: the process dies at each point from the grant on to the end. The grant is on the parent's tape before there is a
/// child's tape at all; whatever was on the disk, the next start comes to a sum that has all that the child used, what it held
/// back when it died among it, and never more than the grant.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_process_may_die_at_any_point_and_nothing_is_spent_twice_or_lost() {
    let replies = || {
        [
            used(Reply::call("quick", json!({})), 900, 100).when("user: look it up").when_answers(0),
            used(Reply::text("found it"), 1_900, 100).when("user: look it up"),
        ]
    };
    let lab = lab(replies()).await;
    let child = lab.spawn(GRANT).await;
    assert_eq!(down(&child).await, DownReason::Done);
    assert_eq!(left(&lab.parent).await, WHOLE - 3_000);
    assert_eq!(grant(&lab.parent.entries().await.unwrap()).unwrap().1.tokens, Some(GRANT));
    assert!(lab.runtime.shutdown().await.is_empty());
    let store = lab.folder.path().join("store");
    let (parent, of_child) = (cuts::lines(&store, "parent"), cuts::lines(&store, "child"));
    let spawned = cuts::place(&parent, "task_started");
    for cut in 0..=of_child.len() {
        let copy = cuts::cut(&store, &parent[..spawned], &of_child[..cut]);
        let model = Arc::new(Scripted::new(replies()));
        let runtime = start(copy.path(), &model, &Arc::default()).await;
        let parent = runtime.open(&"parent".parse().unwrap()).await.unwrap();
        until(async || !parent.state().await.unwrap().is_unfinished() && parent.state().await.unwrap().is_idle()).await;
        let child = runtime.open(&"child".parse().unwrap()).await.unwrap();
        let (of_parent, of_child) = (parent.state().await.unwrap(), child.state().await.unwrap());
        let spent = of_child.spent.usage.total();
        assert_eq!(of_parent.left().tokens, Some(WHOLE - spent), "child {cut}");
        assert!((3_000..=GRANT).contains(&spent), "child {cut}: {spent}");
        assert_eq!(spent > 3_000, of_child.spent.estimated > 0, "only what was lost counts beside the figures: {cut}");
        assert!(runtime.shutdown().await.is_empty());
    }
}
