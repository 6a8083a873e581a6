"""What it costs the server to know who asks and whether they may.

    ASHLAR_BIN=target/release/ashlar python3 tests/speed/identities.py [requests per round] [rounds]

Needs botocore. Starts a server on folders in memory and sends it, over four connections, requests that
were signed once: GETs of 4 KiB by root, by a user with one policy and by a user with 20 policies of five
statements each, and AssumeRole. The kinds take turns; printed are the medians of the server's CPU time
(user and system, all threads) per request. By hand only: it is no test.
"""

import json
import os
import statistics
import sys
import time
import urllib.request

from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from server import ROOT, Server

CONNECTIONS = 4


def statement(actions, resources, **more):
    return {"Effect": "Allow", "Action": actions, "Resource": resources, **more}


def policy(i):
    """Five statements of the kinds that people write; the last policy's second one lets the GET in."""
    arn = "arn:aws:s3:::"
    return {"Version": "2012-10-17", "Statement": [
        statement(["s3:ListBucket", "s3:GetBucketLocation"], f"{arn}team-{i}",
                  Condition={"StringLike": {"s3:prefix": ["home/${aws:username}/*", "shared/*"]}}),
        statement(["s3:GetObject*", "s3:PutObject"], f"{arn}team-{i}/home/${{aws:username}}/*"),
        statement("s3:Get*", [f"{arn}shared-{i}/*", f"{arn}public-{i}/*.jpg"]),
        statement("s3:*", f"{arn}scratch-{i}-*/*", Condition={"Bool": {"aws:SecureTransport": "true"}}),
        {"Effect": "Deny", "Action": "s3:*", "Resource": "*",
         "Condition": {"NotIpAddress": {"aws:SourceIp": ["127.0.0.0/8", "10.0.0.0/8"]}}},
    ]}


def signed(base, who, method, path, body=b"", service="s3", headers=None):
    request = AWSRequest(method, base + path, data=body, headers=headers or {})
    signer = S3SigV4Auth if service == "s3" else SigV4Auth
    signer(Credentials(*who), service, "us-east-1").add_auth(request)
    return dict(request.headers)


def call(base, method, path, body=b""):
    request = urllib.request.Request(base + path, data=body or None, method=method,
                                     headers=signed(base, ROOT, method, path, body))
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read()


def admin(base, method, path, body=None):
    return call(base, method, "/ashlar/admin/v1/" + path, json.dumps(body).encode() if body else b"")


def wire(base, who, method, path, body=b"", service="s3", headers=None):
    lines = [f"{method} {path} HTTP/1.1", f"Host: {base.split('//')[1]}", f"Content-Length: {len(body)}"]
    lines += [f"{k}: {v}" for k, v in signed(base, who, method, path, body, service, headers).items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def measure(server, request, count):
    began = time.monotonic()
    seconds = server.send(request, b"", count, CONNECTIONS)
    return seconds * 1e6, count / (time.monotonic() - began)


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    with Server(os.environ["ASHLAR_BIN"]) as server:
        base = server.base
        call(base, "PUT", "/team-19")
        kinds = {}
        for name, numbers in (("one", [19]), ("twenty", range(20))):
            user = (name, "speed-user-secret")
            admin(base, "PUT", f"users/{name}", {"secret": user[1]})
            for i in numbers:
                admin(base, "PUT", f"policies/p{i}", policy(i)) if name == "one" or i != 19 else None
            admin(base, "POST", "policies/attach", {"policies": [f"p{i}" for i in numbers], "user": name})
            path = f"/team-19/home/{name}/k"
            call(base, "PUT", path, os.urandom(4096))
            kinds[f"GET 4 KiB, user with {len(numbers)} policies"] = wire(base, user, "GET", path)
        kinds["GET 4 KiB, root"] = wire(base, ROOT, "GET", "/team-19/home/one/k")
        form = b"Action=AssumeRole&Version=2011-06-15&DurationSeconds=900"
        kinds["AssumeRole, user with 20 policies"] = wire(
            base, ("twenty", "speed-user-secret"), "POST", "/", form, "sts",
            {"Content-Type": "application/x-www-form-urlencoded"})
        found = {name: [] for name in kinds}
        for _ in range(rounds):
            for name, request in kinds.items():
                found[name].append(measure(server, request, count))
        for name, all_ in found.items():
            us = [u for u, _ in all_]
            print(f"{name:40} {statistics.median(us):7.1f} us of CPU per request ({min(us):.1f} to {max(us):.1f}), "
                  f"{1e6 / statistics.median(us):7.0f}/s per core, {statistics.median(r for _, r in all_):7.0f}/s seen")


if __name__ == "__main__":
    main()
