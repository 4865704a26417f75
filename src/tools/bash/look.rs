//! Looks at the workspace before and after a command, and lists the files that the command changed, made and deleted.
//!
//! A changed file is noticed by its metadata (size, times in nanoseconds, inode, mode), not by its content. Files outside of the
//! workspace and files that git ignores are not checked, nor are the folders `.git`, `node_modules`, `_build`, `deps` and
//! `target`. Both looks are bounded in files and in time: beyond such a bound, nothing is listed and the record says why. Of more
//! than 1,000 changed files, only 1,000 are listed, and the record says how many more there may be. Changes by another program
//! meanwhile count as the command's.
//!
//! A change of this code must not let a look delay a command for longer than its time and [`PATIENCE`], nor fail the call. The
//! record must never seem complete for the checked files when it is not: the reason goes to `unlisted` before the command begins,
//! and a finished comparison replaces it.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use crate::{
    tool::{
        Changes, FileChange, FileImage, FileState, ToolContext,
        files::{Files, Vault},
        workspace::{FileInfo, FileKind, Workspace, WorkspacePath},
    },
    tools::{
        names,
        walk::{Rules, Step, walk},
    },
    words::ids::SessionId,
};

/// How much of a workspace is checked before and after a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LookLimits {
    /// How many files are checked. In a workspace with more files nothing is listed.
    pub files_max: usize,
    /// How long each of the two looks may take. A look that takes longer lists nothing.
    pub time_max: Duration,
}

impl LookLimits {
    crate::words::setters::setters! {
        /// Limits the [files](#structfield.files_max).
        files_max: usize;
        /// Limits the [time of a look](#structfield.time_max).
        time_max: Duration;
    }
}

impl Default for LookLimits {
    fn default() -> LookLimits {
        LookLimits { files_max: 10_000, time_max: Duration::from_millis(500) }
    }
}

/// How many files are listed, at most.
const LISTED_MAX: usize = 1_000;

/// Largest content of a changed file that is read and kept, in bytes; and the most for all of them together.
const CONTENT_BYTES_MAX: u64 = 1024 * 1024;
const CONTENTS_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// How long the call waits beyond the time of a look, for a look that is late and for the comparison after it.
const PATIENCE: Duration = Duration::from_secs(1);

/// How far the clock of the file system may be behind the clock of this process.
const CLOCK_LAG: Duration = Duration::from_millis(50);

/// The record of an old content that no call had read or written before a command changed the file.
const NOT_KNOWN: &str = "changed by bash, and its content before that is not known";

/// The reason in the record of a call that was stopped before its command began.
const STOPPED: &str = "the call was stopped while its workspace was checked";

/// The reason in the record of a call that ended before its second look.
const CUT_OFF: &str = "the command was cut off, and its changes were not checked";

/// The files of a workspace at one moment.
pub(super) struct Look {
    workspace: Workspace,
    limits: LookLimits,
    files: BTreeMap<PathBuf, FileInfo>,
    /// When the look began.
    at: SystemTime,
    /// The files and folders that could not be checked, as a text for people.
    missed: Option<String>,
}

/// The look before a command, or why nothing can be listed. As far as time and room allow, the contents that the session has read
/// and the command may change are kept.
pub(super) async fn before(limits: Option<LookLimits>, files: &Files, context: &ToolContext) -> Result<Look, String> {
    if context.changes.place().is_none() {
        return Err("the call belongs to no session".to_owned());
    }
    context.changes.unlisted(CUT_OFF);
    let limits = limits.ok_or("bash was set not to look at what commands change")?;
    let (root, cancel) = (context.workspace.clone(), context.cancel.clone());
    let (files, vault, session) = (files.clone(), vault(files, context), context.session.clone());
    let looks = move || {
        let (stop, until) = (|| cancel.is_cancelled(), Instant::now() + limits.time_max);
        let before = look(&root, limits, &stop)?;
        before.keep(&files, &vault, &session, &|| stop() || Instant::now() > until);
        Ok(before)
    };
    tokio::select! {
        before = on_a_thread(limits.time_max, looks) => before,
        () = context.cancelled() => Err(STOPPED.to_owned()),
    }
}

/// Runs work that waits for the disk on a blocking thread. A disk that does not answer holds up the call for `time_max` and
/// [`PATIENCE`] at most.
async fn on_a_thread<T: Send + 'static>(
    time_max: Duration,
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    match tokio::time::timeout(time_max + PATIENCE, tokio::task::spawn_blocking(work)).await {
        Ok(done) => done.unwrap_or_else(|lost| Err(lost.to_string())),
        Err(_) => Err("the disk did not answer in time, so the changes are unknown".to_owned()),
    }
}

