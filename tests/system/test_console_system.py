"""The console's screens about the server, in a browser: trace, log, event targets, encryption keys, identity providers."""

import http.server
import json
import os
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from conftest import ACCESS, SECRET, Server, one_server, until
from test_console import HERE, OURS, ask, s3_of, sign_in
from test_openid import CLIENT_SECRET, Provider

pytestmark = one_server


class Receiver(http.server.BaseHTTPRequestHandler):
    """A webhook that takes events or refuses them for good."""

    status, taken = 200, []

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if Receiver.status == 200:
            Receiver.taken.append(body)
        self.send_response(Receiver.status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def home():
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    home = Path(tempfile.mkdtemp(prefix="ashlar-console-system-", dir=base))
    yield home
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def receiver():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def test_screens_about_the_server_do_what_they_show(home, receiver):
    (home / "server").mkdir()
    own = Server(home / "server")
    provider = Provider(home, "corp", {"alice": {"policy": "readonly"}})
    process = None
    try:
        headers = {**OURS, "Cookie": sign_in(own), "Content-Type": "application/json"}

        def admin(method, path, body=None):
            status, _, answer = ask(f"{own.endpoint}/console/admin/{path}", method, json.dumps(body or {}).encode(), headers)
            assert status == 200, answer
            return json.loads(answer)

        s3 = s3_of(own)
        s3.create_bucket(Bucket="watched")
        s3.put_object(Bucket="watched", Key="first", Body=b"first")
        admin("PUT", "settings/notify_webhook/1", {"values": {"endpoint": receiver}})
        rules = {"QueueConfigurations": [{"QueueArn": "arn:minio:sqs::1:webhook", "Events": ["s3:ObjectCreated:*"]}]}

        def follows():
            try:
                return s3.put_bucket_notification_configuration(Bucket="watched", NotificationConfiguration=rules)
            except ClientError as e:
                # The target is taken up after the setting is stored.
                assert e.response["Error"]["Code"] == "InvalidArgument", e

        until(follows, 60)
        Receiver.status = 400
        s3.put_object(Bucket="watched", Key="refused", Body=b"x")
        # The list of dead letters is a call about all targets.
        until(lambda: json.loads(ask(f"{own.endpoint}/console/admin/dead-letters", headers=headers)[2])["letters"], 60)

        arguments = [own.endpoint, ACCESS, SECRET, provider.config_url, "corp", CLIENT_SECRET]
        with (home / "browser.log").open("w") as log:
            process = subprocess.Popen(["node", HERE / "console" / "system.mjs", *arguments], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, stderr=log, text=True)
        done = False
        for line in process.stdout:
            word = line.strip()
            if word == "request":
                s3.get_object(Bucket="watched", Key="first")["Body"].read()
                with pytest.raises(ClientError):
                    s3.get_object(Bucket="watched", Key="missing")
            elif word == "stop":
                assert own.stop() == 0
            elif word == "start":
                own.start()
            elif word == "mend":
                Receiver.status = 200
            elif word == "done":
                done = True
                break
            process.stdin.write("\n")
            process.stdin.flush()
        assert process.wait(timeout=60) == 0 and done, (home / "browser.log").read_text()[-6000:]
        until(lambda: any(b"watched/refused" in body for body in Receiver.taken), 60)
        keys = {k["name"]: k for k in json.loads(ask(f"{own.endpoint}/console/admin/kms/keys", headers=headers)[2])["keys"]}
        assert keys["of-the-console"]["version"] == 2
        assert CLIENT_SECRET not in own.log.read_text()
    finally:
        if process and process.poll() is None:
            process.kill()
            process.wait()
        provider.stop()
        if own.process.poll() is None:
            own.stop()
