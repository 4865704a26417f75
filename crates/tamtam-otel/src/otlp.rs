//! Traces and metrics to an OpenTelemetry collector ([`Otlp`]), by OTLP over HTTP.

mod metrics;
mod post;

use std::{collections::HashMap, time::Duration};

use opentelemetry::{
    Context, KeyValue,
    trace::{SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState, TracerProvider as _},
};
use opentelemetry_otlp::{
    ExporterBuildError, MetricExporter, Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::{
    Resource,
    metrics::{PeriodicReader, SdkMeterProvider},
    trace::{BatchSpanProcessor, Sampler, SdkTracer, SdkTracerProvider},
};
use tamtam::{Runtime, model::HttpClient, runtime::TraceLink, session::TraceContext};
use tracing::{Level, Metadata, Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::{Layer, filter::filter_fn, registry::LookupSpan};

/// The most time that the end of an [`Otlp`] waits for the collector.
const FLUSH_LIMIT: Duration = Duration::from_secs(5);

/// Where the collector is, and what is told of the service.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OtlpOptions {
    /// The collector's address for OTLP over HTTP, without a path: `http://127.0.0.1:4318`.
    pub endpoint: String,
    /// The name of the service, as `service.name`.
    pub service: String,
    /// Further attributes of the service, such as `deployment.environment.name`.
    pub attributes: Vec<(String, String)>,
    /// Headers for the collector, such as its key. No log shows them.
    pub headers: HashMap<String, String>,
    /// The share of traces that is kept, from 0 to 1, where the caller's trace does not say. All by default.
    pub sample: f64,
    /// How often metrics are sent; 60 s by default.
    pub metrics_every: Duration,
}

impl OtlpOptions {
    /// All traces of a service, to that collector.
    #[must_use]
    pub fn new(endpoint: impl Into<String>, service: impl Into<String>) -> OtlpOptions {
        OtlpOptions {
            endpoint: endpoint.into(),
            service: service.into(),
            attributes: Vec::new(),
            headers: HashMap::new(),
            sample: 1.0,
            metrics_every: Duration::from_secs(60),
        }
    }
}

/// Why nothing can be exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OtlpError {
    /// There is no tokio runtime here.
    #[error("no tokio runtime: start it inside one, on which the requests to the collector then run")]
    NoRuntime,
    /// The options fit no exporter.
    #[error("bad OTLP options: {0}")]
    Options(String),
}

/// Traces and metrics on their way to a collector. No global: a process can have several, and a host that exports already needs none
/// of it but [`Otlp::link`]'s like.
///
/// Spans wait in a queue of 2,048 and are sent in batches by a thread of the SDK; where the collector is slow or gone, further spans
/// are dropped, and no session waits. The SDK reads the variables `OTEL_BSP_*` and `OTEL_EXPORTER_OTLP_HEADERS`.
///
/// ```no_run
/// use std::sync::Arc;
/// use tamtam::{Runtime, model::{HttpClient, HttpOptions, Scripted}};
/// use tamtam_otel::{Otlp, OtlpOptions};
/// use tracing_subscriber::layer::SubscriberExt as _;
///
/// # async fn f(folder: &std::path::Path) -> Result<(), Box<dyn std::error::Error>> {
/// let client = HttpClient::new(HttpOptions::default());
/// let otlp = Otlp::start(OtlpOptions::new("http://127.0.0.1:4318", "support-agents"), client)?;
/// tracing::subscriber::set_global_default(tracing_subscriber::registry().with(otlp.layer()))?;
/// let builder = Runtime::builder().store(folder).model(Arc::new(Scripted::new([])));
/// let runtime = builder.trace_link(otlp.link()).start().await?;
/// otlp.measure(&runtime)?;
/// // …
/// runtime.shutdown().await;
/// otlp.end().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Otlp {
    traces: SdkTracerProvider,
    tracer: SdkTracer,
    options: OtlpOptions,
    client: post::Client,
    meters: std::sync::Mutex<Vec<SdkMeterProvider>>,
}

