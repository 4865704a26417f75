//! `kill -9` of a host with many sessions in mid-turn, half of them in a model request and half in a call: after the
//! start all continue automatically, and the requests that were open come again as they were.
//!
//! The host is this test binary, started once more. 40 sessions by default; `TAMTAM_STORM=1000` for the full form, whose last
//! line says how long the last session took to be back (docs/PERFORMANCE.md).

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tamtam::{
    ModelRef, Outcome, Runtime, SessionOptions,
    model::{AnswerPart, BoxFuture, Deltas, Item, Model, ModelAnswer, ModelError, Request},
    permission::Profile,
    session::Finish,
    tool::{Effect, Tool, ToolContext, ToolResult},
};
use tokio::sync::Notify;

use crate::support::taped;

/// Where the host keeps its store; unset in an ordinary run of the tests.
const FOLDER: &str = "TAMTAM_TEST_STORM_FOLDER";

/// The longest that a host may be silent.
const LIMIT: Duration = Duration::from_secs(120);

fn sessions() -> usize {
    std::env::var("TAMTAM_STORM").ok().map_or(40, |text| text.parse().unwrap())
}

/// What both lives of the host share through the disk, and what this life counts.
struct Host {
    id: ModelRef,
    /// The first life hangs where the second one goes on.
    first: bool,
    /// One line for each request: its key and the hash of all that it says.
    requests: File,
    /// Sessions that got to the middle of their turn in this life, or back to it.
    there: AtomicUsize,
    all_there: Notify,
    sessions: usize,
}

impl Host {
    fn one_is_there(&self) {
        if self.there.fetch_add(1, Ordering::SeqCst) + 1 == self.sessions {
            self.all_there.notify_one();
        }
    }

    async fn answer(&self, request: &Request) -> Result<ModelAnswer, ModelError> {
        let history: Vec<&Item> = request.history.iter().map(AsRef::as_ref).collect();
        let tools: Vec<_> =
            request.tools.iter().map(|tool| json!([tool.name, tool.description, tool.schema])).collect();
        let all = json!([request.system, tools, history, request.reminder, request.params]).to_string();
        // One write a line: appends of a few bytes are whole, also when the process is killed.
        (&self.requests)
            .write_all(format!("{} {}\n", request.key, blake3::hash(all.as_bytes()).to_hex()).as_bytes())
            .unwrap();
        let answers = request.history.iter().filter(|item| matches!(item.as_ref(), Item::Assistant(_))).count();
        let in_a_call = request.key.starts_with("call");
        let call = |name: &str| {
            let (id, name) = (format!("c{answers}").as_str().into(), name.to_owned());
            let call = AnswerPart::Call { id, name, input: "{}".to_owned(), extra: None };
            Ok(ModelAnswer::new(vec![call], Finish::ToolCalls))
        };
        match answers {
            0 => call("step"),
            1 if in_a_call => call("hold"),
            1 => {
                self.one_is_there();
                if self.first {
                    std::future::pending::<()>().await;
                }
                call("step")
            }
            _ => Ok(ModelAnswer::new(vec![AnswerPart::Text { text: "done".to_owned(), extra: None }], Finish::Stop)),
        }
    }
}

/// The model of the host.
struct Teller(Arc<Host>);

impl Model for Teller {
    fn id(&self) -> &ModelRef {
        &self.0.id
    }

    fn stream<'a>(
        &'a self,
        request: &'a Request,
        _: &'a mut dyn Deltas,
    ) -> BoxFuture<'a, Result<ModelAnswer, ModelError>> {
        Box::pin(self.0.answer(request))
    }
}

struct Work {
    name: &'static str,
    host: Arc<Host>,
}

impl Tool for Work {
    fn name(&self) -> &str {
        self.name
    }

    fn description(&self) -> &str {
        "Works."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object" })
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }

    fn run<'a>(&'a self, _: Value, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            if self.name == "hold" {
                self.host.one_is_there();
                if self.host.first {
                    std::future::pending::<()>().await;
                }
            }
            ToolResult::ok("worked")
        })
    }
}

