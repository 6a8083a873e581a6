"""What operators do with a cluster: search its audit logs, remove a node that is gone, replace the authority."""

import os
import shutil
import subprocess
import threading
import urllib.error
import urllib.parse

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from conftest import noise
from histories import client, eventually
from nodes import Cluster
from signing import admin
from test_openapi import OPERATIONS, check
from test_cluster import cli, holds, of, passes, signed, until


def made(**options):
    cluster = Cluster(**options)
    try:
        yield cluster
    finally:
        cluster.end()


@pytest.fixture
def cluster():
    yield from made(arguments=["--audit-file", "{home}/audit.log"])


@pytest.fixture
def wide_cluster():
    """Five nodes, more than a group has slots; a node that is gone is rebuilt soon."""
    yield from made(code="4+2", count=5, arguments=["--rebuild-after", "5s"])


def bucket_everywhere(cluster, name, but=()):
    s3 = cluster.clients(3, but=but)
    eventually(lambda: s3[0].create_bucket(Bucket=name))
    for one in s3:
        eventually(lambda: one.head_bucket(Bucket=name))
    return s3


def described(operation, answer):
    """An answer that is as the description of the API has it."""
    check(OPERATIONS[operation][2], 200, answer)
    return answer


def status(node):
    """Also of a cluster that is not complete, of which the command says so by an error."""
    return described("ClusterStatus", admin(node, "GET", "/ashlar/api/v1/cluster"))


def number(node, at):
    return of(status(at), node)["number"]


# Search of the audit logs.


def search(node, **query):
    return described("AuditSearch", admin(node, "GET", f"/ashlar/api/v1/audit?{urllib.parse.urlencode(query)}"))


def pages(node, **query):
    found, cursor, silent = [], "", set()
    while True:
        page = search(node, cursor=cursor, **query)
        found += page["records"]
        silent |= {n["node"] for n in page["nodes"] if n["problem"]}
        cursor = page["cursor"]
        if page["complete"]:
            assert (cursor is None) == (not silent)
            return found, silent


def test_any_node_searches_the_audit_logs_of_all(cluster):
    s3 = bucket_everywhere(cluster, "audited")
    for i in range(40):
        s3[i % 4].put_object(Bucket="audited", Key=f"k/{i}", Body=b"x")
    numbers = [number(node, cluster.nodes[0]) for node in cluster.nodes]
    wanted = {f"k/{i}": numbers[i % 4] for i in range(40)}
    # A record is in the file some milliseconds after the answer.
    query = {"bucket": "audited", "operation": "PutObject"}

    def complete():
        for node in cluster.nodes:
            records, silent = pages(node, limit=7, **query)
            assert not silent
            assert {r["key"]: r["node"] for r in records} == wanted and len(records) == 40
            ended = [r["time"] for r in records]
            # Those of one client came one after another.
            assert ended == sorted(ended, reverse=True)

    passes(complete)
    # Each call of administration is in the log of the node that was asked.
    calls = {r["node"] for r in pages(cluster.nodes[1], operation="AuditSearch")[0]}
    assert calls == set(numbers)
    found = cli(cluster.nodes[2], "admin", "audit", "search", "it", "--bucket", "audited", "--prefix", "k/1", "--limit", "0",
                "--operation", "PutObject")
    assert sorted(r["key"] for r in found) == sorted(k for k in wanted if k.startswith("k/1"))
    # Why, and where.
    assert cli(cluster.nodes[3], "admin", "why", "it", found[0]["request_id"])[0]["node"] == found[0]["node"]

    # A node that is away is named; the records of the others are found; later a page has its own.
    gone = cluster.nodes[1]
    gone.kill()
    asked = cluster.nodes[0]

    def named():
        records, silent = pages(asked, limit=5, **query)
        assert silent == {numbers[1]} and len(records) == 30

    passes(named)
    last = search(asked, limit=1000, **query)
    assert last["complete"] and last["cursor"] and len(last["records"]) == 30
    *_, error = cli(asked, "admin", "audit", "search", "it", "--bucket", "audited", code=6)
    assert f"node {numbers[1]}" in str(error), error
    gone.launch()
    gone.wait(90)

    def rest():
        page = search(asked, cursor=last["cursor"], limit=1000, **query)
        assert len(page["records"]) == 10 and {r["node"] for r in page["records"]} == {numbers[1]}
        assert page["complete"] and page["cursor"] is None

    passes(rest)


# Removal of a node.


def removed(node, which, *flags, code=0):
    *_, last = cli(node, "cluster", "remove", which, "it", *flags, code=code)
    if code == 0:
        last.pop("status")
        described("ClusterRemove", last)
    return last


