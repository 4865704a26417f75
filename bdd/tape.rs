//! The tape as it lies on the disk, read as text: what any program could read, without a word of the library. And once more at
//! the end, as a replay reads it.

use std::{path::Path, sync::Mutex};

use serde_json::Value;

use crate::taped::{Replayed, replay_below};

/// What was replayed of all scenarios.
static REPLAYED: Mutex<Replayed> = Mutex::new(Replayed::NOTHING);

/// Replays every tape of a scenario whole; none is left out.
pub(crate) fn replay(folder: &Path) {
    let found = replay_below(folder, usize::MAX);
    let mut all = REPLAYED.lock().unwrap();
    all.tapes += found.tapes;
    all.entries += found.entries;
    all.prompts += found.prompts;
    let (none, these) = (found.left_out.is_empty(), format!("{:?}", found.left_out));
    all.left_out.extend(found.left_out);
    drop(all);
    assert!(none, "not replayed: {these}");
}

/// The line that says what was replayed.
pub(crate) fn replayed() -> String {
    let Replayed { tapes, entries, prompts, left_out } = &*REPLAYED.lock().unwrap();
    let skipped = left_out.len();
    format!(
        "{tapes} tapes replayed byte for byte ({entries} entries), {skipped} skipped; \
         another prompt found at the first request of {prompts}"
    )
}

/// The lines of a session, oldest first.
pub(crate) fn lines(store: &Path, session: &str) -> Vec<Value> {
    let anchors = store.join("sessions").join(session).join("anchors");
    let mut folders: Vec<_> = std::fs::read_dir(anchors).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    let texts = folders.iter().map(|folder| std::fs::read_to_string(folder.join("entries.jsonl")).unwrap());
    let texts: Vec<_> = texts.collect();
    texts.iter().flat_map(|text| text.lines()).map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The kind of a line.
pub(crate) fn kind(line: &Value) -> &str {
    line["kind"].as_str().unwrap()
}

/// Promise 2: once no turn is open, every recorded call has exactly one recorded result.
pub(crate) fn check_pairs(lines: &[Value]) {
    for call in lines.iter().filter(|line| kind(line) == "call") {
        let results = lines.iter().filter(|line| kind(line) == "result" && line["ticket"] == call["seq"]).count();
        assert_eq!(results, 1, "the call {} has {results} results on the tape", call["data"]["id"]);
    }
}
