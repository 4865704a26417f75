//! Large outputs that the store of the tapes keeps itself, and not a folder beside them ([`SpillPlace`], [`CallOutputs`]).
//!
//! ```text
//! a call says too much ─► <copies>/<call>/x.log ─► the store ─► its result names /tamtam/outputs/<session>/x.log
//! a call reads that path ─► the store ─► <copies>/<call>/<session>/x.log, opened under the path that was told
//! ```
//!
//! The path that a model is told is on no disk, so it is the same on every node; the tools that read files find the copy under it.
//! A copy lives as long as its call: there is no cache, so nothing of a deleted session stays on another node, and nothing is stale.
//!
//! A change must keep: a result names an output only when the store has it; a call reaches the outputs of
//! its session, and those beneath the session's `read_roots`, which it inherited, and no others, whatever the rules allow; no wait for the store is without
//! a bound. `Rejected:` the path of a file in a folder of the node, because the next node has another folder, or none.

use std::{
    collections::BTreeSet,
    fs::{File, OpenOptions},
    io::{self, Write},
    path::{Component, Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use crate::{
    tool::{
        Access,
        truncate::{Spill, SpillFile, private_folder},
    },
    words::ids::SessionId,
};

/// Beneath this are the outputs that a store keeps itself.
const OUTPUTS: &str = "/tamtam/outputs";

/// How long a call waits for the store, and how long once it was told to stop: less than a stopped call is given.
const PATIENCE: Duration = Duration::from_secs(10);
const PATIENCE_OF_STOPPED: Duration = Duration::from_secs(1);

/// The folder by which tools know the outputs of a session that the store keeps itself.
pub(crate) fn told_folder(session: &SessionId) -> PathBuf {
    Path::new(OUTPUTS).join(session.as_str())
}

/// Whether a path is one by which tools know an output that the store keeps itself. No program can open it.
pub(crate) fn is_told(path: &Path) -> bool {
    path.starts_with(OUTPUTS)
}

/// A store that keeps large outputs itself. All methods block.
pub(crate) trait OutputStore: Send + Sync {
    /// The folder of this runtime for copies, which is there from the first call on.
    fn copies(&self) -> io::Result<PathBuf>;

    /// Keeps a file, whole or not at all.
    fn put(&self, session: &SessionId, name: &str, file: &File) -> io::Result<()>;

    /// Writes an output; `false` if there is none.
    fn get(&self, session: &SessionId, name: &str, to: &mut dyn Write) -> io::Result<bool>;

    /// The names of a session's outputs.
    fn names(&self, session: &SessionId) -> io::Result<Vec<String>>;
}

/// An output that a call names, or with no name all of that session.
pub(crate) type NamedOutput = (SessionId, Option<String>);

/// The outputs that a call with these accesses reads, of those that are its session's own or lie in its `read_roots`. A session that
/// came from another store has no root for its own; the rules are asked then.
pub(crate) fn named_outputs(accesses: &[Access], own: &SessionId, read_roots: &[String]) -> BTreeSet<NamedOutput> {
    let own = told_folder(own);
    let paths = accesses.iter().filter(|access| access.permission == "read").map(|access| Path::new(&access.pattern));
    let inside = |path: &&Path| path.starts_with(&own) || read_roots.iter().any(|root| path.starts_with(root));
    paths.filter(inside).filter_map(named_output).collect()
}

fn named_output(path: &Path) -> Option<NamedOutput> {
    let mut parts = path.strip_prefix(OUTPUTS).ok()?.components().map(|part| match part {
        Component::Normal(part) => part.to_str(),
        _ => None,
    });
    let session = parts.next()??.parse().ok()?;
    let name = parts.next().map(|name| name.map(str::to_owned));
    match (name, parts.next()) {
        (None, _) => Some((session, None)),
        (Some(name), None) => Some((session, Some(name?))),
        (Some(_), Some(_)) => None,
    }
}

/// The large outputs of one call, in a store that keeps them itself. Its copies are removed when the last owner is dropped.
pub(crate) struct CallOutputs {
    store: Arc<dyn OutputStore>,
    session: SessionId,
    named: BTreeSet<NamedOutput>,
    stop: CancellationToken,
    /// Whether nobody waits for what is fetched any more.
    given_up: CancellationToken,
    /// The folder for the copies of this call, once there is one.
    folder: OnceLock<PathBuf>,
}

impl CallOutputs {
    pub(crate) fn new(
        store: Arc<dyn OutputStore>,
        session: SessionId,
        named: BTreeSet<NamedOutput>,
        stop: CancellationToken,
    ) -> CallOutputs {
        CallOutputs { store, session, named, stop, given_up: CancellationToken::new(), folder: OnceLock::new() }
    }

    /// Copies the outputs that the call names out of the store. One that the store does not have is not there, as a file that was
    /// removed. An error if the store does not answer.
    pub(crate) async fn fetch(self: &Arc<Self>) -> io::Result<()> {
        if self.named.is_empty() {
            return Ok(());
        }
        let outputs = self.clone();
        self.in_time(move || outputs.fetch_now()).await
    }

    fn fetch_now(&self) -> io::Result<()> {
        for (session, name) in &self.named {
            let folder = self.folder()?.join(session.as_str());
            private_folder(&folder)?;
            let names = name.clone().map_or_else(|| self.store.names(session), |name| Ok(vec![name]))?;
            for name in names {
                self.is_wanted()?;
                let path = folder.join(&name);
                let mut file = match new_file(&path) {
                    // It was named twice.
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                    made => made?,
                };
                if !self.store.get(session, &name, &mut Wanted { file: &mut file, call: self })? {
                    std::fs::remove_file(&path)?;
                }
            }
        }
        Ok(())
    }

    /// An error once nobody waits for what is fetched.
    fn is_wanted(&self) -> io::Result<()> {
        match self.stop.is_cancelled() || self.given_up.is_cancelled() {
            true => Err(io::Error::other("the call was stopped")),
            false => Ok(()),
        }
    }

    /// The folders with copies that were fetched: as they are told, and where they are.
    #[cfg(unix)]
    pub(crate) fn fetched(&self) -> impl Iterator<Item = (PathBuf, PathBuf)> {
        let sessions: BTreeSet<&SessionId> = self.named.iter().map(|(session, _)| session).collect();
        let folder = self.folder.get();
        sessions.into_iter().filter_map(move |session| Some((told_folder(session), folder?.join(session.as_str()))))
    }

    fn folder(&self) -> io::Result<PathBuf> {
        if let Some(folder) = self.folder.get() {
            return Ok(folder.clone());
        }
        let folder = self.store.copies()?.join(crate::words::ids::new_uuid().simple().to_string());
        let folder = self.folder.get_or_init(|| folder).clone();
        private_folder(&folder)?;
        Ok(folder)
    }

    /// Puts a file of this call into the store, and removes it. Its path is then the one that the model is told.
    fn put(&self, file: SpillFile) -> io::Result<SpillFile> {
        let name = file.path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
        let name = name.ok_or_else(|| io::Error::other("its file has no name"))?;
        let put = File::open(&file.path).and_then(|open| self.store.put(&self.session, &name, &open));
        let _ = std::fs::remove_file(&file.path);
        put.map(|()| SpillFile { path: told_folder(&self.session).join(name), ..file })
    }

    async fn in_time<T: Send + 'static>(&self, work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
        let stopped = async {
            self.stop.cancelled().await;
            tokio::time::sleep(PATIENCE_OF_STOPPED).await;
        };
        let why = tokio::select! {
            biased;
            done = tokio::task::spawn_blocking(work) => return done.unwrap_or_else(|lost| Err(io::Error::other(lost))),
            () = stopped => "the call was stopped before the store answered".to_owned(),
            () = tokio::time::sleep(PATIENCE) => format!("the store did not answer in {} s", PATIENCE.as_secs()),
        };
        self.given_up.cancel();
        Err(io::Error::other(why))
    }
}

/// A copy that is written as long as its call waits for it.
struct Wanted<'a> {
    file: &'a mut File,
    call: &'a CallOutputs,
}

