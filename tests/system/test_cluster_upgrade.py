"""Nodes of different releases in one cluster, and the feature level in force.

There is one release. Processes claim other levels by a variable that changes nothing but the claim; the cluster begins at
the first level, as one of the first release does."""

import json
import os
import subprocess
import time

import pytest

from conftest import ACCESS, SECRET, noise
from histories import client, eventually
from nodes import Cluster

LEVELS = "ASHLAR_TEST_FEATURE_LEVELS"


@pytest.fixture
def cluster():
    cluster = Cluster(env={LEVELS: "1-1"})
    try:
        yield cluster
    finally:
        cluster.end()


def release(node, levels):
    """Starts a node that is stopped, with a release that can do these levels."""
    node.env[LEVELS] = levels
    node.log.write_text("")
    node.launch()


def replace(node, levels):
    """Stops a node and starts it with another release."""
    assert node.stop() == 0
    release(node, levels)
    node.wait(60)


def upgrade(cluster, *flags, at=0):
    """The answer of `ashlar cluster upgrade`; behind that of one that was refused is the error, in a line of its own."""
    code, out, _ = text_of(cluster.nodes[at], "--json", "cluster", "upgrade", *flags)
    answer, *error = [json.loads(line) for line in out.splitlines()]
    assert (code, len(error)) == ((5, 1) if answer["reasons"] and not flags else (0, 0)), out
    if code == 0:
        assert answer.pop("status") == "success"
    return answer


def number_of(cluster, node):
    """The number of a node in the cluster, which is not that of the test."""
    rows = cluster.ask(node, "cluster", "status")["nodes"]
    return next(row["number"] for row in rows if row["endpoint"] == node.endpoint)


def level(cluster, node):
    return cluster.ask(node, "cluster", "status")["feature_level"]


def serves(cluster, name):
    """A bucket and an object through every node, read through the next one.

    On a busy machine a node may take another one for silent for a moment, just after a third one has been restarted: then too few
    drives are left, and clients repeat what got 503."""
    s3 = cluster.clients()
    for n in range(4):
        here, there, place = s3[n], s3[(n + 1) % 4], {"Bucket": f"{name}-{n}", "Key": "k"}
        eventually(lambda: here.create_bucket(Bucket=place["Bucket"]))
        eventually(lambda: there.head_bucket(Bucket=place["Bucket"]))
        eventually(lambda: here.put_object(**place, Body=noise(200_000, n)))
        assert eventually(lambda: there.get_object(**place)["Body"].read()) == noise(200_000, n)


def text_of(node, *arguments):
    env = {**os.environ, "ASHLAR_HOST_it": node.endpoint.replace("http://", f"http://{ACCESS}:{SECRET}@")}
    done = subprocess.run([os.environ["ASHLAR_BIN"], *arguments, "it"], env=env, timeout=60, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def test_releases_are_replaced_one_node_after_another(cluster):
    one, two, three, four = cluster.nodes
    assert upgrade(cluster) == {"feature_level": 1, "target": 1, "raised": False, "reasons": []}
    for node, name in [(one, "first"), (two, "second"), (three, "third")]:
        replace(node, "1-2")
        serves(cluster, name)
    # The last one cannot do it yet: it is named, and nothing changes.
    said = upgrade(cluster)
    assert (said["feature_level"], said["target"], said["raised"]) == (1, 2, False), said
    number = number_of(cluster, four)
    assert len(said["reasons"]) == 1 and said["reasons"][0].startswith(f"node {number} ("), said
    code, _, err = text_of(two, "cluster", "upgrade")
    assert code == 5 and "stays 1" in err and f"node {number}" in err, err
    assert f"not all nodes can do 2 yet: {number}" in text_of(four, "cluster", "status")[1]
    # One goes back to the old release meanwhile.
    replace(three, "1-1")
    assert len(upgrade(cluster)["reasons"]) == 2
    replace(three, "1-2")
    replace(four, "1-2")
    assert "all nodes can do 2: `ashlar cluster upgrade`" in text_of(one, "cluster", "status")[1]
    assert upgrade(cluster, "--dry-run") == {"feature_level": 1, "target": 2, "raised": False, "reasons": []}
    assert level(cluster, four) == 1
    assert upgrade(cluster, at=3) == {"feature_level": 2, "target": 2, "raised": True, "reasons": []}
    until = time.monotonic() + 20
    while [level(cluster, node) for node in cluster.nodes] != [2] * 4:
        assert time.monotonic() < until
        time.sleep(0.2)
    serves(cluster, "raised")

    # The old release does not start any more, nor one that is too new.
    assert four.stop() == 0
    release(four, "1-1")
    said = four.ends()
    assert "feature level 2 is in force" in said and "can do 1 only: start a newer release" in said, said
    release(four, "3-4")
    assert "can do 3 to 4 only: start an older release" in four.ends()
    # One that has dropped the first level and can do a third works with the others.
    release(four, "2-3")
    four.wait(60)
    serves(cluster, "beyond")
    assert len(upgrade(cluster)["reasons"]) == 3
    assert level(cluster, one) == 2


def test_a_node_that_learns_the_level_later_ends(cluster):
    """It was down while the level was raised, and is started with the old release while etcd is away."""
    four = cluster.nodes[3]
    for node in cluster.nodes:
        replace(node, "1-2")
    assert four.stop() == 0
    assert upgrade(cluster)["raised"]
    cluster.etcd.kill()
    release(four, "1-1")
    four.wait(60)
    cluster.etcd.start()
    said = four.ends()
    assert "feature level 2 is in force" in said, said
    release(four, "1-2")
    four.wait(60)
    serves(cluster, "together")
    assert client(four).list_buckets()["Buckets"]
