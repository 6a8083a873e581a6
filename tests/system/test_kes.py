"""Encryption with keys in a real MinIO KES: `tests/system/install` builds it from its Go module.

KES listens on loopback and stores its keys in a folder. This file makes its TLS certificate and the identities in
its policy: an API key, and a client certificate.
"""

import base64
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
from boto3.s3.transfer import TransferConfig

from conftest import Server, free_port, noise
from key_server import home  # noqa: F401: a fixture
from test_encryption import ROOT_KEY, client, environment, holds, refused, run

KES = f"{os.environ['CLIENT_BIN']}/kes"
# 32 times the letter "k".
API_KEY = "kes:v1:" + base64.b64encode(b"\0" + b"k" * 32).decode()
ALLOWED = ["create", "generate", "decrypt", "describe", "list"]
SSE = [{"ServerSideEncryption": "AES256"}, {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "team-key"}]


def certificate(folder: Path, name: str, *more):
    # Not of an authority: KES passes over those of clients.
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.crt", "-subj", f"/CN={name}",
                    "-addext", "basicConstraints=critical,CA:FALSE", *more], check=True, capture_output=True, timeout=60)


def identity(of):
    return subprocess.run([KES, "identity", "of", str(of)], check=True, capture_output=True, text=True, timeout=60).stdout.strip()


