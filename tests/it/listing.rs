//! Sessions as people see them in a list. It is compared with what each session says of itself.

use std::{path::Path, sync::Arc, time::Duration};

use serde_json::json;
use tamtam::{
    Millis, Runtime, Seq, Session, SessionId, SessionOptions,
    model::{MicroUsd, Model, ModelError, Price, Reply, Scripted, Usage},
    ops::{self, ListedSession, Parent, SessionPage, SessionQuery},
    session::{Entry, ForkOptions, Link, Record, Settings, State},
    tape::{Behind, SessionStatus, Store, StoreOptions, TapeAccess, TapeStore as _, TapeStoreExt as _},
};

use crate::support::taped;

const LONG: Duration = Duration::from_secs(60);

fn model() -> Arc<Scripted> {
    let usage = Usage::new(100, 20).cache_read(7);
    Arc::new(Scripted::from_fn(move |_| Reply::text("Done.").with_usage(usage)))
}

async fn runtime(folder: &Path, model: Arc<dyn Model>, price: Option<Price>) -> Runtime {
    let prices = price.map(|price| (model.id().clone(), price));
    Runtime::builder().store(folder.join("store")).model(model).prices(prices).start().await.unwrap()
}

/// Puts a session to sleep, however long the machine takes until it rests.
async fn sleep(runtime: &Runtime, id: &SessionId) {
    let slept = async {
        while runtime.passivate(id).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, slept).await.unwrap();
}

fn query() -> SessionQuery {
    let mut query = SessionQuery::default();
    query.wait = LONG;
    query
}

async fn say(session: &Session, text: &str) {
    session.prompt(text).await.unwrap().wait().await.unwrap();
    session.wait().await.unwrap();
}

async fn page(runtime: &Runtime, change: impl FnOnce(&mut SessionQuery)) -> SessionPage {
    let mut query = query();
    change(&mut query);
    let page = runtime.sessions(query).await.unwrap();
    assert_eq!((page.behind, page.indexed), (Behind::No, true));
    page
}

/// A page costs the sessions that changed since the last one, and finds what others did.
#[tokio::test]
async fn a_list_looks_at_what_changed() {
    let folder = taped::folder();
    let first = runtime(folder.path(), model(), None).await;
    for n in 0..30 {
        let session = first.create(named(folder.path(), &format!("s{n:02}"))).await.unwrap();
        say(&session, "hello").await;
        sleep(&first, session.id()).await;
    }
    assert_eq!(page(&first, |_| {}).await.cost.folders, 30, "the first list looks at all");
    let again = page(&first, |_| {}).await;
    assert_eq!((again.cost.folders, again.sessions.len()), (0, 20), "nothing was written");
    say(&first.session(&"s07".parse().unwrap()), "more").await;
    let again = page(&first, |_| {}).await;
    assert_eq!((again.cost.folders, ids(&again)[0]), (1, "s07"));
    sleep(&first, &"s07".parse().unwrap()).await;
    // Made, and removed.
    say(&first.create(named(folder.path(), "new")).await.unwrap(), "hello").await;
    assert_eq!(ids(&page(&first, |_| {}).await)[0], "new");
    first.delete(&"s07".parse().unwrap()).await.unwrap();
    assert!(!ids(&page(&first, |_| {}).await).contains(&"s07"));
    // Another owner: what it did is seen while it lives, and after its end.
    let second = runtime(folder.path(), model(), None).await;
    say(&second.session(&"s03".parse().unwrap()), "from elsewhere").await;
    assert_eq!(ids(&page(&first, |_| {}).await)[0], "s03");
    say(&second.session(&"s04".parse().unwrap()), "from elsewhere").await;
    second.shutdown().await;
    assert_eq!(ids(&page(&first, |_| {}).await)[0], "s04");
    // One that came and went between two lists.
    let third = runtime(folder.path(), model(), None).await;
    say(&third.session(&"s05".parse().unwrap()), "from elsewhere").await;
    third.shutdown().await;
    assert_eq!(ids(&page(&first, |_| {}).await)[0], "s05");
    assert_eq!(page(&first, |_| {}).await.cost.folders, 0);
    // By hand: what the page shows is looked at.
    let store = folder.path().join("store");
    std::fs::remove_dir_all(store.join("sessions/s05")).unwrap();
    assert_eq!(ids(&page(&first, |_| {}).await)[..2], ["s04", "s03"]);
    // Without its index, all is read again.
    for name in ["index.db", "index.db-wal", "index.db-shm"] {
        let _ = std::fs::remove_file(store.join(name));
    }
    let all = page(&first, |query| query.limit = 100).await;
    assert_eq!((all.sessions.len(), ids(&all)[0]), (29, "s04"));
    first.shutdown().await;
}

