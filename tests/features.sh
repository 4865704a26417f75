#!/usr/bin/env bash
# Every feature builds alone and without a warning, and so does the library without features:
#
#     bash tests/features.sh [FEATURE…]
#
# A host chooses any set of features; one that builds only beside another is a build that breaks at the host.
# The features are read from Cargo.toml, so a new one is checked from its first day. `default` is what tests/hosts builds, and
# `_wire` is no host's.
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

# Not in the folder of the other builds: nothing waits for these, nor they for anything.
export CARGO_TARGET_DIR=target/features
passed=0
failed=0
for feature in "${features[@]}"; do
  name="builds_alone_${feature:-without_features}"
  said=$(cargo check --locked --package tamtam --no-default-features --features "$feature" --lib 2>&1)
  code=$?
  if [ "$code" -eq 0 ] && ! grep -qE '^(warning|error)' <<<"$said"; then
    echo "test $name ... ok"
    passed=$((passed + 1))
  else
    echo "$said"
    echo "test $name ... FAILED"
    failed=$((failed + 1))
  fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
