//! The tape: the append-only record of a session, and the only source from which a session is recovered.
//!
//! This room handles lines, files and checksums; `kernel` knows the meaning of an entry. The exceptions: the tape reads the data of
//! its own kinds, `forked` and `imported`, and the labels in `settings` and `state`; an import under another name puts that name
//! into `state` entries; the index picks words out of any data. The code is synchronous and may block. Over files, three operations
//! (an append, the return of a tape, the mark of an open turn) leave a slow disk to the store's I/O thread: one caller at most waits.
//!
//! | promise | kept by |
//! |---|---|
//! | an append is on the tape whole or not at all, also after `kill -9` | `line`, `handle` |
//! | acknowledged entries stay, as far as the chosen [`Durability`] goes | `write`, `commit` |
//! | a torn tail is cut off, set aside and reported; a bad line in the middle makes the tape read-only | `read` |
//! | one writer per session, across processes | `owner` |
//! | a fork continues any append of another tape, copies nothing, and keeps its parent as long as it lives | `fork`, `whole`, `remove` |
//! | the appends that wait for the disk, and tapes in memory, have a bound; beyond it: [`Busy`](TapeError::Busy), [`MemoryFull`](TapeError::MemoryFull) | `queue`, `memory` |
//!
//! A change must not break the stored formats, which `docs/TAPE.md` specifies with their version rules: the line, names and small
//! files in a store's folder, the commit log, the export. The index is derived: its tables may change with a new `user_version`,
//! and no read or write of a tape may need it. Lock order: `write` for a store's mutexes; `owner` and `store/marks` for folders.

mod anchors;
mod appends;
mod caught;
#[cfg_attr(not(feature = "sqlite"), allow(dead_code, reason = "only the index asks"))]
mod changed;
mod commit;
mod derived;
mod disk;
mod engine;
mod entry;
mod error;
mod export;
mod first_append;
mod fork;
mod handle;
mod import;
#[cfg(feature = "sqlite")]
mod index;
mod indexed;
mod labels;
mod layout;
pub(crate) mod line;
mod lineage;
mod lines;
mod marks;
mod memory;
mod owner;
mod queue;
mod read;
mod remove;
mod seek;
mod store;
mod verify;
mod whole;
mod write;

#[cfg(test)]
pub(crate) mod tests;

pub use anchors::{Anchor, ReadTo};
pub use appends::Append;
pub(crate) use appends::{TapeFile, decode_files};
pub(crate) use caught::Caught;
pub use derived::TapeStoreExt;
pub use engine::{LoadedTape, Position, TapePiece, TapeStore, TapeWriter};
pub use entry::{Cause, TapeEntry};
pub use error::{Damage, Holder, TapeError};
pub use export::{Exported, Spills};
pub(crate) use first_append::FirstAppend;
pub use handle::{APPEND_BYTES_MAX, Appended, GivenBack, Notify};
pub(crate) use handle::{Lender, OpenTape};
pub use import::{ImportOptions, Imported, ImportedFrom};
#[cfg(feature = "sqlite")]
pub use index::{BadCursor, CaughtUp, Cursor, Hit, Index, Order, Page, Query, Rebuilt, Rows, Snippet};
#[cfg(feature = "sqlite")]
pub(crate) use index::{Fold, SessionRow, SessionRows, search_in};
pub use indexed::{EntryWords, FoundEntry, UnreadTape, WantedWords};
pub(crate) use labels::newest_labels;
pub(crate) use layout::{new_file, plain_anchor_name as anchor_name_of, read_bytes};
pub use line::LINE_BYTES_MAX;
pub use lineage::{FORK_DEPTH_MAX, Forked};
pub use lines::TapeLines;
pub use marks::Mark;
pub use memory::{MemoryLimits, MemoryStore};
pub use read::Repair;
pub use remove::Deleted;
pub(crate) use remove::finish as finish_deletions;
pub(crate) use store::SessionStatuses;
pub use store::{
    Behind, Durability, ListCost, SessionStatus, SessionSummary, SoundEnd, Store, StoreOptions, StoreReport, TapeAccess,
};
pub use verify::{Finding, Flaw};