def can_be_removed(node, which):
    """What is said without `--yes`, whether it can or not."""
    return subprocess.run([os.environ["ASHLAR_BIN"], "--json", "cluster", "remove", str(which), "it"], text=True, timeout=60,
                          env={**os.environ, "ASHLAR_HOST_it": signed(node)}, capture_output=True).stdout.replace('":', '": ')


def test_a_node_that_is_gone_is_removed_and_cannot_return(wide_cluster):
    cluster = wide_cluster
    seen, gone = cluster.nodes[0], cluster.nodes[2]
    s3 = bucket_everywhere(cluster, "kept", but=[gone.number])
    bodies = {f"k{i}": noise(30_000, i) for i in range(30)}
    for i, (key, body) in enumerate(bodies.items()):
        eventually(lambda: s3[i % 4].put_object(Bucket="kept", Key=key, Body=body))
    which = number(gone, seen)
    own = number(seen, seen)
    # What is refused changes nothing.
    assert "runs" in str(removed(seen, which, "--yes", code=1))
    assert "answers" in str(removed(seen, own, "--yes", code=1))
    assert "there is no node 99" in str(removed(seen, 99, "--yes", code=1))
    gone.kill()
    # Its announcement ends with its lease.
    holds(lambda: "runs" not in can_be_removed(seen, which))
    # On a busy machine everything may have moved already.
    said = can_be_removed(seen, which)
    assert any(part in said for part in ["slots on drives of node", "not complete on other nodes", "removed\": false"]), said
    until(cluster, seen, lambda s: (of(s, gone)["away"] or {"groups": 1})["groups"] == 0)
    text = subprocess.run([os.environ["ASHLAR_BIN"], "cluster", "status", "it"], text=True, capture_output=True, timeout=60,
                          env={**os.environ, "ASHLAR_HOST_it": signed(seen)}).stdout
    assert f"ashlar cluster remove {which}" in text, text
    until(cluster, seen, lambda s: s["groups"]["complete"] == s["groups"]["total"])
    assert removed(seen, which)["removed"] is False
    assert len(status(seen)["nodes"]) == 5
    assert removed(cluster.nodes[1], which, "--yes")["removed"] is True
    assert "removed already" in str(removed(seen, which, "--yes", code=1))
    for node in cluster.nodes:
        if node is not gone:
            until(cluster, node, lambda s: [n for n in s["nodes"] if n["number"] == which] == [])
            s = status(node)
            assert len(s["nodes"]) == 4 and s["groups"]["left"] == 0 and s["groups"]["writable"] == s["groups"]["total"], s
    assert all(d["node"] != which for d in cluster.ask(seen, "info")["drives"])
    assert cli(seen, "cluster", "upgrade", "it")[-1]["reasons"] == []

    # Its drives are not those of a node any more.
    gone.log.write_text("")
    gone.launch()
    assert "was removed from the cluster" in gone.ends(), gone.text()
    # Without etcd it begins with what its drives keep; nobody accepts its certificate, and it ends when it learns it.
    cluster.etcd.kill()
    gone.log.write_text("")
    gone.launch()
    for n in range(10):
        assert s3[n % 4].get_object(Bucket="kept", Key=f"k{n}")["Body"].read() == bodies[f"k{n}"]
    cluster.etcd.start()
    assert "was removed from the cluster" in gone.ends(), gone.text()
    # With blank folders and a token its machine is a new node, with a new number.
    for folder in gone.home.glob("d*"):
        if folder.is_dir():
            shutil.rmtree(folder)
    token = eventually(lambda: cli(seen, "cluster", "token", "it")[-1])["token"]
    gone.env["ASHLAR_JOIN"] = token
    gone.env["ASHLAR_STATE_DIR"] = str(gone.home / "new-state")
    gone.log.write_text("")
    gone.launch()
    gone.wait(90)
    assert number(gone, seen) == 6
    for key, body in bodies.items():
        assert eventually(lambda: client(gone, 3).get_object(Bucket="kept", Key=key)["Body"].read()) == body


# Replacement of the authority.


class Load(threading.Thread):
    """Writes and reads through every node, each key once; notes what fails."""

    def __init__(self, s3):
        super().__init__()
        self.s3, self.going, self.done, self.failures = s3, True, 0, []

    def run(self):
        while self.going:
            n = self.done
            body = noise((100, 300_000)[n % 2], n)
            try:
                self.s3[n % len(self.s3)].put_object(Bucket="loaded", Key=f"k{n}", Body=body)
                got = self.s3[(n + 1) % len(self.s3)].get_object(Bucket="loaded", Key=f"k{n}")["Body"].read()
                assert got == body
            except (BotoCoreError, ClientError, OSError) as e:
                self.failures.append(repr(e))
            self.done += 1

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.going = False
        self.join()


