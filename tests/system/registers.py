"""Clients that write and read the same keys through different nodes, and the check of what they saw.

A history is *linearizable* if its calls have an order that explains every answer, in which no call comes before
one that had ended when it began. Each write has a value of its own. A write without answer may have happened at
any time after its begin, or never."""

import math
import random
import threading
import time

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from conftest import ACCESS, REGION, SECRET

# Small bodies are in the record of a key, large ones in shards.
SIZES = [20, 2000, 300_000]


def impatient(server):
    """A client that gives up after seconds: what became of its request is then unknown."""
    return boto3.client(
        "s3", endpoint_url=server.endpoint, aws_access_key_id=ACCESS, aws_secret_access_key=SECRET, region_name=REGION,
        # A write that is sent again may take effect again: never.
        config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}, connect_timeout=2,
                      read_timeout=8),
    )


def body(value, size):
    return f"{value} ".encode() + random.Random(value).randbytes(size)


class Client(threading.Thread):
    """Writes and reads the keys of a bucket at one node, until it is told to stop."""

    def __init__(self, server, bucket, keys, name):
        super().__init__()
        self.s3, self.bucket, self.keys, self.who = impatient(server), bucket, keys, name
        # (key, begin, end, what, value); the end of what is unknown is infinite.
        self.calls, self.going = [], True
        # When calls were answered: of writes, of reads; and when they failed.
        self.written, self.read, self.failed = [], [], []

    def run(self):
        rng = random.Random(self.who)
        while self.going:
            key = rng.choice(self.keys)
            if rng.random() < 0.5:
                self.put(key, f"{self.who}-{len(self.calls)}", rng.choice(SIZES))
            else:
                self.get(key)

    def put(self, key, value, size):
        began = time.monotonic()
        try:
            self.s3.put_object(Bucket=self.bucket, Key=key, Body=body(value, size))
        except (BotoCoreError, ClientError, OSError):
            self.missed(began)
            self.calls.append((key, began, math.inf, "put", value))
            return
        ended = time.monotonic()
        self.calls.append((key, began, ended, "put", value))
        self.written.append(ended)

    def get(self, key):
        began = time.monotonic()
        try:
            found = self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read()
            value = found.split(b" ", 1)[0].decode(errors="replace")
            if found != body(value, len(found) - len(value) - 1):
                value = f"a body that nobody wrote: {value[:100]}"
        except ClientError as e:
            if e.response["Error"]["Code"] != "NoSuchKey":
                return self.missed(began)
            value = None
        except (BotoCoreError, OSError):
            return self.missed(began)
        ended = time.monotonic()
        self.calls.append((key, began, ended, "get", value))
        self.read.append(ended)

    def missed(self, began):
        self.failed.append(time.monotonic())
        # A node that refuses at once is not asked thousands of times.
        time.sleep(max(0, 0.1 - (time.monotonic() - began)))


def violations(clients):
    """The keys whose calls have no order that explains them."""
    calls = [call for c in clients for call in c.calls]
    keys = sorted({key for key, *_ in calls})
    bad = [key for key in keys if not linearizable([call[1:] for call in calls if call[0] == key])]
    for key in bad:
        print(f"the calls of {key}: begin, end, what, value")
        for call in sorted(call[1:] for call in calls if call[0] == key):
            print("{:.6f} {:.6f} {} {}".format(*call))
    return bad


def linearizable(calls):
    """Whether (begin, end, "put" or "get", value) of one key have an order that explains them; it begins absent."""
    seen_values = {value for _, _, what, value in calls if what == "get"}
    # A write without answer that nobody saw may never have happened.
    calls = sorted(c for c in calls if c[1] < math.inf or c[3] in seen_values)
    tried, stack = set(), [(0, frozenset(), None)]
    while stack:
        first, done, value = stack.pop()
        while first in done:
            done, first = done - {first}, first + 1
        if (first, done, value) in tried:
            continue
        tried.add((first, done, value))
        # Next in the order can be what began before the end of all others.
        limit, near = math.inf, []
        for i in range(first, len(calls)):
            if calls[i][0] > limit:
                break
            if i not in done:
                limit = min(limit, calls[i][1])
                near.append(i)
        if limit == math.inf:
            return True
        ready = [i for i in near if calls[i][0] <= limit]
        explained = [i for i in ready if calls[i][2] == "get" and calls[i][3] == value]
        if explained:
            # A read that is explained now changes nothing for the others.
            stack.append((first, done | set(explained), value))
        else:
            stack.extend((first, done | {i}, calls[i][3]) for i in ready if calls[i][2] == "put")
    return False
