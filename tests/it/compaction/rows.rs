//! The scenarios of compaction that name small numbers, in a whole runtime: real files, a real tape, a scripted provider whose
//! figures are the truth. Where two designs number them differently, both readings are here.

use std::{path::Path, sync::Arc};

use serde_json::json;
use tamtam::{
    EventKind, Outcome, Runtime, SendError, Session, SessionOptions,
    model::{ModelLimits, Reply, Request, Scripted, Usage, transcript},
    permission::Profile,
    session::{Next, Record, Refusal, SUMMARY_SYSTEM},
    tools,
};

use crate::support::taped;

/// What only the request for a summary holds.
const SUMMARY: &str = "system: You write summaries";

struct Lab {
    folder: taped::Folder,
    model: Arc<Scripted>,
    runtime: Runtime,
    session: Session,
}

/// A session over a model that takes `context` tokens in all.
async fn lab(context: u64, replies: impl IntoIterator<Item = Reply>) -> Lab {
    let folder = taped::folder();
    let work = folder.path().join("work");
    std::fs::create_dir_all(&work).unwrap();
    let mut limits = ModelLimits::default();
    (limits.context, limits.output) = (context, 50.min(context));
    let model = Arc::new(Scripted::new(replies).with_limits(limits));
    let runtime = over(&folder, &model).await;
    let session = runtime.create(SessionOptions::new(&work).profile(Profile::Auto)).await.unwrap();
    Lab { folder, model, runtime, session }
}

/// A runtime over the store of a folder.
async fn over(folder: &taped::Folder, model: &Arc<Scripted>) -> Runtime {
    let default = "scripted/script".parse().unwrap();
    let builder = Runtime::builder().store(folder.path().join("store")).models(model.clone(), default);
    builder.tools(tools::full()).start().await.unwrap()
}

/// What the provider says that a request and its answer took.
fn used(reply: Reply, input: u64, output: u64) -> Reply {
    reply.with_usage(Usage::new(input, output))
}

fn write(work: &Path, name: &str, text: &str) {
    std::fs::write(work.join("work").join(name), text).unwrap();
}

async fn say(session: &Session, text: &str) -> String {
    let answer = session.prompt(text).await.unwrap().wait().await.unwrap();
    assert_eq!(answer.outcome, Outcome::Done, "{answer:?}");
    answer.text.to_string()
}

/// Waits until so many summaries are in place.
async fn summed_up(session: &Session, times: u64) {
    let mut events = session.events();
    while session.state().await.unwrap().context.compactions < times {
        match tokio::time::timeout(std::time::Duration::from_secs(60), events.next()).await {
            Ok(Some(Next::Event(event))) => {
                if let EventKind::CompactionFinished { error: Some(error), .. } = &event.kind {
                    panic!("{error}");
                }
            }
            Ok(Some(Next::Lagged(_))) => {}
            Ok(Some(other)) => panic!("neither an event nor missed ones: {other:?}"),
            Ok(None) => panic!("the session is over"),
            // Another event may never come: then it is looked at again.
            Err(_) => {}
        }
    }
}

/// The requests of the session itself, one text each, oldest first.
fn asked(model: &Scripted) -> Vec<String> {
    model.requests().iter().map(transcript).filter(|text| !text.contains(SUMMARY)).collect()
}

fn summaries(model: &Scripted) -> Vec<Request> {
    model.requests().into_iter().filter(|request| &*request.system == SUMMARY_SYSTEM).collect()
}

/// A window of 200 of which 50 are kept free, and a long talk before: what the model reads next goes over the limit.
async fn small(file: &str, characters: usize, replies: impl IntoIterator<Item = Reply>) -> Lab {
    let long = "word ".repeat(120);
    let first = [used(Reply::text(long), 20, 75), used(Reply::call("read", json!({ "path": file })), 100, 10)];
    let lab = lab(200, first.into_iter().chain(replies)).await;
    lab.session.configure(|settings| settings.compaction.reserve = Some(50)).await.unwrap();
    write(lab.folder.path(), file, &"字".repeat(characters));
    say(&lab.session, "tell me something long").await;
    lab
}

/// BDD-AGENT-036: with a window of 200 of which 50 are kept free, a file of 70 Chinese characters brings on a summary; the
/// turn goes on and answers, what was said before is gone from the context, and the file is still in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bdd_agent_036_a_file_that_fills_a_small_window_brings_on_a_summary() {
    let replies = [
        used(Reply::text("read"), 120, 5),
        used(Reply::text("next"), 90, 5),
        Reply::text("## Goal\nTalk.").when(SUMMARY),
    ];
    let lab = small("big.txt", 70, replies).await;
    assert_eq!(say(&lab.session, "read big.txt").await, "read");
    summed_up(&lab.session, 1).await;
    assert_eq!(say(&lab.session, "and now?").await, "next");
    let newest = asked(&lab.model).pop().unwrap();
    assert!(newest.contains("## Goal\nTalk.") && newest.contains(&"字".repeat(70)), "{newest}");
    assert!(!newest.contains("word word"), "something was really left out: {newest}");
    assert!(newest.contains("- tell me something long"), "what the host said is carried on: {newest}");
    assert!(lab.runtime.shutdown().await.is_empty());
}

