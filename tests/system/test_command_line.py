"""aws-cli (new and Debian's), mc, rclone, s5cmd, s3cmd and restic: realistic round trips."""

import json
import os
from pathlib import Path

import pytest

from conftest import ACCESS, SECRET, digest_tree, make_tree, noise

VENV = Path(os.environ["CLIENT_VENV"]) / "bin"
NEW_AWS = str(VENV / "aws")
OLD_AWS = "/usr/bin/aws"


@pytest.fixture(scope="session")
def tree(tmp_path_factory):
    return make_tree(tmp_path_factory.mktemp("tree"), 2000)


@pytest.mark.parametrize("aws", [NEW_AWS, OLD_AWS], ids=["new", "debian"])
def test_aws_cli_sync(aws, server, bucket, run, tree, tmp_path):
    base = [aws, "--endpoint-url", server.endpoint, "s3"]
    run(*base, "sync", "--only-show-errors", tree, f"s3://{bucket}/tree")
    back = tmp_path / "back"
    run(*base, "sync", "--only-show-errors", f"s3://{bucket}/tree", back)
    assert digest_tree(back) == digest_tree(tree)
    again = run(*base, "sync", tree, f"s3://{bucket}/tree")
    assert again.stdout.strip() == "", "a second sync must find nothing to do"


@pytest.mark.parametrize("aws", [NEW_AWS, OLD_AWS], ids=["new", "debian"])
def test_aws_cli_large_file_presign_and_api(aws, server, bucket, run, tmp_path):
    big = tmp_path / "big.bin"
    big.write_bytes(noise(200 << 20, 3))
    base = [aws, "--endpoint-url", server.endpoint]
    run(*base, "s3", "cp", "--only-show-errors", big, f"s3://{bucket}/big.bin")
    head = json.loads(run(*base, "s3api", "head-object", "--bucket", bucket, "--key", "big.bin").stdout)
    assert head["ContentLength"] == 200 << 20 and "-" in head["ETag"]
    run(*base, "s3", "cp", "--only-show-errors", f"s3://{bucket}/big.bin", tmp_path / "back.bin")
    assert (tmp_path / "back.bin").read_bytes() == big.read_bytes()
    run(*base, "s3", "cp", "--only-show-errors", f"s3://{bucket}/big.bin", f"s3://{bucket}/copy.bin")
    run(*base, "s3", "mv", "--only-show-errors", f"s3://{bucket}/copy.bin", f"s3://{bucket}/moved.bin")
    url = run(*base, "s3", "presign", f"s3://{bucket}/moved.bin").stdout.strip()
    got = run("curl", "-sf", "-r", "1000-1999", url, "-o", tmp_path / "range.bin")
    assert got.returncode == 0
    assert (tmp_path / "range.bin").read_bytes() == big.read_bytes()[1000:2000]
    run(*base, "s3", "rm", "--only-show-errors", "--recursive", f"s3://{bucket}/")
    assert run(*base, "s3", "ls", f"s3://{bucket}/", check=False).stdout == ""
    run(*base, "s3", "rb", f"s3://{bucket}")


def test_mc(server, run, tree, tmp_path):
    env = {"MC_HOST_it": server.endpoint.replace("http://", f"http://{ACCESS}:{SECRET}@")}
    mc = lambda *a, **k: run("mc", "--no-color", *a, env=env, **k)
    mc("mb", "it/mc-bucket")
    mc("mirror", "--quiet", tree, "it/mc-bucket/tree")
    mc("mirror", "--quiet", "it/mc-bucket/tree", tmp_path / "back")
    assert digest_tree(tmp_path / "back") == digest_tree(tree)
    big = tmp_path / "big"
    big.write_bytes(noise(150 << 20, 4))
    mc("cp", "--quiet", big, "it/mc-bucket/big")
    mc("cp", "--quiet", "it/mc-bucket/big", tmp_path / "big.back")
    assert (tmp_path / "big.back").read_bytes() == big.read_bytes()
    mc("version", "enable", "it/mc-bucket")
    (tmp_path / "v").write_text("one")
    mc("cp", "--quiet", tmp_path / "v", "it/mc-bucket/v")
    (tmp_path / "v").write_text("two")
    mc("cp", "--quiet", tmp_path / "v", "it/mc-bucket/v")
    mc("rm", "it/mc-bucket/v")
    assert mc("cat", "it/mc-bucket/v", check=False).returncode != 0
    versions = [json.loads(line) for line in mc("--json", "ls", "--versions", "it/mc-bucket/v").stdout.splitlines()]
    assert len(versions) == 3 and sum(bool(v.get("isDeleteMarker")) for v in versions) == 1
    mc("undo", "it/mc-bucket/v")
    assert mc("cat", "it/mc-bucket/v").stdout == "two"
    mc("tag", "set", "it/mc-bucket/v", "colour=red&shape=round")
    assert "round" in mc("tag", "list", "it/mc-bucket/v").stdout
    found = mc("find", "it/mc-bucket/tree", "--name", "*.bin").stdout.splitlines()
    assert len(found) == 2000
    mc("stat", "it/mc-bucket/big")
    mc("rb", "--force", "it/mc-bucket")


