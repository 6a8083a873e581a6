"""Slow, incomplete and excessive requests do not block other clients, and the server's memory is bounded.

`attacks.py` has the attacks. Sizes are bounded for CI; `ASHLAR_ATTACK=full` takes those of docs/operating.md (500
readers that read nothing, 500 uploads that trickle, 3,500 half-sent heads, default memory) and the bounds that it
promises. The bounds on time here are generous, because the machine that runs them is busy.
"""

import re
import hashlib
import http.client
import json
import os
import shutil
import socket
import tempfile
import threading
import time
from pathlib import Path

import pytest

from attacks import BIG, Client, attack, prepare, resident
from conftest import Server

FULL = os.environ.get("ASHLAR_ATTACK") == "full"
# What others wait at most for an answer, and for being refused.
FINE, REFUSED = (1.0, 5.0) if FULL else (10.0, 20.0)


@pytest.fixture
def start():
    """Starts servers with arguments of their own."""
    servers = []

    def go(*arguments, env=None):
        base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        server = Server(Path(tempfile.mkdtemp(prefix="ashlar-fairness-", dir=base)), arguments=arguments, env=env)
        servers.append(server)
        return server

    yield go
    for server in servers:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()
        shutil.rmtree(server.home, ignore_errors=True)


def metrics(server):
    with_port = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    with_port.request("GET", "/ashlar/metrics")
    answer = with_port.getresponse()
    text = answer.read().decode()
    with_port.close()
    assert answer.status == 200, text
    # Every sample has the label `server`, which is the same for all.
    plain = lambda name: re.sub(r',?server="[^"]*",?', "", name).replace("{}", "")
    samples = (line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")
    return {plain(name): float(value) for name, value in samples}


def refused(server, reason):
    return metrics(server)[f'ashlar_refused_total{{reason="{reason}"}}']


def attacked(server, **counts):
    """Attacks a server; others must be served or refused in time, mostly served, and memory must stay bounded."""
    client, big = Client(server.port), hashlib.sha256(b"big").digest() * (BIG // 32)
    prepare(client, big)
    others, peak = attack(server.port, server.process.pid, client, big, **counts)
    print("\n".join(others.table()), f"\npeak {peak >> 20} MiB")
    assert not others.late(FINE, REFUSED)
    for name, seen in others.seen.items():
        assert any(status == 200 for _, status in seen), f"{name} was never served"
    assert server.process.poll() is None
    return peak


PUBLIC = ("--public-metrics",)


def test_clients_that_do_not_read_are_bounded(start):
    server = start(*PUBLIC)
    peak = attacked(server, readers=300 if FULL else 100, seconds=15)
    assert peak < 512 << 20
    assert metrics(server)["ashlar_reads_reclaimed_total"] > 0


def test_slow_uploads_are_bounded(start):
    server = start(*PUBLIC)
    assert attacked(server, writers=150, seconds=20) < 512 << 20


def test_incomplete_heads_are_bounded(start):
    server = start(*PUBLIC)
    before = resident(server.process.pid)
    peak = attacked(server, heads=3500 if FULL else 1000, seconds=15)
    # It was 300 KiB for each before.
    assert peak - before < (300 << 20 if FULL else 200 << 20)
    assert refused(server, "long_head") + refused(server, "long_head_wait") > 0


def test_incomplete_forms_are_bounded(start):
    server = start(*PUBLIC)
    before = resident(server.process.pid)
    peak = attacked(server, forms=3500 if FULL else 1000, seconds=15)
    assert peak - before < (300 << 20 if FULL else 200 << 20)
    assert refused(server, "unsigned_body") + refused(server, "unsigned_body_wait") > 0


def test_all_attacks_together_are_bounded(start):
    server = start(*PUBLIC)
    counts = (500, 500, 3500) if FULL else (100, 100, 500)
    peak = attacked(server, readers=counts[0], writers=counts[1], heads=counts[2], seconds=40 if FULL else 15)
    assert peak < 512 << 20


def test_new_connection_displaces_idle_unauthenticated_ones(start):
    server = start(*PUBLIC, "--max-connections", "32")
    client = Client(server.port)
    client.must("PUT", "/pub")
    idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(100)]
    for s in idle:
        s.sendall(b"GET / HTTP/1.1\r\nhost: ")
    for _ in range(5):
        assert client.raw("GET", "/pub", timeout=30)[0] == 200
    assert refused(server, "connection_silent") >= 60
    closed = 0
    for s in idle:
        s.setblocking(False)
        try:
            closed += s.recv(1) == b""
        except ConnectionResetError:
            closed += 1
        except BlockingIOError:
            pass
        s.close()
    assert closed >= 60, "the oldest were closed"


def test_authenticated_and_busy_connections_are_kept(start):
    server = start(*PUBLIC, "--max-connections", "16", "--max-listeners-per-user", "100")
    client = Client(server.port)
    client.must("PUT", "/pub")
    listeners = [listen(client) for _ in range(16)]
    assert all(status == 200 for _, status in listeners)
    status, body = client.raw("GET", "/pub", timeout=30)
    assert status == 503 and b"SlowDown" in body
    assert client.raw("GET", "/minio/admin/v3/info", timeout=30)[0] == 200
    assert client.raw("GET", "/minio/health/live", timeout=30)[0] == 200
    assert refused(server, "connection_reserve") >= 1
    for connection, _ in listeners:
        connection.close()
    deadline = time.monotonic() + 30
    while client.raw("GET", "/pub", timeout=30)[0] != 200:
        assert time.monotonic() < deadline
        time.sleep(0.2)


def listen(client):
    """A listener to events: its connection, and the status."""
    query = [("events", "s3:ObjectCreated:*"), ("prefix", ""), ("suffix", "")]
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    payload = hashlib.sha256(b"").hexdigest()
    headers = {"host": client.host, "x-amz-content-sha256": payload, "x-amz-date": stamp}
    text = client._query(query)
    scope, names, signature = client._sign("GET", "/pub", text, headers, payload, stamp)
    headers["authorization"] = \
        f"AWS4-HMAC-SHA256 Credential={client.access}/{scope}, SignedHeaders={names}, Signature={signature}"
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=30)
    connection.request("GET", "/pub?" + text, headers=headers)
    return connection, connection.getresponse().status