impl Write for Wanted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.call.is_wanted()?;
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for CallOutputs {
    fn drop(&mut self) {
        let Some(folder) = self.folder.take() else { return };
        let remove = move || drop(std::fs::remove_dir_all(folder));
        // The last owner may be a task.
        match tokio::runtime::Handle::try_current() {
            Ok(tokio) => drop(tokio.spawn_blocking(remove)),
            Err(_) => remove(),
        }
    }
}

/// The place of a call's large outputs: a folder beside the tapes, or the store itself.
#[derive(Clone)]
pub(crate) enum SpillPlace {
    /// Files that stay in this folder.
    Folder(Arc<PathBuf>),
    /// The store, by way of a file of the call.
    Store(Arc<CallOutputs>),
}

impl SpillPlace {
    /// Begins an output. Blocks on the disk.
    pub(crate) fn create(&self, id: &str, max_bytes: u64) -> io::Result<Spill> {
        match self {
            SpillPlace::Folder(folder) => Spill::create(folder, id, max_bytes),
            SpillPlace::Store(outputs) => Spill::create(&outputs.folder()?, id, max_bytes),
        }
    }

    /// Ends an output and keeps it: only then may a result name it. Waits at most 10 s, and 1 s once the call was stopped; a file
    /// that the store did not take is removed.
    pub(crate) async fn keep(&self, spill: Spill) -> io::Result<SpillFile> {
        match self {
            SpillPlace::Folder(_) => Ok(spill.finish()),
            SpillPlace::Store(outputs) => {
                let of_work = outputs.clone();
                outputs.in_time(move || of_work.put(spill.finish())).await
            }
        }
    }
}

