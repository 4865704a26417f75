//! A look at the workspace before and after a command: which files it changed, made and deleted.
//!
//! Files are told apart by what the system says of them (size, times in nanoseconds, inode, mode), not by their content. What
//! git ignores is not looked at, nor what lies outside of the workspace. Both looks are bounded in files and in time; where a
//! bound is reached that is said, and nothing is listed. What others change in the same moments is taken for the command's.

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

/// How much of a workspace is looked at before and after a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookLimits {
    /// How many files, at most. Where there are more, nothing is listed.
    pub files_max: usize,
    /// How long each of the two looks may take.
    pub time_max: Duration,
}

impl Default for LookLimits {
    fn default() -> LookLimits {
        LookLimits { files_max: 10_000, time_max: Duration::from_millis(500) }
    }
}

/// How many files are listed, at most.
const LISTED_MAX: usize = 1_000;

/// Largest content of a changed file that is read and kept, in bytes, and how much of all of them.
const CONTENT_BYTES_MAX: u64 = 1024 * 1024;
const CONTENTS_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// How long a look that has run out of time is waited for, and what follows a look may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// How far the clock of the file system may be behind ours.
const CLOCK_LAG: Duration = Duration::from_millis(50);

/// What stands where nobody read or wrote a file before a command changed it.
const NOT_KNOWN: &str = "changed by bash, and its content before that is not known";

/// Why nothing is listed of a call that was stopped before its command began.
const STOPPED: &str = "the call was stopped while its workspace was looked at";

/// What stands in the result of a call that ended before its second look.
const CUT_OFF: &str = "the command was cut off, and nobody looked at what it had changed";

/// The files of a workspace at one moment.
pub(super) struct Look {
    workspace: Workspace,
    limits: LookLimits,
    files: BTreeMap<PathBuf, FileInfo>,
    at: SystemTime,
    /// What could not be looked at, for people.
    missed: Option<String>,
}

/// The look before a command, or why nothing can be listed.
pub(super) async fn before(limits: Option<LookLimits>, context: &ToolContext) -> Result<Look, String> {
    if context.changes.place().is_none() {
        return Err("the call belongs to no session".to_owned());
    }
    context.changes.unlisted(CUT_OFF);
    let limits = limits.ok_or("bash was set not to look at what commands change")?;
    let (root, cancel) = (context.workspace.clone(), context.cancel.clone());
    tokio::select! {
        looked = on_a_thread(limits.time_max, move || look(&root, limits, &|| cancel.is_cancelled())) => looked,
        () = context.cancelled() => Err(STOPPED.to_owned()),
    }
}

/// Does what waits for the disk. One that does not answer holds up nobody for much longer than it may.
async fn on_a_thread<T: Send + 'static>(
    time_max: Duration,
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    match tokio::time::timeout(time_max + PATIENCE, tokio::task::spawn_blocking(work)).await {
        Ok(done) => done.unwrap_or_else(|lost| Err(lost.to_string())),
        Err(_) => Err("the disk did not answer in time, so nobody knows what changed".to_owned()),
    }
}

/// The look after a command, and what follows from both. It is said in the call's log.
pub(super) async fn after(before: Result<Look, String>, files: &Files, context: &ToolContext) {
    let (folder, _) = context.changes.place().unzip();
    let (vault, files) = (files.vaults.at(folder.flatten()), files.clone());
    let (root, session) = (context.workspace.clone(), context.session.clone());
    let changes = match before {
        Err(why) => Err(why),
        Ok(before) => {
            let time_max = before.limits.time_max;
            let compare = move || {
                // The command is over, so a call that was stopped is looked at too.
                let after = look(&root, before.limits, &|| false)?;
                Ok(Comparison { before, after, vault, files, session, contents: 0 }.changes())
            };
            on_a_thread(time_max, compare).await
        }
    };
    context.changes.put(changes.unwrap_or_else(Changes::unlisted));
}

