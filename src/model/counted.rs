//! Turns the figures of a provider into a [`Usage`], for the APIs that count tokens of a cache within the input, and reasoning within
//! the output or beside it. Each wire (the code for one provider's format) says under which paths its figures are.
//!
//! A change must keep that missing, negative and absurd figures become 0 or the largest number, and never a panic.

use serde_json::Value;

use super::wire::take_figure;
use crate::words::usage::Usage;

/// Where the figures are in a record of usage, as JSON pointers. Of several, the first that holds a number counts.
pub(crate) struct Paths {
    pub(crate) input: &'static [&'static str],
    pub(crate) output: &'static [&'static str],
    pub(crate) cache_read: &'static [&'static str],
    pub(crate) cache_write: &'static [&'static str],
    pub(crate) reasoning: &'static [&'static str],
    pub(crate) total: &'static [&'static str],
}

/// The newest figures of the server, as it counts them.
#[derive(Default)]
pub(crate) struct Counted {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    reasoning: u64,
    total: u64,
}

impl Counted {
    /// Takes the figures of one event over those before, and returns the usage by all of them.
    pub(crate) fn read(&mut self, usage: &Value, paths: &Paths) -> Usage {
        let places = [
            (&mut self.input, paths.input),
            (&mut self.output, paths.output),
            (&mut self.cache_read, paths.cache_read),
            (&mut self.cache_write, paths.cache_write),
            (&mut self.reasoning, paths.reasoning),
            (&mut self.total, paths.total),
        ];
        for (place, paths) in places {
            take_figure(place, paths.iter().find_map(|path| usage.pointer(path).filter(|n| n.is_number())));
        }
        let Counted { input, output, cache_read, cache_write, reasoning, total } = *self;
        // Most servers count reasoning within the output; a few count it beside it, which their total reveals.
        let is_beside = reasoning > 0 && total == input.saturating_add(output).saturating_add(reasoning);
        Usage {
            input: input.saturating_sub(cache_read).saturating_sub(cache_write),
            output: if is_beside { output } else { output.saturating_sub(reasoning) },
            reasoning: if is_beside { reasoning } else { reasoning.min(output) },
            cache_read,
            cache_write,
        }
    }
}