fn ids(page: &SessionPage) -> Vec<&str> {
    page.sessions.iter().map(|listed| listed.session.as_str()).collect()
}

fn find<'p>(page: &'p SessionPage, id: &SessionId) -> &'p ListedSession {
    page.sessions.iter().find(|listed| listed.session == *id).unwrap()
}

/// Those that were used last come first; of one moment, those of the greater id.
fn is_newest_first(page: &SessionPage) -> bool {
    page.sessions.is_sorted_by(|one, other| (one.last, &one.session) > (other.last, &other.session))
}

fn named(folder: &Path, id: &str) -> SessionOptions {
    SessionOptions::new(folder).id(id.parse().unwrap())
}

/// What the list says of a session is what the session says of itself.
async fn agrees(listed: &ListedSession, session: &Session) {
    let state = session.state().await.unwrap();
    let entries = session.entries().await.unwrap();
    assert_eq!(listed.session, *session.id());
    assert_eq!(listed.seq, state.seq);
    assert_eq!(listed.last, entries.last().map(|entry| entry.time));
    let spent = state.spent_in_all();
    assert_eq!(listed.requests, Some(spent.requests), "{}", listed.session);
    assert_eq!(listed.estimated, spent.estimated, "{}", listed.session);
    assert_eq!(listed.usage, Some(spent.usage), "{}", listed.session);
    assert_eq!(listed.cost, Some(spent.cost), "{}", listed.session);
    assert_eq!(listed.tasks, state.spent_by_tasks.shown_as_tasks(state.spent.tasks), "{}", listed.session);
    assert_eq!(listed.agent.as_deref(), Some(state.settings.agent.as_str()));
    assert_eq!(listed.model.as_ref(), Some(&state.settings.model));
    assert_eq!(listed.workspace.as_deref(), Some(state.settings.workspace.as_str()));
    assert_eq!(listed.ended, state.closed.is_some());
}

