//! The examples that a host would copy from do what they say.

use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use tamtam::{
    SessionId, SessionOptions,
    model::{Reply, Request, Scripted, transcript},
    permission::Profile,
    tool::Toolbox,
};
use tokio::sync::{Notify, mpsc};

use crate::support::taped;

#[path = "../../examples/chat.rs"]
#[allow(dead_code, unreachable_pub, reason = "an example is a program")]
mod chat;
#[path = "../../examples/everyday.rs"]
#[allow(dead_code, unreachable_pub, reason = "an example is a program")]
mod everyday;
#[path = "../../examples/payment.rs"]
#[allow(dead_code, unreachable_pub, reason = "an example is a program")]
mod payment;
#[path = "../../examples/recorded.rs"]
#[allow(dead_code, unreachable_pub, reason = "an example is a program")]
mod recorded;
#[path = "../../examples/research.rs"]
#[allow(dead_code, unreachable_pub, reason = "an example is a program")]
mod research;

/// A bot that runs, its model, and what it has shown.
struct Bot {
    model: Arc<Scripted>,
    lines: mpsc::Sender<String>,
    shown: Arc<(Mutex<String>, Notify)>,
    ends: tokio::task::JoinHandle<()>,
}

impl Bot {
    fn start(chats: &Path) -> Bot {
        let model = Arc::new(Scripted::from_fn(reply));
        let (lines, taken) = mpsc::channel(1);
        let shown: Arc<(Mutex<String>, Notify)> = Arc::default();
        let (chats, playing, to) = (chats.to_owned(), model.clone(), shown.clone());
        let show: chat::Show = Arc::new(move |name, text| {
            to.0.lock().unwrap().push_str(&format!("[{name}]{text}\n"));
            to.1.notify_one();
        });
        let ends = tokio::spawn(async move { chat::chat(&chats, playing, taken, show).await.unwrap() });
        Bot { model, lines, shown, ends }
    }

    async fn write(&self, line: &str) {
        self.lines.send(line.to_owned()).await.unwrap();
    }

    /// Waits until the bot has shown this.
    async fn shows(&self, text: &str) {
        let seen = async {
            while !self.shown.0.lock().unwrap().contains(text) {
                self.shown.1.notified().await;
            }
        };
        let seen = tokio::time::timeout(Duration::from_secs(60), seen).await;
        assert!(seen.is_ok(), "{text:?} is not shown: {}", self.shown.0.lock().unwrap());
    }

    /// Ends the lines, and gives all that was shown.
    async fn end(self) -> String {
        drop(self.lines);
        self.ends.await.unwrap();
        std::mem::take(&mut *self.shown.0.lock().unwrap())
    }
}

/// The echo of the example, and two words more: `wait` stands until the test lets it go, `hang` never ends.
fn reply(request: &Request) -> Reply {
    let said = transcript(request);
    match said.lines().next_back() {
        Some("user: wait") => Reply::text("I wait.").at_barrier("wait"),
        Some("user: hang") => Reply::text("I think").hanging(),
        _ => chat::echo(request),
    }
}

fn tape(chats: &Path, name: &str) -> String {
    let file = format!("sessions/{name}/anchors/001_session-start/entries.jsonl");
    std::fs::read_to_string(chats.join(file)).unwrap()
}

fn turns(chats: &Path, name: &str) -> usize {
    tape(chats, name).matches("\"kind\":\"turn_finished\"").count()
}

/// Two conversations beside each other: one is steered, one is stopped, and the next start of the bot goes on with both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_chat_bot_steers_and_stops_the_conversation_that_is_named_and_continues_it_later() {
    let folder = taped::folder();
    let chats = folder.path().join("store");
    let bot = Bot::start(&chats);
    bot.write("ada: wait").await;
    bot.shows("[ada]I wait.").await;
    bot.write("ben: hang").await;
    bot.shows("[ben]I think").await;
    bot.write("ada: /steer hello").await;
    bot.shows("[ada](steered)").await;
    bot.write("ben: /stop").await;
    bot.shows("[ben](stopped)").await;
    bot.model.barrier("wait").release();
    bot.shows("[ada]You said: \n[ada]hello\n[ada](done)").await;
    bot.end().await;
    // The words that steered were read by the turn that ran.
    assert_eq!([turns(&chats, "ada"), turns(&chats, "ben")], [1, 1]);

    let bot = Bot::start(&chats);
    bot.write("ada: and again").await;
    // The end of the lines waits for the answer.
    assert_eq!(bot.end().await, "[ada]You said: \n[ada]and \n[ada]again\n[ada](done)\n");
    assert_eq!([turns(&chats, "ada"), turns(&chats, "ben")], [2, 1]);
}

/// What the hook takes out reaches neither the model nor the tape; a line that is none ends nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_chat_bot_keeps_no_password_and_says_what_is_wrong_with_a_line() {
    let folder = taped::folder();
    let chats = folder.path().join("store");
    let bot = Bot::start(&chats);
    bot.write("no colon").await;
    bot.write("a/b: hello").await;
    bot.write("ben: pw:hunter2").await;
    let model = bot.model.clone();
    let shown = bot.end().await;
    assert!(shown.starts_with("[bot]write `name: words`\n[bot]"), "{shown}");
    assert!(shown.ends_with("[ben]You said: \n[ben][password]\n[ben](done)\n"), "{shown}");
    let asked: String = model.requests().iter().map(transcript).collect();
    assert!(asked.contains("[password]") && !asked.contains("hunter2"), "{asked}");
    assert!(!tape(&chats, "ben").contains("hunter2"));
}

