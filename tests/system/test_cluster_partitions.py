"""Four nodes in network namespaces over one etcd, while their network is cut in every way that routes and links allow.

Clients are at every node, on the same keys, and reach all nodes while nodes do not reach each other. In every
test what they saw must be linearizable, and nothing acknowledged may be lost. With 4+4 over two drives of each
node, a write needs five of eight drives: those of three nodes. A read may be answered by four, if they show what
is chosen (docs/protocol.md 2.13)."""

import time

import pytest
from botocore.exceptions import ClientError

from histories import check_all, client, eventually, stop, writers
from netns import Network, needs_root
from nodes import NODES, Cluster, Etcd
from registers import Client, violations

pytestmark = needs_root

ALL = list(range(1, NODES + 1))
# The place of etcd, after those of the nodes.
ETCD = NODES + 1
# A cut connection is noticed after 1.5 s, and requests under way end within a few more.
SETTLED = 4


@pytest.fixture(scope="module")
def network():
    network = Network(NODES + 1)
    try:
        yield network
    finally:
        network.end()


@pytest.fixture(scope="module")
def cluster(network):
    cluster = Cluster(etcd=lambda home: Etcd(home, **network.place(ETCD)), places=[network.place(n) for n in ALL])
    try:
        yield cluster
    finally:
        network.heal()
        cluster.end()


class Load:
    """Clients of shared keys and writers of their own, at every node, from `begin` to `end`."""

    def __init__(self, cluster, bucket):
        self.cluster, self.bucket, self.states = cluster, bucket, [{} for _ in ALL]
        self.clients = [Client(node, bucket, ["shared/0", "shared/1", "shared/2"], f"c{node.number}")
                        for node in cluster.nodes]
        self.writers = writers(cluster, bucket, self.states)
        for c in self.clients:
            c.start()

    def serves(self, number, since, until):
        """How many writes and reads a node answered in a time."""
        count = lambda times: sum(since < t < until for t in times)
        one = self.clients[number - 1]
        return count(one.written), count(one.read)

    def end(self):
        """Ends the load and checks it through every node."""
        for c in self.clients:
            c.going = False
        stop(self.writers)
        for c in self.clients:
            c.join(60)
            assert not c.is_alive(), "a request was never answered"
        for server in self.cluster.nodes:
            # What every node shows at last belongs to the history.
            last = Client(server, self.bucket, [], f"last{server.number}")
            for key in self.clients[0].keys:
                until = time.monotonic() + 30
                while last.get(key) is None and last.failed and time.monotonic() < until:
                    last.failed.clear()
            self.clients.append(last)
        assert violations(self.clients) == []
        # Its own keys only: the shared ones have no single writer.
        check_all(Own(client(self.cluster.nodes[0], 3)), self.bucket, self.states)


class Own:
    """A client that lists the keys of writers only."""

    def __init__(self, s3):
        self.s3, self.get_object = s3, s3.get_object

    def get_paginator(self, name):
        return self

    def paginate(self, Bucket):
        return self.s3.get_paginator("list_objects_v2").paginate(Bucket=Bucket, Prefix="w")


@pytest.fixture
def load(cluster, network, request):
    bucket = request.node.name.replace("_", "-")[:60].strip("-")
    eventually(lambda: cluster.clients(3)[0].create_bucket(Bucket=bucket))
    for s3 in cluster.clients(3):
        eventually(lambda: s3.head_bucket(Bucket=bucket))
    load = Load(cluster, bucket)
    time.sleep(1)
    try:
        yield load
    finally:
        network.heal()
        for thread in [*load.clients, *load.writers]:
            thread.going = False


def during(seconds):
    """Waits, and returns the part of the time in which all that broke at its begin has been noticed."""
    began = time.monotonic()
    time.sleep(seconds)
    return began + SETTLED, began + seconds


def expect(load, window, serving, reading=(), refusing=()):
    """Which nodes answered writes and reads in that time, which answered reads at most, and which nothing."""
    answered = {n: load.serves(n, *window) for n in ALL}
    for n in serving:
        assert all(answered[n]), f"node {n} stands still: (writes, reads) {answered}"
    for n in [*reading, *refusing]:
        assert answered[n][0] == 0, f"node {n} writes without a majority: (writes, reads) {answered}"
    for n in refusing:
        assert answered[n][1] == 0, f"node {n} reads without half of the drives: (writes, reads) {answered}"
    print("writes and reads at each node:", answered)


def works_again(load):
    """Every node answers writes and reads."""
    until = time.monotonic() + 20
    begin = time.monotonic()
    while not all(all(load.serves(n, begin, time.monotonic())) for n in ALL):
        assert time.monotonic() < until, {n: load.serves(n, begin, time.monotonic()) for n in ALL}
        time.sleep(0.2)


def test_a_node_that_is_cut_off_answers_nothing_and_the_others_go_on(network, load):
    network.separate([3], [1, 2, 4, ETCD])
    window = during(10)
    expect(load, window, serving=[1, 2, 4], refusing=[3])
    network.heal()
    works_again(load)
    load.end()


def test_two_nodes_cut_one_way_both_go_on_through_the_others(network, load):
    """TCP needs both ways: neither reaches the other, but one is refused at once and the other hears nothing."""
    network.cut(1, 2)
    expect(load, during(8), serving=ALL)
    network.heal()
    works_again(load)
    load.end()


def test_a_node_cut_from_etcd_only_serves_objects(cluster, network, load):
    network.separate([2], [ETCD])
    # Longer than the lease of its announcement.
    window = during(13)
    expect(load, window, serving=ALL)
    assert [w.failed for w in load.writers] == [0] * NODES, "objects do not depend on etcd"
    eventually(lambda: client(cluster.nodes[0]).create_bucket(Bucket="made-meanwhile"))
    with pytest.raises(ClientError, match="404"):
        client(cluster.nodes[1]).head_bucket(Bucket="made-meanwhile")
    network.heal()
    eventually(lambda: client(cluster.nodes[1]).head_bucket(Bucket="made-meanwhile"))
    eventually(lambda: client(cluster.nodes[1]).create_bucket(Bucket="made-there-again"))
    load.end()


def test_a_node_that_sees_both_sides_of_a_cut_makes_one_side_a_majority(network, load):
    """1 and 2 do not reach 3; 4 reaches all. 1 and 2 have six drives with those of 4, node 3 has four."""
    network.separate([1, 2], [3])
    expect(load, during(8), serving=[1, 2, 4], reading=[3])
    network.heal()
    works_again(load)
    load.end()


def test_no_half_writes_while_the_nodes_are_cut_in_two(network, load):
    """Four of eight drives on each side are no majority, and neither side can change what the other reads."""
    network.separate([1, 2], [3, 4])
    expect(load, during(8), serving=[], reading=ALL)
    network.heal()
    works_again(load)
    load.end()


def test_a_link_that_flaps_loses_nothing(network, load):
    begin = time.monotonic()
    for _ in range(5):
        network.down(4)
        time.sleep(0.8)
        network.up(4)
        time.sleep(1)
    expect(load, (begin, time.monotonic()), serving=[1, 2, 3])
    works_again(load)
    load.end()
