//! `tamtam tape rollback`, `fork` and `merge`: commands that change a conversation or branch off from it, and start no turn. Parts
//! of them serve `tape grants`, `tape delete` and `replay`.
//!
//! A rollback needs its session at rest, and a merge the session that receives the messages; both start a runtime that resumes no
//! session by itself. A fork needs no runtime, and its parent may be running in another process. A rollback with `--files` changes
//! nothing without `--yes`.
//!
//! A change must keep this: only the summary of a rollback asks a model, because nobody expects these commands to cost money. On
//! every other path the model is an empty script.

use std::{fmt::Write as _, path::Path, sync::Arc};

use tamtam::{
    MessageId, Millis, Runtime, SendError, Seq, SessionId,
    model::Scripted,
    ops::RestoreError,
    runtime::Kind,
    session::{BranchError, BranchSummary, Merge, NoPoint, Point, Refusal, Rollback, RollbackOptions, State, fork_at},
    tape::{Deleted, Store, TapeError, TapeStore as _, TapeStoreExt as _},
};

use super::{
    arguments::{BeforeArguments, ForkArguments, MergeArguments, RollbackArguments},
    environment::Environment,
    escape,
    failure::{Exit, Failure},
    models, print,
    progress::Progress,
    restore,
    sessions::count,
    tapes,
};

/// Carries out `rollback`: takes a conversation back to a point.
pub(super) async fn rollback(
    given: &RollbackArguments,
    store: &Path,
    environment: &Environment,
) -> Result<Exit, Failure> {
    let id = &given.id;
    if given.model.samples() {
        return Err(Failure::usage("--thinking, --temperature and --top-p say nothing of a summary: leave them out"));
    }
    let state = resting(store, id)?;
    let models = match given.summary {
        true => Some(summariser(given, &state, environment).await?),
        false if given.model.model.is_some() || given.model.base_url.is_some() => {
            return Err(Failure::usage("--model and --base-url need --summary: only a summary asks a model"));
        }
        false => None,
    };
    let runtime = start(store, models, environment).await?;
    let said = go_back(&runtime, given).await;
    drop(runtime.shutdown().await);
    let (mut said, back) = said?;
    if let Some(back) = back.filter(|back| back.summary) {
        said.push_str(&summed_up(store, id, back.entry)?);
    }
    print(&escape::text(&said))
}

/// The model that writes the summaries of the session. Naming another model is a usage error, unless it is a script.
async fn summariser(
    given: &RollbackArguments,
    state: &State,
    environment: &Environment,
) -> Result<models::Choice, Failure> {
    let settings = &state.settings;
    let sums_up = settings.compaction.model.as_ref().unwrap_or(&settings.model);
    let choice = models::choose(&given.model, Some(sums_up), environment).await?;
    let is_script = given.model.model.as_ref().is_some_and(|named| named.starts_with("scripted:"));
    if choice.model != *sums_up && !is_script {
        let id = &given.id;
        return Err(Failure::usage(format!(
            "{sums_up} writes the summaries of session {id}: leave --model out; `tamtam resume {id} --model {}` changes the model of the session",
            choice.model
        )));
    }
    Ok(choice)
}

/// The summary of the abandoned messages, in words; empty if there is none.
fn summed_up(store: &Path, id: &SessionId, back: Seq) -> Result<String, Failure> {
    let entries = tapes::open_for(store, id)?.read(id, back)?;
    let summary = entries.iter().find(|entry| entry.kind == "branch_summary");
    let summary = summary.and_then(|entry| serde_json::from_str::<BranchSummary>(entry.data.get()).ok());
    Ok(summary.map_or_else(String::new, |BranchSummary { summary, request, usage, .. }| {
        let by = match request {
            Some(request) if usage.total() > 0 || request.estimated.is_some() => format!("by {}", request.model),
            _ => "made of the first words of its messages, because no model could write one".to_owned(),
        };
        format!("the next turn begins with a summary of the abandoned messages, {by}:\n{}\n", summary.trim_end())
    }))
}

