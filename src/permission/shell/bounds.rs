//! Bounds what it may cost to read a command, because a model chooses the text: its length, how much of it is syntax, what the parser
//! does with it, and all the work that the tree and the commands in it lead to.
//!
//! The parser is the reason for most of them. While it repairs a broken text, its memory grows with the square of the number of
//! pipes or backquotes: without a bound, 64 KiB of `a|` took 8 GB and ended the process. Three bounds hold it. A pre-scan counts
//! signs, pipes and backquotes ([`fits`]). A text whose every reading is in error is abandoned at once (`tree.rs`), because no
//! tree with an error is ever used. A number of reports ends the rest. The worst text that a search over repeated and mixed
//! pieces of syntax found within these bounds takes 23 MB; the worst of the families in the tests takes less.
//!
//! Work on a tree is counted in steps ([`Steps`]): one for each byte and each word that is read, through all nested texts. A
//! command beyond a bound is unclear. A change must keep that every bound counts and none reads a clock: the same command must be
//! judged the same.

use crate::permission::shell::{Unclear, unclear};

/// A longer text is unclear. A valid one takes memory in proportion to its length: 1.6 KB for each byte of `a|a|…`, which is the most
/// that was found.
pub(super) const TEXT_BYTES_MAX: usize = 16 * 1024;

/// How many characters of a text may mean something to a shell, also where quotes take their meaning away: they are counted before
/// anything is known about quotes.
pub(super) const SIGNS_MAX: usize = 4_000;

/// How many of them may be `|`.
pub(super) const PIPES_MAX: usize = 512;

/// How many of them may be backquotes.
pub(super) const BACKQUOTES_MAX: usize = 64;

/// How many nodes the tree of a text may have. `a;` for 4,000 signs has 16,000.
pub(super) const NODES_MAX: usize = 24_000;

/// How often the parser may report that it has done 100 more steps. An ordinary text needs three for each 100 bytes.
pub(super) const PARSER_REPORTS_MAX: usize = 4_000;

/// How many steps the walk over all trees of a command may take.
pub(super) const STEPS_MAX: usize = 1 << 20;

/// Whether a text is small enough to be parsed. Looks at each byte once.
pub(super) fn fits(text: &str) -> Result<(), Unclear> {
    if text.len() > TEXT_BYTES_MAX {
        return unclear("it is too long to be judged");
    }
    let means = |byte: &u8| !(byte.is_ascii_alphanumeric() || b" \t_./,:@%+-".contains(byte) || !byte.is_ascii());
    let many = |byte: u8| text.bytes().filter(|b| *b == byte).count();
    if text.bytes().filter(means).count() > SIGNS_MAX || many(b'|') > PIPES_MAX || many(b'`') > BACKQUOTES_MAX {
        return unclear("it has too much syntax to be judged");
    }
    Ok(())
}

/// The steps that are left. Once they are used up, each further step fails.
#[derive(Debug)]
pub(super) struct Steps {
    left: usize,
}

impl Steps {
    pub(super) fn new() -> Steps {
        Steps { left: STEPS_MAX }
    }

    pub(super) fn take(&mut self, steps: usize) -> Result<(), Unclear> {
        match self.left.checked_sub(steps) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                self.left = 0;
                unclear("it takes too much work to be judged")
            }
        }
    }

    /// How many were taken; all of them where there were too few.
    #[cfg(test)]
    pub(super) fn taken(&self) -> usize {
        STEPS_MAX - self.left
    }
}
