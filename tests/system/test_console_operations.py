"""What operators do in the console, in a browser: the audit log."""

import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from conftest import ACCESS, SECRET, Server, one_server
from test_console import OURS, ask, drive, s3_of, sign_in

pytestmark = one_server


@pytest.fixture
def home():
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    home = Path(tempfile.mkdtemp(prefix="ashlar-console-operations-", dir=base))
    yield home
    shutil.rmtree(home, ignore_errors=True)


def test_operators_do_their_tasks(home):
    (home / "server").mkdir()
    own = Server(home / "server", arguments=["--audit-file", str(home / "audit.log")])
    try:
        headers = {**OURS, "Cookie": sign_in(own), "Content-Type": "application/json"}

        def admin(method, path, body=None):
            status, _, answer = ask(f"{own.endpoint}/console/admin/{path}", method, json.dumps(body or {}).encode(), headers)
            assert status == 200, answer
            return json.loads(answer)

        s3 = s3_of(own)
        s3.create_bucket(Bucket="watched")
        s3.put_object(Bucket="watched", Key="deep/secret.txt", Body=b"secret")
        for i in range(120):
            s3.put_object(Bucket="watched", Key=f"many/{i:03}", Body=b"x")
        admin("PUT", "users/carol", {"secret": "secret-of-carol"})
        with pytest.raises(ClientError):
            s3_of(own, "carol", "secret-of-carol").get_object(Bucket="watched", Key="deep/secret.txt")
        drive("operations.mjs", own.endpoint, ACCESS, SECRET)
    finally:
        own.stop()
