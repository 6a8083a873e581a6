"""Object lock with real clients: boto3, mc, aws-cli. Locks survive a restart and a replaced drive."""

import datetime
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from conftest import ACCESS, REGION, SECRET, one_server, serve


@pytest.fixture
def own():
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    home = Path(tempfile.mkdtemp(prefix="ashlar-lock-", dir=base))
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


def denied(call, **arguments):
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    assert caught.value.response["Error"]["Code"] == "AccessDenied"


def run(env, *command):
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)


@one_server
def test_locks_with_boto3_mc_and_aws_cli(own, tmp_path):
    s3 = client(own)
    s3.create_bucket(Bucket="records", ObjectLockEnabledForBucket=True)
    s3.put_object_lock_configuration(Bucket="records", ObjectLockConfiguration={
        "ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 2}}})
    until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=30)
    a = s3.put_object(Bucket="records", Key="a", Body=b"a")["VersionId"]
    b = s3.put_object(Bucket="records", Key="b", Body=b"b", ObjectLockMode="COMPLIANCE",
                      ObjectLockRetainUntilDate=until)["VersionId"]
    head = s3.head_object(Bucket="records", Key="b")
    assert head["ObjectLockMode"] == "COMPLIANCE" and abs(head["ObjectLockRetainUntilDate"] - until).total_seconds() < 2
    denied(s3.delete_object, Bucket="records", Key="a", VersionId=a)
    for bypass in [False, True]:
        denied(s3.delete_object, Bucket="records", Key="b", VersionId=b, BypassGovernanceRetention=bypass)
    s3.put_object_legal_hold(Bucket="records", Key="a", LegalHold={"Status": "ON"})
    denied(s3.delete_object, Bucket="records", Key="a", VersionId=a, BypassGovernanceRetention=True)
    assert s3.get_object_legal_hold(Bucket="records", Key="a")["LegalHold"]["Status"] == "ON"
    s3.put_object_legal_hold(Bucket="records", Key="a", LegalHold={"Status": "OFF"})
    s3.delete_object(Bucket="records", Key="a", VersionId=a, BypassGovernanceRetention=True)

    # mc
    mc = f"{os.environ['CLIENT_BIN']}/mc"
    env = dict(os.environ, MC_CONFIG_DIR=str(tmp_path / "mc"),
               MC_HOST_it=own.endpoint.replace("http://", f"http://{ACCESS}:{SECRET}@"))
    assert run(env, mc, "mb", "--with-lock", "it/vault").returncode == 0
    set_ = run(env, mc, "--json", "retention", "set", "--default", "compliance", "1d", "it/vault")
    assert set_.returncode == 0, set_.stderr + set_.stdout
    info = json.loads(run(env, mc, "--json", "retention", "info", "--default", "it/vault").stdout)
    assert (info["mode"], info["validity"]) == ("COMPLIANCE", "1DAYS"), info
    (tmp_path / "f").write_text("kept")
    assert run(env, mc, "cp", str(tmp_path / "f"), "it/vault/f").returncode == 0
    assert run(env, mc, "retention", "set", "compliance", "9d", "it/vault/f").returncode == 0
    assert run(env, mc, "legalhold", "set", "it/vault/f").returncode == 0
    shown = json.loads(run(env, mc, "--json", "legalhold", "info", "it/vault/f").stdout)
    assert shown["legalhold"] == "ON", shown
    version = s3.head_object(Bucket="vault", Key="f")["VersionId"]
    gone = run(env, mc, "rm", "--version-id", version, "--bypass", "it/vault/f")
    assert gone.returncode != 0
    assert run(env, mc, "legalhold", "clear", "it/vault/f").returncode == 0
    assert run(env, mc, "rm", "--version-id", version, "--bypass", "it/vault/f").returncode != 0

    # aws-cli
    env = dict(os.environ, AWS_ACCESS_KEY_ID=ACCESS, AWS_SECRET_ACCESS_KEY=SECRET, AWS_DEFAULT_REGION=REGION)
    aws = [f"{os.environ['CLIENT_VENV']}/bin/aws", "--endpoint-url", own.endpoint, "s3api"]
    got = run(env, *aws, "get-object-retention", "--bucket", "vault", "--key", "f")
    assert json.loads(got.stdout)["Retention"]["Mode"] == "COMPLIANCE", got.stderr
    kept = json.loads(run(env, *aws, "get-object-lock-configuration", "--bucket", "vault").stdout)
    assert kept["ObjectLockConfiguration"]["Rule"]["DefaultRetention"] == {"Mode": "COMPLIANCE", "Days": 1}

    # Killed and started again; a drive replaced by a blank one.
    own.process.kill()
    own.process.wait()
    shutil.rmtree(own.home / "drive2")
    (own.home / "drive2").mkdir()
    own.start()
    denied(s3.delete_object, Bucket="vault", Key="f", VersionId=version, BypassGovernanceRetention=True)
    denied(s3.delete_object, Bucket="records", Key="b", VersionId=b)
    deadline = time.monotonic() + 60
    while True:
        try:
            assert s3.get_object(Bucket="records", Key="b", VersionId=b)["Body"].read() == b"b"
            break
        except ClientError:
            assert time.monotonic() < deadline
            time.sleep(0.5)
    assert s3.head_object(Bucket="vault", Key="f", VersionId=version)["ObjectLockMode"] == "COMPLIANCE"


def test_locks_with_ashlar_commands(own, tmp_path):
    env = dict(os.environ, ASHLAR_HOST_it=own.endpoint.replace("://", f"://{ACCESS}:{SECRET}@"), HOME=str(tmp_path), NO_COLOR="1")

    def ashlar(*command, code=0):
        done = run(env, os.environ["ASHLAR_BIN"], *command)
        assert done.returncode == code, (command, done.stdout, done.stderr)
        return done.stdout + done.stderr

    ashlar("mb", "--with-lock", "it/records")
    assert "no retention" in ashlar("retention", "info", "--default", "it/records")
    ashlar("retention", "set", "--default", "governance", "2d", "it/records")
    assert "2 days in GOVERNANCE" in ashlar("retention", "info", "--default", "it/records")
    s3 = client(own)
    first = s3.put_object(Bucket="records", Key="d/a", Body=b"1")["VersionId"]
    s3.put_object(Bucket="records", Key="d/a", Body=b"2")
    s3.put_object(Bucket="records", Key="d/ab", Body=b"3")
    ashlar("retention", "clear", "--default", "it/records")
    ashlar("retention", "clear", "it/records/d/a", "--version-id", first)
    shown = [json.loads(line) for line in ashlar("--json", "retention", "info", "it/records/d/a", "--versions").splitlines()]
    assert [(v["key"], v["mode"]) for v in shown] == [("it/records/d/a", "GOVERNANCE"), ("it/records/d/a", None)]
    ashlar("retention", "set", "compliance", "1y", "it/records/d", "-r", "--bypass")
    ashlar("retention", "set", "governance", "1d", "it/records/d/ab", "--bypass", code=4)
    head = s3.head_object(Bucket="records", Key="d/ab")
    left = head["ObjectLockRetainUntilDate"] - datetime.datetime.now(datetime.timezone.utc)
    assert head["ObjectLockMode"] == "COMPLIANCE" and 364 <= left.days <= 365
    ashlar("legalhold", "set", "it/records/d", "-r", "--versions")
    held = [json.loads(line)["legalhold"] for line in ashlar("--json", "legalhold", "info", "it/records/d", "-r", "--versions").splitlines()]
    assert held == ["ON"] * 3
    denied(s3.delete_object, Bucket="records", Key="d/a", VersionId=first)
    ashlar("legalhold", "clear", "it/records/d/a", "--vid", first)
    s3.delete_object(Bucket="records", Key="d/a", VersionId=first)
    ashlar("retention", "set", "governance", "3w", "it/records/d/a", code=2)
    ashlar("retention", "info", "it/records/nothing", "-r", code=3)