/// The look after a command. Compares both looks and reports the changes in the call's log.
pub(super) async fn after(before: Result<Look, String>, files: &Files, context: &ToolContext) {
    let (vault, files) = (vault(files, context), files.clone());
    let (root, session) = (context.workspace.clone(), context.session.clone());
    let changes = match before {
        Err(why) => Err(why),
        Ok(before) => {
            let time_max = before.limits.time_max;
            let compare = move || {
                // The command is over, so this look is made for a stopped call too.
                let after = look(&root, before.limits, &|| false)?;
                Ok(Comparison { before, after, vault, files, session, contents: 0 }.changes())
            };
            on_a_thread(time_max, compare).await
        }
    };
    context.changes.put(changes.unwrap_or_else(Changes::unlisted));
}

/// The vault of the call's session.
fn vault(files: &Files, context: &ToolContext) -> Vault {
    files.vaults.at(context.changes.place().and_then(|(folder, _)| folder))
}

impl Look {
    /// Keeps the content of each file that the session has read and that is still in the state in which it was read, so that it can
    /// be put back should the command change it. Files without time or room left count as not known.
    fn keep(&self, files: &Files, vault: &Vault, session: &SessionId, stop: &dyn Fn() -> bool) {
        let mut room = CONTENTS_BYTES_MAX;
        for (path, version) in files.known.not_kept(session) {
            let Ok(relative) = path.strip_prefix(self.workspace.root()) else { continue };
            let is_unchanged = self.files.get(relative).is_some_and(|info| info.version == version);
            let Some(place) = self.workspace.beneath(relative).filter(|_| is_unchanged && !stop()) else { continue };
            let Ok((content, info)) = self.workspace.read(&place, CONTENT_BYTES_MAX.min(room)) else { continue };
            room -= content.len() as u64;
            // A file that changed while it was read has another version by now.
            let after = self.workspace.info(&place).map(|info| info.version);
            if info.version == version && after.is_ok_and(|after| after == version) {
                files.keep(vault, session, path, &content, &info);
            }
        }
    }
}

/// Looks at all files of a workspace; the error says why that was not possible.
fn look(root: &Path, limits: LookLimits, stop: &dyn Fn() -> bool) -> Result<Look, String> {
    let (at, started) = (SystemTime::now(), Instant::now());
    let is_late = || started.elapsed() > limits.time_max;
    let workspace = Workspace::open(root).map_err(|error| error.to_string())?;
    let start = workspace.resolve(".").and_then(|top| workspace.open_dir(&top)).map_err(|error| error.to_string())?;
    let rules = Rules { obey_ignore: true, asked_for: &|_| false, left_out: &|_, _| false };
    let (mut files, mut too_many) = (BTreeMap::new(), false);
    let walked = walk(&workspace, start, &rules, &|| stop() || is_late(), |entry| {
        if entry.kind == FileKind::Directory {
            return Step::On;
        }
        too_many = files.len() >= limits.files_max;
        if too_many {
            return Step::Stop;
        }
        // A file that is gone by now counts as never present.
        if let Ok(info) = entry.dir.info(entry.name) {
            files.insert(entry.path.to_owned(), info);
        }
        Step::On
    });
    let missed = walked.map_err(|error| error.to_string())?;
    if too_many {
        return Err(format!("the workspace has more than {} files, so they were not checked", limits.files_max));
    }
    if stop() {
        return Err(STOPPED.to_owned());
    }
    if is_late() {
        let ms = limits.time_max.as_millis();
        return Err(format!("a check of the workspace takes longer than {ms} ms, so the changes are unknown"));
    }
    Ok(Look { workspace, limits, files, at, missed: missed.notice() })
}

/// Two looks side by side.
struct Comparison {
    before: Look,
    after: Look,
    vault: Vault,
    files: Files,
    session: SessionId,
    /// How many bytes of changed files were read.
    contents: u64,
}

