"""Encryption at rest with real clients over TLS: boto3, mc, `ashlar`; and the content of the drives."""

import base64
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import boto3
import pytest
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import ClientError

from conftest import ACCESS, REGION, SECRET, Server, noise, one_server, serve

ROOT_KEY = base64.b64encode(bytes(range(1, 33))).decode()


def certificate(folder: Path):
    folder.mkdir()
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-keyout", folder / "private.key", "-out", folder / "public.crt", "-subj", "/CN=127.0.0.1",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"], check=True, capture_output=True, timeout=60)
    return folder


@pytest.fixture
def home():
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    path = Path(tempfile.mkdtemp(prefix="ashlar-enc-", dir=base))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def own(home):
    key = home / "root.key"
    key.write_text(ROOT_KEY)
    key.chmod(0o600)
    s = serve(home, arguments=["--kms-root-key-file", str(key)], certs=certificate(home / "certs"))
    try:
        yield s
        assert s.stop() == 0
    finally:
        if s.process.poll() is None:
            s.process.kill()
            s.process.wait()


def client(server, **more):
    return boto3.client("s3", endpoint_url=server.endpoint, aws_access_key_id=ACCESS, aws_secret_access_key=SECRET,
                        region_name=REGION, verify=server.context and str(server.home / "certs" / "public.crt"),
                        config=Config(retries={"max_attempts": 2}, **more))


def refused(call, code, **arguments):
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    assert caught.value.response["Error"]["Code"] == code, caught.value.response


def holds(folder: Path, *needles: bytes):
    """Which of the needles stand anywhere in the files below a folder."""
    found = set()
    for path in folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            found |= {n for n in needles if n in data}
    return found


def environment(server, tmp_path):
    env = dict(os.environ, HOME=str(tmp_path), MC_CONFIG_DIR=str(tmp_path / "mc"), NO_COLOR="1",
               ASHLAR_CONFIG=str(tmp_path / "ashlar.toml"))
    for name in ["MC_HOST_it", "ASHLAR_HOST_it"]:
        env[name] = server.endpoint.replace("://", f"://{ACCESS}:{SECRET}@")
    (tmp_path / "mc" / "certs" / "CAs").mkdir(parents=True, exist_ok=True)
    if server.context:
        shutil.copy(server.home / "certs" / "public.crt", tmp_path / "mc" / "certs" / "CAs" / "it.crt")
    return env


def run(env, *command, check=True):
    done = subprocess.run([str(c) for c in command], env=env, capture_output=True, text=True, timeout=60)
    assert not check or done.returncode == 0, (command, done.stdout, done.stderr)
    return done


