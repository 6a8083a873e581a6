"""Four nodes, three of which run etcd themselves: `--control managed`. Members are killed, paused, lost and moved."""

import json
import os
import shutil
import signal
import ssl
import subprocess
import urllib.request
from pathlib import Path

import pytest

from conftest import ACCESS, SECRET, free_port, noise, until
from histories import client, eventually
from nodes import NODES, Cluster, Etcd
from test_cluster import numbers

# Each member has its own address.
HOSTS = [f"127.0.0.{n}" for n in range(1, NODES + 1)]


class Managed:
    """Stands for the etcd that the nodes run."""

    url = "managed"

    def __init__(self, home):
        pass

    def kill(self):
        pass


def ashlar(*arguments, env=None, **options):
    return subprocess.run([os.environ["ASHLAR_BIN"], *arguments], env={**os.environ, **(env or {})}, capture_output=True,
                          text=True, stdin=subprocess.DEVNULL, timeout=120, **options)


def at(node):
    return {"ASHLAR_HOST_it": f"http://{ACCESS}:{SECRET}@{node.host}:{node.port}"}


@pytest.fixture(scope="module")
def secret():
    return ashlar("cluster", "secret").stdout.strip()


@pytest.fixture(scope="module")
def addresses():
    """Where the member of each node is, or would be."""
    return [f"{host}:{free_port()}:{free_port()}" for host in HOSTS]


@pytest.fixture(scope="module")
def cluster(secret, addresses):
    cluster = Cluster(etcd=Managed, places=[{"host": host} for host in HOSTS], env={"ASHLAR_CONTROL_SECRET": secret},
                      arguments=["--control-members", ",".join(addresses[:3])])
    try:
        yield cluster
    finally:
        cluster.end()
        until(lambda: all(etcd(node) is None for node in cluster.nodes), 60)


def folder(node):
    return node.home / "state" / "etcd-test"


def etcd(node):
    """The number of the process of a node's etcd."""
    data = str(folder(node) / "data")
    for process in Path("/proc").iterdir():
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except (OSError, NotADirectoryError):
            continue
        if words[0].endswith(b"/etcd") and data.encode() in words:
            return int(process.name)
    return None


def members(node):
    """The members as a node answers; null if the nodes do not run them."""
    done = ashlar("--json", "cluster", "status", "it", env=at(node))
    assert done.returncode == 0, done
    return json.loads(done.stdout)["control_store"]["etcd"]


def all_healthy(node, addresses, seconds=120):
    """Waits until these are the members, all vote, and one leads."""
    def healthy():
        nonlocal found
        found = members(node)
        return ([m["address"] for m in found] == sorted(addresses)
                and all(m["healthy"] and not m["learner"] for m in found) and sum(m["leader"] for m in found) == 1)

    found = None
    try:
        until(healthy, seconds)
    except AssertionError as error:
        logs = [log.read_text()[-4000:] for log in sorted(node.home.parent.glob("node*/server.log"))]
        raise AssertionError("\n".join([str(found), *logs])) from error


def start(nodes):
    for node in nodes:
        node.start()
    for node in nodes:
        node.wait(120)


def stop(nodes):
    for node in nodes:
        assert node.stop() == 0


def objects_go_on(cluster, bucket, but=()):
    nodes = [n for n in cluster.nodes if n.number not in but]
    for n, node in enumerate(nodes):
        # A node that was started again is reached by the others a moment later.
        eventually(lambda: client(node).put_object(Bucket=bucket, Key=f"{n}", Body=noise(100_000, n)), 60)
        other = nodes[(n + 1) % len(nodes)]
        read = lambda: client(other).get_object(Bucket=bucket, Key=f"{n}")["Body"].read()
        assert eventually(read, 60) == noise(100_000, n)


def goes_on(cluster, bucket, but=()):
    """A bucket can be made, every node has it, and objects can be written and read."""
    nodes = [n for n in cluster.nodes if n.number not in but]
    eventually(lambda: client(nodes[0]).create_bucket(Bucket=bucket), 60)
    for node in nodes:
        eventually(lambda: client(node).head_bucket(Bucket=bucket), 60)
    objects_go_on(cluster, bucket, but)


def test_nodes_form_a_cluster_with_an_etcd_of_their_own(cluster, addresses):
    all_healthy(cluster.nodes[3], addresses[:3])
    assert [etcd(node) is not None for node in cluster.nodes] == [True, True, True, False]
    for member in members(cluster.nodes[0]):
        assert member["version"].startswith("3.") and member["size"] > 0
    text = ashlar("cluster", "status", "it", env=at(cluster.nodes[0])).stdout
    assert f"{addresses[0]} leads" in text or f"{addresses[0]} follows" in text
    goes_on(cluster, "formed")


