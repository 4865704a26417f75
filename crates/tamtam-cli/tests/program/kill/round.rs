//! One round: a run that is steered, killed at a seeded moment, and resumed until it ends on its own.

use std::{path::Path, time::Duration};

use serde_json::{Value, json};

use super::story::{ASKED, SLOW, Story};
use crate::{
    support::rng::Rng,
    support::{
        marked::Mark,
        tamtam::{Tamtam, event, once},
    },
};

use crate::support::taped;

pub(super) const PROMPT: &str = "tell the story";
/// Lives of the process that a round may take: the last one is not killed.
const LIVES_MAX: usize = 3;

/// What is to be open when the process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Request,
    Call,
    Ask,
    Retry,
    /// Whatever it may be.
    Any,
}

/// When something is done: at the first line that shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Point {
    FirstCall,
    SecondStep,
    SlowCall,
    Ask,
    Retry,
    LongText,
}

const POINTS: [Point; 6] =
    [Point::FirstCall, Point::SecondStep, Point::SlowCall, Point::Ask, Point::Retry, Point::LongText];

impl Point {
    fn is(self, line: &Value) -> bool {
        match self {
            Point::FirstCall => event(line) == "call_started",
            Point::SecondStep => event(line) == "step_started" && line["step"] == 2,
            Point::SlowCall => {
                event(line) == "call_started" && line["input"].as_str().is_some_and(|input| input.contains(SLOW))
            }
            Point::Ask => event(line) == "ask",
            Point::Retry => event(line) == "retry",
            Point::LongText => event(line) == "text_delta" && line["text"].as_str().is_some_and(|text| text == "That "),
        }
    }
}

/// A message, and what became of it.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) text: String,
    pub(super) steers: bool,
    /// The id that its receipt names, where one was seen.
    pub(super) receipt: Option<String>,
}

/// A kill, and what it met.
pub(super) struct Kill {
    /// The tape as it was then, one entry each.
    pub(super) tape: Vec<Value>,
    /// How many requests the server had got.
    pub(super) requests: usize,
    /// The ids of the messages that had been acknowledged.
    pub(super) acknowledged: Vec<String>,
}

/// All that a round left behind.
pub(super) struct Facts {
    pub(super) sent: Vec<Sent>,
    pub(super) kills: Vec<Kill>,
    pub(super) bodies: Vec<String>,
    pub(super) tape: Vec<Value>,
    pub(super) counter: String,
    /// How the life that was not killed ended: its code, its last line, its stderr.
    pub(super) code: Option<i32>,
    pub(super) last: Value,
    pub(super) stderr: String,
    /// How `tape verify` ended, and what it said.
    pub(super) verified: (Option<i32>, String),
}

/// What a round does; all of it follows from the seed and the target.
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) target: Target,
    /// Messages by the point at which they are sent: what their delivery is.
    messages: Vec<(Point, Value)>,
    /// Which request, of those that are made.
    nth_request: usize,
    lines_until_kill: usize,
    delay_ms: usize,
    /// Whether the second life is killed as well.
    twice: bool,
    retry_after_ms: Option<u64>,
    /// Variables for the first life.
    pub(super) variables: Vec<(&'static str, &'static str)>,
    /// Changes the tape after the kill; for controls.
    pub(super) tamper: Option<fn(&Path, &Facts)>,
}

impl Plan {
    pub(super) fn new(seed: u64, target: Target) -> Plan {
        let mut rng = Rng::new(seed);
        let steer = |steering: &str| json!({"delivery": "steer", "steering": steering});
        let mut messages = Vec::new();
        for point in POINTS {
            for _ in 0..rng.weighted(&[(3, 0), (5, 1), (2, 2)]) {
                // What would close the target before it is met is sent elsewhere.
                let own = match target {
                    Target::Request | Target::Any => false,
                    Target::Call => point == Point::SlowCall,
                    Target::Ask => !matches!(point, Point::FirstCall | Point::SecondStep),
                    Target::Retry => point == Point::Retry,
                };
                let delivery = match rng.weighted(&[(3, 0), (3, 1), (1, 2), (1, 3)]) {
                    1 if !own => steer("skip_remaining"),
                    2 if !own => steer("finish_batch"),
                    3 if !own => steer("abort_running"),
                    _ => json!({"delivery": "queue"}),
                };
                messages.push((point, delivery));
            }
        }
        let delay_ms_max = match target {
            Target::Request => 90,
            Target::Call => 450,
            Target::Ask => 120,
            Target::Retry => 250,
            Target::Any => 60,
        };
        Plan {
            seed,
            target,
            messages,
            nth_request: 1 + rng.below(6),
            lines_until_kill: 4 + rng.below(70),
            delay_ms: rng.below(delay_ms_max),
            twice: rng.percent(30),
            retry_after_ms: rng.percent(50).then_some(400),
            variables: Vec::new(),
            tamper: None,
        }
    }

    /// With one message, and a kill so long after the slow command began.
    pub(super) fn simple(seed: u64, delay_ms: usize) -> Plan {
        let mut plan = Plan::new(seed, Target::Call);
        plan.messages = vec![(Point::SlowCall, json!({"delivery": "queue"}))];
        plan.delay_ms = delay_ms;
        plan.twice = false;
        plan
    }

    /// Carries it out.
    pub(super) fn run(&self) -> Facts {
        let folder = taped::folder();
        let home = folder.path();
        std::fs::create_dir(home.join("work")).unwrap();
        std::fs::write(home.join("work/NOTES.md"), "The gong is in the cellar.\n").unwrap();
        std::fs::write(home.join("work/more.txt"), "More.\n").unwrap();
        let rule = json!({"permission": "bash", "pattern": format!("*{ASKED}*"), "action": "ask"});
        std::fs::write(home.join("rules"), format!("{rule}\n")).unwrap();
        let story = Story::start(self.seed, self.retry_after_ms);
        Round { plan: self, home, story, mark: Mark::new(), rng: Rng::new(!self.seed), facts: Facts::none() }.run()
    }
}

