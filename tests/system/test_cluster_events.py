"""Bucket notifications of a cluster: the events of changes that any node made arrive, also those of a node that is gone."""

import itertools

import pytest

from conftest import until
from histories import client, eventually
from nodes import Cluster
from test_events import Web, posted, records, rule, told


@pytest.fixture
def webhook():
    web = Web(posted)
    yield web
    web.end()


@pytest.fixture
def cluster(webhook):
    cluster = Cluster(env={
        "ASHLAR_NOTIFY_WEBHOOK_ENABLE_1": "on",
        "ASHLAR_NOTIFY_WEBHOOK_ENDPOINT_1": f"http://127.0.0.1:{webhook.port}/x",
    })
    try:
        yield cluster
    finally:
        cluster.end()


def follow(clients, webhook):
    """Makes a bucket whose events go to the webhook. A node that has just started reaches the others a moment later, and hears of the
    rule a moment after the node that was told it: what comes before has no event."""
    clients[0].create_bucket(Bucket="followed")
    until(lambda: rule(clients[0], "followed", "webhook") is None)

    attempts = itertools.count()

    def arrives(s3):
        # Each time another key: an event may come again, and then the order of the events of a key is not that of their changes.
        key = f"early{next(attempts)}"
        eventually(lambda: s3.put_object(Bucket="followed", Key=key, Body=b"x"), 60)
        keys.append(key)
        return any(key in told(records(d for _, d in list(webhook.got)), "followed") for key in keys)

    for s3 in clients:
        keys = []
        until(lambda: arrives(s3))


def test_events_of_a_node_that_is_gone_are_delivered_by_another(cluster, webhook):
    clients = cluster.clients(3)
    follow(clients, webhook)
    here = lambda: told(records(d for _, d in list(webhook.got)), "followed")
    # One key for each node: their feeds are not ordered among each other.
    webhook.status = 503
    for round in range(5):
        for n, s3 in enumerate(clients):
            s3.put_object(Bucket="followed", Key=f"{n}", Body=bytes(round))
    # The second node ends for good; nobody has its events.
    cluster.nodes[1].kill()
    webhook.status = 200
    wanted = {f"{n}": ["ObjectCreated:Put"] * 5 for n in range(len(clients))}
    late = lambda: {key: names for key, names in here().items() if not key.startswith("early")}
    until(lambda: late() == wanted, 120)
    # It returns: what was taken over stays delivered, what comes later is delivered too.
    cluster.nodes[1].launch()
    cluster.nodes[1].wait(60)
    client(cluster.nodes[1], 3).put_object(Bucket="followed", Key="1", Body=b"back")
    until(lambda: len(here()["1"]) >= 6, 60)


def test_sequencer_orders_the_changes_of_a_key_through_all_nodes(cluster, webhook):
    clients = cluster.clients(3)
    follow(clients, webhook)
    made = []
    for turn in range(60):
        s3 = clients[turn % 3]
        if turn % 7 == 6:
            s3.delete_object(Bucket="followed", Key="k")
            made.append("ObjectRemoved:Delete")
        else:
            s3.put_object(Bucket="followed", Key="k", Body=bytes(turn))
            made.append(turn)
    here = lambda: {r["s3"]["object"]["sequencer"]: r for r in records(d for _, d in list(webhook.got)) if r["s3"]["object"]["key"] == "k"}
    until(lambda: len(here()) >= len(made), 60)
    told = [r["s3"]["object"].get("size", r["eventName"].removeprefix("s3:")) for _, r in sorted(here().items())]
    assert told == made
