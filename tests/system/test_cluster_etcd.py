"""Four nodes over an etcd that fails: members killed and paused, no quorum, no space, data removed, TLS and users.

Objects are read and written all the time. What changes buckets waits for etcd, or is refused with the reason."""

import base64
import json
import os
import shutil
import signal
import ssl
import subprocess
import time

import pytest
from botocore.exceptions import ClientError

from conftest import ACCESS, SECRET, noise, until
from histories import check_all, client, eventually, stop, writers
from nodes import NODES, Cluster, Etcd, Node

# Small enough to be filled within a second, and many times what a control store of tests needs.
SPACE = 24 << 20
# What clients were told when buckets could not be made.
REFUSALS = []


@pytest.fixture(scope="module")
def cluster():
    cluster = Cluster(etcd=lambda home: Etcd(home, 3, [f"--quota-backend-bytes={SPACE}"]))
    try:
        yield cluster
    finally:
        cluster.end()


@pytest.fixture
def bucket(cluster, request):
    name = request.node.name.replace("_", "-")[:60].strip("-")
    eventually(lambda: cluster.clients()[0].create_bucket(Bucket=name))
    for s3 in cluster.clients(3):
        eventually(lambda: s3.head_bucket(Bucket=name))
    return name


def objects_go_on(cluster, bucket, where):
    """A PUT at each node and a GET at the next one."""
    s3 = cluster.clients()
    for n in range(NODES):
        s3[n].put_object(Bucket=bucket, Key=f"{where}/{n}", Body=noise(100_000, n))
        assert s3[(n + 1) % NODES].get_object(Bucket=bucket, Key=f"{where}/{n}")["Body"].read() == noise(100_000, n)
    assert len(s3[0].list_objects_v2(Bucket=bucket, Prefix=f"{where}/")["Contents"]) == NODES


def refused(node, bucket):
    """A node does not create a bucket; it answers 503."""
    with pytest.raises(ClientError) as refusal:
        client(node).create_bucket(Bucket=bucket)
    assert refusal.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
    REFUSALS.append(refusal.value.response["Error"]["Message"])


