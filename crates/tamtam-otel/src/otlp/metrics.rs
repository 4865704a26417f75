//! The figures of a runtime as instruments that are read when a batch is sent.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use opentelemetry::{
    KeyValue,
    metrics::{AsyncInstrument, MeterProvider as _},
};
use opentelemetry_sdk::metrics::SdkMeterProvider;
use tamtam::{Runtime, runtime::Counters};

use crate::samples::{Family, Kind, Sample, Value, families};

/// How long a reading serves all instruments of a batch.
const FRESH: Duration = Duration::from_secs(1);

/// One reading for all instruments of a batch: each reads by itself.
struct Latest {
    runtime: Runtime,
    read: Mutex<Option<(Instant, Arc<[Family]>)>>,
}

impl Latest {
    fn families(&self) -> Arc<[Family]> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        match &*read {
            Some((at, families)) if at.elapsed() < FRESH => families.clone(),
            _ => {
                let families: Arc<[Family]> = families(&self.runtime.counters(), &self.runtime.tree()).into();
                *read = Some((Instant::now(), families.clone()));
                families
            }
        }
    }

    fn observe(&self, name: &str, observer: &dyn AsyncInstrument<f64>) {
        let families = self.families();
        let samples = families.iter().filter(|family| family.name == name).flat_map(|family| &family.samples);
        samples.for_each(|sample| observer.observe(number(sample), &attributes(sample)));
    }
}

/// Makes an instrument of each family but the histograms, whose buckets the SDK would count itself. Holds the runtime until the
/// provider ends.
pub(super) fn observe(meters: &SdkMeterProvider, runtime: &Runtime) {
    let meter = meters.meter("tamtam");
    let latest = Arc::new(Latest { runtime: runtime.clone(), read: Mutex::default() });
    // A runtime that has done nothing yet has all families but the labels'.
    for Family { name, help, kind, .. } in families(&labelled(), &runtime.tree()) {
        let (latest, dotted) = (latest.clone(), name.replacen('_', ".", 1));
        let each = move |observer: &dyn AsyncInstrument<f64>| latest.observe(name, observer);
        match kind {
            Kind::Histogram => {}
            Kind::Counter => {
                let _ = meter.f64_observable_counter(dotted).with_description(help).with_callback(each).build();
            }
            Kind::Gauge => {
                let _ = meter.f64_observable_gauge(dotted).with_description(help).with_callback(each).build();
            }
        }
    }
}

/// Counters with one value of a label, so that the families of labels are known.
fn labelled() -> Counters {
    let mut counters = Counters::default();
    counters.labelled.insert(String::new(), Default::default());
    counters
}

fn attributes(sample: &Sample) -> Vec<KeyValue> {
    sample.labels.iter().map(|(key, value)| KeyValue::new(*key, value.clone())).collect()
}

#[allow(clippy::cast_precision_loss, reason = "a dashboard's figure")]
fn number(sample: &Sample) -> f64 {
    match &sample.value {
        Value::Whole(n) => *n as f64,
        Value::Real(n) => *n,
        Value::Durations(durations) => durations.sum_ms as f64,
    }
}
