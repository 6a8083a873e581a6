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
    """Flips one bit of a record of the key in the journal of a drive."""
    for segment in sorted((drive / "journal").iterdir()):
        content = bytearray(segment.read_bytes())
        found = content.find(DAMAGED.encode())
        if found >= 0:
            content[found + 3] ^= 1
            segment.write_bytes(content)
            return True
    return False


def test_drives_of_all_nodes_are_recovered_through_one(cluster):
    s3 = bucket_everywhere(cluster, "kept")
    drives = [node.home / f"drive{d}" for node in cluster.nodes for d in (1, 2)]
    s3[0].put_object(Bucket="kept", Key="first", Body=b"x")
    # The first checkpoint comes soon after the first change, the next one a minute later.
    until(lambda: all((drive / "index" / "manifest").exists() for drive in drives), 60)
    for i, key in enumerate(KEYS):
        s3[i % 4].put_object(Bucket="kept", Key=key, Body=body(i))
    for node in cluster.nodes:
        node.kill()
    # Of 8 drives 5 vote; 4 are too few to know that nothing newer was on the others.
    assert sum(damage(drive) for drive in drives[:5]) == 5
    for node in cluster.nodes:
        node.start()
    for node in cluster.nodes:
        wait_until(lambda: urllib.request.urlopen(f"{node.endpoint}/minio/health/live", timeout=2), 60)
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
