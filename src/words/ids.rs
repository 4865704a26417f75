//! The names of things: sessions, messages, commands, entries and calls; and moments in time.
//! Each kind of id has its own type, so that one cannot be used in place of another. A new id of a session, message or command is
//! a UUIDv7: unique across processes, and sorted by the time at which it was made. The runtime names its own messages by a word
//! and the number of an entry. `task-` (news of a child) and `branch-` (the summary of a branch) are reserved: a message of a
//! sender under such an id is refused ([`MessageId::is_reserved`]). `compaction-` (the summary of a compaction) and `answer-` (an
//! answer of the model, as it is shown) are not.
//!
//! A change must keep this: all ids and [`Millis`] are stored formats, as text or as a number, transparent in JSON. A session id
//! is the name of a folder, so no path separator and no leading dot may get through. Existing tapes have the two reserved
//! prefixes. Only [`Millis::now`] and the functions that make a new id read a clock, so the core must not call them: a replay
//! would get another value.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};

/// The position of an entry on a session's tape: 1 for the first, then +1 each.
///
/// A [`Seq`] also names what its entry opened: a turn, or a ticket such as a model request or a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    /// The position before the first entry.
    pub const ZERO: Seq = Seq(0);

    /// The next position. It stays at the largest number, which only a forged tape reaches.
    #[must_use]
    pub fn next(self) -> Seq {
        Seq(self.0.saturating_add(1))
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The longest session id, in bytes. It becomes the name of a folder.
pub const SESSION_ID_BYTES_MAX: usize = 64;

/// The longest id or name, in bytes, that a host may choose for something without its own bound: a message, the key of a task, an
/// agent, a model.
pub const NAME_BYTES_MAX: usize = 256;

/// The id of a session.
///
/// Made by [`SessionId::new`], or given by the host: 1 to 64 of `A-Z a-z 0-9 . _ -`, not starting with a dot or a dash,
/// because the id is the name of the session's folder.
///
/// ```
/// use tamtam::SessionId;
/// assert!("ticket-4711".parse::<SessionId>().is_ok());
/// assert!("../elsewhere".parse::<SessionId>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
pub struct SessionId(Arc<str>);

impl SessionId {
    /// A new id that no other session has.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "two calls never give the same value, so there is no default")]
    pub fn new() -> SessionId {
        SessionId(new_uuid().to_string().into())
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text that cannot be a session id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "bad session id {given:?}: use 1 to {SESSION_ID_BYTES_MAX} of A-Z a-z 0-9 . _ - and start with a letter or digit"
)]
#[non_exhaustive]
pub struct BadSessionId {
    /// What was given.
    pub given: String,
}

impl FromStr for SessionId {
    type Err = BadSessionId;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        let starts_well = given.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
        let all_plain = given.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
        if starts_well && all_plain && given.len() <= SESSION_ID_BYTES_MAX {
            Ok(SessionId(given.into()))
        } else {
            Err(BadSessionId { given: given.chars().take(80).collect() })
        }
    }
}

impl TryFrom<String> for SessionId {
    type Error = BadSessionId;

    fn try_from(given: String) -> Result<Self, Self::Error> {
        given.parse()
    }
}

impl From<SessionId> for String {
    fn from(id: SessionId) -> String {
        id.0.as_ref().to_owned()
    }
}

