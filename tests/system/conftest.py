"""Starts one `ashlar server` for the whole run (one for each worker) and hands every test its own bucket.

The server listens on loopback, on a free port, over four fresh folders. It is ended by its own
process id when the run is over, and its log is printed when a test fails.
"""

import collections
import hashlib
import http.client
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

import boto3
import pytest
from botocore.config import Config

ACCESS = "clienttests"
SECRET = "clienttests-secret-key"
REGION = "us-east-1"


def ports():
    """Ports for servers. They are below those that the system gives to outgoing connections, and each worker has
    its own range, also while `tests/system/run` runs two parts beside each other: nobody else takes one before the
    server listens there."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 4
    part = 4 if os.environ.get("ASHLAR_TEST_CLUSTER") == "down" else 0
    first, count = 12_000 + 2_500 * (worker + part), 2_500
    start = os.getpid() * 64
    while True:
        yield first + start % count
        start += 1


PORTS = ports()


def get_over_socket(path, url):
    """What a process answers to a GET over its Unix socket."""
    connection = http.client.HTTPConnection("localhost")
    connection.sock = socket.socket(socket.AF_UNIX)
    try:
        connection.sock.settimeout(60)
        connection.sock.connect(str(path))
        connection.request("GET", url)
        answer = connection.getresponse()
        text = answer.read().decode()
        assert answer.status == 200, text
    finally:
        connection.close()
    return text


def free_port():
    """A port on loopback that nobody listens on."""
    for port in PORTS:
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


# What an idle machine does in a second may take one that does much else this many. No limit below is a promise of Ashlar.
PATIENCE = 4


def wait_until(call, seconds):
    """Repeats a call that asks a server until it is answered; `seconds`: at most, on an idle machine."""
    deadline = time.monotonic() + PATIENCE * seconds
    while True:
        try:
            return call()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def until(what, seconds=30):
    """Waits until a call returns something true, and returns that; `seconds`: at most, on an idle machine."""
    deadline = time.monotonic() + PATIENCE * seconds
    while not (got := what()):
        assert time.monotonic() < deadline, f"not within {PATIENCE * seconds} s: {got!r}"
        time.sleep(0.1)
    return got


class Server:
    """One running server and how to reach it. `prefix`: what its command begins with."""

    host, prefix = "127.0.0.1", ()

    def __init__(self, home: Path, drives: int = 4, arguments=(), env=None, certs: Path | None = None):
        self.home = home
        self.port = free_port()
        self.endpoint = f"{'https' if certs else 'http'}://{self.host}:{self.port}"
        self.env = dict(env or {})
        self.arguments = list(arguments) + (["--certs", str(certs)] if certs else [])
        self.context = ssl.create_default_context(cafile=certs / "public.crt") if certs else None
        self.drives = f"{home}/drive{{1...{drives}}}"
        self.log = home / "server.log"
        self.process = None
        self.start()

    def start(self):
        self.launch()
        self.wait()

    def launch(self):
        """Starts the process."""
        # Targets, providers and directories of the tests are on this machine.
        env = {"ASHLAR_OUTBOUND_ALLOW": "loopback", **os.environ, "ASHLAR_ROOT_USER": ACCESS,
               "ASHLAR_ROOT_PASSWORD": SECRET, "ASHLAR_STATE_DIR": str(self.home / "state"), **self.env}
        self.process = subprocess.Popen(
            [
                *self.prefix, os.environ["ASHLAR_BIN"], "server", self.drives,
                "--address", f"{self.host}:{self.port}", "--domain", "s3.test", *self.arguments,
            ],
            env=env, stdout=self.log.open("ab"), stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )

    def wait(self, seconds=60):
        """Waits until it serves."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                urllib.request.urlopen(f"{self.endpoint}/minio/health/ready", timeout=2, context=self.context)
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError("server did not start:\n" + self.log.read_text()[-20_000:])
                time.sleep(0.05)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30)


one_server = pytest.mark.skipif(
    "ASHLAR_TEST_CLUSTER" in os.environ,
    reason="it starts its server again, looks into its folders, or asks for what each node of a cluster tells of itself",
)