/// Not a test of its own: the host. Its first life gets all sessions to the middle of their turns and is killed there; its
/// second life starts, and says when all are back and when all are done.
#[test]
fn child_that_is_a_host() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let folder = PathBuf::from(folder);
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    tokio.block_on(be_a_host(&folder));
}

async fn be_a_host(folder: &Path) {
    let first = !folder.join("store").exists();
    let count = sessions();
    let host = Arc::new(Host {
        id: "storm/teller".parse().unwrap(),
        first,
        requests: OpenOptions::new().create(true).append(true).open(folder.join("requests")).unwrap(),
        there: AtomicUsize::new(0),
        all_there: Notify::new(),
        sessions: count,
    });
    let began = Instant::now();
    let work = |name| Work { name, host: host.clone() };
    let builder = Runtime::builder().store(folder.join("store")).model(Arc::new(Teller(host.clone())));
    let runtime = builder.tool(work("step")).tool(work("hold")).start().await.unwrap();
    if first {
        for n in 0..count {
            let id = if n % 2 == 0 { format!("call-{n}") } else { format!("request-{n}") };
            let options = SessionOptions::new(folder).id(id.parse().unwrap()).profile(Profile::Auto);
            runtime.create(options).await.unwrap().prompt("go").await.unwrap();
        }
        host.all_there.notified().await;
        println!("\nready");
        std::future::pending::<()>().await;
    }
    host.all_there.notified().await;
    let back = began.elapsed();
    assert_eq!(runtime.recovered().len(), count);
    let mut done = 0;
    for recovered in runtime.recovered() {
        assert_eq!(recovered.error, None, "{}", recovered.session);
        let session = runtime.session(&recovered.session);
        session.wait().await.unwrap();
        let state = session.state().await.unwrap();
        let last = state.ended.back().unwrap();
        done += usize::from(last.outcome == Outcome::Done && &*last.text == "done" && state.ended.len() == 1);
    }
    assert!(runtime.shutdown().await.is_empty());
    println!("\nback {} ms, done {done}", back.as_millis());
}

struct Life {
    child: Child,
    lines: std::sync::mpsc::Receiver<String>,
}

impl Life {
    fn begin(folder: &Path) -> Life {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "storm::child_that_is_a_host", "--nocapture"])
            .env(FOLDER, folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (send, lines) = std::sync::mpsc::channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        Life { child, lines }
    }

    fn until(&self, start: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(LIMIT).expect("the host says what it is at");
            if line.starts_with(start) {
                return line;
            }
        }
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The hashes of each request, by its key, in the order in which it came.
fn requests(folder: &Path) -> BTreeMap<String, Vec<String>> {
    let text = std::fs::read_to_string(folder.join("requests")).unwrap();
    let mut requests = BTreeMap::<_, Vec<_>>::new();
    for line in text.lines() {
        let (key, hash) = line.split_once(' ').unwrap();
        requests.entry(key.to_owned()).or_default().push(hash.to_owned());
    }
    requests
}

/// Must show 4, promise 5, X03: a host that is killed with all its sessions in mid-turn goes on with each of them by itself,
/// and what was asked of the model when it died is asked again in the same words.
#[test]
fn recovery_of_the_whole_process_all_sessions_go_on_by_themselves() {
    let folder = taped::folder();
    let count = sessions();
    let first = Life::begin(folder.path());
    first.until("ready");
    drop(first);
    let before = requests(folder.path());
    let second = Life::begin(folder.path());
    let said = second.until("back");
    drop(second);
    assert!(said.ends_with(&format!("done {count}")), "{said}");
    let after = requests(folder.path());
    // The open request of every second session came once more; no other did.
    let again: Vec<_> = before.keys().filter(|key| after[key.as_str()].len() > before[key.as_str()].len()).collect();
    assert_eq!(again.len(), count / 2);
    assert!(again.iter().all(|key| key.starts_with("request-") && after[key.as_str()].len() == 2));
    assert!(after.values().all(|hashes| hashes.iter().all(|hash| *hash == hashes[0])), "a request came again changed");
    // Past the capture of the test's output, for it is told on success.
    writeln!(
        std::io::stderr(),
        "{count} sessions killed in mid-turn: {said}; {} requests again, all equal",
        again.len()
    )
    .unwrap();
}
