"""Writers that remember what was acknowledged, and the check that nothing of it is lost.

Every writer owns its keys. Before a request it notes what it is about to do; after the answer, what is
acknowledged. After a crash each key must show the acknowledged content, or the content of the one write
that was in flight.
"""

import hashlib
import http.client
import random
import threading
import time

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from conftest import ACCESS, REGION, SECRET

SIZES = [0, 10, 1000, 4096, 100_000, 400_000, 1_500_000, 6_000_000]


def client(server, attempts=1):
    return boto3.client(
        "s3", endpoint_url=server.endpoint, aws_access_key_id=ACCESS, aws_secret_access_key=SECRET,
        region_name=REGION,
        config=Config(
            s3={"addressing_style": "path"}, retries={"max_attempts": attempts, "mode": "standard"},
            connect_timeout=5, read_timeout=60,
        ),
    )


def content(key, generation, size):
    return random.Random(f"{key}/{generation}").randbytes(size)


class Writer(threading.Thread):
    """Puts, overwrites and deletes its own keys until told to stop or until the server is gone.

    With several clients, one for each node of a cluster, it goes on with the next one after a failure. What
    became of the failed write is then not known for good: a node that was paused may still complete it."""

    def __init__(self, s3, bucket, name, state):
        super().__init__()
        self.clients = s3 if isinstance(s3, list) else [s3]
        self.s3, self.bucket, self.who, self.state = self.clients[0], bucket, name, state
        self.going, self.acknowledged, self.failed, self.slowest = True, 0, 0, 0.0
        self.rng = random.Random(f"{name}/{len(state)}/{time.time_ns()}")

    def run(self):
        while self.going:
            key = f"{self.who}/{self.rng.randrange(12)}"
            done, unknown = self.state.get(key, (None, []))
            generation = self.rng.randrange(1 << 40)
            size = self.rng.choice(SIZES)
            wanted = None if done and self.rng.random() < 0.15 else (generation, size)
            self.state[key] = (done, [*unknown, wanted])
            began = time.monotonic()
            try:
                if wanted is None:
                    self.s3.delete_object(Bucket=self.bucket, Key=key)
                else:
                    self.s3.put_object(Bucket=self.bucket, Key=key, Body=content(key, generation, size))
            except (BotoCoreError, ClientError, http.client.HTTPException, OSError):
                self.failed += 1
                if len(self.clients) == 1:
                    return
                self.s3 = self.clients[self.failed % len(self.clients)]
                continue
            finally:
                self.slowest = max(self.slowest, time.monotonic() - began)
            self.state[key] = (wanted, unknown)
            self.acknowledged += 1


def look(s3, bucket, key):
    """What a key shows now: a digest, or None when it is absent. Anything else is a failure."""
    try:
        return hashlib.sha256(s3.get_object(Bucket=bucket, Key=key)["Body"].read()).digest()
    except ClientError as e:
        assert e.response["Error"]["Code"] == "NoSuchKey", f"{key}: {e}"
        return None


def check(s3, bucket, state):
    """Acknowledged content, or that of the write in flight; then that is the acknowledged one."""
    shown = lambda key, v: None if v is None else hashlib.sha256(content(key, *v)).digest()
    for key, (done, flying) in state.items():
        seen = look(s3, bucket, key)
        for candidate in [done, *flying]:
            if seen == shown(key, candidate):
                state[key] = (candidate, [])
                break
        else:
            pytest.fail(f"{key}: acknowledged {done}, in flight {flying}, but another content is there")
    listed = set()
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        listed |= {o["Key"] for o in page.get("Contents", [])}
    assert listed == {k for k, (done, _) in state.items() if done is not None}


def eventually(call, seconds=30):
    """Repeats a call that may fail for a while after a failure of nodes."""
    until = time.monotonic() + seconds
    while True:
        try:
            return call()
        except (ClientError, BotoCoreError):
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


def writers(cluster, bucket, states, but=()):
    """Starts a writer for each of `states`, each first with another node, those numbered `but` left out."""
    clients = cluster.clients(but=but)
    turned = [clients[i % len(clients):] + clients[:i % len(clients)] for i in range(len(states))]
    all_writers = [Writer(turned[i], bucket, f"w{i}", state) for i, state in enumerate(states)]
    for writer in all_writers:
        writer.start()
    return all_writers


def stop(all_writers):
    """Ends writers; each must have got an answer."""
    for writer in all_writers:
        writer.going = False
    for writer in all_writers:
        writer.join(120)
        assert not writer.is_alive(), "a request was never answered"


def check_all(s3, bucket, states):
    """Checks the keys of all writers of a bucket, together, because a list shows all of them."""
    merged = {}
    for state in states:
        merged.update(state)
    check(Patient(s3), bucket, merged)
    for state in states:
        for key in state:
            state[key] = merged[key]


class Patient:
    """A client that repeats what is refused for a while."""

    def __init__(self, s3):
        self.s3 = s3

    def get_object(self, **arguments):
        until = time.monotonic() + 60
        while True:
            try:
                return self.s3.get_object(**arguments)
            except ClientError as e:
                if e.response["Error"]["Code"] == "NoSuchKey" or time.monotonic() > until:
                    raise
                time.sleep(0.2)

    def get_paginator(self, name):
        return self.s3.get_paginator(name)
