"""T4: SIGKILL under load. T9, T10 and T15 in part: drives emptied, replaced, damaged and moved.

`ASHLAR_KILL_CYCLES` sets the number of kills (20 unless told otherwise), `ASHLAR_SEED` the times.
"""

import base64
import os
import random
import shutil
import signal
import tempfile
import threading
import time
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from conftest import Server
from histories import SIZES, Writer, check, client, content
from signing import admin

CYCLES = int(os.environ.get("ASHLAR_KILL_CYCLES", "20"))


@pytest.fixture
def own():
    """A server of the test's own, in memory where possible."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    home = Path(tempfile.mkdtemp(prefix="ashlar-crash-", dir=base))
    servers = []

    def start(drives=4, **more):
        servers.append(Server(home, drives, **more))
        return servers[-1]

    yield start
    for s in servers:
        if s.process.poll() is None:
            s.process.kill()
            s.process.wait()
    shutil.rmtree(home, ignore_errors=True)


def test_kills_under_load_lose_nothing(own):
    server = own()
    client(server).create_bucket(Bucket="crash")
    state, slowest, acknowledged = {}, 0.0, 0
    rng = random.Random(os.environ.get("ASHLAR_SEED", "crash"))
    for cycle in range(CYCLES):
        writers = [Writer(client(server), "crash", f"w{i}", state) for i in range(4)]
        [w.start() for w in writers]
        time.sleep(rng.uniform(0.05, 0.8))
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        for w in writers:
            w.going = False
        [w.join() for w in writers]
        begin = time.monotonic()
        server.start()
        slowest = max(slowest, time.monotonic() - begin)
        check(client(server, 3), "crash", state)
        acknowledged += sum(w.acknowledged for w in writers)
        print(
            f"cycle {cycle}: {len(state)} keys are right, {acknowledged} writes acknowledged so far, "
            f"slowest restart {slowest:.2f} s", flush=True,
        )
    assert slowest < 5, f"a restart took {slowest:.1f} s"


def wait_until(what, seconds=60):
    deadline = time.monotonic() + seconds
    while True:
        if what():
            return
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.2)


def empty(folder: Path):
    """What pulling a drive and putting a blank one in its place looks like."""
    for p in folder.iterdir():
        shutil.rmtree(p) if p.is_dir() else p.unlink()


def test_two_of_four_emptied_under_load(own):
    """Reads never fail; an operator confirms the blank folders and writes come back; then the other two may go."""
    server = own()
    s3 = client(server, 3)
    s3.create_bucket(Bucket="bkt")
    keys = {}
    for i in range(60):
        size = SIZES[i % len(SIZES)]
        keys[f"k{i}"] = (i, size)
        s3.put_object(Bucket="bkt", Key=f"k{i}", Body=content(f"k{i}", i, size))
    once = client(server, 1)
    failures, reading = [], threading.Event()

    def reader():
        mine = client(server, 1)
        while not reading.is_set():
            for key, v in keys.items():
                try:
                    if mine.get_object(Bucket="bkt", Key=key)["Body"].read() != content(key, *v):
                        failures.append(f"{key}: wrong bytes")
                except Exception as e:  # every failure counts here
                    failures.append(f"{key}: {e}")

    thread = threading.Thread(target=reader)
    thread.start()
    try:
        for pair in ((1, 2), (3, 4)):
            before = drive_ids(server)
            for d in pair:
                empty(server.home / f"drive{d}")
            # Two at once may just not be mounted: an operator says that they are not.
            for d in pair:
                # One may have been noticed, and replaced, long before the other.
                wait_until(lambda d=d: state(server, d) == "offline" or drive_id(server, d) not in before)
            for d in pair:
                if state(server, d) == "offline":
                    admin(server, "POST", "/ashlar/admin/v1/drives/replace", {"drive": f"{server.home}/drive{d}"})

            def writes():
                try:
                    once.put_object(Bucket="bkt", Key=f"after{pair[0]}", Body=b"x")
                    return True
                except ClientError as e:
                    assert e.response["ResponseMetadata"]["HTTPStatusCode"] == 503, e
                    return False

            wait_until(writes, 120)
            # Both blank drives must have joined under new ids before the other two may go.
            wait_until(lambda: healed(server) and len(drive_ids(server) - before) == 2, 120)
    except BaseException:
        # Every refused write is logged.
        lines = [line for line in server.log.read_text().splitlines() if "request failed" not in line]
        print("\n".join(lines)[-20_000:], admin(server, "GET", "/ashlar/admin/v1/info"))
        raise
    finally:
        reading.set()
        thread.join()
    assert not failures, failures[:5]
    for key, v in keys.items():
        assert s3.get_object(Bucket="bkt", Key=key)["Body"].read() == content(key, *v)


def drive(server, n):
    drives = admin(server, "GET", "/ashlar/admin/v1/info")["drives"]
    return next(d for d in drives if d["path"] == f"{server.home}/drive{n}")


def state(server, n):
    return drive(server, n)["state"]


def drive_id(server, n):
    return drive(server, n)["id"]


def drive_ids(server):
    return {d["id"] for d in admin(server, "GET", "/ashlar/admin/v1/info")["drives"]}


def healed(server):
    """True once the server says that every slot has what it should have."""
    info = admin(server, "GET", "/ashlar/admin/v1/info")
    return (
        all(d["state"] == "online" and not d["rebuild"] for d in info["drives"])
        and info["heal"]["queued"] == 0
    )


def test_damage_is_never_served_and_is_healed(own):
    """Random bytes of two of four drives are flipped while the server is down, under objects in clear and
    under encrypted ones, whose rows are read before they are checked."""
    server = own(env={"ASHLAR_KMS_ROOT_KEY": base64.b64encode(bytes(range(1, 33))).decode()})
    s3 = client(server)
    s3.create_bucket(Bucket="bkt")
    keys = {f"k{i}": (i, SIZES[i // 2 % len(SIZES)]) for i in range(40)}
    for i, (key, v) in enumerate(keys.items()):
        sse = {"ServerSideEncryption": "AES256"} if i % 2 else {}
        s3.put_object(Bucket="bkt", Key=key, Body=content(key, *v), **sse)
    assert server.stop() == 0
    rng = random.Random("damage")
    for d in (1, 3):
        for path in sorted((server.home / f"drive{d}" / "extents").glob("*")):
            data = bytearray(path.read_bytes())
            if not data:  # a name that is prepared for a segment
                continue
            for _ in range(200):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            path.write_bytes(data)
    server.start()
    s3 = client(server)
    for _ in range(2):
        for key, v in keys.items():
            assert s3.get_object(Bucket="bkt", Key=key)["Body"].read() == content(key, *v)
    wait_until(lambda: healed(server))


def test_second_start_accepts_drives_in_any_order(own):
    server = own()
    s3 = client(server)
    s3.create_bucket(Bucket="bkt")
    s3.put_object(Bucket="bkt", Key="k", Body=b"v")
    assert server.stop() == 0
    home = server.home
    (home / "drive1").rename(home / "t")
    (home / "drive3").rename(home / "drive1")
    (home / "t").rename(home / "drive3")
    server.start()
    assert client(server).get_object(Bucket="bkt", Key="k")["Body"].read() == b"v"
    assert server.stop() == 0
    (home / "drive2" / "label").rename(home / "kept")
    (home / "drive2" / "foreign.txt").write_text("not ours")
    server.start()
    assert client(server).get_object(Bucket="bkt", Key="k")["Body"].read() == b"v"
    assert (home / "drive2" / "foreign.txt").exists()
