"""What operators do in the console, in a browser: audit log, settings, event targets, placement, simulation, archives."""

import concurrent.futures
import http.client
import io
import json
import os
import shutil
import tempfile
import zipfile
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from conftest import ACCESS, SECRET, Server, one_server
from test_console import OURS, ask, drive, s3_of, sign_in
from test_console_system import Receiver, receiver  # noqa: F401

pytestmark = one_server


@pytest.fixture
def home():
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    home = Path(tempfile.mkdtemp(prefix="ashlar-console-operations-", dir=base))
    yield home
    shutil.rmtree(home, ignore_errors=True)


def test_operators_do_their_tasks(home, receiver):  # noqa: F811
    Receiver.status, Receiver.taken = 200, []
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
        drive("operations.mjs", own.endpoint, ACCESS, SECRET, receiver, home)
        said = admin("GET", "heal/limits")
        assert (said["max_rate"], said["busy_share"], said["stored"]) == (100 << 20, 10, ["busy_share", "max_rate"])
        assert any(b"s3:TestEvent" in body for body in Receiver.taken)
        values = admin("GET", "settings/notify_webhook/shop")["values"]
        assert values == {"endpoint": receiver, "auth_token": "*redacted*", "comment": "of the file"}
        assert "kept-secret-token" not in (home / "settings.txt").read_text() and "notify_webhook:shop" in (home / "settings.txt").read_text()
        rules = s3.get_bucket_notification_configuration(Bucket="watched")["QueueConfigurations"]
        assert [(r["QueueArn"].split(":")[-2:], r["Events"]) for r in rules] == [(["shop", "webhook"], ["s3:ObjectCreated:*"])]
        assert s3.get_bucket_cors(Bucket="watched")["CORSRules"][0]["AllowedOrigins"] == ["https://app.example.com"]
        site = s3.get_bucket_website(Bucket="watched")
        assert site["ErrorDocument"] == {"Key": "404.html"}
        assert site["RoutingRules"] == [{"Condition": {"KeyPrefixEquals": "old/"}, "Redirect": {"ReplaceKeyPrefixWith": "new/"}}]
        with pytest.raises(ClientError):
            s3.get_bucket_lifecycle_configuration(Bucket="watched")
        with zipfile.ZipFile(home / "deep.zip") as archive:
            assert archive.testzip() is None and archive.namelist() == ["deep/secret.txt"]
            assert archive.read("deep/secret.txt") == b"secret"
    finally:
        own.stop()


def test_table_of_buckets_is_paged_by_the_server(home):
    (home / "server").mkdir()
    own = Server(home / "server")
    try:
        root = {**OURS, "Cookie": sign_in(own), "Content-Type": "application/json"}
        s3 = s3_of(own)
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda i: s3.create_bucket(Bucket=f"page-{i:04}"), range(1130)))
        s3.put_object(Bucket="page-0777", Key="key", Body=b"x" * 1000)
        for path, body in [("users/lister", {"secret": "secret-of-lister"}), ("policies/attach", {"policies": ["readonly"], "user": "lister"})]:
            method = "POST" if path.startswith("policies") else "PUT"
            status, _, answer = ask(f"{own.endpoint}/console/admin/{path}", method, json.dumps(body).encode(), root)
            assert status == 200, answer
        lists = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:ListAllMyBuckets", "Resource": "*"}]}
        assert ask(f"{own.endpoint}/console/admin/policies/lists", "PUT", json.dumps(lists).encode(), root)[0] == 200
        assert ask(f"{own.endpoint}/console/admin/policies/attach", "POST", b'{"policies": ["lists"], "user": "lister"}', root)[0] == 200
        drive("buckets.mjs", own.endpoint, ACCESS, SECRET, "lister", "secret-of-lister")
    finally:
        own.stop()


def test_upload_goes_on_after_the_page_was_closed(home):
    (home / "server").mkdir()
    own = Server(home / "server")
    try:
        s3, part = s3_of(own), 8 << 20
        s3.create_bucket(Bucket="resumed")
        body = os.urandom(3 * part + 1000)
        (home / "large.bin").write_bytes(body)
        # As the console begins it. The second part is of another file.
        new = {"Bucket": "resumed", "Key": "folder/large.bin", "UploadId": s3.create_multipart_upload(
            Bucket="resumed", Key="folder/large.bin", ChecksumAlgorithm="CRC32", ChecksumType="COMPOSITE")["UploadId"]}
        for number, data in [(1, body[:part]), (2, os.urandom(part)), (4, body[3 * part:])]:
            s3.upload_part(**new, PartNumber=number, Body=data, ChecksumAlgorithm="CRC32")
        foreign = s3.create_multipart_upload(Bucket="resumed", Key="folder/foreign.bin")["UploadId"]
        s3.upload_part(Bucket="resumed", Key="folder/foreign.bin", UploadId=foreign, PartNumber=1, Body=b"x")
        seen = drive("resume.mjs", own.endpoint, ACCESS, SECRET, home / "large.bin")
        assert sorted(seen["sent"]) == [2, 3] and seen["violations"] == []
        assert s3.get_object(Bucket="resumed", Key="folder/large.bin")["Body"].read() == body
        assert s3.list_multipart_uploads(Bucket="resumed").get("Uploads") is None
    finally:
        own.stop()


