"""Four nodes over etcd as one store, each a process of its own, while nodes and etcd are killed and paused."""

import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest
from botocore.exceptions import ClientError

from conftest import ACCESS, SECRET, free_port, noise
from histories import check_all, client, eventually, stop, writers
from nodes import NODES, Cluster, Node


@pytest.fixture(scope="module")
def cluster():
    cluster = Cluster()
    try:
        yield cluster
    finally:
        cluster.end()


@pytest.fixture
def bucket(cluster, request):
    name = request.node.name.replace("_", "-")[:60]
    eventually(lambda: cluster.clients(3)[0].create_bucket(Bucket=name))
    for s3 in cluster.clients(3):
        eventually(lambda: s3.head_bucket(Bucket=name))
    return name


def test_every_node_shows_what_any_node_took(cluster, bucket):
    clients = cluster.clients(3)
    for n, s3 in enumerate(clients):
        for size in (0, 10, 5000, 300_000, 3_000_000):
            s3.put_object(Bucket=bucket, Key=f"{n}/{size}", Body=noise(size, n))
    wanted = sorted(f"{n}/{size}" for n in range(NODES) for size in (0, 10, 5000, 300_000, 3_000_000))
    for s3 in clients:
        assert [o["Key"] for o in s3.list_objects_v2(Bucket=bucket)["Contents"]] == wanted
        for n in range(NODES):
            for size in (0, 10, 5000, 300_000, 3_000_000):
                assert s3.get_object(Bucket=bucket, Key=f"{n}/{size}")["Body"].read() == noise(size, n)
    # An upload whose parts go to different nodes.
    upload = clients[0].create_multipart_upload(Bucket=bucket, Key="parts")["UploadId"]
    parts = [noise(5 << 20, 70), noise(5 << 20, 71), noise(1000, 72)]
    tags = [
        clients[i + 1].upload_part(Bucket=bucket, Key="parts", UploadId=upload, PartNumber=i + 1, Body=part)["ETag"]
        for i, part in enumerate(parts)
    ]
    named = [{"PartNumber": i + 1, "ETag": tag} for i, tag in enumerate(tags)]
    clients[2].complete_multipart_upload(Bucket=bucket, Key="parts", UploadId=upload, MultipartUpload={"Parts": named})
    assert clients[3].get_object(Bucket=bucket, Key="parts")["Body"].read() == b"".join(parts)


def test_one_of_racers_at_all_nodes_creates_a_key(cluster, bucket):
    clients = cluster.clients(1)

    def race(n, key):
        for _ in range(50):
            try:
                clients[n].put_object(Bucket=bucket, Key=key, Body=bytes([n]), IfNoneMatch="*")
                return True
            except ClientError as e:
                if e.response["Error"]["Code"] == "PreconditionFailed":
                    return False
                time.sleep(0.01)
        raise AssertionError("never decided")

    with ThreadPoolExecutor(NODES) as pool:
        for i in range(10):
            won = list(pool.map(lambda n: race(n, f"key{i}"), range(NODES)))
            assert won.count(True) == 1, won
            body = clients[i % NODES].get_object(Bucket=bucket, Key=f"key{i}")["Body"].read()
            assert body == bytes([won.index(True)])


def test_buckets_and_their_settings_are_those_of_the_cluster(cluster):
    clients = cluster.clients(3)
    for n, s3 in enumerate(clients):
        s3.create_bucket(Bucket=f"made-at-{n}")
        s3.put_bucket_versioning(Bucket=f"made-at-{n}", VersioningConfiguration={"Status": "Enabled"})
    for s3 in clients:
        for n in range(NODES):
            eventually(lambda: s3.head_bucket(Bucket=f"made-at-{n}"))
            shown = lambda: s3.get_bucket_versioning(Bucket=f"made-at-{n}").get("Status")
            until = time.monotonic() + 10
            while shown() != "Enabled" and time.monotonic() < until:
                time.sleep(0.1)
            assert shown() == "Enabled"
    with pytest.raises(ClientError, match="BucketAlreadyOwnedByYou"):
        clients[1].create_bucket(Bucket="made-at-0")
    clients[2].delete_bucket(Bucket="made-at-0")


def test_a_killed_node_costs_nothing_that_was_acknowledged(cluster, bucket):
    states = [{} for _ in range(4)]
    all_writers = writers(cluster, bucket, states)
    time.sleep(3)
    victim = cluster.nodes[2]
    victim.kill()
    time.sleep(2)
    before = [w.acknowledged for w in all_writers]
    time.sleep(6)
    assert all(w.acknowledged > b for w, b in zip(all_writers, before)), "a writer at another node stands still"
    stop(all_writers)
    check_all(cluster.clients(3)[0], bucket, states)
    victim.launch()
    victim.wait(60)
    # It serves at once what it has missed.
    check_all(client(victim, 3), bucket, states)


