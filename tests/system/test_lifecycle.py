"""Lifecycle rules with real clients, on a server whose days are two seconds long (for lifecycle alone)."""

import datetime
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from conftest import ACCESS, REGION, SECRET, one_server, serve, until

DAY = 2
SHORT = {"ASHLAR_LIFECYCLE_DAY_SECONDS": str(DAY), "ASHLAR_DEBUG_SHORT_DAYS": "expire-early",
         "ASHLAR_PUBLIC_METRICS": "true"}


@pytest.fixture
def own(monkeypatch):
    for name, value in SHORT.items():
        monkeypatch.setenv(name, value)
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    home = Path(tempfile.mkdtemp(prefix="ashlar-lifecycle-", dir=base))
    s = serve(home)
    try:
        yield s
        assert s.stop() == 0
    finally:
        if s.process.poll() is None:
            s.process.kill()
            s.process.wait()
        shutil.rmtree(home, ignore_errors=True)


def client(server):
    return boto3.client("s3", endpoint_url=server.endpoint, aws_access_key_id=ACCESS, aws_secret_access_key=SECRET,
                        region_name=REGION, config=Config(retries={"max_attempts": 1}))


def keys(s3, bucket):
    return sorted(o["Key"] for o in s3.list_objects_v2(Bucket=bucket).get("Contents", []))


def metric(server, name):
    with urllib.request.urlopen(f"{server.endpoint}/ashlar/metrics", timeout=10) as r:
        lines = r.read().decode().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(f"ashlar_lifecycle_{name}{{")))


def rules(s3, bucket, *rules):
    s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": list(rules)})


