"""What HTTP/2 costs a server beside HTTP/1.1, both over TLS: GETs of one object by h2load, eight connections.

    MINIO_BIN=~/go/bin/minio python3 tests/speed/http2.py [seconds]

MinIO serves both, so it shows what the protocol costs a server; Ashlar speaks HTTP/1.1 only (docs/decisions/0083). With ASHLAR_BIN it is
measured too, over HTTP/1.1. Needs h2load (nghttp2-client), openssl and botocore. By hand only: it is no test.
"""

import os
import re
import subprocess
import sys

os.environ["ASHLAR_SPEED_TLS"] = "1"

import process
from botocore.session import Session
from botocore.config import Config
from cluster import ROOT
from one_machine import Ashlar, MinIO

SIZES = [("4 KiB", 4 << 10), ("1 MiB", 1 << 20)]


def links(server):
    """Puts an object of each size; a signed link for each."""
    client = Session().create_client(
        "s3", endpoint_url=server.endpoints[0], region_name="us-east-1", verify=False, aws_access_key_id=ROOT[0],
        aws_secret_access_key=ROOT[1], config=Config(s3={"addressing_style": "path"}, signature_version="s3v4"))
    client.create_bucket(Bucket="speed")
    for name, size in SIZES:
        key = name.replace(" ", "")
        client.put_object(Bucket="speed", Key=key, Body=os.urandom(size))
        yield name, client.generate_presigned_url("get_object", {"Bucket": "speed", "Key": key})


def measure(server, url, protocol, seconds):
    """Requests per second, CPU of the server in microseconds for each."""
    pid = server.processes[-1].pid
    command = ["h2load", "-t1", "-c8", "-m1", "--h1" if protocol == "http/1.1" else "--npn-list=h2", url]
    subprocess.run([*command, "-n2000"], check=True, capture_output=True)
    before = process.cpu(pid)
    out = subprocess.run([*command, f"-D{seconds}"], check=True, capture_output=True, text=True).stdout
    took = process.cpu(pid) - before
    assert f"Application protocol: {protocol}" in out, out
    done, failed = map(int, re.search(r"requests: .*? (\d+) succeeded, (\d+) failed", out).groups())
    assert done and not failed, out
    return done / seconds, took / done * 1e6


def main():
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    print("| | requests/s, CPU of the server: HTTP/1.1 | HTTP/2 | difference of CPU |\n|---|---|---|---|")
    for kind in [MinIO, *([Ashlar] if "ASHLAR_BIN" in os.environ else [])]:
        with kind() as server:
            for name, url in links(server):
                found = [measure(server, url, p, seconds) for p in (["http/1.1", "h2"] if kind is MinIO else ["http/1.1"])]
                cells = [f"{rate:,.0f}/s, {cpu:,.0f} us" for rate, cpu in found] + ["not served"] * (2 - len(found))
                more = f"{(found[1][1] / found[0][1] - 1) * 100:+.0f} %" if len(found) > 1 else ""
                print(f"| {kind.name}: GET {name} | " + " | ".join(cells) + f" | {more} |", flush=True)


if __name__ == "__main__":
    main()
