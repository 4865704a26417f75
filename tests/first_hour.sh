#!/usr/bin/env bash
# From `cargo new` to a session with a tool, steered and persisted, by what the README says and nothing else.
#
#   bash tests/first_hour.sh
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export CARGO_TARGET_DIR=$root/target/hosts

# The blocks of one language under the heading "Your first session".
block() {
  awk -v fence="\`\`\`$1" '/^## /{here=($0=="## Your first session")} here&&$0==fence{on=1;next} /^```$/{on=0} on' "$root/README.md"
}

ln -s "$root" "$folder/tamtam"
cd "$folder"
cargo new --quiet --vcs none first
cd first
sed -i '/^\[dependencies\]/,$d' Cargo.toml
block toml >>Cargo.toml
block rust >src/main.rs
# The versions that the project is tested with.
cp "$root/Cargo.lock" .

says() {
  local said
  said=$(cargo run --quiet)
  echo "$said"
  [ "$said" = "There are eight of them.
$1 messages on the tape" ]
}
if says 4 && says 8 && grep -q "And count them." tapes/sessions/first/anchors/*/entries.jsonl; then
  echo "test first_hour::the_readme_leads_to_a_session_with_a_tool_steered_and_persisted ... ok"
  echo "1 passed, 0 failed"
else
  echo "test first_hour::the_readme_leads_to_a_session_with_a_tool_steered_and_persisted ... FAILED"
  echo "0 passed, 1 failed"
  exit 1
fi
