"""Encryption out of the box: a server without any setting makes a root key outside of the drives.

SSE-S3 works at once and after a restart; nothing on the drives holds root's generated secret or the key in clear; without
the key's file a start says which file it needs and changes nothing; modes are 0700 and 0600 whatever the umask is.
"""

import base64
import json
import os
import shutil
import signal
import stat
import subprocess
from pathlib import Path

import boto3
import pytest
from botocore.config import Config

BIN = os.environ.get("ASHLAR_BIN", "target/release/ashlar")


def clean(home, **more):
    """An environment without settings of ours; the home is the test's."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("ASHLAR_", "MINIO_", "XDG_", "STATE_", "CREDENTIALS_"))}
    return env | {"HOME": str(home), "ASHLAR_STATE_DIR": str(home / "state")} | more


class Server:
    def __init__(self, home, **env):
        self.log = home / "server.log"
        self.process = subprocess.Popen(
            ["sh", "-c", f'umask 022; exec "$0" server "{home}/d{{1...4}}" --address 127.0.0.1:0 --json', BIN],
            env=clean(home, **env), stdout=subprocess.PIPE, stderr=self.log.open("ab"), text=True,
        )
        line = self.process.stdout.readline()
        if not line:
            self.process.wait(30)
            raise RuntimeError(self.log.read_text())
        self.hello = json.loads(line)

    def client(self, access, secret):
        return boto3.client(
            "s3", endpoint_url=self.hello["endpoint"], aws_access_key_id=access, aws_secret_access_key=secret,
            region_name="us-east-1", config=Config(retries={"max_attempts": 1}),
        )

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(30) == 0


def files(*folders):
    for folder in folders:
        for root, _, names in os.walk(folder):
            yield from (Path(root) / name for name in names)


def keys(folder):
    """Root keys that servers made; notes of deployments are in the folder too."""
    return (file for file in files(folder) if file.name.startswith("root-"))


def bytes_of(home):
    return {p: p.read_bytes() for p in files(*home.glob("d[1-4]"))}


def test_encryption_works_without_settings(tmp_path):
    server = Server(tmp_path)
    access, secret = server.hello["access_key"], server.hello["secret_key"]
    s3 = server.client(access, secret)
    s3.create_bucket(Bucket="bkt")
    body = b"what must not be read from a drive " * 20_000
    done = s3.put_object(Bucket="bkt", Key="k", Body=body, ServerSideEncryption="AES256")
    assert done["ServerSideEncryption"] == "AES256"
    s3.put_bucket_encryption(
        Bucket="bkt",
        ServerSideEncryptionConfiguration={"Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]},
    )
    s3.put_object(Bucket="bkt", Key="by-default", Body=body)
    assert s3.head_object(Bucket="bkt", Key="by-default")["ServerSideEncryption"] == "AES256"
    server.stop()

    # The key: one file, outside of the drives, its owner's alone.
    [key] = keys(tmp_path / "state")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600 and stat.S_IMODE(key.parent.stat().st_mode) == 0o700
    text = key.read_text().strip()
    raw = base64.b64decode(text)
    assert len(raw) == 32 and "a root key was made" in server.log.read_text() and str(key) in server.log.read_text()
    held = bytes_of(tmp_path)
    for path, content in held.items():
        assert secret.encode() not in content, f"root's secret is in {path}"
        assert text.encode() not in content and raw not in content and raw.hex().encode() not in content, path
        assert b"must not be read" not in content, path
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    for folder in tmp_path.glob("d[1-4]/**/"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700, folder

    # A restart: the same credentials, the same objects.
    server = Server(tmp_path)
    assert server.hello.get("secret_key") is None and server.hello["access_key"] == access
    s3 = server.client(access, secret)
    assert s3.get_object(Bucket="bkt", Key="k")["Body"].read() == body
    server.stop()

    # Drives without the key's file: which one is needed is said, and it all works again once it is there.
    away = tmp_path / "away"
    shutil.move(key, away)
    for env in ({}, {"ASHLAR_ROOT_USER": access, "ASHLAR_ROOT_PASSWORD": secret}):
        before = server.log.stat().st_size
        with pytest.raises(RuntimeError):
            Server(tmp_path, **env)
        said = server.log.read_text()[before:]
        assert "root key of this deployment is missing" in said and str(key) in said, said
        assert list(keys(tmp_path / "state")) == []
    # Another deployment's key is not taken for it.
    other = tmp_path / "other"
    other.mkdir()
    third = Server(other)
    third.stop()
    shutil.copy(next(files(other / "state")), key)
    with pytest.raises(RuntimeError):
        Server(tmp_path)
    shutil.move(away, key)
    server = Server(tmp_path)
    s3 = server.client(access, secret)
    for name in ("k", "by-default"):
        assert s3.get_object(Bucket="bkt", Key=name)["Body"].read() == body
    server.stop()


def test_unused_key_may_be_lost(tmp_path):
    """A server whose credentials come from the environment and that never encrypted starts without the file."""
    env = {"ASHLAR_ROOT_USER": "someuser", "ASHLAR_ROOT_PASSWORD": "some-password"}
    server = Server(tmp_path, **env)
    s3 = server.client("someuser", "some-password")
    s3.create_bucket(Bucket="bkt")
    s3.put_object(Bucket="bkt", Key="k", Body=b"plain")
    server.stop()
    [key] = keys(tmp_path / "state")
    first = key.read_bytes()
    key.unlink()
    server = Server(tmp_path, **env)
    s3 = server.client("someuser", "some-password")
    assert s3.get_object(Bucket="bkt", Key="k")["Body"].read() == b"plain"
    s3.put_object(Bucket="bkt", Key="e", Body=b"sealed", ServerSideEncryption="AES256")
    server.stop()
    assert next(keys(tmp_path / "state")).read_bytes() != first


def test_start_without_a_place_for_the_key_is_refused(tmp_path):
    """Root's secret is never stored in clear: without a place for a key it must be given."""
    (tmp_path / "file").write_text("")
    nowhere = {"ASHLAR_STATE_DIR": str(tmp_path / "file/state")}
    with pytest.raises(RuntimeError) as refused:
        Server(tmp_path, **nowhere)
    assert "--state-dir" in str(refused.value) and "ASHLAR_ROOT_PASSWORD" in str(refused.value)
    assert not list(tmp_path.glob("d[1-4]/*")), "something was formatted"
    server = Server(tmp_path, ASHLAR_ROOT_USER="someuser", ASHLAR_ROOT_PASSWORD="some-password", **nowhere)
    s3 = server.client("someuser", "some-password")
    s3.create_bucket(Bucket="bkt")
    with pytest.raises(s3.exceptions.ClientError):
        s3.put_object(Bucket="bkt", Key="k", Body=b"x", ServerSideEncryption="AES256")
    server.stop()


def test_configured_root_key_replaces_the_own_key(tmp_path):
    """With a root key of one's own configured later, everything that the server's own sealed is sealed anew."""
    server = Server(tmp_path)
    access, secret = server.hello["access_key"], server.hello["secret_key"]
    s3 = server.client(access, secret)
    s3.create_bucket(Bucket="bkt")
    s3.put_object(Bucket="bkt", Key="k", Body=b"sealed", ServerSideEncryption="AES256")
    server.stop()
    own = {"ASHLAR_KMS_ROOT_KEY": base64.b64encode(bytes(range(1, 33))).decode()}
    Server(tmp_path, **own).stop()
    shutil.rmtree(tmp_path / "state")
    server = Server(tmp_path, **own)
    assert server.client(access, secret).get_object(Bucket="bkt", Key="k")["Body"].read() == b"sealed"
    server.stop()