/// BDD-AGENT-037: as the test of the original reads: the talk goes on after a summary, with the summary in place of what it sums up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bdd_agent_037_the_talk_goes_on_after_a_summary() {
    let replies = [
        used(Reply::text("read"), 120, 5),
        used(Reply::text("压缩后依然正常").expecting("## Goal\nTalk."), 90, 5),
        Reply::text("## Goal\nTalk.").when(SUMMARY),
    ];
    // So long that no request is made before there is room.
    let lab = small("long.txt", 160, replies).await;
    assert_eq!(say(&lab.session, "read long.txt").await, "read");
    assert_eq!(lab.session.state().await.unwrap().context.compactions, 1);
    assert_eq!(say(&lab.session, "still there?").await, "压缩后依然正常");
    let results = asked(&lab.model).pop().unwrap();
    let (calls, answers) = (results.matches("call read").count(), results.matches("result read:").count());
    assert_eq!((calls, answers), (1, 1), "a call is never parted from its result");
    assert!(lab.runtime.shutdown().await.is_empty());
}

/// BDD-AGENT-037: as the design reads: what is sent while a summary holds the turn up is kept, in order; what steers is in the
/// first request after it, what was queued is a turn of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bdd_agent_037_what_is_sent_during_a_summary_is_read_after_it() {
    let replies = [
        used(Reply::text("read").expecting("user: in bytes, please"), 120, 5),
        used(Reply::text("counted").expecting("user: count them"), 90, 5),
        Reply::text("## Goal\nTalk.").at_barrier("summary").when(SUMMARY),
    ];
    let lab = small("long.txt", 160, replies).await;
    let turn = lab.session.prompt("read long.txt").await.unwrap();
    lab.model.barrier("summary").reached().await;
    let before = asked(&lab.model).len();
    let steered = lab.session.steer("in bytes, please").await.unwrap();
    let queued = lab.session.prompt("count them").await.unwrap();
    assert_eq!(asked(&lab.model).len(), before, "no request is made while there is no room");
    lab.model.barrier("summary").release();
    assert_eq!(&*turn.wait().await.unwrap().text, "read");
    assert_eq!(&*queued.wait().await.unwrap().text, "counted");
    assert_eq!(steered.wait().await.unwrap().turn, turn.wait().await.unwrap().turn, "it joined that turn");
    let said = asked(&lab.model).pop().unwrap();
    let at = |text: &str| said.find(text).unwrap_or_else(|| panic!("no {text:?} in {said}"));
    assert!(
        at("## Goal\nTalk.") < at("user: in bytes, please") && at("user: in bytes, please") < at("user: count them")
    );
    assert_eq!(said.matches("user: in bytes, please").count(), 1);
    assert!(lab.runtime.shutdown().await.is_empty());
}

