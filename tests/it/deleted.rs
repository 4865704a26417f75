//! A deleted session is gone from the disk with its words, in the index too, without another call.

use std::{path::Path, sync::Arc, time::Duration};

use tamtam::{
    Outcome, Runtime, Session, SessionId, SessionOptions,
    model::{Reply, Scripted},
    ops::{SessionQuery, SweepPolicy},
    session::ForkOptions,
    tape::{Deleted, Query, Store, StoreOptions, TapeStoreExt as _},
};

/// Words of many letters, so that no part of one stands in a file by chance. No two begin alike: of words that do, a search table
/// keeps the ends alone.
const ASKED: &str = "zanzibarquestion";
const ANSWERED: &str = "xylophoneanswer";
const TITLED: &str = "quetzalcoatltitle";
const SECRET: [&str; 3] = [ASKED, ANSWERED, TITLED];

/// A machine that is busy may take its time to read what was said.
const LONG: Duration = Duration::from_secs(60);

fn query(word: &str) -> Query {
    Query::new(word).wait(LONG)
}

fn listed() -> SessionQuery {
    let mut query = SessionQuery::default();
    query.wait = LONG;
    query
}

async fn start(folder: &Path) -> Runtime {
    let model = Scripted::from_fn(|request| {
        let is_secret = format!("{:?}", request.history).contains(ASKED);
        Reply::text(if is_secret { format!("The {ANSWERED}.") } else { "Of no interest.".into() })
    });
    Runtime::builder().store(folder.join("store")).model(Arc::new(model)).start().await.unwrap()
}

async fn say(session: &Session, text: &str) {
    let answer = session.prompt(text).await.unwrap().wait().await.unwrap();
    assert_eq!(answer.outcome, Outcome::Done);
    session.wait().await.unwrap();
}

/// Makes a session with all the secret words.
async fn secret(runtime: &Runtime, folder: &Path, id: &str) -> SessionId {
    let mut options = SessionOptions::new(folder).id(id.parse().unwrap());
    options.title = Some(format!("about {TITLED}"));
    let session = runtime.create(options).await.unwrap();
    for n in 0..3 {
        say(&session, &format!("{n}: the {ASKED}")).await;
    }
    sleep(runtime, session.id()).await;
    session.id().clone()
}

/// Puts a session to sleep, however long the machine takes until it rests.
async fn sleep(runtime: &Runtime, id: &SessionId) {
    until("it sleeps", async || runtime.passivate(id).await.is_ok()).await;
}

async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let comes = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), comes).await.expect(what);
}

/// Has all of it put into the index, and looks that the index has it, titles too.
async fn index(runtime: &Runtime, folder: &Path) {
    for word in [ASKED, ANSWERED] {
        assert!(!runtime.search(query(word)).await.unwrap().hits.is_empty(), "{word}");
    }
    assert!(!runtime.sessions(listed()).await.unwrap().sessions.is_empty());
    let found = secret_in(folder);
    for word in SECRET {
        let is_of_index = |found: &&String| found.contains("index.db") && found.ends_with(word);
        assert!(found.iter().any(|found| is_of_index(&found)), "{word}: {found:?}");
    }
}

/// Which files below a folder have which of the words, or the end of one.
fn secret_in(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for item in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = item.path();
        if path.is_dir() {
            found.extend(secret_in(&path));
        } else if let Ok(bytes) = std::fs::read(&path) {
            let has = |word: &&&str| bytes.windows(word.len() - 4).any(|part| part == &word.as_bytes()[4..]);
            found.extend(SECRET.iter().filter(has).map(|word| format!("{}: {word}", path.display())));
        }
    }
    found
}

async fn is_forgotten(runtime: &Runtime, folder: &Path) {
    until("no file has a word of it", async || secret_in(folder).is_empty()).await;
    for word in SECRET {
        assert!(runtime.search(query(word)).await.unwrap().hits.is_empty(), "{word}");
    }
    assert!(secret_in(folder).is_empty());
}

/// A host sweeps beside a session that lives, whose words stay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_swept_session_leaves_no_word_in_any_file() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = start(folder.path()).await;
    secret(&runtime, folder.path(), "goes").await;
    let stays = runtime.create(SessionOptions::new(folder.path())).await.unwrap();
    say(&stays, "the jabberwocky").await;
    index(&runtime, folder.path()).await;
    let mut policy = SweepPolicy::default();
    policy.keep_newest = Some(0);
    assert_eq!(runtime.sweep(policy).await.unwrap().gone.len(), 1);
    is_forgotten(&runtime, folder.path()).await;
    assert_eq!(runtime.search(query("jabberwocky")).await.unwrap().hits.len(), 1);
    say(&stays, "still there?").await;
    assert!(runtime.shutdown().await.is_empty());
}

/// A host deletes with the store alone, and is killed before anything is done about the index; so is a fork that kept the session.
/// The next runtime on the folder does it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_deleted_before_a_start_leaves_no_word_in_any_file() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = start(folder.path()).await;
    let goes = secret(&runtime, folder.path(), "goes").await;
    let fork = runtime.session(&goes).fork(ForkOptions::newest()).await.unwrap();
    say(&fork, &format!("again the {ASKED}")).await;
    index(&runtime, folder.path()).await;
    assert!(runtime.shutdown().await.is_empty());
    {
        let store = Store::open(folder.path().join("store"), StoreOptions::default()).unwrap();
        assert_eq!(store.delete(&goes).unwrap(), Deleted::Hidden);
        assert_eq!(store.delete(fork.id()).unwrap(), Deleted::Gone);
    }
    let left = secret_in(folder.path());
    assert!(!left.is_empty() && left.iter().all(|found| found.contains("index.db")), "{left:?}");
    let runtime = start(folder.path()).await;
    is_forgotten(&runtime, folder.path()).await;
    assert!(runtime.shutdown().await.is_empty());
}

/// A fork that is merged and deleted leaves what it alone said, but what its parent took over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_that_is_merged_and_deleted_leaves_what_its_parent_has() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = start(folder.path()).await;
    let parent = runtime.create(SessionOptions::new(folder.path())).await.unwrap();
    say(&parent, "hello").await;
    let fork = parent.fork(ForkOptions::newest()).await.unwrap();
    fork.set_title(Some(TITLED.into())).await.unwrap();
    say(&fork, "the jabberwocky").await;
    let titled = async || {
        runtime.sessions(listed()).await.unwrap();
        secret_in(folder.path()).iter().any(|found| found.contains("index.db"))
    };
    until("the index has its title", titled).await;
    assert_eq!(runtime.search(query("jabberwocky")).await.unwrap().hits.len(), 1);
    parent.merge_and_delete(fork.id()).await.unwrap();
    is_forgotten(&runtime, folder.path()).await;
    // Of the parent alone now.
    let page = runtime.search(query("jabberwocky")).await.unwrap();
    assert!(!page.hits.is_empty() && page.hits.iter().all(|hit| hit.session == *parent.id()), "{page:?}");
    assert!(runtime.shutdown().await.is_empty());
}