impl Facts {
    fn none() -> Facts {
        Facts {
            sent: Vec::new(),
            kills: Vec::new(),
            bodies: Vec::new(),
            tape: Vec::new(),
            counter: String::new(),
            code: None,
            last: Value::Null,
            stderr: String::new(),
            verified: (None, String::new()),
        }
    }
}

struct Round<'p> {
    plan: &'p Plan,
    home: &'p Path,
    story: Story,
    mark: Mark,
    rng: Rng,
    facts: Facts,
}

impl Round<'_> {
    fn run(mut self) -> Facts {
        let url = self.story.url();
        let run =
            ["run", "--json", "--session", "it", "--permission", "auto", "--rules", "rules", "--workspace", "work"];
        let run = [&run[..], &["--store", "store", "--model", "openai/gpt-4o", "--base-url", &url, PROMPT]].concat();
        let resume = ["resume", "it", "--json", "--store", "store", "--base-url", &url];
        let mut ended = self.live(&run, 0);
        for life in 1..LIVES_MAX {
            if ended {
                break;
            }
            ended = self.live(&resume, life);
        }
        self.facts.bodies = self.story.bodies();
        self.facts.tape = self.tape();
        self.facts.counter = std::fs::read_to_string(self.home.join("work/counter")).unwrap_or_default();
        self.facts.verified = once(&["tape", "verify", "--store", "store"], self.home, &self.mark);
        self.facts
    }

    fn tape(&self) -> Vec<Value> {
        let (code, text) = once(&["tape", "show", "it", "--json", "--store", "store"], self.home, &self.mark);
        assert_eq!(code, Some(0), "seed {}: {text}", self.plan.seed);
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// One life of the process. Says whether it came to its own end.
    fn live(&mut self, arguments: &[&str], life: usize) -> bool {
        let variables = if life == 0 { &self.plan.variables[..] } else { &[] };
        let mut process = Tamtam::start(arguments, self.home, &self.mark, variables);
        let first = self.facts.sent.len();
        let (mut lines, mut requests) = (0, 0);
        // The second life is killed after its first lines, for those are its recovery.
        let (is_killed, lines_max, delay) = match life {
            0 => (true, self.plan.lines_until_kill, self.plan.delay_ms),
            1 => (self.plan.twice, 1 + self.rng.below(20), self.rng.below(60)),
            _ => (false, 0, 0),
        };
        let mut reached = Vec::new();
        while let Some(line) = process.next() {
            lines += 1;
            requests += usize::from(event(&line) == "step_started");
            if life == 0 {
                for point in POINTS.into_iter().filter(|point| point.is(&line)) {
                    if !reached.contains(&point) {
                        reached.push(point);
                        self.send_at(point, &mut process);
                    }
                }
            } else if lines == 2 && self.plan.seed.is_multiple_of(3) {
                self.send(json!({"delivery": "queue"}), &mut process);
            }
            let met = match (life, self.plan.target) {
                (0, Target::Request) => requests == self.plan.nth_request,
                (0, Target::Call) => Point::SlowCall.is(&line),
                (0, Target::Ask) => Point::Ask.is(&line),
                (0, Target::Retry) => Point::Retry.is(&line),
                _ => lines >= lines_max,
            };
            if is_killed && met {
                std::thread::sleep(Duration::from_millis(delay as u64));
                if process.runs() {
                    self.killed(process, first);
                    return false;
                }
            }
            if event(&line) == "ask" {
                std::thread::sleep(Duration::from_millis(self.rng.below(40) as u64));
                process.say(&json!({"answer": {"ask": line["ask"], "grant": "once"}}));
            }
        }
        let ended = process.end();
        self.take_receipts(&ended.lines, first);
        self.facts.code = ended.code;
        self.facts.last = ended.lines.last().cloned().unwrap_or_default();
        self.facts.stderr = ended.stderr;
        true
    }

    fn killed(&mut self, process: Tamtam, first: usize) {
        let lines = process.kill();
        // The watcher ends what the calls had started; the test does not wait for it, but ends it by its mark.
        self.mark.end_all();
        self.story.settle();
        self.take_receipts(&lines, first);
        let acknowledged = self.facts.sent.iter().filter_map(|sent| sent.receipt.clone()).collect();
        let kill = Kill { tape: self.tape(), requests: self.story.bodies().len(), acknowledged };
        self.facts.kills.push(kill);
        if let Some(tamper) = self.plan.tamper {
            tamper(self.home, &self.facts);
        }
    }

    fn send_at(&mut self, point: Point, process: &mut Tamtam) {
        let plan = self.plan;
        for (_, delivery) in plan.messages.iter().filter(|(at, _)| *at == point) {
            self.send(delivery.clone(), process);
        }
    }

    fn send(&mut self, mut command: Value, process: &mut Tamtam) {
        let text = format!("message {} of round {}", self.facts.sent.len(), self.plan.seed);
        let steers = command["delivery"] == "steer";
        command["send"] = json!(text);
        process.say(&command);
        self.facts.sent.push(Sent { text, steers, receipt: None });
    }

    /// The commands of a life are answered in their order.
    fn take_receipts(&mut self, lines: &[Value], first: usize) {
        let replies = lines.iter().filter(|line| line["reply"]["command"] == "send");
        for (reply, sent) in replies.zip(&mut self.facts.sent[first..]) {
            sent.receipt = reply["reply"]["message"].as_str().map(str::to_owned);
        }
    }
}
