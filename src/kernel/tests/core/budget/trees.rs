//! The law of budgets: whatever happens in a tree of tasks, all of it together uses no more than its root may, and each of its
//! branches no more than was granted. Random trees through the real core: prompts, answers, calls, children, crashes, lost
//! children.

use tamtam::{
    Message, Millis, Seq,
    kernel::{
        Delivery, Down, DownReason, Env, GoOn, Input, Limits, Link, OnBreach, Origin, ReplyTo, Report, Resource,
        SendMessage, Spawn, State, TaskOrder, decide,
    },
    model::{AnswerPart, ModelAnswer, PicoUsd, Prices, Usage},
    permission::Globs,
    session::Finish,
    tool::{ToolResult, Toolbox},
};

use super::{
    super::{
        play::{Known, call, settings, text},
        tools,
    },
    DEAR, model,
};

/// What is divided among the tasks of a tree.
const DIVIDED: [Resource; 5] = [Resource::Tokens, Resource::Usd, Resource::Calls, Resource::Tasks, Resource::Bytes];

/// A small generator: the same seed is the same tree.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below.max(1)
    }

    fn maybe(&mut self, limit: u64) -> Option<u64> {
        (self.roll(3) > 0).then(|| self.roll(limit))
    }
}

struct World {
    toolbox: Toolbox,
    globs: Globs,
    prices: Prices,
}

/// A session of the tree.
struct Node {
    state: State,
    parent: Option<(usize, Seq)>,
    /// Whether its parent was told how it ended.
    told: bool,
}

impl World {
    fn signal(&self, state: &mut State, signal: &Input) -> usize {
        let known = Known { window: tamtam::kernel::context::Window::new(200_000, 8_192), prices: &self.prices };
        let env = Env {
            globs: &self.globs,
            host_rules: None,
            tools_tokens: 0,
            permissions: &Default::default(),
            windows: &known,
            toolbox_hash: "tools",
            asks_are_heard: false,
            jitter: 0.5,
        };
        let signal = crate::kernel::tests::core::tools::told(&self.toolbox, state, signal);
        let decision = decide(state, &[signal], &env, Millis(state.time.0 + 1));
        *state = decision.after;
        decision.entries.len()
    }
}

fn limits(dice: &mut Dice) -> Limits {
    Limits {
        tokens: dice.maybe(90_000),
        usd: dice.maybe(900_000_000_000).map(PicoUsd),
        calls: dice.maybe(20),
        tasks: dice.maybe(6),
        bytes: dice.maybe(200_000),
        time_ms: None,
    }
}

fn root(dice: &mut Dice) -> Node {
    let mut settings = settings();
    settings.budget.session = limits(dice);
    settings.budget.on_breach = OnBreach::Stop;
    (settings.task_depth_max, settings.task_width_max) = (3, 3);
    Node { state: State::new("root".parse().unwrap(), settings, Millis(1)), parent: None, told: false }
}

/// One thing that happens to a session of the tree.
fn step(world: &World, nodes: &mut Vec<Node>, dice: &mut Dice) {
    let at = dice.roll(nodes.len() as u64) as usize;
    let reply = ReplyTo(0);
    let request = nodes[at].state.request().map(|(ticket, request)| (ticket, request.reserved));
    let running: Vec<_> = nodes[at].state.calls().map(|(ticket, _)| ticket).collect();
    match dice.roll(10) {
        0 => {
            world.signal(&mut nodes[at].state, &Input::recover());
        }
        1 => spawn(world, nodes, at, dice),
        2 if nodes[at].parent.is_some() && !nodes[at].told && dice.roll(3) == 0 => {
            tell(world, nodes, at, Down::without_a_word(DownReason::Parked));
        }
        _ if nodes[at].state.waits => {
            world.signal(&mut nodes[at].state, &GoOn.to(reply));
        }
        _ => match request {
            Some((ticket, reserved)) => {
                // No provider uses more than what was held back; most use less.
                let most = if reserved.output == 0 { 2_000 } else { reserved.output };
                let usage =
                    Usage { input: 1 + dice.roll(reserved.input), output: dice.roll(most + 1), ..Usage::default() };
                let parts: Vec<AnswerPart> = match dice.roll(3) {
                    0 => vec![text("fine")],
                    calls => (0..calls).map(|n| call(&format!("c{n}"), "read", "{}")).collect(),
                };
                let finish = if parts.len() == 1 && matches!(parts[0], AnswerPart::Text { .. }) {
                    Finish::Stop
                } else {
                    Finish::ToolCalls
                };
                let mut answer = ModelAnswer::new(parts, finish);
                answer.usage = usage;
                world.signal(&mut nodes[at].state, &Report::Answered { answer, calls: Vec::new() }.of(ticket));
            }
            None => match running.first() {
                Some(ticket) => {
                    let result = ToolResult::ok("x".repeat(dice.roll(60_000) as usize));
                    world.signal(&mut nodes[at].state, &Report::Returned { result }.of(*ticket));
                }
                None => {
                    let message = Message::user("go");
                    let (delivery, expect_turn) = (Delivery::Queue, None);
                    world.signal(
                        &mut nodes[at].state,
                        &SendMessage { message, delivery, expect_turn, agent: None, added: 0 }.to(reply),
                    );
                }
            },
        },
    }
    let end = nodes[at].state.origin.as_ref().and_then(|origin| origin.end.clone());
    if let Some(end) = end {
        tell(world, nodes, at, (*end).clone());
    }
}

