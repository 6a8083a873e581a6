"""A cluster whose nodes have namespaces of the same drives of an enclosure: a drive that is pulled is lost at two nodes at once."""

import pytest

from conftest import until
from histories import client, content, eventually
from nodes import Cluster
from test_crash import healed
from test_fabric import fabric  # noqa: F401  a fixture

SIZES = [1, 5000, 300_000, 3_000_000]


def namespaces(fabric, bays):  # noqa: F811
    """Drives with two namespaces each: of every bay both addresses."""
    fabric.set_up(f'bays = {bays}\ndata = "data"\nscale = 100\n\n[drive]\ncapacity = "160GB"\nnamespaces = 2\n').start()
    portals = ",".join(f"127.0.0.1:{p}" for p in fabric.ports)
    return [[f"nvme-tcp://{portals}/{fabric.nqn(bay)}/{n}" for n in (1, 2)] for bay in range(1, bays + 1)]


def cluster(nodes, code, *arguments):
    places = [{"count": len(nodes), "drives": drives} for drives in nodes]
    return Cluster(code=code, arguments=["--accept-node-loss", *arguments], places=places, count=len(nodes))


def test_loss_of_a_drive_that_two_nodes_share_is_survived(fabric):  # noqa: F811
    """Six drives, of which each has its namespaces at two of three nodes, and one parity shard: groups have one namespace of each."""
    bays = namespaces(fabric, 6)
    nodes = [[bay[0] for bay in bays[:4]], [bay[0] for bay in bays[4:]] + [bay[1] for bay in bays[:2]], [bay[1] for bay in bays[2:]]]
    running = cluster(nodes, "5+1")
    try:
        s3 = running.clients(5)
        eventually(lambda: s3[0].create_bucket(Bucket="bkt"))
        for i in range(48):
            s3[i % 3].put_object(Bucket="bkt", Key=f"k{i}", Body=content(f"k{i}", i, SIZES[i % 4]))
        for bay in (2, 5):
            fabric.run("fault", "drive-gone", bay)
            for i in range(48):
                got = client(running.nodes[(i + bay) % 3], 5).get_object(Bucket="bkt", Key=f"k{i}")["Body"].read()
                assert got == content(f"k{i}", i, SIZES[i % 4]), (bay, i)
            for fault in fabric.run("fault", "list"):
                fabric.run("fault", "clear", fault["id"])
            # Both namespaces are whole again before the next drive goes.
            until(lambda: all(healed(node) for node in running.nodes), 180)
    finally:
        running.end()


def test_layout_that_the_loss_of_a_shared_drive_breaks_is_refused(fabric):  # noqa: F811
    bays = namespaces(fabric, 8)
    nodes = [[bay[n] for bay in bays[:4]] for n in (0, 1)]
    with pytest.raises(RuntimeError) as failed:
        cluster(nodes, "7+1").end()
    why = str(failed.value)
    assert f"{bays[0][0]} of node " in why and f"{bays[0][1]} of node " in why, why
    assert "are parts of one drive (the subsystem " in why and "which has up to 2 shards" in why, why
    # The others are blank.
    running = cluster([[bay[n] for bay in bays[4:]] for n in (0, 1)], "7+1", "--allow-shared-drive")
    try:
        eventually(lambda: running.clients(3)[0].create_bucket(Bucket="bkt"))
    finally:
        running.end()