/// Looks at all files of a workspace, or says why that was not possible.
fn look(root: &Path, limits: LookLimits, stop: &dyn Fn() -> bool) -> Result<Look, String> {
    let (at, started) = (SystemTime::now(), Instant::now());
    let is_late = || started.elapsed() > limits.time_max;
    let workspace = Workspace::open(root).map_err(|error| error.to_string())?;
    let start = workspace.resolve(".").map_err(|error| error.to_string())?;
    let rules = Rules { obey_ignore: true, asked_for: &|_| false, left_out: &|_, _| false };
    let (mut files, mut too_many) = (BTreeMap::new(), false);
    let walked = walk(&workspace, &start, &rules, &|| stop() || is_late(), |entry| {
        if entry.kind == FileKind::Directory {
            return Step::On;
        }
        too_many = files.len() >= limits.files_max;
        if too_many {
            return Step::Stop;
        }
        // What is gone by now was not there.
        if let Ok(info) = entry.dir.info(entry.name) {
            files.insert(entry.path.to_owned(), info);
        }
        Step::On
    });
    let missed = walked.map_err(|error| error.to_string())?;
    if too_many {
        return Err(format!("the workspace has more than {} files, so nobody looked at them", limits.files_max));
    }
    if stop() {
        return Err(STOPPED.to_owned());
    }
    if is_late() {
        let ms = limits.time_max.as_millis();
        return Err(format!("a look at the workspace takes longer than {ms} ms, so nobody knows what changed"));
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
    /// How much was read of changed files.
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
        // Where a file went that is not where it was: it has kept its content.
        let mut moved: HashMap<(u64, u64), FileImage> = HashMap::new();
        let mut listed: Vec<(Option<FileInfo>, FileChange)> = Vec::new();
        for path in &paths {
            let Some(place) = self.after.workspace.beneath(path) else { continue };
            let was = self.before.files.get(path).copied();
            // What is not there is ignored now, or really gone.
            let looked_at = self.after.files.get(path).copied();
            let now = looked_at.or_else(|| self.after.workspace.link_info(&place).ok());
            if was.zip(now).is_some_and(|(was, now)| !differs(&was, &now)) {
                continue;
            }
            if listed.len() == LISTED_MAX {
                let more = format!("{} more files were changed than are listed", paths.len() - LISTED_MAX);
                unlisted = Some(unlisted.map_or(more.clone(), |other| format!("{other}; {more}")));
                break;
            }
            // Before the look at what is there now, which takes its place in the memory.
            let known = was.map(|was| self.before(&place, &was));
            let now_is = now.map_or(FileState::Absent, |now| self.after(&place, &now));
            let was_is = match (was.zip(known), now) {
                (Some((was, known)), now) => with_content(known, &was, now.as_ref(), &now_is),
                (None, Some(now)) if now.version.changed() + CLOCK_LAG < self.before.at => {
                    FileState::Unknown("it was there before, and was not looked at".to_owned())
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

    /// What a file is now. Small ones are read and kept, so that the next change finds them known.
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

    /// What a file was: known where it is known in that very state.
    fn before(&self, place: &WorkspacePath, was: &FileInfo) -> FileState {
        if was.kind != FileKind::File {
            return FileState::Unknown(format!("it was a {}", was.kind));
        }
        let known = self.files.known.content(&self.session, self.after.workspace.absolute(place), &was.version);
        known.map_or_else(|| FileState::Unknown(NOT_KNOWN.to_owned()), FileState::File)
    }
}

/// What a file was, where it is known by what it is: nothing but its mode was changed, as far as its times tell.
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
    // Another name for a file, or one less, changes one of its times and nothing else.
    let only_links = was.links != now.links && same_content(was, now) && was.mode == now.mode;
    (was.version != now.version || was.mode != now.mode) && !only_links
}

fn same_content(was: &FileInfo, now: &FileInfo) -> bool {
    let key = |info: &FileInfo| (info.kind, info.version.identity(), info.bytes, info.modified);
    key(was) == key(now)
}

/// Whether nothing of a file changed but its times.
fn is_same(was: &FileState, now: &FileState) -> bool {
    match (was, now) {
        (FileState::File(was), FileState::File(now)) => {
            was.hash.is_some() && (&was.hash, was.mode) == (&now.hash, now.mode)
        }
        (FileState::Absent, FileState::Absent) => true,
        _ => false,
    }
}
