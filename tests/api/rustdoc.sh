#!/usr/bin/env bash
# rustdoc with its JSON output, which the stable toolchain has but hides. Only rustdoc is told: a variable for all of cargo would
# build the dependencies again.
RUSTC_BOOTSTRAP=1 exec rustdoc "$@" -Z unstable-options --output-format json
