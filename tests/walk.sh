#!/usr/bin/env bash
# Which source files a message that steers walks through, from the handle to its receipt, in one tree or in several.
#
# tests/programs/walk.rs is that message; callgrind counts what runs in all threads between its two marks, at the debug build's
# optimisation (none, so that hardly a function is inlined into another file), and debug information says which file that is.
#
# A file is walked where at least one instruction of it ran. "Without words" are the files that are left without
#   - the layer "words" of docs/ARCHITECTURE.md (words, lock, fault; before, ids, message, usage and error), and
#   - those of which nothing ran but what a value can do as a value: impls of Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash,
#     Debug, Display, Serialize and Deserialize. (Drop glue belongs to no file of ours anyhow.)
# Code that the compiler made for no line (line 0) counts nowhere.
#
# The walk ends when the receipt is there: the program's waker says so, and what the actor does behind that is no part of it.
#
# An append is written in place, or by the store's thread where the last writes were slow, which happens under a profiler. The actor
# comes to rest in between then, and what it does at rest is walked too. So runs of one tree differ; the shortest counts, which is the
# one in place, and the longest is told beside it.
set -euo pipefail
export LC_ALL=C

usage() {
  cat <<'END_OF_USAGE'
usage: bash tests/walk.sh [TREE…]

Prints, for each TREE (this one by default), the files of src/ that a steering message walks through from the handle to its
receipt, in the middle of a turn. A `w` stands before a file that only holds words. With more than one TREE the ratio of each to
the first follows: `bash tests/walk.sh ../old .`

Builds the example `walk` there in the debug profile, and takes it away again. Wants valgrind.

  RUNS=5        how often it is run in each tree; the shortest walk counts
  CARGO=cargo   what builds
END_OF_USAGE
}

refuse() {
  echo "walk.sh: $1" >&2
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
runs=${RUNS:-5}
command -v valgrind >/dev/null || refuse "valgrind is not installed"

left=()
trap '[ "${#left[@]}" -eq 0 ] || rm -rf -- "${left[@]}"' EXIT
trap 'exit 130' INT TERM

# walked TREE: the files of which something ran, by the dumps of callgrind on stdin, each behind `w` or `-`; then how many functions of them.
walked() {
  awk -v src="$1/src/" '
    /^(fl|fi|fe)=/ { file = substr($0, 4); next }
    /^fn=/ { fn = substr($0, 4); next }
    # What a call took belongs to the one that was called.
    /^calls=/ { getline; next }
    /^[0-9]/ && $1 > 0 && $2 > 0 && index(file, src) == 1 {
      name = substr(file, length(src) - 3)
      if (!(name in words)) words[name] = "w"
      is_value = fn ~ /(<.* as |<impl )(core::(clone::Clone|default::Default|cmp::|hash::Hash|fmt::)|serde(_core)?::(ser::Serialize|de::Deserialize))/
      if (!is_value && name !~ /^src\/(ids|message|usage|error|words|lock|fault)(\.rs|\/)/) words[name] = "-"
      if (!((name, fn) in seen)) functions++
      seen[name, fn] = 1
    }
    END {
      for (name in words) print words[name], name
      print "functions", functions
    }'
}

ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.0f %%", 100 * a / b }'; }

first_all='' first_without=''
for tree in "${trees[@]}"; do
  [ -f "$tree/Cargo.toml" ] || refuse "$tree is no tree of the crate"
  example=$tree/examples/walk.rs
  [ ! -e "$example" ] || refuse "$example is there already"
  target=${CARGO_TARGET_DIR:-$tree/target}
  mkdir -p "$target"
  folder=$(mktemp -d "$target/walk.XXXXXX")
  left+=("$example" "$folder")
  cp "$here/tests/programs/walk.rs" "$example"
  (cd "$tree" && "${CARGO:-cargo}" build --quiet --example walk)
  for ((run = 1; run <= runs; run++)); do
    mkdir "$folder/store"
    valgrind --quiet --tool=callgrind --zero-before='*walk_begins*' --dump-before='*walk_ends*' \
      --compress-strings=no --compress-pos=no --callgrind-out-file="$folder/out.$run" \
      "$target/debug/examples/walk" "$folder/store" >"$folder/said" 2>&1 || { cat "$folder/said" >&2; exit 1; }
    grep -qx Steering "$folder/said" || refuse "the message did not steer: $(cat "$folder/said")"
    wakes=("$folder/out.$run".[0-9]*)
    # What a wake found no receipt at is on the way to the one that did.
    cat "${wakes[@]}" | walked "$tree" >"$folder/walked.$run"
    sed '/^functions/d' "$folder/walked.$run" | sort -k 2 >"$folder/files.$run"
    [ -s "$folder/files.$run" ] || refuse "no file of $tree/src was walked: has the build debug information?"
    rm -r "$folder/store"
  done
  by_length=$(grep -c '^-' "$folder"/files.* | sort -t : -k 2n | cut -d : -f 1)
  shortest=$(head -n 1 <<<"$by_length") longest=$(tail -n 1 <<<"$by_length")
  all=$(wc -l <"$shortest") without=$(grep -c '^-' "$shortest")
  functions=$(sed -n 's/^functions //p' "${shortest/files./walked.}")
  commit=$(git -C "$tree" rev-parse --short HEAD 2>/dev/null || echo 'no commit')
  echo "$tree ($commit): $without files without words, $all in all; $functions functions"
  sed 's/^- /  /' "$shortest"
  if ! cmp -s "$shortest" "$longest"; then
    echo "the longest of $runs runs: $(grep -c '^-' "$longest") without words; it has beside these"
    comm -13 <(sed 's/^. //' "$shortest") <(sed 's/^. //' "$longest") | sed 's/^/  /'
  fi
  if [ -n "$first_all" ]; then
    echo "of the first tree's: $(ratio "$without" "$first_without") without words, $(ratio "$all" "$first_all") in all"
  else
    first_all=$all first_without=$without
  fi
  rm -rf -- "$folder" "$example"
done