def test_folder_as_an_archive_has_exactly_what_the_person_may_read(home):
    (home / "server").mkdir()
    own = Server(home / "server")
    try:
        root = {**OURS, "Cookie": sign_in(own), "Content-Type": "application/json"}
        s3 = s3_of(own)
        s3.create_bucket(Bucket="team")
        bodies = {"a/one.txt": b"1" * 10, "a/b/two.bin": os.urandom(3 * 1024 * 1024), "a/empty": b"", "a/ü &+%.txt": b"name", "b/other": b"x"}
        for key, body in bodies.items():
            s3.put_object(Bucket="team", Key=key, Body=body)

        def archive(headers, target):
            _, _, answer = ask(f"{own.endpoint}/console/ticket", "POST", json.dumps({"target": target}).encode(), headers)
            url = f"{own.endpoint}/console/{json.loads(answer)['url']}"
            return ask(url, headers={"Cookie": headers["Cookie"]})

        status, headers, body = archive(root, "/team/a/?ashlar-zip")
        assert status == 200 and int(headers["content-length"]) == len(body)
        assert headers["content-disposition"] == "attachment; filename*=UTF-8''a.zip"
        with zipfile.ZipFile(io.BytesIO(body)) as z:
            assert z.testzip() is None
            assert {n: z.read(n) for n in z.namelist()} == {k: v for k, v in bodies.items() if k.startswith("a/")}
        with zipfile.ZipFile(io.BytesIO(archive(root, "/team/?ashlar-zip")[2])) as z:
            assert set(z.namelist()) == set(bodies)
        assert archive(root, "/team/none/?ashlar-zip")[0] == 404
        # Without a ticket it is a request to the bucket `console`.
        assert ask(f"{own.endpoint}/console/s3/team/a/?ashlar-zip", headers={"Cookie": root["Cookie"]})[0] in (403, 404)
        # Who may list but not read one of the objects gets no archive that looks whole.
        policy = {"Version": "2012-10-17", "Statement": [
            {"Effect": "Allow", "Action": ["s3:ListBucket", "s3:GetObject"], "Resource": ["arn:aws:s3:::team", "arn:aws:s3:::team/*"]},
            {"Effect": "Deny", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::team/a/one.txt"}]}
        for method, path, document in [("PUT", "users/reader", {"secret": "secret-of-reader"}), ("PUT", "policies/most", policy),
                                       ("POST", "policies/attach", {"policies": ["most"], "user": "reader"})]:
            assert ask(f"{own.endpoint}/console/admin/{path}", method, json.dumps(document).encode(), root)[0] == 200
        reader = {**OURS, "Cookie": sign_in(own, "reader", "secret-of-reader"), "Content-Type": "application/json"}
        assert archive(reader, "/team/a/b/?ashlar-zip")[0] == 200
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            archive(reader, "/team/a/?ashlar-zip")
        assert archive(reader, "/other/?ashlar-zip")[0] in (403, 404)
    finally:
        own.stop()


def test_who_can_reach_a_bucket(home):
    (home / "server").mkdir()
    own = Server(home / "server")
    try:
        headers = {**OURS, "Cookie": sign_in(own), "Content-Type": "application/json"}

        def admin(method, path, body=None):
            status, _, answer = ask(f"{own.endpoint}/console/admin/{path}", method, json.dumps(body or {}).encode(), headers)
            assert status == 200, answer

        s3 = s3_of(own)
        s3.create_bucket(Bucket="reached")
        for name in ["owner", "reader", "nobody", "left"]:
            admin("PUT", f"users/{name}", {"secret": f"secret-of-{name}"})
        admin("POST", "groups/team/members", {"add": ["reader"], "remove": []})
        admin("PUT", "policies/some", {"Version": "2012-10-17", "Statement": [
            {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::reached/team/*"}]})
        admin("POST", "policies/attach", {"policies": ["some"], "group": "team"})
        admin("POST", "policies/attach", {"policies": ["readwrite"], "user": "owner"})
        admin("POST", "policies/attach", {"policies": ["readwrite"], "user": "left"})
        admin("POST", "users/left/disable")
        s3.put_bucket_policy(Bucket="reached", Policy=json.dumps({"Version": "2012-10-17", "Statement": [
            {"Effect": "Allow", "Principal": "*", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::reached"},
            {"Effect": "Deny", "Principal": "*", "Action": "s3:DeleteObject", "Resource": "arn:aws:s3:::reached/team/*"}]}))
        seen = drive("reach.mjs", own.endpoint, ACCESS, SECRET, "reached", "team/plan.txt")
        # List, read, write, delete, change the policy. The answers are those that the users themselves get.
        assert seen["rows"] == {
            "Everybody, without an account": [True, False, False, False, False], "nobody": [True, False, False, False, False],
            "owner": [True, True, True, False, True], "reader": [True, True, False, False, False]}
        assert seen["violations"] == []
        theirs = s3_of(own, "owner", "secret-of-owner")
        theirs.put_object(Bucket="reached", Key="team/plan.txt", Body=b"plan")
        with pytest.raises(ClientError):
            theirs.delete_object(Bucket="reached", Key="team/plan.txt")
        reader = s3_of(own, "reader", "secret-of-reader")
        assert reader.get_object(Bucket="reached", Key="team/plan.txt")["Body"].read() == b"plan"
        with pytest.raises(ClientError):
            reader.put_object(Bucket="reached", Key="team/plan.txt", Body=b"x")
    finally:
        own.stop()
