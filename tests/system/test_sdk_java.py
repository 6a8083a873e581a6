"""The AWS SDK for Java 2 with today's defaults: encodings and attributes as repeated headers, trailing checksums, parts that
are copied, the transfer manager."""

import os
from pathlib import Path

from conftest import ACCESS, SECRET

PROGRAM = Path(__file__).parent / "sdk_java" / "Defaults.java"


def test_the_sdk_for_java_works_with_its_defaults(server, bucket, run):
    jars = os.environ["CLIENT_SDK_JAVA"]
    done = run("java", "-cp", f"{jars}/*", PROGRAM, server.endpoint, ACCESS, SECRET, bucket)
    lines = done.stdout.splitlines()
    assert len(lines) == 21 and all(line.startswith("ok ") for line in lines), done.stdout
