"""Runs every shell and Python block of README.md and docs/, in order, per page.

A block that cannot be run here says why in the line above it: `<!-- not run: REASON -->`. Names that stand for something
(ROOT-USER, HOST:9000, /mnt) are replaced by what is here; `ashlar server` starts, answers and stops again.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import boto3
import pytest

from conftest import ACCESS, REGION, SECRET, Server, free_port

ROOT = Path(__file__).resolve().parents[2]
ASHLAR = Path(os.environ["ASHLAR_BIN"])
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"(?:<!-- not run: (?P<why>[^\n]+) -->\n+)?```(?P<kind>sh|python)\n(?P<text>.*?)```", re.S)

# Buckets that a page takes for granted.
BUCKETS = {
    "buckets.md": ["photos", "logs", "tables"], "encryption.md": ["docs"], "identities.md": ["site", "team"],
    "lifecycle.md": ["data"], "object-lock.md": [],
}

PRELUDE = r"""
set -euo pipefail
ashlar() {
  if [ "$1" != server ]; then command ashlar "$@"; return; fi
  local log; log=$(mktemp)
  command ashlar "$@" --address "127.0.0.1:$SERVE_PORT" >"$log" 2>&1 &
  local pid=$! scheme=http
  case " $* " in *" --certs "*) scheme=https;; esac
  for _ in $(seq 300); do
    if curl -ksf "$scheme://127.0.0.1:$SERVE_PORT/minio/health/ready" >/dev/null; then
      kill -TERM $pid; wait $pid; return
    fi
    kill -0 $pid 2>/dev/null || break
    sleep 0.1
  done
  cat "$log" >&2; kill $pid 2>/dev/null || true
  return 1
}
"""


def blocks(page):
    return [(m["kind"], m["text"], m["why"]) for m in BLOCK.finditer(page.read_text())]


def here(text, server):
    """The text with what stands for something replaced."""
    # Only one address per server: the one of the test.
    text = re.sub(r"(ashlar server .*?) --address \S+", r"\1", text)
    changes = [
        ("http://127.0.0.1:9000", server.endpoint), ("http://HOST:9000", server.endpoint),
        ("ROOT-USER", ACCESS), ("ROOT-PASSWORD", SECRET), (" ACCESS SECRET", f" {ACCESS} {SECRET}"),
        ("/mnt/", "mnt/"), ("/etc/ashlar/certs", "certs"), ("/run/ashlar/", "run/"), ("/home", "home"),
    ]
    for old, new in changes:
        text = text.replace(old, new)
    return text


@pytest.fixture(scope="module")
def documented(tmp_path_factory):
    """A server that encrypts, for all pages."""
    server = Server(tmp_path_factory.mktemp("documentation"), env={"ASHLAR_KMS_ROOT_KEY": "0" * 43 + "="})
    try:
        yield server
        assert server.stop() == 0
    finally:
        if server.process.poll() is None:
            server.process.kill()


@pytest.fixture(scope="module")
def documented_s3(documented):
    return boto3.client(
        "s3", endpoint_url=documented.endpoint, aws_access_key_id=ACCESS, aws_secret_access_key=SECRET, region_name=REGION
    )


@pytest.fixture
def place(tmp_path, documented, environment):
    """A folder with what pages take for granted, and an environment to run them in."""
    (tmp_path / "home/Pictures").mkdir(parents=True)
    (tmp_path / "home/Pictures/cat.jpg").write_bytes(b"a cat")
    for name in ("today", "more.txt", "report.pdf", "contract.pdf", "draft.pdf"):
        (tmp_path / name).write_bytes(b"x" * 1048576)
    (tmp_path / "run").mkdir()
    (tmp_path / "run/passphrase").write_text("a passphrase of some length\n")
    (tmp_path / "certs").mkdir()
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "basicConstraints=critical,CA:FALSE", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", "certs/private.key", "-out", "certs/public.crt"],
        cwd=tmp_path, check=True, capture_output=True,
    )
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    os.symlink(ASHLAR, bin_folder / "ashlar")
    os.symlink(Path(os.environ["CLIENT_VENV"]) / "bin/aws", bin_folder / "aws")
    host = documented.endpoint.replace("http://", f"http://{ACCESS}:{SECRET}@")
    return {
        **environment, "HOME": str(tmp_path / "home"), "PATH": f"{bin_folder}:{environment['PATH']}",
        "ASHLAR_CONFIG": str(tmp_path / "config.toml"), "ASHLAR_HOST_it": host, "MC_HOST_it": host,
        "AWS_ENDPOINT_URL": documented.endpoint, "AWS_REGION": REGION, "RESTIC_PASSWORD": "restic", "PASSWORD": "a-long-password",
        "ASHLAR_USER_SECRET": "secret-of-a-user", "ASHLAR_STATE_DIR": str(tmp_path / "state"), "SERVE_PORT": str(free_port()),
    }


def test_skipped_blocks_have_a_reason():
    found = [(page.name, why) for page in PAGES for _, _, why in blocks(page)]
    assert len(found) > 20, "the pages are not read as they should be"
    assert all(why is None or len(why.split()) >= 2 for _, why in found)
    assert sum(why is None for _, why in found) >= 12


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=lambda p: p.name)
def test_code_blocks_of_a_page_run(page, place, documented, documented_s3, tmp_path):
    server, s3 = documented, documented_s3
    for bucket in BUCKETS.get(page.name, []):
        try:
            s3.create_bucket(Bucket=bucket)
        except s3.exceptions.BucketAlreadyOwnedByYou:
            pass
    prepare(page.name, s3)
    shell = []
    for kind, text, why in blocks(page):
        if why is not None:
            continue
        if kind == "sh":
            # What a block exports counts in those after it.
            shell.append(here(text, server))
            continue
        program = (
            "import boto3\n"
            f"s3 = boto3.client('s3', endpoint_url={server.endpoint!r}, aws_access_key_id={ACCESS!r}, "
            f"aws_secret_access_key={SECRET!r}, region_name={REGION!r})\n" + here(text, server)
        )
        run([sys.executable, "-c", program], text, place, tmp_path)
    if shell:
        text = "\n".join(shell)
        run(["bash", "-c", PRELUDE + text], text, place, tmp_path)


def prepare(page, s3):
    """Objects that a page's commands name."""
    if page == "buckets.md":
        s3.put_object(Bucket="logs", Key="today", Body=b"x" * 1048576)
        s3.put_object(Bucket="tables", Key="tmp/manifest", Body=b"x")
    if page == "lifecycle.md":
        s3.put_object(Bucket="data", Key="logs/1", Body=b"x")


def run(command, text, env, cwd):
    done = subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        pytest.fail(f"ended with {done.returncode}:\n{text}\n--- it printed\n{done.stdout}\n{done.stderr}")
