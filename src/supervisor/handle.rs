//! The handle of a supervisor: every call that others may make to it.
//!
//! A handle stays valid over restarts of the supervisor; while there is no supervisor, calls answer [`AdminError::Gone`].
//! Dropping a call's future does not undo the call, unless it still waits for its permit: then the call was never made.
//!
//! There are three kinds of calls: those that wait for a child to be up, those that wait for a child to be down, and questions.
//! Each kind has its own bound ([`CALLS_WAITING`]), so that slow starts block neither questions nor stops. A change must keep
//! that a new call takes a permit of its kind. Those that shut the supervisor down or wait for its end
//! ([`SupervisorHandle::request_shutdown`], `shutdown`, `ended`) need none.

use std::{fmt, sync::Arc};

use tokio::sync::{Semaphore, oneshot, watch};

use crate::{
    lock::Lock,
    supervisor::{
        admin::{AdminError, Answer, Done},
        driver::{Driver, Msg},
        exit::ChildDown,
        node_state::NodeState,
        planner::Admin,
        shell::Mailbox,
        spec::{ChildId, ChildKind, ChildSpec, Restart},
        status::Status,
    },
};

/// How many calls of one kind may wait in one supervisor. Further calls wait for a permit.
const CALLS_WAITING: usize = 256;

/// A handle to a supervisor. Cheap to clone; it stays valid when the supervisor is restarted, and answers [`AdminError::Gone`]
/// while there is none. Dropping it changes nothing.
#[derive(Clone)]
pub struct SupervisorHandle {
    pub(crate) shared: Arc<Shared>,
}

impl fmt::Debug for SupervisorHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SupervisorHandle").field("id", &self.shared.id).finish_non_exhaustive()
    }
}

/// The state that the incarnations of one supervisor share with its handles.
pub(crate) struct Shared {
    pub(crate) id: ChildId,
    pub(crate) mailbox: Lock<Option<Mailbox<Msg>>>,
    /// How the last incarnation ended; `None` while there is one, and before the first.
    pub(crate) down: watch::Sender<Option<ChildDown>>,
    /// The permits of the three kinds of calls: those that wait for a child to be up, those that wait for a child to be down, and
    /// questions, which are answered at once. Each kind has its own, so that slow starts block neither questions nor stops.
    ups: Semaphore,
    downs: Semaphore,
    questions: Semaphore,
}

impl Shared {
    pub(crate) fn new(id: ChildId) -> Arc<Shared> {
        Arc::new(Shared {
            id,
            mailbox: Lock::new(None),
            down: watch::Sender::new(None),
            ups: Semaphore::new(CALLS_WAITING),
            downs: Semaphore::new(CALLS_WAITING),
            questions: Semaphore::new(CALLS_WAITING),
        })
    }

    pub(crate) fn set_mailbox(&self, mailbox: Option<Mailbox<Msg>>) {
        *self.mailbox.lock() = mailbox;
    }

    fn send(&self, msg: Msg) -> Result<(), AdminError> {
        let mailbox = self.mailbox.lock().clone();
        mailbox.and_then(|mailbox| mailbox.send(msg).ok()).ok_or(AdminError::Gone)
    }
}

/// One child, as its supervisor sees it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ChildInfo {
    /// Its id.
    pub id: ChildId,
    /// Worker or supervisor.
    pub kind: ChildKind,
    /// When it is started again.
    pub restart: Restart,
    /// Its status.
    pub status: Status,
    /// Whether it is on its way up again after a crash.
    pub restarting: bool,
    /// Which incarnation: 1 for the first, 0 before it.
    pub incarnation: u64,
    /// Restarts after crashes, in all.
    pub restarts: u64,
    /// The text that its last start had, see [`Start::with`](crate::supervisor::Start::with).
    pub info: Option<Arc<str>>,
    /// Its node.
    pub node: Arc<NodeState>,
}

/// How many children there are; OTP's numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Counts {
    /// All known children.
    pub specs: usize,
    /// The children that are up, stopping or unkillable.
    pub active: usize,
    /// The known children that are supervisors.
    pub supervisors: usize,
    /// The known children that are workers.
    pub workers: usize,
}

impl SupervisorHandle {
    /// Adds a child and starts it. Returns when the child has started, or could not start. A child that could not start is not
    /// kept.
    ///
    /// Dropping the future does not take the child back, unless the call still waits for a permit: then it was never made. The same
    /// is true of the other calls.
    pub async fn start_child(&self, spec: ChildSpec) -> Result<Done, AdminError> {
        self.call(&self.shared.ups, |reply| Msg::Start(Box::new(spec), reply)).await?
    }

    /// Stops a child and returns when it is down; it is not restarted automatically. Its spec is kept, unless it is temporary or
    /// dynamic. Stopping a stopped child is fine.
    pub async fn terminate_child(&self, id: impl Into<ChildId>) -> Result<Done, AdminError> {
        self.admin(id.into(), Admin::Terminate).await
    }

