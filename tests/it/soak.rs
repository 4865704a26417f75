//! A soak: many calls over many sessions at once; some panic, some hang, some die by a signal, and session actors are killed at
//! random. No session may be lost or stuck, every call has one result, and nothing is left behind.
//!
//! 10 sessions with 500 calls by default. `TAMTAM_SOAK=200` plays it over 200 sessions with 10,000 calls in real time
//! and prints its figures (docs/PERFORMANCE.md); `TAMTAM_SOAK_ROUNDS=6` plays it six times and prints the memory kept
//! after each.

use std::{
    collections::BTreeMap,
    io::Write as _,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tamtam::{
    ModelRef, Outcome, Runtime, Session, SessionOptions,
    model::{AnswerPart, BoxFuture, Deltas, Item, Model, ModelAnswer, ModelError, Request},
    permission::Profile,
    session::{Entry, ErrorReason, Finish, Record},
    tool::{Effect, Tool, ToolContext, ToolResult},
    tools::Setup,
};

use crate::{support::marked::Mark, support::rng::Rng};

use crate::support::taped;

/// Steps of a turn, and calls of a step.
const STEPS: usize = 10;
const CALLS: usize = 5;

/// The limit of a call; those that hang hear of its end.
const CALL_LIMIT: Duration = Duration::from_millis(100);

/// How much later than its limit a call's result may be there.
const LATE: u64 = 50;

fn sessions() -> usize {
    std::env::var("TAMTAM_SOAK").ok().map_or(10, |text| text.parse().unwrap())
}

/// Rounds of the full size beside the first one, for those who look at memory.
fn rounds() -> usize {
    std::env::var("TAMTAM_SOAK_ROUNDS").ok().map_or(1, |text| text.parse().unwrap())
}

/// The model: each session's answers follow from its name and from how many it got.
struct Teller(ModelRef);

impl Teller {
    fn answer(request: &Request) -> ModelAnswer {
        let answers = request.history.iter().filter(|item| matches!(item.as_ref(), Item::Assistant(_))).count();
        if answers == STEPS {
            return ModelAnswer::new(vec![AnswerPart::Text { text: "done".to_owned(), extra: None }], Finish::Stop);
        }
        let session: u64 = request.key.split(['-', '/']).nth(1).unwrap().parse().unwrap();
        let calls = (0..CALLS).map(|n| {
            let mut rng = Rng::new(session * 1_000 + (answers * CALLS + n) as u64);
            // Each call differs from the one before it: equal calls in a row are a loop.
            let at = answers * CALLS + n;
            let (name, input) = match rng.below(100) {
                0..10 => ("work", json!({"does": "panic", "at": at})),
                10..15 => ("work", json!({"does": "hang", "at": at})),
                15 => ("bash", json!({"command": "kill -9 $$"})),
                _ => ("work", json!({"does": "work", "at": at})),
            };
            let id = format!("c{answers}-{n}").as_str().into();
            AnswerPart::Call { id, name: name.to_owned(), input: input.to_string(), extra: None }
        });
        ModelAnswer::new(calls.collect(), Finish::ToolCalls)
    }
}

impl Model for Teller {
    fn id(&self) -> &ModelRef {
        &self.0
    }

    fn stream<'a>(
        &'a self,
        request: &'a Request,
        _: &'a mut dyn Deltas,
    ) -> BoxFuture<'a, Result<ModelAnswer, ModelError>> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            Ok(Teller::answer(request))
        })
    }
}

struct Work;

impl Tool for Work {
    fn name(&self) -> &str {
        "work"
    }

    fn description(&self) -> &str {
        "Works, panics or hangs."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object" })
    }

    fn effect(&self) -> Effect {
        Effect::Idempotent
    }

    fn parallel(&self) -> bool {
        true
    }

    fn limit(&self, _: &Value) -> Duration {
        CALL_LIMIT
    }

    fn run<'a>(&'a self, arguments: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            match arguments["does"].as_str() {
                Some("panic") => std::panic::resume_unwind(Box::new("the tool is broken")),
                Some("hang") => {
                    context.cancelled().await;
                    ToolResult::failed(ErrorReason::Aborted, "hung")
                }
                _ => {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                    ToolResult::ok("worked")
                }
            }
        })
    }
}

