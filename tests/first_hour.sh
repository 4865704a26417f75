#!/usr/bin/env bash
# A newcomer who follows the README: its section "Your first session" must work as it stands, in a clean folder.
#
#   bash tests/first_hour.sh
#
# Commands, dependencies, program and expected output are the fenced blocks of README.md. The path of the crate is replaced by that
# of this checkout, and Cargo.lock of the project is put beside the program, so that a new release of another crate fails nothing
# here. The other blocks of Rust in the README are statements, and must compile.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# The folder and the settings of tests/hosts/run.sh: the two share what they build. Nobody debugs it.
export CARGO_TARGET_DIR=$root/target/hosts
export CARGO_PROFILE_DEV_DEBUG=false CARGO_INCREMENTAL=0
section="Your first session"
passed=0
failed=0

# fenced LANGUAGE N: the Nth block of that language in the section.
fenced() {
  awk -v fence="\`\`\`$1" -v n="$2" -v section="## $section" '
    /^## / { here = $0 == section }
    /^```$/ { on = 0 }
    on
    here && $0 == fence { on = ++seen == n }
  ' "$root/README.md"
}

# statements: each other block of Rust in the README, as the body of a function.
statements() {
  awk '
    /^```$/ && on {
      on = 0
      if (block !~ /fn main/) {
        print "#[allow(dead_code, unused_variables)]"
        print "async fn block_" ++seen "(session: tamtam::Session) -> Result<(), Box<dyn std::error::Error>> {"
        print block "    Ok(())\n}\n"
      }
    }
    on { block = block $0 "\n" }
    $0 == "```rust" { on = 1; block = "" }
  ' "$root/README.md"
  echo "fn main() {}"
}

# verdict NAME COMMAND…: one test.
verdict() {
  local name=$1
  shift
  if "$@"; then
    echo "test first_hour::$name ... ok"
    passed=$((passed + 1))
  else
    echo "test first_hour::$name ... FAILED"
    failed=$((failed + 1))
  fi
}

# says N: runs the program by the README's command. It must print the Nth block of text and nothing else. A message that does not
# steer would let the program wait for an hour.
says() {
  timeout 60 bash -c "$(fenced sh 2)" >"$folder/said" 2>"$folder/told" || { cat "$folder/told"; return 1; }
  diff <(fenced text "$1") "$folder/said"
}

cd "$folder"
eval "$(fenced sh 1)"
sed -i '/^\[dependencies\]$/d' Cargo.toml
fenced toml 1 | sed "s|path = \"[^\"]*\"|path = \"$root\"|" >>Cargo.toml
fenced rust 1 >src/main.rs
cp "$root/Cargo.lock" .
mkdir examples
statements >examples/statements.rs

# Apart from the time that a run may take.
cargo build --quiet

verdict the_program_of_the_readme_prints_what_the_readme_says says 1
verdict its_second_run_goes_on_with_the_same_conversation says 2
verdict the_other_blocks_of_the_readme_compile cargo build --quiet --example statements
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