def status(node):
    """What a node answers to `ashlar cluster status`, and the exit code: 0 if everything can be read and written."""
    env = {**os.environ, "ASHLAR_HOST_it": f"http://{ACCESS}:{SECRET}@{node.host}:{node.port}"}
    done = subprocess.run([os.environ["ASHLAR_BIN"], "cluster", "status", "it", "--json"], env=env,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    return json.loads(done.stdout), done.returncode


def control_store(node):
    """What a node says of its control store."""
    said, code = status(node)
    assert code == 0, said
    return said["control_store"]


def running(cluster):
    """The numbers of the nodes that run, as the first node answers, and the exit code."""
    said, code = status(cluster.nodes[0])
    return {node["number"] for node in said["nodes"] if node["running"]}, code


def has(s3, bucket):
    return bucket in {b["Name"] for b in s3.list_buckets()["Buckets"]}


def made_everywhere(cluster, bucket, seconds=60):
    """A bucket can be made at each node, and every node has it."""
    for n, s3 in enumerate(cluster.clients()):
        eventually(lambda: s3.create_bucket(Bucket=f"{bucket}-{n}"), seconds)
    for s3 in cluster.clients():
        for n in range(NODES):
            eventually(lambda: s3.head_bucket(Bucket=f"{bucket}-{n}"))


def test_the_leader_is_killed_under_load(cluster, bucket):
    states = [{} for _ in range(4)]
    all_writers = writers(cluster, bucket, states)
    time.sleep(1)
    leader = cluster.etcd.members[cluster.etcd.leader()]
    leader.kill()
    try:
        before = [w.acknowledged for w in all_writers]
        made_everywhere(cluster, "without-a-member", 20)
        time.sleep(1)
        stop(all_writers)
        assert all(w.acknowledged > b for w, b in zip(all_writers, before)), "a writer stands still"
        assert [w.failed for w in all_writers] == [0] * 4, "objects do not depend on etcd"
    finally:
        cluster.etcd.start()
    check_all(cluster.clients(3)[0], bucket, states)


def test_a_member_that_is_paused_delays_changes_by_seconds(cluster, bucket):
    states = [{} for _ in range(4)]
    all_writers = writers(cluster, bucket, states)
    leader = cluster.etcd.members[cluster.etcd.leader()]
    leader.pause()
    try:
        made_everywhere(cluster, "beside-a-paused-member", 30)
        time.sleep(3)
    finally:
        leader.resume()
    stop(all_writers)
    assert [w.failed for w in all_writers] == [0] * 4, "objects do not depend on etcd"
    check_all(cluster.clients(3)[0], bucket, states)
    made_everywhere(cluster, "after-the-pause")


def test_without_quorum_objects_go_on_and_buckets_wait(cluster, bucket):
    for member in cluster.etcd.members[1:]:
        member.kill()
    try:
        objects_go_on(cluster, bucket, "alone")
        refused(cluster.nodes[0], "without-quorum")
        assert "etcd" in control_store(cluster.nodes[0])["trouble"]
        objects_go_on(cluster, bucket, "still-alone")
    finally:
        cluster.etcd.start()
    assert all(node.process.poll() is None for node in cluster.nodes)
    made_everywhere(cluster, "with-quorum-again")
    # A change that etcd had taken before it lost its quorum may be made later: then at all nodes.
    until(lambda: len({has(s3, "without-quorum") for s3 in cluster.clients()}) == 1, 20)


def test_out_of_space_objects_go_on_and_buckets_wait_until_the_alarm_is_disarmed(cluster, bucket):
    etcd = cluster.etcd
    value = base64.b64encode(bytes(1 << 20)).decode()
    filler = base64.b64encode(b"/another-program/").decode()
    for _ in range(2 * SPACE >> 20):
        if "space exceeded" in etcd.ask("/v3/kv/put", {"key": filler, "value": value}).get("message", ""):
            break
    else:
        pytest.fail("etcd has more space than it was given")
    refused(cluster.nodes[1], "without-space")
    until(lambda: not control_store(cluster.nodes[1])["writable"], 60)
    said = cluster.nodes[1].text()
    assert "NOSPACE" in said and "disarm" in said, said
    objects_go_on(cluster, bucket, "without-space")
    # A node whose announcement ends now cannot be announced again. It runs nevertheless, and others say so.
    announced = etcd.keys("/ashlar/test/nodes/")
    cluster.nodes[2].process.send_signal(signal.SIGSTOP)
    until(lambda: len(etcd.keys("/ashlar/test/nodes/")) < len(announced), 60)
    cluster.nodes[2].process.send_signal(signal.SIGCONT)
    until(lambda: running(cluster) == ({1, 2, 3, 4}, 0), 60)
    objects_go_on(cluster, bucket, "without-an-announcement")
    # As docs/control-store.md says: compact, defragment, disarm.
    etcd.ask("/v3/kv/deleterange", {"key": filler})
    revision = etcd.ask("/v3/kv/range", {"key": filler})["header"]["revision"]
    etcd.ask("/v3/kv/compaction", {"revision": revision, "physical": True})
    for at, member in enumerate(etcd.ids()):
        etcd.ask("/v3/maintenance/defragment", {}, at)
        etcd.ask("/v3/maintenance/alarm", {"action": "DEACTIVATE", "memberID": member, "alarm": "NOSPACE"})
    made_everywhere(cluster, "with-space-again")
    objects_go_on(cluster, bucket, "with-space-again")


def test_a_blank_etcd_is_refused_and_the_old_data_is_accepted_again(cluster, bucket):
    """Nodes go on with what they know, and store nothing in the blank etcd. One that is restarted refuses to start.
    With the data of before, the others go on without a restart."""
    etcd, restarted = cluster.etcd, cluster.nodes[3]
    objects_go_on(cluster, bucket, "before")
    etcd.kill()
    for member in etcd.members:
        member.data.rename(member.data.with_suffix(".kept"))
    etcd.start()
    try:
        refused(cluster.nodes[0], "in-a-blank-etcd")
        said = control_store(cluster.nodes[0])["trouble"]
        assert "another or an older state" in said and "Nothing is rolled back" in said, said
        objects_go_on(cluster, bucket, "blank")
        restarted.kill()
        restarted.launch()
        said = restarted.ends()
        assert "another or an older state" in said and "nothing under /ashlar/test/" in said, said
        # Announcements under a lease are all that nodes write to an etcd that is not theirs.
        assert set(etcd.keys("/ashlar/")) <= {f"/ashlar/test/nodes/{n:05}" for n in range(1, NODES + 1)}
        assert all(node.process.poll() is None for node in cluster.nodes if node is not restarted)
    finally:
        etcd.kill()
        for member in etcd.members:
            shutil.rmtree(member.data)
            member.data.with_suffix(".kept").rename(member.data)
        etcd.start()
    restarted.launch()
    restarted.wait(60)
    made_everywhere(cluster, "with-the-old-data")
    for s3 in cluster.clients():
        assert {b["Name"] for b in s3.list_buckets()["Buckets"]} >= {bucket, "with-the-old-data-0"}
    objects_go_on(cluster, bucket, "again")


def test_refusals_name_the_control_store():
    if not REFUSALS:
        pytest.skip("the tests above, which are refused, did not run")
    assert all("control store" in message and "drives" not in message for message in REFUSALS), REFUSALS


def certificates(home):
    """An authority, and one certificate for etcd and its clients. It has no common name: etcd's gateway refuses that."""
    extension = home / "extension"
    extension.write_text("subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n")
    openssl = lambda *arguments: subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *key, "-keyout", home / "ca.key", "-out", home / "ca.crt", "-days", "2", "-subj", "/O=ca")
    openssl("req", *key, "-keyout", home / "etcd.key", "-out", home / "etcd.csr", "-subj", "/O=etcd")
    openssl("x509", "-req", "-in", home / "etcd.csr", "-CA", home / "ca.crt", "-CAkey", home / "ca.key", "-CAcreateserial",
            "-days", "2", "-extfile", extension, "-out", home / "etcd.crt")


