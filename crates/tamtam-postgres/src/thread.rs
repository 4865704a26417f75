//! Between callers that block and connections that do not: a thread that drives the connections, and waiting for it.
//!
//! The methods of a store are plain functions. One thread of the store's own drives all of its connections, on a tokio runtime of
//! one thread, and ends with the last clone of the store. A caller that may block polls its own future and parks between two
//! polls. Rejected: tokio's `block_on` in the caller, which panics where a host calls a store from an async thread, which is slow
//! and no bug.

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::Thread,
};

use tokio::runtime::{Builder, Runtime};

use crate::PostgresError;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Blocks until the future is ready. It must not need a runtime to be polled.
pub(crate) fn wait<F: Future>(future: F) -> F::Output {
    // Without the budget of the task that the caller may be in: nothing would fill it up again.
    let mut future = pin!(tokio::task::unconstrained(future));
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

pub(crate) fn runtime() -> Result<Runtime, PostgresError> {
    let made = Builder::new_current_thread().enable_all().build();
    made.map_err(|error| PostgresError::Unreachable { message: format!("no runtime for connections: {error}") })
}

/// Runs a future to its end on a thread and a runtime of its own, and blocks until then.
pub(crate) fn on_a_thread<T: Send>(
    future: impl Future<Output = Result<T, PostgresError>> + Send,
) -> Result<T, PostgresError> {
    std::thread::scope(|scope| {
        let working = scope.spawn(|| {
            let runtime = runtime()?;
            let done = runtime.block_on(future);
            // A name that is still looked up has no say any more.
            runtime.shutdown_background();
            done
        });
        let ran = working.join();
        ran.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
