"""A server that was alone becomes the first node of a cluster: nothing that it had is lost, and it never starts alone again."""

import base64
import json
import os
import subprocess
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from conftest import ACCESS, SECRET, Server, free_port, noise
from histories import client
from nodes import Etcd

ROOT_KEY = base64.b64encode(bytes(range(32)))


@pytest.fixture
def etcd(tmp_path):
    etcd = Etcd(tmp_path)
    try:
        yield etcd
    finally:
        etcd.kill()


@pytest.fixture
def started():
    """Servers, killed at the end."""
    servers = []
    yield servers
    for server in servers:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()


def options(server, etcd):
    return ["--control", etcd.url, "--cluster", "prod", "--address", f"127.0.0.1:{server.port}", "--node-address",
            f"127.0.0.1:{server.node_port}", "--domain", "s3.test", *server.arguments, server.drives]


def run(server, *arguments):
    env = {**os.environ, "ASHLAR_ROOT_USER": ACCESS, "ASHLAR_ROOT_PASSWORD": SECRET,
           "ASHLAR_STATE_DIR": str(server.home / "state"), **server.env}
    done = subprocess.run([os.environ["ASHLAR_BIN"], *map(str, arguments)], env=env, capture_output=True, text=True,
                          timeout=60, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


def do_import(server, etcd, *flags):
    code, out, err = run(server, "--json", "cluster", "import", *flags, *options(server, etcd))
    return json.loads(out) if code == 0 else err


def alone(tmp_path, started, root_key=True):
    home = tmp_path / "first"
    home.mkdir()
    arguments = []
    if root_key:
        key = home / "root-key"
        key.write_bytes(ROOT_KEY)
        key.chmod(0o600)
        arguments = ["--kms-root-key-file", str(key)]
    server = Server(home, 4, ["--memory", "96MiB", *arguments])
    server.node_port = free_port()
    started.append(server)
    return server


def as_node(server, etcd):
    """The options of a server that is a node now."""
    server.arguments += ["--control", etcd.url, "--cluster", "prod", "--node-address", f"127.0.0.1:{server.node_port}"]


def fill(server):
    """Puts what a user would miss; returns what reads it back."""
    s3 = client(server)
    s3.create_bucket(Bucket="kept")
    s3.put_bucket_versioning(Bucket="kept", VersioningConfiguration={"Status": "Enabled"})
    s3.put_bucket_tagging(Bucket="kept", Tagging={"TagSet": [{"Key": "a", "Value": "b"}]})
    bodies = {f"{n}": noise(size, n) for n, size in enumerate([0, 1, 4096, 300_000, 3 << 20])}
    for key, body in bodies.items():
        s3.put_object(Bucket="kept", Key=key, Body=b"older")
        s3.put_object(Bucket="kept", Key=key, Body=body, ServerSideEncryption="AES256")
    upload = s3.create_multipart_upload(Bucket="kept", Key="open")["UploadId"]
    part = s3.upload_part(Bucket="kept", Key="open", UploadId=upload, PartNumber=1, Body=b"part")

    def check(s3):
        for key, body in bodies.items():
            assert s3.get_object(Bucket="kept", Key=key)["Body"].read() == body
            versions = s3.list_object_versions(Bucket="kept", Prefix=key)["Versions"]
            assert len(versions) == 2
            older = next(v["VersionId"] for v in versions if not v["IsLatest"])
            assert s3.get_object(Bucket="kept", Key=key, VersionId=older)["Body"].read() == b"older"
        assert s3.get_bucket_tagging(Bucket="kept")["TagSet"] == [{"Key": "a", "Value": "b"}]
        assert [u["UploadId"] for u in s3.list_multipart_uploads(Bucket="kept")["Uploads"]] == [upload]
        assert [p["ETag"] for p in s3.list_parts(Bucket="kept", Key="open", UploadId=upload)["Parts"]] == [part["ETag"]]

    return check


def test_a_machine_becomes_the_first_node_and_others_join(tmp_path, etcd, started):
    server = alone(tmp_path, started)
    check = fill(server)
    # While the server runs, it has the drives.
    assert "in use" in do_import(server, etcd) or "lock" in do_import(server, etcd)
    assert server.stop() == 0
    done = do_import(server, etcd)
    assert done["cluster"] == "prod" and done["drives"] == 4 and not done["before"]
    # Again: nothing to do.
    assert do_import(server, etcd) == {**done, "before": True}
    assert "complete" in do_import(server, etcd, "--undo")

    # Alone it does not start any more, and changes nothing.
    code, _, err = run(server, "server", server.drives, "--address", f"127.0.0.1:{server.port}", *server.arguments)
    assert code != 0 and "belongs to the cluster prod" in err

    as_node(server, etcd)
    server.start()
    check(client(server))
    client(server).put_object(Bucket="kept", Key="new", Body=b"by the node")

    # A second node joins, and serves the same.
    server.env["ASHLAR_HOST_first"] = f"http://{ACCESS}:{SECRET}@127.0.0.1:{server.port}"
    token = run(server, "cluster", "token", "first")
    assert token[0] == 0, token
    home = tmp_path / "second"
    home.mkdir()
    node_port = free_port()
    second = Server(home, 2, [*server.arguments[:-1], f"127.0.0.1:{node_port}", "--join", token[1].strip()])
    started.append(second)
    check(client(second))
    client(second).put_object(Bucket="kept", Key="by second", Body=b"x")
    assert client(server).get_object(Bucket="kept", Key="by second")["Body"].read() == b"x"
    assert client(second).get_object(Bucket="kept", Key="new")["Body"].read() == b"by the node"

    # Both again, after a kill.
    for node in [server, second]:
        node.process.kill()
        node.process.wait()
        node.launch()
    for node in [server, second]:
        node.wait(60)
        check(client(node))


def test_an_import_without_etcd_changes_nothing(tmp_path, etcd, started):
    server = alone(tmp_path, started)
    check = fill(server)
    assert server.stop() == 0
    etcd.kill()
    assert "etcd cannot be reached" in do_import(server, etcd)
    server.start()
    check(client(server))


def test_an_interrupted_import_is_undone_or_repeated(tmp_path, etcd, started):
    server = alone(tmp_path, started)
    check = fill(server)
    assert server.stop() == 0
    # As if the power had failed after some marks.
    for drive, mark in [("drive1", b"prod"), ("drive2", b"\0\0\0\0")]:
        (server.home / drive / "cluster.0").write_bytes(mark)
    assert "belongs to the cluster" in run(server, "server", server.drives, *server.arguments)[2]
    assert do_import(server, etcd, "--undo") == {"cluster": "prod", "undone": True, "drives": 1}
    server.start()
    check(client(server))
    assert server.stop() == 0
    (server.home / "drive1" / "cluster.0").write_bytes(b"prod")
    assert do_import(server, etcd)["drives"] == 4
    as_node(server, etcd)
    server.start()
    check(client(server))


def test_an_import_that_could_not_be_used_is_refused(tmp_path, etcd, started):
    server = alone(tmp_path, started, root_key=False)
    fill(server)
    assert server.stop() == 0
    # It made a root key of its own, which other nodes do not have.
    refused = do_import(server, etcd)
    [key] = Path(server.home / "state").glob("root-*.key")
    assert str(key) in refused and "--kms-root-key-file" in refused
    other = tmp_path / "other-key"
    other.write_bytes(base64.b64encode(bytes(32)))
    other.chmod(0o600)
    server.arguments += ["--kms-root-key-file", str(other)]
    assert "encryption" in do_import(server, etcd)
    server.arguments[-1] = str(key)
    server.env["ASHLAR_ROOT_PASSWORD"] = "another password"
    assert "password" in do_import(server, etcd)
    del server.env["ASHLAR_ROOT_PASSWORD"]
    for flags, why in [(["--nodes", "4"], "--nodes"), (["--join", "a.b"], "--join"), (["--code", "3+1"], "3+1")]:
        assert why in do_import(server, etcd, *flags), flags
    # Half of the drives are away: a machine that is alone could start with the others.
    for n in (3, 4):
        (server.home / f"drive{n}").rename(server.home / f"away{n}")
    refused = do_import(server, etcd)
    assert "drives" in refused
    for n in (3, 4):
        (server.home / f"away{n}").rename(server.home / f"drive{n}")
    # Nothing of this was a step into a cluster.
    assert do_import(server, etcd)["drives"] == 4
    as_node(server, etcd)
    server.start()
    with pytest.raises(ClientError):
        client(server).head_bucket(Bucket="never")
    client(server).head_bucket(Bucket="kept")