impl Comparison {
    fn changes(mut self) -> Changes {
        let mut unlisted = self.after.missed.clone().or(self.before.missed.clone());
        let mut paths: BTreeSet<PathBuf> = self.before.files.keys().chain(self.after.files.keys()).cloned().collect();
        paths.retain(|path| match (self.before.files.get(path), self.after.files.get(path)) {
            (Some(was), Some(now)) => differs(was, now),
            _ => true,
        });
        // New files by their identity: a file that was moved has kept its content under the new path.
        let mut moved: HashMap<(u64, u64), FileImage> = HashMap::new();
        let mut listed: Vec<(Option<FileInfo>, FileChange)> = Vec::new();
        for path in &paths {
            let Some(place) = self.after.workspace.beneath(path) else { continue };
            let was = self.before.files.get(path).copied();
            // A file that the second look did not show is ignored by git now, or gone.
            let listed_at_end = self.after.files.get(path).copied();
            let now = listed_at_end.or_else(|| self.after.workspace.link_info(&place).ok());
            if was.zip(now).is_some_and(|(was, now)| !differs(&was, &now)) {
                continue;
            }
            if listed.len() == LISTED_MAX {
                let more = format!("up to {} more files were changed than are listed", paths.len() - LISTED_MAX);
                unlisted = Some(unlisted.map_or(more.clone(), |other| format!("{other}; {more}")));
                break;
            }
            // The old content is looked up first, because the look at the new content takes its place in the memory.
            let known = was.map(|was| self.before(&place, &was));
            let now_is = now.map_or(FileState::Absent, |now| self.after(&place, &now));
            let was_is = match (was.zip(known), now) {
                (Some((was, known)), now) => with_content(known, &was, now.as_ref(), &now_is),
                (None, Some(now)) if now.version.changed() + CLOCK_LAG < self.before.at => {
                    FileState::Unknown("it existed before, and was not checked".to_owned())
                }
                (None, _) => FileState::Absent,
            };
            if let (None, Some(now), FileState::File(image)) = (was, now, &now_is) {
                moved.insert(now.version.identity(), image.clone());
            }
            if !is_same(&was_is, &now_is) {
                listed.push((was, FileChange { path: names::shown(path), before: was_is, after: now_is }));
            }
        }
        for (was, change) in &mut listed {
            if let (Some(was), FileState::Unknown(_), FileState::Absent) = (was, &change.before, &change.after)
                && let Some(image) = moved.get(&was.version.identity())
                && (image.bytes, image.mode) == (was.bytes, was.mode)
            {
                change.before = FileState::File(image.clone());
            }
        }
        Changes { files: listed.into_iter().map(|(_, change)| change).collect(), unlisted }
    }

    /// The state of a file now. A small file is read and kept, so that its content is known at the next change.
    fn after(&mut self, place: &WorkspacePath, now: &FileInfo) -> FileState {
        if now.kind != FileKind::File {
            return FileState::Unknown(format!("it is a {}", now.kind));
        }
        let path = self.after.workspace.absolute(place);
        if let Some(image) = self.files.known.content(&self.session, path.clone(), &now.version) {
            return FileState::File(image);
        }
        let room = CONTENT_BYTES_MAX.min(CONTENTS_BYTES_MAX - self.contents);
        let stamp = |info: &FileInfo| FileImage {
            hash: None,
            mode: info.mode,
            bytes: info.bytes,
            not_kept: Some("it was not read".to_owned()),
            stamp: Some(info.version.stamp()),
        };
        if now.bytes > room {
            return FileState::File(stamp(now));
        }
        match self.after.workspace.read(place, room) {
            Ok((content, info)) => {
                self.contents += content.len() as u64;
                FileState::File(self.files.keep(&self.vault, &self.session, path, &content, &info))
            }
            Err(_) => FileState::File(stamp(now)),
        }
    }

    /// The state of a file before the command. Its content is known if a call had read or written it in that very state.
    fn before(&self, place: &WorkspacePath, was: &FileInfo) -> FileState {
        if was.kind != FileKind::File {
            return FileState::Unknown(format!("it was a {}", was.kind));
        }
        let known = self.files.known.content(&self.session, self.after.workspace.absolute(place), &was.version);
        known.map_or_else(|| FileState::Unknown(NOT_KNOWN.to_owned()), FileState::File)
    }
}

/// The old state of a file with the new content, where only the mode was changed, as far as the file's times tell.
fn with_content(was_is: FileState, was: &FileInfo, now: Option<&FileInfo>, now_is: &FileState) -> FileState {
    match (&was_is, now, now_is) {
        (FileState::Unknown(_), Some(now), FileState::File(image))
            if same_content(was, now) && was.mode != now.mode =>
        {
            FileState::File(FileImage { mode: was.mode, ..image.clone() })
        }
        _ => was_is,
    }
}

fn differs(was: &FileInfo, now: &FileInfo) -> bool {
    // A new or a removed hard link changes the `ctime` of a file and nothing else.
    let only_links = was.links != now.links && same_content(was, now) && was.mode == now.mode;
    (was.version != now.version || was.mode != now.mode) && !only_links
}

fn same_content(was: &FileInfo, now: &FileInfo) -> bool {
    let key = |info: &FileInfo| (info.kind, info.version.identity(), info.bytes, info.modified);
    key(was) == key(now)
}

/// Whether a file has the same content and mode, so that at most its times changed.
fn is_same(was: &FileState, now: &FileState) -> bool {
    match (was, now) {
        (FileState::File(was), FileState::File(now)) => {
            was.hash.is_some() && (&was.hash, was.mode) == (&now.hash, now.mode)
        }
        (FileState::Absent, FileState::Absent) => true,
        _ => false,
    }
}
