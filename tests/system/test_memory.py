"""The memory ceiling holds during many large requests of slow clients.

Documented in docs/operating.md ("Memory"): with the default `--memory` the process stays below 512 MiB.
"""

import asyncio
import os
import re
import shutil
import tempfile
import time
from pathlib import Path

import pytest

from conftest import Server
from histories import client

CEILING = 512 << 20
SIZE = 64 << 20
CLIENTS = 64
SECONDS = 20


@pytest.fixture
def own():
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    home = Path(tempfile.mkdtemp(prefix="ashlar-memory-", dir=base))
    server = Server(home)
    yield server
    if server.process.poll() is None:
        server.process.kill()
        server.process.wait()
    shutil.rmtree(home, ignore_errors=True)


def peak(server):
    """The most memory that the process ever had resident, in bytes."""
    text = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", text)[1]) << 10


async def connect(server):
    # Small buffers: what the client does not take stays with the server.
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=64 << 10)
    return reader, writer


async def slow_put(server, url, until):
    """Declares 64 MiB and sends them in bursts, far too slowly to come to the end."""
    reader, writer = await connect(server)
    path = url.split(str(server.port), 1)[1]
    writer.write(
        f"PUT {path} HTTP/1.1\r\nhost: 127.0.0.1:{server.port}\r\ncontent-length: {SIZE}\r\n\r\n".encode()
    )
    burst, sent = os.urandom(256 << 10), 0
    try:
        while time.monotonic() < until and sent + len(burst) <= SIZE:
            writer.write(burst)
            await asyncio.wait_for(writer.drain(), max(0.1, until - time.monotonic()))
            sent += len(burst)
            await asyncio.sleep(0.4)
    except (ConnectionError, asyncio.TimeoutError):
        pass
    writer.transport.abort()
    return sent


async def slow_get(server, url, until):
    """Asks for 64 MiB and takes them in sips."""
    reader, writer = await connect(server)
    path = url.split(str(server.port), 1)[1]
    writer.write(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{server.port}\r\n\r\n".encode())
    taken = 0
    try:
        while time.monotonic() < until:
            data = await asyncio.wait_for(reader.read(64 << 10), max(0.1, until - time.monotonic()))
            if not data:
                break
            taken += len(data)
            await asyncio.sleep(0.1)
    except (ConnectionError, asyncio.TimeoutError):
        pass
    writer.transport.abort()
    return taken


def test_memory_has_a_ceiling(own):
    s3 = client(own, 5)
    s3.create_bucket(Bucket="memory")
    body = os.urandom(1 << 20) * (SIZE >> 20)
    s3.put_object(Bucket="memory", Key="big", Body=body)
    before = peak(own)

    def url(operation, key):
        return s3.generate_presigned_url(operation, Params={"Bucket": "memory", "Key": key})

    puts = [url("put_object", f"slow{i}") for i in range(CLIENTS)]
    get = url("get_object", "big")

    async def storm():
        until = time.monotonic() + SECONDS
        tasks = [slow_put(own, u, until) for u in puts] + [slow_get(own, get, until) for _ in range(CLIENTS)]
        # Somebody in a hurry is among them, and is served.
        quick = asyncio.to_thread(hurry)
        *moved, waited = await asyncio.gather(*tasks, quick)
        return moved, waited

    def hurry():
        slowest = 0.0
        for i in range(4):
            begin = time.monotonic()
            s3.put_object(Bucket="memory", Key=f"quick{i}", Body=body[: 8 << 20])
            got = s3.get_object(Bucket="memory", Key="big")["Body"].read()
            assert got == body
            slowest = max(slowest, time.monotonic() - begin)
        return slowest

    moved, slowest = asyncio.run(storm())
    sent, taken = sum(moved[:CLIENTS]), sum(moved[CLIENTS:])
    now = peak(own)
    print(
        f"sent {sent >> 20} MiB, taken {taken >> 20} MiB; the hurried waited {slowest:.1f} s; "
        f"peak {before >> 20} MiB before, {now >> 20} MiB after"
    )
    assert sent > CLIENTS << 20 and taken > CLIENTS << 20, "the slow clients were served"
    assert now < CEILING
    assert own.stop() == 0
