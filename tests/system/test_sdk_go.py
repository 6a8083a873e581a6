"""The AWS SDK for Go 2 and minio-go with today's defaults, and mc with encryption."""

import io
import os
import shutil
import tarfile
import tempfile
from pathlib import Path

import pytest
from conftest import ACCESS, SECRET, Server, noise
from test_encryption import ROOT_KEY, certificate


@pytest.fixture(scope="module")
def sealed():
    """A server with TLS and a root key."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    home = Path(tempfile.mkdtemp(prefix="ashlar-sdk-", dir=base))
    key = home / "root.key"
    key.write_text(ROOT_KEY)
    key.chmod(0o600)
    s = Server(home, arguments=["--kms-root-key-file", str(key)], certs=certificate(home / "certs"))
    try:
        yield s
        assert s.stop() == 0
    finally:
        if s.process.poll() is None:
            s.process.kill()
            s.process.wait()
        shutil.rmtree(home, ignore_errors=True)


def passed(done, least):
    lines = done.stdout.splitlines()
    assert len(lines) >= least and all(line.startswith("ok ") for line in lines), done.stdout


def test_the_sdk_for_go_works_with_its_defaults(server, bucket, run):
    passed(run("sdk", "aws", server.endpoint, ACCESS, SECRET, bucket), 15)


def test_minio_go_encrypts_listens_and_lists(sealed, run):
    passed(run("sdk", "minio", sealed.endpoint, ACCESS, SECRET, "minio-go"), 20)


def test_minio_go_sends_snowballs(sealed, server, run):
    """Over TLS with encryption; in clear, where each chunk of the body is signed."""
    passed(run("sdk", "snowball", sealed.endpoint, ACCESS, SECRET, "snowball"), 18)
    passed(run("sdk", "snowball", server.endpoint, ACCESS, SECRET, "snowball"), 10)


def test_the_aws_cli_sends_a_snowball(server, bucket, run, tmp_path):
    """As AWS documents it for Snowball Edge: the metadata makes the upload an archive to be unpacked."""
    contents = {"a": b"one", "b/c": noise(300_000), "d/" + "x" * 200: b""}
    for form in ["w", "w:gz"]:
        with tarfile.open(tmp_path / "x.tar", form, format=tarfile.GNU_FORMAT) as archive:
            archive.addfile(folder("./"))
            for name, content in contents.items():
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
        prefix = form.replace(":", "-")
        metadata = f"snowball-auto-extract=true,minio-snowball-prefix={prefix}"
        aws = [Path(os.environ["CLIENT_VENV"]) / "bin/aws", "--endpoint-url", server.endpoint, "s3"]
        run(*aws, "cp", tmp_path / "x.tar", f"s3://{bucket}/x.tar", "--metadata", metadata)
        run(*aws, "sync", f"s3://{bucket}/{prefix}", tmp_path / prefix)
        for name, content in contents.items():
            assert (tmp_path / prefix / name).read_bytes() == content, (form, name)
        assert "x.tar" not in run(*aws, "ls", f"s3://{bucket}/").stdout


def folder(name):
    info = tarfile.TarInfo(name)
    info.type = tarfile.DIRTYPE
    return info


def test_mc_copies_with_encryption(sealed, run, tmp_path):
    """mc says with every part how the upload is encrypted."""
    env = {"MC_CONFIG_DIR": str(tmp_path / "mc"), "MC_HOST_it": sealed.endpoint.replace("://", f"://{ACCESS}:{SECRET}@")}
    mc = ["mc", "--insecure", "--quiet"]
    run(*mc, "mb", "it/enc", env=env)
    big = tmp_path / "big"
    big.write_bytes(noise(20 << 20))
    for flag in ["--enc-s3=it/enc/s3", "--enc-kms=it/enc/kms=main", "--enc-c=it/enc/c=" + "MzJieXRlc2xvbmdzZWNyZXRrZXltdXN0cHJvdmlkZWQ"]:
        kind, where = flag.split("=")[0], flag.split("=")[1]
        if kind == "--enc-kms":
            run(*mc, "admin", "kms", "key", "create", "it", "team", env=env)
            flag = f"--enc-kms={where}=team"
        run(*mc, "cp", flag, big, where, env=env)
        back = tmp_path / "back"
        run(*mc, "cp", *([flag] if kind == "--enc-c" else []), where, back, env=env)
        assert back.read_bytes() == big.read_bytes(), flag
        back.unlink()
