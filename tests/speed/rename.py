"""What a rename costs the server, beside a copy and a delete of the same object in the same run.

    ASHLAR_BIN=target/release/ashlar python3 tests/speed/rename.py [renames per round] [rounds]

Needs boto3. An object goes to and fro between two keys, by RenameObject and by CopyObject with DeleteObject in
turn; printed are, by size, the medians of the rounds: milliseconds that a client waits, and the server's CPU time
(user and system, all threads) per move. By hand only: it is no test.
"""

import os
import random
import statistics
import sys
import time

import boto3
from botocore.config import Config

from server import ROOT, Server

SIZES = {"4 KiB": 4 << 10, "1 MiB": 1 << 20, "10 MiB": 10 << 20}


def rename(s3, source, target):
    s3.rename_object(Bucket="speed", Key=target, RenameSource=source)


def copy(s3, source, target):
    s3.copy_object(Bucket="speed", Key=target, CopySource=f"speed/{source}")
    s3.delete_object(Bucket="speed", Key=source)


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    with Server(os.environ["ASHLAR_BIN"]) as server:
        s3 = boto3.client("s3", endpoint_url=server.base, aws_access_key_id=ROOT[0], aws_secret_access_key=ROOT[1],
                          region_name="us-east-1", config=Config(s3={"addressing_style": "path"}))
        s3.create_bucket(Bucket="speed")
        for name, size in SIZES.items():
            s3.put_object(Bucket="speed", Key="a", Body=random.Random(size).randbytes(size))
            keys, took = ["a", "b"], {rename: [], copy: []}
            for _ in range(rounds):
                for move in random.sample([rename, copy], 2):
                    cpu, begin = server.cpu(), time.monotonic()
                    for _ in range(count):
                        move(s3, *keys)
                        keys.reverse()
                    took[move].append(((time.monotonic() - begin) / count * 1e3, (server.cpu() - cpu) / count * 1e6))
            for move, results in took.items():
                wait, cpu = (statistics.median(r[i] for r in results) for i in (0, 1))
                print(f"{name:>7} {move.__name__:>6}: {wait:8.2f} ms, {cpu:9.0f} us of CPU", flush=True)
            s3.delete_object(Bucket="speed", Key=keys[0])


if __name__ == "__main__":
    main()