def test_listeners_are_bounded_for_each_user(start):
    server = start(*PUBLIC, "--max-listeners-per-user", "8")
    client = Client(server.port)
    client.must("PUT", "/pub")
    listeners = [listen(client) for _ in range(12)]
    assert sorted(status for _, status in listeners) == [200] * 8 + [503] * 4
    assert refused(server, "listener") == 4
    for connection, _ in listeners:
        connection.close()


def test_user_cannot_block_sealed_administration_of_root(start):
    server = start(*PUBLIC)
    root = Client(server.port)
    order = json.dumps({"secret": "a-secret-of-eve"}).encode()
    status, body = root.raw("PUT", "/ashlar/api/v1/users/eve", body=order)
    assert status < 300, body
    eve = Client(server.port, "eve", "a-secret-of-eve")

    def sealed():
        # It does not open, which is found out only after the costly key was made.
        return os.urandom(32) + b"\0" + os.urandom(8) + os.urandom(64)

    stop, seen = threading.Event(), []

    def flood():
        while not stop.is_set():
            try:
                status, body = eve.raw("PUT", "/minio/admin/v3/add-service-account", body=sealed())
                seen.append(status)
                if status == 503:
                    time.sleep(0.05)
            except OSError:
                pass

    floods = [threading.Thread(target=flood) for _ in range(32)]
    for t in floods:
        t.start()
    try:
        time.sleep(1)
        for _ in range(10):
            begin = time.monotonic()
            query = [("accessKey", "somebody")]
            status, body = root.raw("PUT", "/minio/admin/v3/add-user", query, sealed())
            took = time.monotonic() - begin
            # It was opened as far as it can be: root is not shut out.
            assert status == 400 and b"not sealed" in body, (status, body)
            assert took < FINE * 2, took
    finally:
        stop.set()
        for t in floods:
            t.join()
    assert seen.count(503) > 0 and seen.count(400) > 0, "one user has few turns, and has them"
    assert refused(server, "sealed_request") > 0


@pytest.mark.skipif(not FULL, reason="takes more than a minute")
def test_answer_may_take_longer_than_the_idle_timeout(start):
    server = start(*PUBLIC)
    client, big = Client(server.port), hashlib.sha256(b"big").digest() * (BIG // 32)
    prepare(client, big)
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.connect(("127.0.0.1", server.port))
    s.sendall(f"GET /pub/big HTTP/1.1\r\nhost: {client.host}\r\nconnection: close\r\n\r\n".encode())
    got, begin = b"", time.monotonic()
    while len(got) < BIG * 3 // 4:
        got += s.recv(65536)
        time.sleep(max(0.0, begin + 70 * len(got) / (BIG * 3 // 4) - time.monotonic()))
    s.settimeout(60)
    while data := s.recv(65536):
        got += data
    assert time.monotonic() - begin > 65
    assert got.split(b"\r\n\r\n", 1)[1] == big
