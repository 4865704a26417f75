#!/usr/bin/env bash
# What is exported, read by programs that are not ours: a collector's protobuf, and Prometheus' parser.
#
#   bash tests/telemetry/run.sh
#
# Needs Python 3 with venv. What it installs is pinned and stays in target/telemetry.
set -euo pipefail
cd "$(dirname "$0")/../.."

venv=target/telemetry
if ! cmp -s tests/telemetry/requirements.txt "$venv/requirements.txt"; then
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --requirement tests/telemetry/requirements.txt
  cp tests/telemetry/requirements.txt "$venv/requirements.txt"
fi
cargo build --workspace --all-features --quiet --example observed
exec "$venv/bin/python" tests/telemetry/judge.py
