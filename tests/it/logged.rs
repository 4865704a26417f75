//! What a host's log gets: each failure once, with ids and without words; each field once; and no span of the actors'
//! library.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{Arc, LazyLock, Mutex},
};

use serde_json::json;
use tamtam::{
    Outcome, Runtime, SessionOptions,
    model::{ErrorKind, ModelError, Reply, Scripted},
    permission::Profile,
    supervisor::{ChildSpec, Restart},
    tool::{self, NoArguments, ToolContext, ToolResult},
};
use tracing::{
    Dispatch, Event, Level, Subscriber,
    field::{Field, Visit},
    subscriber::DefaultGuard,
};
use tracing_subscriber::{Layer, layer::Context, layer::SubscriberExt as _, registry::LookupSpan};

use crate::support::taped;

/// One line of the log: its fields, as often as each of them was given, and the spans around it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    level: Level,
    target: String,
    fields: Vec<(String, String)>,
    spans: Vec<String>,
}

impl Line {
    fn get(&self, name: &str) -> &str {
        self.fields.iter().find(|(field, _)| field == name).map_or("", |(_, value)| value)
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.fields.push((field.name().to_owned(), format!("{value:?}").trim_matches('"').to_owned()));
    }
}

/// A log that keeps its lines.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<Line>>>);

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for Log {
    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let spans = context.event_scope(event).into_iter().flatten().map(|span| span.name().to_owned()).collect();
        let (level, target) = (*event.metadata().level(), event.metadata().target().to_owned());
        let mut line = Line { level, target, fields: Vec::new(), spans };
        event.record(&mut line);
        self.0.lock().unwrap().push(line);
    }
}

/// While `tracing` has one subscriber alone, a line that is first met on a thread without one is left out for ever, on all threads.
/// Other tests run on such threads. With more than one, all are asked.
static OTHERS: LazyLock<[Dispatch; 2]> =
    LazyLock::new(|| [(); 2].map(|()| Dispatch::new(tracing_subscriber::registry())));

impl Log {
    /// Takes what this thread logs, as long as the guard lives.
    fn listen(&self) -> DefaultGuard {
        LazyLock::force(&OTHERS);
        tracing::subscriber::set_default(tracing_subscriber::registry().with(self.clone()))
    }

    /// The lines of the library itself.
    fn lines(&self) -> Vec<Line> {
        let lines = self.0.lock().unwrap();
        lines.iter().filter(|line| line.target.starts_with("tamtam")).cloned().collect()
    }

    fn of(&self, message: &str) -> Vec<Line> {
        self.lines().into_iter().filter(|line| line.get("message") == message).collect()
    }
}

/// A host's log and error alarms are made of these lines: nothing failed silently, and no failure rings twice. The words of the
/// conversation are in none of them.
#[tokio::test(start_paused = true)]
async fn a_failed_turn_a_panicked_tool_and_a_failed_request_are_logged_once_and_without_words() {
    let log = Log::default();
    let _guard = log.listen();
    let folder = taped::folder();
    let start = |replies: Vec<Reply>| {
        let panics = tool::typed("panics", "Panics", async |_: NoArguments, _: ToolContext| -> ToolResult {
            panic!("a secret of the tool")
        });
        let model = Arc::new(Scripted::new(replies));
        Runtime::builder().store(folder.path().join("store")).model(model).tool(panics).start()
    };
    let refused = || ModelError::new(ErrorKind::InvalidRequest, "a secret of the provider").with_status(400);
    let replies = vec![Reply::text("a secret of the model").with_call("panics", json!({})), Reply::error(refused())];
    let runtime = start(replies).await.unwrap();
    let mut options = SessionOptions::new(folder.path());
    options.rules = Some(Profile::Auto.ruleset());
    let session = runtime.create(options).await.unwrap();
    let answer = session.prompt("a secret of the person").await.unwrap().wait().await.unwrap();
    assert!(matches!(answer.outcome, Outcome::Failed { .. }), "{answer:?}");
    let id = session.id().clone();
    drop(runtime.shutdown().await);

    // What was recorded is history to the next runtime: it logs none of it again.
    let again = start(vec![Reply::text("Fine.")]).await.unwrap();
    let session = again.open(&id).await.unwrap();
    assert_eq!(session.prompt("Go on.").await.unwrap().wait().await.unwrap().outcome, Outcome::Done);
    drop(again.shutdown().await);

    let told: Vec<_> =
        [("a tool panicked", "panic"), ("a model request failed", "InvalidRequest"), ("a turn failed", "failed")]
            .iter()
            .map(|(message, reason)| {
                let lines = log.of(message);
                let [line] = &lines[..] else { panic!("{message}: {lines:?}") };
                assert_eq!((line.get("reason"), line.get("session"), line.level), (*reason, id.as_str(), Level::WARN));
                assert!(!line.get("turn").is_empty() && !line.get("seq").is_empty(), "{line:?}");
                line.clone()
            })
            .collect();
    assert_eq!(
        (told[0].get("tool"), told[1].get("status"), told[1].get("model")),
        ("panics", "400", "scripted/script")
    );
    assert!(!format!("{:?}", log.lines()).contains("secret"), "{:?}", log.lines());
}

