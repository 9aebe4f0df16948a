#!/usr/bin/env python3
"""tests/data by http and https on loopback, for packages that are tried, also where no Python is.

    store.py COMMAND...

COMMAND finds both addresses in STORE, and in CERTIFICATE the path of the server's, which is an authority of its own. The server ends with it.
"""
import os
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS / "net"))
from hub import Hub  # noqa: E402
from servers import certificate, tls  # noqa: E402


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path = TESTS / "data" / self.path.lstrip("/")
        if not path.is_file():
            return Hub.send(self, 404)
        data = path.read_bytes()
        if "Range" not in self.headers:
            return Hub.send(self, 200, data)
        first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
        part = data[first : last + 1]
        Hub.send(self, 206, part, Content_Range=f"bytes {first}-{first + len(part) - 1}/{len(data)}", ETag='"x"')

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


def main(*command):
    with tempfile.TemporaryDirectory() as scratch:
        made = certificate(scratch)
        addresses = []
        for context in (None, tls(made)):
            server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
            if context:
                server.socket = context.wrap_socket(server.socket, server_side=True)
            threading.Thread(target=server.serve_forever, daemon=True).start()
            addresses.append(f"http{'s' if context else ''}://127.0.0.1:{server.server_port}")
        return subprocess.run(command, env={**os.environ, "STORE": " ".join(addresses), "CERTIFICATE": str(made)}).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
