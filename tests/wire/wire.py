#!/usr/bin/env python3
"""The wire of `tamtam serve`, judged by programs that are not ours: schemathesis sends what the document of the interface allows
and what it forbids, and a JSON Schema validator reads every event. Then the clients of `examples/clients` are run to their end.

    bash tests/wire/run.sh          sets up what it needs in target/schemathesis, and runs this file there

With words behind it, the file runs the tests whose names have one of them.

`TAMTAM_EVENTS` names a file with the events of the core's tests, one a line. The last line says how many passed and failed."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

import jsonschema_rs

from server import HERE, LONG, ROOT, Server

ST = Path(sys.executable).parent / "st"
CLIENTS = ROOT / "examples/clients"
TESTS = []

# Streams have no end, and these end what the other requests are about: each is asked for below.
STREAMS = ["events_events", "operator_events"]
ENDS = ["levers_end", "sessions_delete"]
DRAIN = ["operator_drain"]

# A valid request may be refused for what no schema says: a name that is taken, two fields that exclude each other.
NOT_CHECKED = "positive_data_acceptance"


def test(function):
    TESTS.append(function)
    return function


def wait_for(look):
    """What `look` finds, as soon as it finds something."""
    until = time.monotonic() + LONG
    while time.monotonic() < until:
        if found := look():
            return found
        time.sleep(0.05)
    raise AssertionError("it did not come in time")


def fuzz(server, there, examples, include=(), exclude=()):
    """Runs schemathesis against the server. `there` has names that exist, by the parameter of the path."""
    lines = [f"[dictionaries.{name}]\nvalues = {json.dumps(values)}" for name, values in there.items()]
    lines += ["[parameters]"]
    lines += [f'"path.{name}" = {{ dictionary = "{name}", probability = 0.8 }}' for name in there]
    config = Path(server.folder.name) / "schemathesis.toml"
    config.write_text("\n".join(lines) + "\n")
    command = [ST, "--config-file", config, "run", f"{server.url}/openapi.json", "--url", server.url, "--seed", "1"]
    command += ["--phases", "coverage,fuzzing", "--max-examples", str(examples), "--exclude-checks", NOT_CHECKED]
    command += ["--continue-on-failure", "--request-timeout", "20", "--warnings", "off", "--no-color"]
    command += [word for one in include for word in ("--include-operation-id", one)]
    command += [word for one in exclude for word in ("--exclude-operation-id", one)]
    done = subprocess.run(command, cwd=server.folder.name, capture_output=True, text=True, timeout=5 * LONG)
    summary = re.search(r"(\d+) generated", done.stdout)
    assert done.returncode == 0 and summary, done.stdout[-8_000:] + done.stderr[-2_000:]
    return int(summary.group(1))


def asking(server, session):
    """Lets the session ask, and returns the ask's ticket."""
    server.json("POST", f"/v1/sessions/{session}/messages", {"text": "ask me", "id": "first"})
    return wait_for(lambda: server.json("GET", f"/v1/sessions/{session}/asks")["asks"])[0]["ask"]


@test
def every_answer_is_as_the_document_says_and_none_is_a_failure_of_the_server():
    """No 5xx, no hang, each answer valid, and what the document forbids is refused."""
    with Server() as server:
        # The names that schemathesis makes up itself are among them: most requests come past "not found".
        for session in ("0", "one", "two"):
            server.json("POST", "/v1/sessions", {"id": session})
        ask = asking(server, "0")
        server.json("POST", "/v1/sessions/0/messages", {"text": "more", "id": "0"})
        sessions = ["0", "one", "two"]
        there = {"id": sessions, "actor": sessions, "ask": [ask, 1], "message": ["0", "first"], "ticket": [ask], "grant": [ask]}
        there["name"] = ["index.html", "api.js"]
        requests = fuzz(server, there, 3, exclude=STREAMS + ENDS + DRAIN)
        assert requests > 1_000, requests
        fuzz(server, {"id": sessions}, 10, include=ENDS)
        assert server.json("GET", "/healthz") == {"status": "ok"}
        assert server.json("GET", "/v1/crashes")["crashes"] == [], "no actor fell over a request"
        document = server.json("GET", "/openapi.json")
        drained = server.json("POST", "/v1/drain", {"deadline_ms": 0})
        validator(document, "Drained").validate(drained)


@test
def without_a_token_nothing_but_the_open_paths_is_answered():
    with Server("--token", "a-token-of-a-test") as server:
        status, kind, said = server.ask("GET", "/openapi.json")
        document = json.loads(said)
        assert (status, kind) == (200, "application/json")
        problem = validator(document, "Problem")
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                if method == "parameters":
                    continue
                status, kind, said = server.ask(method.upper(), re.sub(r"{\w+}", "0", path))
                if operation.get("security") == []:
                    assert status in (200, 204, 404, 422), (path, status)
                else:
                    assert (status, kind) == (401, "application/problem+json"), (path, status)
                    problem.validate(json.loads(said))


def validator(document, name, strict=False):
    """A validator for the schema of this name. A strict one knows no field that the schema does not name."""
    schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
    return jsonschema_rs.validator_for({**schema, "unevaluatedProperties": False} if strict else schema)


def kinds(value):
    """The kinds of events that the schema knows."""
    if isinstance(value, dict):
        named = value.get("properties", {}).get("event", {}).get("const")
        return ({named} if named else set()).union(*map(kinds, value.values()))
    return set().union(*map(kinds, value)) if isinstance(value, list) else set()


