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
    session::{
        Abort, Adopt, AnswerAsk, BeAdopted, BeginAnchor, Command, Compact, Configure, EditMessage, End, Entry,
        GiveUpBranch, GoOn, HandOff, Input, LeaveBranch, Merge, NoSummary, Orphan, Outcome, Pause, PinMessage, Record,
        RecordRestored, ReplyTo, Report, Resume, RollBack, SendMessage, Spawn, State, StopTask, SumUpBranch,
        UndoCompaction, UnpinMessage, WithdrawMessage,
    },
    usage::Usage,
};

/// Tokens that may have been thrown away of one answer, at most: no model writes so many.
const THROWN_AWAY_MAX: u64 = 4_000_000;

/// Nobody waits for the answers of a replay.
const NOBODY: ReplyTo = ReplyTo(0);

/// The signals that may have written these entries, the likeliest first. Not empty, unless the entries are.
pub(super) fn signals(state: &State, entries: &[Entry]) -> Vec<Input> {
    // Said in front of whatever was decided: a host has other rules than the one before.
    let entries = match entries {
        [Entry { record: Record::HostRules { .. }, .. }, rest @ ..] if !rest.is_empty() => rest,
        all => all,
    };
    let Some(head) = entries.first() else { return Vec::new() };
    let ticket = head.ticket.unwrap_or(head.seq);
    let mut likely = by_head(state, head, ticket);
    if let [Input::Command { command: Command::RollBack(RollBack { files, summary, .. }), .. }] = &mut likely[..] {
        // What went with it stands behind it.
        for entry in &entries[1..] {
            match &entry.record {
                Record::Restored(restored) => *files = Some(restored.clone()),
                Record::BranchSummary(branch) => *summary = Some(branch.clone()),
                _ => {}
            }
        }
    }
    // What follows from the state alone: from time that passed, or from a start after a crash.
    for signal in [Input::Timer, Input::Recover] {
        if !likely.contains(&signal) {
            likely.push(signal);
        }
    }
    likely
}