def serve(home: Path, arguments=(), env=None, certs: Path | None = None):
    """A server for tests to which it does not matter how many there are. With ASHLAR_TEST_CLUSTER it is four nodes
    behind a balancer; if that is `down`, one of them is killed before the tests begin."""
    cluster = os.environ.get("ASHLAR_TEST_CLUSTER")
    if not cluster:
        return Server(home, 4, arguments, env, certs)
    from nodes import BalancedCluster

    return BalancedCluster(home, 1 if cluster == "down" else 0, arguments, env, certs)


@pytest.fixture(scope="session")
def server():
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    home = Path(tempfile.mkdtemp(prefix="ashlar-clients-", dir=base))
    s = serve(home)
    try:
        yield s
        assert s.stop() == 0, "the server did not end cleanly on SIGTERM"
    finally:
        if s.process.poll() is None:
            s.process.kill()
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def environment(server):
    """The environment every AWS-like client understands."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
    env.update(
        AWS_ACCESS_KEY_ID=ACCESS, AWS_SECRET_ACCESS_KEY=SECRET, AWS_DEFAULT_REGION=REGION,
        AWS_REGION=REGION, AWS_CONFIG_FILE="/dev/null", AWS_SHARED_CREDENTIALS_FILE="/dev/null",
        AWS_EC2_METADATA_DISABLED="true", NO_COLOR="1",
        PATH=f"{os.environ['CLIENT_BIN']}:{os.environ['PATH']}",
    )
    return env


@pytest.fixture(scope="session")
def s3(server):
    return boto3.client(
        "s3", endpoint_url=server.endpoint, aws_access_key_id=ACCESS,
        aws_secret_access_key=SECRET, region_name=REGION,
        config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 2}),
    )


@pytest.fixture
def bucket(s3, request):
    """A bucket of the test's own. Left behind on purpose: the folders go as a whole."""
    name = "t-" + hashlib.sha1(request.node.nodeid.encode()).hexdigest()[:20]
    s3.create_bucket(Bucket=name)
    return name


@pytest.fixture
def run(environment, tmp_path):
    """Runs a client; a non-zero end shows all it printed."""

    def go(*args, env=None, check=True, cwd=None, timeout=600):
        done = subprocess.run(
            [str(a) for a in args], env={**environment, "HOME": str(tmp_path), **(env or {})},
            capture_output=True, text=True, timeout=timeout, cwd=cwd, stdin=subprocess.DEVNULL,
        )
        if check and done.returncode != 0:
            pytest.fail(f"{args} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    return go


def pytest_collection_modifyitems(items):
    """Gives every test an id of its own: pytest-xdist runs each id once, and tests that schemathesis makes share one."""
    seen = collections.Counter()
    for item in items:
        nodeid = item.nodeid
        seen[nodeid] += 1
        if seen[nodeid] > 1:
            item._id = type(item._id).parse(f"{nodeid}[{seen[nodeid]}]")
    if len({item.nodeid for item in items}) != len(items):
        pytest.exit("two tests have one id, and pytest-xdist would run one of them", returncode=3)


def noise(size, seed=1):
    """`size` bytes that do not compress, the same for the same seed."""
    rng = random.Random(seed)
    return b"".join(rng.randbytes(min(1 << 24, size - at)) for at in range(0, size, 1 << 24))


def make_tree(root: Path, files: int, seed=7):
    """A tree of `files` files with awkward names and sizes from 0 to a few hundred KiB."""
    rng = random.Random(seed)
    names = ["plain", "with space", "plus+sign", "per%cent", "ünïcode", "a&b=c", "tilde~", "semi;colon"]
    for i in range(files):
        folder = root / f"d{i % 17}" / names[i % len(names)]
        folder.mkdir(parents=True, exist_ok=True)
        size = rng.choice([0, 1, 100, 4096, 5000, 70_000]) if i % 97 else 300_000
        (folder / f"{names[(i // 3) % len(names)]}-{i}.bin").write_bytes(rng.randbytes(size))
    return root


def digest_tree(root: Path):
    """Relative path -> SHA-256, for comparing two trees byte for byte."""
    return {
        str(p.relative_to(root)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(root.rglob("*")) if p.is_file()
    }
