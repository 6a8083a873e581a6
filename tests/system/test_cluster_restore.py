"""An etcd whose data is lost for good, made anew from what the drives of the nodes keep of it.

What is done by hand in docs/control-store.md is done here: stop, look, restore, start."""

import json
import os
import shutil
import signal
import subprocess
import time

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from conftest import ACCESS, REGION, SECRET, noise, until
from histories import client, eventually
from nodes import DRIVES, Cluster

USER, PASSWORD = "restored-user", "restored-user-secret"


@pytest.fixture
def cluster():
    cluster = Cluster()
    try:
        yield cluster
    finally:
        cluster.end()


def ashlar(*arguments, node=None):
    """Exit code, standard output and standard error."""
    env = {**os.environ, "ASHLAR_USER_SECRET": PASSWORD}
    if node:
        env["ASHLAR_HOST_it"] = node.endpoint.replace("http://", f"http://{ACCESS}:{SECRET}@")
    done = subprocess.run([os.environ["ASHLAR_BIN"], *map(str, arguments)], env=env, capture_output=True, text=True,
                          timeout=120, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


def restore(cluster, *nodes, flags=(), folders=()):
    """`ashlar cluster restore` with the folders of nodes; what it prints, or its error."""
    where = [] if "--dry-run" in flags else ["--control", cluster.etcd.url]
    code, out, err = ashlar("--json", "cluster", "restore", *flags, *where, "--cluster", "test",
                            *(node.drives for node in nodes), *folders)
    return json.loads(out) if code == 0 else err


def snapshots(node):
    """The newest revision in each folder of a node."""
    shown = restore(None, node, flags=["--dry-run"])
    assert shown["problem"] is None and len(shown["folders"]) == DRIVES
    return [max(s["revision"] for s in folder["snapshots"]) for folder in shown["folders"]]


def fill(cluster, but=()):
    """Buckets, a user and objects through different nodes; returns what checks that a node has them."""
    bodies = {f"k{n}": noise(n * 70_000, n) for n in range(8)}
    clients = cluster.clients(but=but)
    for n in range(4):
        s3 = clients[n % len(clients)]
        eventually(lambda: s3.create_bucket(Bucket=f"bucket-{n}"))
        s3.put_bucket_tagging(Bucket=f"bucket-{n}", Tagging={"TagSet": [{"Key": "n", "Value": str(n)}]})
        for key, body in bodies.items():
            # A node that has just started reaches the others a moment later.
            eventually(lambda: s3.put_object(Bucket=f"bucket-{n}", Key=key, Body=body), 60)
    code, _, err = ashlar("admin", "user", "add", "it", USER, node=cluster.nodes[0])
    assert code == 0, err
    code, _, err = ashlar("admin", "policy", "attach", "it", "readwrite", "--user", USER, node=cluster.nodes[1])
    assert code == 0, err

    def check(node):
        s3 = client(node)
        for n in range(4):
            assert s3.get_bucket_tagging(Bucket=f"bucket-{n}")["TagSet"] == [{"Key": "n", "Value": str(n)}]
            for key, body in bodies.items():
                assert s3.get_object(Bucket=f"bucket-{n}", Key=key)["Body"].read() == body
        as_user = boto3.client("s3", endpoint_url=node.endpoint, aws_access_key_id=USER, aws_secret_access_key=PASSWORD,
                               region_name=REGION, config=Config(s3={"addressing_style": "path"}))
        as_user.put_object(Bucket="bucket-0", Key="by-the-user", Body=b"x")

    return check


def lose(cluster):
    """etcd's data is removed for good; a blank one takes its place."""
    cluster.etcd.kill()
    for member in cluster.etcd.members:
        shutil.rmtree(member.data)
    cluster.etcd.start()


def goes_on(cluster, check, name):
    for node in cluster.nodes:
        check(node)
    for n, s3 in enumerate(cluster.clients()):
        eventually(lambda: s3.create_bucket(Bucket=f"{name}-{n}"))
        s3.put_object(Bucket=f"{name}-{n}", Key="k", Body=noise(300_000, n))
    for s3 in cluster.clients():
        for n in range(4):
            eventually(lambda: s3.head_bucket(Bucket=f"{name}-{n}"))
            assert s3.get_object(Bucket=f"{name}-{n}", Key="k")["Body"].read() == noise(300_000, n)


def test_an_etcd_that_lost_everything_is_made_anew_from_the_drives(cluster):
    check = fill(cluster)
    first = cluster.nodes[0]
    until(lambda: all((first.home / f"drive{d}" / "etcd.0").exists() for d in range(1, DRIVES + 1)), 60)
    said = restore(cluster, first)
    assert "holds a cluster named test already" in said, said

    lose(cluster)
    # Nodes that run announce themselves there.
    said = restore(cluster, first)
    assert "nodes of the cluster run" in said, said
    check(first)
    for node in cluster.nodes:
        assert node.stop() == 0
    # Nodes that end orderly leave their last state.
    shown = {node.number: snapshots(node) for node in cluster.nodes}
    latest = max(revision for revisions in shown.values() for revision in revisions)
    done = restore(cluster, *cluster.nodes)
    assert done["cluster"] == "test" and done["revision"] == latest and not done["before"], (done, shown)
    assert restore(cluster, *cluster.nodes) == {**done, "before": True}
    for node in cluster.nodes:
        node.launch()
    for node in cluster.nodes:
        node.wait(60)
    goes_on(cluster, check, "after-the-restore")

    # And once more, after a crash of all, from the folders of one node.
    for node in cluster.nodes:
        node.kill()
    lose(cluster)
    best = max(cluster.nodes, key=lambda node: max(snapshots(node)))
    again = restore(cluster, best)
    assert again["revision"] == max(snapshots(best)) and not again["before"]
    for node in cluster.nodes:
        node.launch()
    for node in cluster.nodes:
        node.wait(60)
    goes_on(cluster, check, "after-the-second-restore")


def test_a_node_that_knows_more_than_what_was_restored_refuses(cluster, tmp_path):
    """The snapshot of a node that was away is older. Restored from it, the other nodes do not start and say why; from one
    of theirs, all do."""
    away = cluster.nodes[3]
    assert away.stop() == 0
    old = max(snapshots(away))
    check = fill(cluster, but=[4])
    for node in cluster.nodes[:3]:
        assert node.stop() == 0
    lose(cluster)
    assert restore(cluster, away)["revision"] == old
    # A node that stops may write something: the last one knows most.
    knows = max(cluster.nodes[:3], key=lambda node: max(snapshots(node)))
    knows.launch()
    said = knows.ends()
    assert f"restored from revision {old}" in said and "ashlar cluster restore" in said, said
    lose(cluster)
    # Copies of the two files are enough.
    copies = []
    for drive in ("drive1", "drive2"):
        copies.append(tmp_path / drive)
        copies[-1].mkdir()
        for name in ("etcd.0", "etcd.1"):
            if (knows.home / drive / name).exists():
                shutil.copy(knows.home / drive / name, copies[-1] / name)
    assert restore(cluster, away, folders=copies)["revision"] == max(snapshots(knows)) > old
    for node in cluster.nodes:
        node.launch()
    for node in cluster.nodes:
        node.wait(60)
    goes_on(cluster, check, "from-copies")


def test_a_running_node_says_that_it_must_be_started_again(cluster):
    """A node that was cut off from etcd runs on during a restore that could not see it. It serves what it knows, changes
    nothing, and says what to do."""
    check = fill(cluster)
    cut = cluster.nodes[3]
    for node in cluster.nodes[:3]:
        assert node.stop() == 0
    cluster.etcd.kill()
    # It is paused for longer than its lease: nobody can tell it from one that was stopped.
    cut.process.send_signal(signal.SIGSTOP)
    try:
        for member in cluster.etcd.members:
            shutil.rmtree(member.data)
        cluster.etcd.start()
        done = restore(cluster, *cluster.nodes)
        assert not done["before"], done
    finally:
        cut.process.send_signal(signal.SIGCONT)
    for node in cluster.nodes[:3]:
        node.launch()
    for node in cluster.nodes[:3]:
        node.wait(60)
    # Its connections to the others broke; the first requests may find that out.
    eventually(lambda: check(cut))
    with pytest.raises(ClientError) as refusal:
        client(cut).create_bucket(Bucket="by-the-old-one")
    assert refusal.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
    until = time.monotonic() + 30
    while "restart this node" not in (trouble := cluster.ask(cut, "cluster", "status")["control_store"]["trouble"] or ""):
        assert time.monotonic() < until, trouble
        time.sleep(0.2)
    assert cut.stop() == 0
    cut.launch()
    cut.wait(60)
    goes_on(cluster, check, "all-of-them")


def test_bad_folders_change_nothing(cluster, tmp_path):
    node = cluster.nodes[0]
    for one in cluster.nodes:
        assert one.stop() == 0
    lose(cluster)
    blank = tmp_path / "blank"
    blank.mkdir()
    assert "no snapshot" in restore(cluster, folders=[blank])
    gone = restore(cluster, node, folders=[tmp_path / "gone"])
    assert "may hold a newer snapshot" in gone and "gone" in gone, gone
    code, _, err = ashlar("cluster", "restore", "--control", cluster.etcd.url, "--cluster", "other", node.drives)
    assert code != 0 and "of the cluster test, not of other" in err, err
    code, _, err = ashlar("cluster", "restore", "--cluster", "test", node.drives)
    assert code != 0 and "--control" in err, err
    assert cluster.etcd.keys("/ashlar/") == []
    # Both slots of a folder are damaged: the other drive of the node has the same.
    for name in ("etcd.0", "etcd.1"):
        file = node.home / "drive1" / name
        if file.exists():
            content = file.read_bytes()
            file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    code, out, _ = ashlar("cluster", "restore", "--dry-run", "--cluster", "test", node.drives)
    assert code == 0 and "drive1: no snapshot" in out and ": the latest" in out, out
    assert not restore(cluster, node)["before"]
