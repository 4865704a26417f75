//! A session as its files show it.

use std::path::PathBuf;

use crate::{
    tape::{
        SessionSummary, TapeError,
        layout::Layout,
        line::glance,
        lineage::origin,
        read::{first_line, last_seen},
    },
    words::ids::{Seq, SessionId},
};

/// Reads the ends of a session's files.
pub(super) fn summary(layout: &Layout, id: SessionId) -> Result<SessionSummary, TapeError> {
    let folders = layout.anchor_names(&id)?;
    let from = origin(layout, &id, &folders)?;
    let anchors: Vec<PathBuf> = folders.iter().map(|anchor| layout.entries(&id, anchor)).collect();
    let first = anchors.first().map_or(Ok(None), |path| first_line(path))?;
    let mut last = None;
    for path in anchors.iter().rev() {
        last = last_seen(path)?;
        if last.is_some() {
            break;
        }
    }
    Ok(SessionSummary {
        created: first.and_then(|line| glance(&line)).map(|first| first.time),
        last: last.as_ref().map(|last| last.time),
        seq: last.map_or(Seq::ZERO, |last| last.seq),
        bytes: anchors.iter().filter_map(|path| path.metadata().ok()).map(|file| file.len()).sum(),
        from,
        id,
    })
}
