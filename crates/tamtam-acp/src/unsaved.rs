//! [`UnsavedFiles`]: what is in the editor and not on the disk yet is seen, and never written over.
//!
//! A hook beside the tools, so that their guards, locks and records stay as they are. Before a file is written or edited, the clients
//! that hold the session are asked for its text; where that is not the text on the disk, the call is refused with a word about it. A
//! file that was read has the editor's text behind it. Only what a call may reach anyway is looked at: the model is shown a text only
//! behind a read that was allowed.
//!
//! A client that does not answer in [`CLIENT_LIMIT`] is passed over, as one that has no files.

use std::{
    collections::HashMap,
    io::Read as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::{Value, json};
use tamtam::{
    SessionId,
    hook::{Hook, HookCall, Verdict},
    model::BoxFuture,
    tool::ToolResult,
};

use crate::{calls::named_path, peer::Peer};

/// How long a client may take to give the text of a file.
const CLIENT_LIMIT: Duration = Duration::from_secs(1);
/// The largest file that is compared, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// How much of an unsaved text a model is shown, in bytes.
const SHOWN_BYTES_MAX: usize = 32 << 10;

/// A hook that asks editors for what is not saved. Give it to the runtime ([`Builder::hook`](tamtam::runtime::Builder::hook)) and to
/// the options of each client ([`AcpOptions::unsaved`](crate::AcpOptions::unsaved)); clones are one hook.
#[derive(Clone, Default)]
pub struct UnsavedFiles {
    clients: Arc<Mutex<HashMap<SessionId, Vec<Client>>>>,
}

/// A client that holds a session and gives the text of files.
struct Client {
    peer: Peer,
    workspace: PathBuf,
}

impl std::fmt::Debug for UnsavedFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UnsavedFiles").finish_non_exhaustive()
    }
}

impl UnsavedFiles {
    /// One that no client has been given yet.
    #[must_use]
    pub fn new() -> UnsavedFiles {
        UnsavedFiles::default()
    }

    pub(crate) fn add(&self, session: &SessionId, workspace: &str, peer: &Peer) {
        self.remove(session, peer);
        let client = Client { peer: peer.clone(), workspace: workspace.into() };
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).entry(session.clone()).or_default().push(client);
    }

    pub(crate) fn remove(&self, session: &SessionId, peer: &Peer) {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(of_session) = clients.get_mut(session) {
            of_session.retain(|client| !client.peer.is(peer));
            if of_session.is_empty() {
                clients.remove(session);
            }
        }
    }

    /// The text of the file that a call is about, where an editor has another one than the disk.
    async fn unsaved(&self, call: &HookCall) -> Option<Unsaved> {
        let named = named_path(&call.arguments)?;
        let clients: Vec<_> = {
            let clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
            let of_session = clients.get(&call.session)?;
            of_session.iter().map(|client| (client.peer.clone(), client.workspace.join(named))).collect()
        };
        for (peer, path) in clients {
            let asked = peer.ask("fs/read_text_file", json!({ "sessionId": call.session, "path": path }));
            let Ok(Ok(Ok(answer))) = tokio::time::timeout(CLIENT_LIMIT, asked).await else { continue };
            let Some(text) = answer["content"].as_str().map(plain) else { continue };
            if tokio::task::spawn_blocking(move || saved(&path)).await.ok()?.is_some_and(|saved| saved != text) {
                return Some(Unsaved { path: named.to_owned(), text });
            }
        }
        None
    }
}

struct Unsaved {
    path: String,
    text: String,
}

/// The text of a file as editors compare it; `None` for none, a large one, and what is no text.
fn saved(path: &Path) -> Option<String> {
    let mut how = std::fs::OpenOptions::new();
    how.read(true);
    // A FIFO that takes the place of the file would hold up the opening for ever.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut how, rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    let file = how.open(path).ok()?;
    // Asked of what was opened: the name may be another file's by now.
    file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let mut text = String::new();
    // Files of the system say that they are empty, and go on without an end.
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).ok()?;
    (text.len() as u64 <= FILE_BYTES_MAX).then(|| plain(&text))
}

/// Without what an editor adds or leaves out by itself.
fn plain(text: &str) -> String {
    text.trim_start_matches('\u{feff}').replace("\r\n", "\n").trim_end_matches('\n').to_owned()
}

impl Hook for UnsavedFiles {
    fn name(&self) -> &str {
        "unsaved files"
    }

    /// It is a help and no guard: without it calls do what they do.
    fn guards(&self) -> bool {
        false
    }

    fn sees_events(&self) -> bool {
        false
    }

    fn before_call<'a>(&'a self, call: &'a HookCall) -> BoxFuture<'a, Verdict> {
        Box::pin(async move {
            if !matches!(call.tool.as_str(), "write" | "edit") {
                return Verdict::Pass;
            }
            match self.unsaved(call).await {
                None => Verdict::Pass,
                Some(Unsaved { path, .. }) => Verdict::Block(format!(
                    "{path} has changes in the user's editor that are not saved: ask the user to save or discard them, then read it again"
                )),
            }
        })
    }

    fn on_result<'a>(&'a self, call: &'a HookCall, mut result: ToolResult) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            if call.tool != "read" || result.is_error() {
                return result;
            }
            if let Some(Unsaved { path, text }) = self.unsaved(call).await {
                let shown = &text[..text.floor_char_boundary(SHOWN_BYTES_MAX)];
                let cut = if shown.len() < text.len() { "\n... [truncated]" } else { "" };
                result.content.push_str(&format!(
                    "\n\n[The user's editor has changes of {path} that are not saved. Its text there, without line numbers:]\n{shown}{cut}"
                ));
                if let Value::Object(details) = &mut result.details {
                    details.insert("unsaved".to_owned(), true.into());
                }
            }
            result
        })
    }
}
