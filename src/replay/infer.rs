//! Which signal wrote the entries of one append.
//!
//! Nearly always the first entry says it: `accepted` follows from a send, `answer` from the model's report, `recovered` from a
//! start. Where more than one signal begins so, all are tried in the order in which they are likely, and the one that gives
//! what stands there is the one that it was; two that give the same are the same to the tape.
//!
//! What only the shell knew is taken from the entry: the words of a message, an answer, a result, an error, a reason. Of a
//! summary that was refused only the refusal is known, and the reason of an abort that met no turn is not written anywhere.

use crate::{
    context::of_item,
    ids::Seq,
    message::Span,
    model::{Answer, AnswerPart, Item},
    session::{Delivery, Entry, Grant, NoSummary, Outcome, Record, ReplyTo, Signal, State},
    usage::Usage,
};

/// Tokens that may have been thrown away of one answer, at most: no model writes so many.
const THROWN_AWAY_MAX: u64 = 4_000_000;

/// Nobody waits for the answers of a replay.
const NOBODY: ReplyTo = ReplyTo(0);

/// The signals that may have written these entries, the likeliest first. Not empty, unless the entries are.
pub(super) fn signals(state: &State, entries: &[Entry]) -> Vec<Signal> {
    // Said in front of whatever was decided: a host has other rules than the one before.
    let entries = match entries {
        [Entry { record: Record::HostRules { .. }, .. }, rest @ ..] if !rest.is_empty() => rest,
        all => all,
    };
    let Some(head) = entries.first() else { return Vec::new() };
    let ticket = head.ticket.unwrap_or(head.seq);
    let mut likely = by_head(state, head, ticket);
    if let [Signal::RollBack { files, summary, .. }] = &mut likely[..] {
        // What went with it stands behind it.
        for entry in &entries[1..] {
            match &entry.record {
                Record::Restored(restored) => *files = Some(restored.clone()),
                Record::BranchSummary(branch) => *summary = Some(branch.clone()),
                _ => {}
            }
        }
    }
    if let [report] = &likely[..]
        && is_report(report)
    {
        likely.push(Signal::Left(Box::new(report.clone())));
    }
    // What follows from the state alone: from time that passed, or from a start after a crash.
    for signal in [Signal::Tick, Signal::Recover] {
        if !likely.contains(&signal) {
            likely.push(signal);
        }
    }
    likely
}