fn by_head(state: &State, head: &Entry, ticket: Seq) -> Vec<Input> {
    let reply = NOBODY;
    let parent = state.origin.as_ref().map(|origin| (origin.parent.clone(), origin.ticket));
    let stop_task = |why: &str| {
        let (parent, ticket) = parent.clone()?;
        Some(StopTask { parent, ticket, why: why.to_owned() }.to(reply))
    };
    match &head.record {
        Record::State(state) => anchors(state),
        Record::Settings(settings) => vec![Configure { before: None, settings: settings.clone() }.to(reply)],
        Record::Accepted { message, delivery } => {
            vec![SendMessage { message: (**message).clone(), delivery: *delivery, expect_turn: None }.to(reply)]
        }
        Record::Edited { message } => vec![EditMessage { message: (**message).clone() }.to(reply)],
        Record::Withdrawn { id } => {
            [WithdrawMessage { id: id.clone() }.to(reply)].into_iter().chain(stop_task("")).collect()
        }
        Record::Granted { grant } => vec![AnswerAsk { ask: ticket, grant: grant.clone() }.to(reply)],
        Record::Ending { outcome: Outcome::Aborted { reason }, .. } => {
            [Abort { reason: reason.clone() }.to(reply)].into_iter().chain(stop_task(reason)).collect()
        }
        // An abort that met no turn, or one that was ending: only children are told of it.
        Record::Closing {} => {
            [Abort { reason: String::new() }.to(reply)].into_iter().chain(stop_task("")).collect()
        }
        Record::Released {} => vec![GoOn.to(reply)],
        Record::Restored(files) => vec![RecordRestored { files: files.clone() }.to(reply)],
        Record::CompactionUndone(undone) => vec![UndoCompaction { undone: undone.clone() }.to(reply)],
        Record::BranchOpened(open) => vec![SumUpBranch { request: Box::new(open.clone()) }.to(reply)],
        Record::BranchFailed { error, usage, estimated, lost } => {
            let why = Box::new(NoSummary { error: error.clone(), usage: *usage, estimated: *estimated });
            vec![GiveUpBranch { ticket, why, lost: *lost }.to(reply)]
        }
        Record::BranchSummary(branch) => vec![LeaveBranch { branch: branch.clone() }.to(reply)],
        Record::Pinned { message } => vec![PinMessage { message: message.clone() }.to(reply)],
        Record::Unpinned { message } => vec![UnpinMessage { message: message.clone() }.to(reply)],
        Record::RolledBack(back) => {
            vec![RollBack { back: back.clone(), files: None, summary: None }.to(reply)]
        }
        Record::Merged(merged) => vec![Merge { merged: merged.clone() }.to(reply)],
        Record::Paused {} => vec![Pause.to(reply)],
        Record::Resumed {} => vec![Resume.to(reply)],
        Record::Compaction(_) => vec![Compact.to(reply)],
        Record::Compacted(compacted) => {
            let summary = compacted.summary.clone().map(|summary| (summary, compacted.usage));
            let lost = compacted.lost;
            summary.map(|summary| Report::Summarised { result: Ok(summary), lost }.of(ticket)).into_iter().collect()
        }
        Record::CompactionFailed { error, usage, estimated, lost } => {
            let none = NoSummary { error: error.clone(), usage: *usage, estimated: *estimated };
            vec![Report::Summarised { result: Err(none), lost: *lost }.of(ticket)]
        }
        Record::TaskStarted { child, link, order, .. } => {
            let (child, link) = (child.clone(), *link);
            vec![match order {
                Some(order) => Spawn { child, order: Box::new((**order).clone()), link }.to(reply),
                None => Adopt { child, link }.to(reply),
            }]
        }
        Record::TaskFinished { down, .. } => vec![Report::TaskDown { down: (**down).clone() }.of(ticket)],
        Record::TaskLeft {} => vec![Report::TaskLeft.of(ticket)],
        Record::Ended { why } => vec![End { reason: why.clone() }.to(reply)],
        Record::Orphaned { why } => {
            let told = |(parent, ticket)| Orphan { parent, ticket, why: why.clone() }.to(reply);
            parent.map(told).into_iter().collect()
        }
        Record::Adopted { tie, above } => vec![BeAdopted { tie: tie.clone(), above: above.clone() }.to(reply)],
        Record::Narrowed { above } => {
            let origin = state.origin.as_ref().map(|origin| crate::session::Tie {
                parent: origin.parent.clone(),
                ticket: origin.ticket,
                link: origin.link,
                depth: origin.depth,
                grant: state.settings.budget.session,
            });
            origin.map(|tie| BeAdopted { tie, above: above.clone() }.to(reply)).into_iter().collect()
        }
        Record::Recovered { .. } => vec![Input::Recover],
        Record::Answer { answer, interrupted: false, .. } => {
            vec![Report::Answered { answer: (**answer).clone() }.of(ticket)]
        }
        Record::Answer { answer, interrupted: true, estimated } => {
            vec![Report::CutOff { partial: arrived(answer, estimated.as_ref()) }.of(ticket)]
        }
        Record::RequestFailed { error, .. } => vec![Report::Failed { error: error.clone() }.of(ticket)],
        Record::Result { result, .. } => vec![Report::Returned { result: (**result).clone() }.of(ticket)],
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
fn anchors(state: &State) -> Vec<Input> {
    let name = state.anchor.as_ref().map(|mark| mark.name.clone());
    let handed_over = |summary| name.clone().map(|name| HandOff { name, summary }.to(NOBODY));
    let with_summary = state.context.summary.clone().map(Some);
    [BeginAnchor.to(ReplyTo::NOBODY)]
        .into_iter()
        .chain(handed_over(None))
        .chain(with_summary.and_then(handed_over))
        .collect()
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

/// An input in a few words.
pub(super) fn in_words(input: &Input) -> String {
    match input {
        Input::Command { command, .. } => command.in_words(),
        Input::Recover => "recovery after a crash".to_owned(),
        Input::Timer => "time passed".to_owned(),
        Input::Report { ticket, report } => match report {
            Report::Answered { .. } => format!("request {ticket} was answered"),
            Report::Failed { .. } => format!("request {ticket} failed"),
            Report::CutOff { .. } => format!("request {ticket} was cut off"),
            Report::Returned { .. } => format!("call {ticket} returned"),
            Report::Summarised { result: Ok(_), .. } => format!("the summary of compaction {ticket} came"),
            Report::Summarised { result: Err(_), .. } => format!("compaction {ticket} failed"),
            Report::TaskDown { .. } => format!("the child of task {ticket} is down"),
            Report::TaskLeft => format!("the child of task {ticket} knows that it is an orphan"),
        },
    }
}
