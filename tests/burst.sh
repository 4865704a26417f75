#!/usr/bin/env bash
# How long a burst of 256 messages takes with `Durability::Power`, in one tree or in several beside each other.
set -euo pipefail
export LC_ALL=C

usage() {
  cat <<'END_OF_USAGE'
usage: bash tests/burst.sh [TREE…]

Sends 256 messages at once into a session whose turn is under way, with `Durability::Power`, and takes the time until all receipts
are there. For each TREE (this one by default) it prints how the times are spread; with more than one TREE, the ratio of each to the
first: `bash tests/burst.sh ../old .` The trees take turns, one burst each, so that all meet the same machine.

Builds the example `burst` there in the release profile, and takes it away again. The store is a folder in the TREE's target/,
which should be on a real disk. Where strace is installed, one further burst each is traced and its syncs are counted.

  BURSTS=20     how many bursts for each tree
  CARGO=cargo   what builds
END_OF_USAGE
}

refuse() {
  echo "burst.sh: $1" >&2
  exit 2
}

trees=()
for argument; do
  case $argument in
    -h | --help) usage && exit 0 ;;
    -*) refuse "$argument is no option; see --help" ;;
    *) trees+=("$(realpath -- "$argument")") ;;
  esac
done
here=$(realpath -- "$(dirname "$0")/..")
[ "${#trees[@]}" -gt 0 ] || trees=("$here")
bursts=${BURSTS:-20}

left=()
trap '[ "${#left[@]}" -eq 0 ] || rm -rf -- "${left[@]}"' EXIT
trap 'exit 130' INT TERM

folders=()
for tree in "${trees[@]}"; do
  [ -f "$tree/Cargo.toml" ] || refuse "$tree is no tree of the crate"
  example=$tree/examples/burst.rs
  [ ! -e "$example" ] || refuse "$example is there already"
  target=${CARGO_TARGET_DIR:-$tree/target}
  mkdir -p "$target"
  folder=$(mktemp -d "$target/burst.XXXXXX")
  left+=("$example" "$folder")
  folders+=("$folder")
  cp "$here/tests/programs/burst.rs" "$example"
  (cd "$tree" && "${CARGO:-cargo}" build --quiet --release --example burst)
  cp "$target/release/examples/burst" "$folder/burst"
  rm "$example"
done

# one FOLDER [COMMAND…]: one burst, over a new store, and beneath COMMAND.
one() {
  local folder=$1
  shift
  mkdir "$folder/store"
  "$@" "$folder/burst" "$folder/store"
  rm -r "$folder/store"
}

for ((burst = 1; burst <= bursts; burst++)); do
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
  echo "$tree ($commit): least $least ms, median $median ms, p90 $p90 ms, most $most ms; $bursts bursts"
  if command -v strace >/dev/null; then
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
