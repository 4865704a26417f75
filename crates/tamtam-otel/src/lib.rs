//! What a host's dashboards see of a [Tamtam](tamtam) runtime.
//!
//! | value | what it is for |
//! |---|---|
//! | [`Otlp`] | traces and metrics to an OpenTelemetry collector, by a value that the host builds: no global |
//! | [`prometheus_text`] | the text that Prometheus reads; the server of `tamtam-server` has it at `/metrics` |
//! | [`Alarms`] | conditions of the tree that want a person: stalls, crashes, budgets, queues, the disk |
//!
//! ```
//! use std::sync::Arc;
//! use tamtam::{Runtime, SessionOptions, model::{Reply, Scripted}};
//!
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
//! # let folder = tempfile::tempdir()?;
//! let model = Arc::new(Scripted::new([Reply::text("Hello.")]));
//! let runtime = Runtime::builder().store(folder.path()).model(model).start().await?;
//! let session = runtime.create(SessionOptions::new(folder.path())).await?;
//! session.prompt("Say hello.").await?.wait().await?;
//! # #[cfg(feature = "prometheus")]
//! assert!(tamtam_otel::prometheus_text(&runtime).contains("tamtam_turns_total{outcome=\"done\"} 1"));
//! # runtime.shutdown().await;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! `samples.rs` is the one table of all figures; `prometheus.rs` and `otlp/metrics.rs` write it down. The spans are the library's own
//! (decision 0051); `otlp.rs` exports them. A change must keep that no text of a conversation is in any of it, and that the number of
//! series is bounded: the library bounds the names.

mod alarm;
#[cfg(feature = "otlp")]
mod otlp;
#[cfg(feature = "prometheus")]
mod prometheus;
mod samples;

pub use alarm::{Alarm, AlarmChange, AlarmOptions, Alarms, Condition, conditions};
#[cfg(feature = "otlp")]
pub use otlp::{Otlp, OtlpError, OtlpOptions};
#[cfg(feature = "prometheus")]
pub use prometheus::prometheus_text;
