#!/usr/bin/env python3
"""Signatures are those of botocore, for random requests; so are the credentials that random sets of variables, files and services yield.

    oracle.py ORACLE FOLDER-OF-MODULES
"""
import datetime
import hashlib
import json
import os
import random
import shlex
import subprocess
import sys
import tempfile
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import botocore.auth
import botocore.awsrequest
import botocore.credentials
import botocore.session
import botocore.tokens

FAULTS = []
LETTERS = "abcXYZ019 -._~+%&=?#'\"()!*,;:@$[]<>|\\^`{}é漢\t/"
FAR = "2099-01-01T00:00:00Z"


def text(r, most=20):
    return "".join(r.choice(LETTERS) for _ in range(r.randrange(1, most)))


def requests(r, count):
    for _ in range(count):
        yield {"method": r.choice(["GET", "HEAD", "PUT", "POST"]), "host": r.choice(["b.s3.eu-west-1.amazonaws.com", "127.0.0.1:9000", "s3.x.com"]), "path": "/" + text(r, 60).lstrip("/"),
               "query": [[text(r), r.choice(["", text(r, 40)])] for _ in range(r.randrange(4))], "headers": [["x-amz-request-payer", "requester"]] if r.random() < 0.3 else [], "body": r.choice(["", text(r, 80)]),
               "region": r.choice(["us-east-1", "auto"]), "service": "s3", "id": "AKIA" + str(r.randrange(9**9)), "secret": text(r, 40), "token": r.choice(["", "tok/" + str(r.random())]),
               "now": r.randrange(1_600_000_000, 2_000_000_000)}  # fmt: skip


def of_botocore(q):
    moment = datetime.datetime.fromtimestamp(q["now"], datetime.timezone.utc)
    botocore.auth.get_current_datetime = lambda *_, **__: moment.replace(tzinfo=None)
    url = f"https://{q['host']}{urllib.parse.quote(q['path'], safe='/~')}"
    query = "&".join(f"{urllib.parse.quote(k, safe='-_.~')}={urllib.parse.quote(v, safe='-_.~')}" for k, v in q["query"])
    request = botocore.awsrequest.AWSRequest(q["method"], url + ("?" + query if query else ""), headers=dict(q["headers"]), data=q["body"].encode())
    request.context["payload_signing_enabled"] = True
    request.headers["Host"] = q["host"]
    keys = botocore.credentials.Credentials(q["id"], q["secret"], q["token"] or None)
    botocore.auth.S3SigV4Auth(keys, "s3", q["region"]).add_auth(request)
    return request.headers["Authorization"]


def signatures(oracle, folder, count):
    asked = list(requests(random.Random(7), count))
    ran = subprocess.run([oracle, folder, "sign"], input="\n".join(map(json.dumps, asked)), capture_output=True, text=True, check=True)
    for q, line in zip(asked, ran.stdout.splitlines(), strict=True):
        ours = next(h.partition(": ")[2] for h in json.loads(line) if h.startswith("authorization: "))
        if ours != of_botocore(q):
            FAULTS.append(f"{q}:\n  {ours}\n  {of_botocore(q)}")


# ---- credentials


class Services(BaseHTTPRequestHandler):
    """STS, SSO, a container's service, an instance's: what they give is a hash of what they are asked, so that equal questions show."""

    def log_message(self, *_):
        pass

    def send(self, body, status=200):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def keys(self, *of):
        h = hashlib.sha256(repr(of).encode()).hexdigest()
        return {"AccessKeyId": "ASIA" + h[:12], "SecretAccessKey": h[12:40], "SessionToken": h[40:]}

    def do_PUT(self):
        self.send("imds-token" if self.headers["X-aws-ec2-metadata-token-ttl-seconds"] else "", 200)

    def do_POST(self):
        asked = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        for name in ["RoleSessionName"]:
            if asked[name][0].startswith(("botocore-", "dcpctl-")):
                del asked[name]
        who = self.headers.get("Authorization", "").partition("Credential=")[2].partition("/")[0]
        k = self.keys(sorted(asked.items()), who, self.headers.get("X-Amz-Security-Token"))
        fields = "".join(f"<{n}>{v}</{n}>" for n, v in k.items())
        action = asked["Action"][0]
        self.send(f'<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{action}Result><Credentials>{fields}<Expiration>{FAR}</Expiration></Credentials></{action}Result></{action}Response>')

    def do_GET(self):
        if self.path.startswith("/container"):
            k = self.keys("container", self.headers.get("Authorization"))
            return self.send(json.dumps({**k, "Token": k["SessionToken"], "Expiration": FAR}))
        if self.path.startswith("/federation"):
            k = self.keys("sso", sorted(urllib.parse.parse_qsl(self.path.partition("?")[2])), self.headers["x-amz-sso_bearer_token"])
            return self.send(json.dumps({"roleCredentials": {"accessKeyId": k["AccessKeyId"], "secretAccessKey": k["SecretAccessKey"], "sessionToken": k["SessionToken"], "expiration": 4070908800000}}))
        if self.path.rstrip("/").endswith("security-credentials"):
            return self.send("the-role")
        k = self.keys("instance", self.headers.get("x-aws-ec2-metadata-token"))
        self.send(json.dumps({**k, "Token": k["SessionToken"], "Expiration": FAR, "Code": "Success"}))