@one_server
def test_no_plaintext_on_any_drive(own):
    """RustFS GHSA-xrrf: objects that claimed to be encrypted and were not."""
    s3 = client(own)
    s3.create_bucket(Bucket="bkt")
    marks = [hashlib.sha256(str(i).encode()).hexdigest().encode() for i in range(9)]
    body = lambda i, size: (marks[i] * (size // 64 + 1))[:size]
    key = b"k" * 32
    customer = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": key}
    kinds = [{"ServerSideEncryption": "AES256"}, {"ServerSideEncryption": "aws:kms"}, customer]
    for k, kind in enumerate(kinds):
        s3.put_object(Bucket="bkt", Key=f"small{k}", Body=body(3 * k, 900), **kind)
        s3.put_object(Bucket="bkt", Key=f"large{k}", Body=body(3 * k + 1, 7_000_000), **kind)
        big = body(3 * k + 2, 11_000_000)
        (own.home / "up").write_bytes(big)
        s3.upload_file(str(own.home / "up"), "bkt", f"multi{k}", ExtraArgs=kind,
                       Config=TransferConfig(multipart_threshold=5 << 20, multipart_chunksize=5 << 20))
        (own.home / "up").unlink()
        sse = customer if k == 2 else {}
        for name, size, i in [("small", 900, 3 * k), ("large", 7_000_000, 3 * k + 1), ("multi", 11_000_000, 3 * k + 2)]:
            got = s3.get_object(Bucket="bkt", Key=f"{name}{k}", **sse)["Body"].read()
            assert got == body(i, size), (name, k)
            part = s3.get_object(Bucket="bkt", Key=f"{name}{k}", Range="bytes=500-700", **sse)["Body"].read()
            assert part == body(i, size)[500:701]
        head = s3.head_object(Bucket="bkt", Key=f"multi{k}", **sse)
        assert head["ContentLength"] == 11_000_000
    plain = b"this one is stored in clear on purpose"
    s3.put_object(Bucket="bkt", Key="plain", Body=plain * 30)
    root, secret = bytes(range(1, 33)), ROOT_KEY.encode()
    time.sleep(0.5)
    found = holds(own.home, *marks, plain, key, base64.b64encode(key))
    assert found == {plain}, found
    for i in range(1, 5):
        assert not holds(own.home / f"drive{i}", root, secret), "the root key is on a drive"
    # The ETag of SSE-S3 is the MD5, which lists and conditions need; the others' is random, and their
    # checksums are hidden. See docs/encryption.md.
    sums = [hashlib.md5(body(3 * k + 1, 7_000_000)).digest() for k in range(3)]
    assert holds(own.home, *sums) <= {sums[0]}
    refused(s3.get_object, "InvalidRequest", Bucket="bkt", Key="small2")
    refused(s3.get_object, "AccessDenied", Bucket="bkt", Key="small2", SSECustomerAlgorithm="AES256",
            SSECustomerKey=b"x" * 32)


@one_server
def test_encrypted_objects_survive_restart_blank_drive_and_key_rotation(own, tmp_path):
    s3 = client(own)
    s3.create_bucket(Bucket="bkt")
    s3.put_bucket_versioning(Bucket="bkt", VersioningConfiguration={"Status": "Enabled"})
    s3.put_bucket_encryption(Bucket="bkt", ServerSideEncryptionConfiguration={
        "Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]})
    bodies = {f"k{i}": noise(size, i) for i, size in enumerate([10, 70_000, 3_000_000])}
    for name, data in bodies.items():
        assert s3.put_object(Bucket="bkt", Key=name, Body=data)["ServerSideEncryption"] == "AES256"
    env = environment(own, tmp_path)
    ashlar = [os.environ["ASHLAR_BIN"], "--json", "--ca", own.home / "certs" / "public.crt"]

    def ask(*command):
        return json.loads(run(env, *ashlar, "admin", "kms", *command).stdout)

    assert ask("status", "it")["driver"] == "builtin"
    assert ask("key", "rotate", "it", "ashlar")["version"] == 2
    s3.put_object(Bucket="bkt", Key="after", Body=b"after")
    ask("rewrap", "it/bkt")
    deadline = time.monotonic() + 30
    while (now := ask("rewrap", "it", "--status"))["running"]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert (now["looked"], now["sealed"], now["failed"]) == (4, 3, 0), now
    before = {n: s3.head_object(Bucket="bkt", Key=n)["LastModified"] for n in bodies}

    # Killed, a drive replaced by a blank one, started again.
    own.process.kill()
    own.process.wait()
    shutil.rmtree(own.home / "drive3")
    (own.home / "drive3").mkdir()
    own.start()
    for name, data in bodies.items():
        deadline = time.monotonic() + 60
        while True:
            try:
                got = s3.get_object(Bucket="bkt", Key=name)
                assert got["Body"].read() == data and got["LastModified"] == before[name]
                break
            except ClientError:
                assert time.monotonic() < deadline
                time.sleep(0.5)

    # Another root key: nothing is served, nothing is lost; with the old one beside it, all is sealed anew.
    assert own.stop() == 0
    other = base64.b64encode(bytes(range(2, 34))).decode()
    own.arguments = own.arguments[2:]
    own.env = {"ASHLAR_KMS_ROOT_KEY": other}
    with pytest.raises(RuntimeError):
        own.start()
    own.env["ASHLAR_KMS_ROOT_KEY_OLD"] = ROOT_KEY
    own.start()
    assert own.stop() == 0
    own.env = {"ASHLAR_KMS_ROOT_KEY": other}
    own.start()
    assert s3.get_object(Bucket="bkt", Key="k1")["Body"].read() == bodies["k1"]
    # Without any: it says so and does not start.
    assert own.stop() == 0
    own.env = {}
    with pytest.raises(RuntimeError):
        own.start()
    own.env = {"ASHLAR_KMS_ROOT_KEY": other}
    own.start()


@one_server
def test_appends_are_encrypted_and_survive_a_restart(own):
    s3 = client(own)
    s3.create_bucket(Bucket="bkt")
    s3.put_bucket_encryption(Bucket="bkt", ServerSideEncryptionConfiguration={
        "Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]})
    customer = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": b"a" * 32}
    marks = [hashlib.sha256(b"append%d" % i).hexdigest().encode() for i in range(3)]
    bodies = [marks[0] * 20, marks[1] * 20_000, marks[2] * 3]
    for name, key in [("s3", {}), ("c", customer)]:
        size = 0
        for body in bodies:
            done = s3.put_object(Bucket="bkt", Key=name, Body=body, WriteOffsetBytes=size, **key)
            size += len(body)
            assert done["Size"] == size
            assert key or done["ServerSideEncryption"] == "AES256"
        refused(s3.put_object, "InvalidWriteOffset", Bucket="bkt", Key=name, Body=b"x", WriteOffsetBytes=5, **key)
    refused(s3.put_object, "InvalidRequest", Bucket="bkt", Key="c", Body=b"x", WriteOffsetBytes=size)
    refused(s3.put_object, "AccessDenied", Bucket="bkt", Key="c", Body=b"x", WriteOffsetBytes=size,
            SSECustomerAlgorithm="AES256", SSECustomerKey=b"b" * 32)
    own.process.kill()
    own.process.wait()
    own.start()
    whole = b"".join(bodies)
    for name, key in [("s3", {}), ("c", customer)]:
        # botocore compares the checksum of the whole with what comes.
        assert s3.get_object(Bucket="bkt", Key=name, ChecksumMode="ENABLED", **key)["Body"].read() == whole
        got = s3.get_object(Bucket="bkt", Key=name, Range="bytes=1200-1400", **key)["Body"].read()
        assert got == whole[1200:1401]
    assert not holds(own.home, *marks)


def test_mc(own, tmp_path):
    env = environment(own, tmp_path)
    mc = [f"{os.environ['CLIENT_BIN']}/mc", "--insecure"]
    run(env, *mc, "mb", "it/docs")
    run(env, *mc, "admin", "kms", "key", "create", "it", "team-key")
    status = run(env, *mc, "--json", "admin", "kms", "key", "status", "it", "team-key").stdout
    assert "team-key" in status and "success" in status, status
    listed = run(env, *mc, "--json", "admin", "kms", "key", "list", "it").stdout
    assert "team-key" in listed and "ashlar" in listed, listed
    assert run(env, *mc, "admin", "kms", "key", "create", "it", "team-key", check=False).returncode != 0
    run(env, *mc, "encrypt", "set", "sse-kms", "team-key", "it/docs")
    info = run(env, *mc, "--json", "encrypt", "info", "it/docs").stdout
    assert "aws:kms" in info and "team-key" in info, info
    (tmp_path / "f").write_bytes(noise(6_000_000, 3))
    run(env, *mc, "cp", tmp_path / "f", "it/docs/f")
    stat = run(env, *mc, "--json", "stat", "it/docs/f").stdout
    assert "team-key" in stat, stat
    run(env, *mc, "cp", "it/docs/f", tmp_path / "g")
    assert (tmp_path / "g").read_bytes() == (tmp_path / "f").read_bytes()
    run(env, *mc, "encrypt", "clear", "it/docs")
    key = base64.b64encode(b"c" * 32).decode().rstrip("=")
    run(env, *mc, "cp", "--enc-c", f"it/docs/={key}", tmp_path / "f", "it/docs/c")
    assert run(env, *mc, "cat", "it/docs/c", check=False).returncode != 0
    run(env, *mc, "cp", "--enc-c", f"it/docs/={key}", "it/docs/c", tmp_path / "h")
    assert (tmp_path / "h").read_bytes() == (tmp_path / "f").read_bytes()
    run(env, *mc, "cp", "--enc-s3", "it/docs/", "it/docs/f", "it/docs/s")
    assert "AES256" in run(env, *mc, "--json", "stat", "it/docs/s").stdout
    run(env, *mc, "cp", "it/docs/s", tmp_path / "i")
    assert (tmp_path / "i").read_bytes() == (tmp_path / "f").read_bytes()


def test_client_side_encryption_round_trip(own):
    """What clients encrypt themselves is theirs: metadata and bytes come back as they were."""
    s3 = client(own)
    s3.create_bucket(Bucket="bkt")
    # As the encryption clients of AWS's SDKs write it: version 1 (AES-CBC) and 2 (AES-GCM), made by hand.
    for name, meta in {
        "cbc": {"x-amz-key": "k" * 44, "x-amz-iv": base64.b64encode(b"i" * 16).decode(), "x-amz-matdesc": "{}",
                "x-amz-unencrypted-content-length": "70000"},
        "gcm": {"x-amz-key-v2": "k" * 64, "x-amz-iv": base64.b64encode(b"i" * 12).decode(), "x-amz-tag-len": "128",
                "x-amz-matdesc": '{"kms_cmk_id":"a"}', "x-amz-cek-alg": "AES/GCM/NoPadding", "x-amz-wrap-alg": "kms",
                "x-amz-unencrypted-content-length": "70000"},
    }.items():
        iv = b"i" * 16 if name == "cbc" else b"i" * 12 + b"\0\0\0\2"
        cipher = "-aes-256-cbc" if name == "cbc" else "-aes-256-ctr"
        sealed = subprocess.run(["openssl", "enc", cipher, "-K", "11" * 32, "-iv", iv.hex()], input=noise(70_000, 4),
                                capture_output=True, check=True, timeout=60).stdout
        for sse in [{}, {"ServerSideEncryption": "AES256"}]:
            s3.put_object(Bucket="bkt", Key=name, Body=sealed, Metadata=meta, **sse)
            s3.copy_object(Bucket="bkt", Key=f"{name}2", CopySource={"Bucket": "bkt", "Key": name})
            for key in [name, f"{name}2"]:
                got = s3.get_object(Bucket="bkt", Key=key)
                assert got["Metadata"] == meta
                opened = subprocess.run(["openssl", "enc", "-d", cipher, "-K", "11" * 32, "-iv", iv.hex()],
                                        input=got["Body"].read(), capture_output=True, check=True, timeout=60).stdout
                assert opened == noise(70_000, 4)


def test_encrypted_writes_are_refused_without_keys(tmp_path):
    """A server that has no place for a root key of its own, and none from its operator."""
    (tmp_path / "file").write_text("")
    server = Server(tmp_path, env={"ASHLAR_STATE_DIR": str(tmp_path / "file/state")})
    try:
        s3 = client(server)
        s3.create_bucket(Bucket="bkt")
        for kind in ["AES256", "aws:kms"]:
            refused(s3.put_object, "NotImplemented", Bucket="bkt", Key="k", Body=b"x", ServerSideEncryption=kind)
        assert "Contents" not in s3.list_objects_v2(Bucket="bkt")
    finally:
        server.stop()
