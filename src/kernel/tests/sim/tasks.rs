//! Child sessions: each is a tape of its own, so it lives on when its parent's process dies; only the watch over it dies.

use std::collections::BTreeMap;

use tamtam::{
    Message, Seq, SessionId,
    kernel::{
        BeAdopted, Down, DownReason, Entry, Link, Open, Origin, Orphan, Record, Report, Spawn, State, StopChild,
        StopLevel, StopTask, TaskOrder, Tie,
    },
    model::Item,
};

use super::{Broken, budgets, hold, host::Wish, world::World};

/// The children of the session, and the watchers over them.
#[derive(Debug, Default)]
pub(super) struct Family {
    /// Each child that was made, and how its task ended.
    children: BTreeMap<SessionId, Option<Down>>,
    watchers: BTreeMap<Seq, (SessionId, StopLevel)>,
    spawned: u32,
}

impl Family {
    pub(super) fn forget_watchers(&mut self) {
        self.watchers.clear();
    }

    pub(super) fn watches(&self, ticket: Seq) -> bool {
        self.watchers.contains_key(&ticket)
    }

    pub(super) fn is_watching(&self) -> bool {
        !self.watchers.is_empty()
    }

    /// Calm: every child comes to its end.
    pub(super) fn all_end(&mut self) {
        for end in self.children.values_mut() {
            end.get_or_insert_with(|| Down::without_a_word(DownReason::Done));
        }
    }
}

/// The origin of a session that is a child itself: its task is the first message.
pub(crate) fn origin() -> Origin {
    Origin {
        parent: "parent".parse().unwrap(),
        ticket: Seq(7),
        link: Link::LINKED,
        depth: 0,
        prompt: "m0".into(),
        terms: Default::default(),
        orphaned: None,
        end: None,
    }
}

/// A task ends once, and what happens afterwards does not change how.
pub(super) fn one_end(before: &State, after: &State) -> Result<(), Broken> {
    let end = |state: &State| state.origin.as_ref().and_then(|origin| origin.end.clone());
    let (was, is) = (end(before), end(after));
    hold!(was.is_none() || was == is, "the session's task ended twice: {was:?}, then {is:?}");
    Ok(())
}

/// No more children work than may; no more tasks wait than may; the first that came is the first that begins, as soon as there is
/// room; and one that was ended while it waited was told to nobody.
pub(super) fn within_the_width(before: &State, entries: &[Entry], after: &State) -> Result<(), Broken> {
    let begun = |state: &State| state.tasks().filter(|(_, task)| !task.queued).count();
    let settings = &after.settings;
    // A width that was lowered stops nobody.
    let width = settings.task_width_max.max(before.settings.task_width_max).max(begun(before));
    hold!(begun(after) <= width, "{} tasks have begun, and {width} may", begun(after));
    let is_spawn = entries.iter().any(|entry| matches!(entry.record, Record::TaskStarted { .. }));
    let (was, is) = (before.tasks_queued(), after.tasks_queued());
    hold!(!is_spawn || is <= before.settings.task_queue_max.max(was), "{is} tasks wait");
    let room = begun(after) < settings.task_width_max;
    hold!(is == 0 || !room || after.paused, "{is} tasks wait although there is room");
    hold!(is == 0 || after.closed.is_none(), "{is} tasks wait for a parent that has ended");
    let waiting = after.tasks().find(|(_, task)| task.queued).map(|(ticket, _)| ticket);
    let overtook = after.tasks().find(|(ticket, task)| !task.queued && Some(*ticket) > waiting);
    hold!(waiting.is_none() || overtook.is_none(), "{overtook:?} overtook task {waiting:?}");
    for (ticket, task) in after.tasks().filter(|(_, task)| task.queued) {
        hold!(task.stop_level == StopLevel::Run, "task {ticket} waits and was told {:?}", task.stop_level);
        hold!(!before.open.contains_key(&ticket) || before.is_queued(ticket), "task {ticket} waits again");
    }
    Ok(())
}

