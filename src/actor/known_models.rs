//! The host's models, and what is known of them: a decision needs the size of a model's context and its price, and only the host's
//! code knows them.
//!
//! The host's answer about a model is kept, so it is asked once, or once for each of several sessions that ask at the same moment.
//! Its code may panic or hang. What a panic leaves unknown counts as the default; nothing is kept, and the next question asks
//! again. A hang costs each session that asks, and a thread for each; on a runtime with a single thread it holds up everything.
//!
//! A change must not ask under the lock, nor on a thread that still has tasks to run ([`apart`]).

use std::{collections::HashMap, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::{
    kernel::{ModelSeen, Windows, context::Window},
    lock::Lock,
    model::{Model, ModelError, Models, Prices, Request},
    words::message::ModelRef,
};

/// For how many models answers are kept. Beyond that all are forgotten and asked for again: sessions may name models at will.
const KEPT_MAX: usize = 1_000;

/// How long a host may take for another key.
const RENEWAL_MAX: Duration = Duration::from_secs(30);

/// See the module.
pub(crate) struct KnownModels {
    of_host: Arc<dyn Models>,
    /// Prices that the host set at the start; they take precedence over those of `of_host`.
    pub(crate) prices: Prices,
    kept: Lock<HashMap<ModelRef, ModelSeen>>,
}

impl std::fmt::Debug for KnownModels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KnownModels").finish_non_exhaustive()
    }
}

impl KnownModels {
    pub(crate) fn new(of_host: Arc<dyn Models>) -> KnownModels {
        KnownModels { of_host, prices: Prices::default(), kept: Lock::default() }
    }

    /// The model itself. Runs the host's code in place: for workers and callers, not for an actor.
    pub(crate) fn find(&self, model: &ModelRef) -> Result<Arc<dyn Model>, ModelError> {
        self.of_host.find(model)
    }

    /// The model for a request. Runs the host's code in place: for workers.
    pub(crate) fn find_for(&self, model: &ModelRef, request: &Request) -> Result<Arc<dyn Model>, ModelError> {
        self.of_host.find_for(model, request)
    }

    /// Whether the host has another key for a request whose key was refused. For workers.
    pub(crate) async fn renew_key(&self, model: &ModelRef, request: &Request) -> bool {
        // A future that is late is dropped inside of the limit's, and that may panic too.
        let asked = async { tokio::time::timeout(RENEWAL_MAX, self.of_host.renew_key(model, request)).await };
        let renewed = AssertUnwindSafe(asked).catch_unwind().await;
        matches!(renewed, Ok(Ok(true)))
    }
}

impl Windows for KnownModels {
    fn seen(&self, model: &ModelRef) -> ModelSeen {
        if let Some(seen) = self.kept.lock().get(model) {
            return *seen;
        }
        let (limits, price) = apart(|| {
            let price =
                self.prices.get(model).map_or_else(|| caught(|| self.of_host.price_of(model)), |set| Some(Some(set)));
            (caught(|| self.of_host.limits_of(model)), price)
        });
        let (is_known, limits) = (limits.is_some() && price.is_some(), limits.unwrap_or_default());
        let seen = ModelSeen { window: Window::new(limits.context, limits.output), price: price.flatten() };
        if is_known {
            let mut kept = self.kept.lock();
            if kept.len() >= KEPT_MAX {
                kept.clear();
            }
            kept.insert(model.clone(), seen);
        }
        seen
    }
}

/// `None` if the host's code panics: missing facts about a model must not crash a session.
fn caught<T>(ask: impl FnOnce() -> T) -> Option<T> {
    std::panic::catch_unwind(AssertUnwindSafe(ask)).ok()
}

/// Runs code that may hang, after the thread has handed over what waits for it. tokio leaves the task that a thread woke last to
/// that thread alone: without this, a hang would take along an actor that has nothing to do with it, such as the supervisor of all
/// sessions. A tokio runtime of one thread has no other thread to hand it to.
fn apart<T>(ask: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|here| here.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(ask),
        _ => ask(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use std::sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    };

    use super::*;
    use crate::model::{BoxFuture, History, ModelLimits, Price};

    /// A host that counts how often it is asked, and does what the name of the model says.
    #[derive(Default)]
    struct Host(AtomicUsize);

    impl Models for Host {
        fn find(&self, _: &ModelRef) -> Result<Arc<dyn Model>, ModelError> {
            unreachable!("nobody makes a request")
        }

        fn limits_of(&self, name: &ModelRef) -> ModelLimits {
            self.0.fetch_add(1, Ordering::SeqCst);
            match name.model.as_str() {
                "panics" => panic!("the table is broken"),
                // It waits for a task that it wakes itself.
                "waits" => {
                    let (done, is_done) = mpsc::channel();
                    tokio::spawn(async move { done.send(()) });
                    is_done.recv_timeout(Duration::from_secs(30)).expect("another thread runs the task");
                }
                _ => {}
            }
            ModelLimits { context: 5_000, ..ModelLimits::default() }
        }

        fn price_of(&self, _: &ModelRef) -> Option<Price> {
            None
        }

        fn renew_key<'a>(&'a self, _: &'a ModelRef, _: &'a Request) -> BoxFuture<'a, bool> {
            struct Breaks;
            impl Drop for Breaks {
                fn drop(&mut self) {
                    panic!("the vault is broken");
                }
            }
            Box::pin(async {
                let _breaks = Breaks;
                std::future::pending().await
            })
        }
    }

    /// A key that does not come in time is none, also where what was to bring it panics as it is dropped.
    #[tokio::test(start_paused = true)]
    async fn a_key_that_comes_too_late_is_none() {
        let models = KnownModels::new(Arc::new(Host::default()));
        assert!(!models.renew_key(&named("a"), &Request::new(History::default())).await);
    }

    fn named(model: &str) -> ModelRef {
        format!("host/{model}").parse().unwrap()
    }

    /// The host is asked once for each model, and again only after a panic and where too many are known.
    #[test]
    fn a_host_is_asked_once_for_each_model() {
        let host = Arc::new(Host::default());
        let models = KnownModels::new(host.clone());
        let context = |name: &str| models.seen(&named(name)).window.context;
        assert_eq!((context("a"), context("a"), context("b")), (5_000, 5_000, 5_000));
        assert_eq!(host.0.load(Ordering::SeqCst), 2);
        let unknown = ModelLimits::default().context;
        assert_eq!((context("panics"), context("panics")), (unknown, unknown));
        assert_eq!(host.0.load(Ordering::SeqCst), 4);
        for n in 0..KEPT_MAX {
            context(&n.to_string());
        }
        assert!(models.kept.lock().len() <= KEPT_MAX);
    }

    /// What an actor woke before its host's code hangs goes on, on another thread.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_task_that_was_just_woken_does_not_wait_for_the_hosts_code() {
        let models = Arc::new(KnownModels::new(Arc::new(Host::default())));
        let seen = tokio::spawn(async move { models.seen(&named("waits")) }).await.unwrap();
        assert_eq!(seen.window.context, 5_000);
    }
}
