//! The facts about a session without an index: read from its tape on demand.

use crate::{
    kernel::Digest,
    ops::listing::ListedSession,
    tape::{Entry, TapeError, TapeStore, TapeStoreExt as _},
    words::ids::{Seq, SessionId},
};

/// Adds what the entries say. One that cannot be read is listed all the same, as what is known beside its tape.
pub(super) fn fill(store: &dyn TapeStore, listed: &mut ListedSession) -> Result<(), TapeError> {
    match read(store, &listed.session.clone(), listed) {
        Err(TapeError::Damaged(_) | TapeError::Missing { .. } | TapeError::Newer { .. }) => Ok(()),
        read => read,
    }
}

fn read(store: &dyn TapeStore, session: &SessionId, listed: &mut ListedSession) -> Result<(), TapeError> {
    let forked = store.forked_from(session)?;
    let forked_at = forked.as_ref().map_or(Seq::ZERO, |forked| forked.seq);
    let own = store.read(session, forked_at)?;
    listed.entries = Some(own.len() as u64);
    listed.take(&digest(own.iter()));
    listed.goes_on_from(forked.as_ref().map(|forked| &forked.parent));
    listed.forks = store.forks_of(session)?.len() as u64;
    if forked_at > Seq::ZERO && listed.lacks_something() {
        let all = store.read(session, Seq::ZERO)?;
        listed.inherit(&digest(all.iter().take_while(|entry| entry.seq <= forked_at)));
    }
    Ok(())
}

fn digest<'e>(entries: impl Iterator<Item = &'e Entry>) -> Digest {
    let mut digest = Digest::default();
    entries.for_each(|entry| digest.take(entry));
    digest
}
