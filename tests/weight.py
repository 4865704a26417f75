#!/usr/bin/env python3
"""What a host takes on with the crate: how many crates, which Rust, and how large a package.

    python3 tests/weight.py

Counts what is linked or runs in the compiler (`cargo tree -e normal`), the crate itself among them; what only build scripts need is
counted apart. A dependency that needs a newer Rust than `rust-version` says is named. The packages are made as for a registry, without
a network: each has the metadata that a registry asks for, what its code reads, and no tests.
"""

import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CRATES_MAX = {
    "--package tamtam": 150,
    "--package tamtam --no-default-features": 75,
    # All doors together.
    "--workspace --all-features": 300,
}
# A package as it is downloaded, in bytes.
PACKAGE_MAX = 2 * 1024 * 1024


def output(*command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def crates(edges, features):
    """The crates of a build, by name and version."""
    tree = output("cargo", "tree", "--locked", "-e", edges, "--prefix", "none", *features.split())
    return {line.removesuffix(" (*)").removesuffix(" (proc-macro)") for line in tree.splitlines() if line}


def version(text):
    """`1.95` and `1.95.0` as one value."""
    numbers = [int(number) for number in re.findall(r"\d+", text)[:3]]
    return tuple(numbers + [0] * (3 - len(numbers)))


def newer(packages, ours):
    """The packages that need a newer Rust than ours."""
    needs = [(package["name"], package["version"], package["rust_version"]) for package in packages]
    return [f"{name} {at} needs Rust {rust}" for name, at, rust in needs if rust and version(rust) > version(ours)]


def heavy():
    against = []
    for features, most in CRATES_MAX.items():
        linked = crates("normal", features)
        built = crates("normal,build", features) - linked
        print(f"crates of a build with {features}: {len(linked)} of {most}, and {len(built)} for building")
        if len(linked) > most:
            against.append(f"{len(linked)} crates with {features}, at most {most} are wanted")
    return against


def packed(metadata):
    """What is wrong with the packages of the workspace."""
    against = []
    output("cargo", "package", "--workspace", "--no-verify", "--allow-dirty", "--offline", "--quiet")
    for package in metadata["packages"]:
        if package["id"] not in metadata["workspace_members"]:
            continue
        name = package["name"]
        wanted = ["description", "license", "documentation", "keywords", "categories"]
        against += [f"{name} has no {field}" for field in wanted if not package[field]]
        path = Path(metadata["target_directory"], "package", f"{name}-{package['version']}.crate")
        size = path.stat().st_size
        print(f"the package of {name}: {size // 1024} KiB of {PACKAGE_MAX // 1024}")
        if size > PACKAGE_MAX:
            against.append(f"the package of {name} has {size} bytes, at most {PACKAGE_MAX} are wanted")
        with tarfile.open(path) as files:
            names = {file.name.split("/", 1)[1] for file in files.getmembers()}
            tests = [file for file in names if file.startswith("tests/") or "/tests/" in file]
            against += [f"the package of {name} has the test {file}" for file in sorted(tests)[:3]]
            against += [f"the package of {name} lacks {file}" for file in unread(files, names)]
    return against


def unread(files, names):
    """The files that code outside of tests includes, and that are not in the package."""
    lacks = []
    for file in files.getmembers():
        if file.name.endswith(".rs"):
            text = files.extractfile(file).read().decode()
            text = text.split("#[cfg(test)]\nmod tests {")[0]
            folder = Path(file.name.split("/", 1)[1]).parent
            for included in re.findall(r'include_(?:str|bytes)!\("([^"]+)"\)', text):
                at = Path("/", folder, included).resolve().relative_to("/")
                if str(at) not in names:
                    lacks.append(f"{at}, which {folder} includes")
    return lacks


def main():
    metadata = json.loads(output("cargo", "metadata", "--locked", "--format-version", "1"))
    ours = next(package["rust_version"] for package in metadata["packages"] if package["name"] == "tamtam")
    toolchain = re.search(r"\d+\.\d+\.\d+", output("rustc", "--version")).group()
    print(f"rust-version {ours}, and these tests run on Rust {toolchain}")
    made_up = [{"name": "a", "version": "1.0.0", "rust_version": rust} for rust in [None, "1.95", "1.95.0", "1.96", "1.100.1"]]
    tests = [
        ("a_newer_rust_is_found", [] if len(newer(made_up, "1.95")) == 2 else ["1.96 and 1.100.1 are newer than 1.95"]),
        ("the_toolchain_has_the_rust_that_is_promised", [toolchain] if version(ours) > version(toolchain) else []),
        ("no_dependency_needs_a_newer_rust", newer(metadata["packages"], ours)),
        ("a_host_takes_on_few_crates", heavy()),
        ("a_package_is_small_and_whole", packed(metadata)),
    ]
    failed = 0
    for test, against in tests:
        print(f"test weight::{test} ... {'FAILED' if against else 'ok'}")
        print("".join(f"    {line}\n" for line in against), end="")
        failed += bool(against)
    print(f"{len(tests) - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