/// Seen with a host's log in JSON: the line of a crash had `message` twice, and its parser kept the wrong one. And it stood in the
/// span `Actor{id="0.6"}` of the actors' library, which names a number that nobody knows.
#[tokio::test(start_paused = true)]
async fn a_line_of_a_crash_names_each_field_once_and_stands_under_its_node() {
    let log = Log::default();
    let _guard = log.listen();
    let crash = ChildSpec::new("crashes", async |_| -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        panic!("on purpose")
    });
    let runtime = Runtime::builder()
        .in_memory()
        .model(Arc::new(Scripted::new([])))
        .child(crash.restart(Restart::Temporary))
        .start()
        .await
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let session = runtime.create(SessionOptions::new(folder.path())).await.unwrap();
    runtime.operate().crash(session.id().as_str(), "on purpose").unwrap();
    session.pause().await.unwrap();
    drop(runtime.shutdown().await);

    let crashes = log.of("a child ended badly");
    assert!(crashes.len() >= 2, "{crashes:?}");
    for line in log.lines() {
        let mut times = BTreeMap::<_, usize>::new();
        line.fields.iter().for_each(|(name, _)| *times.entry(name.as_str()).or_default() += 1);
        assert!(times.values().all(|times| *times == 1), "{line:?}");
        assert!(line.spans.iter().all(|span| span == "actor"), "{line:?}");
    }
    assert!(crashes.iter().all(|line| line.spans == ["actor"]), "{crashes:?}");
}

/// The arguments of a macro call, from behind its opening bracket.
fn arguments(text: &str) -> Vec<String> {
    let (mut arguments, mut depth, mut quoted, mut before) = (vec![String::new()], 0, false, ' ');
    for c in text.chars() {
        match c {
            '"' if before != '\\' => quoted = !quoted,
            '(' | '[' | '{' if !quoted => depth += 1,
            ')' if !quoted && depth == 0 => break,
            ')' | ']' | '}' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                arguments.push(String::new());
                continue;
            }
            _ => {}
        }
        before = c;
        arguments.last_mut().unwrap().push(c);
    }
    arguments.iter().map(|argument| argument.trim().to_owned()).filter(|argument| !argument.is_empty()).collect()
}

fn sources(folder: &Path, each: &mut impl FnMut(&Path, &str)) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, each);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            each(&path, &std::fs::read_to_string(&path).unwrap());
        }
    }
}

/// The name of the text of a line is `message`: a field of that name would be the second one. Read from the sources, because most
/// lines are logged only where something breaks.
#[test]
fn no_line_of_the_log_has_a_field_called_message_or_one_field_twice() {
    let mut lines = 0;
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut |path, text| {
        for level in ["error", "warn", "info", "debug", "trace"] {
            let call = format!("tracing::{level}!(");
            for (at, _) in text.match_indices(&call) {
                let arguments = arguments(&text[at + call.len()..]);
                // `name = value`, `%name`, `?name`, `name`; the text of the line stands behind them.
                let fields = arguments.iter().take_while(|argument| !argument.starts_with('"'));
                let names = fields.map(|field| field.split('=').next().unwrap().trim().trim_start_matches(['%', '?']));
                let names: Vec<_> = names.collect();
                let once: BTreeSet<_> = names.iter().collect();
                let place = path.display();
                assert!(once.len() == names.len() && !names.contains(&"message"), "{place}: {arguments:?}");
                lines += 1;
            }
        }
    });
    assert!(lines > 30, "{lines} lines of the log were found");
}
