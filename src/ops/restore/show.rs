//! Shows a plan as people read it: one line for each file, then the diff of each.
//!
//! A content over 1 MiB, or one that is not text, has no diff, and all diffs together take 1 MiB at most; a line says where a
//! diff is left out for these reasons. A file that cannot be read, or whose old content is unknown, has neither diff nor line.
//! Only reads.
//!
//! A change must keep this: reasons and the words of calls stay on their line, without control characters (`plain`). Paths and
//! diffs are as the files have them, so a caller must escape the text before a terminal shows it.

use std::fmt;

use crate::{
    ops::restore::{
        act::content,
        look,
        plan::{FilePlan, FileStep, PlannedFile},
    },
    tool::{FileState, files::Vault, workspace::Workspace},
    tools::unified_diff,
};

/// The largest content that a diff is made of, in bytes.
const DIFFED_BYTES_MAX: u64 = 1024 * 1024;

/// The most that all diffs of a plan take together, in bytes. A line replaces each diff beyond that.
const DIFFS_BYTES_MAX: usize = 1024 * 1024;

/// Adds the diffs of what would change.
pub(super) fn add_diffs(plan: &mut FilePlan, workspace: &Workspace, vaults: &[Vault]) {
    let mut room = DIFFS_BYTES_MAX;
    for file in &mut plan.files {
        if !matches!(file.step, FileStep::Restore | FileStep::Delete | FileStep::Conflict { .. }) {
            continue;
        }
        let diff = match diff(file, workspace, vaults) {
            Some(diff) if diff.len() <= room => diff,
            Some(_) => "(the diff is left out: enough is shown)\n".to_owned(),
            None => continue,
        };
        room = room.saturating_sub(diff.len());
        file.diff = Some(diff);
    }
}

fn diff(file: &PlannedFile, workspace: &Workspace, vaults: &[Vault]) -> Option<String> {
    let now = match file.now.file() {
        Some(now) if now.info.bytes > DIFFED_BYTES_MAX => return Some("(too large for a diff)\n".to_owned()),
        Some(_) => workspace.read(&look::place(workspace, &file.path)?, DIFFED_BYTES_MAX).ok()?.0,
        None => Vec::new(),
    };
    let wanted = match &file.target {
        FileState::File(image) if image.bytes > DIFFED_BYTES_MAX => {
            return Some("(too large for a diff)\n".to_owned());
        }
        FileState::File(image) => content(image, vaults).ok()?,
        FileState::Absent => Vec::new(),
        FileState::Unknown(_) => return None,
    };
    if now == wanted {
        return None;
    }
    if now.contains(&0) || wanted.contains(&0) {
        return Some("(no text)\n".to_owned());
    }
    Some(unified_diff(&now, &wanted))
}

impl fmt::Display for FilePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.files.is_empty() && self.silent.is_empty() {
            return writeln!(f, "no file was changed after entry {}", self.since);
        }
        for file in &self.files {
            file.line(f)?;
        }
        for silent in &self.silent {
            writeln!(f, "unknown   {}", plain(silent))?;
        }
        for file in &self.files {
            let Some(diff) = &file.diff else { continue };
            let absent = |is: bool, side: &str| match is {
                true => "/dev/null".to_owned(),
                false => format!("{side}/{}", file.path),
            };
            writeln!(f, "\n--- {}", absent(file.now.file().is_none(), "a"))?;
            writeln!(f, "+++ {}", absent(file.target == FileState::Absent, "b"))?;
            f.write_str(diff)?;
        }
        Ok(())
    }
}

impl PlannedFile {
    /// The path of the file, and the reason where it is refused.
    pub(crate) fn in_a_line(&self) -> String {
        match &self.step {
            FileStep::Conflict { why } | FileStep::NotRestorable { why } => format!("{}: {}", self.path, plain(why)),
            FileStep::Restore | FileStep::Delete | FileStep::Nothing => self.path.clone(),
        }
    }

    fn line(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match &self.step {
            FileStep::Restore => "restore",
            FileStep::Delete => "delete",
            FileStep::Nothing => "as it was",
            FileStep::Conflict { .. } => "refused",
            FileStep::NotRestorable { .. } => "not restorable",
        };
        write!(f, "{word:9} {}", self.in_a_line())?;
        let changes = !matches!(self.step, FileStep::Nothing);
        if let (Some(mode), true, Some(now)) = (self.mode, changes, self.now.file())
            && mode != now.info.mode
        {
            write!(f, " (mode {:o} to {mode:o})", now.info.mode)?;
        }
        if self.others_between && matches!(self.step, FileStep::Restore | FileStep::Delete) {
            f.write_str(" (with what someone else wrote there in between)")?;
        }
        writeln!(f)
    }
}

/// A text on one line: control characters are replaced.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
