#!/usr/bin/env bash
# Installs what the tests need, then runs all of them. The last line says how many passed and failed.
#
#   bash tests/all.sh            everything
#   bash tests/all.sh --quick    without the run that leaves the feature sqlite out
set -uo pipefail
cd "$(dirname "$0")/.."

results=target/results
rm -rf "$results"
mkdir -p "$results"
status=0

# The mock server that we did not write (npm, pinned by a lock file).
if ! (cd tests/aimock && npm ci --no-audit --no-fund --loglevel=error); then
  echo "failed to install the mock server: node and npm are needed" >&2
  exit 1
fi

# run NAME COMMAND…: runs one part, keeps its output, and goes on.
run() {
  local name=$1
  shift
  echo "== $name"
  "$@" 2>&1 | tee "$results/$name.log"
  local code=${PIPESTATUS[0]}
  if [ "$code" -ne 0 ]; then
    echo "== $name ended with $code" >&2
    status=1
  fi
}

# The output of a test run names each test on a line of its own; the coverage reports are made from that.
run tests cargo test --no-fail-fast --features cli --lib --bins --test it
run bdd cargo test --features cli --test bdd
run doc cargo test --features cli --doc
if [ "${1:-}" != "--quick" ]; then
  # A build of its own, in which a test may end an actor, a thread or the process at each crash point by name.
  run crash-points cargo test --features cli,fault-injection --test it crash_points::
  run without-sqlite cargo test --no-default-features --features http,tools --lib
fi
# The checked-in pages are made by the same program; where they differ from this run, it says so.
python3 tests/coverage.py --check | tee "$results/coverage.log" ||
  echo "the checked-in coverage pages differ from this run: run python3 tests/coverage.py and commit them"

# One closing line over all parts, in the plain form.
passed=0
failed=0
for log in "$results"/{tests,doc,crash-points,without-sqlite}.log; do
  [ -f "$log" ] || continue
  while read -r p f; do
    passed=$((passed + p))
    failed=$((failed + f))
  done < <(sed -nE 's/^test result: [a-zA-Z]+\. ([0-9]+) passed; ([0-9]+) failed.*/\1 \2/p' "$log")
done
read -r p f < <(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed.*/\1 \2/p' "$results/bdd.log" | tail -n 1) || true
passed=$((passed + ${p:-0}))
failed=$((failed + ${f:-0}))
# A part that broke before it could count its tests is a failure all the same.
if [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; then
  failed=1
fi
echo "$passed passed, $failed failed"
exit "$status"