/// Z-04: title, age, size, tokens, cost and state; newest first; a title that the host sets wins, also after a restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn z_04_the_list_says_of_each_session_what_it_says_of_itself() {
    let folder = taped::folder();
    let price = Price::new(MicroUsd(3_000_000), MicroUsd(15_000_000));
    let first = runtime(folder.path(), model(), Some(price)).await;
    let one = first.create(named(folder.path(), "one")).await.unwrap();
    let mut options = named(folder.path(), "two");
    options.title = Some("The second one".into());
    options.agent = Some("reviewer".into());
    let two = first.create(options).await.unwrap();
    let silent = first.create(named(folder.path(), "silent")).await.unwrap();
    say(&two, "What is wrong here?").await;
    say(&one, "Mend the build,\n   please. It has been broken for three weeks and nobody knows why that is.").await;
    say(&one, "And then?").await;
    let listed = page(&first, |_| {}).await;
    assert_eq!(listed.sessions.len(), 3);
    assert!(is_newest_first(&listed), "{:?}", ids(&listed));
    let (in_one, in_two, in_silent) = (find(&listed, one.id()), find(&listed, two.id()), find(&listed, silent.id()));
    for (listed, session) in [(in_one, &one), (in_two, &two), (in_silent, &silent)] {
        agrees(listed, session).await;
        assert_eq!((listed.status, listed.open, listed.protected), (SessionStatus::Live, false, false));
    }
    assert_eq!(in_one.title.as_deref(), Some("Mend the build, please. It has been broken for three weeks…"));
    assert_eq!((in_two.title.as_deref(), in_silent.title.as_deref()), (Some("The second one"), None));
    assert_eq!(in_two.agent.as_deref(), Some("reviewer"));
    let of_one = 2 * (100 * 3 + 7 * 3 + 20 * 15);
    assert_eq!(in_one.cost.unwrap().exact().unwrap().to_micro(), MicroUsd(of_one));
    let file = folder.path().join("store/sessions/one/anchors/001_session-start/entries.jsonl");
    assert_eq!((in_one.bytes, in_one.beside_bytes), (file.metadata().unwrap().len(), 0));
    assert!(in_one.created <= in_one.last && in_one.last <= Some(Millis::now()));

    one.set_title(Some("Builds".into())).await.unwrap();
    std::fs::create_dir(folder.path().join("store/sessions/two/spill")).unwrap();
    std::fs::write(folder.path().join("store/sessions/two/spill/x.log"), "12345").unwrap();
    sleep(&first, two.id()).await;
    let listed = page(&first, |_| {}).await;
    assert_eq!(find(&listed, one.id()).title.as_deref(), Some("Builds"));
    let in_two = find(&listed, two.id());
    assert_eq!((in_two.status, in_two.beside_bytes), (SessionStatus::Passive, 5));
    assert!(first.shutdown().await.is_empty());

    std::fs::remove_file(folder.path().join("store/index.db")).unwrap();
    let second = runtime(folder.path(), model(), None).await;
    let again = page(&second, |_| {}).await;
    assert_eq!(ids(&again), ids(&listed));
    for (now, then) in again.sessions.iter().zip(&listed.sessions) {
        assert_eq!((&now.title, now.usage, now.cost), (&then.title, then.usage, then.cost));
        assert_eq!(now.status, SessionStatus::Passive);
    }
    // A price that nobody knows is no zero, and what was known before is a part of it.
    let one = second.open(one.id()).await.unwrap();
    say(&one, "Once more.").await;
    let listed = page(&second, |_| {}).await;
    agrees(find(&listed, one.id()), &one).await;
    let cost = find(&listed, one.id()).cost.unwrap();
    assert_eq!((cost.exact(), cost.unpriced, cost.known.to_micro()), (None, 1, MicroUsd(of_one)));
    assert!(second.shutdown().await.is_empty());
}

/// The sum is the session's own, whatever became of its requests: broken off, given no figures, summed up, handed over, lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_list_adds_up_is_what_the_session_adds_up() {
    let folder = taped::folder();
    let price = Price::new(MicroUsd(2_000_000), MicroUsd(8_000_000));
    let usage = Usage::new(50, 5).reasoning(3).cache_write(2);
    let model = Arc::new(Scripted::new([
        Reply::text("one").with_usage(usage),
        // No figures: ours are counted.
        Reply::text("two"),
        Reply::text("cut").truncated(),
        Reply::text("three").with_usage(usage),
        Reply::error(ModelError::new(tamtam::model::ErrorKind::InvalidRequest, "no")),
        Reply::text("five").with_usage(usage),
        Reply::text("six").with_usage(usage).at_barrier("never"),
    ]));
    let never = model.barrier("never");
    let runtime = runtime(folder.path(), model.clone(), Some(price)).await;
    let session = runtime.create(named(folder.path(), "s")).await.unwrap();
    for (n, text) in ["a", "b", "c", "d"].iter().enumerate() {
        say(&session, text).await;
        agrees(&page(&runtime, |_| {}).await.sessions[0], &session).await;
        if n == 1 {
            session.handoff("half", None).await.unwrap();
            agrees(&page(&runtime, |_| {}).await.sessions[0], &session).await;
        }
    }
    say(&session, "e").await;
    // Struck in the middle of a request, and gone on with.
    let last = session.prompt("f").await.unwrap();
    never.reached().await;
    runtime.operate().restart(session.id().as_str()).await.unwrap();
    // The request is made again, and gets the same answer.
    never.reached_times(2).await;
    never.release();
    never.release();
    last.wait().await.unwrap();
    session.wait().await.unwrap();
    let listed = page(&runtime, |_| {}).await;
    agrees(&listed.sessions[0], &session).await;
    assert!(listed.sessions[0].estimated > 0);
    session.end("over").await.unwrap();
    assert!(runtime.shutdown().await.is_empty());
    let store = Store::open(folder.path().join("store"), StoreOptions::default()).unwrap();
    assert!(ops::sessions(&store, &query()).unwrap().sessions[0].ended);
}

