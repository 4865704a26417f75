#!/usr/bin/env bash
# Makes the certificates of the tests anew, valid from 2020 to 2119. They are checked in: the tests need no openssl.
#
#   bash crates/tamtam-postgres/tests/postgres/certificates/make.sh
set -euo pipefail
cd "$(dirname "$0")"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cat >"$folder/config" <<EOT
[ca]
default_ca = a
[a]
database = $folder/index
serial = $folder/serial
new_certs_dir = $folder
policy = p
default_md = sha256
[p]
commonName = supplied
[authority]
basicConstraints = critical,CA:TRUE
[server]
basicConstraints = CA:FALSE
subjectAltName = DNS:localhost
EOT
ca() {
  : >"$folder/index"
  openssl rand -hex 8 >"$folder/serial"
  openssl ca -batch -notext -config "$folder/config" -startdate 20200101000000Z -enddate "$@"
}
key() { openssl ecparam -name prime256v1 -genkey -noout | openssl pkcs8 -topk8 -nocrypt; }

key >"$folder/authority.key"
key >server.key
openssl req -new -key "$folder/authority.key" -subj '/CN=Authority of the tests' -out "$folder/authority.csr"
openssl req -new -key server.key -subj '/CN=localhost' -out "$folder/server.csr"
ca 21190101000000Z -selfsign -extensions authority -keyfile "$folder/authority.key" -in "$folder/authority.csr" -out authority.pem
ca 21190101000000Z -extensions server -cert authority.pem -keyfile "$folder/authority.key" -in "$folder/server.csr" -out signed.pem
ca 20200102000000Z -extensions server -cert authority.pem -keyfile "$folder/authority.key" -in "$folder/server.csr" -out expired.pem
# As `openssl req -x509` makes it: its own authority, and its name is no alternative one.
ca 21190101000000Z -selfsign -md sha384 -extensions authority -keyfile server.key -in "$folder/server.csr" -out own.pem
