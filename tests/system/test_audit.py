"""The audit log of a real server: the identity and operation of each request, the deciding statement, no secrets.

This file starts its own server, with an audit file and a webhook under both Ashlar's and MinIO's names. All logging
is enabled, so that planted secrets would be found.
"""

import base64
import contextlib
import hashlib
import http.client
import http.server
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from conftest import ACCESS, REGION, SECRET, Server, free_port
from test_identities import allow, call

BIN = os.environ["ASHLAR_BIN"]
TOKEN = "Bearer planted-token-of-the-receiver"
PLANTED = {
    "secret of a user": "planted-secret-of-carol",
    "secret of root": SECRET,
    "token of the receiver": TOKEN.split()[1],
    "customer's key": base64.b64encode(b"planted-customer-key-32-bytes-xx").decode(),
    "document of an administrator": "planted-description-of-a-key",
    "query value": "planted-query-value",
    "header value": "planted-header-value",
    "metadata": "planted-metadata-value",
}


class Receiver:
    """Keeps what is posted to it; can be away."""

    def __init__(self):
        self.port = free_port()
        self.entries, self.tokens = [], set()
        self.server = None

    def here(self):
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if receiver.server is None:
                    # A connection that was open before it went away.
                    self.close_connection = True
                    return
                receiver.tokens.add(self.headers.get("Authorization"))
                receiver.entries.append(json.loads(body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def away(self):
        server, self.server = self.server, None
        if server:
            server.shutdown()
            server.server_close()

    def ids(self):
        return {e["requestID"] for e in self.entries}

    def wait_for(self, ids, seconds=30):
        until = time.monotonic() + seconds
        while missing := set(ids) - self.ids():
            assert time.monotonic() < until, f"{len(missing)} of {len(set(ids))} records did not come"
            time.sleep(0.05)


@pytest.fixture(scope="module")
def world():
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    home = Path(tempfile.mkdtemp(prefix="ashlar-audit-", dir=base))
    receiver = Receiver()
    receiver.here()
    settings = {
        "ASHLAR_LOG": "trace",
        "ASHLAR_AUDIT_FILE": str(home / "audit.log"),
        "ASHLAR_AUDIT_FILE_SIZE": "64KiB",
        "ASHLAR_AUDIT_WEBHOOK_ALLOW_LOOPBACK": "true",
        "MINIO_AUDIT_WEBHOOK_ENABLE_one": "on",
        "MINIO_AUDIT_WEBHOOK_ENDPOINT_one": f"http://127.0.0.1:{receiver.port}/audit",
        "MINIO_AUDIT_WEBHOOK_AUTH_TOKEN_one": TOKEN,
        "MINIO_AUDIT_WEBHOOK_QUEUE_DIR_one": str(home / "queue"),
    }
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    server = Server(home)
    try:
        yield server, receiver
        assert server.stop() == 0
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()
        receiver.away()
        shutil.rmtree(home, ignore_errors=True)


def client(server, access=ACCESS, secret=SECRET, token=None, service="s3"):
    return boto3.client(
        service, endpoint_url=server.endpoint, aws_access_key_id=access, aws_secret_access_key=secret,
        aws_session_token=token, region_name=REGION,
        config=Config(retries={"max_attempts": 1}, s3={"addressing_style": "path"}, signature_version="s3v4"),
    )


def cli(server, *args, env=None, check=True):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "MC_", "ASHLAR_LOG"))}
    environment["MC_HOST_it"] = server.endpoint.replace("http://", f"http://{ACCESS}:{SECRET}@")
    environment["ASHLAR_CONFIG"] = str(server.home / "config.toml")
    environment.update(env or {})
    done = subprocess.run([BIN, *map(str, args)], env=environment, capture_output=True, text=True, timeout=60)
    if check and done.returncode != 0:
        pytest.fail(f"{args}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def why(server, request_id):
    return json.loads(cli(server, "--json", "admin", "why", "it", request_id).stdout)


def refused(function, *args, **kwargs):
    """The request id of a refusal, the same in header and document."""
    with pytest.raises(ClientError) as caught:
        function(*args, **kwargs)
    answer = caught.value.response
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 403, answer
    header = answer["ResponseMetadata"]["HTTPHeaders"]["x-amz-request-id"]
    assert answer["ResponseMetadata"].get("RequestId", header) == header
    # Who is refused is not told what decided.
    assert "statement" not in json.dumps(answer["Error"]).lower()
    return header


def root(server, method, path, body=None):
    status, answer = call(server, (ACCESS, SECRET), method, path, body)
    assert status < 300, (status, answer)
    return answer


def files(server):
    return sorted(p for p in server.home.iterdir() if p.name.startswith("audit.log") and p.suffix != ".head")


def lines(server):
    all_lines = [json.loads(line) for f in files(server) for line in f.read_text().splitlines()]
    return sorted(all_lines, key=lambda line: line["seq"])


def recorded(server, request_id, seconds=5):
    until = time.monotonic() + seconds
    while True:
        found = [line for line in lines(server) if line.get("request_id") == request_id]
        if found or time.monotonic() > until:
            assert len(found) == 1, found
            return found[0]
        time.sleep(0.05)


def test_records_name_identity_and_deciding_statement(world):
    server, _ = world
    s3 = client(server)
    s3.create_bucket(Bucket="team")
    s3.put_object(Bucket="team", Key="a", Body=b"1", Metadata={"note": PLANTED["metadata"]})
    root(server, "PUT", "users/carol", {"secret": PLANTED["secret of a user"]})
    policy = allow(["s3:GetObject", "s3:PutObject"], "arn:aws:s3:::team/*")
    policy["Statement"] += [
        {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::team"},
        {"Sid": "NotThese", "Effect": "Deny", "Action": "s3:*", "Resource": "arn:aws:s3:::team/closed/*"},
    ]
    root(server, "PUT", "policies/team-work", policy)
    root(server, "POST", "policies/attach", {"policies": ["team-work"], "user": "carol"})
    carol = client(server, "carol", PLANTED["secret of a user"])

    # Allowed: in the file, with the statement.
    answer = carol.get_object(Bucket="team", Key="a")["ResponseMetadata"]
    record = recorded(server, answer["RequestId"])
    assert (record["operation"], record["bucket"], record["key"], record["status"]) == ("GetObject", "team", "a", 200)
    assert (record["user"], record["kind"], record["ip"], record["bytes_out"]) == ("carol", "user", "127.0.0.1", 1)
    assert (record["policy"], record["statement"], record["action"]) == ("policy team-work", 0, "s3:GetObject")
    assert "boto3" in record["user_agent"].lower()

    # By an explicit deny.
    record = why(server, refused(carol.get_object, Bucket="team", Key="closed/x"))
    assert record["decided_by"] == "denied by statement 2 of policy team-work" and record["sid"] == "NotThese"
    assert (record["user"], record["operation"], record["key"]) == ("carol", "GetObject", "closed/x")
    # By nothing that allows it.
    record = why(server, refused(carol.delete_object, Bucket="team", Key="a"))
    assert record["decided_by"] == "denied: no statement allows it" and record["action"] == "s3:DeleteObject"
    # By the bucket's policy.
    s3.create_bucket(Bucket="guarded")
    s3.put_bucket_policy(Bucket="guarded", Policy=json.dumps({"Version": "2012-10-17", "Statement": [
        {"Sid": "Carol", "Effect": "Deny", "Principal": {"AWS": "arn:aws:iam::000000000000:user/carol"},
         "Action": "s3:PutObject", "Resource": "arn:aws:s3:::guarded/*"}]}))
    record = why(server, refused(carol.put_object, Bucket="guarded", Key="k", Body=b"x"))
    assert record["decided_by"] == "denied by statement 0 of the bucket's policy" and record["sid"] == "Carol"
    # By a session's policy.
    sts = client(server, "carol", PLANTED["secret of a user"], service="sts")
    session = sts.assume_role(
        RoleArn="arn:aws:iam::000000000000:role/x", RoleSessionName="session",
        Policy=json.dumps(allow(["s3:PutObject"], "arn:aws:s3:::team/*")),
    )
    keys = session["Credentials"]
    PLANTED["secret of a session"] = keys["SecretAccessKey"]
    PLANTED["token of a session"] = keys["SessionToken"]
    temporary = client(server, keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"])
    record = why(server, refused(temporary.get_object, Bucket="team", Key="a"))
    assert record["decided_by"] == "denied: session policy 0 does not allow it", record
    assert (record["user"], record["kind"], record["parent"]) == ("carol", "session", "carol")
    # Nobody.
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f"{server.endpoint}/team/a")
    record = why(server, caught.value.headers["x-amz-request-id"])
    assert record["kind"] == "anonymous" and record["decided_by"] == "denied: no statement allows it"
    # A wrong signature: the record names no user.
    record = why(server, refused(client(server, "carol", "wrong-secret-wrong").get_object, Bucket="team", Key="a"))
    assert record["error"] == "SignatureDoesNotMatch" and "user" not in record
    # The security token service, and its refusals.
    assert recorded(server, session["ResponseMetadata"]["RequestId"])["api"] == "sts"
    # Administration without permission; the command line explains the decision.
    status, answer = call(server, ("carol", PLANTED["secret of a user"]), "GET", "users")
    assert status == 403, answer
    record = [line for line in lines(server) if line.get("api") == "admin" and line["user"] == "carol"][-1]
    assert record["decided_by"] == "denied: no statement allows it" and record["operation"] == "UserList"
    shown = cli(server, "admin", "why", "it", record["request_id"]).stdout
    assert "Because  admin:ListUsers was denied: no statement allows it" in shown, shown
    # Only callers with permission to read the audit log get the explanation.
    status, _ = call(server, ("carol", PLANTED["secret of a user"]), "GET", f"why/{record['request_id']}")
    assert status == 403
    assert cli(server, "admin", "why", "it", "0000000000000000", check=False).returncode == 3


def test_records_of_other_requests(world):
    server, _ = world
    s3 = client(server)
    body = b"x" * (3 << 20)
    put = s3.put_object(Bucket="team", Key="large", Body=body)["ResponseMetadata"]["RequestId"]
    assert recorded(server, put)["bytes_in"] == len(body)
    got = s3.get_object(Bucket="team", Key="large", Range="bytes=0-2097151")
    got["Body"].read()
    record = recorded(server, got["ResponseMetadata"]["RequestId"])
    assert (record["bytes_out"], record["headers"]["range"]) == (2 << 20, "bytes=0-2097151") and "cut" not in record
    # A client that goes away in the middle.
    s3.put_object(Bucket="team", Key="huge", Body=bytes(48 << 20))
    url = urlsplit(s3.generate_presigned_url("get_object", Params={"Bucket": "team", "Key": "huge"}))
    connection = http.client.HTTPConnection(url.hostname, url.port)
    connection.request("GET", f"{url.path}?{url.query}")
    answer = connection.getresponse()
    assert answer.status == 200
    answer.read(1 << 20)
    request_id = answer.headers["x-amz-request-id"]
    answer.close()
    connection.close()
    record = recorded(server, request_id)
    assert record["cut"] and record["bytes_out"] < 48 << 20, record
    head = s3.head_object(Bucket="team", Key="large")["ResponseMetadata"]["RequestId"]
    assert recorded(server, head)["bytes_out"] == 0
    with pytest.raises(ClientError) as caught:
        s3.get_object(Bucket="team", Key="nothing-here")
    record = recorded(server, caught.value.response["ResponseMetadata"]["RequestId"])
    assert (record["status"], record["error"]) == (404, "NoSuchKey")
    listed = s3.list_objects_v2(Bucket="team", Prefix="la")["ResponseMetadata"]["RequestId"]
    assert recorded(server, listed)["query"]["prefix"] == "la"
    deleted = s3.delete_objects(Bucket="team", Delete={"Objects": [{"Key": "large"}, {"Key": "huge"}]})
    assert recorded(server, deleted["ResponseMetadata"]["RequestId"])["operation"] == "DeleteObjects"


def test_administration_call_is_recorded_before_its_answer(world):
    server, _ = world
    for i in range(5):
        root(server, "PUT", f"users/quick{i}", {})
        # No waiting: it is in the file when the answer is here.
        assert [line for line in lines(server) if line.get("key") == f"quick{i}" and line["operation"] == "UserPut"]


def test_webhooks_get_records_in_the_form_of_minio(world):
    server, receiver = world
    s3 = client(server)
    request_id = s3.put_object(Bucket="team", Key="for the receiver", Body=b"12345")["ResponseMetadata"]["RequestId"]
    receiver.wait_for([request_id])
    entry = next(e for e in receiver.entries if e["requestID"] == request_id)
    assert entry["version"] == "1" and entry["trigger"] == "incoming" and len(entry["deploymentid"]) >= 32
    api = entry["api"]
    assert (api["name"], api["bucket"], api["object"]) == ("PutObject", "team", "for the receiver")
    assert (api["status"], api["statusCode"], api["rx"], api["tx"]) == ("OK", 200, 5, 0)
    assert api["timeToResponse"].endswith("ns") and api["timeToResponseInNS"].isdigit()
    assert entry["remotehost"] == "127.0.0.1" and entry["accessKey"] == ACCESS
    assert "boto3" in entry["userAgent"].lower() and entry["requestHeader"]["host"].startswith("127.0.0.1")
    assert receiver.tokens == {TOKEN}


def test_unreachable_receiver_gets_all_records_later(world):
    server, receiver = world
    s3 = client(server)
    receiver.away()
    ids = [s3.put_object(Bucket="team", Key=f"n{i}", Body=b"")["ResponseMetadata"]["RequestId"] for i in range(40)]
    # What is in the file is in the queue too: this call ends when both are written.
    root(server, "GET", "users")
    server.process.kill()
    server.process.wait()
    server.start()
    more = [s3.head_object(Bucket="team", Key=f"n{i}")["ResponseMetadata"]["RequestId"] for i in range(10)]
    assert server.stop() == 0
    server.start()
    metrics = cli(server, "info", "it", "--metrics-token").stdout.strip()
    request = urllib.request.Request(f"{server.endpoint}/ashlar/metrics", headers={"Authorization": f"Bearer {metrics}"})
    text = urllib.request.urlopen(request).read().decode()
    waiting = next(line for line in text.splitlines() if line.startswith("minio_audit_target_queue_length{"))
    assert int(waiting.split()[-1]) >= 50, waiting
    receiver.here()
    receiver.wait_for(ids + more)


def verify(server, *which, check=True):
    return cli(server, "admin", "audit", "verify", *which, env={"ASHLAR_ROOT_PASSWORD": SECRET}, check=check)


def test_every_change_of_the_audit_file_is_detected(world, tmp_path):
    server, _ = world
    s3 = client(server)
    for i in range(150):
        s3.list_objects_v2(Bucket="team", Prefix=f"something longer {i}")
    assert server.stop() == 0
    try:
        whole = verify(server, *files(server), check=False)
        again = verify(server, *reversed(files(server)), check=False)
        other = cli(server, "admin", "audit", "verify", *files(server), env={"ASHLAR_ROOT_PASSWORD": "another"}, check=False)
        bare = cli(server, "admin", "audit", "verify", *files(server), check=False)
        names = files(server)
        source = (server.home / "audit.log").read_text().splitlines(keepends=True)
        head = (server.home / "audit.log.head").read_text()
    finally:
        server.start()
    assert len(names) > 1, "it was rotated"
    assert whole.returncode == 0 and "are intact" in whole.stdout, whole.stdout + whole.stderr
    assert again.returncode == 0
    # Without the secret only the hashes are looked at; with another nothing is believed.
    assert bare.returncode == 0 and "were not checked" in bare.stdout
    assert other.returncode == 1 and "another root secret" in other.stderr, other.stderr
    # One file, every line: removed, changed.
    copy = tmp_path / "audit.log"
    Path(f"{copy}.head").write_text(head)
    step = max(1, len(source) // 25)
    for i in range(0, len(source), step):
        copy.write_text("".join(source[:i] + source[i + 1:]))
        assert verify(server, copy, check=False).returncode == 1, f"line {i} was removed"
        changed = source[i].replace('"time":"2', '"time":"1', 1)
        assert changed != source[i]
        copy.write_text("".join(source[:i] + [changed] + source[i + 1:]))
        done = verify(server, copy, check=False)
        assert done.returncode == 1 and f"line {i + 1}" in done.stderr, done.stderr
    # Recomputed hashes do not help without the secret.
    forged, before = [], bytes.fromhex(json.loads(source[0])["prev"])
    for i, line in enumerate(source):
        content = line[: line.rindex(',"hash":"')]
        if i == 1:
            content = content.replace('"time":"2', '"time":"1', 1)
        before = hashlib.sha256(before + content.encode()).digest()
        forged.append(f'{content},"hash":"{before.hex()}"}}\n')
    copy.write_text("".join(forged))
    done = verify(server, copy, check=False)
    assert done.returncode == 1 and "signature" in done.stderr, done.stderr
    # Shortened.
    copy.write_text("".join(source[:-1]))
    assert verify(server, copy, check=False).returncode == 1


def search(server, who=(ACCESS, SECRET), **query):
    text = urllib.parse.urlencode(query)
    status, answer = call(server, who, "GET", f"audit?{text}")
    assert status == 200, answer
    return answer


def pages(server, **query):
    """All records of a search, page by page."""
    found, cursor = [], ""
    while True:
        page = search(server, cursor=cursor, **query)
        assert [n["problem"] for n in page["nodes"]] in ([None], []), page
        found += page["records"]
        cursor = page["cursor"]
        if cursor is None:
            assert page["complete"]
            return found


def test_records_are_found_by_every_condition(world):
    server, _ = world
    s3 = client(server)
    s3.create_bucket(Bucket="searched")
    for _ in range(1000):
        if len(files(server)) > 1:
            break
        s3.list_buckets()
    secret = "a-long-enough-secret"
    root(server, "PUT", "users/seeker", {"secret": secret})
    root(server, "PUT", "policies/seeker", allow(["s3:PutObject"]))
    root(server, "POST", "policies/attach", {"policies": ["seeker"], "user": "seeker"})
    theirs = client(server, "seeker", secret)
    began = time.time()
    ids = {}
    for i in range(60):
        answer = theirs.put_object(Bucket="searched", Key=f"in/{i}", Body=b"x")
        ids[f"in/{i}"] = answer["ResponseMetadata"]["HTTPHeaders"]["x-amz-request-id"]
    denied = refused(theirs.get_object, Bucket="searched", Key="in/1")
    s3.get_object(Bucket="searched", Key="in/1")
    # It is recorded before it is answered, after all that came before.
    root(server, "GET", "users")
    keys = lambda records: [r["key"] for r in records]
    newest_first = [f"in/{i}" for i in reversed(range(60))]
    puts = pages(server, bucket="searched", operation="PutObject", limit=7)
    assert keys(puts) == newest_first
    assert [r["request_id"] for r in puts] == [ids[k] for k in newest_first]
    assert {r["node"] for r in puts if "node" in r} == set(), "this server is alone"
    assert keys(pages(server, bucket="searched", prefix="in/5", user="seeker", status=200)) == [
        *(f"in/{i}" for i in reversed(range(50, 60))), "in/5"]
    for query in [
        {"error": "AccessDenied", "bucket": "searched"},
        {"status": "4xx", "access_key": "seeker", "source": "127.0.0.0/8"},
        {"request_id": denied, "api": "s3"},
    ]:
        assert [r["request_id"] for r in pages(server, **query)] == [denied], query
    iso = lambda t: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(t))
    assert len(pages(server, bucket="searched", prefix="in/", since=iso(began - 1), limit=1000)) == 62
    assert pages(server, bucket="searched", until=iso(began - 3600)) == []
    assert pages(server, bucket="searched", source="10.0.0.0/8") == []
    # The search itself is a call of administration.
    assert search(server, operation="AuditSearch", limit=1)["records"][0]["api"] == "admin"
    # More than one file is searched: the oldest record is in a rotated one.
    assert len(files(server)) > 1
    assert len(pages(server, limit=1000)) > 100
    for bad in ["since=soon", "limit=0", "status=9", "source=here", "cursor=7", "colour=red"]:
        status, answer = call(server, (ACCESS, SECRET), "GET", f"audit?{bad}")
        assert status == 400 and bad.split("=")[0] in answer["error"], answer
    # The permission to explain one request does not allow this one.
    root(server, "PUT", "policies/seeker", allow(["admin:Audit"]))
    assert call(server, ("seeker", secret), "GET", "audit")[0] == 403
    root(server, "PUT", "policies/seeker", allow(["admin:AuditSearch"]))
    assert search(server, ("seeker", secret), error="AccessDenied", bucket="searched")["records"]


def test_search_command(world):
    server, _ = world
    s3 = client(server)
    s3.create_bucket(Bucket="commanded")
    for i in range(5):
        s3.put_object(Bucket="commanded", Key=f"k{i}", Body=b"")
    root(server, "GET", "users")
    base = ["admin", "audit", "search", "it", "--bucket", "commanded", "--since", "1h", "--operation", "PutObject"]
    found = [json.loads(line) for line in cli(server, "--json", *base).stdout.splitlines()]
    assert [r["key"] for r in found] == ["k4", "k3", "k2", "k1", "k0"] and found[0]["status"] == 200
    done = cli(server, *base, "--limit", "2")
    lines = done.stdout.splitlines()
    assert len(lines) == 2 and "PutObject  commanded/k4  200" in lines[0] and "--limit" in done.stderr, done
    assert "No record" in cli(server, *base, "--prefix", "none").stderr
    assert cli(server, *base, "--status", "9", check=False).returncode == 1
    assert cli(server, *base, "--until", "never", check=False).returncode == 2


def test_no_secret_is_recorded(world):
    server, receiver = world
    s3 = client(server)
    url = s3.generate_presigned_url("get_object", Params={"Bucket": "team", "Key": "a"})
    PLANTED["signature of a link"] = parse_qs(urlsplit(url).query)["X-Amz-Signature"][0]
    urllib.request.urlopen(url).read()
    with contextlib.suppress(ClientError):
        s3.put_object(
            Bucket="team", Key="sse", Body=b"x", SSECustomerAlgorithm="AES256",
            SSECustomerKey=b"planted-customer-key-32-bytes-xx",
        )
    signatures = []

    def watch(request, **_):
        signatures.append(request.headers["Authorization"].decode().split("Signature=")[1])
        request.headers["x-planted"] = PLANTED["header value"]

    s3.meta.events.register("before-send.s3.GetObject", watch)
    s3.get_object(Bucket="team", Key="a")
    PLANTED["signature of a request"] = signatures[0]
    with contextlib.suppress(urllib.error.HTTPError):
        urllib.request.urlopen(f"{server.endpoint}/team/a?planted={PLANTED['query value']}&X-Amz-Security-Token=planted-query-value")
    made = root(server, "POST", "keys", {"description": PLANTED["document of an administrator"]})
    PLANTED["secret that was made"] = made["secret"]
    root(server, "PUT", "users/dave", {"secret": "planted-secret-of-dave"})
    PLANTED["secret of another user"] = "planted-secret-of-dave"
    receiver.wait_for([line["request_id"] for line in lines(server)[-20:] if "request_id" in line])
    assert server.stop() == 0
    server.start()
    everything = {
        "the audit files": "".join(f.read_text() for f in files(server)),
        "what the receiver got": json.dumps(receiver.entries),
        "the log": server.log.read_text(errors="replace"),
        "the queue": "".join(p.read_text(errors="replace") for p in (server.home / "queue").iterdir()),
    }
    assert len(everything["the audit files"]) > 10_000 and len(everything["what the receiver got"]) > 10_000
    for what, secret in PLANTED.items():
        for where, text in everything.items():
            assert secret not in text, f"{what} is in {where}"