/// Of a fork only its own entries count: what its parent waited for is its parent's.
///
/// At rest the session's own task has ended, where it was ever given to it; and its model was told once of each DOWN that it is
/// to be told of, where the session has not ended before that.
pub(super) fn over(state: &State, entries: &[Entry], inherited: usize) -> Result<(), Broken> {
    for entry in &entries[inherited..] {
        let Record::TaskFinished { notice: Some(notice), .. } = &entry.record else { continue };
        let is_it = |item: &Item| matches!(item, Item::User(user) if user.id == notice.id);
        // News of a fork's children may have the same name, and stands there because it was merged.
        let merged = entries.iter().any(|entry| match &entry.record {
            Record::Merged(merged) => merged.items.iter().any(|item| is_it(item)),
            _ => false,
        });
        if merged {
            continue;
        }
        let times = state.history.iter().filter(|item| is_it(item)).count();
        let taken_back = super::back::taken_back(entries, &notice.id);
        hold!(
            times == 1 || (times == 0 && (taken_back || state.closed.is_some())),
            "the model was told {times} times of {}",
            notice.id
        );
    }
    let Some(origin) = &state.origin else { return Ok(()) };
    let given = state.seen.get(&origin.prompt).is_some();
    hold!(!given || origin.end.is_some(), "at rest, and its parent would never hear of it");
    Ok(())
}

impl World {
    pub(super) fn spawn(&mut self) -> Result<(), Broken> {
        let open: Vec<_> = self.state.tasks().map(|(ticket, _)| ticket).collect();
        if !open.is_empty() && self.rng.percent(15) {
            let ticket = self.rng.pick(&open);
            let reply = self.host.wish(Wish::Other);
            return self.signal(&StopChild { ticket, why: "enough".into() }.to(reply));
        }
        // Now and then the same again: whoever asks may not have heard the answer.
        if self.rng.percent(80) {
            self.family.spawned += 1;
        }
        let child = format!("child-{}", self.family.spawned).parse().unwrap();
        let (mut settings, prompt) = ((*self.state.settings).clone(), Message::user("help").with_id("p".into()));
        settings.above.clear();
        // What it asks for, or nothing in particular.
        settings.budget.session = budgets::asked(&mut self.rng);
        let mut order = Box::new(TaskOrder::new(settings, prompt));
        let soon = std::time::Duration::from_millis(self.rng.below(5_000) as u64);
        order.terms.deadline = self.rng.percent(20).then(|| self.state.time.plus(soon));
        let link = self.rng.pick(&[Link::LINKED, Link::MONITORED, Link::ATTACHED, Link::DETACHED]);
        let reply = self.host.wish(Wish::Other);
        self.signal(&Spawn { child, order, link }.to(reply))
    }

    /// A child comes to its end by itself.
    pub(super) fn child_ends(&mut self) {
        let open: Vec<_> =
            self.family.children.iter().filter(|(_, end)| end.is_none()).map(|(id, _)| id.clone()).collect();
        if open.is_empty() {
            return;
        }
        let (child, text) = (self.rng.pick(&open), format!("words {}", self.rng.below(100)));
        let reason = self.rng.pick(&[DownReason::Done, DownReason::Failed { error: "no".into() }, DownReason::Parked]);
        let mut down = Down::without_a_word(reason);
        down.text = text.into();
        self.family.children.insert(child, Some(down));
    }

    /// The parent of this session says something to it, in or out of turn.
    pub(super) fn parent_speaks(&mut self) -> Result<(), Broken> {
        let parent =
            self.state.origin.as_ref().map_or_else(|| "nobody".parse().unwrap(), |origin| origin.parent.clone());
        let ticket = self.rng.pick(&[Seq(7), Seq(8)]);
        let why = "enough".to_owned();
        let reply = self.host.wish(Wish::Other);
        let signal = match self.rng.below(3) {
            0 => {
                self.host.may_withdraw("m0");
                StopTask { parent, ticket, why }.to(reply)
            }
            1 => Orphan { parent, ticket, why }.to(reply),
            _ => {
                let tie = Tie {
                    parent: "other".parse().unwrap(),
                    ticket,
                    link: Link::MONITORED,
                    depth: 0,
                    grant: Default::default(),
                };
                BeAdopted { tie, above: Vec::new(), next: None }.to(reply)
            }
        };
        self.signal(&signal)
    }

