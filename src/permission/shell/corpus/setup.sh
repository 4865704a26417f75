#!/bin/bash
# Builds the workspace of a stranger in the current folder. $1 is a folder outside of it.
set -e
outside=$1
mkdir -p sub secrets .cargo node_modules/.bin
printf 'hi\nls\n' > f; echo ls > a; echo x > b; echo x > g.txt; echo hi > sub/f
echo CANARY-7F3A > secrets/key; echo KEY=CANARY-7F3A > .env
printf '#!/bin/sh\ntouch %s/marker\ncat\n' "$outside" > evil.sh; chmod 755 evil.sh
cp evil.sh "$outside/dir/cp.sh"; printf 'y\ny\n' > "$outside/dir/yes"; echo '* filter=a' > "$outside/dir/attr"; echo '* diff=a' > "$outside/dir/attrd"
printf 'import os\nos.system("touch %s/marker")\n' "$outside" | tee evil.py conftest.py setup.py > e.py
printf 'require("child_process").execSync("touch %s/marker")\n' "$outside" > evil.js
printf 'BEGIN { system("touch %s/marker") }\n' "$outside" > evil.awk
printf '1e touch %s/marker\n' "$outside" > evil.sed
printf 'x:\n\ttouch %s/marker\n' "$outside" > Makefile
printf '{"name":"x","scripts":{"x":"touch %s/marker","test":"touch %s/marker"}}' "$outside" "$outside" > package.json
printf '[build]\nrustc-wrapper = "./evil.sh"\n' > .cargo/config.toml
printf '[package]\nname = "x"\nversion = "0.1.0"\n' > Cargo.toml
printf '[toolchain]\npath = "."\n' > rust-toolchain.toml
printf 'touch %s/marker\n' "$outside" | tee .envrc .bashrc justfile > .profile
printf 'Host h\nProxyCommand touch %s/marker\n' "$outside" > ssh_config
printf 'output = %s/marker\n' "$outside" > curlrc
tar cf a.tar f
ln -s "$outside" l; ln -s "$outside/linked" lf; ln -s "$outside/secret" lf2; ln -s .git g; ln -s secrets ls; ln -s . dot; ln -s /etc/shadow notes.txt
git init -q -b main .
git config user.name a; git config user.email a@b
git add -A -f; git commit -qm one; echo more >> f; git commit -qam two; echo again >> f
printf '#!/bin/sh\ntouch %s/marker\n' "$outside" | tee .git/hooks/post-checkout .git/hooks/post-index-change > .git/hooks/pre-commit
chmod 755 .git/hooks/post-checkout .git/hooks/post-index-change .git/hooks/pre-commit
# A bare repository whose settings run a program.
mkdir -p bare/objects/info bare/refs/heads
echo 'ref: refs/heads/main' > bare/HEAD
printf '[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = ..\n\tfsmonitor = touch %s/marker\n[diff]\n\texternal = touch %s/marker\n' "$outside" "$outside" > bare/config