def rotate(node, *flags, code=0):
    return cli(node, "cluster", "authority", "rotate", "it", *flags, code=code)


def step(node, old):
    return described("ClusterAuthority", admin(node, "POST", "/ashlar/api/v1/cluster/authority", {"replace": old}))


def authority(node):
    return status(node)["authority"]


def all_serve(cluster, name, but=()):
    s3 = [client(n, 3) for n in cluster.nodes if n not in but]
    for n, one in enumerate(s3):
        body = noise(200_000, n)
        eventually(lambda: one.put_object(Bucket="loaded", Key=f"{name}/{n}", Body=body))
        assert eventually(lambda: s3[n - 1].get_object(Bucket="loaded", Key=f"{name}/{n}")["Body"].read()) == body


def test_the_authority_is_replaced_while_clients_go_on(cluster):
    s3 = bucket_everywhere(cluster, "loaded")
    before = authority(cluster.nodes[0])
    assert before["phase"] is None and before["trusted"] == [before["signer"]]
    with Load(s3) as load:
        holds(lambda: load.done > 10)
        for asked in cluster.nodes[:2]:
            old = authority(asked)["signer"]
            done = rotate(asked)[-1]
            assert done["done"] and done["authority"]["trusted"] != [old], done
        count = load.done
        holds(lambda: load.done > count + 20)
    assert load.failures == [], load.failures[:5]
    now = [authority(node) for node in cluster.nodes]
    assert all(a == now[0] for a in now) and now[0]["phase"] is None and now[0]["signer"] != before["signer"]
    # Nodes that start get certificates of the new one.
    for node in cluster.nodes[2:]:
        assert node.stop() == 0
        node.launch()
        node.wait(90)
    all_serve(cluster, "after")


def test_a_replacement_that_is_interrupted_goes_on_at_any_node(cluster):
    bucket_everywhere(cluster, "loaded")
    one, two, three, four = cluster.nodes
    old = authority(one)["signer"]
    # A node is away from before the beginning until after the end.
    assert four.stop() == 0
    began = eventually(lambda: step(one, old))
    assert began["authority"]["phase"] == "introducing" and began["authority"]["old"] == old
    # Whoever began it is killed in each phase.
    one.kill()
    assert authority(two)["phase"] == "introducing"

    def renewing():
        said = step(two, old)
        assert said["authority"]["phase"] == "renewing", said

    passes(renewing)
    one.launch()
    one.wait(90)
    all_serve(cluster, "renewing", but=[four])
    # In the middle of a replacement, the new authority cannot be replaced.
    new = authority(two)["signer"]
    assert new != old
    with pytest.raises(urllib.error.HTTPError, match="409"):
        step(two, new)
    two.kill()
    assert authority(one)["phase"] == "renewing"
    two.launch()
    two.wait(90)
    done = rotate(three)[-1]
    assert done["done"] and done["authority"] == {"phase": None, "signer": new, "trusted": [new], "old": new}
    # One that has just restarted may count as away too, for a moment.
    assert number(four, one) in done["away"]
    # A request that is repeated begins nothing.
    assert step(one, old)["done"] and authority(one)["phase"] is None
    # The node that was away comes back while etcd is away: it knows the old authority only, and no node accepts it.
    cluster.etcd.kill()
    four.launch()
    all_serve(cluster, "without", but=[four])
    cluster.etcd.start()
    four.wait(90)
    all_serve(cluster, "after")


def test_a_node_that_does_not_answer_is_waited_for(cluster):
    bucket_everywhere(cluster, "loaded")
    asked, paused = cluster.nodes[0], cluster.nodes[3]
    which = number(paused, asked)
    paused.process.send_signal(19)
    try:
        # It is announced, so it may run: the second phase does not begin.
        last = rotate(asked, "--timeout", "0", code=5)
        assert any(f"node {which} " in str(line) for line in last), last
        assert authority(asked)["phase"] == "introducing"
        # Its announcement has ended, and nobody reaches it.
        done = rotate(asked, "--timeout", "60")[-1]
        assert done["done"] and which in done["away"], done
        all_serve(cluster, "paused", but=[paused])
    finally:
        paused.process.send_signal(18)
    all_serve(cluster, "resumed")
