"""Slow and half-sent requests, many at once, and how others fare meanwhile.

    python tests/system/attacks.py BINARY [readers] [writers] [heads]      full size: 500 500 3500

starts a server with default memory, attacks it, and prints the memory of the server and the times of other requests.
`test_fairness.py` does the same, smaller, with bounds.
"""

import asyncio
import hashlib
import hmac
import http.client
import multiprocessing
import os
import re
import socket
import sys
import time
from pathlib import Path
from urllib.parse import quote

BIG = 8 << 20
REGION = "us-east-1"


class Client:
    """Signs requests itself, so that nothing is retried and every request has a connection of its own."""

    def __init__(self, port, access="clienttests", secret="clienttests-secret-key"):
        self.port, self.access, self.secret = port, access, secret
        self.host = f"127.0.0.1:{port}"

    def _signature(self, day, text):
        key = f"AWS4{self.secret}".encode()
        for part in (day, REGION, "s3", "aws4_request"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()

    def _sign(self, method, path, query, headers, payload, stamp):
        scope = f"{stamp[:8]}/{REGION}/s3/aws4_request"
        names = ";".join(sorted(headers))
        text = "\n".join(
            [method, path, query, *(f"{n}:{headers[n]}" for n in sorted(headers)), "", names, payload]
        )
        text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(text.encode()).hexdigest()}"
        return scope, names, self._signature(stamp[:8], text)

    @staticmethod
    def _query(pairs):
        return "&".join(f"{quote(k, safe='')}={quote(v, safe='')}" for k, v in sorted(pairs))

    def raw(self, method, path, query=(), body=b"", timeout=60):
        """Status and body."""
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        payload = hashlib.sha256(body).hexdigest()
        headers = {"host": self.host, "x-amz-content-sha256": payload, "x-amz-date": stamp}
        scope, names, signature = self._sign(method, path, self._query(query), headers, payload, stamp)
        headers["authorization"] = \
            f"AWS4-HMAC-SHA256 Credential={self.access}/{scope}, SignedHeaders={names}, Signature={signature}"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            target = path + ("?" + self._query(query) if query else "")
            connection.request(method, target, body=body or None, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except http.client.HTTPException as e:
            raise OSError(f"{type(e).__name__}: {e}") from e
        finally:
            connection.close()

    def must(self, *args, **kwargs):
        status, got = self.raw(*args, **kwargs)
        assert status in (200, 204), (args[:2], status, got[:300])
        return got

    def presigned(self, method, path):
        """Path and query that need no header."""
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        scope = f"{stamp[:8]}/{REGION}/s3/aws4_request"
        query = self._query([
            ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"), ("X-Amz-Credential", f"{self.access}/{scope}"),
            ("X-Amz-Date", stamp), ("X-Amz-Expires", "3600"), ("X-Amz-SignedHeaders", "host"),
        ])
        signature = self._sign(method, path, query, {"host": self.host}, "UNSIGNED-PAYLOAD", stamp)[2]
        return f"{path}?{query}&X-Amz-Signature={signature}"


def resident(pid, what="VmRSS"):
    """Memory of a process, in bytes; `VmHWM`: the most it ever had."""
    return int(re.search(rf"{what}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())[1]) << 10


async def connect(port, small=False):
    """A connection; `small`: the system takes next to nothing of an answer on behalf of the client."""
    loop = asyncio.get_running_loop()
    s = socket.socket()
    s.setblocking(False)
    if small:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    await loop.sock_connect(s, ("127.0.0.1", port))
    return s


async def send(s, data):
    await asyncio.get_running_loop().sock_sendall(s, data)


async def non_reader(port, path, stop):
    """Asks for a large object and reads nothing."""
    while not stop.is_set():
        s = None
        try:
            s = await connect(port, small=True)
            await send(s, f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n".encode())
            await stop.wait()
        except OSError:
            await asyncio.sleep(0.5)
        finally:
            if s:
                s.close()


async def trickler(port, path, stop, size=10_000_000, first=70_000, rate=1536):
    """Sends a little at once and the rest far too slowly; comes again when it is turned away."""
    while not stop.is_set():
        s = None
        try:
            s = await connect(port)
            head = f"PUT {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-length: {size}\r\n\r\n"
            await send(s, head.encode() + os.urandom(first))
            while not stop.is_set():
                await asyncio.sleep(1)
                await send(s, os.urandom(rate))
        except OSError:
            await asyncio.sleep(0.5)
        finally:
            if s:
                s.close()


async def half(port, text, stop):
    """Sends a part of a request and waits."""
    while not stop.is_set():
        s = None
        try:
            s = await connect(port)
            await asyncio.wait_for(send(s, text), 5)
            while not stop.is_set():
                try:
                    # Whatever comes, it is no use any more.
                    await asyncio.wait_for(asyncio.get_running_loop().sock_recv(s, 100), 2)
                    break
                except asyncio.TimeoutError:
                    pass
            await asyncio.sleep(0.2)
        except (OSError, asyncio.TimeoutError):
            await asyncio.sleep(0.5)
        finally:
            if s:
                s.close()


def half_head(port, size=78_000):
    return f"GET /pub/x HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nx-amz-meta-a: ".encode() + b"a" * size


def half_form(port, size=60_000):
    body = b"--B\r\nContent-Disposition: form-data; name=\"policy\"\r\n\r\n" + b"a" * size
    head = f"POST /pub HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-length: 200000\r\n" \
           "content-type: multipart/form-data; boundary=B\r\n\r\n"
    return head.encode() + body


class Others:
    """Requests of somebody else, timed: (seconds, status)."""

    def __init__(self, client):
        self.client = client
        self.seen = {}

    def ask(self, name, method, path, query=(), body=b"", want=None, timeout=60):
        begin = time.monotonic()
        try:
            status, got = self.client.raw(method, path, list(query), body, timeout)
            if status == 200 and want is not None and got != want:
                status = "wrong bytes"
        except OSError as e:
            status = type(e).__name__
        self.seen.setdefault(name, []).append((time.monotonic() - begin, status))

    def round(self, i, big):
        self.ask("PUT 1 B", "PUT", f"/other/tiny{i}", body=b"x")
        self.ask("GET 8 MiB", "GET", "/pub/big", want=big)
        self.ask("LIST", "GET", "/other", [("list-type", "2")])
        self.ask("admin info", "GET", "/minio/admin/v3/info")

    def table(self):
        for name, all_ in self.seen.items():
            took = sorted(t for t, _ in all_)
            states = {s: sum(1 for _, t in all_ if t == s) for s in {s for _, s in all_}}
            yield f"{name:12} n={len(all_):3} median {took[len(took) // 2]:6.2f} s  worst {took[-1]:6.2f} s  {states}"

    def late(self, fine=1.0, refused=5.0):
        """Requests that were neither answered nor refused in time."""
        return [
            (name, took, status)
            for name, all_ in self.seen.items() for took, status in all_
            if not (status in (200, 204) and took <= fine) and not (status == 503 and took <= refused)
        ]


async def attackers(port, readers, urls, heads, forms):
    """All of them, for ever."""
    stop = asyncio.Event()
    await asyncio.gather(
        *(non_reader(port, "/pub/big", stop) for _ in range(readers)),
        *(trickler(port, u, stop) for u in urls),
        *(half(port, half_head(port), stop) for _ in range(heads)),
        *(half(port, half_form(port), stop) for _ in range(forms)),
    )


def attack(port, pid, client, big, readers=0, writers=0, heads=0, forms=0, seconds=20):
    """Attacks from a process of its own; answers how others fared and the most memory the server had meanwhile."""
    urls = [client.presigned("PUT", f"/other/slow{i}") for i in range(writers)]
    work = attackers(port, readers, urls, heads, forms)
    process = multiprocessing.get_context("fork").Process(target=asyncio.run, args=(work,), daemon=True)
    process.start()
    work.close()
    try:
        others, peak, i = Others(client), 0, 0
        time.sleep(1)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            others.round(i, big)
            peak = max(peak, resident(pid))
            i += 1
            time.sleep(0.2)
        assert process.is_alive(), "the attack went on"
        return others, peak
    finally:
        process.kill()
        process.join()


def prepare(client, big):
    client.must("PUT", "/pub")
    client.must("PUT", "/other")
    policy = b'{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*",' \
             b'"Action":"s3:GetObject","Resource":"arn:aws:s3:::pub/*"}]}'
    client.must("PUT", "/pub", [("policy", "")], policy)
    client.must("PUT", "/pub/big", body=big)


def main():
    os.environ["ASHLAR_BIN"] = sys.argv[1]
    import shutil
    import tempfile
    from conftest import Server
    counts = [int(a) for a in sys.argv[2:6]] or [500, 500, 3500]
    counts += [0] * (4 - len(counts))
    home = Path(tempfile.mkdtemp(prefix="ashlar-attack-", dir="/dev/shm"))
    server = Server(home)
    try:
        client, big = Client(server.port), hashlib.sha256(b"big").digest() * (BIG // 32)
        prepare(client, big)
        before = resident(server.process.pid)
        seconds = float(os.environ.get("ATTACK_SECONDS", "30"))
        others, peak = attack(server.port, server.process.pid, client, big, *counts, seconds=seconds)
        print(f"{counts[0]} non-readers, {counts[1]} tricklers, {counts[2]} half heads, {counts[3]} half forms")
        print(f"memory: {before >> 20} MiB before, {peak >> 20} MiB at most, peak {resident(server.process.pid, 'VmHWM') >> 20} MiB")
        for line in others.table():
            print(line)
        print(f"late: {len(others.late())} of {sum(map(len, others.seen.values()))}: {others.late()[:8]}")
    finally:
        server.process.kill()
        server.process.wait()
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