/// Goes back, and says so. With files, the plan for the files comes first; without `--yes` the plan is all, and nothing is changed.
async fn go_back(runtime: &Runtime, given: &RollbackArguments) -> Result<(String, Option<Rollback>), Failure> {
    let id = &given.id;
    let session = runtime.open(id).await?;
    // clap requires one of --to, --message and --turn, so the fallback is never used.
    let point = point(given.to, given.before.clone()).unwrap_or(Point::At(Seq::ZERO));
    let mut said = String::new();
    let mut options = RollbackOptions::new();
    if given.summary {
        options = options.with_summary();
    }
    if given.files {
        let plan = session.plan_rollback(point.clone()).await.map_err(|error| failure(id, error))?;
        said = plan.files.to_string();
        if !given.yes {
            let (gone, again) = (messages("would be undone", &plan.gone), messages("would be restored", &plan.again));
            let would = restore::Work::of(&plan.files, restore::how(given.rest, given.over)).would();
            said.push_str(&format!("\nsession {id} would return to entry {}{gone}{again}\n{would}", plan.to));
            return Ok((said, None));
        }
        said.push('\n');
        options = options.with_files(restore::how(given.rest, given.over));
    }
    let back = session.rollback_with(point, options).await.map_err(|error| failure(id, error))?;
    let (gone, again) = (messages("undone", &back.gone), messages("restored", &back.again));
    // Writing to a String cannot fail.
    let _ = writeln!(said, "session {id} is back at entry {}{gone}{again}", back.to);
    if let Some(files) = &back.files {
        let _ = writeln!(said, "{} restored", count(files.files.len() as u64, "file"));
        for file in &files.refused {
            let _ = writeln!(said, "not changed: {}: {}", escape::line(&file.path), escape::line(&file.why));
        }
    }
    let (before, files) = (back.entry.0 - 1, if given.files { " --files --yes" } else { "" });
    let _ = writeln!(said, "nothing left the tape: `tamtam tape rollback {id} --to {before}{files}` undoes this");
    Ok((said, Some(back)))
}

/// The point that the arguments name.
fn point(entry: Option<u64>, BeforeArguments { message, turn }: BeforeArguments) -> Option<Point> {
    let entry = entry.map(|entry| Point::At(Seq(entry)));
    let message = || message.map(|message| Point::BeforeMessage(message.as_str().into()));
    entry.or_else(message).or_else(|| turn.map(|turn| Point::BeforeTurn(Seq(turn))))
}

/// Carries out `fork`: makes a session that continues from a point of its parent. The parent may be running.
pub(super) fn fork(given: ForkArguments, path: &Path) -> Result<Exit, Failure> {
    make_fork(path, &given.id, point(given.at, given.before).as_ref(), given.fork)
}

/// Makes a fork that continues from the point, or from the newest entry, and prints the id of the fork. Without a point, a damaged
/// tape is forked at the last sound entry before the damage, with a warning.
pub(super) fn make_fork(
    path: &Path,
    id: &SessionId,
    point: Option<&Point>,
    fork: Option<SessionId>,
) -> Result<Exit, Failure> {
    let store = tapes::open_to_change(path, id)?;
    let fork = fork.unwrap_or_else(SessionId::new);
    match point {
        None => {
            let damage = store.sound_end(id)?.damage;
            let from = store.fork(id, None, &fork, Millis::now())?.seq;
            if let Some(damage) = damage {
                Progress::warn(&format!("session {id} is damaged, so the fork continues from entry {from}: {damage}"));
            }
        }
        Some(point) => at(&store, id, point, &fork)?,
    }
    print(&format!("{fork}\n"))
}

