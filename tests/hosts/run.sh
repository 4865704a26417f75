#!/usr/bin/env bash
# Hosts with crates of their own. What those of the first do must be the same whether tamtam is embedded or not; the second is a
# service for many tenants, and its tests are what its tenants see.
#
#   bash tests/hosts/run.sh
set -euo pipefail
cd "$(dirname "$0")/embedding"

# With the same settings as tests/first_hour.sh: the two share what they build. Nobody debugs it.
export CARGO_TARGET_DIR=../../../target/hosts
export CARGO_PROFILE_DEV_DEBUG=false CARGO_INCREMENTAL=0
store=$(mktemp -d)
trap 'rm -rf "$store"' EXIT
cargo build --quiet --locked
without=$("$CARGO_TARGET_DIR/debug/embedding" "$store")
cargo build --quiet --locked --features tamtam
with=$("$CARGO_TARGET_DIR/debug/embedding" "$store")
echo "$with"
if [ "$with" = "$without" ]; then
  echo "test hosts::embedding_changes_nothing_of_what_a_hosts_own_crates_do ... ok"
  echo "1 passed, 0 failed"
else
  diff <(echo "$without") <(echo "$with") || true
  echo "test hosts::embedding_changes_nothing_of_what_a_hosts_own_crates_do ... FAILED"
  echo "0 passed, 1 failed"
  exit 1
fi

# It has no line that the library or its server could have.
cd ../service
lines=$(cat src/*.rs | wc -l)
if [ "$lines" -gt 430 ]; then
  echo "the service has $lines lines: 430 at most"
  exit 1
fi
cargo test --quiet --locked --no-run
cargo test --locked
