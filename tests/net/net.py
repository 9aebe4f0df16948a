#!/usr/bin/env python3
"""What a checkpoint on a store gives is what it gives on a disk, on S3 (two servers), Google's, a hub and a web server; refusals are clean.

    net.py DCPCTL PART
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "stores"), str(TESTS / "net")]
import stores  # noqa: E402
from hub import TOKEN, Hub  # noqa: E402
from proxy import Faults, Proxy  # noqa: E402
from servers import KEY, SECRET, certificate, fake_gcs, rclone_http, rclone_s3, seaweedfs, tls  # noqa: E402
from stores import FAULTS, Both, contents  # noqa: E402

ODD = "a b+c%25#d'e&f=é"  # of a key


def environment(home, **more):
    """That of the tests, and nothing of this machine's."""
    kept = {k: v for k, v in os.environ.items() if k in ("PATH", "LANG", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS")}
    return {**kept, "HOME": str(home), "AWS_EC2_METADATA_DISABLED": "true", "GCE_METADATA_HOST": "127.0.0.1:1", **more}


def aws(server, **more):
    return {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_ENDPOINT_URL": server.url, **more}


class Tries:
    def __init__(self, dcpctl, scratch):
        self.dcpctl, self.scratch = dcpctl, scratch

    def run(self, *words, timeout=60, **variables):
        ran = subprocess.run([self.dcpctl, *map(str, words)], cwd=self.scratch, capture_output=True, timeout=timeout, env=environment(self.scratch, **variables))
        if SECRET.encode() in ran.stdout + ran.stderr or TOKEN.encode() in ran.stdout + ran.stderr:
            FAULTS.append(f"{words}: a secret is shown: {ran.stdout + ran.stderr!r}")
        return ran.returncode, ran.stdout.decode(), ran.stderr.decode()

    def says(self, exit, texts, *words, **variables):
        code, printed, said = self.run(*words, **variables)
        for text in [texts] if isinstance(texts, str) else texts:
            if code != exit or text not in printed + said:
                FAULTS.append(f"{' '.join(map(str, words))}: exit {code}, expected {exit} and {text!r}: {printed + said}")
        return printed + said


def samples(dcpctl, scratch):
    folder = scratch / "samples"
    folder.mkdir()
    stores.make_samples(dcpctl, folder)
    return folder


def everything(both):
    for kind in stores.KINDS:
        stores.every_kind(both, kind)
    stores.paths(both)


def reading(both):
    """A command of each kind."""
    if not both.prefix.startswith("hf:"):  # which has no dates
        both.same("list", "run@")
    for words in [["inspect", "dcp@"], ["inspect", "hf@", "--keys"], ["verify", "dcp@", "--json"], ["diff", "dcp@", "torch.pt@"], ["extract", "dcp@", "model.norm.weight", "--stats"],
                  ["consolidate", "dcp@", "m.pt", "--expect", "hf@", "--model-only"], ["consolidate", "run@", "m.safetensors", "--step", "latest", "--model-only"], ["verify", "dcp@", "--against", "manifest.json@"],
                  ["cast", "torch-ranks@", "o", "--dtype", "bf16"], ["reshard", "dcp@", "o", "--layout", "layout.json@"], ["convert", "torch-shards@", "o.pt"],
                  ["consolidate", "dcp@", "h", "--model-only", "--like-index", "hf/model.safetensors.index.json@"]]:  # fmt: skip
        both.same(*words)


def buckets(root, folder):
    """rclone serves the folders of `root` as buckets."""
    shutil.copytree(folder, root / "bucket" / "runs")
    shutil.copytree(folder / "dcp", root / "bucket" / ODD / "x%20y")
    return root


def few_requests(t, server):
    """Of 64 ranks: the listing, `.metadata` and then each object that is shown of, all at once; what is verified is read once."""
    proxy = Proxy(server.port)
    try:
        for words, most in [("inspect", 2 + 16), ("verify", 2 + 64 + 2)]:
            proxy.requests.clear()
            t.says(0, "", words, "s3://bucket/many", **{**aws(server), "AWS_ENDPOINT_URL": proxy.url})
            objects = [re.sub(r"\?.*", "", line) for line in proxy.requests]
            if len(objects) > most or len(objects) > len(set(objects)):
                FAULTS.append(f"{words}: {len(objects)} requests for {len(set(objects))} objects, expected at most {most}: {sorted(proxy.requests)}")
    finally:
        proxy.end()


def part_s3(t, folder):
    root = buckets(t.scratch / "root", folder)
    subprocess.run([t.dcpctl, "reshard", folder / "dcp", root / "bucket" / "many", "--world-size", "64", "-q"], check=True)
    server = rclone_s3(root)
    try:
        everything(Both(t.dcpctl, [t.dcpctl], folder, t.scratch, "s3://bucket/runs/", environment(t.scratch, **aws(server))))
        for words in [["inspect", f"s3://bucket/{ODD}/x%20y"], ["verify", f"s3://bucket/{ODD}/x%20y"]]:
            t.says(0, "", *words, **aws(server))
        few_requests(t, server)
        refusals(t, server)
    finally:
        server.end()


def refusals(t, server):
    at = "s3://bucket/runs/dcp"
    t.says(4, ["s3://bucket/runs/dcp: the store refuses: 403 InvalidAccessKeyId", f"hint: {server.url} does not know the key, which was that of AWS_ACCESS_KEY_ID of the environment"], "inspect", at, **aws(server, AWS_ACCESS_KEY_ID="NOTTHISKEY000000"))
    t.says(4, ["403 SignatureDoesNotMatch", "hint: the secret of AWS_ACCESS_KEY_ID of the environment is wrong, or a proxy"], "inspect", at, **aws(server, AWS_SECRET_ACCESS_KEY="wrong"))
    t.says(5, ["there are no credentials for this store", "AWS_NO_SIGN_REQUEST=YES"], "inspect", at, AWS_ENDPOINT_URL=server.url)
    t.says(5, "no profile nobody", "inspect", at, AWS_ENDPOINT_URL=server.url, AWS_PROFILE="nobody")
    t.says(4, ["404 NoSuchBucket", f"hint: buckets were looked up at {server.url}"], "inspect", "s3://elsewhere/x", **aws(server))
    t.says(3, "s3://bucket/runs/none: there is no such file or folder", "inspect", "s3://bucket/runs/none", **aws(server))
    t.says(2, "s3://BUCKET/KEY", "inspect", "s3://", **aws(server))
    t.says(2, "can only be read\nhint: write to a disk, and copy it from there", "consolidate", at, "s3://bucket/out", **aws(server))
    t.says(2, "az://b/x: no store has paths of this kind (got az://, expected gs:// or hf:// or http:// or https:// or s3://", "inspect", "az://b/x")
    t.says(2, ["plain http:// shows what is read", "hint: give an https:// address, or --insecure-http if the network is yours"], "inspect", at, **aws(server, AWS_ENDPOINT_URL="http://192.0.2.1"))
    t.says(2, "a user's name in it", "inspect", "https://me:secret@example.com/x")
    t.says(2, "a query in it", "inspect", "https://example.com/x?Signature=secret")
    if any(p.name.startswith("s3:") for p in t.scratch.iterdir()):
        FAULTS.append("a folder s3: is there")
    alone = t.scratch / "alone"
    alone.mkdir()
    shutil.copy(t.dcpctl, alone / "dcpctl")
    Tries(alone / "dcpctl", t.scratch).says(5, ["libdcpctl_net.so: a required module is missing", "libcurl4-openssl-dev"], "inspect", at, **aws(server))


def part_others(t, folder):
    """Servers other than rclone's S3, each with the commands that read in another way."""
    base_of(folder)
    root = buckets(t.scratch / "root", folder)
    web = rclone_http(root)
    hub = Hub(root / "hub")
    (root / "bucket" / "login.html").write_text("<html>Sign in</html>")
    shutil.copytree(folder, root / "hub" / "org" / "runs")
    gcs = fake_gcs(root)
    try:
        reading(Both(t.dcpctl, [t.dcpctl], folder, t.scratch, "gs://bucket/runs/", environment(t.scratch, STORAGE_EMULATOR_HOST=gcs.url)))
        reading(Both(t.dcpctl, [t.dcpctl], folder, t.scratch, "hf://org/runs/", environment(t.scratch, HF_ENDPOINT=hub.url, HF_TOKEN=TOKEN)))
        from_web(Both(t.dcpctl, [t.dcpctl], folder, t.scratch, f"{web.url}/bucket/runs/", environment(t.scratch)))
        t.says(4, ["an answer that is no listing", "hint: a page for people was answered"], "inspect", "s3://login.html/x", **aws(web, AWS_ENDPOINT_URL=web.url + "/bucket"))
        hub_alone(t, hub, folder)
        much(t)
    finally:
        for server in (web, hub, gcs):
            server.end()


def base_of(folder):
    """A folder with what lies beside the weights."""
    base = folder / "base"
    base.mkdir()
    for name in ["config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "merges.txt", "vocab.json", "chat_template.jinja"]:
        (base / name).write_text('{"torch_dtype": "float32"}' if name.endswith("json") else "text")


def from_web(both):
    """What a server that lists nothing can give: checkpoints with a description, and files."""
    for words in [["inspect", "dcp@"], ["inspect", "dcp/.metadata@"], ["verify", "dcp@"], ["inspect", "hf@", "--keys"], ["verify", "torch.pt@"], ["diff", "dcp@", "torch.pt@"], ["extract", "safetensors.safetensors@", "norm.weight"],
                  ["consolidate", "hf@", "m.safetensors"], ["consolidate", "dcp@", "m.pt"], ["verify", "dcp@", "--against", "manifest.json@"]]:  # fmt: skip
        both.same(*words)
    both.says(3, "there is no such file or folder", "inspect", "none@")
    both.same("consolidate", "dcp@", "assets", "--model-only", "--assets", "base@", "--dtype", "bf16")
    both.says(2, "the folder holds no configuration or tokenizer", "consolidate", "dcp@", "o", "--model-only", "--assets", "hf@")
    both.says(3, "there is no such file or folder", "consolidate", "dcp@", "o", "--model-only", "--assets", "none@")


def much(t):
    """More than 100 GB: it is said before they are read."""
    elements = 26_000_000_000
    header = json.dumps({"w": {"dtype": "F32", "shape": [elements], "data_offsets": [0, 4 * elements]}}).encode()
    folder = t.scratch / "much"
    folder.mkdir()
    with open(folder / "w.safetensors", "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + 4 * elements)
    server = rclone_http(folder)
    run = subprocess.Popen([t.dcpctl, "verify", f"{server.url}/w.safetensors"], cwd=t.scratch, env=environment(t.scratch), stderr=subprocess.PIPE)
    said = run.stderr.readline()
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=20)
    server.end()
    if b"reading 96.9 GiB over the network" not in said:
        FAULTS.append(f"104 GB: {said!r}")


def soon(what, begin, seconds):
    if time.monotonic() - begin > seconds:
        FAULTS.append(f"{what}: {time.monotonic() - begin:.1f} s")


def confines_tcp(t, variables):
    said = t.run("inspect", "hf://org/runs/hf", "-vv", **variables, HF_TOKEN=TOKEN)[2]
    return "confined to what the command line names" in said and "TCP is not confined" not in said


def hub_alone(t, hub, folder):
    variables = {"HF_ENDPOINT": hub.url}
    hub.gated = True
    t.says(4, ["401 GatedRepo: Access to model is restricted", "no token was sent: HF_TOKEN"], "inspect", "hf://org/runs/hf", **variables)
    t.says(0, "", "inspect", "hf://org/runs@main/hf", **variables, HF_TOKEN=TOKEN)
    (t.scratch / "token").write_text(TOKEN + "\n")
    t.says(0, "", "inspect", "hf://models/org/runs/hf", **variables, HF_TOKEN_PATH=t.scratch / "token")
    t.says(4, ["404 RepoNotFound", "is there org/none at"], "inspect", "hf://org/none", **variables, HF_TOKEN=TOKEN)
    t.says(2, "hf://ORG/NAME[@REVISION][/PATH]", "inspect", "hf://org", **variables)
    t.says(0, "", "verify", "hf://org/renamed/hf", **variables, HF_TOKEN=TOKEN)
    t.says(4, ["the store refuses: 308", "hint: it leads to hub.invalid: HF_ENDPOINT names another hub"], "inspect", "hf://org/moved", **variables, HF_TOKEN=TOKEN)
    # One resolution a file, however many ranges are read.
    hub.requests.clear()
    t.says(0, "", "verify", "hf://org/runs/hf", **variables, HF_TOKEN=TOKEN)
    resolved = [r for r in hub.requests if "/resolve/" in r]
    if len(resolved) != len(set(resolved)):
        FAULTS.append(f"files are resolved more than once: {resolved}")
    # Files on a port that nobody could foresee: the sandbox keeps it shut, which is said at once.
    hub.files_port = hub.other_port
    begin = time.monotonic()
    if confines_tcp(t, variables):
        t.says(4, [f"the sandbox lets no connection out to this place: localhost:{hub.other_port}", "hint: --sandbox off"], "verify", "hf://org/runs/hf", **variables, HF_TOKEN=TOKEN)
        soon("a port that the sandbox keeps shut", begin, 5)
    t.says(0, "", "verify", "hf://org/runs/hf", "--sandbox", "off", **variables, HF_TOKEN=TOKEN)
    hub.files_port = hub.port
    # Signed addresses that end at once are asked for again, and an end without end is an error.
    hub.lasting = -1
    t.says(4, "403 AccessDenied: Request has expired", "verify", "hf://org/runs/hf", **variables, HF_TOKEN=TOKEN)
    hub.lasting = 3600
    FAULTS.extend(hub.faults)


def part_faults(t, folder):
    """Whatever the network does, the output is right or there is a clean error and no output."""
    root = buckets(t.scratch / "root", folder)
    server = rclone_s3(root)
    proxy = Proxy(server.port)
    try:
        right = t.scratch / "right.pt"
        subprocess.run([t.dcpctl, "consolidate", folder / "dcp", right, "-q"], check=True)
        expected = right.read_bytes()
        outcomes = {0: 0, 4: 0}
        count = int(os.environ.get("DCPCTL_NET_FAULTS", "24"))
        for seed in range(count):
            hard = seed % 4 == 3
            chance = 0.5 if hard else 0.08
            proxy.faults = Faults(seed, refused=chance, lost=chance / 2, slow_down=chance, broken=chance / 2, cut=chance, reset=chance, etag=0.03 if seed % 4 == 2 else 0)
            code, printed, said = t.run("consolidate", "s3://bucket/runs/dcp", "out.pt", "--net-timeout", 2 if hard else 20, **aws(proxy))
            out = t.scratch / "out.pt"
            outcomes[code] = outcomes.get(code, 0) + 1
            if code == 0 and (not out.exists() or out.read_bytes() != expected):
                FAULTS.append(f"seed {seed}: another output")
            if code != 0 and (out.exists() or code != 4 or "hint:" not in said and "the store" not in said and "replaced" not in said):
                FAULTS.append(f"seed {seed}: exit {code}, output {out.exists()}: {said}")
            if left := [p.name for p in t.scratch.iterdir() if "dcpctl-" in p.name]:
                FAULTS.append(f"seed {seed}: left behind {left}")
            out.unlink(missing_ok=True)
        if outcomes[0] < count / 3 or len(outcomes) > 2:
            FAULTS.append(f"outcomes of {count}: {outcomes}")
        print(f"{count} runs with faults: {outcomes}")
        single(t, proxy, folder)
    finally:
        proxy.end()
        server.end()


def single(t, proxy, folder):
    at = "s3://bucket/runs/dcp"
    # Each fault once: overcome, counted.
    for fault in ["refused", "lost", "slow_down", "broken"]:
        proxy.faults = Faults()
        proxy.faults.script = [fault]
        t.says(0, "1 repetition", "inspect", at, "-v", **aws(proxy))
    proxy.faults = Faults(etag=1.0)
    t.says(4, "another ETag", "verify", at, **aws(proxy))
    # Nobody there; a store that only says no.
    t.says(4, ["the store did not answer", "was asked"], "inspect", at, "--net-timeout", "1", **aws(proxy, AWS_ENDPOINT_URL="http://127.0.0.1:1"))
    proxy.faults = Faults(slow_down=1.0)
    t.says(4, "503 SlowDown: Please reduce your request rate.", "inspect", at, "--net-timeout", "1", **aws(proxy))
    # A deadline holds for all that is asked of the same.
    for faults, port in [(Faults(hung=1.0), proxy.port), (Faults(slow_down=1.0), proxy.port), (Faults(), 1)]:
        proxy.faults = faults
        begin = time.monotonic()
        t.says(4, "hint: ", "inspect", at, "--net-timeout", "3", **aws(proxy, AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}"))
        soon("--net-timeout 3", begin, 5)
    # Ctrl-C, while a store is silent and while it is waited for.
    for faults in [Faults(hung=1.0), Faults(latency=20), Faults(slow_down=1.0)]:
        proxy.faults = faults
        run = subprocess.Popen([t.dcpctl, "consolidate", at, "out.pt"], cwd=t.scratch, env=environment(t.scratch, **aws(proxy)), stderr=subprocess.PIPE)
        time.sleep(1)
        begin = time.monotonic()
        run.send_signal(signal.SIGINT)
        said = run.communicate(timeout=20)[1]
        if run.returncode != 130 or time.monotonic() - begin > 2:  # one that waits for the store takes 20
            FAULTS.append(f"Ctrl-C: exit {run.returncode} after {time.monotonic() - begin:.2f} s: {said!r}")
    # How many round trips a look takes.
    proxy.faults = Faults()
    proxy.requests.clear()
    t.says(0, "", "inspect", at, **aws(proxy))
    if len(proxy.requests) > 6:  # the listing, the metadata, and what the objects of three ranks say
        FAULTS.append(f"inspect takes {len(proxy.requests)} requests: {proxy.requests}")


def uploaded(server, folder):
    """What is in `folder`, as objects of a bucket `weed`."""
    import botocore.session

    s3 = botocore.session.Session().create_client("s3", "us-east-1", endpoint_url=server.url, aws_access_key_id=KEY, aws_secret_access_key=SECRET)
    s3.create_bucket(Bucket="weed")
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = str(path.relative_to(folder))
        for key in [name, *(name.replace("dcp", other, 1) for other in [ODD, "wide"])] if name.startswith("dcp/") else [name]:
            s3.put_object(Bucket="weed", Key=key, Body=path.read_bytes())
    for n in range(1100):  # more than a page
        s3.put_object(Bucket="weed", Key=f"many/step-{n}/__0_0.distcp", Body=b"x")
        s3.put_object(Bucket="weed", Key=f"wide/notes-{n}", Body=b"x")


def part_seaweedfs(t, folder):
    """Another server, which checks If-Match and gives listings in pages."""
    data = t.scratch / "weed"
    data.mkdir()
    server = seaweedfs(data)
    try:
        uploaded(server, folder)
        variables = aws(server)
        reading(Both(t.dcpctl, [t.dcpctl], folder, t.scratch, "s3://weed/", environment(t.scratch, **variables)))
        t.says(0, "", "verify", f"s3://weed/{ODD}", **variables)
        listed = json.loads(t.run("list", "s3://weed/many", "--json", **variables)[1] or "{}")
        if len(listed.get("steps", [])) != 1100:
            FAULTS.append(f"{len(listed.get('steps', []))} of 1100 steps are listed")
        # The listing, its other page beside the metadata, and what the objects say.
        proxy = Proxy(server.port, Faults(latency=0.5))
        t.says(0, "", "inspect", "s3://weed/wide", **aws(proxy))
        if not any("continuation-token" in r for r in proxy.requests) or proxy.round_trips() > 3:
            FAULTS.append(f"inspect of 1,100 objects takes {proxy.round_trips()} round trips: {proxy.requests}")
        proxy.end()
        # Virtual-hosted, by a profile.
        (t.scratch / ".aws").mkdir()
        (t.scratch / ".aws" / "config").write_text(f"[profile v]\nendpoint_url = http://localhost:{server.port}\ns3 =\n  addressing_style = virtual\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n")
        t.says(0, "", "inspect", "s3://weed/dcp", AWS_PROFILE="v")
    finally:
        server.end()


def part_ways(t, folder):
    """Certificates, the sandbox, doctor."""
    server = rclone_s3(buckets(t.scratch / "root", folder))
    pem = certificate(t.scratch)
    proxy = Proxy(server.port, tls=tls(pem))
    at = "s3://bucket/runs/dcp"
    try:
        t.says(0, "", "inspect", at, **aws(proxy, AWS_CA_BUNDLE=pem))
        t.says(0, "", "inspect", at, **aws(proxy, SSL_CERT_FILE=pem))
        # AWS's variable is for AWS alone.
        t.says(4, "the store refuses: 4", "inspect", f"{proxy.url}/bucket/x", AWS_CA_BUNDLE="/nowhere", SSL_CERT_FILE=pem)
        t.says(4, "certificate", "inspect", f"{proxy.url}/bucket/x", AWS_CA_BUNDLE=pem)
        t.says(4, ["certificate", "hint: certificates are looked up in"], "inspect", at, **aws(proxy))
        t.says(4, "the store did not answer", "inspect", at, **aws(proxy, AWS_ENDPOINT_URL=proxy.url.replace("127.0.0.1", "localhost"), SSL_CERT_FILE=pem))
        t.says(0, "", "verify", at, "--sandbox", "on", **aws(server))
        t.says(0, [f"endpoint     {server.url}", "AWS_ACCESS_KEY_ID of the environment", "range        "], "doctor", at, **aws(server))
        t.says(0, '"credentials":', "doctor", at, "--json", **aws(server))
        said = t.says(0, "requests over the network", "inspect", at, "-v", **aws(server))
        process = shutil.which("echo")
        (t.scratch / "aws").write_text(f"""[default]\ncredential_process = {process} '{json.dumps({"Version": 1, "AccessKeyId": KEY, "SecretAccessKey": SECRET})}'\n""")
        t.says(0, "", "verify", at, "--sandbox", "on", AWS_ENDPOINT_URL=server.url, AWS_CONFIG_FILE=t.scratch / "aws")
        t.says(0, "", "inspect", at, AWS_ENDPOINT_URL=server.url, AWS_CONFIG_FILE=t.scratch / "aws")
        ended = json.dumps({"Version": 1, "AccessKeyId": KEY, "SecretAccessKey": SECRET, "Expiration": "2020-01-01T00:00:00Z"})
        for command, said in [(f"{process} '{ended}'", "ended 2020-01-01 00:00:00 UTC\nhint: sign in again"), ("sh -c 'echo no token >&2; exit 3'", "it ended with exit code 3: no token")]:
            (t.scratch / "aws").write_text(f"[default]\ncredential_process = {command}\n")
            t.says(5, f"credential_process of profile default{':' if 'exit' in said else ''} {said}", "verify", at, AWS_ENDPOINT_URL=server.url, AWS_CONFIG_FILE=t.scratch / "aws")
    finally:
        proxy.end()
        server.end()


def main():
    dcpctl = os.path.abspath(sys.argv[1])
    part = sys.argv[2]
    with tempfile.TemporaryDirectory() as scratch:
        t = Tries(dcpctl, Path(scratch))
        globals()["part_" + part](t, samples(dcpctl, t.scratch))
    print("\n".join(FAULTS) or f"{part}: as from a disk")
    sys.exit(1 if FAULTS else 0)


if __name__ == "__main__":
    main()
