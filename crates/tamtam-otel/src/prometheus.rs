//! The text that Prometheus reads.

use std::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, MetricEncoder, text},
    metrics::{MetricType, exemplar::Exemplar},
    registry::Registry,
};
use tamtam::{Runtime, runtime::Durations};

use crate::samples::{Family, Kind, Value, families};

/// All figures of a runtime in the text format of OpenMetrics, which Prometheus reads. The content type is
/// `application/openmetrics-text; version=1.0.0; charset=utf-8`.
///
/// Asks no actor and no disk: a stuck runtime is shown too. Costs a look at each node of the tree. At most 100 models, 100 tools and
/// 100 values of the counted label have series of their own.
#[must_use]
pub fn prometheus_text(runtime: &Runtime) -> String {
    written(families(&runtime.counters(), &runtime.tree()))
}

fn written(families: Vec<Family>) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Read(families)));
    let mut written = String::new();
    // Writing to a text fails only where a value cannot be written, and ours are numbers.
    let _ = text::encode(&mut written, &registry);
    written
}

#[derive(Debug)]
struct Read(Vec<Family>);

impl Collector for Read {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for Family { name, help, kind, samples } in &self.0 {
            let kind = match kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
                Kind::Histogram => MetricType::Histogram,
            };
            let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
            for sample in samples {
                if sample.labels.is_empty() {
                    value(&mut metric, &sample.value, kind)?;
                } else {
                    value(&mut metric.encode_family(&sample.labels)?, &sample.value, kind)?;
                }
            }
        }
        Ok(())
    }
}

type NoExemplar<V> = Option<&'static Exemplar<Vec<(String, String)>, V>>;

fn value(metric: &mut MetricEncoder<'_>, value: &Value, kind: MetricType) -> fmt::Result {
    match (value, kind) {
        (Value::Whole(n), MetricType::Counter) => metric.encode_counter(n, None as NoExemplar<u64>),
        (Value::Real(n), MetricType::Counter) => metric.encode_counter(n, None as NoExemplar<f64>),
        (Value::Whole(n), _) => metric.encode_gauge(n),
        (Value::Real(n), _) => metric.encode_gauge(n),
        (Value::Durations(durations), _) => durations_of(metric, durations),
    }
}

#[allow(clippy::cast_precision_loss, reason = "milliseconds of a dashboard")]
fn durations_of(metric: &mut MetricEncoder<'_>, durations: &Durations) -> fmt::Result {
    let seconds = |ms: u64| ms as f64 / 1e3;
    let bounds = Durations::BOUNDS_MS.iter().map(|ms| seconds(*ms)).chain([f64::INFINITY]);
    let buckets: Vec<_> = bounds.zip(durations.buckets).collect();
    let count = durations.buckets.iter().fold(0, |sum: u64, n| sum.saturating_add(*n));
    metric.encode_histogram::<Vec<(String, String)>>(seconds(durations.sum_ms), count, &buckets, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::Sample;

    #[test]
    fn names_labels_and_values_are_written_as_openmetrics_has_them() {
        let quoted = Sample { labels: vec![("label", "a \"b\"\n\\".into())], value: Value::Whole(3) };
        let counter = Family { name: "x_things", help: "Things.", kind: Kind::Counter, samples: vec![quoted] };
        let real = Sample { labels: vec![], value: Value::Real(0.25) };
        let gauge = Family { name: "x_part", help: "A part.", kind: Kind::Gauge, samples: vec![real] };
        let text = written(vec![counter, gauge]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "# HELP x_things Things.",
                "# TYPE x_things counter",
                "x_things_total{label=\"a \\\"b\\\"\\n\\\\\"} 3",
                "# HELP x_part A part.",
                "# TYPE x_part gauge",
                "x_part 0.25",
                "# EOF",
            ]
        );
    }
}
