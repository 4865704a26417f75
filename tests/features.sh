#!/usr/bin/env bash
# Every feature builds alone and without a warning, and so does the library without features:
#
#     bash tests/features.sh [FEATURE…]
#
# A host chooses any set of features; one that builds only beside another is a build that breaks at the host.
# The features are read from Cargo.toml, so a new one is checked from its first day. `default` is what tests/hosts builds, and
# `_wire` is no host's. A check is the work of one thread, so two run at a time, each with a target folder of its own.
set -uo pipefail
cd "$(dirname "$0")/.."

if [ $# -gt 0 ]; then
  features=("$@")
else
  mapfile -t features < <(cargo metadata --locked --no-deps --format-version 1 | python3 -c '
import json, sys
packages = json.load(sys.stdin)["packages"]
print("\n".join(next(package["features"] for package in packages if package["name"] == "tamtam")))' | grep -vxE 'default|_wire')
  features=("" "${features[@]}")
fi

# check FOLDER FEATURE…: a line for each feature.
check() {
  local folder=$1 feature name said code
  shift
  for feature in "$@"; do
    name="builds_alone_${feature:-without_features}"
    said=$(CARGO_TARGET_DIR=$folder cargo check --locked --package tamtam --no-default-features --features "$feature" --lib 2>&1)
    code=$?
    if [ "$code" -eq 0 ] && ! grep -qE '^(warning|error)' <<<"$said"; then
      echo "test $name ... ok"
    else
      echo "$said"
      echo "test $name ... FAILED"
    fi
  done
}

half=$(((${#features[@]} + 1) / 2))
said=$(mktemp -d)
trap 'rm -rf "$said"' EXIT
check target/features "${features[@]:half}" >"$said/second" &
check "${CARGO_TARGET_DIR:-target}" "${features[@]:0:half}" >"$said/first"
wait
cat "$said/first" "$said/second"
passed=$(cat "$said"/* | grep -c '^test .* \.\.\. ok$' || true)
failed=$(cat "$said"/* | grep -c '^test .* \.\.\. FAILED$' || true)
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
