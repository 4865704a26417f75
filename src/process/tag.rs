//! The tag that names the call of a process, and that every child process inherits.
//!
//! Every process of a call has the tag in its variable [`CALL_VARIABLE`]. The tool `bash` also spells it as a soft limit of the
//! file size (2^60 bytes or more, far above the size of real files), if the host has no such limit itself. `fork` and `exec` pass
//! both on, so a process of `bash` with an emptied environment is still found by its limit. The limit has room for a part of the
//! tag only, so it may match another call too.
//!
//! Both spellings are read by other versions of the program (a watcher; the next start of a host), so a change must keep both
//! layouts: the processes of an older host would not be found. The watcher's script in `watcher.rs` spells the variable out once
//! more.

use std::fmt;

use uuid::Uuid;

/// The variable that says which call a process belongs to. For nested calls it names all of them.
pub(crate) const CALL_VARIABLE: &str = "TAMTAM_CALL";

const SEPARATOR: char = ':';
const OWNER_BITS: u32 = 24;
const CALL_BITS: u32 = 27;

/// The owner of processes: one runtime, or one test. Random, so no two owners are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner(Uuid);

/// One call of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    owner: Owner,
    call: Uuid,
}

impl Owner {
    /// A new owner.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "two calls never give the same value, so there is no default")]
    pub fn new() -> Owner {
        Owner(crate::words::ids::new_uuid())
    }

    /// Reads an owner back from the text that `Owner::to_string` wrote.
    #[must_use]
    pub fn parse(text: &str) -> Option<Owner> {
        Uuid::try_parse(text).ok().map(Owner)
    }

    pub(super) fn in_limit(&self, bytes: u64) -> bool {
        let high = |limit: u64| limit >> CALL_BITS;
        Tag::limits(bytes).any(|limit| high(limit) == high(limit_of(self, 0)))
    }
}

impl Tag {
    /// A new tag for one call.
    #[must_use]
    pub fn new(owner: Owner) -> Tag {
        Tag { owner, call: crate::words::ids::new_uuid() }
    }

    /// The value of the variable with the tags, for this call, started by a process whose own value is `outer`.
    #[must_use]
    pub fn variable(&self, outer: Option<&str>) -> String {
        match outer {
            Some(outer) if !outer.is_empty() => format!("{outer}{SEPARATOR}{self}"),
            _ => self.to_string(),
        }
    }

    /// The soft limit of the file size that spells this tag, in units of 1,024 bytes as the shell's `ulimit -f` takes it.
    ///
    /// `None` if this process already has a file size limit, because that limit must not be raised.
    #[must_use]
    pub(crate) fn file_size_limit(&self) -> Option<u64> {
        let own = rustix::process::getrlimit(rustix::process::Resource::Fsize);
        own.current.is_none().then(|| self.limit())
    }

    /// Another tag that makes the same limit.
    #[cfg(test)]
    pub(super) fn twin(&self) -> Tag {
        let (high, low) = self.call.as_u64_pair();
        Tag { owner: self.owner, call: Uuid::from_u64_pair(!high, low) }
    }

    pub(super) fn owner(&self) -> Owner {
        self.owner
    }

    /// The tag as a limit, in the units that `ulimit -f` takes.
    pub(super) fn limit(&self) -> u64 {
        limit_of(&self.owner, low_bits(self.call, CALL_BITS))
    }

    /// The tags that the value of [`CALL_VARIABLE`] names.
    pub(super) fn all_in(value: &str) -> impl Iterator<Item = Tag> {
        value.split(SEPARATOR).filter_map(|text| {
            let (owner, call) = text.split_once('.')?;
            Some(Tag { owner: Owner::parse(owner)?, call: Uuid::try_parse(call).ok()? })
        })
    }

    /// Whether a file size limit in bytes, as the process table shows it, may belong to this call.
    pub(super) fn in_limit(&self, bytes: u64) -> bool {
        Tag::limits(bytes).any(|limit| limit == self.limit())
    }

    /// The values of `ulimit -f` for a limit of this many bytes. The unit is 1,024 bytes, and 512 in some shells.
    fn limits(bytes: u64) -> impl Iterator<Item = u64> {
        [1024, 512].into_iter().filter(move |unit| bytes.is_multiple_of(*unit)).map(move |unit| bytes / unit)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.simple().fmt(f)
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.owner, self.call.simple())
    }
}

/// The limit as bits: a bit that makes the limit larger than any file, then those of the owner, then those of the call.
fn limit_of(owner: &Owner, call: u64) -> u64 {
    (1 << (OWNER_BITS + CALL_BITS)) | (low_bits(owner.0, OWNER_BITS) << CALL_BITS) | call
}

/// The last bits of a UUIDv7 are random.
fn low_bits(uuid: Uuid, bits: u32) -> u64 {
    uuid.as_u64_pair().1 & ((1 << bits) - 1)
}
