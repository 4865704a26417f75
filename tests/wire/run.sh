#!/usr/bin/env bash
# The wire of the server, judged by programs that are not ours (schemathesis, a JSON Schema validator), and the example clients.
#
#   bash tests/wire/run.sh
#
# Needs target/debug/tamtam, Python 3 with venv, and Node. What it installs is pinned and stays in target/schemathesis.
set -euo pipefail
cd "$(dirname "$0")/../.."

venv=target/schemathesis
if ! cmp -s tests/wire/requirements.txt "$venv/requirements.txt"; then
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --requirement tests/wire/requirements.txt
  cp tests/wire/requirements.txt "$venv/requirements.txt"
fi

# The events of the core's tests: those of this run of the suite, or of a run of their own.
export TAMTAM_EVENTS=${TAMTAM_EVENTS:-$PWD/target/results/events.jsonl}
if [ ! -s "$TAMTAM_EVENTS" ]; then
  mkdir -p "$(dirname "$TAMTAM_EVENTS")"
  cargo test --workspace --all-features --quiet --lib -- kernel::tests::core event::tests --skip torn >/dev/null
fi
exec "$venv/bin/python" tests/wire/wire.py
