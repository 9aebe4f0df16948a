"""A hub as Hugging Face is one, in a thread of this process: an API, /resolve/ that answers 302 to a signed address on another host, and that host, which is the same
machine by its other name."""
import json
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_dcpctlTestTokenThatNobodyMaySee"


class Hub:
    """FOLDER/ORG/NAME/... are its repositories. `lasting`: seconds for which a signed address is good; `files_port`: of that host."""

    def __init__(self, folder, lasting=3600):
        self.folder, self.lasting, self.requests, self.faults, self.gated = Path(folder), lasting, [], [], False
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                hub.files(self) if self.headers["Host"].startswith("localhost") else hub.api(self)

            do_HEAD = do_GET

            def log_message(self, *_):
                pass

        self.servers = [ThreadingHTTPServer(("127.0.0.1", 0), Handler) for _ in range(2)]
        self.port, self.other_port = (server.server_address[1] for server in self.servers)
        self.files_port = self.port
        self.url = f"http://127.0.0.1:{self.port}"
        for server in self.servers:
            threading.Thread(target=server.serve_forever, daemon=True).start()

    def end(self):
        for server in self.servers:
            server.shutdown()

    @staticmethod
    def send(request, status, body=b"", **headers):
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name.replace("_", "-"), value)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(body)

    def api(self, request):
        self.requests.append(request.path)
        if self.gated and request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self.send(request, 401, b'{"error":"Access to model is restricted"}', X_Error_Code="GatedRepo")
        if "/org/renamed/" in request.path:
            return self.send(request, 307, b"Temporary Redirect", Location=request.path.replace("/org/renamed/", "/org/runs/"))
        if "/org/moved/" in request.path:
            return self.send(request, 308, Location="https://hub.invalid/x?secret")
        path = urllib.parse.unquote(request.path)
        parts = path.strip("/").split("/")
        if parts[0] == "api":
            name, action, revision, rest = "/".join(parts[2:4]), parts[4], parts[5], "/".join(parts[6:])
            if not (self.folder / name).is_dir() or revision not in ("main", COMMIT):
                return self.send(request, 404, b'{"error":"Repository not found"}', X_Error_Code="RepoNotFound")
            if action == "revision":
                return self.send(request, 200, json.dumps({"sha": COMMIT}).encode())
            at = self.folder / name / rest
            if not at.is_dir():
                return self.send(request, 404, b'{"error":"not found"}', X_Error_Code="EntryNotFound")
            entries = [{"type": "directory" if p.is_dir() else "file", "path": str(p.relative_to(self.folder / name)), "size": 0 if p.is_dir() else p.stat().st_size, "oid": "0" * 40} for p in sorted(at.iterdir())]
            return self.send(request, 200, json.dumps(entries).encode())
        name, rest = "/".join(parts[:2]), "/".join(parts[4:])
        if parts[2:4] != ["resolve", COMMIT] or not (self.folder / name / rest).is_file():
            return self.send(request, 404, b"Entry not found", X_Error_Code="EntryNotFound")
        until = int(time.time()) + self.lasting
        location = f"http://localhost:{self.files_port}/{urllib.parse.quote(name + '/' + rest)}?Expires={until}&Signature=x"
        return self.send(request, 302, b"", Location=location, X_Linked_Size=str((self.folder / name / rest).stat().st_size))

    def files(self, request):
        self.requests.append("FILE " + request.path)
        if "Authorization" in request.headers:
            self.faults.append("the token went to the host of the redirect")
        url = urllib.parse.urlsplit(request.path)
        if int(urllib.parse.parse_qs(url.query)["Expires"][0]) <= time.time():
            return self.send(request, 403, b"<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>")
        data = (self.folder / urllib.parse.unquote(url.path).lstrip("/")).read_bytes()
        first, last = map(int, request.headers["Range"].removeprefix("bytes=").split("-"))
        part = data[first : last + 1]
        self.send(request, 206, part, Content_Range=f"bytes {first}-{first + len(part) - 1}/{len(data)}", ETag='"x"')
