#!/usr/bin/env bash
# How long a program of tests/programs takes, in one tree or in several beside each other.
set -euo pipefail
export LC_ALL=C

usage() {
  cat <<'END_OF_USAGE'
usage: bash tests/beside.sh PROGRAM [TREE…]

Builds a program of tests/programs in each TREE (this one by default) in the release profile, and runs the binaries in turns, one
round each, so that all meet the same machine; each round begins with an empty folder. Prints how the times are spread, and with more
than one TREE the ratio of each to the first: `bash tests/beside.sh burst ../old .`

  burst   256 messages at once into a session whose turn is under way, with `Durability::Power`, until all receipts are there.
          Where strace is installed, one further burst each is traced and its syncs are counted
  wakes   1,000 sessions that sleep are woken at once, until all are awake

The program is built as an example of the TREE, and taken away again. The folders of the rounds are in the TREE's target/, which
should be on a real disk.

  ROUNDS=20     how many rounds for each tree
  CARGO=cargo   what builds
END_OF_USAGE
}

refuse() {
  echo "beside.sh: $1" >&2
  exit 2
}

program='' trees=()
for argument; do
  case $argument in
    -h | --help) usage && exit 0 ;;
    -*) refuse "$argument is no option; see --help" ;;
    *) if [ -z "$program" ]; then program=$argument; else trees+=("$(realpath -- "$argument")"); fi ;;
  esac
done
here=$(realpath -- "$(dirname "$0")/..")
case $program in
  burst | wakes) ;;
  '') usage >&2 && exit 2 ;;
  *) refuse "$program is no program that measures; see --help" ;;
esac
[ "${#trees[@]}" -gt 0 ] || trees=("$here")
rounds=${ROUNDS:-20}

left=()
trap '[ "${#left[@]}" -eq 0 ] || rm -rf -- "${left[@]}"' EXIT
trap 'exit 130' INT TERM

folders=()
for tree in "${trees[@]}"; do
  [ -f "$tree/Cargo.toml" ] || refuse "$tree is no tree of the crate"
  example=$tree/examples/$program.rs
  [ ! -e "$example" ] || refuse "$example is there already"
  target=${CARGO_TARGET_DIR:-$tree/target}
  mkdir -p "$target"
  folder=$(mktemp -d "$target/$program.XXXXXX")
  left+=("$example" "$folder")
  folders+=("$folder")
  cp "$here/tests/programs/$program.rs" "$example"
  (cd "$tree" && "${CARGO:-cargo}" build --quiet --release --example "$program")
  cp "$target/release/examples/$program" "$folder/$program"
  rm "$example"
done

# one FOLDER [COMMAND…]: one round, over a new store, and beneath COMMAND.
one() {
  local folder=$1
  shift
  mkdir "$folder/store"
  "$@" "$folder/$program" "$folder/store"
  rm -r "$folder/store"
}

for ((round = 1; round <= rounds; round++)); do
  for folder in "${folders[@]}"; do
    one "$folder" >>"$folder/took"
  done
done

first=''
for at in "${!trees[@]}"; do
  tree=${trees[at]} folder=${folders[at]}
  read -r least median p90 most < <(sort -n "$folder/took" | awk '
    { took[NR] = $1 / 1000 }
    function at(part) { n = int(NR * part); return took[n < NR * part ? n + 1 : n] }
    END { printf "%.1f %.1f %.1f %.1f\n", took[1], (at(0.5) + took[int(NR / 2) + 1]) / 2, at(0.9), took[NR] }')
  commit=$(git -C "$tree" rev-parse --short HEAD 2>/dev/null || echo 'no commit')
  echo "$tree ($commit): least $least ms, median $median ms, p90 $p90 ms, most $most ms; $rounds rounds"
  if [ "$program" = burst ] && command -v strace >/dev/null; then
    one "$folder" strace -f -o "$folder/trace" -e trace=fsync,fdatasync,statx,stat,newfstatat >"$folder/said"
    # The second burst of the program is the one that counts.
    awk '/burst begins/ { begun++ } /burst ends/ { ended++ } begun == 2 && ended < 2 && /(fsync|fdatasync)\(/ { syncs++ }
      END { print "  syncs within a burst, traced: " syncs + 0 }' "$folder/trace"
  fi
  if [ -n "$first" ]; then
    awk -v median="$median" -v p90="$p90" -v first="$first" 'BEGIN {
      split(first, of)
      printf "  of the first tree'\''s: median %.2f times, p90 %.2f times\n", median / of[1], p90 / of[2] }'
  else
    first="$median $p90"
  fi
done
