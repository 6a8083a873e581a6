"""RenameObject with boto3: kept metadata, conditions, tokens; and kills under load."""

import os
import random
import shutil
import signal
import tempfile
import threading
import time
from pathlib import Path

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from conftest import Server, noise
from histories import client

CYCLES = int(os.environ.get("ASHLAR_KILL_CYCLES", "20"))
OBJECTS = 6


def test_boto3_renames(s3, bucket):
    body = noise(12 << 20)
    upload = s3.create_multipart_upload(Bucket=bucket, Key="tmp/o", Metadata={"k": "v"}, ContentType="a/b",
                                        ChecksumAlgorithm="CRC32")
    parts = []
    for number, piece in ((1, body[: 7 << 20]), (2, body[7 << 20 :])):
        r = s3.upload_part(Bucket=bucket, Key="tmp/o", UploadId=upload["UploadId"], PartNumber=number, Body=piece)
        parts.append({"PartNumber": number, "ETag": r["ETag"], "ChecksumCRC32": r["ChecksumCRC32"]})
    s3.complete_multipart_upload(Bucket=bucket, Key="tmp/o", UploadId=upload["UploadId"],
                                 MultipartUpload={"Parts": parts})
    before = s3.head_object(Bucket=bucket, Key="tmp/o", ChecksumMode="ENABLED")
    s3.rename_object(Bucket=bucket, Key="final/o", RenameSource="tmp/o")
    after = s3.get_object(Bucket=bucket, Key="final/o", ChecksumMode="ENABLED")
    assert after["Body"].read() == body
    for name in ("ETag", "LastModified", "Metadata", "ContentType", "ContentLength", "ChecksumCRC32", "ChecksumType"):
        assert after[name] == before[name], name
    assert s3.head_object(Bucket=bucket, Key="final/o", PartNumber=2)["ContentLength"] == 5 << 20
    keys = [o["Key"] for o in s3.list_objects_v2(Bucket=bucket)["Contents"]]
    assert keys == ["final/o"]
    s3.put_object(Bucket=bucket, Key="x", Body=b"x")
    with pytest.raises(ClientError) as refused:
        s3.rename_object(Bucket=bucket, Key="final/o", RenameSource="x", DestinationIfNoneMatch="*")
    assert refused.value.response["Error"]["Code"] == "PreconditionFailed"
    s3.rename_object(Bucket=bucket, Key="final/o", RenameSource="x", DestinationIfMatch=before["ETag"], ClientToken="t")
    s3.rename_object(Bucket=bucket, Key="final/o", RenameSource="x", ClientToken="t")
    with pytest.raises(ClientError) as refused:
        s3.rename_object(Bucket=bucket, Key="final/o", RenameSource="y", ClientToken="t")
    assert refused.value.response["Error"]["Code"] == "IdempotencyParameterMismatch"
    assert s3.get_object(Bucket=bucket, Key="final/o")["Body"].read() == b"x"


class Mover(threading.Thread):
    """Gives objects their other names until told to stop, or the server is gone."""

    def __init__(self, server, seed):
        super().__init__()
        self.s3, self.random, self.going, self.done, self.wrong = client(server, 1), random.Random(seed), True, 0, []

    def run(self):
        while self.going:
            i = self.random.randrange(OBJECTS)
            names = [f"a/{i}", f"b/{i}"]
            self.random.shuffle(names)
            try:
                self.s3.rename_object(Bucket="moves", Key=names[0], RenameSource=names[1])
                self.done += 1
            except ClientError as e:
                code = e.response["Error"]["Code"]
                if code not in ("NoSuchKey", "ConditionalRequestConflict", "SlowDown", "ServiceUnavailable"):
                    self.wrong.append(str(e))
            except BotoCoreError:
                return


def test_kills_during_renames_lose_no_object():
    """Every object is there once, whole, whatever was cut off."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    home = Path(tempfile.mkdtemp(prefix="ashlar-rename-", dir=base))
    server = Server(home)
    try:
        s3 = client(server)
        s3.create_bucket(Bucket="moves")
        bodies = {i: noise([0, 100, 70_000, 300_000, 1_200_000, 3_000_000][i], seed=i) for i in range(OBJECTS)}
        for i, body in bodies.items():
            s3.put_object(Bucket="moves", Key=f"a/{i}", Body=body)
        rng = random.Random(os.environ.get("ASHLAR_SEED", "rename"))
        renamed = 0
        for cycle in range(max(2, CYCLES // 3)):
            movers = [Mover(server, f"{cycle} {m}") for m in range(4)]
            [m.start() for m in movers]
            time.sleep(rng.uniform(0.2, 0.8))
            server.process.send_signal(signal.SIGKILL)
            server.process.wait()
            for m in movers:
                m.going = False
            [m.join() for m in movers]
            assert not [w for m in movers for w in m.wrong]
            renamed += sum(m.done for m in movers)
            server.start()
            s3 = client(server, 3)
            there = [o["Key"] for o in s3.list_objects_v2(Bucket="moves").get("Contents", [])]
            for i, body in bodies.items():
                found = []
                for key in (f"a/{i}", f"b/{i}"):
                    try:
                        found.append((key, s3.get_object(Bucket="moves", Key=key)["Body"].read()))
                    except s3.exceptions.NoSuchKey:
                        pass
                assert len(found) == 1, f"object {i} is at {[k for k, _ in found]} after {renamed} renames"
                assert found[0][1] == body
                assert [k for k in there if k.endswith(f"/{i}")] == [found[0][0]]
        print(f"{renamed} renames, all objects there once")
        assert renamed > 20
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()
        shutil.rmtree(home, ignore_errors=True)