class Kes:
    """One KES server over the folder of keys in `home`."""

    def __init__(self, home: Path, allowed=tuple(ALLOWED)):
        self.home, self.process, self.port = home, None, free_port()
        if not (home / "kes.crt").exists():
            certificate(home, "kes", "-addext", "subjectAltName=IP:127.0.0.1")
            certificate(home, "we")
            (home / "keys").mkdir()
        self.endpoint = f"https://127.0.0.1:{self.port}"
        self.config = home / f"kes-{self.port}.yml"
        self.config.write_text(f"""
version: v1
address: 127.0.0.1:{self.port}
admin: {{ identity: disabled }}
tls: {{ key: {home}/kes.key, cert: {home}/kes.crt }}
policy:
  ashlar:
    allow: [{", ".join(f"/v1/key/{verb}/*" for verb in allowed)}]
    identities: [{identity(API_KEY)}, {identity(home / "we.crt")}]
cache: {{ expiry: {{ any: 1s, unused: 1s, offline: 0s }} }}
keystore: {{ fs: {{ path: {home}/keys }} }}
""")
        self.start()

    def start(self):
        self.process = subprocess.Popen([KES, "server", "--config", self.config], stdout=(self.home / "kes.log").open("ab"),
                                        stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                assert self.process.poll() is None and time.monotonic() < deadline, (self.home / "kes.log").read_text()
                time.sleep(0.05)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait(timeout=20)


def by_api_key(kes, *more):
    endpoints = ",".join(k.endpoint for k in [kes, *more])
    return {"ASHLAR_KMS_KES": endpoints, "ASHLAR_KMS_KES_API_KEY": API_KEY, "ASHLAR_KMS_KES_CA": str(kes.home / "kes.crt")}


def by_certificate(kes):
    return {"MINIO_KMS_KES_ENDPOINT": kes.endpoint, "MINIO_KMS_KES_KEY_NAME": "ashlar",
            "MINIO_KMS_KES_CERT_FILE": str(kes.home / "we.crt"), "MINIO_KMS_KES_KEY_FILE": str(kes.home / "we.key"),
            "MINIO_KMS_KES_CAPATH": str(kes.home / "kes.crt")}


@pytest.mark.parametrize("how", [by_api_key, by_certificate])
def test_objects_are_sealed_by_kes(home, tmp_path, how):
    path, started = home
    started.append(kes := Kes(path / "kms"))
    started.append(server := Server(path / "store", env=how(kes)))
    env = environment(server, tmp_path)
    ashlar = [os.environ["ASHLAR_BIN"], "--json", "admin", "kms"]
    mc = [f"{os.environ['CLIENT_BIN']}/mc", "--json", "admin", "kms"]

    status = json.loads(run(env, *ashlar, "status", "it").stdout)
    assert (status["driver"], status["endpoint"], status["works"], status["default_key"]) == ("kes", kes.endpoint, True, "ashlar")
    run(env, *mc, "key", "create", "it", "team-key")
    assert run(env, *mc, "key", "create", "it", "team-key", check=False).returncode != 0
    assert "success" in run(env, *mc, "key", "status", "it", "team-key").stdout
    listed = run(env, *mc, "key", "list", "it").stdout
    assert "team-key" in listed and "ashlar" in listed
    assert "team-key" in {p.name for p in (path / "kms" / "keys").iterdir()}
    shown = json.loads(run(env, *ashlar, "key", "status", "it", "team-key").stdout)
    assert abs(shown["created_ms"] / 1000 - time.time()) < 120 and shown["version"] == 0
    no = run(env, *ashlar, "key", "rotate", "it", "team-key", check=False)
    assert no.returncode != 0 and "no versions" in no.stdout + no.stderr

    s3 = client(server)
    s3.create_bucket(Bucket="bkt")
    mark = hashlib.sha256(b"mark").hexdigest().encode()
    body = lambda size: (mark * (size // 64 + 1))[:size]
    for k, kind in enumerate(SSE):
        s3.put_object(Bucket="bkt", Key=f"small{k}", Body=body(900), **kind)
        s3.put_object(Bucket="bkt", Key=f"large{k}", Body=body(3_000_000), **kind)
        (path / "up").write_bytes(body(11_000_000))
        s3.upload_file(str(path / "up"), "bkt", f"multi{k}", ExtraArgs=kind,
                       Config=TransferConfig(multipart_threshold=5 << 20, multipart_chunksize=5 << 20))
        (path / "up").unlink()
    unknown = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "no-such-key"}
    refused(s3.put_object, "KMS.NotFoundException", Bucket="bkt", Key="unknown", Body=mark, **unknown)
    time.sleep(0.5)
    assert not holds(path / "store", mark), "in clear on a drive"
    assert not holds(path / "kms" / "keys", mark)

    def all_there():
        for k in range(len(SSE)):
            for name, size in [("small", 900), ("large", 3_000_000), ("multi", 11_000_000)]:
                got = s3.get_object(Bucket="bkt", Key=f"{name}{k}")
                assert got["Body"].read() == body(size), (name, k)
                assert got["ServerSideEncryption"] == SSE[k]["ServerSideEncryption"]

    all_there()
    assert server.stop() == 0
    server.start()
    all_there()

    # Under another named key: KES has no versions, so this is how a key is changed.
    run(env, *mc, "key", "create", "it", "next-key")
    run(env, *ashlar, "rewrap", "it/bkt", "--key", "next-key")
    deadline = time.monotonic() + 30
    while (now := json.loads(run(env, *ashlar, "rewrap", "it", "--status").stdout))["running"]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert (now["sealed"], now["failed"]) == (6, 0), now
    (path / "kms" / "keys" / "team-key").unlink()
    assert server.stop() == 0
    server.start()
    time.sleep(1.5)  # KES forgets the key that is gone.
    all_there()
    (path / "kms" / "keys" / "next-key").unlink()
    assert server.stop() == 0
    time.sleep(1.5)
    server.start()
    refused(s3.get_object, "KMS.NotFoundException", Bucket="bkt", Key="small0")


def test_kes_outage(home):
    path, started = home
    started.append(kes := Kes(path / "kms"))
    started.append(server := Server(path / "store", env=by_api_key(kes)))
    s3 = client(server)
    s3.create_bucket(Bucket="bkt")
    mark = hashlib.sha256(b"down").hexdigest().encode()
    s3.put_object(Bucket="bkt", Key="sealed", Body=noise(70_000), **SSE[0])
    s3.put_object(Bucket="bkt", Key="plain", Body=b"plain")
    kes.stop()
    for key, kind in [("a", SSE[0]), ("b", {"ServerSideEncryption": "aws:kms"})]:
        refused(s3.put_object, "ServiceUnavailable", Bucket="bkt", Key=key, Body=mark * 99, **kind)
        refused(s3.create_multipart_upload, "ServiceUnavailable", Bucket="bkt", Key=key, **kind)
    s3.put_bucket_encryption(Bucket="bkt", ServerSideEncryptionConfiguration={
        "Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]})
    refused(s3.put_object, "ServiceUnavailable", Bucket="bkt", Key="c", Body=mark * 99)
    # It starts all the same, and serves what needs no key.
    assert server.stop() == 0
    server.start()
    assert "cannot be used now" in server.log.read_text()
    refused(s3.get_object, "ServiceUnavailable", Bucket="bkt", Key="sealed")
    assert s3.get_object(Bucket="bkt", Key="plain")["Body"].read() == b"plain"
    assert {o["Key"] for o in s3.list_objects_v2(Bucket="bkt")["Contents"]} == {"sealed", "plain"}
    assert not holds(path / "store", mark)
    kes.start()
    assert s3.get_object(Bucket="bkt", Key="sealed")["Body"].read() == noise(70_000)
    s3.put_object(Bucket="bkt", Key="c", Body=mark * 99)
    assert s3.get_object(Bucket="bkt", Key="c")["Body"].read() == mark * 99
    assert not holds(path / "store", mark)


def test_next_kes_is_asked_after_a_failure(home):
    path, started = home
    kms = path / "kms"
    started += [first := Kes(kms), second := Kes(kms)]
    started.append(server := Server(path / "store", env=by_api_key(first, second)))
    s3 = client(server)
    s3.create_bucket(Bucket="bkt")
    for turn, (down, up) in enumerate([(first, second), (second, first), (first, second)]):
        down.stop()
        s3.put_object(Bucket="bkt", Key=f"k{turn}", Body=noise(50, turn), **SSE[0])
        down.start()
    up.stop()
    assert server.stop() == 0
    server.start()
    for turn in range(3):
        assert s3.get_object(Bucket="bkt", Key=f"k{turn}")["Body"].read() == noise(50, turn)


def test_denials_by_the_kes_policy_are_reported(home, tmp_path):
    path, started = home
    kms = path / "kms"
    started.append(maker := Kes(kms))
    started.append(kes := Kes(kms, allowed=["decrypt"]))
    run(dict(os.environ, MINIO_KES_SERVER=maker.endpoint, MINIO_KES_API_KEY=API_KEY), KES, "key", "create", "ashlar", "-k")
    started.append(server := Server(path / "store", env=by_api_key(kes)))
    s3 = client(server)
    s3.create_bucket(Bucket="bkt")
    refused(s3.put_object, "AccessDenied", Bucket="bkt", Key="k", Body=b"x", **SSE[0])
    env = environment(server, tmp_path)
    status = json.loads(run(env, os.environ["ASHLAR_BIN"], "--json", "admin", "kms", "status", "it").stdout)
    assert not status["works"] and "403" in status["problem"] and identity(API_KEY) in status["problem"]
    # As MinIO's own policies for KES: to make, to seal and to open, no more.
    assert server.stop() == 0
    started.append(less := Kes(kms, allowed=["generate", "decrypt"]))
    server.env = by_api_key(less)
    server.start()
    s3.put_object(Bucket="bkt", Key="k", Body=b"x", **SSE[0])
    assert s3.get_object(Bucket="bkt", Key="k")["Body"].read() == b"x"
    assert json.loads(run(env, os.environ["ASHLAR_BIN"], "--json", "admin", "kms", "status", "it").stdout)["works"]


def test_invalid_kes_settings_are_refused(home):
    path, started = home
    started.append(kes := Kes(path / "kms"))
    good = by_api_key(kes)
    for change, says in [
        ({"MINIO_KMS_SERVER": "https://127.0.0.1:1"}, "MINIO_KMS_SERVER"),
        ({"MINIO_KMS_KES_KEY_PASSWORD": "secret-of-a-key"}, "MINIO_KMS_KES_KEY_PASSWORD"),
        ({"ASHLAR_KMS_KES_API_KEY": "kes:v1:not-a-key"}, "ASHLAR_KMS_KES_API_KEY"),
        ({"ASHLAR_KMS_ROOT_KEY": ROOT_KEY}, "more than one"),
        ({"ASHLAR_KMS_KES": "http://127.0.0.1:1"}, "https://"),
        ({"ASHLAR_KMS_KES": "", "MINIO_KMS_KES_API_KEY": API_KEY}, "MINIO_KMS_KES_ENDPOINT"),
    ]:
        with pytest.raises(RuntimeError) as caught:
            Server(path / "store", env={**good, **change})
        text = str(caught.value)
        assert says in text and API_KEY not in text and "not-a-key" not in text and "secret-of-a-key" not in text, text
        (path / "store" / "server.log").unlink()


def test_roots_password_is_sealed_by_kes(home):
    """The password that the server makes: sealed under the default key, and opened by KES at every start."""
    path, started = home
    store = path / "store"
    kes = Kes(path / "kms")
    started.append(kes)
    port = free_port()

    def begin(env, expect=True):
        """Without root's credentials in the environment: the ones it prints, or what it says instead."""
        clean = {k: v for k, v in os.environ.items() if "_ROOT_" not in k}
        process = subprocess.Popen([os.environ["ASHLAR_BIN"], "--json", "server", f"{store}/drive{{1...4}}",
                                    "--address", f"127.0.0.1:{port}"], env={**clean, **env}, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=(path / "log").open("wb"), text=True)
        line = process.stdout.readline()
        if not line:
            assert not expect and process.wait(timeout=20) != 0
            return (path / "log").read_text()
        assert expect, line
        return process, json.loads(line)

    def end(process):
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
        process.stdout.close()

    # Nobody to seal it: nothing is written, and it says why.
    kes.stop()
    said = begin(by_api_key(kes), expect=False)
    assert "root's credentials cannot be sealed" in said and "ASHLAR_ROOT_PASSWORD" in said, said
    assert not any(p.is_file() for p in store.rglob("*")), "drives were formatted"
    kes.start()
    process, banner = begin(by_api_key(kes))
    secret = banner["secret_key"].encode()
    assert len(secret) == 40
    end(process)
    assert not holds(store, secret), "in clear on a drive"
    process, again = begin(by_certificate(kes))
    end(process)
    assert again.get("secret_key") in (None, banner["secret_key"]) and again["access_key"] == banner["access_key"]
    kes.stop()
    said = begin(by_api_key(kes), expect=False)
    assert 'under the key "ashlar" of the key server' in said and "ASHLAR_ROOT_PASSWORD" in said, said
    assert "of a key server. Start with it" in begin({}, expect=False)
    kes.start()

    # What the server's own root key sealed is sealed by the key server at the next start with it.
    shutil.rmtree(store)
    process, banner = begin({})
    secret = banner["secret_key"].encode()
    end(process)
    assert not holds(store, secret), "in clear on a drive"
    process, again = begin(by_api_key(kes))
    end(process)
    assert again["access_key"] == banner["access_key"]
    assert not holds(store, secret), "still in clear on a drive"