/// The recorded tape passes as a test. With the same agent every decision is the same; another prompt and other tools are noticed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recorded_tape_is_a_test_of_the_agent() {
    let folder = tempfile::tempdir().unwrap();
    let (tapes, file) = (folder.path().join("tapes"), folder.path().join("order-7.replay"));
    let session: SessionId = "order-7".parse().unwrap();
    recorded::record(&tapes, &session, &file).await.unwrap();
    let checked = recorded::tamtam_decides_the_same(&file).unwrap();
    assert!(checked.decisions > 2 && checked.entries > checked.decisions, "{checked:?}");

    let difference = |prompt, tools| recorded::first_difference(&tapes, &session, prompt, tools).unwrap();
    assert_eq!(difference(recorded::PROMPT, recorded::tools()), None);
    let other_prompt = difference("In one word, please.", recorded::tools()).unwrap();
    assert_eq!(other_prompt.path, "data.system");
    assert!(difference(recorded::PROMPT, Toolbox::default()).is_some());
}

/// O-26: search, then writer, then one text of both: each agent is told what the one before it has found, and no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_team_searches_writes_and_makes_one_text() {
    let folder = taped::folder();
    let model = Arc::new(Scripted::from_fn(research::script));
    let runtime = research::start(model.clone()).await.unwrap();
    let options = SessionOptions::new(folder.path()).profile(Profile::Readonly);
    let text = research::research(&runtime, options, "How do cranes keep watch?").await.unwrap();
    assert_eq!(text, "Cranes post a sentinel that holds a stone (Pliny, Natural History, book 10).");
    let asked: Vec<_> = model.requests().iter().map(transcript).collect();
    assert_eq!(asked.len(), 3, "{asked:?}");
    assert!(asked[0].contains("How do cranes keep watch?") && !asked[0].contains("Pliny"), "{asked:?}");
    assert!(asked[1].contains("Pliny") && !asked[1].contains("sentinel"), "{asked:?}");
    assert!(asked[2].contains("Pliny") && asked[2].contains("sentinel"), "{asked:?}");
    assert!(runtime.shutdown().await.is_empty());
}

/// The five everyday tasks are carried out, and stay as short as the README says.
#[tokio::test]
async fn the_everyday_tasks_are_a_few_lines_each() {
    let lines = include_str!("../../examples/everyday.rs").lines();
    let lines_of = |name: &str| {
        let head = format!("pub async fn {name}(");
        lines.clone().skip_while(|line| !line.starts_with(&head)).take_while(|line| *line != "}").count() + 1
    };
    for (name, most) in [("one_shot", 8), ("with_a_tool", 15), ("streaming", 12), ("memory", 10), ("subagent", 14)] {
        assert!((3..=most).contains(&lines_of(name)), "{name}: {} lines", lines_of(name));
    }

    let said = |replies: Vec<Reply>| Arc::new(Scripted::new(replies));
    assert_eq!(everyday::one_shot(said(vec![Reply::text("A gong.")])).await.unwrap(), "A gong.");
    let call = Reply::call("weather", serde_json::json!({ "name": "Bergen" }));
    let answer = Reply::text("Yes.").expecting("Bergen: rain");
    assert_eq!(everyday::with_a_tool(said(vec![call, answer])).await.unwrap(), "Yes.");
    let mut shown = String::new();
    everyday::streaming(said(vec![Reply::text("Once.")]), |text| shown += text).await.unwrap();
    assert_eq!(shown, "Once.");
    let folder = tempfile::tempdir().unwrap();
    for (says, reply) in
        [("I am Ann.", Reply::text("Hello.")), ("Who am I?", Reply::text("Ann.").expecting("I am Ann."))]
    {
        let answer = reply.clone();
        let text = everyday::memory(said(vec![answer]), folder.path(), says).await.unwrap();
        assert!(["Hello.", "Ann."].contains(&&*text), "{text}");
    }
    let task = serde_json::json!({ "description": "Criticize", "prompt": "Read it.", "subagent_type": "critic" });
    let model = Scripted::from_fn(move |request| match &*request.system {
        system if system.contains("stern critic") => Reply::text("Too long."),
        _ if transcript(request).contains("Too long.") => Reply::text("It is too long."),
        _ => Reply::call("task", task.clone()),
    });
    assert_eq!(everyday::subagent(Arc::new(model)).await.unwrap(), "It is too long.");
}

/// A payment whose answer is lost with the process is made once: the next process carries the call out again under its key, and finds
/// it paid.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_is_made_once_across_a_crash() {
    let folder = taped::folder();
    let mut out = Vec::new();
    let paid = payment::payment(&folder.path().join("store"), &mut out).await.unwrap();
    let said = String::from_utf8(out).unwrap();
    assert_eq!(paid, (100, 1), "{said}");
    assert!(
        said.contains("Done: 100 were paid before.") && said.ends_with("the bank has taken 100 in all\n"),
        "{said}"
    );
}