@test
def every_schema_is_one_of_2020_12():
    document = json.loads((ROOT / "docs/openapi.json").read_text())
    for name, schema in document["components"]["schemas"].items():
        jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}), name


@test
def the_events_of_the_cores_tests_are_of_all_kinds_and_as_their_schema_says():
    document = json.loads((ROOT / "docs/openapi.json").read_text())
    strict = validator(document, "Event", strict=True)
    seen, lines = set(), 0
    for line in set(Path(os.environ["TAMTAM_EVENTS"]).read_text().split("\n")) - {""}:
        event = json.loads(line)
        errors = [f"{error.instance_path}: {error.message}" for error in strict.iter_errors(event)]
        assert not errors, f"{line[:2_000]}\n{errors[:5]}"
        seen.add(event["event"])
        lines += 1
    known = kinds(document["components"]["schemas"]["Event"]) | kinds(document["components"]["schemas"]["BranchEvent"])
    assert seen == known, (sorted(known - seen), sorted(seen - known))
    assert lines > 300, lines
    print(f"  {lines} events of {len(seen)} kinds")


@test
def the_frames_of_streams_are_as_the_document_says():
    with Server() as server:
        document = server.json("GET", "/openapi.json")

        def frames_of(path):
            said = document["paths"][path]["get"]["responses"]["200"]["content"]["text/event-stream"]["x-frames"]
            whole = {name: {**schema, "components": document["components"]} for name, schema in said.items()}
            return {name: jsonschema_rs.validator_for(schema) for name, schema in whole.items()}

        server.json("POST", "/v1/sessions", {"id": "s"})
        ask = asking(server, "s")
        allowed = frames_of("/v1/sessions/{id}/events")
        seen = set()
        for name, last, data in server.frames("/v1/sessions/s/events?after=0"):
            allowed[name or "message"].validate(data)
            assert (last == "") == (int(data["id"].split(".")[1]) > 0), data
            seen.add(data["event"])
            if data["event"] == "ask":
                server.ask("POST", f"/v1/sessions/s/asks/{ask}", {"grant": "once"})
            if data["event"] == "turn_finished":
                break
        assert {"turn_started", "part_updated", "ask", "ask_closed", "call_finished", "text_delta"} <= seen, seen
        for name, _, data in server.frames("/v1/sessions/s/events?after=0&view=turns"):
            allowed[name or "message"].validate(data)
            if data["type"] == "agent_complete":
                break
        tree = frames_of("/v1/tree/events")
        name, _, data = next(iter(server.frames("/v1/tree/events")))
        assert name == "snapshot"
        tree[name].validate(data)
        problem = validator(document, "Problem")
        for bad in ("events?after=x", "events?deltas=2", "events?odd=1", "events?after=1&after=2", "events?looks_on="):
            status, _, said = server.ask("GET", f"/v1/sessions/s/{bad}")
            assert status == 422, (bad, status)
            problem.validate(json.loads(said))


# What both clients print about the same conversation.
TALK = """asked: may write run?
steered: be brief
write: done
answer: Written, in brief. (done)
"""


class Cutting:
    """A way to the server on which an event stream breaks after every third frame."""

    def __init__(self, server):
        self.to = int(server.url.rsplit(":", 1)[1])
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.cuts = 0
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.carry, args=(client,), daemon=True).start()

    def carry(self, client):
        with client, socket.create_connection(("127.0.0.1", self.to)) as server:
            threading.Thread(target=self.send, args=(client, server), daemon=True).start()
            frames, is_stream = 0, False
            while piece := server.recv(1 << 16):
                is_stream = is_stream or b"text/event-stream" in piece
                client.sendall(piece)
                frames += piece.count(b"\ndata: ") + piece.startswith(b"data: ") if is_stream else 0
                if frames >= 3:
                    self.cuts += 1
                    client.shutdown(socket.SHUT_RDWR)
                    return

    @staticmethod
    def send(client, server):
        try:
            while piece := client.recv(1 << 16):
                server.sendall(piece)
        except OSError:
            pass


def run_client(*command):
    with Server() as server:
        way = Cutting(server)
        done = subprocess.run([*command, way.url], capture_output=True, text=True, timeout=LONG)
        way.listener.close()
        assert (done.returncode, done.stdout) == (0, TALK), done.stdout + done.stderr
        assert way.cuts >= 2, way.cuts
        messages = server.json("GET", "/v1/sessions/client/messages")["messages"]
        assert sorted(one["id"] for one in messages if one["role"] == "user") == ["m1", "m2"], messages


@test
def the_client_in_python_follows_a_session_over_breaks_steers_and_answers():
    run_client(sys.executable, CLIENTS / "client.py")


@test
def the_client_for_node_follows_a_session_over_breaks_steers_and_answers():
    run_client(shutil.which("node"), CLIENTS / "client.mjs")


def main(only=sys.argv[1:]):
    failed = ran = 0
    for function in [one for one in TESTS if not only or any(word in one.__name__ for word in only)]:
        ran += 1
        name, began = function.__name__, time.monotonic()
        try:
            function()
            outcome = "ok"
        except Exception:
            traceback.print_exc()
            outcome, failed = "FAILED", failed + 1
        print(f"test wire::{name} ... {outcome}", flush=True)
        print(f"  {time.monotonic() - began:.1f} s", flush=True)
    print(f"{ran - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