def test_an_etcd_that_is_killed_is_started_again(cluster, addresses):
    before = etcd(cluster.nodes[1])
    os.kill(before, signal.SIGKILL)
    until(lambda: etcd(cluster.nodes[1]) not in (None, before), 60)
    all_healthy(cluster.nodes[1], addresses[:3])
    goes_on(cluster, "after-a-kill")


def test_an_etcd_that_hangs_is_done_without(cluster, addresses):
    [leader] = [i for i, m in enumerate(members(cluster.nodes[3])) if m["leader"]]
    node = cluster.nodes[[a.split(":")[0] for a in addresses].index(sorted(addresses[:3])[leader].split(":")[0])]
    pid = etcd(node)
    os.kill(pid, signal.SIGSTOP)
    try:
        goes_on(cluster, "beside-one-that-hangs")
    finally:
        os.kill(pid, signal.SIGCONT)
    all_healthy(cluster.nodes[0], addresses[:3])


def test_a_node_that_is_killed_takes_its_etcd_with_it(cluster, addresses):
    node = cluster.nodes[0]
    node.kill()
    until(lambda: etcd(node) is None, 60)
    goes_on(cluster, "without-a-node", but=[1])
    start([node])
    all_healthy(node, addresses[:3])


def test_all_nodes_at_once(cluster, addresses):
    for node in cluster.nodes:
        node.kill()
    start(cluster.nodes)
    all_healthy(cluster.nodes[3], addresses[:3])
    goes_on(cluster, "all-at-once")


def test_a_member_whose_folder_is_lost_comes_back_under_another_number(cluster, addresses):
    node = cluster.nodes[1]
    number = lambda: json.loads((folder(node) / "member.json").read_text()).get("id")
    before = number()
    stop([node])
    assert etcd(node) is None
    shutil.rmtree(folder(node))
    start([node])
    all_healthy(node, addresses[:3])
    assert number() != before
    assert "its old number is removed" in node.text()
    goes_on(cluster, "blank-again")
    # The etcd's data alone is lost, while it runs.
    before = number()
    shutil.rmtree(folder(node) / "data")
    os.kill(etcd(node), signal.SIGKILL)
    until(lambda: number() not in (None, before), 120)
    all_healthy(node, addresses[:3])


def test_who_does_not_have_the_secret_is_refused(cluster, addresses):
    host, port, peer = addresses[0].split(":")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for port in (port, peer):
        with pytest.raises(OSError):
            urllib.request.urlopen(f"https://{host}:{port}/version", context=context, timeout=10).read()
        with pytest.raises(OSError):
            urllib.request.urlopen(f"http://{host}:{port}/version", timeout=10).read()
    # As etcdctl does, for a backup.
    files = folder(cluster.nodes[0]) / "tls"
    context = ssl.create_default_context(cafile=files / "authority.pem")
    context.load_cert_chain(files / "member.pem", files / "member.key")
    assert urllib.request.urlopen(f"https://{addresses[0].rsplit(':', 1)[0]}/version", context=context, timeout=10).status == 200
    node = cluster.nodes[2]
    stop([node])
    right = node.env["ASHLAR_CONTROL_SECRET"]
    node.env["ASHLAR_CONTROL_SECRET"] = ashlar("cluster", "secret").stdout.strip()
    try:
        node.start()
        assert "certificate is not accepted" in node.ends()
        until(lambda: etcd(node) is None, 60)
    finally:
        node.env["ASHLAR_CONTROL_SECRET"] = right
    start([node])
    all_healthy(node, addresses[:3])


def test_a_member_moves_to_another_node(cluster, addresses):
    asked = cluster.nodes[0]
    refused = ashlar("cluster", "remove", str(numbers(cluster)[2]), "it", env=at(asked))
    assert refused.returncode != 0 and "set-members" in refused.stderr, refused
    wanted = [addresses[0], addresses[1], addresses[3]]
    change = lambda *words: ashlar("cluster", "control", "set-members", *words, "it", env=at(asked))
    for bad, why in [(",".join(["127.0.0.9", *addresses[:2]]), "no node has this host"), ("127.0.0.1", "cannot change"),
                     (",".join(wanted[:2]), "one, three or five"), (addresses[3], "only 0 of the 3 members")]:
        done = change(bad)
        assert done.returncode != 0 and why in done.stderr, done
    assert "Nothing was changed" in change("--dry-run", ",".join(wanted)).stdout
    assert change(",".join(wanted)).returncode == 0
    all_healthy(asked, wanted)
    until(lambda: etcd(cluster.nodes[2]) is None and etcd(cluster.nodes[3]) is not None, 60)
    goes_on(cluster, "moved")
    # The command line still has the list of the beginning.
    for node in cluster.nodes[2:]:
        stop([node])
        start([node])
    all_healthy(cluster.nodes[2], wanted)
    assert etcd(cluster.nodes[2]) is None
    goes_on(cluster, "after-the-move")
    # A member of a node that is gone is given to another one.
    cluster.nodes[3].kill()
    assert change(",".join(addresses[:3])).returncode == 0
    all_healthy(asked, addresses[:3])
    start(cluster.nodes[3:])
    until(lambda: etcd(cluster.nodes[3]) is None, 60)
    goes_on(cluster, "returned")


