"""Runs the example `observed` against a collector, and judges what comes: traces, metrics, and the text for Prometheus."""

import http.server
import subprocess
import sys
import threading
import traceback

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Status
from prometheus_client.openmetrics.parser import text_string_to_metric_families

PARENT_TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT_SPAN = "b7ad6b7169203331"


class Collector(http.server.BaseHTTPRequestHandler):
    spans, metrics, resources, keys, raw = [], {}, [], set(), []

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        Collector.raw.append(body)
        Collector.keys.add(self.headers.get("x-collector-key"))
        if self.path == "/v1/traces":
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                Collector.resources.append(attributes(resource.resource))
                for scope in resource.scope_spans:
                    Collector.spans.extend(scope.spans)
        elif self.path == "/v1/metrics":
            for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for scope in resource.scope_metrics:
                    for metric in scope.metrics:
                        Collector.metrics[metric.name] = metric
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def attributes(of):
    return {a.key: getattr(a.value, a.value.WhichOneof("value") or "string_value") for a in of.attributes}


def run():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    observed = subprocess.run(
        ["target/debug/examples/observed", address], capture_output=True, text=True, timeout=120, check=False
    )
    server.shutdown()
    assert observed.returncode == 0, observed.stderr
    return observed.stdout


def path(span):
    """The names of a span and of all above it, from the turn on."""
    by_id = {other.span_id: other for other in Collector.spans}
    names = [span.name]
    while span.parent_span_id in by_id:
        span = by_id[span.parent_span_id]
        names.append(span.name)
    return "/".join(reversed(names))


def test_the_trace_of_a_turn_with_calls_and_a_task_is_one_tree_over_a_crash(_):
    spans = [span for span in Collector.spans if span.trace_id.hex() == PARENT_TRACE]
    paths = sorted(path(span) for span in spans)
    turn, child = "invoke_agent", "invoke_agent/step/execute_tool/invoke_agent"
    # A task is in the trace of the call that gave it.
    wanted = [turn, child, f"{child}/step", f"{child}/step/chat"]
    wanted += [f"{turn}/step"] * 3 + [f"{turn}/step/task"] + [f"{turn}/step/execute_tool"] * 3
    wanted += [f"{turn}/step/execute_tool/query of the host"] * 2
    requests = paths.count(f"{turn}/step/chat")
    # The request that the crash cut off is made again.
    assert requests == 4, paths
    rest = [one for one in paths if one != f"{turn}/step/chat"]
    # The restarted actor may have begun the step anew.
    rest = [one for n, one in enumerate(rest) if not (one == f"{turn}/step" and rest[:n].count(one) >= 3)]
    assert rest == sorted(wanted), "\n".join(rest)
    root = next(span for span in spans if path(span) == turn)
    assert root.parent_span_id.hex() == PARENT_SPAN
    of_root = attributes(root)
    assert of_root["tamtam.outcome"] == "done" and of_root["tamtam.recoveries"] == 1, of_root
    assert of_root["gen_ai.operation.name"] == "invoke_agent"
    ends = {span.span_id: (span.start_time_unix_nano, span.end_time_unix_nano) for span in spans}
    assert all(begin <= end for begin, end in ends.values())


def test_a_failed_turn_is_a_trace_of_its_own_and_says_that_it_failed(_):
    others = [span for span in Collector.spans if span.trace_id.hex() != PARENT_TRACE]
    [turn] = [span for span in others if span.name == "invoke_agent"]
    assert turn.status.code == Status.STATUS_CODE_ERROR and not turn.parent_span_id, turn
    chat = [attributes(span) for span in others if span.name == "chat"]
    assert [one["error.type"] for one in chat] == ["refused"], chat
    assert chat[0]["gen_ai.request.model"] == "script"


def test_the_resource_names_the_service_and_the_key_is_in_the_header(_):
    assert all(one["service.name"] == "observed" for one in Collector.resources), Collector.resources
    assert Collector.keys == {"a-canary-of-a-key"}


def test_no_words_of_a_conversation_and_no_key_are_exported(text):
    assert len(Collector.raw) >= 2
    for said in [*Collector.raw, text.encode()]:
        assert b"canary" not in said, said


def test_the_parser_of_prometheus_reads_every_line(text):
    families = {family.name: family for family in text_string_to_metric_families(text)}
    value = lambda name, **labels: sum(
        sample.value
        for family in families.values()
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )
    assert value("tamtam_turns_total", outcome="done") == 2, text
    assert value("tamtam_turns_total", outcome="failed") == 1
    assert value("tamtam_calls_total", tool="look", verdict="allowed") == 2
    assert value("tamtam_recoveries_total") == 1
    labels = [s.labels["label"] for s in families["tamtam_label_tokens"].samples]
    assert 'a "quoted" tenant' in labels, labels
    # How long a request took that a crash cut off and that was made again is not known.
    durations = families["tamtam_request_duration_seconds"]
    assert durations.type == "histogram"
    assert value("tamtam_request_duration_seconds_count") == 3


def test_metrics_over_otlp_have_the_same_values(text):
    families = {family.name: family for family in text_string_to_metric_families(text)}
    tokens = Collector.metrics["tamtam.tokens"].sum
    assert tokens.is_monotonic
    told = sum(point.as_double for point in tokens.data_points)
    read = sum(s.value for s in families["tamtam_tokens"].samples if s.name == "tamtam_tokens_total")
    assert told == read > 0, (told, read)


def main():
    text = run()
    failed = 0
    tests = [(name, test) for name, test in globals().items() if name.startswith("test_")]
    for name, test in tests:
        try:
            test(text)
            print(f"test telemetry::{name[5:]} ... ok")
        except Exception:
            failed += 1
            traceback.print_exc()
            print(f"test telemetry::{name[5:]} ... FAILED")
    print(f"{len(tests) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


main()
