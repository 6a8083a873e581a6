"""restic in a bucket with object lock: neither its own prune nor stolen credentials can remove a backup.

The policy, and the script that restores the repository, are read from docs/object-lock.md.
"""

import datetime
import json
import os
import re
import time
from pathlib import Path

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from conftest import ACCESS, REGION, SECRET, digest_tree, make_tree, noise

DOCS = (Path(__file__).parents[2] / "docs" / "object-lock.md").read_text()
PASSWORD = "restic-user-secret"


def from_docs(language, start):
    """The block of docs/object-lock.md that starts so."""
    return next(b for b in re.findall(rf"```{language}\n(.*?)```", DOCS, re.S) if b.startswith(start))


def client(server, access, secret):
    return boto3.client("s3", endpoint_url=server.endpoint, aws_access_key_id=access, aws_secret_access_key=secret,
                        region_name=REGION, config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 2}))


def versions(s3, bucket):
    """(key, version id) of every version that holds data, and of every marker."""
    data, markers = set(), set()
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
        data |= {(v["Key"], v["VersionId"]) for v in page.get("Versions", [])}
        markers |= {(m["Key"], m["VersionId"]) for m in page.get("DeleteMarkers", [])}
    return data, markers


@pytest.mark.parametrize("mode", ["GOVERNANCE", "COMPLIANCE"])
def test_backup_survives_stolen_credentials(server, environment, s3, run, tmp_path, mode):
    bucket, user = f"backups-{mode.lower()}", f"restic-{mode.lower()}"
    s3.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=True)
    s3.put_object_lock_configuration(Bucket=bucket, ObjectLockConfiguration={
        "ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": {"Mode": mode, "Days": 30}}})
    # The user of the docs, with the additional permission to delete versions: the lock must hold, not the policy.
    policy = from_docs("json", '{"Version"').replace("arn:aws:s3:::backups", f"arn:aws:s3:::{bucket}")
    policy = json.loads(policy.replace('"s3:DeleteObject"', '"s3:DeleteObject", "s3:DeleteObjectVersion"'))
    (tmp_path / "policy.json").write_text(json.dumps(policy))
    mc = {"MC_CONFIG_DIR": str(tmp_path / "mc"), "MC_HOST_it": server.endpoint.replace("http://", f"http://{ACCESS}:{SECRET}@")}
    run("mc", "admin", "policy", "create", "it", user, tmp_path / "policy.json", env=mc)
    run("mc", "admin", "user", "add", "it", user, PASSWORD, env=mc)
    run("mc", "admin", "policy", "attach", "it", user, "--user", user, env=mc)
    env = {
        "AWS_ACCESS_KEY_ID": user, "AWS_SECRET_ACCESS_KEY": PASSWORD, "RESTIC_PASSWORD": "correct horse",
        "RESTIC_REPOSITORY": f"s3:{server.endpoint}/{bucket}", "RESTIC_CACHE_DIR": str(tmp_path / "cache"),
    }
    restic = lambda *a, check=True: run("restic", *a, env=env, check=check)
    snapshots = lambda: [s["id"] for s in json.loads(restic("snapshots", "--json").stdout)]
    thief = client(server, user, PASSWORD)

    # Two backups; the first has files that the second lacks.
    tree = make_tree(tmp_path / "tree", 120)
    (tree / "only in the first.bin").write_bytes(noise(3 << 20, 5))
    first = digest_tree(tree)
    restic("init")
    restic("backup", tree)
    (tree / "only in the first.bin").unlink()
    (tree / "second.bin").write_bytes(noise(2 << 20, 6))
    second = digest_tree(tree)
    restic("backup", tree)
    both = snapshots()
    assert len(both) == 2
    time.sleep(0.05)
    good = datetime.datetime.now(datetime.timezone.utc)
    time.sleep(0.05)
    data, _ = versions(s3, bucket)
    packs = {(k, v) for k, v in data if k.startswith("data/")}
    assert len(packs) >= 2

    # restic's own prune: the repository is right without what it forgot, and every version is still there.
    restic("forget", "--keep-last", "1", "--prune")
    restic("check", "--read-data")
    assert snapshots() == both[1:]
    after, markers = versions(s3, bucket)
    assert data <= after and any(k.startswith("data/") for k, _ in markers), "prune left no marker over a pack"

    # The thief: deletes versions, shortens locks, writes over keys, deletes every key.
    for key, version in sorted(data):
        for arguments in ({}, {"BypassGovernanceRetention": True}):
            with pytest.raises(ClientError) as error:
                thief.delete_object(Bucket=bucket, Key=key, VersionId=version, **arguments)
            assert error.value.response["Error"]["Code"] == "AccessDenied"
    many = thief.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": k, "VersionId": v} for k, v in sorted(data)]})
    assert not many.get("Deleted") and {e["Code"] for e in many["Errors"]} == {"AccessDenied"}
    with pytest.raises(ClientError):
        thief.put_object_retention(Bucket=bucket, Key="config", Retention={"Mode": mode, "RetainUntilDate": good})
    pack = sorted(packs)[0][0]
    for key in ("config", pack):
        thief.put_object(Bucket=bucket, Key=key, Body=b"encrypted by a thief")
    live = [o["Key"] for p in thief.get_paginator("list_objects_v2").paginate(Bucket=bucket) for o in p["Contents"]]
    thief.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": k} for k in live]})
    thief.put_object(Bucket=bucket, Key="READ ME", Body=b"pay")
    assert restic("snapshots", check=False).returncode != 0
    assert data <= versions(s3, bucket)[0]

    # The way back, by the script of the docs, with the administrator's credentials.
    script = tmp_path / "back.py"
    script.write_text(from_docs("python", "# back.py"))
    then = good.isoformat().replace("+00:00", "Z")
    run(f"{os.environ['CLIENT_VENV']}/bin/python", script, server.endpoint, bucket, then)
    restic("unlock", "--remove-all")
    assert sorted(snapshots()) == sorted(both)
    env["RESTIC_CACHE_DIR"] = str(tmp_path / "another-cache")
    restic("check", "--read-data")
    for snapshot, expected in zip(both, (first, second)):
        out = tmp_path / "out" / snapshot
        restic("restore", snapshot, "--target", out)
        assert digest_tree(out / str(tree).lstrip("/")) == expected
    live = {o["Key"] for p in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket) for o in p["Contents"]}
    assert "READ ME" not in live and data <= versions(s3, bucket)[0]

    # With a bypass the administrator removes what GOVERNANCE locks, and not what COMPLIANCE locks.
    note = s3.list_object_versions(Bucket=bucket, Prefix="READ ME")["Versions"][0]["VersionId"]
    remove = lambda: s3.delete_object(Bucket=bucket, Key="READ ME", VersionId=note, BypassGovernanceRetention=True)
    if mode == "GOVERNANCE":
        remove()
    else:
        with pytest.raises(ClientError) as error:
            remove()
        assert error.value.response["Error"]["Code"] == "AccessDenied"
