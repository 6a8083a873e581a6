"""The built-in history of metrics: measured by the server itself, kept over restarts, the same from every node."""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from conftest import ACCESS, SECRET, Server, one_server, until
from nodes import Cluster
from test_console import OURS, ask, s3_of, sign_in
from test_cluster import cli
from test_ldap import signed

pytestmark = one_server


def history(server, access=ACCESS, secret=SECRET, **query):
    """Status and answer."""
    text = "&".join(f"{k}={v}" for k, v in query.items())
    return signed(server, (access, secret), "GET", f"history?{text}")


def requests(answer):
    """How many reads and writes are in an answer."""
    def count(name):
        # A rate is per measured second, and a step of ten seconds has about as many.
        return sum((v or 0) * answer["step_s"] for v in answer[name])
    return count("reads"), count("writes")


@pytest.fixture(scope="module")
def home():
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    home = Path(tempfile.mkdtemp(prefix="ashlar-history-", dir=base))
    yield home
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def own(home, request):
    folder = home / request.node.name
    folder.mkdir()
    s = Server(folder)
    try:
        yield s
    finally:
        if s.process.poll() is None:
            s.stop()


def ashlar(server, *args):
    env = {**os.environ, "ASHLAR_HOST_it": server.endpoint.replace("http://", f"http://{ACCESS}:{SECRET}@"), "NO_COLOR": "1"}
    done = subprocess.run([os.environ["ASHLAR_BIN"], *args], env=env, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_history_shows_traffic_soon_and_outlives_restarts_and_damage(own):
    s3 = s3_of(own)
    s3.create_bucket(Bucket="traffic")
    for i in range(50):
        s3.put_object(Bucket="traffic", Key=str(i), Body=bytes(1000))
    for i in range(100):
        s3.get_object(Bucket="traffic", Key=str(i % 50))["Body"].read()
    with pytest.raises(ClientError):
        s3.get_object(Bucket="traffic", Key="missing")

    def measured():
        status, answer = history(own)
        assert status == 200, answer
        reads, writes = requests(answer)
        return answer if reads > 50 and writes > 20 and any(answer["client_errors"]) else None

    answer = until(measured, 60)
    steps = len(answer["reads"])
    assert answer["step_s"] == 10 and steps in (360, 361)
    assert all(len(answer[name]) == steps for name in answer if isinstance(answer[name], list))
    at = max(i for i, v in enumerate(answer["reads"]) if v)
    assert 0 < answer["median_ms"][at] <= answer["p99_ms"][at] < 10_000
    assert 0 < answer["free_bytes"][at] < answer["capacity_bytes"][at]
    assert sum(v or 0 for v in answer["bytes_in"]) > 1000 and sum(v or 0 for v in answer["bytes_out"]) > 1000
    assert answer["forecast"] is None and answer["nodes"] is None
    # The console gets it as every call, and the command prints it.
    status, _, body = ask(f"{own.endpoint}/console/admin/history", headers={**OURS, "Cookie": sign_in(own)})
    assert status == 200 and json.loads(body)["step_s"] == 10
    assert json.loads(ashlar(own, "--json", "admin", "history", "it"))["step_s"] == 10
    text = ashlar(own, "admin", "history", "it", "--last", "10m")
    assert "Reads/s" in text and "%" in text

    # A stop writes what was measured; the next start goes on with it.
    before = requests(history(own)[1])
    assert own.stop() == 0
    files = sorted(p.name for p in (own.home / "drive1" / "history").iterdir())
    assert any(f.startswith("10-") for f in files), files
    own.start()

    def kept():
        # The files are read after the start.
        after = requests(history(own)[1])
        return after[0] >= before[0] * 0.9 and after[1] >= before[1] * 0.9

    until(kept, 60)

    # A damaged file is set aside, with a message, and everything else works.
    own.stop()
    path = next(p for p in (own.home / "drive1" / "history").iterdir() if p.name.startswith("10-"))
    path.write_bytes(b"this is not a history" * 400)
    own.start()
    until(lambda: "set aside" in own.log.read_text(), 90)
    assert path.with_name(path.name + ".damaged").exists()
    assert history(own)[0] == 200
    s3.put_object(Bucket="traffic", Key="after", Body=b"x")
    until(lambda: any(history(own, last_s=600)[1]["writes"]), 90)


def test_drive_with_a_history_is_emptied_and_replaced(own):
    until(lambda: (own.home / "drive1" / "history").exists(), 90)
    s3_of(own).create_bucket(Bucket="kept")
    for entry in (own.home / "drive1").iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    # The history makes nothing in the blank folder, so that it becomes a drive again.
    until(lambda: (own.home / "drive1" / "label").exists(), 90)
    until(lambda: all(d["state"] == "online" for d in json.loads(ashlar(own, "--json", "info", "it"))["drives"]), 90)
    assert history(own)[0] == 200


def test_history_needs_its_permission_and_good_numbers(own):
    root = (ACCESS, SECRET)
    signed(own, root, "PUT", "users/watcher", {"secret": "secret-of-the-watcher"})
    status, answer = history(own, "watcher", "secret-of-the-watcher")
    assert status == 403 and "admin:Prometheus" in answer["error"]
    document = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "admin:Prometheus"}]}
    signed(own, root, "PUT", "policies/watch", document)
    signed(own, root, "POST", "policies/attach", {"policies": ["watch"], "user": "watcher"})
    assert history(own, "watcher", "secret-of-the-watcher")[0] == 200
    for query in [{"last_s": 59}, {"last_s": 40_000_000}, {"last_s": "x"}, {"until_ms": -1}, {"until_ms": 10**18}, {"steps": 0}, {"steps": 401}]:
        status, answer = history(own, **query)
        assert status == 400 and answer["error"], query
    # Long spans have few steps, and all of them have an answer.
    for last_s in [60, 86_400, 7 * 86_400, 400 * 86_400]:
        status, answer = history(own, last_s=last_s)
        assert status == 200 and len(answer["reads"]) <= 401 and answer["step_s"] * len(answer["reads"]) >= last_s


def test_history_of_a_cluster_is_the_sum_and_names_who_is_away():
    cluster = Cluster()
    try:
        clients = cluster.clients(3)
        until(lambda: clients[0].create_bucket(Bucket="shared"), 90)
        for client in clients:
            until(lambda: client.head_bucket(Bucket="shared"), 90)
            for i in range(30):
                client.put_object(Bucket="shared", Key=f"{i}", Body=b"x")
        asked = cluster.nodes[0]

        def all_there():
            answer = cli(asked, "admin", "history", "it")[0]
            whole = all(n["problem"] is None for n in answer["nodes"]) and len(answer["nodes"]) == 4
            return answer if whole and requests(answer)[1] > 90 else None

        answer = until(all_there, 90)
        # Every node has drives of the same size.
        own = max(v for v in answer["capacity_bytes"] if v)
        assert own > 0
        cluster.nodes[2].kill()

        def one_away():
            answer = cli(asked, "admin", "history", "it")[0]
            return answer if any(n["problem"] for n in answer["nodes"]) else None

        answer = until(one_away, 90)
        away = [n for n in answer["nodes"] if n["problem"]]
        assert [n["node"] for n in away] == [3] or len(away) == 1
        assert f"node {away[0]['node']}" in away[0]["problem"] and answer["forecast"] is None
    finally:
        cluster.end()