impl Otlp {
    /// Starts to export. Call it inside of a tokio runtime: the requests run there, over that client and its proxies and
    /// certificates.
    pub fn start(options: OtlpOptions, client: HttpClient) -> Result<Otlp, OtlpError> {
        let tokio = tokio::runtime::Handle::try_current().map_err(|_| OtlpError::NoRuntime)?;
        let client = post::Client { client, tokio };
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client.clone())
            .with_headers(options.headers.clone())
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(format!("{}/v1/traces", options.endpoint.trim_end_matches('/')))
            .build()
            .map_err(bad)?;
        let traces = SdkTracerProvider::builder()
            .with_span_processor(BatchSpanProcessor::builder(exporter).build())
            .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(options.sample))))
            .with_resource(resource(&options))
            .build();
        let tracer = traces.tracer("tamtam");
        Ok(Otlp { traces, tracer, options, client, meters: std::sync::Mutex::default() })
    }

    /// The layer for a host's subscriber. It exports the spans of turns, and those of level `INFO` or above that a host opens below
    /// or above them; no events, and not the spans that actors have for their log lines, which live as long as the actors.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'s> LookupSpan<'s> + Send + Sync,
    {
        let exported = |about: &Metadata<'_>| {
            about.is_span() && *about.level() <= Level::INFO && !(about.name() == "actor" && is_ours(about))
        };
        tracing_opentelemetry::layer()
            .with_tracer(self.tracer.clone())
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            .with_filter(filter_fn(exported))
    }

    /// The link between a runtime's spans and OpenTelemetry's traces, for
    /// [`Builder::trace_link`](tamtam::runtime::Builder::trace_link). It fits each layer of `tracing-opentelemetry`, also a host's own.
    #[must_use]
    pub fn link(&self) -> impl TraceLink + use<> {
        Joint
    }

    /// Sends the figures of a runtime as metrics, every [`OtlpOptions::metrics_every`], until [`Otlp::end`]. The figures are those
    /// of [`prometheus_text`](crate::prometheus_text), without the histograms.
    pub fn measure(&self, runtime: &Runtime) -> Result<(), OtlpError> {
        let exporter = MetricExporter::builder()
            .with_http()
            .with_http_client(self.client.clone())
            .with_headers(self.options.headers.clone())
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(format!("{}/v1/metrics", self.options.endpoint.trim_end_matches('/')))
            .build()
            .map_err(bad)?;
        let reader = PeriodicReader::builder(exporter).with_interval(self.options.metrics_every).build();
        let meters = SdkMeterProvider::builder().with_reader(reader).with_resource(resource(&self.options)).build();
        metrics::observe(&meters, runtime);
        self.meters.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(meters);
        Ok(())
    }

    /// Sends what is left, within five seconds, and ends. What the collector has not taken by then is lost. Dropping an [`Otlp`]
    /// does the same and blocks for it.
    pub async fn end(self) {
        let ended = tokio::task::spawn_blocking(move || drop(self));
        drop(ended.await);
    }

    fn finish(&self) {
        drop(self.traces.shutdown_with_timeout(FLUSH_LIMIT));
        for meters in self.meters.lock().unwrap_or_else(std::sync::PoisonError::into_inner).drain(..) {
            drop(meters.shutdown_with_timeout(FLUSH_LIMIT));
        }
    }
}

impl Drop for Otlp {
    fn drop(&mut self) {
        self.finish();
    }
}

fn is_ours(about: &Metadata<'_>) -> bool {
    about.target().starts_with("tamtam")
}

fn bad(error: ExporterBuildError) -> OtlpError {
    OtlpError::Options(error.to_string())
}

fn resource(options: &OtlpOptions) -> Resource {
    let attributes = options.attributes.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone()));
    Resource::builder_empty().with_service_name(options.service.clone()).with_attributes(attributes).build()
}

/// See [`Otlp::link`].
struct Joint;

impl TraceLink for Joint {
    fn continue_from(&self, span: &Span, context: &TraceContext) {
        if let Some(remote) = read(context) {
            // A span that has begun keeps its trace; this one was made just now.
            drop(span.set_parent(Context::new().with_remote_span_context(remote)));
        }
    }

    fn context_of(&self, span: &Span) -> Option<TraceContext> {
        let context = span.context();
        let span = context.span();
        let about = span.span_context();
        if !about.is_valid() {
            return None;
        }
        let (trace, id, flags) = (about.trace_id(), about.span_id(), about.trace_flags().to_u8());
        let state = about.trace_state().header();
        TraceContext::new(&format!("00-{trace}-{id}-{flags:02x}"), Some(&state)).ok()
    }
}

fn read(context: &TraceContext) -> Option<SpanContext> {
    let mut fields = context.traceparent().split('-').skip(1);
    let trace = TraceId::from_hex(fields.next()?).ok()?;
    let span = SpanId::from_hex(fields.next()?).ok()?;
    let flags = TraceFlags::new(u8::from_str_radix(fields.next()?, 16).ok()?);
    let state = context.tracestate().and_then(|state| state.parse::<TraceState>().ok()).unwrap_or_default();
    Some(SpanContext::new(trace, span, flags, true, state))
}