/// What became of the calls of a session, read from its tape.
#[derive(Default)]
struct Calls {
    calls: usize,
    results: usize,
    panicked: usize,
    hung: usize,
    died: usize,
    unknown: usize,
    /// How many milliseconds after its limit each hanging call had its result.
    late: Vec<u64>,
}

impl Calls {
    fn add(&mut self, entries: &[Entry]) {
        let mut started = BTreeMap::new();
        for entry in entries {
            match (&entry.record, entry.ticket) {
                (Record::Call(_), _) => self.calls += 1,
                (Record::CallStarted { .. }, Some(ticket)) => drop(started.insert(ticket, entry.time)),
                (Record::Result { result, .. }, Some(ticket)) => {
                    self.results += 1;
                    self.panicked += usize::from(result.content.contains("crashed: the tool is broken"));
                    self.unknown += usize::from(result.error == Some(ErrorReason::Unknown));
                    self.died += usize::from(result.content.contains("signal"));
                    if result.error == Some(ErrorReason::Timeout) {
                        self.hung += 1;
                        let limit = u64::try_from(CALL_LIMIT.as_millis()).unwrap();
                        self.late.push((entry.time.0 - started[&ticket].0).saturating_sub(limit));
                    }
                }
                _ => {}
            }
        }
    }
}

/// Kills session actors at random until it is told to end; how often it did.
async fn kill_at_random(
    runtime: Runtime,
    sessions: Arc<Mutex<Vec<Session>>>,
    stop: Arc<AtomicBool>,
    killer: Killer,
) -> usize {
    let mut rng = Rng::new(4_711);
    let mut kills = 0;
    while !stop.load(Ordering::SeqCst) {
        tokio::time::sleep(Duration::from_millis(5)).await;
        let session = {
            let sessions = sessions.lock().unwrap();
            if sessions.is_empty() { None } else { Some(rng.pick(&sessions)) }
        };
        if let Some(session) = session {
            kills += usize::from(killer.kill(&runtime, &session).await);
        }
    }
    kills
}

/// How an actor is killed: by a panic in its next step, at most twice for each session, for the third would park it; and
/// else by the operator's lever. Both leave its workers and what was not recorded behind.
#[derive(Clone, Default)]
struct Killer {
    #[cfg_attr(not(feature = "fault-injection"), allow(dead_code, reason = "panics need crash points"))]
    panics: Arc<Mutex<BTreeMap<String, (usize, bool)>>>,
    restarted: Arc<AtomicUsize>,
}

impl Killer {
    #[cfg(feature = "fault-injection")]
    fn faults(&self) -> tamtam::runtime::Faults {
        let panics = self.panics.clone();
        tamtam::runtime::Faults::new(move |point, of| {
            if point != "session.took" && point != "session.appended" {
                return;
            }
            let due = panics.lock().unwrap().get_mut(of).is_some_and(|(_, due)| std::mem::take(due));
            if due {
                std::panic::resume_unwind(Box::new("killed at random"));
            }
        })
    }

    async fn kill(&self, runtime: &Runtime, session: &Session) -> bool {
        #[cfg(feature = "fault-injection")]
        {
            let mut panics = self.panics.lock().unwrap();
            let (times, due) = panics.entry(session.id().as_str().to_owned()).or_default();
            if *times < 2 {
                (*times, *due) = (*times + 1, true);
                return true;
            }
        }
        let restarted = runtime.operate().restart(session.id().as_str()).await.is_ok();
        self.restarted.fetch_add(usize::from(restarted), Ordering::SeqCst);
        restarted
    }
}