@one_server
def test_only_due_versions_expire(own):
    s3 = client(own)
    s3.create_bucket(Bucket="plain")
    rules(s3, "plain",
          {"ID": "logs", "Status": "Enabled", "Filter": {"Prefix": "logs/"}, "Expiration": {"Days": 1}},
          {"ID": "tagged", "Status": "Enabled", "Expiration": {"Days": 1},
           "Filter": {"And": {"Tags": [{"Key": "class", "Value": "tmp"}], "ObjectSizeGreaterThan": 3}}},
          {"ID": "off", "Status": "Disabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 1}},
          {"ID": "late", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 1_000_000}},
          {"ID": "uploads", "Status": "Enabled", "Filter": {"Prefix": "up/"},
           "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1}})
    for i in range(30):
        s3.put_object(Bucket="plain", Key=f"logs/{i}", Body=b"x")
    s3.put_object(Bucket="plain", Key="tmp", Body=b"xxxx", Tagging="class=tmp")
    s3.put_object(Bucket="plain", Key="small", Body=b"xxx", Tagging="class=tmp")
    s3.put_object(Bucket="plain", Key="kept", Body=b"xxxx", Tagging="class=data")
    s3.create_multipart_upload(Bucket="plain", Key="up/1")
    s3.create_multipart_upload(Bucket="plain", Key="other")
    until(lambda: keys(s3, "plain") == ["kept", "small"])
    until(lambda: [u["Key"] for u in s3.list_multipart_uploads(Bucket="plain")["Uploads"]] == ["other"])
    until(lambda: metric(own, "expired_current_total") == 31 and metric(own, "aborted_uploads_total") == 1)
    # Rules that change are carried out at once; a date in the past is due.
    rules(s3, "plain", {"ID": "now", "Status": "Enabled", "Filter": {"Prefix": ""},
                        "Expiration": {"Date": datetime.datetime(2020, 1, 1)}})
    until(lambda: keys(s3, "plain") == [], 10)
    assert metric(own, "failed_total") == 0 and metric(own, "behind_seconds") < 30


def test_versions_markers_and_locks(own):
    s3 = client(own)
    s3.create_bucket(Bucket="versions", ObjectLockEnabledForBucket=True)
    retained = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1)
    for i in range(5):
        s3.put_object(Bucket="versions", Key="k", Body=str(i).encode())
    held = s3.put_object(Bucket="versions", Key="locked", Body=b"1", ObjectLockMode="GOVERNANCE",
                         ObjectLockRetainUntilDate=retained)["VersionId"]
    hold = s3.put_object(Bucket="versions", Key="held", Body=b"1", ObjectLockLegalHoldStatus="ON")["VersionId"]
    s3.put_object(Bucket="versions", Key="locked", Body=b"2")
    rules(s3, "versions",
          {"ID": "old", "Status": "Enabled", "Filter": {"Prefix": ""},
           "NoncurrentVersionExpiration": {"NoncurrentDays": 1, "NewerNoncurrentVersions": 2}},
          {"ID": "all", "Status": "Enabled", "Filter": {"Prefix": "l"}, "Expiration": {"Days": 1}},
          {"ID": "held", "Status": "Enabled", "Filter": {"Prefix": "h"}, "Expiration": {"Days": 1},
           "NoncurrentVersionExpiration": {"NoncurrentDays": 1}},
          {"ID": "l", "Status": "Enabled", "Filter": {"Prefix": "l"},
           "NoncurrentVersionExpiration": {"NoncurrentDays": 1}})

    def versions(key):
        page = s3.list_object_versions(Bucket="versions", Prefix=key)
        return [v["VersionId"] for v in page.get("Versions", [])], len(page.get("DeleteMarkers", []))

    until(lambda: len(versions("k")[0]) == 3)
    until(lambda: versions("locked") == ([held], 1))
    until(lambda: versions("held") == ([hold], 1))
    time.sleep(2 * DAY)
    assert versions("locked") == ([held], 1) and versions("held") == ([hold], 1)
    assert s3.get_object(Bucket="versions", Key="locked", VersionId=held)["Body"].read() == b"1"
    # Nothing keeps it any more: it goes, and the marker after it.
    s3.put_object_legal_hold(Bucket="versions", Key="held", VersionId=hold, LegalHold={"Status": "OFF"})
    until(lambda: versions("held") == ([], 0))


def test_mc_and_ashlar_edit_each_others_rules(own, tmp_path):
    s3 = client(own)
    s3.create_bucket(Bucket="b-1")
    env = dict(os.environ, HOME=str(tmp_path), NO_COLOR="1",
               PATH=f"{os.environ['CLIENT_BIN']}:{os.environ['PATH']}",
               MC_HOST_it=f"http://{ACCESS}:{SECRET}@127.0.0.1:{own.port}",
               ASHLAR_HOST_it=f"http://{ACCESS}:{SECRET}@127.0.0.1:{own.port}")

    def run(*command, check=True, stdin=None):
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, input=stdin)
        assert not check or done.returncode == 0, (command, done.stdout, done.stderr)
        return done

    ashlar = os.environ["ASHLAR_BIN"]
    far = "1000000"
    run("mc", "ilm", "rule", "add", "--prefix", "a/", "--expire-days", far, "--tags", "k=v", "it/b-1")
    run("mc", "ilm", "rule", "add", "--noncurrent-expire-days", far, "--noncurrent-expire-newer", "3", "it/b-1")
    listed = run(ashlar, "ilm", "rule", "ls", "it/b-1").stdout
    assert f"expire after {far} days" in listed and "prefix a/, tag k=v" in listed and "keep 3" in listed
    run(ashlar, "ilm", "rule", "add", "--id", "mine", "--prefix", "logs/", "--expire-days", "1",
        "--abort-incomplete-days", "7", "it/b-1")
    run(ashlar, "ilm", "rule", "edit", "--id", "mine", "--disable", "it/b-1")
    ids = {r["ID"]: r for r in json.loads(run("mc", "ilm", "rule", "ls", "--json", "it/b-1").stdout)["config"]["Rules"]}
    assert ids["mine"]["Status"] == "Disabled" and ids["mine"]["Expiration"]["Days"] == 1, ids
    exported = run(ashlar, "ilm", "rule", "export", "it/b-1").stdout
    s3.create_bucket(Bucket="c-1")
    run("mc", "ilm", "rule", "import", "it/c-1", stdin=exported)
    again = run("mc", "ilm", "rule", "export", "it/c-1").stdout
    run(ashlar, "ilm", "rule", "import", "it/b-1", stdin=again)
    assert json.loads(run(ashlar, "ilm", "rule", "export", "it/b-1").stdout) == json.loads(exported)
    run(ashlar, "ilm", "rule", "rm", "--id", "mine", "it/c-1")
    assert len(s3.get_bucket_lifecycle_configuration(Bucket="c-1")["Rules"]) == 2
    run("mc", "ilm", "rule", "rm", "--all", "--force", "it/c-1")
    assert run(ashlar, "ilm", "rule", "ls", "it/c-1", check=False).returncode == 3
    # What it would do, without doing it: nothing yet, all of it in a thousand years.
    for i in range(7):
        s3.put_object(Bucket="b-1", Key=f"a/{i}", Body=b"12345", Tagging="k=v")
    s3.put_object(Bucket="b-1", Key="a/other", Body=b"12345")
    count = json.loads(run(ashlar, "--json", "ilm", "rule", "test", "it/b-1").stdout)
    assert count["looked_at"] == 8 and all(r["expire"] == 0 for r in count["rules"]), count
    count = json.loads(run(ashlar, "--json", "ilm", "rule", "test", "--at", "3030-01-01T00:00:00Z", "it/b-1").stdout)
    assert [r["expire"] for r in count["rules"]].count(7) == 1 and count["locked"] == 0, count
    assert len(keys(s3, "b-1")) == 8
    # What moves objects elsewhere is refused by name, by whichever client it is asked.
    with pytest.raises(ClientError) as caught:
        rules(s3, "b-1", {"ID": "t", "Status": "Enabled", "Filter": {"Prefix": ""},
                        "Transitions": [{"Days": 1, "StorageClass": "GLACIER"}]})
    assert caught.value.response["Error"]["Code"] == "NotImplemented"
    assert "Transition" in caught.value.response["Error"]["Message"]


@one_server
def test_lifecycle_continues_after_a_restart(own):
    s3 = client(own)
    s3.create_bucket(Bucket="r-1")
    rules(s3, "r-1", {"ID": "x", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 2}})
    for i in range(20):
        s3.put_object(Bucket="r-1", Key=f"k{i}", Body=b"x")
    assert own.stop() == 0
    time.sleep(3 * DAY)
    own.start()
    until(lambda: keys(s3, "r-1") == [], 15)


def test_short_days_need_a_second_option(tmp_path):
    env = dict(os.environ, ASHLAR_ROOT_USER=ACCESS, ASHLAR_ROOT_PASSWORD=SECRET, ASHLAR_LIFECYCLE_DAY_SECONDS="2")
    env.pop("ASHLAR_DEBUG_SHORT_DAYS", None)
    done = subprocess.run([os.environ["ASHLAR_BIN"], "server", f"{tmp_path}/d{{1...4}}", "--address", "127.0.0.1:0"],
                          env=env, capture_output=True, text=True, timeout=30)
    assert done.returncode == 1 and "ASHLAR_DEBUG_SHORT_DAYS" in done.stderr, done.stderr
