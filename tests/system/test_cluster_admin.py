"""Administration of a cluster through any of its nodes: usage, metrics, trace, log, listeners to events."""

import json
import os
import subprocess
import threading
import urllib.error
import urllib.request

import pytest

from conftest import ACCESS, SECRET, noise
from histories import client, eventually
from nodes import NODES, Cluster
from signing import admin
from test_cluster import cli, holds, mc, numbers, passes


@pytest.fixture(scope="module")
def cluster():
    cluster = Cluster()
    try:
        yield cluster
    finally:
        cluster.end()


@pytest.fixture
def bucket(cluster, request):
    name = request.node.name.replace("_", "-")[:60].strip("-")
    eventually(lambda: cluster.clients(3)[0].create_bucket(Bucket=name))
    for s3 in cluster.clients(3):
        eventually(lambda: s3.head_bucket(Bucket=name))
    return name


class Follow:
    """A command that prints lines of JSON as they come."""

    def __init__(self, command, env):
        self.process = subprocess.Popen(command, env={**os.environ, **env}, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.lines, self.lock = [], threading.Lock()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            with self.lock:
                self.lines.append(line)

    def documents(self):
        """Those that are complete; `mc` prints some over several lines."""
        with self.lock:
            text = "".join(self.lines).lstrip()
        all, decoder = [], json.JSONDecoder()
        while text:
            try:
                document, end = decoder.raw_decode(text)
            except json.JSONDecodeError:
                break
            all.append(document)
            text = text[end:].lstrip()
        return all

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def ashlar_follows(node, *command):
    return Follow([os.environ["ASHLAR_BIN"], "--json", *command],
                  {"ASHLAR_HOST_it": node.endpoint.replace("http://", f"http://{ACCESS}:{SECRET}@")})


def mc_follows(node, home, *command):
    return Follow([f"{os.environ['CLIENT_BIN']}/mc", "--json", *command],
                  {"MC_HOST_it": node.endpoint.replace("http://", f"http://{ACCESS}:{SECRET}@"), "MC_CONFIG_DIR": str(home)})


def usage(node, bucket):
    return admin(node, "GET", f"/ashlar/api/v1/usage/{bucket}")


def metrics(node, path="/minio/v2/metrics/cluster"):
    """Name and labels of each sample, and its value."""
    token = cli(node, "info", "it", "--metrics-token")[0]["token"]
    request = urllib.request.Request(f"{node.endpoint}{path}", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        lines = [line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines}


def test_every_node_shows_the_usage_of_what_all_nodes_changed(cluster, bucket, tmp_path):
    clients = cluster.clients(3)
    sizes = {}
    for i in range(24):
        size = (100, 5000, 300_000)[i % 3]
        clients[i % NODES].put_object(Bucket=bucket, Key=f"k{i}", Body=noise(size, i))
        sizes[f"k{i}"] = size
    # One node writes, another one overwrites and removes.
    for i in range(8):
        clients[(i + 1) % NODES].put_object(Bucket=bucket, Key=f"k{i}", Body=noise(70, i))
        sizes[f"k{i}"] = 70
    for i in range(8, 12):
        clients[(i + 2) % NODES].delete_object(Bucket=bucket, Key=f"k{i}")
        del sizes[f"k{i}"]
    objects, total = len(sizes), sum(sizes.values())

    def known(node):
        shown = usage(node, bucket)
        assert (shown["objects"], shown["versions"], shown["bytes"]) == (objects, objects, total), shown
        assert shown["complete"] and shown["sizes"]["LESS_THAN_1024_B"] == sum(s < 1024 for s in sizes.values())
        assert shown["version_counts"]["SINGLE_VERSION"] == objects

    for node in cluster.nodes:
        passes(lambda: known(node))
    # Also the changes of the last moment, at whichever node they were made.
    clients[3].put_object(Bucket=bucket, Key="last", Body=b"x" * 10)
    objects, total, sizes["last"] = objects + 1, total + 10, 10
    for node in cluster.nodes:
        passes(lambda: known(node))
    infos = [cli(node, "info", "it")[0] for node in cluster.nodes]
    assert len({info["usage"]["objects"] for info in infos}) == 1
    assert all(info["usage"]["bytes"] >= total for info in infos)
    for node in cluster.nodes:
        shown = mc(node, tmp_path, "admin", "info", "it")["info"]
        assert shown["objects"]["count"] == infos[0]["usage"]["objects"]
        assert shown["usage"]["size"] == infos[0]["usage"]["bytes"]
        stat = mc(node, tmp_path, "stat", f"it/{bucket}")
        assert stat["Usage"]["size"] == total and stat["Usage"]["objectsCount"] == objects, stat
    # What a node has changed is still counted when it ends, and when it is back.
    victim = cluster.nodes[0]
    victim.kill()
    for node in cluster.nodes[1:]:
        holds(lambda: (lambda u: [u["objects"], u["bytes"]])(usage(node, bucket)) == [objects, total])
    victim.launch()
    victim.wait(60)
    for node in cluster.nodes:
        holds(lambda: usage(node, bucket)["complete"], 60)
        passes(lambda: known(node))


def test_metrics_of_the_cluster_are_the_same_at_every_node_and_others_name_theirs(cluster, bucket):
    clients = cluster.clients(3)
    for n, s3 in enumerate(clients):
        for i in range(3 + n):
            s3.put_object(Bucket=bucket, Key=f"{n}/{i}", Body=b"x" * 1000)
    written = sum(3 + n for n in range(NODES))
    value = lambda shown, name, **labels: [
        v for k, v in shown.items()
        if k.startswith(name + "{") and all(f'{label}="{text}"' in k for label, text in labels.items())
    ]

    def agree():
        shown = [metrics(node) for node in cluster.nodes]
        buckets = [metrics(node, "/minio/v2/metrics/bucket") for node in cluster.nodes]
        for page in buckets:
            assert value(page, "minio_bucket_usage_object_total", bucket=bucket) == [written]
            assert value(page, "minio_bucket_usage_total_bytes", bucket=bucket) == [1000 * written]
        for name in ("minio_cluster_usage_object_total", "minio_cluster_usage_total_bytes",
                     "minio_cluster_capacity_raw_total_bytes", "minio_cluster_bucket_total", "ashlar_usage_complete"):
            assert len({value(page, name)[0] for page in shown}) == 1, name
        capacity = cli(cluster.nodes[0], "info", "it")[0]["capacity"]["raw"]
        assert value(shown[1], "minio_cluster_capacity_raw_total_bytes") == [capacity]
        for node, page in zip(cluster.nodes, shown):
            # Every sample names the node that it is from; requests are those of that node.
            assert page and {k.split('server="')[1].split('"')[0] for k in page} == {f"127.0.0.1:{node.port}"}
        puts = [value(page, "minio_s3_requests_total", api="putobject")[0] for page in shown]
        assert all(p >= 3 + n for n, p in enumerate(puts)), puts

    passes(agree)


def test_trace_and_log_show_all_nodes(cluster, bucket, tmp_path):
    number = numbers(cluster)
    asked, victim = cluster.nodes[1], cluster.nodes[2]
    # `mc` names its alias last.
    with ashlar_follows(asked, "admin", "trace", "it") as ours, \
            mc_follows(asked, tmp_path, "admin", "trace", "-v", "it") as theirs, \
            ashlar_follows(asked, "admin", "logs", "it", "--follow", "--last", "5") as log, \
            mc_follows(asked, tmp_path, "admin", "logs", "it") as their_log:
        def seen():
            for n, s3 in enumerate(cluster.clients(3)):
                s3.put_object(Bucket=bucket, Key=f"traced-{n}", Body=b"x")
            at = lambda rows, path: {n for n in range(NODES) if any(r.get("path", "").endswith(f"traced-{n}") for r in rows)}
            assert at(ours.documents(), "path") == set(range(NODES))
            rows = {r["node"] for r in ours.documents() if "traced-" in r.get("path", "")}
            assert rows == set(number)
            hosts = {(r.get("nodename") or r.get("host")) for r in theirs.documents() if "traced-" in json.dumps(r)}
            assert hosts == {f"127.0.0.1:{n.port}" for n in cluster.nodes}, theirs.documents()[-1:]

        passes(seen)
        # A bucket that is refused is in the log of the node that refuses.
        def logged():
            for node in cluster.nodes:
                with pytest.raises(urllib.error.HTTPError):
                    admin(node, "DELETE", "/ashlar/api/v1/users/nobody-of-this-name")
            lines = [l for l in log.documents() if "nobody-of-this-name" in l["message"]]
            assert {l["node"] for l in lines} == set(number), log.lines[-5:]
            assert "nobody-of-this-name" in "".join(their_log.lines)

        passes(logged)
        victim.kill()
        gone = number[2]
        holds(lambda: any(r["kind"] == "cluster" and r["node"] == gone for r in ours.documents()))
        gone_lines = lambda: [l["message"] for l in log.documents() if l["node"] == gone]
        holds(lambda: any("is not running" in m or "does not answer" in m for m in gone_lines()))
        victim.launch()
        victim.wait(60)

        def again():
            client(victim, 3).put_object(Bucket=bucket, Key="after", Body=b"x")
            rows = [r for r in ours.documents() if r.get("path", "").endswith("/after")]
            assert rows and {r["node"] for r in rows} == {gone}
            said = [r["error"] for r in ours.documents() if r["kind"] == "cluster" and r["node"] == gone]
            assert said[-1].endswith("answers again"), said

        passes(again)


def test_listeners_hear_of_changes_through_every_node(cluster, bucket, tmp_path):
    asked = cluster.nodes[3]
    with mc_follows(asked, tmp_path, "watch", f"it/{bucket}", "--events", "put,delete") as heard:
        def all_heard():
            for n, s3 in enumerate(cluster.clients(3)):
                s3.put_object(Bucket=bucket, Key=f"from-{n}", Body=b"x")
            text = "".join(heard.lines)
            assert all(f"from-{n}" in text for n in range(NODES)), text

        passes(all_heard)
        before = len(heard.lines)
        cluster.clients(3)[0].delete_object(Bucket=bucket, Key="from-2")
        holds(lambda: any("ObjectRemoved" in line and "from-2" in line for line in list(heard.lines)[before:]))
