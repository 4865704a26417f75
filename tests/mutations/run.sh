#!/usr/bin/env bash
# Breaks the code on purpose, one patch at a time, in a copy of the tree, and expects a test to notice.
#
#   tests/mutations/run.sh            all patches
#   tests/mutations/run.sh NAME…      only those, by file name without .patch
#
# A patch may begin with a line that says who is to notice, and no other tests run then: `# caught by: it FILTER…` names tests of
# tests/it, `program FILTER…` those of the program's crate, `mcp FILTER…` those of the client of MCP (npm ci in its tests/npm first), and
# `lib FILTER…` those beside the code. Without one it is the core's tests and the simulator, beside the code too.
# Ends 0 where every mutation is caught, 1 where one is missed, 2 where a patch does not apply or does not build.
# CARGO names another cargo; TAMTAM_SIM_SCHEDULES how many schedules the simulator plays each time (600 by default).
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
cargo=${CARGO:-cargo}
# Inside target/, at a path that stays the same, so that nothing but the crate itself is built again.
copy=$root/target/mutations/tree
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}
export TAMTAM_SIM_SCHEDULES=${TAMTAM_SIM_SCHEDULES:-600}
export RUST_BACKTRACE=0

rm -rf "$copy"
mkdir -p "$copy"
trap 'rm -rf "$root/target/mutations"' EXIT
(cd "$root" && tar --exclude=./target --exclude=./.git -cf - .) | tar -xmf - -C "$copy"   # new times: what an earlier run built is stale
cd "$copy"

# Prints the names of the tests that failed, of those tests: `it`, `program`, `mcp` or `lib`, and what their names contain.
failed_tests() {
    # One package alone: the others would only be built again each time.
    local log=$copy/../log target
    case $1 in
        lib) target="-p tamtam --lib" ;;
        program) target="-p tamtam-cli --test program" ;;
        mcp) target="-p tamtam-mcp --test mcp" ;;
        *) target="-p tamtam --test $1" ;;
    esac
    shift
    # shellcheck disable=SC2086 # several words
    timeout --kill-after=5 900 "$cargo" test --offline --all-features $target -- "$@" >"$log" 2>&1 || true
    if ! grep -q '^test result:' "$log"; then
        if ! grep -q '^running [1-9]' "$log"; then
            tail -40 "$log"
            return 2
        fi
        # Some tests end under some mutations only with the limit.
        echo "a test that hangs"
    fi
    if ! grep -q '^running [1-9]' "$log"; then
        echo "no test is called $*"
        return 2
    fi
    sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p' "$log"
}

# Who is to notice a patch.
witnesses() {
    # Without the one test that takes longer than all others together.
    sed -n '1s/^# caught by: //p' "$1" | grep . || echo "lib kernel::tests::core:: sim::no_schedule --skip ten_thousand_random_trees"
}

names=("$@")
if [ ${#names[@]} -eq 0 ]; then
    for path in "$root"/tests/mutations/*.patch; do names+=("$(basename "$path" .patch)"); done
fi
# What is to notice must be green before.
mapfile -t groups < <(for name in "${names[@]}"; do witnesses "$root/tests/mutations/$name.patch"; done | sort -u)
for group in "${groups[@]}"; do
    read -ra words <<<"$group"
    before=$(failed_tests "${words[@]}") || { echo "$before"; echo "the tree does not build, or $group names nothing"; exit 2; }
    if [ -n "$before" ]; then
        echo "tests fail before anything is broken: $before"
        exit 2
    fi
done

caught=0
missed=0
for name in "${names[@]}"; do
    patch=$root/tests/mutations/$name.patch
    read -ra words <<<"$(witnesses "$patch")"
    patch --quiet -p1 <"$patch" || { echo "$name: the patch does not apply"; exit 2; }
    failed=$(failed_tests "${words[@]}") || { echo "$failed"; echo "$name: the broken tree does not build"; exit 2; }
    patch --quiet -R -p1 <"$patch"
    if [ -z "$failed" ]; then
        missed=$((missed + 1))
        echo "MISSED  $name"
        continue
    fi
    caught=$((caught + 1))
    simulator=""
    if grep -q '^kernel::tests::sim::' <<<"$failed"; then simulator="by the simulator, and "; fi
    count=$(grep -vc '^kernel::tests::sim::' <<<"$failed" || true)
    echo "caught  $name: ${simulator}by $count of the tests \"${words[*]}\""
done
echo "$caught caught, $missed missed"
[ "$missed" -eq 0 ]
