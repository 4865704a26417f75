//! Budgets: limits by chance, and the law that nothing new is begun beyond them.
//!
//! Providers and children are honest: they use no more than was reserved for them. Then no decision, crash or torn write lets
//! `spent + reserved` pass a limit; what was above one before (it was lowered, or a merge brought what was spent already) only
//! becomes less.

use tamtam::{
    kernel::{Budget, Charge, Entry, Limits, OnBreach, Open, Record, Resource, Spent, State},
    model::{Cost, MicroUsd, PicoUsd, Price, Prices, Usage},
    session::Down,
};

use super::{Broken, hold, rng::Rng};

/// A millionth of a dollar for a token read, five for one written.
pub(super) fn price() -> Option<Price> {
    Some(Price::new(MicroUsd(1_000_000), MicroUsd(5_000_000)))
}

/// What the session's model costs, and a cheap one.
pub(super) fn prices() -> Prices {
    let mut prices = Prices::default();
    prices.set("fake/model".parse().unwrap(), Price::new(MicroUsd(1_000_000), MicroUsd(5_000_000)));
    prices.set("fake/cheap".parse().unwrap(), Price::new(MicroUsd(10_000), MicroUsd(50_000)));
    prices
}

/// Limits of which most are none.
fn limits(rng: &mut Rng, percent: usize) -> Limits {
    let mut limits = Limits::default();
    let amounts: [(Resource, [u64; 3]); 6] = [
        (Resource::Tokens, [400, 2_000, 20_000]),
        (Resource::Usd, [300_000_000, 3_000_000_000, 40_000_000_000]),
        (Resource::TimeMs, [500, 10_000, 300_000]),
        (Resource::Calls, [1, 3, 9]),
        (Resource::Tasks, [0, 1, 3]),
        (Resource::Bytes, [10, 60, 100_000]),
    ];
    for (resource, amounts) in amounts {
        if rng.percent(percent) {
            limits.set(resource, Some(rng.pick(&amounts)));
        }
    }
    limits
}

/// A budget: in most schedules there is none.
pub(super) fn budget(rng: &mut Rng) -> Budget {
    if rng.percent(60) {
        return Budget::default();
    }
    let on_breach =
        rng.pick(&[OnBreach::Ask, OnBreach::Ask, OnBreach::Stop, OnBreach::Model("fake/cheap".parse().unwrap())]);
    Budget { session: limits(rng, 30), turn: limits(rng, 15), on_breach }
}

/// What a parent granted.
pub(super) fn grant(rng: &mut Rng) -> Option<Limits> {
    rng.percent(40).then(|| limits(rng, 30))
}

/// What a child asks for.
pub(super) fn asked(rng: &mut Rng) -> Limits {
    if rng.percent(70) { Limits::default() } else { limits(rng, 20) }
}

/// By how much a person raises limits: often not the one that was asked about.
pub(super) fn raise(rng: &mut Rng) -> Limits {
    limits(rng, 60)
}

/// A child gives account of no more than it was granted, with what is out with its own children; or of nothing.
pub(super) fn with_account(rng: &mut Rng, mut down: Down, grant: &Limits) -> Down {
    if rng.percent(30) {
        return down;
    }
    let mut part = |resource| grant.of(resource).map_or(3, |granted| rng.below(granted as usize / 2 + 1) as u64);
    let cost = Cost::of(Some(PicoUsd(part(Resource::Usd))));
    let usage = Usage { output: part(Resource::Tokens), ..Usage::default() };
    let (calls, tasks, bytes) = (part(Resource::Calls), part(Resource::Tasks), part(Resource::Bytes));
    down.spent = Some(Spent { requests: 1, usage, cost, calls, tasks, bytes, ..Spent::default() });
    if rng.percent(20) {
        down.lent = Limits::each(|resource| grant.of(resource).map(|granted| granted / 2));
    }
    down
}

/// What is spent and reserved of one thing, of the session and its tree: of its limits, and of its grant.
fn taken(state: &State, resource: Resource) -> (u64, u64) {
    let own = state.spent.of(resource) + state.spent_by_tasks.of(resource);
    let used = own + state.account.written_off.of(resource).unwrap_or(0);
    let of_grant = used.saturating_sub(state.account.base_used.of(resource).unwrap_or(0));
    let reserved: u64 = state.open.values().map(|open| reserved_for(open, resource)).sum();
    (used + reserved, of_grant + reserved)
}