def restore(cluster, *control):
    """`ashlar cluster restore` on the first node. Which node knows most is not known, so it is given the folders of all."""
    first = cluster.nodes[0]
    return ashlar("cluster", "restore", "--cluster", "test", "--address", f"{first.host}:{first.port}", *control,
                  *(node.drives for node in cluster.nodes),
                  env={"ASHLAR_STATE_DIR": str(first.home / "state"), **first.env})


def managed(members):
    return ["--control", "managed", "--control-members", members]


def test_members_that_are_all_lost_are_restored_from_the_drives(cluster, addresses):
    stop(cluster.nodes)
    refused = restore(cluster, *managed(",".join(addresses[:3])))
    assert refused.returncode != 0 and "others are added later" in refused.stderr, refused
    refused = restore(cluster, *managed(addresses[0]))
    assert refused.returncode != 0 and "move that folder away on every one" in refused.stderr, refused
    for node in cluster.nodes:
        shutil.rmtree(folder(node))
    done = restore(cluster, *managed(addresses[0]))
    assert done.returncode == 0 and "is in etcd again" in done.stdout, done
    assert etcd(cluster.nodes[0]) is None
    start(cluster.nodes)
    all_healthy(cluster.nodes[3], addresses[:3])
    for node in cluster.nodes:
        client(node).head_bucket(Bucket="formed")
    goes_on(cluster, "restored")


def test_the_store_moves_to_an_etcd_of_the_operator_and_back(cluster, addresses, tmp_path):
    stop(cluster.nodes)
    own = Etcd(tmp_path)
    try:
        done = restore(cluster, "--control", own.url)
        assert done.returncode == 0 and "is in etcd again" in done.stdout, done
        before = [node.arguments for node in cluster.nodes]
        for node in cluster.nodes:
            words = [own.url if word == "managed" else word for word in node.arguments]
            place = words.index("--control-members")
            node.arguments = words[:place] + words[place + 2:]
        start(cluster.nodes)
        goes_on(cluster, "elsewhere")
        assert members(cluster.nodes[0]) is None and not any(etcd(node) for node in cluster.nodes)
        # The list that was left says nothing any more.
        refused = ashlar("cluster", "remove", str(numbers(cluster)[2]), "it", env=at(cluster.nodes[0]))
        assert refused.returncode != 0 and "set-members" not in refused.stderr, refused
        stop(cluster.nodes)
    finally:
        own.kill()
    for node, words in zip(cluster.nodes, before):
        node.arguments = words
        shutil.rmtree(folder(node))
    done = restore(cluster, *managed(addresses[0]))
    assert done.returncode == 0, done
    start(cluster.nodes)
    all_healthy(cluster.nodes[3], addresses[:3])
    for node in cluster.nodes:
        client(node).head_bucket(Bucket="elsewhere")
    goes_on(cluster, "back")


def test_nodes_end_with_their_etcd(cluster):
    for node in cluster.nodes:
        stop([node])
        assert etcd(node) is None


def test_what_cannot_work_is_an_error_that_changes_nothing(tmp_path, secret):
    def starts(*arguments, env=None):
        done = ashlar("server", "--control", "managed", "--cluster", "test", "--nodes", "1", "--address",
                      f"127.0.0.1:{free_port()}", *arguments, str(tmp_path / "drive{1...2}"),
                      env={"ASHLAR_STATE_DIR": str(tmp_path / "state"), "ASHLAR_ROOT_USER": ACCESS,
                           "ASHLAR_ROOT_PASSWORD": SECRET, **(env or {})})
        assert done.returncode != 0
        return done.stderr.strip().splitlines()[-1]

    assert "2 members: one, three or five" in starts("--control-members", "127.0.0.1,127.0.0.2")
    assert "needs the nodes that run etcd" in starts()
    assert "ashlar cluster secret" in starts("--control-members", "10.0.0.1,10.0.0.2,127.0.0.1")
    wrong = starts("--control-members", "127.0.0.1", env={"ASHLAR_CONTROL_SECRET": "12"})
    assert "64 hexadecimal digits" in wrong
    program = Path(os.environ["ASHLAR_BIN"]).parent
    missing = starts("--control-members", "127.0.0.1", env={"PATH": str(program)})
    assert "apt-get install etcd-server" in missing, missing
    old = tmp_path / "old"
    old.write_text("#!/bin/sh\necho 'etcd Version: 3.3.27'\n")
    old.chmod(0o755)
    assert "3.4 or later" in starts("--control-members", "127.0.0.1", "--control-program", str(old))
    assert not list(tmp_path.glob("drive*"))