/// Lets sessions go on that wait because they were cut off twice with nothing new in between: that is the host's to say.
async fn keep_going(runtime: Runtime, session: Session) -> Outcome {
    loop {
        let state = match session.state().await {
            Ok(state) => state,
            Err(error) => {
                let crashes =
                    runtime.crashes().into_iter().filter(|crash| crash.offender.as_str() == session.id().as_str());
                let crashes: Vec<_> =
                    crashes.map(|crash| format!("{:?} {:?} {:?}", crash.at, crash.reason, crash.decision)).collect();
                panic!("{} does not go on: {error}; it crashed: {crashes:#?}", session.id());
            }
        };
        if let (Some(end), true) = (state.ended.back(), state.is_idle()) {
            return end.outcome.clone();
        }
        if state.waits {
            session.go_on().await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The resident memory of this process, in KiB.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or_default()
}

async fn round(count: usize) -> (Calls, usize) {
    let folder = taped::folder();
    let (mark, killer) = (Mark::new(), Killer::default());
    let environment =
        [("PATH".into(), std::env::var_os("PATH").unwrap()), (mark.variable().into(), mark.value().into())];
    let tools = Setup::new().environment(environment).full().with(Work);
    let builder =
        Runtime::builder().store(folder.path().join("store")).model(Arc::new(Teller("soak/teller".parse().unwrap())));
    #[cfg(feature = "fault-injection")]
    let builder = builder.faults(killer.faults());
    let runtime = builder.tools(tools).start().await.unwrap();
    let live = Arc::<Mutex<Vec<Session>>>::default();
    let stop = Arc::new(AtomicBool::new(false));
    let killing = tokio::spawn(kill_at_random(runtime.clone(), live.clone(), stop.clone(), killer));
    for n in 0..count {
        let options = SessionOptions::new(folder.path()).id(format!("soak-{n}").parse().unwrap());
        let session = runtime.create(options.profile(Profile::Auto)).await.unwrap();
        session.prompt("go").await.unwrap();
        live.lock().unwrap().push(session);
    }
    let sessions = live.lock().unwrap().clone();
    let going: Vec<_> =
        sessions.iter().cloned().map(|session| tokio::spawn(keep_going(runtime.clone(), session))).collect();
    let all = futures_util::future::join_all(going);
    let outcomes = tokio::time::timeout(Duration::from_secs(1_200), all).await;
    let outcomes = outcomes.unwrap_or_else(|_| panic!("a session is stuck:\n{}", runtime.tree()));
    stop.store(true, Ordering::SeqCst);
    let kills = killing.await.unwrap();
    assert!(outcomes.into_iter().all(|outcome| outcome.unwrap() == Outcome::Done), "not all turns were done");

    let mut calls = Calls::default();
    for session in &sessions {
        calls.add(&session.entries().await.unwrap());
    }
    assert!(runtime.shutdown().await.is_empty());
    assert_eq!(mark.processes(0), Vec::<u32>::new(), "processes are left");
    (calls, kills)
}

/// Must show 2, A01, promises 2, 3 and 10: whatever the tools do, and however often the actors are killed, no session is lost or
/// stuck, every call has one result, and no process, task or memory is left at the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn soak_no_session_is_lost_and_nothing_is_left_behind() {
    let count = sessions();
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    // What a first round takes for good (buffers, threads, the allocator's own) is not what a leak would be.
    round(count).await;
    let mut kept = vec![resident()];
    for _ in 1..rounds() {
        round(count).await;
        kept.push(resident());
    }
    let began = Instant::now();
    let (mut calls, kills) = round(count).await;
    let seconds = began.elapsed().as_secs_f64();
    kept.push(resident());

    assert_eq!((calls.calls, calls.results), (count * STEPS * CALLS, count * STEPS * CALLS));
    assert!(calls.panicked > 0 && calls.hung > 0 && kills > 0, "the soak is too tame to mean anything");
    // Ended tasks are counted out a moment after they are joined.
    for _ in 0..200 {
        if tokio::runtime::Handle::current().metrics().num_alive_tasks() <= tasks {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), tasks, "tasks are left");
    calls.late.sort_unstable();
    let late =
        |part: usize| calls.late.get((calls.late.len() * part / 100).min(calls.late.len() - 1)).copied().unwrap_or(0);
    let in_time = calls.late.iter().filter(|late| **late <= LATE).count();
    // Past the capture of the test's output, for it is told on success.
    writeln!(
        std::io::stderr(),
        "soak: {} calls over {count} sessions in {seconds:.0} s: {} panicked, {} hung, {} died by signal, {} unknown after \
         {kills} kills of actors; {in_time} of {} hanging calls had their result within limit + {LATE} ms (p50 {} ms, p99 {} ms, \
         most {} ms late); resident after each round: {kept:?} KiB",
        calls.calls,
        calls.panicked,
        calls.hung,
        calls.died,
        calls.unknown,
        calls.late.len(),
        late(50),
        late(99),
        late(100),
    )
    .unwrap();
}
