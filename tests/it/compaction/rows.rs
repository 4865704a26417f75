//! The scenarios of compaction that name small numbers, in a whole runtime: real files, a real tape, a scripted provider whose
//! figures are the truth. Where two designs number them differently, both readings stand here.

use std::{path::Path, sync::Arc};

use serde_json::json;
use tamtam::{
    EventKind, Outcome, Runtime, Session, SessionOptions,
    context::SUMMARY_SYSTEM,
    event::Next,
    model::{ModelLimits, Reply, Request, Scripted, scripted::transcript},
    permission::Profile,
    tools,
    usage::Usage,
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
    let default = "scripted/script".parse().unwrap();
    let builder = Runtime::builder().store(folder.path().join("store")).models(model.clone(), default);
    let runtime = builder.tools(tools::full()).start().await.unwrap();
    let session = runtime.create(SessionOptions::new(&work).profile(Profile::Auto)).await.unwrap();
    Lab { folder, model, runtime, session }
}

/// What the provider says that a request and its answer took.
fn used(reply: Reply, input: u64, output: u64) -> Reply {
    reply.with_usage(Usage { input, output, ..Usage::default() })
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
        match tokio::time::timeout(std::time::Duration::from_secs(20), events.next()).await {
            Ok(Some(Next::Event(event))) => {
                if let EventKind::CompactionFinished { error: Some(error), .. } = &event.kind {
                    panic!("{error}");
                }
            }
            Ok(Some(Next::Lagged(_))) => {}
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

/// BDD-AGENT-037, as the test of the original reads: the talk goes on after a summary, with the summary in place of what it
/// sums up.
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

/// BDD-AGENT-037, as the design reads: what is sent while a summary holds the turn up is kept, in order; what steers is in the
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

/// COST-ERR-004, COST-ERR-005, J-12, J-25: what six calls did is told to the one who sums up and to whoever goes on, an earlier
/// summary is given to the next and stands there once, and the one who sums up is asked by its own model, with a prompt of its
/// own, no tools, and at most 4,000 tokens to answer with.
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
            tamtam::session::Record::Compaction(open) => Some(open.model.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(models, ["scripted/summer"; 2]);
    assert!(lab.runtime.shutdown().await.is_empty());
}