/// BDD-COMPACT-022: the request for a second summary holds the first one, marked as the earlier summary.
/// COST-ERR-004: the earlier summary is given to whoever writes the next one, and one summary stands in the request afterwards.
/// COST-ERR-005: what each of six calls did is told to the one who sums up, and stands behind the summary for whoever goes on.
///
/// BDD-COMPACT-020 (seed), J-12, J-25: the one who sums up is asked by its own model, with a prompt of its own, no tools, and at most 4,000 tokens to
/// answer with.
///
/// J-13, H-22: the hidden agent is asked without a tool, so it can call none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cost_err_004_005_calls_and_an_earlier_summary_survive() {
    let mut six = Reply::empty();
    for n in 0..6 {
        six = six.with_raw_call(format!("c{n}"), "read", json!({"path": format!("f{n}.txt")}).to_string());
    }
    let filler = || Reply::text("so be it ".repeat(100));
    let replies = [
        six,
        filler(),
        filler(),
        filler(),
        Reply::text("the end"),
        Reply::text("## Goal\nThe second.").when(SUMMARY).when("<earlier-summary>"),
        Reply::text("## Goal\nThe first.").when(SUMMARY),
    ];
    let lab = lab(128_000, replies).await;
    lab.session
        .configure(|settings| {
            settings.compaction.keep = Some(0);
            settings.compaction.model = Some("scripted/summer".parse().unwrap());
        })
        .await
        .unwrap();
    for n in 0..6 {
        write(lab.folder.path(), &format!("f{n}.txt"), &format!("content {n} {}", "x".repeat(200)));
    }
    say(&lab.session, "read all six").await;
    lab.session.compact().await.unwrap();
    summed_up(&lab.session, 1).await;
    for n in 0..2 {
        say(&lab.session, &format!("go on {n}")).await;
    }
    lab.session.compact().await.unwrap();
    summed_up(&lab.session, 2).await;
    say(&lab.session, "and?").await;

    let [first, second] = &summaries(&lab.model)[..] else { panic!("{} summaries", summaries(&lab.model).len()) };
    assert!(first.tools.is_empty() && first.params.max_output == Some(4_000), "{:?}", first.params);
    let (of_first, of_second) = (transcript(first), transcript(second));
    for n in 0..6 {
        assert!(of_first.contains(&format!(r#"[Tool: read] {{"path":"f{n}.txt"}}"#)), "{of_first}");
        assert!(of_first.contains(&format!("content {n} ")), "{of_first}");
    }
    assert!(of_second.contains("<earlier-summary>\n## Goal\nThe first."), "{of_second}");

    let newest = asked(&lab.model).pop().unwrap();
    assert!(newest.contains("## Goal\nThe second.") && !newest.contains("The first."), "{newest}");
    assert_eq!(newest.matches("was replaced by this summary").count(), 1, "{newest}");
    for n in 0..6 {
        assert!(newest.contains(&format!("call c{n}: read f{n}.txt")), "{newest}");
    }
    let entries = lab.session.entries().await.unwrap();
    let models: Vec<_> = entries
        .iter()
        .filter_map(|entry| match &entry.record {
            Record::Compaction(open) => Some(open.model.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(models, ["scripted/summer"; 2]);
    assert!(lab.runtime.shutdown().await.is_empty());
}

/// A talk that a summary could replace whenever somebody asks for one. Each summary waits at the barrier `summary`.
async fn talked() -> Lab {
    let summary = Reply::text("## Goal\nTalk.").at_barrier("summary").when(SUMMARY);
    let lab = lab(128_000, [summary, Reply::text("so be it ".repeat(100)).when("user: ")]).await;
    talk(&lab.session).await;
    lab
}

async fn talk(session: &Session) {
    session.configure(|settings| settings.compaction.keep = Some(0)).await.unwrap();
    for n in 0..3 {
        say(session, &format!("turn {n}")).await;
    }
}

/// Asks for a summary in a task of its own, which knows the session by its id alone.
fn compact_elsewhere(runtime: &Runtime, session: &Session) -> tokio::task::JoinHandle<Result<(), SendError>> {
    let other = runtime.session(session.id());
    tokio::spawn(async move { other.compact().await })
}

fn is_being_written(asked: &Result<(), SendError>) -> bool {
    matches!(asked, Err(SendError::Refused(Refusal::Compacting { .. })))
}

/// BDD-COMPACT-023: of four tasks that ask at once for a summary of one session, one is let in; the others are told that one is
/// being written, and the tape has one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bdd_compact_023_of_those_who_ask_at_once_for_a_summary_one_wins() {
    let lab = talked().await;
    for _ in 0..10 {
        let session = lab.runtime.create(SessionOptions::new(lab.folder.path().join("work"))).await.unwrap();
        talk(&session).await;
        let all = [(); 4].map(|()| compact_elsewhere(&lab.runtime, &session));
        let mut won = 0;
        for asked in all {
            let asked = asked.await.unwrap();
            assert!(asked.is_ok() || is_being_written(&asked), "{asked:?}");
            won += usize::from(asked.is_ok());
        }
        let entries = session.entries().await.unwrap();
        let begun = entries.iter().filter(|entry| matches!(entry.record, Record::Compaction(_))).count();
        assert_eq!((won, begun), (1, 1));
    }
    assert!(lab.runtime.shutdown().await.is_empty());
}

/// BDD-COMPACT-024: while a summary is written, neither another task nor another runtime over the same store can begin one; once
/// it is in place another task can, and once the runtime has let go of the session the other runtime can.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bdd_compact_024_a_summary_can_be_had_by_another_when_the_first_has_let_go() {
    let lab = talked().await;
    let id = lab.session.id().clone();
    let second = over(&lab.folder, &lab.model).await;
    lab.session.compact().await.unwrap();
    lab.model.barrier("summary").reached().await;
    let refused = compact_elsewhere(&lab.runtime, &lab.session).await.unwrap();
    assert!(is_being_written(&refused), "{refused:?}");
    let refused = second.session(&id).compact().await.unwrap_err();
    assert!(refused.to_string().contains("in use"), "{refused}");

    lab.model.barrier("summary").release();
    summed_up(&lab.session, 1).await;
    talk(&lab.session).await;
    compact_elsewhere(&lab.runtime, &lab.session).await.unwrap().unwrap();
    summed_up(&lab.session, 2).await;
    talk(&lab.session).await;
    assert!(second.session(&id).compact().await.is_err(), "the first runtime has the session still");
    assert!(lab.runtime.shutdown().await.is_empty());
    let session = second.open(&id).await.unwrap();
    session.compact().await.unwrap();
    summed_up(&session, 3).await;
    assert!(second.shutdown().await.is_empty());
}
