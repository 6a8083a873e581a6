"""The AWS SDK for Go 2 and minio-go with today's defaults, and mc with encryption."""

import os
import shutil
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
    passed(run("sdk", "minio", sealed.endpoint, ACCESS, SECRET, "minio-go"), 21)


def test_mc_copies_with_encryption(sealed, run, tmp_path):
    """FINDINGS W2: mc says with every part how the upload is encrypted."""
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