def test_a_node_reaches_etcd_by_tls_with_a_certificate_and_a_user(tmp_path):
    """The options of the program; what the driver does with them is tested in `crates/etcd`."""
    certificates(tmp_path)
    ca, certificate, key = (tmp_path / name for name in ("ca.crt", "etcd.crt", "etcd.key"))
    context = ssl.create_default_context(cafile=ca)
    context.load_cert_chain(certificate, key)
    etcd = Etcd(tmp_path, arguments=["--cert-file", certificate, "--key-file", key, "--trusted-ca-file", ca,
                                     "--client-cert-auth"], context=context)
    nodes = []

    class Home:
        """What a node needs to know of a cluster."""

        def __init__(self):
            self.home, self.etcd = tmp_path, etcd

    def node(number, *arguments, password="of-ashlar"):
        environment = {"ASHLAR_CONTROL_PASSWORD": password}
        nodes.append(Node(Home(), number, ["--accept-node-loss", *map(str, arguments)], environment, count=1))
        return nodes[-1]

    prefix = base64.b64encode(b"/ashlar/test/").decode()
    past = base64.b64encode(b"/ashlar/test0").decode()
    trusted = ["--control-ca", ca, "--control-cert", certificate, "--control-key", key]
    try:
        for path, body in [
            ("user/add", {"name": "root", "password": "of-root"}), ("user/grant", {"user": "root", "role": "root"}),
            ("role/add", {"name": "ashlar"}),
            ("role/grant", {"name": "ashlar", "perm": {"permType": "READWRITE", "key": prefix, "range_end": past}}),
            ("user/add", {"name": "ashlar", "password": "of-ashlar"}),
            ("user/grant", {"user": "ashlar", "role": "ashlar"}), ("enable", {}),
        ]:
            answer = etcd.ask(f"/v3/auth/{path}", body)
            assert "error" not in answer, (path, answer)
        assert "certificate" in node(11, "--control-user", "ashlar").ends()
        assert "denies access" in node(12, *trusted).ends()
        assert "does not accept the user" in node(13, *trusted, "--control-user", "ashlar", password="wrong").ends()
        served = node(14, *trusted, "--control-user", "ashlar")
        served.wait(60)
        client(served).create_bucket(Bucket="over-tls")
        client(served).put_object(Bucket="over-tls", Key="k", Body=b"v")
        assert client(served).get_object(Bucket="over-tls", Key="k")["Body"].read() == b"v"
    finally:
        for one in nodes:
            if one.process.poll() is None:
                one.kill()
        etcd.kill()