    /// The shell watches over a child, and makes it where it is not there.
    pub(super) fn see_to_task(&mut self, ticket: Seq) -> Result<(), Broken> {
        let Some(Open::Task(task)) = self.state.open.get(&ticket) else { return Ok(()) };
        let (child, stop_level) = (task.child.clone(), task.stop_level);
        hold!(!task.queued, "child {child} is started and its task waits for room");
        hold!(self.is_written(ticket), "child {child} is started and its parent's tape does not have it");
        if stop_level == StopLevel::Run {
            self.family.children.entry(child.clone()).or_default();
        }
        self.family.watchers.insert(ticket, (child, stop_level));
        Ok(())
    }

    /// Stops do not wait for the tape, and may come before the start: then there is nothing to stop.
    pub(super) fn stop_task(&mut self, ticket: Seq) {
        if let Some(Open::Task(task)) = self.state.open.get(&ticket) {
            let (_, stop_level) = self.family.watchers.entry(ticket).or_insert((task.child.clone(), StopLevel::Stop));
            *stop_level = (*stop_level).max(StopLevel::Stop);
        }
    }

    /// Watchers are told what is on the tape by now; of a task that is over, nobody is watched.
    pub(super) fn tell_watchers(&mut self) {
        let open = &self.state.open;
        self.family.watchers.retain(|ticket, _| open.contains_key(ticket));
        for (ticket, task) in self.state.tasks() {
            if let Some((_, stop_level)) = self.family.watchers.get_mut(&ticket) {
                *stop_level = (*stop_level).max(task.stop_level);
            }
        }
    }

    /// Each open task has its watcher, or a report of it waits; nobody watches over anything else.
    pub(super) fn everyone_is_watched(&self) -> Result<(), Broken> {
        for (ticket, task) in self.state.tasks() {
            if task.queued {
                let exists = self.family.children.contains_key(&task.child) || self.family.watches(ticket);
                hold!(!exists, "{} is there, and task {ticket} waits for room", task.child);
                continue;
            }
            let watched = self.family.watchers.get(&ticket).map(|(_, stop_level)| *stop_level);
            let reported = self.mailbox.has_report(ticket);
            hold!(watched.is_some() || reported, "nobody watches over {} of task {ticket}", task.child);
            hold!(watched >= Some(task.stop_level) || reported, "{} was not told {:?}", task.child, task.stop_level);
        }
        Ok(())
    }

    /// A watcher reports, where it has something to say.
    pub(super) fn watcher_reports(&mut self) -> Result<(), Broken> {
        let watchers: Vec<_> =
            self.family.watchers.iter().map(|(ticket, watched)| (*ticket, watched.clone())).collect();
        if watchers.is_empty() {
            return Ok(());
        }
        let (ticket, (child, stop_level)) = self.rng.pick(&watchers);
        let grant = match self.state.open.get(&ticket) {
            Some(Open::Task(task)) => task.grant,
            _ => Default::default(),
        };
        let end = self.family.children.get_mut(&child);
        let why = "its parent".to_owned();
        let down = match (end, stop_level) {
            (Some(_), StopLevel::Leave) => None,
            (Some(Some(down)), _) => Some(down.clone()),
            (Some(None), StopLevel::Run) => return Ok(()),
            (Some(end), StopLevel::Stop) => Some(end.insert(Down::without_a_word(DownReason::Aborted { why })).clone()),
            (Some(end), StopLevel::End) => Some(end.insert(Down::without_a_word(DownReason::Ended { why })).clone()),
            (None, _) => Some(Down::without_a_word(DownReason::Aborted { why: "never made".into() })),
        };
        self.family.watchers.remove(&ticket);
        match down.map(|down| budgets::with_account(&mut self.rng, down, &grant)) {
            Some(down) => self.signal(&Report::TaskDown { down }.of(ticket)),
            None => self.signal(&Report::TaskLeft.of(ticket)),
        }
    }
}