def test_a_paused_node_delays_others_by_seconds_only(cluster, bucket):
    states = [{} for _ in range(4)]
    paused = cluster.nodes[1]
    all_writers = writers(cluster, bucket, states, but=[paused.number])
    time.sleep(2)
    paused.process.send_signal(signal.SIGSTOP)
    try:
        time.sleep(4)
        before = [w.acknowledged for w in all_writers]
        for writer in all_writers:
            writer.slowest = 0
        time.sleep(8)
        assert all(w.acknowledged > b for w, b in zip(all_writers, before)), "a writer stands still"
    finally:
        paused.process.send_signal(signal.SIGCONT)
    stop(all_writers)
    print("slowest request beside a paused node:", max(w.slowest for w in all_writers))
    check_all(cluster.clients(3)[0], bucket, states)
    check_all(client(paused, 3), bucket, states)


def test_all_nodes_killed_at_once_lose_nothing(cluster, bucket):
    states = [{} for _ in range(4)]
    all_writers = writers(cluster, bucket, states)
    time.sleep(3)
    for node in cluster.nodes:
        node.kill()
    for writer in all_writers:
        writer.going = False
    for node in cluster.nodes:
        node.launch()
    for node in cluster.nodes:
        node.wait(60)
    stop(all_writers)
    for n in range(NODES):
        check_all(cluster.clients(3)[n], bucket, states)


def test_without_etcd_objects_are_served_and_nodes_return(cluster, bucket):
    s3 = cluster.clients(3)
    s3[0].put_object(Bucket=bucket, Key="before", Body=b"before")
    time.sleep(2)  # snapshots are written
    cluster.etcd.kill()
    try:
        for n in range(NODES):
            s3[n].put_object(Bucket=bucket, Key=f"without/{n}", Body=noise(100_000, n))
            assert s3[(n + 1) % NODES].get_object(Bucket=bucket, Key=f"without/{n}")["Body"].read() == noise(100_000, n)
        with pytest.raises(ClientError) as refused:
            client(cluster.nodes[0]).create_bucket(Bucket="cannot-be")
        assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
        node = cluster.nodes[3]
        node.kill()
        node.launch()
        node.wait(90)
        assert client(node, 3).get_object(Bucket=bucket, Key="before")["Body"].read() == b"before"
        eventually(lambda: client(node, 3).put_object(Bucket=bucket, Key="again", Body=b"again"))
    finally:
        cluster.etcd.start()
    eventually(lambda: client(cluster.nodes[0]).create_bucket(Bucket="can-be-again"), 60)
    assert s3[2].get_object(Bucket=bucket, Key="again")["Body"].read() == b"again"


@pytest.mark.parametrize("arguments, env, why", [
    ([], {"ASHLAR_ROOT_PASSWORD": "another-password-of-root"}, "root's password"),
    ([], {"ASHLAR_ROOT_USER": "another-user"}, "root's access key"),
    (["--region", "eu-west-1"], {}, "the region"),
    ([], {}, "--join"),
    (["--join", "abc.def"], {}, "not known"),
])
def test_a_node_that_does_not_fit_is_refused_and_writes_nothing(cluster, arguments, env, why):
    number = 100 + len(list(cluster.home.glob("node*")))
    node = Node(cluster, number, arguments, env)
    try:
        said = node.ends()
        assert why in said, node.text()
        assert not [f for d in node.home.glob("drive*") for f in d.iterdir() if "--join" not in why and why != "not known"]
    finally:
        if node.process.poll() is None:
            node.kill()