/// Z-04: pages follow each other without a gap, filters narrow them, and it is said what they cost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_follow_each_other_and_filters_narrow_them() {
    let folder = taped::folder();
    let runtime = runtime(folder.path(), model(), None).await;
    for n in 0..7 {
        let mut options = named(folder.path(), &format!("s{n}"));
        options.title = Some(format!("Number {n} {}", if n % 2 == 0 { "Even" } else { "odd" }));
        options.agent = Some(if n < 3 { "plan" } else { "build" }.to_owned());
        runtime.create(options).await.unwrap();
    }
    let all = page(&runtime, |_| {}).await;
    assert_eq!((all.cost.folders, all.cost.tapes, all.cost.rows), (7, 7, 7));
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = page(&runtime, |query| (query.limit, query.after) = (3, after.take())).await;
        assert!(page.sessions.len() <= 3);
        assert_eq!((page.cost.tapes, page.cost.bytes), (0, 0), "nothing is read twice");
        seen.extend(page.sessions.iter().map(|listed| listed.session.clone()));
        // As a text, as it goes out and comes back.
        after = page.next.map(|next| next.to_string().parse().unwrap());
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen, all.sessions.iter().map(|listed| listed.session.clone()).collect::<Vec<_>>());
    let sorted = |page: SessionPage| {
        let mut ids: Vec<String> = ids(&page).iter().map(|id| (*id).to_owned()).collect();
        ids.sort();
        ids.join(" ")
    };
    assert_eq!(sorted(page(&runtime, |query| query.text = "EVEN numb".into()).await), "s0 s2 s4 s6");
    assert_eq!(sorted(page(&runtime, |query| query.text = "s5".into()).await), "s5");
    assert_eq!(sorted(page(&runtime, |query| query.text = "s5 even".into()).await), "");
    assert_eq!(sorted(page(&runtime, |query| query.agent = Some("plan".into())).await), "s0 s1 s2");
    assert_eq!(sorted(page(&runtime, |query| query.status = Some(SessionStatus::Passive)).await), "");
    sleep(&runtime, &"s4".parse().unwrap()).await;
    assert_eq!(sorted(page(&runtime, |query| query.status = Some(SessionStatus::Passive)).await), "s4");
    let narrowed = page(&runtime, |query| (query.limit, query.text) = (2, "even".into())).await;
    assert_eq!((narrowed.sessions.len(), narrowed.next.is_some()), (2, true));
    assert!(runtime.shutdown().await.is_empty());
}

