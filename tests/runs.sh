#!/usr/bin/env bash
# Runs the whole suite (tests/all.sh) again and again, and keeps what came of each run in tests/runs.tsv.
set -uo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
usage: bash tests/runs.sh [N] [--load] [--dirty]

Runs `bash tests/all.sh` N times (once by default), one after the other, and appends one line a run to tests/runs.tsv:
date (UTC), commit, load, seconds, passed, failed, and the names of the tests that failed. Commit the file when you are done;
runs may be spread over days and machines.

  --load    beside a full load: one busy loop for each core, which ends with this script, however that ends
  --dirty   also where files are changed that are not committed; the line says so. Without it such a tree is refused

A run that is interrupted leaves no line. The logs of a run that failed are kept in target/runs/.
Ends with 0 where no run failed, with 1 where one did, with 2 where nothing was run.
END
}

refuse() {
  echo "runs.sh: $1" >&2
  exit 2
}

count=1 load=none dirty=no
for argument; do
  case $argument in
    --load) load=full ;;
    --dirty) dirty=yes ;;
    -h | --help) usage && exit 0 ;;
    *[!0-9]* | '' | 0*) refuse "$argument is neither an option nor a number of runs; see --help" ;;
    *) count=$argument ;;
  esac
done

table=tests/runs.tsv
commit=$(git rev-parse --short HEAD) || refuse "the commit cannot be told: this is no checkout of the repository"
# The table itself changes with each run.
if [ -n "$(git status --porcelain -- . ":!$table")" ]; then
  [ "$dirty" = yes ] || refuse "files are changed or new: commit them, or run with --dirty"
  commit+=+dirty
fi
[ -s "$table" ] || printf 'date\tcommit\tload\tseconds\tpassed\tfailed\tnames\n' >"$table" || refuse "$table cannot be written"

suite='' loops=()
end() {
  trap - EXIT INT TERM
  # The suite has a process group of its own.
  [ -z "$suite" ] || kill -- "-$suite" 2>/dev/null
  [ "${#loops[@]}" -eq 0 ] || kill "${loops[@]}" 2>/dev/null
  wait
}
trap end EXIT
trap 'exit 130' INT TERM

if [ "$load" = full ]; then
  cores=$(nproc 2>/dev/null || sysctl -n hw.ncpu) || refuse "how many cores there are cannot be told"
  for ((core = 0; core < cores; core++)); do
    # It looks for this script now and then, and so ends with it also where that is killed.
    (
      trap - EXIT INT TERM
      while kill -0 $$ 2>/dev/null; do for ((n = 0; n < 100000; n++)); do :; done; done
    ) &
    loops+=($!)
  done
fi

# failed_names FOLDER: the tests and scenarios that failed, by the logs of a run.
failed_names() {
  {
    sed -nE 's/^test (.+) \.\.\. FAILED$/\1/p' "$1"/*.log
    sed -nE 's/^scenario (.+) \.\.\. FAILED$/\1/p' "$1"/bdd.log
  } 2>/dev/null | sort -u | paste -sd ';' - | sed 's/;/; /g'
}

bad=0
for ((run = 1; run <= count; run++)); do
  began=$SECONDS
  date=$(date -u +%Y-%m-%dT%H:%M:%SZ)
  log=target/runs/$date
  mkdir -p "$log" || refuse "$log cannot be made"
  echo "run $run of $count, $commit, load $load: began at $date"
  set -m
  bash tests/all.sh >"$log/all.log" 2>&1 &
  suite=$!
  set +m
  wait "$suite"
  status=$?
  suite=''
  read -r passed failed < <(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed$/\1 \2/p' "$log/all.log" | tail -n 1)
  names=''
  if [ "$status" -ne 0 ] || [ "${failed:-1}" -ne 0 ]; then
    bad=1
    cp target/results/*.log "$log" 2>/dev/null
    names=$(failed_names "$log")
    # It may have ended for something else than a test.
    names=${names:-"(none; the suite ended with $status)"}
    echo "failed: $names; its logs are in $log" >&2
  fi
  printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$date" "$commit" "$load" $((SECONDS - began)) "${passed:-0}" "${failed:-1}" "$names" >>"$table"
  [ -n "$names" ] || rm -r "$log"
  unset passed failed
done
exit "$bad"