fn by_head(state: &State, head: &Entry, ticket: Seq) -> Vec<Signal> {
    let reply = NOBODY;
    let parent = state.origin.as_ref().map(|origin| (origin.parent.clone(), origin.ticket));
    let stop_task = |why: &str| {
        let (parent, ticket) = parent.clone()?;
        Some(Signal::StopTask { parent, ticket, why: why.to_owned(), reply })
    };
    match &head.record {
        Record::State(state) => anchors(state),
        Record::Settings(settings) => vec![Signal::Configure { before: None, settings: settings.clone(), reply }],
        Record::Accepted { message, delivery } => {
            vec![Signal::Send { message: (**message).clone(), delivery: *delivery, expect_turn: None, reply }]
        }
        Record::Edited { message } => vec![Signal::Edit { message: (**message).clone(), reply }],
        Record::Withdrawn { id } => {
            [Signal::Withdraw { id: id.clone(), reply }].into_iter().chain(stop_task("")).collect()
        }
        Record::Granted { grant } => vec![Signal::Answer { ask: ticket, grant: grant.clone(), reply }],
        Record::Ending { outcome: Outcome::Aborted { reason }, .. } => {
            [Signal::Abort { reason: reason.clone(), reply }].into_iter().chain(stop_task(reason)).collect()
        }
        // An abort that met no turn, or one that was ending: only children are told of it.
        Record::Closing {} => {
            [Signal::Abort { reason: String::new(), reply }].into_iter().chain(stop_task("")).collect()
        }
        Record::Released {} => vec![Signal::GoOn { reply }],
        Record::Restored(files) => vec![Signal::Restored { files: files.clone(), reply }],
        Record::CompactionUndone(undone) => vec![Signal::UndoCompaction { undone: undone.clone(), reply }],
        Record::BranchOpened(open) => vec![Signal::SumUpBranch { request: Box::new(open.clone()), reply }],
        Record::BranchFailed { error, usage, estimated, lost } => {
            let why = Box::new(NoSummary { error: error.clone(), usage: *usage, estimated: *estimated });
            vec![Signal::BranchFailed { ticket, why, lost: *lost, reply }]
        }
        Record::BranchSummary(branch) => vec![Signal::LeaveBranch { branch: branch.clone(), reply }],
        Record::Pinned { message } => vec![Signal::Pin { message: message.clone(), reply }],
        Record::Unpinned { message } => vec![Signal::Unpin { message: message.clone(), reply }],
        Record::RolledBack(back) => {
            vec![Signal::RollBack { back: back.clone(), files: None, summary: None, reply }]
        }
        Record::Merged(merged) => vec![Signal::Merge { merged: merged.clone(), reply }],
        Record::Paused {} => vec![Signal::Pause { reply }],
        Record::Resumed {} => vec![Signal::Resume { reply }],
        Record::Compaction(_) => vec![Signal::Compact { reply }],
        Record::Compacted(compacted) => {
            let summary = compacted.summary.clone().map(|summary| (summary, compacted.usage));
            let lost = compacted.lost;
            summary.map(|summary| Signal::Summarised { ticket, result: Ok(summary), lost }).into_iter().collect()
        }
        Record::CompactionFailed { error, usage, estimated, lost } => {
            let none = NoSummary { error: error.clone(), usage: *usage, estimated: *estimated };
            vec![Signal::Summarised { ticket, result: Err(none), lost: *lost }]
        }
        Record::TaskStarted { child, link, order, .. } => {
            let (child, link) = (child.clone(), *link);
            vec![match order {
                Some(order) => Signal::Spawn { child, order: Box::new((**order).clone()), link, reply },
                None => Signal::Adopt { child, link, reply },
            }]
        }
        Record::TaskFinished { down, .. } => vec![Signal::TaskDown { ticket, down: (**down).clone() }],
        Record::TaskLeft {} => vec![Signal::TaskLeft { ticket }],
        Record::Ended { why } => vec![Signal::End { reason: why.clone(), reply }],
        Record::Orphaned { why } => {
            let told = |(parent, ticket)| Signal::Orphan { parent, ticket, why: why.clone(), reply };
            parent.map(told).into_iter().collect()
        }
        Record::Adopted { tie, above } => vec![Signal::Adopted { tie: tie.clone(), above: above.clone(), reply }],
        Record::Narrowed { above } => {
            let origin = state.origin.as_ref().map(|origin| crate::session::Tie {
                parent: origin.parent.clone(),
                ticket: origin.ticket,
                link: origin.link,
                depth: origin.depth,
                grant: state.settings.budget.session,
            });
            origin.map(|tie| Signal::Adopted { tie, above: above.clone(), reply }).into_iter().collect()
        }
        Record::Recovered { .. } => vec![Signal::Recover],
        Record::Answer { answer, interrupted: false, .. } => {
            vec![Signal::Answered { ticket, answer: (**answer).clone() }]
        }
        Record::Answer { answer, interrupted: true, estimated } => {
            vec![Signal::CutOff { ticket, partial: arrived(answer, estimated.as_ref()) }]
        }
        Record::RequestFailed { error, .. } => vec![Signal::Failed { ticket, error: error.clone() }],
        Record::Result { result, .. } => vec![Signal::Returned { ticket, result: (**result).clone() }],
        // These never come first by a signal of their own; what follows from the state alone is tried.
        Record::Delivered { .. }
        | Record::Request(_)
        | Record::RetryWait { .. }
        | Record::Call(_)
        | Record::Ask { .. }
        | Record::BudgetAsk { .. }
        // These are made beside the core.
        | Record::Forked(_)
        | Record::Imported(_)
        | Record::AskClosed { .. }
        | Record::CallStarted { .. }
        | Record::Ending { .. }
        | Record::TurnFinished { .. }
        | Record::HostRules { .. }
        | Record::Pruned { .. } => Vec::new(),
    }
}

/// What may have begun an anchor: a compaction that is over, or a host, with a summary or without.
fn anchors(state: &State) -> Vec<Signal> {
    let name = state.anchor.as_ref().map(|mark| mark.name.clone());
    let handed_over = |summary| name.clone().map(|name| Signal::Handoff { name, summary, reply: NOBODY });
    let with_summary = state.context.summary.clone().map(Some);
    [Signal::Anchor].into_iter().chain(handed_over(None)).chain(with_summary.and_then(handed_over)).collect()
}

/// What had arrived of an answer that was cut off: the text that was kept, and a thought as long as what was thrown away, of
/// which only the tokens were written down.
fn arrived(answer: &Answer, estimated: Option<&Usage>) -> Vec<AnswerPart> {
    let mut parts = answer.parts.clone();
    let kept = of_item(&Item::Assistant(answer.clone()));
    let lost = estimated.map_or(0, |usage| usage.output.saturating_sub(kept)).min(THROWN_AWAY_MAX);
    if let Some(letters) = usize::try_from(lost).ok().filter(|lost| *lost > 0).map(|lost| lost * 4) {
        parts.push(AnswerPart::Reasoning { text: "?".repeat(letters), time: Span::default(), extra: None });
    }
    parts
}