/// Seen with a service: after 6,000 creations, the pages ended with 1,923 sessions, the first of them said that the index was behind,
/// and the last one that it was not. A bill and a deletion made from them were wrong by the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_walk_that_began_while_the_index_was_behind_ends_with_every_session() {
    let folder = taped::folder();
    let runtime = runtime(folder.path(), model(), None).await;
    let mut made = std::collections::BTreeSet::new();
    for n in 0..3 {
        made.insert(runtime.create(named(folder.path(), &format!("old{n}"))).await.unwrap().id().to_string());
    }
    assert_eq!(page(&runtime, |_| {}).await.sessions.len(), 3, "the index knows them");
    for n in 0..5 {
        made.insert(runtime.create(named(folder.path(), &format!("new{n}"))).await.unwrap().id().to_string());
    }
    // One that the index knows is used, and moves in front of the place where the first page ends.
    say(&runtime.session(&"old0".parse().unwrap()), "Go on.").await;

    let mut query = query();
    (query.limit, query.wait) = (2, Duration::ZERO);
    let first = runtime.sessions(query.clone()).await.unwrap();
    assert_eq!((first.sessions.len(), first.behind), (2, Behind::Sessions(6)), "no time to read them");
    let mut seen: Vec<_> = first.sessions.iter().map(|listed| listed.session.to_string()).collect();
    (query.wait, query.after) = (LONG, first.next);
    loop {
        // As a text, as it goes out and comes back.
        query.after = query.after.map(|after| after.to_string().parse().unwrap());
        let page = runtime.sessions(query.clone()).await.unwrap();
        assert!(page.behind == Behind::No && page.sessions.len() <= 2, "{page:?}");
        seen.extend(page.sessions.iter().map(|listed| listed.session.to_string()));
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    assert_eq!(seen.iter().cloned().collect::<std::collections::BTreeSet<_>>(), made);
    assert!(seen.len() <= made.len() + 1, "only the one that was used is shown again: {seen:?}");

    // A page whose index never catches up says so on its last page.
    say(&runtime.session(&"old1".parse().unwrap()), "Go on.").await;
    (query.limit, query.wait, query.after) = (200, Duration::ZERO, None);
    let last = runtime.sessions(query).await.unwrap();
    assert_eq!((last.next, last.behind), (None, Behind::Sessions(1)));
    assert!(runtime.shutdown().await.is_empty());
}

/// Seen with a service under load: a session that was just made was missing from a list that said that none is. Another list had taken
/// the note of it, and had not read it yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_beside_others_has_every_session_that_was_made_before_it() {
    let folder = taped::folder();
    let runtime = runtime(folder.path(), model(), None).await;
    page(&runtime, |_| {}).await;
    let makers = (0..8).map(|maker| {
        let (runtime, folder) = (runtime.clone(), folder.path().to_owned());
        tokio::spawn(async move {
            for n in 0..25 {
                let id = format!("m{maker}-{n}");
                runtime.create(named(&folder, &id)).await.unwrap();
                let mut query = query();
                query.text.clone_from(&id);
                let listed = runtime.sessions(query).await.unwrap();
                let is_complete = listed.next.is_none() && listed.behind == Behind::No;
                assert!(!is_complete || ids(&listed).contains(&&*id), "{id}: {listed:?}");
            }
        })
    });
    for maker in makers.collect::<Vec<_>>() {
        maker.await.unwrap();
    }
    assert!(runtime.shutdown().await.is_empty());
}

