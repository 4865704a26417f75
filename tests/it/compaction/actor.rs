//! The compaction actor in a whole runtime: killed, hung, its session crashed next to it. In each case its session
//! continues, gets one result, and nothing of the actor is left.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering::SeqCst},
};

use tamtam::{
    EventKind, EventStream, ModelRef, Outcome, Runtime, Session, SessionOptions,
    model::{AnswerPart, BoxFuture, Deltas, Model, ModelAnswer, ModelError, Request},
    permission::Profile,
    session::{Finish, Next, SUMMARY_SYSTEM},
    supervisor::Node,
};
use tokio::sync::Semaphore;

use crate::support::taped::{self, Folder};

/// A model that sums up when it is told to, and counts who waits for that.
struct Summing {
    id: ModelRef,
    asked: Semaphore,
    go: Semaphore,
    now: AtomicI64,
    most: AtomicI64,
}

/// Somebody waits for a summary.
struct Waits<'a>(&'a Summing);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, SeqCst);
    }
}

impl Model for Summing {
    fn id(&self) -> &ModelRef {
        &self.id
    }

    fn stream<'a>(
        &'a self,
        request: &'a Request,
        _: &'a mut dyn Deltas,
    ) -> BoxFuture<'a, Result<ModelAnswer, ModelError>> {
        let sums_up = &*request.system == SUMMARY_SYSTEM;
        Box::pin(async move {
            let mut said = "fine";
            if sums_up {
                let now = self.now.fetch_add(1, SeqCst) + 1;
                self.most.fetch_max(now, SeqCst);
                let _waits = Waits(self);
                self.asked.add_permits(1);
                self.go.acquire().await.unwrap().forget();
                said = "## Goal\nGo on.";
            }
            Ok(ModelAnswer::new(vec![AnswerPart::Text { text: said.to_owned(), extra: None }], Finish::Stop))
        })
    }
}

/// Far longer than any of it takes.
async fn within<T>(awaited: impl Future<Output = T>) -> T {
    tokio::time::timeout(std::time::Duration::from_secs(60), awaited).await.expect("it takes too long")
}

/// A session whose summary is being written.
struct Stage {
    folder: Folder,
    model: Arc<Summing>,
    runtime: Runtime,
    session: Session,
    events: EventStream,
}

impl Stage {
    async fn set() -> Stage {
        let folder = taped::folder();
        std::fs::create_dir(folder.path().join("work")).unwrap();
        let (asked, go) = (Semaphore::new(0), Semaphore::new(0));
        let (now, most) = (AtomicI64::new(0), AtomicI64::new(0));
        let model = Arc::new(Summing { id: "summing/one".parse().unwrap(), asked, go, now, most });
        let runtime = Runtime::builder().store(folder.path().join("store")).model(model.clone()).start().await.unwrap();
        let options = SessionOptions::new(folder.path().join("work")).profile(Profile::Auto);
        let session = runtime.create(options).await.unwrap();
        session.configure(|settings| settings.compaction.keep = Some(0)).await.unwrap();
        let events = session.events();
        let stage = Stage { folder, model, runtime, session, events };
        for turn in 0..3 {
            stage.say(&format!("turn {turn} {}", "word ".repeat(2_000))).await;
        }
        stage.session.compact().await.unwrap();
        stage.is_asked().await;
        stage
    }

    async fn say(&self, text: &str) {
        let answer = self.session.prompt(text).await.unwrap().wait().await.unwrap();
        assert_eq!(answer.outcome, Outcome::Done);
    }

    /// The compactions that stand in the tree, and where.
    fn compactions(&self) -> Vec<(String, bool)> {
        let tree = self.runtime.tree();
        let session = tree.roots.iter().flat_map(Node::iter).find(|node| node.id == self.session.id().as_str());
        let below: Vec<_> = session.into_iter().flat_map(|node| &node.children).map(|node| node.key).collect();
        let all = tree.roots.iter().flat_map(Node::iter).filter(|node| node.kind == "compaction");
        all.map(|node| (node.id.clone(), below.contains(&node.key))).collect()
    }

    /// The model has been asked for a summary.
    async fn is_asked(&self) {
        within(self.model.asked.acquire()).await.unwrap().forget();
    }

    /// How the compaction ended, as those who listen are told.
    async fn ended(&mut self) -> Option<String> {
        within(self.end()).await
    }