fn at(store: &Store, id: &SessionId, point: &Point, fork: &SessionId) -> Result<(), Failure> {
    match fork_at(store, id, point, fork, Millis::now()) {
        // Damage before the point would stop the first process that opens the fork, so the fork is read now.
        Ok(made) => store.read_to(fork, made.entry.next()).map(drop).map_err(|error| unsound(store, fork, error)),
        Err(BranchError::NoPoint(why)) => Err(no_point(id, why)),
        Err(BranchError::Open(error)) => Err(error.into()),
        Err(other) => Err(Failure::failed(other.to_string())),
    }
}

/// The failure for a fork that was made and cannot be read. A damaged one is removed; any other error may pass, so the fork stays.
fn unsound(store: &Store, fork: &SessionId, error: TapeError) -> Failure {
    if error.kind() == Kind::Damaged {
        drop(store.delete(fork));
        return error.into();
    }
    let failure = Failure::from(error);
    Failure { message: format!("fork {fork} is made, but not checked for damage: {}", failure.message), ..failure }
}

/// Carries out `merge`: adds the messages of a fork to the session that it was forked from, or to another one.
pub(super) async fn merge(given: MergeArguments, path: &Path, environment: &Environment) -> Result<Exit, Failure> {
    let MergeArguments { fork, into, delete } = given;
    let forked = tapes::open_for(path, &fork)?.forked_from(&fork)?.ok_or_else(|| {
        Failure::usage(format!("session {fork} is not a fork: `tamtam tape fork` makes a fork of a session"))
    })?;
    let into = into.unwrap_or(forked.parent);
    resting(path, &into)?;
    let runtime = start(path, None, environment).await?;
    let merged = match runtime.open(&into).await {
        Ok(session) if delete => session.merge_and_delete(&fork).await,
        Ok(session) => session.merge(&fork).await,
        Err(error) => Err(error.into()),
    };
    drop(runtime.shutdown().await);
    print(&merged_in_words(&fork, &into, &merged.map_err(|error| unmerged(&into, error))?))
}

fn merged_in_words(fork: &SessionId, into: &SessionId, merge: &Merge) -> String {
    let mut said = match merge.entry {
        Some(entry) => format!(
            "fork {fork} is merged into session {into}: {}, entry {entry}{}\nnothing left a tape: `tamtam tape rollback {into} --to {}` undoes this\n",
            count(merge.items as u64, "item"),
            messages("added", &merge.messages),
            entry.0 - 1,
        ),
        None => format!("nothing to merge: fork {fork} has no new messages since it was made or last merged\n"),
    };
    said.push_str(match merge.deleted {
        Some(Deleted::Hidden) => "the fork is deleted; its tape is removed with the last fork of it\n",
        Some(_) => "the fork is deleted\n",
        None => "",
    });
    said
}

fn unmerged(into: &SessionId, error: BranchError) -> Failure {
    match error {
        BranchError::NotAFork { .. } => Failure::usage(format!("{error}: name another one with --into")),
        BranchError::Busy { ref session, .. } => {
            Failure::failed(format!("{error}; `tamtam resume {session}` finishes it"))
        }
        BranchError::Waiting { ref fork, .. } => {
            Failure::failed(format!("{error}; `tamtam resume {fork}` reads them, or leave out --delete"))
        }
        BranchError::Session(SendError::Refused(Refusal::Ended)) => {
            Failure::failed(format!("session {into} has ended: fork it, and merge into the new fork with --into"))
        }
        other => failure(into, other),
    }
}

fn messages(what: &str, ids: &[MessageId]) -> String {
    match ids {
        [] => String::new(),
        [one] => format!("\n{what}: message {}", escape::line(one.as_str())),
        [first, .., last] => {
            let (first, last) = (escape::line(first.as_str()), escape::line(last.as_str()));
            format!("\n{what}: {} messages, {first} to {last}", ids.len())
        }
    }
}

/// A failure that names the process that has the session open; none if no process has.
fn free(store: &Path, id: &SessionId) -> Result<(), Failure> {
    match tapes::open_to_change(store, id)?.load(id, Arc::new(|_| ())) {
        Err(error @ TapeError::Claimed { .. }) => Err(error.into()),
        _ => Ok(()),
    }
}

