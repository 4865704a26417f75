//! The tape: the append-only record of a session, and the only source from which a session is recovered.
//!
//! This room knows lines, files and checksums. The meaning of an entry belongs to `kernel`. The tape reads the data of its own
//! kinds, `forked` and `imported`. Of other kinds, lists and searches read the labels in `settings` and `state`, an import under
//! another name puts that name into `state` entries, and the index picks words out of any data. The code is synchronous.
//! Over files, three operations leave a slow disk to the store's I/O thread: an append, the return of a tape, and the mark of an
//! open turn. So at most one caller of a store waits when the disk becomes slow. All other operations on tapes may block.
//!
//! | promise | kept by |
//! |---|---|
//! | an append is on the tape whole or not at all, also after `kill -9` | `line`, `handle` |
//! | what was acknowledged stays, as far as the chosen [`Durability`] goes | `write`, `commit` |
//! | a torn tail is cut off, set aside and reported; a bad line in the middle makes the tape read-only | `read` |
//! | one writer per session, across processes | `owner` |
//! | a fork goes on from any append of another tape, copies nothing, and keeps its parent as long as it lives | `fork`, `whole`, `remove` |
//! | the appends that wait for the disk have a bound; beyond it an append is answered [`Busy`](TapeError::Busy) | `queue` |
//! | tapes in memory have a bound, and say [`MemoryFull`](TapeError::MemoryFull) beyond it | `memory` |
//! | the index is derived and decides nothing | `index` (feature `sqlite`) |
//!
//! A change must not break the stored formats: the line, the names in a store's folder, the small files in it (claims, writers,
//! locks, marks), the commit log, and the export. `docs/TAPE.md` specifies them and their version rules. The index is not one of
//! them: its tables may change freely with a new `user_version`, and no read or write of a tape may need it.
//! Lock order: `write` for the mutexes of a store; `owner` and `store/marks` for the locks on folders. Nothing here knows an actor.

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
mod labels;
mod layout;
pub(crate) mod line;
mod lineage;
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
pub use engine::{LoadedTape, Position, TapeStore, TapeWriter};
pub use entry::{Cause, Entry};
pub use error::{Damage, Holder, TapeError};
pub use export::{Exported, Spills};
pub(crate) use first_append::FirstAppend;
pub use handle::{APPEND_BYTES_MAX, Appended, GivenBack, Notify};
pub(crate) use handle::{Lender, OpenTape};
pub use import::{ImportOptions, Imported, ImportedFrom};
#[cfg(feature = "sqlite")]
pub use index::{BadCursor, CaughtUp, Cursor, Hit, Index, Order, Page, Query, Rebuilt, Rows, Snippet};
#[cfg(feature = "sqlite")]
pub(crate) use index::{Fold, SessionRow, SessionRows};
pub(crate) use labels::newest_labels;
pub(crate) use layout::{new_file, plain_anchor_name as anchor_name_of, read_bytes};
pub use line::LINE_BYTES_MAX;
pub use lineage::{FORK_DEPTH_MAX, Forked};
pub use marks::Mark;
pub use memory::{MemoryLimits, MemoryStore};
pub use read::Repair;
pub use remove::Deleted;
pub(crate) use remove::finish as finish_deletions;
pub(crate) use store::SessionStatuses;
pub use store::{
    Access, Behind, Durability, ListCost, SessionStatus, SessionSummary, SoundEnd, Store, StoreOptions, StoreReport,
};
pub use verify::{Finding, Flaw};