/// Z-04: forks and children name those that they belong to, which count them; one that was deleted is shown where it is asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forks_and_children_name_their_parents_and_have_their_titles() {
    let folder = taped::folder();
    let runtime = runtime(folder.path(), model(), None).await;
    let parent = runtime.create(named(folder.path(), "parent")).await.unwrap();
    say(&parent, "Begin here.").await;
    let fork = parent.fork(ForkOptions::newest()).await.unwrap();
    let silent = fork.fork(ForkOptions::newest()).await.unwrap();
    say(&fork, "Go another way.").await;
    let child = parent.spawn_child(named(folder.path(), "child"), "Help me.", Link::LINKED).await.unwrap();
    child.down().await.unwrap();
    parent.wait().await.unwrap();
    let other = runtime.create(named(folder.path(), "other")).await.unwrap();
    say(&other, "Something else.").await;

    let list = page(&runtime, |_| {}).await;
    let mut shown: Vec<&str> = list.sessions.iter().map(|listed| listed.title.as_deref().unwrap()).collect();
    shown.sort_unstable();
    assert_eq!(shown, ["Begin here.", "Go another way.", "Go another way.", "Help me.", "Something else."]);
    let in_parent = find(&list, parent.id());
    assert_eq!((in_parent.forks, in_parent.children), (1, 1));
    assert!(matches!(&find(&list, fork.id()).parent, Some(Parent::ForkOf { session, .. }) if session == parent.id()));
    assert!(
        matches!(&find(&list, child.session().id()).parent, Some(Parent::TaskOf { session, .. }) if session == parent.id())
    );
    agrees(find(&list, child.session().id()), child.session()).await;
    let in_silent = find(&list, silent.id());
    assert_eq!((in_silent.agent.as_deref(), in_silent.usage), (Some("build"), Some(Usage::default())));
    let in_fork = find(&list, fork.id());
    assert_eq!(in_fork.usage, Some(fork.state().await.unwrap().spent.usage));
    // Asleep, it has no turn that is marked as open, whatever a shutdown cuts off.
    sleep(&runtime, parent.id()).await;
    assert!(runtime.shutdown().await.is_empty());

    let store = Store::open(folder.path().join("store"), StoreOptions::default()).unwrap();
    store.delete(parent.id()).unwrap();
    let shown = ops::sessions(&store, &query()).unwrap();
    assert!(shown.sessions.iter().all(|listed| listed.session != *parent.id()));
    let mut asked = query();
    asked.status = Some(SessionStatus::Hidden);
    let hidden = ops::sessions(&store, &asked).unwrap();
    assert_eq!((ids(&hidden), hidden.sessions[0].title.as_deref()), (vec!["parent"], Some("Begin here.")));
}

/// S-13: entries and files do without the index. How a session stands is known of other processes' sessions, too; and a list is there where no index is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_tells_who_has_a_session_and_does_without_an_index() {
    let folder = taped::folder();
    let runtime = runtime(folder.path(), model(), None).await;
    let awake = runtime.create(named(folder.path(), "awake")).await.unwrap();
    let parked = runtime.create(named(folder.path(), "parked")).await.unwrap();
    say(&awake, "Hello.").await;
    sleep(&runtime, parked.id()).await;
    let path = folder.path().join("store");
    let other = Store::open(&path, StoreOptions::default()).unwrap();
    other.park(parked.id(), Millis::now(), "it crashed").unwrap();
    let status = |store: &Store| -> Vec<(String, SessionStatus)> {
        let mut sessions = ops::sessions(store, &query()).unwrap().sessions;
        sessions.sort_by(|one, two| one.session.cmp(&two.session));
        sessions.iter().map(|listed| (listed.session.to_string(), listed.status)).collect()
    };
    let expected = [("awake".to_owned(), SessionStatus::Live), ("parked".to_owned(), SessionStatus::Parked)];
    assert_eq!(status(&other), expected);
    std::fs::remove_file(path.join("index.db")).unwrap();
    let reading = Store::open(&path, StoreOptions::default().access(TapeAccess::Read)).unwrap();
    assert_eq!(status(&reading), expected);
    let bare = ops::sessions(&reading, &query()).unwrap();
    assert!(!bare.indexed && !path.join("index.db").exists());
    assert!(is_newest_first(&bare));
    let in_bare = find(&bare, awake.id());
    assert_eq!(
        (in_bare.title.as_deref(), in_bare.requests, in_bare.seq),
        (Some("Hello."), Some(1), awake.state().await.unwrap().seq)
    );
    let whole = ops::sessions(&other, &query()).unwrap();
    assert_eq!(find(&whole, awake.id()).title.as_deref(), Some("Hello."));
    // With one to read from, it is as good as any, and says what it has not read.
    say(&awake, "More.").await;
    let read = ops::sessions(&reading, &query()).unwrap();
    assert_eq!((read.indexed, read.behind), (true, Behind::Sessions(1)));
    assert!(runtime.shutdown().await.is_empty());
    let left = [("awake".to_owned(), SessionStatus::Passive), ("parked".to_owned(), SessionStatus::Parked)];
    assert_eq!(status(&other), left);

    // An index that cannot be used just now is kept, and a list is there without it.
    let (index, aside) = (path.join("index.db"), path.join("aside.db"));
    std::fs::rename(&index, &aside).unwrap();
    std::fs::create_dir(&index).unwrap();
    let bare = ops::sessions(&other, &query()).unwrap();
    assert_eq!((bare.indexed, bare.sessions.len(), index.is_dir()), (false, 2, true));
    std::fs::remove_dir(&index).unwrap();
    // Nor is one made where that is not possible, or one read on that another user has locked.
    let lock = path.join("index.lock");
    std::fs::remove_file(&lock).unwrap();
    std::fs::create_dir(&lock).unwrap();
    for is_there in [false, true] {
        if is_there {
            std::fs::rename(&aside, &index).unwrap();
        }
        let bare = ops::sessions(&other, &query()).unwrap();
        assert_eq!((bare.indexed, bare.sessions.len()), (false, 2), "{is_there}");
    }
    std::fs::remove_dir(&lock).unwrap();
    assert!(ops::sessions(&other, &query()).unwrap().indexed);
}

