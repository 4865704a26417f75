//! Reading a conversation back from its end: a page, the events behind an entry, the bill, the end of an old child. Each is what a
//! reading of the whole tape says.

use std::{path::Path, sync::Arc};

use tamtam::{
    EventStream, Message, Outcome, Runtime, Seq, Session, SessionOptions,
    model::{Reply, Scripted, Usage},
    session::{Bill, Link, MessageCursor, Next, Record},
    tape::{Store, StoreOptions, TapeAccess, TapeStoreExt as _},
};

use crate::support::taped;

async fn start(folder: &Path) -> Runtime {
    let usage = Usage::new(100, 20);
    let model = Arc::new(Scripted::from_fn(move |_| Reply::text("Done.").with_usage(usage)));
    Runtime::builder().store(folder.join("store")).model(model).start().await.unwrap()
}

async fn say(session: &Session, text: &str) {
    let answer = session.prompt(text).await.unwrap().wait().await.unwrap();
    assert_eq!(answer.outcome, Outcome::Done);
}

/// All pages of so many messages, put together.
async fn pages(session: &Session, limit: usize) -> Vec<Message> {
    let (mut all, mut next): (Vec<Message>, Option<MessageCursor>) = (Vec::new(), None);
    loop {
        let page = session.messages_before(next, limit).await.unwrap();
        assert!(page.messages.len() == limit || page.next.is_none());
        all.extend(page.messages);
        next = page.next;
        if next.is_none() {
            return all;
        }
    }
}

/// The durable events that are waiting in a stream: until they are whole, and then what comes within a moment.
async fn replayed(
    mut events: EventStream,
    last: Seq,
    are_whole: impl Fn(&[(Seq, String)]) -> bool,
) -> Vec<(Seq, String)> {
    let mut all = Vec::new();
    loop {
        // The past is read a page at a time, and a busy disk takes its time for a page.
        let moment = if are_whole(&all) { 50 } else { 60_000 };
        let next = tokio::time::timeout(std::time::Duration::from_millis(moment), events.next()).await;
        let Ok(Some(next)) = next else { return all };
        if let Next::Event(event) = next {
            assert!(event.id.seq <= last);
            all.push((event.id.seq, serde_json::to_string(&*event).unwrap()));
        }
    }
}

async fn agrees(session: &Session) {
    let mut whole = session.messages().await.unwrap();
    whole.reverse();
    for limit in [1, 2, 3, 1_000] {
        assert_eq!(pages(session, limit).await, whole, "pages of {limit}");
    }
    assert_eq!(session.bill().await.unwrap(), Bill::of(&session.entries().await.unwrap()));
    let last = session.state().await.unwrap().seq;
    // Nobody else says how many there are, so the whole is what two readers agree on.
    let mut all = replayed(session.events_after(Seq::ZERO).await.unwrap(), last, |_| true).await;
    loop {
        let again =
            replayed(session.events_after(Seq::ZERO).await.unwrap(), last, |again| again.len() >= all.len()).await;
        if again.len() == all.len() {
            break;
        }
        all = again;
    }
    for after in [last.0 / 3, last.0 / 2, last.0 - 1, last.0, last.0 + 7] {
        let behind = all.iter().filter(|(seq, _)| seq.0 > after).count();
        let some = replayed(session.events_after(Seq(after)).await.unwrap(), last, |some| some.len() >= behind).await;
        assert!(all.ends_with(&some) && some.len() == behind, "after {after}: {} of {behind}", some.len());
    }
}

/// Anchors, pins, an undo and a redo over an anchor, a rollback to before it, a fork, and a sleep.
#[tokio::test]
async fn what_is_read_from_the_end_is_what_the_whole_tape_says() {
    let folder = taped::folder();
    let runtime = start(folder.path()).await;
    let session = runtime.create(SessionOptions::new(folder.path())).await.unwrap();
    agrees(&session).await;
    for text in ["one", "two", "three"] {
        say(&session, text).await;
    }
    let early = session.state().await.unwrap().seq;
    session.handoff("first", None).await.unwrap();
    say(&session, "four").await;
    agrees(&session).await;
    session.handoff("second", Some("what was said".into())).await.unwrap();
    say(&session, "five").await;
    say(&session, "six").await;
    agrees(&session).await;
    session.undo().await.unwrap();
    agrees(&session).await;
    session.redo().await.unwrap();
    agrees(&session).await;
    session.rollback(early).await.unwrap();
    agrees(&session).await;
    say(&session, "seven").await;
    session.handoff("third", None).await.unwrap();
    let fork = session.fork(session.state().await.unwrap().seq).await.unwrap();
    say(&fork, "eight").await;
    agrees(&fork).await;
    session.merge(fork.id()).await.unwrap();
    agrees(&session).await;
    while runtime.passivate(session.id()).await.is_err() {
        tokio::task::yield_now().await;
    }
    assert_eq!(session.messages_before(None, 1).await.unwrap().messages.len(), 1);
    assert!(!runtime.awake().contains(session.id()), "a look wakes nobody");
    agrees(&session).await;
    runtime.shutdown().await;
}