def test_drives_of_a_cluster_are_not_those_of_a_machine_that_is_alone(cluster):
    node = cluster.nodes[0]
    node.kill()
    try:
        env = {**os.environ, "ASHLAR_ROOT_USER": "clienttests", "ASHLAR_ROOT_PASSWORD": "clienttests-secret-key",
               "ASHLAR_STATE_DIR": str(node.home / "state")}
        address = ["--address", f"127.0.0.1:{free_port()}"]
        alone = subprocess.run([os.environ["ASHLAR_BIN"], "server", node.drives, *address], env=env, timeout=60,
                               stdin=subprocess.DEVNULL, capture_output=True, text=True)
        assert alone.returncode != 0 and "belongs to the cluster test" in alone.stderr, alone.stderr
        other = subprocess.run(
            [os.environ["ASHLAR_BIN"], "server", node.drives, *address, "--control", cluster.etcd.url,
             "--cluster", "other", "--nodes", "1", "--node-address", f"127.0.0.1:{node.node_port}"],
            env=env, timeout=60, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        assert other.returncode != 0 and "belongs to the cluster test" in other.stderr, other.stderr
    finally:
        node.launch()
        node.wait(60)


def signed(node):
    """The URL of a node with root's credentials."""
    return node.endpoint.replace("http://", f"http://{ACCESS}:{SECRET}@")


def cli(node, *args, code=0, timeout=120):
    """Runs `ashlar --json` with the alias `it` for a node; the documents that it prints."""
    done = subprocess.run([os.environ["ASHLAR_BIN"], "--json", *map(str, args)], timeout=timeout, text=True,
                          env={**os.environ, "ASHLAR_HOST_it": signed(node)}, capture_output=True, stdin=subprocess.DEVNULL)
    assert done.returncode == code, (args, done.returncode, done.stdout, done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def mc(node, home, *args, code=0):
    done = subprocess.run([f"{os.environ['CLIENT_BIN']}/mc", "--json", *args], timeout=60, text=True,
                          env={"PATH": os.environ["PATH"], "HOME": str(home), "MC_HOST_it": signed(node)},
                          capture_output=True, stdin=subprocess.DEVNULL)
    assert (done.returncode == 0) == (code == 0), (args, done.stdout, done.stderr)
    return json.JSONDecoder().raw_decode(done.stdout.strip())[0]


def holds(what, seconds=90):
    """Waits until something is so."""
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until
        time.sleep(0.3)


def passes(check, seconds=90):
    """Repeats assertions until they hold: a busy node may miss the two seconds that it has for an answer to another."""
    until = time.monotonic() + seconds
    while True:
        try:
            return check()
        except AssertionError:
            if time.monotonic() > until:
                raise
            time.sleep(0.3)


def numbers(cluster):
    """The number of each node in the cluster, which is not that of the test."""
    of = {n["endpoint"]: n["node"] for n in cli(cluster.nodes[0], "info", "it")[0]["nodes"]}
    return [of[node.endpoint] for node in cluster.nodes]


def status(url):
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def calm(cluster):
    """Waits until every node could be stopped: all run, and nothing is left to heal."""
    for node in cluster.nodes:
        until_may_stop(node)
    return numbers(cluster)


def until_may_stop(node, seconds=180):
    """Waits until the node could be stopped: nothing is left to heal that would be missed then."""
    holds(lambda: status(f"{node.endpoint}/minio/health/cluster?maintenance=true")[0] == 200, seconds)


def all_nodes_answer(cluster, asked, number):
    """Asserts that one node tells what all know."""
    info = cli(asked, "info", "it")[0]
    assert [n["node"] for n in info["nodes"]] == sorted(number)
    assert all(n["problem"] is None and n["version"] and n["uptime_s"] is not None for n in info["nodes"]), info["nodes"]
    assert [n["node"] for n in info["nodes"] if n["this"]] == [number[3]]
    assert cli(asked, "cluster", "may-stop", number[0], "it")[0]["may_stop"]
    rows = cli(asked, "drive", "list", "it")
    assert [(row["node"], row["id"]) for row in rows] == [(row["node"], row["id"]) for row in info["drives"]]
    for node, n in zip(cluster.nodes, number):
        paths = {row["path"] for row in rows if row["node"] == n}
        assert paths == {str(node.home / "drive1"), str(node.home / "drive2")}
    assert {row["state"] for row in rows} == {"online"}
    one = sum(row["capacity"] for row in rows if row["node"] == number[3])
    assert info["capacity"]["raw"] > one / 2
    lines = cli(asked, "admin", "logs", "it", "--last", 2000)
    assert {line["node"] for line in lines} == set(number)
    assert [line["time_ms"] for line in lines] == sorted(line["time_ms"] for line in lines)
    top = cli(asked, "admin", "top", "it")[0]
    assert [n["node"] for n in top["nodes"]] == sorted(number)


def one_node_is_named(cluster, asked, number, home):
    """Asserts that one node tells that the first does not answer, and what the others know."""
    victim = cluster.nodes[0]
    rows = cli(asked, "drive", "list", "it")
    gone = [row for row in rows if row["node"] == number[0]]
    assert {row["path"] for row in gone} == {str(victim.home / "drive1"), str(victim.home / "drive2")}
    assert {row["state"] for row in gone} == {"unknown"} and all(f"node {number[0]}" in row["problem"] for row in gone)
    assert {row["state"] for row in rows if row["node"] != number[0]} == {"online"}
    shown = {s["endpoint"]: s for s in mc(asked, home, "admin", "info", "it")["info"]["servers"]}
    server = shown[f"127.0.0.1:{victim.port}"]
    assert server["state"] == "offline" and [d["state"] for d in server["drives"]] == ["offline", "offline"]
    assert [s["state"] for s in shown.values()].count("online") == NODES - 1
    assert any("no lines" in line["message"] and line["node"] == number[0] for line in cli(asked, "admin", "logs", "it"))


def test_any_node_answers_for_all_and_names_the_one_that_is_away(cluster, tmp_path):
    number = calm(cluster)
    asked, victim = cluster.nodes[3], cluster.nodes[0]
    passes(lambda: all_nodes_answer(cluster, asked, number))
    # Whichever node refused a request, any other knows why.
    try:
        urllib.request.urlopen(f"{cluster.nodes[1].endpoint}/no-bucket-of-anybody/key", timeout=20)
        raise AssertionError("it was not refused")
    except urllib.error.HTTPError as error:
        assert error.code == 403
        request_id = error.headers["x-amz-request-id"]

    def explained():
        assert cli(asked, "admin", "why", "it", request_id)[0]["request_id"] == request_id

    passes(explained)

    def all_seen_by_mc():
        shown = mc(asked, tmp_path, "admin", "info", "it")["info"]
        states = {s["endpoint"]: s["state"] for s in shown["servers"]}
        assert states == {f"127.0.0.1:{n.port}": "online" for n in cluster.nodes}
        assert all(s["uptime"] is not None and len(s["drives"]) == 2 for s in shown["servers"])

    passes(all_seen_by_mc)
    refused = mc(asked, tmp_path, "admin", "service", "restart", "it", code=1)
    assert "one after another" in json.dumps(refused), refused
    victim.kill()
    try:
        away = lambda: [n["node"] for n in cli(asked, "info", "it")[0]["nodes"] if n["problem"]]
        holds(lambda: away() == [number[0]])
        passes(lambda: one_node_is_named(cluster, asked, number, tmp_path))
        # Without a second node, half of the drives would be left.
        maintenance = f"{asked.endpoint}/minio/health/cluster?maintenance=true"
        holds(lambda: status(maintenance)[0] == 412)
        assert "would not serve" in status(maintenance)[1]
        assert status(f"{asked.endpoint}/minio/health/cluster")[0] == 200
        assert not cli(asked, "cluster", "may-stop", number[1], "it", code=5)[0]["may_stop"]
        token = cli(asked, "info", "it", "--metrics-token")[0]["token"]
        request = urllib.request.Request(f"{asked.endpoint}/minio/v2/metrics/cluster", headers={"Authorization": f"Bearer {token}"})

        def counted():
            with urllib.request.urlopen(request, timeout=20) as answer:
                text = answer.read().decode()
            value = lambda name: [int(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name)]
            names = ["nodes_online", "nodes_offline", "drive_online", "drive_offline"]
            return [value(f"minio_cluster_{name}_total{{")[0] for name in names] + [len(value("ashlar_node_online{")), sum(value("ashlar_node_online{"))]

        holds(lambda: counted() == [NODES - 1, 1, 2 * NODES - 2, 2, NODES, NODES - 1])
    finally:
        victim.launch()
        victim.wait(60)


def test_orders_about_a_drive_go_to_the_node_that_has_it(cluster):
    number = calm(cluster)
    asked, other = cluster.nodes[2], cluster.nodes[1]
    path = str(other.home / "drive2")
    state = lambda node: {row["path"]: row["state"] for row in cli(node, "drive", "list", "it")}[path]
    rows = passes(lambda: cli(asked, "drive", "offline", "it", path))[0]["drives"]
    assert {row["path"]: row["state"] for row in rows}[path] == "held" and len(rows) == 2 * NODES
    assert state(other) == "held"
    passes(lambda: cli(asked, "drive", "online", "it", path, "--node", number[1]))
    holds(lambda: state(asked) == "online")
    # The named node has no such drive, or there is no such node.
    cli(asked, "drive", "offline", "it", path, "--node", number[0], code=1)
    cli(asked, "drive", "offline", "it", path, "--node", 77, code=3)
    cli(asked, "drive", "offline", "it", "/no/such/drive", code=1)
    assert state(asked) == "online"


def test_nodes_restart_one_after_another_while_clients_go_on(cluster, bucket):
    number = calm(cluster)
    asked = cluster.nodes[1]
    started = lambda: {n["node"]: n["started_ms"] for n in cli(asked, "info", "it")[0]["nodes"]}
    before = started()
    states = [{} for _ in range(2)]
    all_writers = writers(cluster, bucket, states)
    said = cli(asked, "admin", "service", "restart", "it", "--timeout", 300, timeout=1200)
    order = [document["node"] for document in said[:-1]]
    assert sorted(order) == sorted(number) and order[-1] == number[1] and said[-1]["nodes"] == order
    stop(all_writers)
    after = started()
    assert all(after[n] != before[n] for n in number)
    check_all(cluster.clients(3)[0], bucket, states)
    # One alone.
    calm(cluster)
    cli(asked, "admin", "service", "restart", "it", "--node", number[3])
    again = started()
    assert [n for n in number if again[n] != after[n]] == [number[3]]


@pytest.fixture
def wide_cluster():
    """Five nodes of two drives, more than a group has slots; a node that is gone is rebuilt soon."""
    cluster = Cluster("4+2", count=5, arguments=["--rebuild-after", "5s"])
    try:
        yield cluster
    finally:
        cluster.end()


def of(status, node):
    """What a status says of a node; numbers are given in the order in which nodes enrol."""
    return next(n for n in status["nodes"] if n["address"] == f"127.0.0.1:{node.node_port}")


def until(cluster, node, what, seconds=600):
    """Waits until the status at a node is as wanted."""
    end = time.monotonic() + seconds
    while True:
        status = cluster.ask(node, "cluster", "status")
        if what(status):
            return status
        assert time.monotonic() < end, status
        time.sleep(0.5)


def test_slots_of_a_node_that_is_gone_move_and_the_next_loss_costs_nothing(wide_cluster):
    cluster = wide_cluster
    seen, gone, next_gone = cluster.nodes[0], cluster.nodes[2], cluster.nodes[4]
    s3 = [client(n, 3) for n in cluster.nodes if n not in (gone, next_gone)]
    eventually(lambda: s3[0].create_bucket(Bucket="moved"))
    for one in s3:
        eventually(lambda: one.head_bucket(Bucket="moved"))
    sizes = (10, 5000, 300_000, 2_000_000)
    wanted = {}

    def write(prefix):
        for i in range(40):
            key, body = f"{prefix}/{i}", noise(sizes[i % 4], len(wanted))
            eventually(lambda: s3[i % len(s3)].put_object(Bucket="moved", Key=key, Body=body))
            wanted[key] = body

    def read_all():
        for n, (key, body) in enumerate(wanted.items()):
            got = eventually(lambda: s3[n % len(s3)].get_object(Bucket="moved", Key=key)["Body"].read())
            assert got == body, key

    def moved_away(node, others):
        """Waits until no group has a slot on a node, and all that its loss cost was made again."""
        until(cluster, seen, lambda status: (
            (of(status, node)["away"] or {"groups": 1})["groups"] == 0
            and status["groups"]["complete"] == status["groups"]["total"]
        ))
        for other in others:
            end = time.monotonic() + 300
            while [r for r in cluster.ask(other, "info")["heal"]["rebuilds"] if r["phase"] != "done"]:
                assert time.monotonic() < end, cluster.ask(other, "info")["heal"]
                time.sleep(0.5)

    write("before")
    gone.kill()
    write("while")
    status = until(cluster, seen, lambda s: of(s, gone)["away"])
    assert of(status, gone)["away"]["rebuild_after_s"] == 5
    write("moving")
    moved_away(gone, [n for n in cluster.nodes if n is not gone])
    # What was written while slots moved may still be made on the drives that have them now.
    until_may_stop(next_gone, 300)
    next_gone.kill()
    read_all()
    write("two-away")
    moved_away(next_gone, [n for n in cluster.nodes if n not in (gone, next_gone)])
    read_all()
    for node in (gone, next_gone):
        node.launch()
    for node in (gone, next_gone):
        node.wait(90)
    # Both are back, forget what moved away, and everything is complete.
    status = until(cluster, seen, lambda s: (
        all(n["running"] and n["away"] is None for n in s["nodes"])
        and s["groups"]["writable"] == s["groups"]["readable"] == s["groups"]["complete"] == s["groups"]["total"]
        and s["groups"]["left"] == 0
    ))
    assert len(status["nodes"]) == 5
    s3 += [client(gone, 3), client(next_gone, 3)]
    read_all()
    write("after")
    read_all()
