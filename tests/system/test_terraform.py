"""Terraform's S3 backend with `use_lockfile = true`, by the calls it makes (recorded from Terraform 1.11.4).

Lock: PUT of `<key>.tflock` with If-None-Match: * and a SHA-256; on 412 a GET of it says who holds it. State: HEAD, then GETs
of 5 MiB ranges with checksum mode; PUT with a SHA-256, in parts from 5 MiB. Unlock: GET of the lock, whose id must be ours,
then DELETE. Workspaces: a list of `env:/`.
"""

import base64
import datetime
import hashlib
import io
import json
import random
import threading
import time
import uuid

import boto3
import pytest
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import ClientError

from conftest import ACCESS, REGION, SECRET, noise

PART = 5 << 20


class Locked(Exception):
    """Somebody else holds the lock; `info` is theirs, None if it was given back meanwhile."""

    def __init__(self, info):
        super().__init__(info)
        self.info = info


class Backend:
    """One Terraform process with its state at `key`, in the workspace named."""

    def __init__(self, s3, bucket, who, workspace="default", key="app/terraform.tfstate"):
        self.s3, self.bucket, self.who = s3, bucket, who
        self.key = key if workspace == "default" else f"env:/{workspace}/{key}"
        self.lock_key = self.key + ".tflock"

    def lock(self):
        info = {"ID": str(uuid.uuid4()), "Operation": "OperationTypeApply", "Info": "", "Who": self.who, "Version": "1.11.4",
                "Created": datetime.datetime.now(datetime.timezone.utc).isoformat(), "Path": f"{self.bucket}/{self.key}"}
        body = json.dumps(info).encode()
        try:
            self.s3.put_object(Bucket=self.bucket, Key=self.lock_key, Body=body, ContentType="application/json",
                               IfNoneMatch="*", ChecksumSHA256=base64.b64encode(hashlib.sha256(body).digest()).decode())
        except ClientError as e:
            answer = e.response["ResponseMetadata"]["HTTPStatusCode"], e.response["Error"]["Code"]
            assert answer in [(412, "PreconditionFailed"), (409, "ConditionalRequestConflict")], answer
            raise Locked(self.holder()) from e
        return info["ID"]

    def holder(self):
        try:
            got = self.s3.get_object(Bucket=self.bucket, Key=self.lock_key, ChecksumMode="ENABLED")
        except ClientError as e:
            assert e.response["Error"]["Code"] == "NoSuchKey", e
            return None
        return json.loads(got["Body"].read())

    def unlock(self, id):
        """`terraform force-unlock ID` makes the same calls."""
        assert self.holder()["ID"] == id, "the lock is somebody else's"
        self.s3.delete_object(Bucket=self.bucket, Key=self.lock_key)

    def read(self):
        try:
            size = self.s3.head_object(Bucket=self.bucket, Key=self.key)["ContentLength"]
        except ClientError as e:
            assert e.response["ResponseMetadata"]["HTTPStatusCode"] == 404, e
            return None
        parts = [
            self.s3.get_object(Bucket=self.bucket, Key=self.key, Range=f"bytes={at}-{at + PART - 1}", ChecksumMode="ENABLED")
            for at in range(0, max(size, 1), PART)
        ]
        assert parts[0]["ContentRange"] == f"bytes 0-{min(size, PART) - 1}/{size}"
        return b"".join(p["Body"].read() for p in parts)

    def write(self, state):
        self.s3.upload_fileobj(
            io.BytesIO(state), self.bucket, self.key,
            ExtraArgs={"ChecksumAlgorithm": "SHA256", "ContentType": "application/json"},
            Config=TransferConfig(multipart_threshold=PART, multipart_chunksize=PART, max_concurrency=4),
        )

    def workspaces(self):
        found = self.s3.list_objects_v2(Bucket=self.bucket, Prefix="env:/", MaxKeys=1000).get("Contents", [])
        tail = "/app/terraform.tfstate"
        return ["default"] + sorted(o["Key"][len("env:/"):-len(tail)] for o in found if o["Key"].endswith(tail))


def code(error):
    return error.value.response["Error"]["Code"]


@pytest.fixture
def states(s3, bucket):
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    return bucket


@pytest.fixture
def own(server):
    """A client without retries: an answer that a retry hides is seen. Shared by threads, as boto3 allows."""
    return boto3.client("s3", endpoint_url=server.endpoint, aws_access_key_id=ACCESS, aws_secret_access_key=SECRET,
                        region_name=REGION, config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 0},
                                                          max_pool_connections=32))


def test_lock_has_one_holder_and_names_it(own, states):
    ann, eve = Backend(own, states, "ann@here"), Backend(own, states, "eve@there")
    assert ann.read() is None
    id = ann.lock()
    for _ in range(3):
        with pytest.raises(Locked) as refused:
            eve.lock()
        assert refused.value.info["ID"] == id and refused.value.info["Who"] == "ann@here"
    ann.write(b'{"serial": 1}')
    assert eve.read() == b'{"serial": 1}'
    ann.unlock(id)
    id = eve.lock()
    eve.write(b'{"serial": 2}')
    eve.unlock(id)
    # The bucket keeps versions: earlier states can be had, and a lock given back is a marker, under which a new one fits.
    seen = own.list_object_versions(Bucket=states)
    bodies = [own.get_object(Bucket=states, Key=v["Key"], VersionId=v["VersionId"])["Body"].read()
              for v in seen["Versions"] if v["Key"] == ann.key]
    assert bodies == [b'{"serial": 2}', b'{"serial": 1}']
    assert [(m["Key"], m["IsLatest"]) for m in seen["DeleteMarkers"]] == [(ann.lock_key, True), (ann.lock_key, False)]


