//! What a host can rely on over any engine: one list of claims, tested over each.
//!
//! The engines: files in both durabilities, memory, and a host's own engine that answers every append later, from its
//! own thread.
//! | file | contents |
//! |---|---|
//! | `harness.rs` | what the claims share; other crates' engines are held to `turns.rs`, `tapes.rs` and `searches.rs` as well |
//! | `plain.rs` | the plainest engine that a host could write: what an engine owes, and nothing else |
//! | `own.rs` | the host's own engine: the plain one behind a thread, which refuses on demand |
//! | `turns.rs` | messages, calls, crashes, recovery |
//! | `tapes.rs` | sleep, parking, forks, merges, going back, compaction, budgets, lists |
//! | `searches.rs` | searches, or that there is no index |
//! | `indexed.rs` | an engine with an index of words: small answers, ties, refusals, changes in the middle of a list |
//! | `refusing.rs` | an engine that accepts nothing for a while, or cannot be read |
//! | `panicking.rs` | an engine that panics in a method |
//! | `later.rs` | appends that are on their way when an incarnation ends |
//! | `full.rs` | memory that is full |
//! | `nothing.rs` | in memory nothing is written |

mod full;
mod harness;
#[cfg(feature = "sqlite")]
mod indexed;
mod later;
mod nothing;
mod own;
mod panicking;
pub(crate) mod plain;
mod refusing;
#[cfg(feature = "sqlite")]
mod searches;
mod tapes;
mod turns;

use std::{path::Path, sync::Arc};

use tamtam::{
    runtime::Builder,
    tape::{Durability, MemoryStore},
};

use crate::support::bomb::Bomb;
use harness::{Gate, Keeps, Large, count, reply, say, seen, until};
use own::Own;

/// Where the tapes of a test are, and stay while its runtimes come and go.
#[derive(Clone)]
enum Kept {
    Files(Durability),
    Memory(MemoryStore),
    Own(Own),
}

type Engine = harness::Engine<Kept>;

/// Tells a claim about each engine, one after the other.
async fn each_engine(claim: impl AsyncFn(&Engine)) {
    let engines = [
        Kept::Files(Durability::Process),
        Kept::Files(Durability::Power),
        Kept::Memory(MemoryStore::new()),
        Kept::Own(Own::new()),
    ];
    for kept in engines {
        let engine = Engine::of(kept);
        println!("over {}", engine.name());
        claim(&engine).await;
    }
}

impl Keeps for Kept {
    fn name(&self) -> &'static str {
        match self {
            Kept::Files(Durability::Process) => "files",
            Kept::Files(Durability::Power) => "files, Power",
            Kept::Files(other) => panic!("{other:?} has no name here"),
            Kept::Memory(_) => "memory",
            Kept::Own(_) => "an engine of the host's own",
        }
    }

    fn is_files(&self) -> bool {
        matches!(self, Kept::Files(_))
    }

    fn keep(&self, builder: Builder, folder: &Path) -> Builder {
        match self {
            Kept::Files(durability) => builder.store(folder.join("store")).durability(*durability),
            Kept::Memory(memory) => builder.tapes(Arc::new(memory.clone())),
            Kept::Own(own) => builder.tapes(Arc::new(own.clone())),
        }
    }
}