    /// Starts a child that is stopped.
    pub async fn restart_child(&self, id: impl Into<ChildId>) -> Result<Done, AdminError> {
        self.admin(id.into(), Admin::Restart).await
    }

    /// Starts a child afresh; it is stopped first if it runs. This counts against no restart budget, and forgets its crashes if it
    /// was stopped, waiting or parked. A temporary child and an unkillable one are refused.
    pub async fn recycle_child(&self, id: impl Into<ChildId>) -> Result<Done, AdminError> {
        self.admin(id.into(), Admin::Recycle).await
    }

    /// Forgets a child that is stopped or parked.
    pub async fn delete_child(&self, id: impl Into<ChildId>) -> Result<Done, AdminError> {
        self.admin(id.into(), Admin::Delete).await
    }

    /// Stops a child and keeps it stopped until it is unparked or recycled. A temporary child is refused.
    pub async fn park(&self, id: impl Into<ChildId>) -> Result<Done, AdminError> {
        self.admin(id.into(), Admin::Park).await
    }

    /// Starts a parked child again, with its crashes forgotten.
    pub async fn unpark(&self, id: impl Into<ChildId>) -> Result<Done, AdminError> {
        self.admin(id.into(), Admin::Unpark).await
    }

    /// All children, in the order of their start.
    pub async fn which_children(&self) -> Result<Vec<ChildInfo>, AdminError> {
        self.ask(Driver::which).await
    }

    /// One child.
    pub async fn which_child(&self, id: impl Into<ChildId>) -> Result<ChildInfo, AdminError> {
        let id = id.into();
        self.ask(move |driver| driver.which_one(&id)).await?.ok_or(AdminError::NotFound)
    }

    /// Kills the supervisor; only tests can.
    #[cfg(test)]
    pub(crate) fn kill(&self) {
        if let Some(mailbox) = &*self.shared.mailbox.lock() {
            mailbox.kill();
        }
    }

    /// How many entries the supervisor's tables hold together.
    #[cfg(test)]
    pub(crate) async fn kept(&self) -> Result<usize, AdminError> {
        self.ask(Driver::kept).await
    }

    /// How many children there are.
    pub async fn count_children(&self) -> Result<Counts, AdminError> {
        self.ask(Driver::count).await
    }

    /// Returns when the supervisor has handled all earlier messages.
    pub(crate) async fn ping(&self) -> Result<(), AdminError> {
        self.ask(|_| ()).await
    }

    /// Asks the supervisor to stop its children and end, and returns at once. Asking twice is fine.
    pub fn request_shutdown(&self) {
        // Without a mailbox the supervisor is down already.
        let _ = self.shared.send(Msg::Shutdown("shutdown".to_owned()));
    }

    /// Stops the children and the supervisor, and returns when they are down. The answer names the children that did not end
    /// although they were killed.
    ///
    /// It may be called many times and side by side. A child that calls this waits for itself: it is killed when its
    /// shutdown time is over (never, with [`Shutdown::Infinity`](crate::supervisor::Shutdown)), so it should call
    /// [`request_shutdown`](Self::request_shutdown).
    pub async fn shutdown(&self) -> ChildDown {
        self.request_shutdown();
        self.ended().await
    }

    /// Returns when the supervisor has ended, and how.
    pub async fn ended(&self) -> ChildDown {
        let mut down = self.shared.down.subscribe();
        // The sender is in `shared`, which this handle holds, so the wait cannot fail.
        match down.wait_for(Option::is_some).await.ok().and_then(|down| down.clone()) {
            Some(down) => down,
            None => std::future::pending().await,
        }
    }

    async fn admin(&self, id: ChildId, what: Admin) -> Answer {
        let permits = match what {
            Admin::Restart | Admin::Recycle | Admin::Unpark => &self.shared.ups,
            Admin::Terminate | Admin::Delete | Admin::Park => &self.shared.downs,
        };
        self.call(permits, |reply| Msg::Admin(id, what, reply)).await?
    }

    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Driver) -> T + Send + 'static,
    ) -> Result<T, AdminError> {
        // The caller may have dropped its receiver.
        let msg = |reply: oneshot::Sender<T>| Msg::Question(Box::new(move |driver| drop(reply.send(question(driver)))));
        self.call(&self.shared.questions, msg).await
    }

    async fn call<T>(&self, permits: &Semaphore, msg: impl FnOnce(oneshot::Sender<T>) -> Msg) -> Result<T, AdminError> {
        let _permit = permits.acquire().await.map_err(|_| AdminError::Gone)?;
        let (reply, answer) = oneshot::channel();
        self.shared.send(msg(reply))?;
        answer.await.map_err(|_| AdminError::Gone)
    }
}
