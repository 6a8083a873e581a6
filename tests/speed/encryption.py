"""What encryption at rest costs the server: 10 MiB PUT and GET, plain beside SSE-S3 in the same run.

    ASHLAR_BIN=target/release/ashlar python3 tests/speed/encryption.py [requests per round] [rounds] [cipher]

Needs botocore. Starts a server on folders in memory and sends it, over two connections, requests that were
signed once (UNSIGNED-PAYLOAD: what is measured is the store, not SHA-256). The kinds take turns, in an order
that changes from round to round; printed are the medians of the server's CPU time (user and system, all
threads) per GiB, and the differences of the kinds within each round. By hand only: it is no test.
"""

import base64
import multiprocessing
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

ROOT = ("speed-root", "speed-root-secret-key")
CONNECTIONS = 2
SIZE = 10 << 20
SSE = {"x-amz-server-side-encryption": "AES256"}


class Unsigned(S3SigV4Auth):
    def _should_sha256_sign_payload(self, request):
        return False


def wire(base, method, path, length=0, headers=None):
    request = AWSRequest(method, base + path, headers=headers or {})
    Unsigned(Credentials(*ROOT), "s3", "us-east-1").add_auth(request)
    lines = [f"{method} {path} HTTP/1.1", f"Host: {base.split('//')[1]}", f"Content-Length: {length}"]
    return "\r\n".join(lines + [f"{k}: {v}" for k, v in request.headers.items()]).encode() + b"\r\n\r\n"


def send(port, head, body, count):
    s = socket.create_connection(("127.0.0.1", port))
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    taken = bytearray(1 << 20)
    for _ in range(count):
        s.sendall(head)
        if body:
            s.sendall(body)
        held = b""
        while b"\r\n\r\n" not in held:
            held += s.recv(65536)
        first, rest = held.split(b"\r\n\r\n", 1)
        assert first.startswith(b"HTTP/1.1 200"), first
        length = next(int(h.split(b":")[1]) for h in first.split(b"\r\n") if h.lower().startswith(b"content-length"))
        length -= len(rest)
        while length > 0:
            length -= s.recv_into(taken)


def cpu(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(process, port, head, body, count):
    before = cpu(process.pid)
    workers = [multiprocessing.Process(target=send, args=(port, head, body, count // CONNECTIONS))
               for _ in range(CONNECTIONS)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
        assert w.exitcode == 0
    return (cpu(process.pid) - before) / (count * SIZE) * (1 << 30)


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    home = Path(tempfile.mkdtemp(prefix="ashlar-speed-", dir="/dev/shm"))
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    base = f"http://127.0.0.1:{port}"
    env = dict(os.environ, ASHLAR_ROOT_USER=ROOT[0], ASHLAR_ROOT_PASSWORD=ROOT[1],
               ASHLAR_KMS_ROOT_KEY=base64.b64encode(os.urandom(32)).decode())
    if len(sys.argv) > 3:
        env["ASHLAR_ENCRYPTION_CIPHER"] = sys.argv[3]
    process = subprocess.Popen([os.environ["ASHLAR_BIN"], "server", f"{home}/drive{{1...4}}", "--address",
                                f"127.0.0.1:{port}"], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 20
        while True:
            try:
                urllib.request.urlopen(f"{base}/ashlar/health/ready", timeout=2)
                break
            except OSError:
                assert process.poll() is None and time.monotonic() < deadline, "the server did not start"
                time.sleep(0.05)
        body = os.urandom(SIZE)
        send(port, wire(base, "PUT", "/speed"), b"", 1)
        kinds = {"PUT plain": (wire(base, "PUT", "/speed/plain", SIZE), body),
                 "PUT SSE-S3": (wire(base, "PUT", "/speed/sse", SIZE, SSE), body),
                 "PUT SSE-KMS": (wire(base, "PUT", "/speed/kms", SIZE, {"x-amz-server-side-encryption": "aws:kms"}), body),
                 "GET plain": (wire(base, "GET", "/speed/plain"), b""),
                 "GET SSE-S3": (wire(base, "GET", "/speed/sse"), b"")}
        for head, sent in kinds.values():
            send(port, head, sent, 4)
        found = {name: [] for name in kinds}
        for _ in range(rounds):
            for name in random.sample(list(kinds), len(kinds)):
                head, sent = kinds[name]
                found[name].append(measure(process, port, head, sent, count))
        for name, all_ in found.items():
            line = f"{name:12} {statistics.median(all_):6.3f} CPU-s/GiB ({min(all_):.3f} to {max(all_):.3f})"
            plain = found[name.split()[0] + " plain"]
            if plain is not all_:
                more = [100 * (a / b - 1) for a, b in zip(all_, plain)]
                line += f", {statistics.median(more):+.1f} % of plain ({min(more):+.1f} to {max(more):+.1f})"
            print(line)
    finally:
        process.terminate()
        process.wait(timeout=60)
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