@pytest.mark.parametrize("contenders", [2, 16])
def test_concurrent_contenders_get_the_lock_once(own, states, contenders):
    for round in range(10):
        start, won, lost = threading.Barrier(contenders), [], []

        def contend(i):
            backend = Backend(own, states, f"c{i}", workspace=f"race{round}")
            start.wait()
            try:
                won.append((backend, backend.lock()))
            except Locked as refused:
                lost.append(refused.info)

        threads = [threading.Thread(target=contend, args=(i,)) for i in range(contenders)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        assert len(won) == 1 and len(lost) == contenders - 1, (round, len(won), len(lost))
        backend, id = won[0]
        # A 409 may be read before the winner's lock can be; a 412 names the winner.
        assert all(info is None or info["ID"] == id for info in lost) and backend.holder()["ID"] == id


def test_no_update_is_lost(own, states):
    """Every process takes the lock, reads the state, adds one, writes and unlocks."""
    processes, each, failed = 6, 5, []

    def process(i):
        rng, backend = random.Random(i), Backend(own, states, f"p{i}")
        try:
            for _ in range(each):
                deadline = time.monotonic() + 60
                while True:
                    try:
                        id = backend.lock()
                        break
                    except Locked:
                        assert time.monotonic() < deadline, "the lock was never free"
                        time.sleep(rng.uniform(0.005, 0.05))
                state = json.loads(backend.read() or b'{"serial": 0, "by": []}')
                backend.write(json.dumps({"serial": state["serial"] + 1, "by": [*state["by"], i]}).encode())
                backend.unlock(id)
        except BaseException as e:
            failed.append(e)
            raise

    threads = [threading.Thread(target=process, args=(i,)) for i in range(processes)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not failed, failed
    state = json.loads(Backend(own, states, "end").read())
    assert state["serial"] == processes * each and sorted(state["by"]) == sorted([*range(processes)] * each)


def test_stale_lock_is_removed_by_force(own, states):
    dead, next = Backend(own, states, "dead"), Backend(own, states, "next")
    id = dead.lock()
    with pytest.raises(Locked) as refused:
        next.lock()
    with pytest.raises(AssertionError, match="somebody else's"):
        next.unlock(str(uuid.uuid4()))
    next.unlock(refused.value.info["ID"])
    assert refused.value.info["ID"] == id and next.holder() is None
    again = next.lock()
    # The dead one wakes up: what it would unlock is no longer its own.
    with pytest.raises(AssertionError, match="somebody else's"):
        dead.unlock(id)
    next.unlock(again)


def test_large_state_and_checksums(own, states):
    """A state of three parts; a body that is not what its checksum says changes nothing."""
    backend = Backend(own, states, "large")
    state = json.dumps({"serial": 1, "data": base64.b64encode(noise(9 << 20)).decode()}).encode()
    assert len(state) > 2 * PART
    backend.write(state)
    assert backend.read() == state
    head = own.head_object(Bucket=states, Key=backend.key, ChecksumMode="ENABLED")
    assert head["ETag"].endswith('-3"') and head["ChecksumSHA256"].endswith("-3"), head
    small, wrong = b'{"serial": 2}', base64.b64encode(hashlib.sha256(b"another").digest()).decode()
    with pytest.raises(ClientError) as error:
        own.put_object(Bucket=states, Key=backend.key, Body=small, ChecksumSHA256=wrong)
    assert code(error) == "BadDigest"
    with pytest.raises(ClientError) as error:
        own.put_object(Bucket=states, Key=backend.key, Body=small,
                       ContentMD5=base64.b64encode(hashlib.md5(b"another").digest()).decode())
    assert code(error) == "BadDigest"
    with pytest.raises(ClientError) as error:
        own.put_object(Bucket=states, Key=backend.lock_key, Body=small, IfNoneMatch="*", ChecksumSHA256=wrong)
    assert code(error) == "BadDigest" and backend.holder() is None
    assert backend.read() == state
    # Older clients send Content-MD5 instead.
    own.put_object(Bucket=states, Key=backend.key, Body=small,
                   ContentMD5=base64.b64encode(hashlib.md5(small).digest()).decode())
    assert backend.read() == small


def test_workspaces(own, states):
    for workspace in ["default", "dev", "prod eu"]:
        backend = Backend(own, states, "w", workspace)
        id = backend.lock()
        backend.write(json.dumps({"serial": 1, "of": workspace}).encode())
        # Each workspace has a lock of its own.
        other = Backend(own, states, "w", workspace + "2")
        other.unlock(other.lock())
        backend.unlock(id)
    assert Backend(own, states, "w").workspaces() == ["default", "dev", "prod eu"]
    assert json.loads(Backend(own, states, "w", "dev").read())["of"] == "dev"
    own.delete_object(Bucket=states, Key=Backend(own, states, "w", "dev").key)
    assert Backend(own, states, "w").workspaces() == ["default", "prod eu"]
    assert Backend(own, states, "w", "dev").read() is None