/// The state of a session at rest, by its tape. A failure if a turn is open, a message is about to begin one, or a child is at
/// work.
pub(super) fn resting(store: &Path, id: &SessionId) -> Result<State, Failure> {
    let missing = || TapeError::Missing { session: id.clone() };
    let state = tapes::state(store, id)?.ok_or_else(missing)?;
    if state.turn.is_some() || !state.is_idle() || state.tasks().next().is_some() {
        free(store, id)?;
    }
    if state.turn.is_some() || !state.is_idle() {
        return Err(unfinished(id));
    }
    if state.tasks().next().is_some() {
        return Err(Failure::failed(format!(
            "a child of session {id} is still running: `tamtam resume {id}` waits for it"
        )));
    }
    Ok(state)
}

/// The failure of a command that needs a session at rest, with both ways to it.
pub(super) fn unfinished(id: &SessionId) -> Failure {
    Failure::failed(format!(
        "session {id} has an unfinished turn: `tamtam resume {id}` finishes it, `tamtam abort {id}` gives it up"
    ))
}

/// Starts a runtime that resumes no session by itself. Without a model it gets an empty script, so nothing can ask a real model.
pub(super) async fn start(
    store: &Path,
    model: Option<models::Choice>,
    environment: &Environment,
) -> Result<Runtime, Failure> {
    let builder = Runtime::builder().store(store).tools(environment.tools()).without_auto_resume();
    let builder = match model {
        Some(choice) => builder.models(choice.models, choice.model),
        None => builder.model(Arc::new(Scripted::new([]))),
    };
    Ok(builder.start().await?)
}

fn no_point(id: &SessionId, why: NoPoint) -> Failure {
    match why {
        NoPoint::Nothing => Failure::failed(why.to_string()),
        why => Failure::usage(format!("{why}; `tamtam tape show {id}` lists its entries")),
    }
}

fn failure(id: &SessionId, error: BranchError) -> Failure {
    match error {
        BranchError::NoPoint(why) => no_point(id, why),
        BranchError::Session(SendError::Refused(Refusal::Busy { turn })) => {
            Failure::failed(format!("session {id} is busy with turn {turn}: wait until it is over"))
        }
        BranchError::Session(error) => error.into(),
        BranchError::Open(error) => error.into(),
        BranchError::Files(error) if matches!(*error, RestoreError::Refused { .. }) => {
            Failure::failed(format!("{error}: --rest restores the others, --over also those that someone else changed"))
        }
        other => Failure::failed(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tamtam::tape::{Damage, StoreOptions, TapeEntry};

    use super::*;

    #[test]
    fn only_damage_removes_a_fork_that_was_made() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), StoreOptions::default()).unwrap();
        let [parent, fork] = ["parent", "fork"].map(|id| id.parse::<SessionId>().unwrap());
        let data = serde_json::value::to_raw_value("hello").unwrap();
        let (seq, kind) = (Seq(1), "note".to_owned());
        let first = TapeEntry::new(seq, Millis(1), kind, data);
        let mut tape = store.create(&parent, Arc::new(|_| ())).unwrap();
        drop(tape.append(&[first]));
        drop(tape);
        let io = || TapeError::Io {
            op: "read",
            path: folder.path().into(),
            source: Arc::new(std::io::ErrorKind::Interrupted.into()),
        };
        let damaged = || Damage::new(folder.path(), 1, "a checksum that does not fit", Seq(0));
        for (error, stays) in [(io(), true), (TapeError::Damaged(damaged()), false)] {
            store.fork(&parent, Some(Seq(1)), &fork, Millis(2)).unwrap();
            let failure = unsound(&store, &fork, error);
            assert_eq!((store.exists(&fork), failure.message.contains("fork fork is made")), (stays, stays));
            drop(store.delete(&fork));
        }
    }
}