macro_rules! text_id {
    ($(#[$doc:meta])* $vis:vis $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(transparent)]
        $vis struct $name(Arc<str>);

        impl $name {
            /// The id as text.
            #[must_use]
            #[allow(dead_code, reason = "not every id is read as a text")]
            $vis fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                $name(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                $name(text.into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_id! {
    /// The id of a message. The sender may choose it: 1 to 256 bytes. The same id sent again is the same message, and gets the same
    /// receipt; a session remembers the newest 4,096 ids. A [reserved](MessageId::is_reserved) id is refused.
    pub MessageId
}

text_id! {
    /// The id of a command. A command that comes again under its id is not done again: its sender gets the first result. A
    /// session remembers the ids of its newest 64 commands.
    pub(crate) CommandId
}

text_id! {
    /// The id that a model gave to one of its tool calls; unique within one answer only.
    pub CallId
}

impl CommandId {
    /// A new id that no other command has.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "two calls never give the same value, so there is no default")]
    pub(crate) fn new() -> CommandId {
        CommandId(new_uuid().to_string().into())
    }
}

impl MessageId {
    /// A new id that no other message has.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "two calls never give the same value, so there is no default")]
    pub fn new() -> MessageId {
        MessageId(new_uuid().to_string().into())
    }

    /// Whether only the runtime may give this id: `task-`, `branch-` or `hooks-`, and a number. The runtime gives such ids to its own
    /// messages (news of a child, the summary of a branch, what hooks say at the start of a turn), and recognizes them by the id.
    ///
    /// ```
    /// use tamtam::MessageId;
    /// assert!(MessageId::from("task-7").is_reserved());
    /// assert!(!MessageId::from("task-7a").is_reserved());
    /// ```
    #[must_use]
    pub fn is_reserved(&self) -> bool {
        self.is_of_task() || self.is_of_branch() || self.is_of_hooks()
    }

    /// Whether the id is one of the runtime's: news of a child, or a summary. The id alone proves nothing: a sender may choose an
    /// id like that of a compaction's summary.
    #[cfg(feature = "_wire")]
    pub(crate) fn is_of_runtime(&self) -> bool {
        self.is_reserved() || is_numbered(&self.0, "compaction-")
    }

    /// The id of the message with the news of a child, by the task's ticket.
    pub(crate) fn of_task(ticket: Seq) -> MessageId {
        MessageId(format!("{TASK}{ticket}").into())
    }

    /// The id of the message with the summary of a branch, by the entry that recorded it.
    pub(crate) fn of_branch(entry: Seq) -> MessageId {
        MessageId(format!("{BRANCH}{entry}").into())
    }

    /// The id of the message with what hooks said at the start of a turn, by the entry that recorded it.
    pub(crate) fn of_hooks(entry: Seq) -> MessageId {
        MessageId(format!("{HOOKS}{entry}").into())
    }

    pub(crate) fn is_of_task(&self) -> bool {
        is_numbered(&self.0, TASK)
    }

    pub(crate) fn is_of_hooks(&self) -> bool {
        is_numbered(&self.0, HOOKS)
    }

    pub(crate) fn is_of_branch(&self) -> bool {
        is_numbered(&self.0, BRANCH)
    }
}

/// The prefixes of the reserved ids; the number of an entry follows.
const TASK: &str = "task-";
const BRANCH: &str = "branch-";
const HOOKS: &str = "hooks-";

fn is_numbered(id: &str, prefix: &str) -> bool {
    let number = id.strip_prefix(prefix).filter(|number| !number.is_empty());
    number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A new UUIDv7. A clock before 1970 counts as 1970.
pub(crate) fn new_uuid() -> uuid::Uuid {
    uuid_at(std::time::SystemTime::now())
}

fn uuid_at(now: std::time::SystemTime) -> uuid::Uuid {
    match now.duration_since(std::time::UNIX_EPOCH) {
        Ok(_) => uuid::Uuid::now_v7(),
        // `now_v7` panics there.
        Err(_) => uuid::Uuid::new_v7(uuid::Timestamp::from_unix(uuid::NoContext, 0, 0)),
    }
}

/// A moment: milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Millis(pub u64);

impl Millis {
    /// The time of the machine's clock; 0 if the clock is before 1970.
    #[must_use]
    pub fn now() -> Millis {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Millis(since.map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX)))
    }

    /// This moment plus a while.
    #[must_use]
    pub fn plus(self, while_: std::time::Duration) -> Millis {
        Millis(self.0.saturating_add(u64::try_from(while_.as_millis()).unwrap_or(u64::MAX)))
    }

    /// The time from `earlier` to this moment; zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Millis) -> std::time::Duration {
        std::time::Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    /// `Uuid::now_v7` panics there. Seen on the release binary.
    #[test]
    fn a_clock_before_1970_gives_an_id_all_the_same() {
        let before = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
        let ids = [uuid_at(before), uuid_at(before)];
        assert_ne!(ids[0], ids[1]);
        for id in ids {
            assert_eq!((id.get_version_num(), id.get_timestamp().map(|at| at.to_unix())), (7, Some((0, 0))));
        }
    }
}
