"""Limits of healing and scrub: from the options of a start, changed while the server runs, kept across restarts.

How long work takes at least under a limit does not depend on the machine; nothing is said about how long it takes at most.
"""

import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

import boto3
import pytest

from conftest import ACCESS, REGION, SECRET, Server, noise, one_server

pytestmark = one_server
ASHLAR = os.environ["ASHLAR_BIN"]
MC = f"{os.environ['CLIENT_BIN']}/mc"
MIB = 1 << 20


@pytest.fixture
def own():
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    home = Path(tempfile.mkdtemp(prefix="ashlar-limits-", dir=base))
    server = Server(home, env={"ASHLAR_SCRUB_MAX_RATE": "2MiB", "ASHLAR_HEAL_MAX_RATE": "1GiB"}, arguments=["--heal-max-rate", "1MiB", "--public-metrics"])
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(home, ignore_errors=True)


def ashlar(server, *arguments, check=True):
    env = dict(os.environ, ASHLAR_HOST_it=server.endpoint.replace("http://", f"http://{ACCESS}:{SECRET}@"), ASHLAR_CONFIG=str(server.home / "config.toml"))
    done = subprocess.run([ASHLAR, "--json", *arguments], env=env, capture_output=True, timeout=120)
    assert not check or done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else done


def limits(server):
    said = ashlar(server, "heal", "limit", "it")
    return said["max_rate"], said["scrub_max_rate"], said["busy_share"], said["stored"]


def metric(server, name):
    text = urllib.request.urlopen(f"{server.endpoint}/minio/v2/metrics/node", timeout=10).read().decode()
    found = [line for line in text.splitlines() if line.split("{")[0] == name]
    assert len(found) == 1, (name, found)
    return float(found[0].split()[-1])


def wait_for(done, seconds=120):
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_limits_change_at_run_time_and_stay(own):
    # The flag goes before the environment.
    assert limits(own) == (MIB, 2 * MIB, 25, [])
    ashlar(own, "heal", "limit", "it", "--max-rate", "50MiB", "--busy-share", "10")
    assert limits(own) == (50 * MIB, 2 * MIB, 10, ["busy_share", "max_rate"])
    assert metric(own, "ashlar_heal_max_rate_bytes") == 50 * MIB and metric(own, "ashlar_heal_busy_share_percent") == 10
    for bad in (["--max-rate", "100"], ["--max-rate", "fast"], ["--busy-share", "0"], ["--scrub-max-rate", "1KiB"]):
        assert ashlar(own, "heal", "limit", "it", *bad, check=False).returncode != 0, bad
    assert limits(own)[0] == 50 * MIB
    # The same setting with MinIO's client.
    env = dict(os.environ, MC_HOST_it=own.endpoint.replace("http://", f"http://{ACCESS}:{SECRET}@"), MC_CONFIG_DIR=str(own.home / "mc"))
    subprocess.run([MC, "admin", "config", "set", "it", "heal", "scrub_max_rate=off"], env=env, check=True, timeout=60, capture_output=True)
    wait_for(lambda: limits(own)[1] == 0)
    refused = subprocess.run([MC, "admin", "config", "set", "it", "heal", "max_sleep=1s"], env=env, timeout=60, capture_output=True)
    assert refused.returncode != 0 and b"max_sleep" in refused.stderr + refused.stdout
    assert ashlar(own, "heal", "status", "it")["limits"] == {"max_rate": 50 * MIB, "scrub_max_rate": 0, "busy_share": 10}
    own.stop()
    own.start()
    assert limits(own) == (50 * MIB, 0, 10, ["busy_share", "max_rate", "scrub_max_rate"])
    ashlar(own, "heal", "limit", "it", "--reset")
    assert limits(own) == (MIB, 2 * MIB, 25, [])


def test_rebuild_and_scrub_keep_to_their_limits(own):
    s3 = boto3.client("s3", endpoint_url=own.endpoint, aws_access_key_id=ACCESS, aws_secret_access_key=SECRET, region_name=REGION)
    s3.create_bucket(Bucket="limits")
    # Code 2+2: 4 MiB on each drive.
    for i in range(8):
        s3.put_object(Bucket="limits", Key=f"k{i}", Body=noise(MIB, i))
    for path in (own.home / "drive1").iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    rebuilt = []
    wait_for(lambda: rebuilt.extend(ashlar(own, "heal", "status", "it")["rebuilt"]) or rebuilt)
    # 4 MiB at 1 MiB/s, a quarter of a second's worth at once.
    assert rebuilt[0]["ended_ms"] - rebuilt[0]["began_ms"] >= 3000, rebuilt
    written = metric(own, "ashlar_heal_written_bytes_total")
    # Two may make one shard at the same time: the rebuild, and the heal of what a request missed. Both write.
    assert 4 * MIB <= written <= 8.5 * MIB, written
    # Eight objects with 2 MiB of shards each, at 2 MiB/s; and then without a limit. Three are paid for when the fourth is read: 2.75 s.
    read = metric(own, "ashlar_scrub_read_bytes_total")
    began = time.monotonic()
    ashlar(own, "drive", "scrub", "it")
    wait_for(lambda: metric(own, "ashlar_scrub_read_bytes_total") > read + 6.4 * MIB)
    assert time.monotonic() - began >= 2
    ashlar(own, "heal", "limit", "it", "--scrub-max-rate", "off")
    wait_for(lambda: not ashlar(own, "heal", "status", "it")["running"])
    assert metric(own, "ashlar_scrub_read_bytes_total") >= read + 16 * MIB