fn new_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::mpsc::{Receiver, channel};

    use super::*;
    use crate::lock::Lock;

    /// A store that takes nothing until the other end of its channel is gone.
    struct Stuck(tempfile::TempDir, Lock<Receiver<()>>);

    impl OutputStore for Stuck {
        fn copies(&self) -> io::Result<PathBuf> {
            Ok(self.0.path().to_owned())
        }

        fn put(&self, _: &SessionId, _: &str, _: &File) -> io::Result<()> {
            let _ = self.1.lock().recv();
            Ok(())
        }

        fn get(&self, _: &SessionId, _: &str, _: &mut dyn Write) -> io::Result<bool> {
            Ok(false)
        }

        fn names(&self, _: &SessionId) -> io::Result<Vec<String>> {
            Ok(Vec::new())
        }
    }

    /// A call that is stopped does not wait for a store that does not answer, and leaves no copy behind.
    #[tokio::test]
    async fn a_stopped_call_gives_the_store_up_and_leaves_no_copy() {
        let (release, stuck) = channel();
        let (folder, stop) = (tempfile::tempdir().unwrap(), CancellationToken::new());
        let copies = folder.path().to_owned();
        let store = Arc::new(Stuck(folder, Lock::new(stuck)));
        let outputs = CallOutputs::new(store.clone(), SessionId::new(), BTreeSet::new(), stop.clone());
        let place = SpillPlace::Store(Arc::new(outputs));
        let mut spill = place.create("call", 1_000).unwrap();
        spill.write(b"much").unwrap();
        let is_empty = || std::fs::read_dir(&copies).unwrap().next().is_none();
        assert!(!is_empty());
        stop.cancel();
        let error = place.keep(spill).await.unwrap_err();
        assert_eq!(error.to_string(), "the call was stopped before the store answered");
        drop((place, release));
        while !is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// A call reads the outputs of its own session and those that it inherited, and of no other, whatever else it may read.
    #[test]
    fn a_call_names_the_outputs_beneath_its_roots_alone() {
        let (own, roots) = (SessionId::new(), ["/tamtam/outputs/s".to_owned(), "/srv/spill".to_owned()]);
        let named = |permission: &str, path: &str| {
            let named = named_outputs(&[Access::new(permission, path)], &own, &roots);
            named.into_iter().map(|(session, name)| (session.to_string(), name)).collect::<Vec<_>>()
        };
        let s = || "s".to_owned();
        assert_eq!(named("read", "/tamtam/outputs/s/1.log"), [(s(), Some("1.log".to_owned()))]);
        assert_eq!(named("read", "/tamtam/outputs/s"), [(s(), None)]);
        assert_eq!(named("read", &told_folder(&own).display().to_string()), [(own.to_string(), None)]);
        for other in [
            "/tamtam/outputs/other/1.log",
            "/tamtam/outputs",
            "/tamtam/outputs/s/a/b.log",
            "/tamtam/outputs/s/../other/1.log",
            "/tamtam/outputs/s2/1.log",
            "/srv/spill/1.log",
        ] {
            assert_eq!(named("read", other), [], "{other}");
        }
        assert_eq!(named("edit", "/tamtam/outputs/s/1.log"), []);
    }
}
