"""What encryption at rest costs the server: 10 MiB PUT and GET, plain beside SSE-S3 in the same run.

    ASHLAR_BIN=target/release/ashlar python3 tests/speed/encryption.py [requests per round] [rounds] [cipher]

Needs botocore. Starts a server on folders in memory and sends it, over two connections, requests that were
signed once (UNSIGNED-PAYLOAD: what is measured is the store, not SHA-256). The kinds take turns, in an order
that changes from round to round (ASHLAR_SPEED_ONLY=GET: those alone); printed are the medians of the server's CPU time (user and system, all
threads) per GiB, and the differences of the kinds within each round. By hand only: it is no test.
"""

import base64
import os
import random
import statistics
import sys

from server import ROOT, Server
from signing import signed

CONNECTIONS = 2
SIZE = 10 << 20
SSE = {"x-amz-server-side-encryption": "AES256"}


def wire(base, method, path, length=0, headers=None):
    lines = [f"{method} {path} HTTP/1.1", f"Host: {base.split('//')[1]}", f"Content-Length: {length}"]
    return "\r\n".join(lines + [f"{k}: {v}" for k, v in signed(ROOT, method, base + path, headers).items()]).encode() + b"\r\n\r\n"


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    env = {"ASHLAR_KMS_ROOT_KEY": base64.b64encode(os.urandom(32)).decode()}
    if len(sys.argv) > 3:
        env["ASHLAR_ENCRYPTION_CIPHER"] = sys.argv[3]
    with Server(os.environ["ASHLAR_BIN"], **env) as server:
        base, body = server.base, os.urandom(SIZE)
        server.send(wire(base, "PUT", "/speed"), b"", 1)
        kinds = {"PUT plain": (wire(base, "PUT", "/speed/plain", SIZE), body),
                 "PUT SSE-S3": (wire(base, "PUT", "/speed/sse", SIZE, SSE), body),
                 "PUT SSE-KMS": (wire(base, "PUT", "/speed/kms", SIZE, {"x-amz-server-side-encryption": "aws:kms"}), body),
                 "GET plain": (wire(base, "GET", "/speed/plain"), b""),
                 "GET SSE-S3": (wire(base, "GET", "/speed/sse"), b"")}
        for head, sent in kinds.values():
            server.send(head, sent, 4)
        only = os.environ.get("ASHLAR_SPEED_ONLY", "")
        kinds = {name: kind for name, kind in kinds.items() if name.startswith(only)}
        found = {name: [] for name in kinds}
        for _ in range(rounds):
            for name in random.sample(list(kinds), len(kinds)):
                seconds = server.send(*kinds[name], count, CONNECTIONS)
                found[name].append(seconds / SIZE * (1 << 30))
        for name, all_ in found.items():
            line = f"{name:12} {statistics.median(all_):6.3f} CPU-s/GiB ({min(all_):.3f} to {max(all_):.3f})"
            plain = found[name.split()[0] + " plain"]
            if plain is not all_:
                more = [100 * (a / b - 1) for a, b in zip(all_, plain)]
                line += f", {statistics.median(more):+.1f} % of plain ({min(more):+.1f} to {max(more):+.1f})"
            print(line)


if __name__ == "__main__":
    main()