def profile_lines(r, name, names, home):
    """One that has any of what a profile may have."""
    keys = ["aws_access_key_id = AKIA" + name.upper(), "aws_secret_access_key = secret/" + name] + (["aws_session_token = token+" + name] if r.random() < 0.3 else [])
    role = [f"role_arn = arn:aws:iam::1:role/{name}"] + (["external_id = x1"] if r.random() < 0.3 else []) + (["role_session_name = sess"] if r.random() < 0.5 else [])
    printed = json.dumps({"Version": 1, "AccessKeyId": "ASIAPROC" + name.upper(), "SecretAccessKey": "p q", "SessionToken": "t+p"})
    return r.choice([
        keys, keys, role + [f"source_profile = {r.choice(names)}"], role + [f"credential_source = {r.choice(['Environment', 'EcsContainer', 'Ec2InstanceMetadata'])}"],
        role + [f"web_identity_token_file = {home}/web-token"], role + [f"source_profile = {name}"] + keys, [f"credential_process = echo {shlex.quote(printed)}"],
        ["sso_start_url = https://x/start", "sso_region = eu-west-1", "sso_account_id = 12", "sso_role_name = reader"], ["sso_session = corp", "sso_account_id = 12", "sso_role_name = reader"],
        ["region = eu-north-1"], keys[:1],
    ])  # fmt: skip


def a_set(r, home, url):
    """Files in `home`, and variables."""
    names = ["default", "one", "two", "three"]
    aws = home / ".aws"
    (aws / "sso" / "cache").mkdir(parents=True)
    (home / "web-token").write_text("the web token")
    config, credentials = [], []
    for name in names:
        if r.random() < 0.8:
            config += [f"[{name}]" if name == "default" else f"[profile {name}]", *profile_lines(r, name, names, home), ""]
        if r.random() < 0.25:
            credentials += [f"[{name}]", *profile_lines(r, name, names, home), ""]
    config += ["[sso-session corp]", "sso_start_url = https://y/start", "sso_region = eu-west-1", "sso_registration_scopes = a"]
    (aws / "config").write_text("\n".join(config) + "\n")
    (aws / "credentials").write_text("# of a test\n" + "\n".join(credentials) + "\n")
    for key, start in [("https://x/start", "https://x/start"), ("corp", "https://y/start")]:
        token = {"accessToken": "sso " + key, "expiresAt": FAR, "startUrl": start, "region": "eu-west-1"}
        (aws / "sso" / "cache" / (hashlib.sha1(key.encode()).hexdigest() + ".json")).write_text(json.dumps(token))
    variables = {"HOME": str(home), "PATH": os.environ["PATH"], "AWS_DEFAULT_REGION": "eu-west-1", "AWS_ENDPOINT_URL_STS": url, "AWS_ENDPOINT_URL_SSO": url, "AWS_EC2_METADATA_SERVICE_ENDPOINT": url + "/"}
    if r.random() < 0.75:
        variables["AWS_PROFILE"] = r.choice(names)
    if r.random() < 0.15:
        variables |= {"AWS_ACCESS_KEY_ID": "AKIAENV", "AWS_SECRET_ACCESS_KEY": "secret/env"}
    if r.random() < 0.2:
        variables |= {"AWS_CONTAINER_CREDENTIALS_FULL_URI": url + "/container", "AWS_CONTAINER_AUTHORIZATION_TOKEN": "Basic x"}
    if r.random() < 0.15:
        variables |= {"AWS_WEB_IDENTITY_TOKEN_FILE": str(home / "web-token"), "AWS_ROLE_ARN": "arn:aws:iam::1:role/env"}
    if r.random() < 0.3:
        variables["AWS_EC2_METADATA_DISABLED"] = "true"
    return variables


def theirs_of(variables):
    """In a process of its own, which has botocore loaded."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        os.environ.clear()
        os.environ.update(variables)
        for provider in (botocore.credentials.SSOProvider, botocore.tokens.SSOTokenProvider):
            provider._SSO_TOKEN_CACHE_DIR = variables["HOME"] + "/.aws/sso/cache"
        try:
            c = botocore.session.Session().get_credentials()
            c = c and c.get_frozen_credentials()
            found = {"id": c.access_key, "secret": c.secret_key, "token": c.token or ""} if c else {"error": "none"}
        except Exception as e:  # noqa: BLE001
            found = {"error": repr(e)}
        os.write(writing, json.dumps(found).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        found = json.load(pipe)
    os.waitpid(child, 0)
    return found


def credentials(oracle, folder, count):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Services)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    kinds = {}
    with tempfile.TemporaryDirectory() as scratch:
        for n in range(count):
            home = Path(scratch, str(n))
            variables = a_set(random.Random(n), home, url)
            theirs = theirs_of(variables)
            ours = json.loads(subprocess.run([oracle, folder, "credentials"], env=variables, capture_output=True, text=True, check=True).stdout)
            kind = ours.get("source", "none")
            kinds[kind.split(" of ")[0].split(" /")[0]] = True
            if any(ours.get(k) != theirs.get(k) for k in ["id", "secret", "token"]) or ("error" in ours) != ("error" in theirs):
                FAULTS.append(f"set {n}: {variables}\n  {ours}\n  {theirs}\n" + (home / ".aws/config").read_text() + (home / ".aws/credentials").read_text())
            if any(ours.get(k) and ours[k] in ours.get("source", "") for k in ["id", "secret", "token"]):
                FAULTS.append(f"set {n}: its source shows a secret: {ours}")
    server.shutdown()
    if len(kinds) < 8:
        FAULTS.append(f"few kinds of credentials: {list(kinds)}")


def main():
    oracle, folder = sys.argv[1:3]
    signatures(oracle, folder, 500)
    credentials(oracle, folder, int(os.environ.get("DCPCTL_NET_SETS", "60")))
    print("\n".join(FAULTS[:5]) or "500 signatures and all sets of credentials are botocore's")
    sys.exit(1 if FAULTS else 0)


main()
