//! The labels of a session, as its entries say them.
//!
//! This room does not know what settings are. It reads one field of the entries that hold them, as the index reads words, so that
//! a list and a search filter by labels over every engine. A change of the settings' form must keep that field, or change it here.

use serde::Deserialize;

use super::Entry;
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

/// The labels of the newest entry that states labels. `None` if none of these entries does.
pub(crate) fn newest_labels(entries: &[Entry]) -> Option<Labels> {
    entries.iter().rev().find_map(labels_of)
}

fn labels_of(entry: &Entry) -> Option<Labels> {
    let data = entry.data.get();
    match entry.kind.as_str() {
        "settings" => serde_json::from_str::<Settings>(data).ok().map(|settings| settings.labels),
        "state" => serde_json::from_str::<State>(data).ok().map(|state| state.settings.labels),
        // A file does not choose in whose lists its session stands.
        "imported" => Some(Labels::default()),
        _ => None,
    }
}
