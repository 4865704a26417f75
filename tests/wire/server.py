"""A server of the program `tamtam`, in a folder of its own, with a scripted model; and requests to it. Standard library only."""

import json
import os
import re
import signal
import subprocess
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROGRAM = Path(os.environ.get("TAMTAM_PROGRAM", ROOT / "target/debug/tamtam"))

# Longer than anything here takes.
LONG = 60


class Server:
    """A running server; ended with the block."""

    def __init__(self, *arguments, script=HERE / "script.json"):
        self.folder = tempfile.TemporaryDirectory(prefix="tamtam-wire-")
        place = Path(self.folder.name)
        (place / "work").mkdir()
        (place / "work/notes.txt").write_text("Some notes.\n")
        command = [PROGRAM, "serve", "--addr", "127.0.0.1:0", "--model", f"scripted:{script}", "--permission", "ask"]
        command += ["--store", place / "store", "--workspace", place / "work", *arguments]
        environment = {"PATH": os.environ["PATH"], "HOME": self.folder.name}
        self.errors = open(place / "stderr", "w+b")
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        said = self.process.stdout.readline()
        found = re.search(r"http://\S+", said)
        if not found:
            self.errors.seek(0)
            raise RuntimeError(f"the server did not start: {said}{self.errors.read().decode()}")
        self.url = found.group().rstrip("/")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=LONG)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.process.stdout.close()
        self.errors.close()
        self.folder.cleanup()

    def ask(self, method, path, body=None, headers=None):
        """Status, content type and body of an answer."""
        data = None if body is None else json.dumps(body).encode()
        headers = {**({"content-type": "application/json"} if data else {}), **(headers or {})}
        request = urllib.request.Request(self.url + path, data=data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=LONG) as answer:
                return answer.status, answer.headers.get("content-type"), answer.read()
        except urllib.error.HTTPError as answer:
            return answer.code, answer.headers.get("content-type"), answer.read()

    def json(self, method, path, body=None):
        status, _, said = self.ask(method, path, body)
        assert 200 <= status < 300, f"{method} {path}: {status} {said[:500]}"
        return json.loads(said) if said else None

    def frames(self, path, headers=None):
        """The frames of a stream, each as (name, id, data); ends with the stream."""
        request = urllib.request.Request(self.url + path, headers=headers or {})
        with urllib.request.urlopen(request, timeout=LONG) as stream:
            name, last, data = "", "", None
            for line in stream:
                line = line.decode().rstrip("\n")
                key, _, value = line.partition(": ")
                if not line:
                    if data is not None:
                        yield name, last, json.loads(data)
                    name, last, data = "", "", None
                elif key == "event":
                    name = value
                elif key == "id":
                    last = value
                elif key == "data":
                    data = value