/// Whether it may have been left by an earlier life of the session, and recorded before its recovery.
fn is_report(signal: &Signal) -> bool {
    matches!(
        signal,
        Signal::Answered { .. }
            | Signal::Failed { .. }
            | Signal::CutOff { .. }
            | Signal::Returned { .. }
            | Signal::Summarised { .. }
            | Signal::TaskDown { .. }
            | Signal::TaskLeft { .. }
    )
}

/// What the tape wrote and no decision, in a few words.
pub(super) fn beside_the_core(record: &Record) -> Option<String> {
    match record {
        Record::Forked(forked) => Some(format!("forked from session {} after entry {}", forked.parent, forked.seq)),
        Record::Imported(imported) => {
            Some(format!("brought in from a file of session {} after entry {}", imported.from, imported.last))
        }
        _ => None,
    }
}

/// A signal in a few words.
pub(super) fn in_words(signal: &Signal) -> String {
    match signal {
        Signal::Left(report) => format!("{}, left by an earlier life", in_words(report)),
        Signal::Send { message, delivery, .. } => match delivery {
            Delivery::Queue => format!("message {} was sent", message.id),
            Delivery::Steer(_) => format!("message {} was sent to steer", message.id),
            Delivery::Reject => format!("message {} was sent to an idle session", message.id),
        },
        Signal::Edit { message, .. } => format!("message {} was edited", message.id),
        Signal::Withdraw { id, .. } => format!("message {id} was withdrawn"),
        Signal::Answer { ask, grant, .. } => match grant {
            Grant::Once => format!("ask {ask} was granted once"),
            Grant::Always(_) => format!("ask {ask} was granted for more than once"),
            Grant::Reject(_) => format!("ask {ask} was rejected"),
            Grant::Raise(_) => format!("ask {ask} was answered with a higher limit"),
        },
        Signal::Abort { .. } => "abort".to_owned(),
        Signal::GoOn { .. } => "go on".to_owned(),
        Signal::Restored { .. } => "files were put back".to_owned(),
        Signal::UndoCompaction { undone, .. } => format!("compaction {} was undone", undone.compaction),
        Signal::Pin { message, .. } => format!("message {message} was pinned"),
        Signal::Unpin { message, .. } => format!("message {message} was unpinned"),
        Signal::RollBack { back, .. } => format!("back to entry {}", back.to),
        Signal::Merge { merged, .. } => format!("fork {} was merged through entry {}", merged.fork, merged.to),
        Signal::SumUpBranch { .. } => "a branch was to be summed up".to_owned(),
        Signal::BranchFailed { ticket, .. } => format!("the summary of branch {ticket} failed"),
        Signal::LeaveBranch { branch, .. } => {
            format!("the branch of entries {} to {} was left", branch.from, branch.to)
        }
        Signal::Pause { .. } => "pause".to_owned(),
        Signal::Resume { .. } => "the pause is over".to_owned(),
        Signal::Written { .. } => "somebody waited for the tape".to_owned(),
        Signal::Configure { .. } => "the settings were changed".to_owned(),
        Signal::Compact { .. } => "a compaction was asked for".to_owned(),
        Signal::Anchor => "an anchor".to_owned(),
        Signal::Handoff { name, .. } => format!("a handoff to {name}"),
        Signal::Summarised { ticket, result: Ok(_), .. } => format!("the summary of compaction {ticket} came"),
        Signal::Summarised { ticket, result: Err(_), .. } => format!("compaction {ticket} failed"),
        Signal::Spawn { child, .. } => format!("child {child} was spawned"),
        Signal::Adopt { child, .. } => format!("session {child} was adopted"),
        Signal::End { .. } => "the session was ended".to_owned(),
        Signal::StopTask { parent, .. } => format!("parent {parent} stopped the task"),
        Signal::Orphan { parent, .. } => format!("parent {parent} has ended"),
        Signal::Adopted { tie, .. } => format!("parent {} said what it may not do", tie.parent),
        Signal::Recover => "recovery after a crash".to_owned(),
        Signal::Answered { ticket, .. } => format!("request {ticket} was answered"),
        Signal::Failed { ticket, .. } => format!("request {ticket} failed"),
        Signal::CutOff { ticket, .. } => format!("request {ticket} was cut off"),
        Signal::Returned { ticket, .. } => format!("call {ticket} returned"),
        Signal::TaskDown { ticket, .. } => format!("the child of task {ticket} is down"),
        Signal::TaskLeft { ticket } => format!("the child of task {ticket} knows that it is an orphan"),
        Signal::Tick => "time passed".to_owned(),
    }
}