/// A tape without a compaction has an anchor at least every 1,024 entries; the session wakes from the newest, and is what it was.
#[tokio::test]
async fn an_anchor_lies_at_a_bounded_distance_without_a_compaction() {
    let folder = taped::folder();
    let runtime = start(folder.path()).await;
    let session = runtime.create(SessionOptions::new(folder.path())).await.unwrap();
    while session.state().await.unwrap().seq < Seq(2_500) {
        say(&session, "go").await;
    }
    let before = session.state().await.unwrap();
    assert_eq!(before.context.compactions, 0);
    let mark = before.anchor.clone().unwrap();
    assert!(mark.name.starts_with("distance-"), "{mark:?}");
    let options = StoreOptions::default().access(TapeAccess::Read);
    let anchors = Store::open(folder.path().join("store"), options).unwrap().anchors(session.id()).unwrap();
    let newest = anchors.last().unwrap();
    assert_eq!(newest.name, mark.name);
    assert!(before.seq.0 + 1 - newest.first.0 < 1_024 + 256 + 64, "{newest:?} at {}", before.seq);
    while runtime.passivate(session.id()).await.is_err() {
        tokio::task::yield_now().await;
    }
    assert_eq!(session.state().await.unwrap(), before);
    let mut whole = session.messages().await.unwrap();
    whole.reverse();
    for limit in [1, 20, 700] {
        let page = session.messages_before(None, limit).await.unwrap();
        assert_eq!(page.messages, whole[..limit.min(whole.len())]);
    }
    // The last entry is the end of a turn, or an anchor behind it.
    let are_whole = |seen: &[(Seq, String)]| seen.last().is_some_and(|(seq, _)| seq.0 + 1 >= before.seq.0);
    let all = replayed(session.events_after(Seq::ZERO).await.unwrap(), before.seq, are_whole).await;
    let some = replayed(session.events_after(Seq(before.seq.0 - 10)).await.unwrap(), before.seq, are_whole).await;
    assert!(!some.is_empty() && all.ends_with(&some));
    assert_eq!(Bill::of(&session.entries().await.unwrap()), session.bill().await.unwrap());
    runtime.shutdown().await;
    let store = Store::open(folder.path().join("store"), StoreOptions::default()).unwrap();
    assert!(store.verify(session.id()).unwrap().is_empty());
}

/// A bill that was read is gone on with only if the tape still has what was read. Another runtime wrote meanwhile.
#[tokio::test]
async fn a_bill_goes_on_where_it_ended_and_is_read_again_after_another_runtime() {
    let folder = taped::folder();
    let one = start(folder.path()).await;
    let session = one.create(SessionOptions::new(folder.path())).await.unwrap();
    say(&session, "one").await;
    assert_eq!(session.bill().await.unwrap().lines.len(), 1);
    while one.passivate(session.id()).await.is_err() {
        tokio::task::yield_now().await;
    }
    let other = start(folder.path()).await;
    let there = other.open(session.id()).await.unwrap();
    say(&there, "two").await;
    assert_eq!(session.bill().await.unwrap(), there.bill().await.unwrap());
    assert_eq!(session.bill().await.unwrap().lines.len(), 2);
    other.shutdown().await;
    one.shutdown().await;
}

/// A parent remembers 32 ends; the others are found on its tape, each its own.
#[tokio::test]
async fn the_end_of_each_old_child_is_found() {
    let folder = taped::folder();
    let runtime = start(folder.path()).await;
    let mut options = SessionOptions::new(folder.path());
    options.task_width_max = Some(100);
    let parent = runtime.create(options).await.unwrap();
    let mut held = Vec::new();
    for _ in 0..40 {
        let child = parent.spawn_child(SessionOptions::new(folder.path()), "go", Link::ATTACHED).await.unwrap();
        child.down().await.unwrap();
        held.push(child);
    }
    let entries = parent.entries().await.unwrap();
    // Out of order, and twice: what was read before is not what is asked for now.
    for child in held.iter().rev().chain(&held) {
        let down = entries.iter().find_map(|entry| match &entry.record {
            Record::TaskFinished { down, .. } if entry.ticket == Some(child.ticket()) => Some(down.clone()),
            _ => None,
        });
        assert_eq!(Some(child.down().await.unwrap()), down);
    }
    let late = parent.spawn_child(SessionOptions::new(folder.path()), "go", Link::ATTACHED).await.unwrap();
    late.down().await.unwrap();
    assert_eq!(held[0].down().await.unwrap(), held[0].down().await.unwrap());
    runtime.shutdown().await;
}
