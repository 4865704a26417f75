//! `tamtam abort ID`: gives up the open turn of a session that no process runs.
//!
//! The abort is the first command of the session's next incarnation: it is in the mailbox before the tape is opened. So nothing of
//! the turn starts again, every open call and question gets its result, and the session rests. What that takes of a full disk is the
//! reserve of the store, which is a kind of room that no other work gets.
//!
//! A change must keep this: no model is asked and no tool runs; and where the disk does not take the abort, the command says what it
//! refused and how much is free, ends 1, and has changed nothing.

use std::{path::Path, time::Duration};

use tamtam::{
    EventKind, Runtime, SessionId,
    session::Next,
    tape::{TapeError, TapeStoreExt as _},
    tool::truncate::format_bytes,
};

use super::{
    arguments::{AbortArguments, remote::ServerArguments},
    branch,
    environment::Environment,
    escape,
    failure::{Exit, Failure},
    print, remote, tapes,
};

/// How many sessions `doctor` names.
const SHOWN_MAX: usize = 5;

/// How long the end of an aborted turn is waited for: no worker runs, so only the disk can hold it up.
const END_WAIT: Duration = Duration::from_secs(10);

/// The room on a disk that the end of a turn takes at most, with the files by which the store is opened: that of the reserve.
const ROOM: usize = 64 * 1024;

/// Carries out the command.
pub(super) async fn abort(given: &AbortArguments, environment: &Environment) -> Result<Exit, Failure> {
    if given.at.is_some() {
        let server = ServerArguments { at: given.at.clone(), token: given.token.clone() };
        return remote::abort(&given.session, given.reason.as_deref(), &server, environment).await;
    }
    let (store, id) = (environment.store(given.store.store.as_deref())?, &given.session);
    let before = tapes::state(&store, id)?.ok_or_else(|| TapeError::Missing { session: id.clone() })?;
    if before.is_idle() && before.turn.is_none() {
        return print(&format!("session {id} has no open turn\n"));
    }
    let runtime = branch::start(&store, None, environment).await.map_err(|failure| with_room(failure, &store))?;
    let given_up = give_up(&runtime, id, given.reason.as_deref().unwrap_or("given up by `tamtam abort`")).await;
    drop(runtime.shutdown().await);
    match given_up? {
        None => print(&format!(
            "session {id}: its turn is given up; `tamtam resume {id}` goes on with it, `tamtam tape delete {id}` removes it\n"
        )),
        Some(why) => {
            let why = format!("the turn of session {id} is still open: {why}: free some space, then abort it again");
            Err(with_room(Failure::failed(why), &store))
        }
    }
}

/// The failure, and how much room is missing on a full disk.
fn with_room(mut failure: Failure, store: &Path) -> Failure {
    let free = rustix::fs::statvfs(store).map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize));
    if let Some(free) = free.ok().and_then(|free| usize::try_from(free).ok()).filter(|free| *free < ROOM) {
        let (free, enough) = (format_bytes(free), format_bytes(ROOM));
        failure.message.push_str(&format!("; {free} are free, {enough} are enough"));
    }
    failure
}

/// Aborts the turn and waits for its end. `Some` says why the disk did not take it.
async fn give_up(runtime: &Runtime, id: &SessionId, reason: &str) -> Result<Option<String>, Failure> {
    let session = runtime.session(id);
    let mut events = session.events();
    if session.abort(reason).await?.recorded {
        // The tape has the wish; the results of what was open follow it.
        let ended = session.wait();
        return match tokio::time::timeout(END_WAIT, ended).await {
            Ok(ended) => ended.map(|_| None).map_err(Failure::from),
            Err(_) => Ok(Some(refused(&mut events).await)),
        };
    }
    Ok(Some(refused(&mut events).await))
}

/// What the disk has refused last.
async fn refused(events: &mut tamtam::EventStream) -> String {
    let mut why = "the disk does not take its end".to_owned();
    while let Ok(Some(next)) = tokio::time::timeout(Duration::ZERO, events.next()).await {
        if let Next::Event(event) = next
            && let EventKind::StorageFailed { error } = &event.kind
        {
            why.clone_from(error);
        }
    }
    why
}

/// The sessions whose turn was cut off, as a line of `tamtam doctor`: nobody runs them, and the next step is a person's.
pub(super) fn cut_off(store: &Path) -> String {
    let named = || {
        let Some(store) = tapes::open(store)? else { return Ok(Vec::new()) };
        let claimed = store.claimed_sessions()?;
        let mut open = store.open_sessions()?;
        open.retain(|session| !claimed.contains(session));
        Ok::<_, TapeError>(open)
    };
    match named() {
        Ok(sessions) if sessions.is_empty() => "all are over, or are worked on".to_owned(),
        Ok(sessions) => {
            let shown: Vec<_> = sessions.iter().take(SHOWN_MAX).map(SessionId::as_str).collect();
            let more = match sessions.len() - shown.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!(
                "cut off in {}{more}: `tamtam resume ID` finishes one, `tamtam abort ID` gives it up",
                escape::line(&shown.join(", "))
            )
        }
        Err(error) => format!("no: they cannot be looked at: {error}"),
    }
}