/// A session with one entry, which does a task of that one.
fn brought_in(store: &Store, name: &str, parent: &str) {
    let settings = Settings::new("/w", "fake/model".parse().unwrap());
    let mut state = State::new(name.parse().unwrap(), settings, Millis(1));
    let origin = json!({"parent": parent, "ticket": 7, "link": Link::LINKED, "depth": 0, "prompt": "m0"});
    state.origin = Some(serde_json::from_value(origin).unwrap());
    let record = Record::State(Arc::new(state));
    let entry = Entry::new(Seq(1), Millis(1), record).to_tape();
    let mut tape = store.create(&name.parse().unwrap(), Arc::new(|_| {})).unwrap();
    let _ = tape.append(&[entry.unwrap()]);
}

/// Whoever brings sessions in believes their files, and these may name each other as parents, in a circle of any length. Each is
/// shown once, and can be swept. Finding: once, none of them was shown.
#[test]
fn sessions_that_belong_to_each_other_in_a_circle_are_shown_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("store"), StoreOptions::default()).unwrap();
    let parents = [("b", "a"), ("a", "b"), ("e", "c"), ("c", "d"), ("d", "e"), ("f", "d"), ("g", "g"), ("h", "gone")];
    parents.iter().for_each(|(name, parent)| brought_in(&store, name, parent));
    assert!(store.settle(LONG));
    for limit in [1, 2, 200] {
        let mut shown: Vec<String> = Vec::new();
        let mut asked = query();
        asked.limit = limit;
        loop {
            let page = ops::sessions(&store, &asked).unwrap();
            assert!(page.indexed);
            shown.extend(page.sessions.iter().map(|listed| listed.session.to_string()));
            let Some(next) = page.next else { break };
            asked.after = Some(next);
        }
        assert_eq!(shown, ["h", "g", "f", "e", "d", "c", "b", "a"], "{limit} a page");
    }
    let mut policy = tamtam::ops::SweepPolicy::default();
    policy.keep_newest = Some(0);
    let swept = tamtam::ops::sweep_planned(
        &store,
        tamtam::ops::sweep_plan(&store, policy, Millis::now(), || false).unwrap(),
        || false,
    )
    .unwrap();
    assert_eq!((swept.gone.len(), swept.kept.len()), (parents.len(), 0), "{swept:?}");
    assert!(store.list().unwrap().is_empty());
}
