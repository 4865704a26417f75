//! Whole sessions over PostgreSQL: the claims that the library's own tests hold over each of its engines, and a session that goes
//! from one node to another.

#[path = "../../../../tests/it/engines/harness.rs"]
pub(crate) mod harness;
#[path = "../../../../tests/it/engines/searches.rs"]
mod searches;
#[path = "../../../../tests/it/engines/tapes.rs"]
#[allow(unexpected_cfgs, reason = "one of its tests asks for features of the library; it is the library's own to run")]
mod tapes;
#[path = "../../../../tests/it/engines/turns.rs"]
mod turns;

use std::{path::Path, sync::Arc, time::Duration};

use tamtam::{
    OpenError, SendError,
    runtime::Builder,
    tape::{TapeError, TapeStore as _},
};
use tamtam_postgres::{Postgres, PostgresOptions};

use crate::{ownership::free_all, server::shared};
use harness::{Engine, Keeps, count, reply, say, seen, until};

impl Keeps for Postgres {
    fn name(&self) -> &'static str {
        "PostgreSQL"
    }

    fn searches(&self) -> bool {
        true
    }

    fn keep(&self, builder: Builder, _: &Path) -> Builder {
        builder.tapes(Arc::new(self.clone()))
    }
}

pub(crate) fn node(options: &PostgresOptions, name: &str) -> Engine<Postgres> {
    Engine::of(Postgres::open(&options.clone().node(name)).unwrap())
}

async fn each_engine(claim: impl AsyncFn(&Engine<Postgres>)) {
    claim(&node(&shared().database(), "node")).await;
}

/// A session is steered on one node, which goes down in the middle of the turn; another node that starts goes on with all of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_steered_turn_goes_on_at_another_node() {
    let options = shared().database();
    let (one, two) = (node(&options, "one"), node(&options, "two"));
    let (first, tools) = one.start().await;
    let session = first.create(one.options()).await.unwrap();
    say(&session, "before").await;
    session.prompt("call gate").await.unwrap();
    tools.gate.is_running().await;
    session.steer("and this").await.unwrap();

    // Until then it is the first one's, and the other is told so.
    let (other, _) = two.start().await;
    let refused = other.open(session.id()).await.unwrap_err();
    let OpenError::Tape(TapeError::Claimed { by, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(by.host, "one");
    assert!(other.shutdown().await.is_empty());

    assert_eq!(first.drain(Duration::ZERO).await, [session.id().clone()]);
    assert!(first.shutdown().await.is_empty());
    drop((first, session));
    let (second, _) = two.start().await;
    assert_eq!(second.recovered().len(), 1, "the mark of an open turn is seen from every node");
    let session = second.session(&"s".parse().unwrap());
    session.wait().await.unwrap();
    let seen = seen(&session).await;
    assert_eq!((seen[0].as_str(), seen[2].as_str()), ("before", "call gate"), "{seen:?}");
    assert_eq!(seen.iter().filter(|line| *line == "and this").count(), 1, "{seen:?}");
    assert_eq!(seen.last().unwrap(), "re and this");
    assert!(second.shutdown().await.is_empty());
}

/// A node stood still for longer than its lease, and another goes on with the session. What is said to the first then is refused with
/// the name of the other, and is not on the tape; both end as they should.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_lost_a_session_says_so_and_writes_nothing() {
    let options = shared().database().lease(Duration::from_secs(3600));
    let (one, two) = (node(&options, "one"), node(&options, "two"));
    let ((first, _), (second, _)) = (one.start().await, two.start().await);
    let session = first.create(one.options()).await.unwrap();
    say(&session, "before").await;
    // The turn is over on the tape; a mark of it may be on its way.
    assert!(one.kept.settle(Duration::from_secs(60)));
    tokio::task::spawn_blocking(move || free_all(&options.schema)).await.unwrap();

    let there = second.open(session.id()).await.unwrap();
    assert_eq!(say(&there, "there").await, "re there");
    let SendError::Storage(TapeError::Claimed { by, .. }) = session.prompt("here").await.unwrap_err() else {
        panic!("it is another's")
    };
    assert_eq!(by.host, "two");
    assert_eq!(say(&there, "still there").await, "re still there");
    assert_eq!(seen(&there).await, ["before", "re before", "there", "re there", "still there", "re still there"]);
    assert!(first.shutdown().await.is_empty());
    assert_eq!(say(&there, "and on").await, "re and on");
    assert!(second.shutdown().await.is_empty());
}