    async fn end(&mut self) -> Option<String> {
        loop {
            let Next::Event(event) = self.events.next().await.unwrap() else { continue };
            if let EventKind::CompactionFinished { error, .. } = &event.kind {
                return error.clone();
            }
        }
    }

    async fn nothing_is_left(&self) {
        let left = || (self.compactions(), self.model.now.load(SeqCst));
        for _ in 0..2_000 {
            if left() == (vec![], 0) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        panic!("left: {:?}", left());
    }

    async fn failures(&self) -> u32 {
        self.session.state().await.unwrap().context.failures
    }

    async fn shut_down(self) {
        assert!(self.runtime.shutdown().await.is_empty());
        drop(self.folder);
    }
}

/// an operator sees it below its session, and stops it by name. Its session is told, counts the failure, and goes on.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_killed_is_a_failure_and_no_more() {
    let mut stage = Stage::set().await;
    let [(id, true)] = &stage.compactions()[..] else { panic!("{:?}", stage.compactions()) };
    stage.say("and now?").await;
    stage.runtime.operate().stop(id).await.unwrap();
    let error = stage.ended().await;
    assert!(error.as_deref().is_some_and(|error| error.contains("its actor was ended")), "{error:?}");
    stage.nothing_is_left().await;
    assert_eq!(stage.failures().await, 1);
    stage.say("still there?").await;
    // The next one is written.
    stage.session.compact().await.unwrap();
    stage.is_asked().await;
    stage.model.go.add_permits(1);
    assert_eq!(stage.ended().await, None);
    assert_eq!((stage.failures().await, stage.model.most.load(SeqCst)), (0, 1));
    stage.nothing_is_left().await;
    stage.shut_down().await;
}

/// one that hangs is given up after its limit, in virtual time, and nothing holds up the turn beside it.
#[tokio::test]
async fn one_that_hangs_is_given_up() {
    let mut stage = Stage::set().await;
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    stage.say("and now?").await;
    let error = tokio::time::timeout(std::time::Duration::from_secs(1_200), stage.end()).await.unwrap();
    assert!(error.as_deref().is_some_and(|error| error.contains("was not written within 900 s")), "{error:?}");
    assert!(began.elapsed().as_secs() >= 899, "{:?}", began.elapsed());
    stage.nothing_is_left().await;
    assert_eq!(stage.failures().await, 1);
    stage.say("still there?").await;
    stage.shut_down().await;
}

/// its session crashes beside it. The next incarnation asks for the summary again, by its ticket, when nothing is left of the first; and
/// it is no failure of the summary.
#[tokio::test(flavor = "multi_thread")]
async fn one_whose_session_crashes_is_written_by_the_next_incarnation() {
    let mut stage = Stage::set().await;
    let before = stage.compactions();
    stage.runtime.operate().crash(stage.session.id().as_str(), "a drill").unwrap();
    stage.is_asked().await;
    let after = stage.compactions();
    assert!(after.len() == 1 && after[0].1 && after[0].0 != before[0].0, "{before:?}, {after:?}");
    stage.say("and now?").await;
    stage.model.go.add_permits(1);
    assert_eq!(stage.ended().await, None);
    assert_eq!((stage.failures().await, stage.model.most.load(SeqCst)), (0, 1), "there were two at once");
    stage.nothing_is_left().await;
    stage.shut_down().await;
}

/// A branch is summed up by the same actor. Where it is stopped, what was said stands for it, and whoever left the branch is answered.
#[tokio::test(flavor = "multi_thread")]
async fn a_branch_is_summed_up_by_such_an_actor_too() {
    let mut stage = Stage::set().await;
    stage.model.go.add_permits(1);
    assert_eq!(stage.ended().await, None);
    stage.nothing_is_left().await;
    let at = stage.session.state().await.unwrap().seq;
    let branch = stage.session.fork(at).await.unwrap();
    branch.prompt("on the branch").await.unwrap().wait().await.unwrap();
    let session = stage.session.clone();
    let leaves = tokio::spawn(async move { session.leave_branch(&branch, at).await });
    stage.is_asked().await;
    let [(id, true)] = &stage.compactions()[..] else { panic!("{:?}", stage.compactions()) };
    stage.runtime.operate().stop(id).await.unwrap();
    within(leaves).await.unwrap().unwrap();
    stage.nothing_is_left().await;
    stage.say("and now?").await;
    stage.shut_down().await;
}