fn spawn(world: &World, nodes: &mut Vec<Node>, at: usize, dice: &mut Dice) {
    let id: tamtam::SessionId = format!("n{}", nodes.len()).parse().unwrap();
    let mut wanted = nodes[at].state.settings.as_ref().clone();
    wanted.budget.session = if dice.roll(2) == 0 { limits(dice) } else { Limits::default() };
    let names_some = !wanted.budget.session.is_none();
    let prompt = Message::user("help").with_id("p".into());
    let order = Box::new(TaskOrder::new(wanted, prompt.clone()));
    let (child, reply) = (id.clone(), ReplyTo(0));
    if world.signal(&mut nodes[at].state, &Spawn { child, order, link: Link::DETACHED }.to(reply)) == 0 {
        return;
    }
    let (ticket, task) = nodes[at].state.tasks().last().map(|(ticket, task)| (ticket, task.clone())).unwrap();
    // A child that names no amount can make its first request, which writes up to 1,024 tokens.
    let can_ask = |limit: Option<u64>, least| names_some || limit.is_none_or(|limit| limit > least);
    assert!(
        can_ask(task.grant.tokens, 1_024) && can_ask(task.grant.usd.map(|usd| usd.0), 1_024 * 10_000_000),
        "{task:?}"
    );
    let mut state = State::new(id, task.order.unwrap().settings.clone(), Millis(1));
    state.begin_with_grant(&task.grant);
    state.origin = Some(std::sync::Arc::new(Origin {
        parent: nodes[at].state.session.clone(),
        ticket,
        link: Link::DETACHED,
        depth: task.depth,
        prompt: "p".into(),
        terms: Default::default(),
        orphaned: None,
        end: None,
    }));
    let (delivery, expect_turn, reply) = (Delivery::Queue, None, ReplyTo(0));
    world.signal(&mut state, &SendMessage { message: prompt, delivery, expect_turn, agent: None, added: 0 }.to(reply));
    nodes.push(Node { state, parent: Some((at, ticket)), told: false });
}

/// The parent hears of the end, once. The child may go on all the same.
fn tell(world: &World, nodes: &mut [Node], at: usize, down: Down) {
    let Some((parent, ticket)) = nodes[at].parent.filter(|_| !nodes[at].told) else { return };
    nodes[at].told = true;
    world.signal(&mut nodes[parent].state, &Report::TaskDown { down }.of(ticket));
}

/// What a session and all below it have really used.
fn used(nodes: &[Node], at: usize, resource: Resource) -> u64 {
    let below = nodes.iter().enumerate().filter(|(_, node)| node.parent.is_some_and(|(parent, _)| parent == at));
    nodes[at].state.spent.of(resource) + below.map(|(child, _)| used(nodes, child, resource)).sum::<u64>()
}

fn holds(nodes: &[Node], seed: u64) {
    for (at, node) in nodes.iter().enumerate() {
        let own = node.state.settings.budget.session;
        let limit = own.or_less(&node.state.account.grant.unwrap_or_default());
        for resource in DIVIDED {
            let Some(max) = limit.of(resource) else { continue };
            let used = used(nodes, at, resource);
            assert!(used <= max, "seed {seed}: session {at} used {used} of {max} {resource:?}");
        }
    }
}

/// Promise 9, must show 7: 10,000 random trees, and none uses more than its root may, at any moment.
#[test]
fn ten_thousand_random_trees_never_overspend() {
    let mut prices = Prices::default();
    prices.set(model("fake/model"), DEAR);
    let world = World { toolbox: tools::toolbox(), globs: Globs::default(), prices };
    let (mut sessions, mut stopped, mut granted) = (0, 0, 0);
    for seed in 0..10_000 {
        let mut dice = Dice(seed);
        let mut nodes = vec![root(&mut dice)];
        for _ in 0..24 {
            step(&world, &mut nodes, &mut dice);
            holds(&nodes, seed);
        }
        sessions += nodes.len();
        granted += nodes.iter().filter(|node| node.state.account.grant.is_some()).count();
        let broke =
            |node: &&Node| node.state.ended.iter().any(|end| matches!(end.outcome, tamtam::Outcome::Budget { .. }));
        stopped += nodes.iter().filter(broke).count();
    }
    // The law is only worth something where limits are reached and grants are given.
    assert!(sessions > 13_000 && granted > 3_500 && stopped > 3_000, "{sessions} {granted} {stopped}");
}
