"""`ashlar drive recover` where the drives are those of four nodes: damage leaves too few voters, and an operator decides."""

import urllib.request

import pytest
from botocore.exceptions import ClientError

from conftest import noise, until, wait_until
from histories import eventually
from nodes import Cluster
from test_cluster import cli
from test_cluster_operations import bucket_everywhere

KEYS = [f"key-{i:04}" for i in range(24)]
DAMAGED = "key-0018"
# With one bit flipped.
FLIPPED = b"key,0018"


@pytest.fixture
def cluster():
    cluster = Cluster()
    try:
        yield cluster
    finally:
        cluster.end()


def body(number):
    return noise(number, [100, 3000, 700_000][number % 3])


def damage(drive):
    """Flips one bit of each record of the key in the journal of a drive: a PUT that was tried again left two."""
    damaged = False
    for segment in sorted((drive / "journal").iterdir()):
        content = segment.read_bytes()
        if DAMAGED.encode() in content:
            segment.write_bytes(content.replace(DAMAGED.encode(), FLIPPED))
            damaged = True
    return damaged


def checkpoints(drives):
    return [manifest.stat().st_mtime_ns if (manifest := drive / "index" / "manifest").exists() else 0 for drive in drives]


def put_between_checkpoints(cluster, s3, drives):
    """Writes all keys and kills all nodes, so that the records are in the journals only, on a machine of any speed."""
    before = [0] * len(drives)
    for _ in range(5):
        # The first checkpoint comes soon after the first change, the next one a minute later.
        eventually(lambda: s3[0].put_object(Bucket="kept", Key="first", Body=b"x"))
        until(lambda: all(new > old for new, old in zip(checkpoints(drives), before)), 120)
        before = checkpoints(drives)
        for i, key in enumerate(KEYS):
            s3[i % 4].put_object(Bucket="kept", Key=key, Body=body(i))
        for node in cluster.nodes:
            node.kill()
        if checkpoints(drives) == before:
            return
        before = checkpoints(drives)
        start(cluster)
    pytest.fail("a checkpoint came between the PUTs and the kill, five times")


def start(cluster):
    for node in cluster.nodes:
        node.start()
    for node in cluster.nodes:
        wait_until(lambda: urllib.request.urlopen(f"{node.endpoint}/minio/health/live", timeout=2), 60)


def test_drives_of_all_nodes_are_recovered_through_one(cluster):
    s3 = bucket_everywhere(cluster, "kept")
    drives = [node.home / f"drive{d}" for node in cluster.nodes for d in (1, 2)]
    put_between_checkpoints(cluster, s3, drives)
    # Of 8 drives 5 vote; 4 are too few to know that nothing newer was on the others.
    assert sum(damage(drive) for drive in drives[:5]) == 5
    start(cluster)
    with pytest.raises(ClientError):
        s3[1].get_object(Bucket="kept", Key=KEYS[0])
    *_, dry = cli(cluster.nodes[1], "drive", "recover", "it", "--dry-run")
    assert dry["state"] == "done" and dry["dry_run"]
    with pytest.raises(ClientError):
        s3[1].get_object(Bucket="kept", Key=KEYS[0])
    *_, report = cli(cluster.nodes[1], "drive", "recover", "it")
    assert report["state"] == "done" and len(report["drives"]) == 5, report
    assert DAMAGED in [named["key"] for named in report["named"]], report
    for i, key in enumerate(KEYS):
        for one in s3:
            assert eventually(lambda: one.get_object(Bucket="kept", Key=key)["Body"].read()) == body(i), key
    s3[3].put_object(Bucket="kept", Key="after", Body=b"writes work")
    assert s3[2].get_object(Bucket="kept", Key="after")["Body"].read() == b"writes work"