def test_rclone(server, bucket, run, tree, tmp_path):
    env = {
        "RCLONE_CONFIG_IT_TYPE": "s3", "RCLONE_CONFIG_IT_PROVIDER": "Minio",
        "RCLONE_CONFIG_IT_ACCESS_KEY_ID": ACCESS, "RCLONE_CONFIG_IT_SECRET_ACCESS_KEY": SECRET,
        "RCLONE_CONFIG_IT_ENDPOINT": server.endpoint, "RCLONE_CONFIG_IT_REGION": "us-east-1",
        "RCLONE_CONFIG": str(tmp_path / "rclone.conf"),
    }
    rclone = lambda *a, **k: run("rclone", *a, env=env, **k)
    rclone("sync", tree, f"it:{bucket}/tree", "--transfers", "8")
    rclone("check", tree, f"it:{bucket}/tree")
    rclone("sync", f"it:{bucket}/tree", tmp_path / "back")
    assert digest_tree(tmp_path / "back") == digest_tree(tree)
    big = tmp_path / "big" / "file"
    big.parent.mkdir()
    big.write_bytes(noise(250 << 20, 5))
    rclone("copy", big.parent, f"it:{bucket}/big", "--s3-chunk-size", "16M")
    rclone("check", "--download", big.parent, f"it:{bucket}/big")
    rclone("moveto", f"it:{bucket}/big/file", f"it:{bucket}/big/renamed")
    rclone("delete", f"it:{bucket}/tree")
    assert rclone("lsf", "-R", "--files-only", f"it:{bucket}").stdout.split() == ["big/renamed"]


def test_s5cmd(server, bucket, run, tree, tmp_path):
    s5 = lambda *a: run(VENV / "s5cmd", "--endpoint-url", server.endpoint, "--log", "error", *a)
    s5("cp", f"{tree}/", f"s3://{bucket}/tree/")
    s5("cp", f"s3://{bucket}/tree/*", f"{tmp_path}/back/")
    assert digest_tree(tmp_path / "back") == digest_tree(tree)
    big = tmp_path / "big"
    big.write_bytes(noise(300 << 20, 6))
    s5("cp", "--part-size", "20", big, f"s3://{bucket}/big")
    s5("cp", f"s3://{bucket}/big", f"{tmp_path}/big.back")
    assert (tmp_path / "big.back").read_bytes() == big.read_bytes()
    s5("rm", f"s3://{bucket}/*")


def test_s3cmd(server, bucket, run, tree, tmp_path):
    host = server.endpoint.replace("http://", "")
    config = tmp_path / "s3cfg"
    config.write_text(
        f"[default]\naccess_key = {ACCESS}\nsecret_key = {SECRET}\nhost_base = {host}\n"
        f"host_bucket = {host}\nuse_https = False\n"
    )
    s3cmd = lambda *a, **k: run("s3cmd", "-c", config, *a, **k)
    small = tmp_path / "small"
    make_tree(small, 300)
    s3cmd("sync", "-q", f"{small}/", f"s3://{bucket}/small/")
    back = tmp_path / "back"
    back.mkdir()
    s3cmd("sync", "-q", f"s3://{bucket}/small/", f"{back}/")
    assert digest_tree(back) == digest_tree(small)
    big = tmp_path / "big"
    big.write_bytes(noise(40 << 20, 8))
    s3cmd("put", "-q", "--multipart-chunk-size-mb=5", big, f"s3://{bucket}/big")
    s3cmd("get", "-q", f"s3://{bucket}/big", tmp_path / "big.back")
    assert (tmp_path / "big.back").read_bytes() == big.read_bytes()
    url = s3cmd("signurl", f"s3://{bucket}/big", "+600").stdout.strip()
    run("curl", "-sf", url, "-o", tmp_path / "v2.back")
    assert (tmp_path / "v2.back").read_bytes() == big.read_bytes()
    s3cmd("del", "-q", "-r", "--force", f"s3://{bucket}/")
    # Signature version 2, which old tools still use.
    s3cmd("--signature-v2", "put", "-q", big, f"s3://{bucket}/v2", "--disable-multipart")
    s3cmd("--signature-v2", "get", "-q", "--force", f"s3://{bucket}/v2", tmp_path / "v2.back")
    assert (tmp_path / "v2.back").read_bytes() == big.read_bytes()


def test_restic(server, bucket, run, tree, tmp_path):
    env = {
        "RESTIC_REPOSITORY": f"s3:{server.endpoint}/{bucket}/repo", "RESTIC_PASSWORD": "correct horse",
        "RESTIC_CACHE_DIR": str(tmp_path / "cache"),
    }
    restic = lambda *a: run("restic", *a, env=env)
    restic("init")
    restic("backup", str(tree))
    (tree / "extra.bin").write_bytes(noise(3 << 20, 9))
    try:
        restic("backup", str(tree))
        restic("check", "--read-data")
        restic("restore", "latest", "--target", str(tmp_path / "out"))
        restored = tmp_path / "out" / str(tree).lstrip("/")
        assert digest_tree(restored) == digest_tree(tree)
        restic("forget", "--keep-last", "1", "--prune")
        restic("check")
    finally:
        (tree / "extra.bin").unlink()