/// The same, of the running turn.
fn taken_by_turn(state: &State, resource: Resource) -> Option<(u64, u64)> {
    let turn = state.turn.as_ref()?;
    let own = state.open.values().filter(|open| matches!(open, Open::Request(_) | Open::Call(_)));
    let reserved: u64 = own.map(|open| reserved_for(open, resource)).sum();
    Some((turn.id.0, turn.spent.of(resource) + reserved))
}

fn reserved_for(open: &Open, resource: Resource) -> u64 {
    let of = |charge: Charge| match resource {
        Resource::Tokens => charge.usage.total(),
        Resource::Usd => charge.cost.known.0,
        _ => 0,
    };
    match open {
        Open::Request(open) => of(open.reserved.lost(open.price.as_ref())),
        Open::Compaction(open) => of(open.reserved.lost(open.price.as_ref())),
        Open::Branch(open) => of(open.reserved.lost(open.price.as_ref())),
        Open::Call(call) if resource == Resource::Bytes => call.bytes.unwrap_or(0),
        Open::Task(task) => task.grant.of(resource).unwrap_or(0),
        _ => 0,
    }
}

/// Promise 9: no decision takes more than a limit allows, of whichever thing. Time runs by itself, and is looked at elsewhere.
pub(super) fn reserved(before: &State, entries: &[Entry], after: &State) -> Result<(), Broken> {
    let brings = |entry: &Entry| matches!(entry.record, Record::Merged(_) | Record::Adopted { .. } | Record::State(_));
    // A turn that waits keeps its request, and what was reserved for it is spent: it is not made again before that fits.
    if after.waits || before.waits || entries.iter().any(brings) {
        return Ok(());
    }
    // The same is so for a request that was made before there was a limit: nothing was reserved for its answer.
    let unlimited = before.open.values().any(|open| match open {
        Open::Request(open) => open.reserved.output == 0,
        Open::Compaction(open) => open.reserved.output == 0,
        Open::Branch(open) => open.reserved.output == 0,
        Open::Call(call) => call.bytes.is_none(),
        _ => false,
    });
    for resource in [Resource::Tokens, Resource::Usd, Resource::Calls, Resource::Tasks, Resource::Bytes] {
        if unlimited && resource != Resource::Calls && resource != Resource::Tasks {
            continue;
        }
        // A limit that is set later does not reach children that were begun without one.
        if before.tasks().any(|(_, task)| task.grant.of(resource).is_none()) {
            continue;
        }
        let ((was, was_of_grant), (is, is_of_grant)) = (taken(before, resource), taken(after, resource));
        let limit = after.settings.budget.session.of(resource).unwrap_or(u64::MAX);
        hold!(is <= limit || is <= was, "{is} {resource} are taken of {limit}, and were {was}");
        let granted = after.account.grant.and_then(|grant| grant.of(resource)).unwrap_or(u64::MAX);
        hold!(
            is_of_grant <= granted || is_of_grant <= was_of_grant,
            "{is_of_grant} {resource} are taken of a grant of {granted}, and were {was_of_grant}"
        );
        let (Some((turn, is)), before) = (taken_by_turn(after, resource), taken_by_turn(before, resource)) else {
            continue;
        };
        let was = before.filter(|(id, _)| *id == turn).map_or(0, |(_, was)| was);
        let limit = after.turn.as_ref().and_then(|turn| turn.limits.of(resource)).unwrap_or(u64::MAX);
        hold!(is <= limit || is <= was, "{is} {resource} are taken of the turn's {limit}, and were {was}");
    }
    // What is reserved for children is what they may use: together no more than there is.
    let granted = |resource| after.tasks().filter_map(|(_, task)| task.grant.of(resource)).sum::<u64>();
    for resource in [Resource::Tokens, Resource::Usd, Resource::Calls] {
        let (limit, new) = (after.settings.budget.session.of(resource), after.open.len() > before.open.len());
        hold!(
            !new || limit.is_none_or(|limit| granted(resource) <= limit)
                || granted(resource) <= taken(before, resource).0,
            "children were granted more {resource} than there are"
        );
    }
    Ok(())
}
