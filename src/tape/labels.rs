//! The labels of a session (keys and values that a host sets, such as its tenant), from its entries.
//!
//! The room `tape` does not know what settings are. It reads only the labels of the entries that hold settings (`settings`,
//! `state`), so that a list filters by labels over every engine, and a search over a store of files. An `imported` entry takes all
//! labels away.
//!
//! A change of these kinds, or of the field `labels` in `kernel::Settings`, must be made here too: an entry that cannot be read
//! here says nothing of labels, silently. Labels already in an index change only with its `schema::VERSION`.

use serde::Deserialize;

use super::TapeEntry;
use crate::words::labels::Labels;

#[derive(Deserialize)]
struct Settings {
    #[serde(default)]
    labels: Labels,
}

#[derive(Deserialize)]
struct State {
    settings: Settings,
}

/// The labels of the newest of these entries that states labels; `None` if none does.
pub(crate) fn newest_labels(entries: &[TapeEntry]) -> Option<Labels> {
    entries.iter().rev().find_map(labels_of)
}

fn labels_of(entry: &TapeEntry) -> Option<Labels> {
    let data = entry.data.get();
    match entry.kind.as_str() {
        "settings" => serde_json::from_str::<Settings>(data).ok().map(|settings| settings.labels),
        "state" => serde_json::from_str::<State>(data).ok().map(|state| state.settings.labels),
        // A file does not choose the lists that show its session.
        "imported" => Some(Labels::default()),
        _ => None,
    }
}
