#!/usr/bin/env bash
# A host with crates of its own: what they do must be the same whether tamtam is embedded or not.
#
#   bash tests/hosts/run.sh
set -euo pipefail
cd "$(dirname "$0")/embedding"

export CARGO_TARGET_DIR=../../../target/hosts
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
