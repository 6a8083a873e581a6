"""Ashlar's own command line, in the verbs that users of mc know, and start-up settings of MinIO."""

import json
import os
import signal
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

from conftest import ACCESS, SECRET, Server, free_port, make_tree, noise

ASHLAR = os.environ["ASHLAR_BIN"]


@pytest.fixture
def ashlar(server, tmp_path):
    env = dict(
        os.environ,
        ASHLAR_HOST_it=server.endpoint.replace("http://", f"http://{ACCESS}:{SECRET}@"),
        ASHLAR_CONFIG=str(tmp_path / "config.toml"),
    )

    def call(*arguments, check=True, data=None):
        done = subprocess.run(
            [ASHLAR, *map(str, arguments)], env=env, input=data, capture_output=True, timeout=120
        )
        assert not check or done.returncode == 0, done.stderr.decode()
        return done

    return call


def lines(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_find_du_tree_diff(ashlar, bucket, tmp_path):
    folder = make_tree(tmp_path / "tree", 60)
    files = [p for p in folder.rglob("*") if p.is_file()]
    total = sum(p.stat().st_size for p in files)
    ashlar("mirror", folder, f"it/{bucket}/tree")
    found = lines(ashlar("--json", "find", f"it/{bucket}", "--name", "*.bin"))
    assert len(found) == len(files)
    assert not lines(ashlar("--json", "find", f"it/{bucket}", "--older-than", "1d"))
    assert len(lines(ashlar("--json", "find", f"it/{bucket}", "--newer-than", "1d"))) == len(files)
    sums = lines(ashlar("--json", "du", "--depth", "3", f"it/{bucket}"))
    assert (sums[-1]["size"], sums[-1]["objects"]) == (total, len(files))
    below = [s for s in sums if s["prefix"].startswith(f"it/{bucket}/tree/")]
    assert below and all(s["size"] <= total for s in below)
    drawn = lines(ashlar("--json", "tree", "--files", f"it/{bucket}"))
    assert len([d for d in drawn if d["type"] == "file"]) == len(files)
    assert not lines(ashlar("--json", "diff", folder, f"it/{bucket}/tree"))
    files[0].write_bytes(b"something else entirely")
    (folder / "new").write_text("new")
    kinds = sorted(d["diff"] for d in lines(ashlar("--json", "diff", folder, f"it/{bucket}/tree")))
    assert kinds == ["differ", "only-in-first"]


@pytest.mark.parametrize("size", [0, 100, 5 << 20, (11 << 20) + 7])
def test_pipe_and_head(ashlar, bucket, size):
    data = noise(size, 9)
    ashlar("pipe", "--part-size", "5", f"it/{bucket}/piped", data=data)
    assert ashlar("cat", f"it/{bucket}/piped").stdout == data
    ashlar("pipe", f"it/{bucket}/lines", data=b"".join(b"line %d\n" % i for i in range(100)))
    assert ashlar("head", "-n", "3", f"it/{bucket}/lines").stdout == b"line 0\nline 1\nline 2\n"


def test_mv_removes_the_source_after_the_copy(ashlar, bucket, tmp_path):
    source = tmp_path / "file"
    source.write_text("moved")
    ashlar("mv", source, f"it/{bucket}/a")
    assert not source.exists()
    ashlar("mv", f"it/{bucket}/a", f"it/{bucket}/b")
    assert ashlar("cat", f"it/{bucket}/b").stdout == b"moved"
    assert ashlar("stat", f"it/{bucket}/a", check=False).returncode == 3
    assert ashlar("mv", f"it/{bucket}/b", f"it/{bucket}/b", check=False).returncode == 2
    assert ashlar("cat", f"it/{bucket}/b").stdout == b"moved"
    failed = ashlar("mv", f"it/{bucket}/b", "it/no-such-bucket-here/b", check=False)
    assert failed.returncode != 0 and ashlar("cat", f"it/{bucket}/b").stdout == b"moved"


def test_undo(ashlar, bucket):
    ashlar("bucket", "versioning", "enable", f"it/{bucket}")
    for text in (b"one", b"two"):
        ashlar("pipe", f"it/{bucket}/k", data=text)
    ashlar("rm", f"it/{bucket}/k")
    ashlar("undo", f"it/{bucket}/k")
    assert ashlar("cat", f"it/{bucket}/k").stdout == b"two"
    ashlar("undo", f"it/{bucket}/k")
    assert ashlar("cat", f"it/{bucket}/k").stdout == b"one"
    assert ashlar("undo", "-r", f"it/{bucket}", check=False).returncode == 2, "needs --force"


def test_share_anonymous_cors_encrypt_tag(ashlar, bucket, server, tmp_path):
    ashlar("pipe", f"it/{bucket}/shared/k", data=b"shared")
    link = lines(ashlar("--json", "share", "download", "--expire", "1h", f"it/{bucket}/shared/k"))[0]["share"]
    assert urllib.request.urlopen(link).read() == b"shared"
    link = lines(ashlar("--json", "share", "upload", f"it/{bucket}/put"))[0]["share"]
    urllib.request.urlopen(urllib.request.Request(link, data=b"by link", method="PUT")).read()
    assert ashlar("cat", f"it/{bucket}/put").stdout == b"by link"

    url = f"{server.endpoint}/{bucket}/shared/k"
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(url)
    ashlar("anonymous", "set", "download", f"it/{bucket}/shared/")
    assert urllib.request.urlopen(url).read() == b"shared"
    got = lines(ashlar("--json", "anonymous", "get", f"it/{bucket}/shared/"))[0]
    assert got["permission"] == "download"
    ashlar("anonymous", "set", "none", f"it/{bucket}/shared/")
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(url)
    assert lines(ashlar("--json", "anonymous", "get", f"it/{bucket}"))[0]["permission"] == "none"

    rules = tmp_path / "cors.xml"
    rules.write_text(
        "<CORSConfiguration><CORSRule><AllowedOrigin>https://a.example</AllowedOrigin>"
        "<AllowedMethod>GET</AllowedMethod></CORSRule></CORSConfiguration>"
    )
    ashlar("cors", "set", f"it/{bucket}", rules)
    assert b"a.example" in ashlar("cors", "get", f"it/{bucket}").stdout
    ashlar("cors", "remove", f"it/{bucket}")
    assert ashlar("cors", "get", f"it/{bucket}", check=False).returncode == 3

    ashlar("tag", "set", f"it/{bucket}/put", "colour=red&shape=round")
    assert lines(ashlar("--json", "tag", "list", f"it/{bucket}/put"))[0]["tagset"]["shape"] == "round"
    ashlar("tag", "remove", f"it/{bucket}/put")
    assert ashlar("tag", "list", f"it/{bucket}/put", check=False).returncode == 3
    assert ashlar("encrypt", "info", f"it/{bucket}", check=False).returncode in (0, 3)


def test_ping_and_ready(ashlar, tmp_path):
    ashlar("ready", "it")
    ashlar("ready", "--cluster-write", "it")
    answers = lines(ashlar("--json", "ping", "--count", "2", "--interval", "0", "it"))
    assert [a["count"] for a in answers] == [1, 2]
    ashlar("alias", "set", "--no-check", "gone", f"http://127.0.0.1:{free_port()}", "someaccess", "somesecret")
    assert ashlar("ready", "gone", check=False).returncode == 5
    assert ashlar("ping", "--count", "1", "gone", check=False).returncode == 5


def test_closed_pipe_causes_no_panic(server):
    for command in (["completion", "bash"], ["man"]):
        done = subprocess.run(
            ["bash", "-c", f"{ASHLAR} {' '.join(command)} | head -1"], capture_output=True, text=True
        )
        assert done.returncode == 0 and "panic" not in done.stderr, done.stderr


def test_settings_of_minio_are_accepted(tmp_path):
    port, console = free_port(), free_port()
    (tmp_path / "secret").write_text("a-password-in-a-file\n")
    settings = tmp_path / "minio.env"
    settings.write_text(
        f'MINIO_VOLUMES="{tmp_path}/disk{{1...4}}"\n'
        f'MINIO_OPTS="--address 127.0.0.1:{port} --console-address 127.0.0.1:{console}"\n'
        "MINIO_ROOT_USER=fromfile\n"
        f"MINIO_ROOT_PASSWORD_FILE={tmp_path}/secret\n"
        "MINIO_STORAGE_CLASS_STANDARD=EC:2\n"
    )
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MINIO_", "ASHLAR_ROOT"))}
    clean["ASHLAR_STATE_DIR"] = str(tmp_path / "state")
    log = (tmp_path / "log").open("wb")
    # Nobody reads what it prints: it must serve all the same.
    read, write = os.pipe()
    os.close(read)
    server = subprocess.Popen(
        [ASHLAR, "server", "--env-file", str(settings)], env=clean, stdout=write, stderr=log
    )
    os.close(write)
    try:
        env = dict(clean, ASHLAR_HOST_it=f"http://fromfile:a-password-in-a-file@127.0.0.1:{port}")
        subprocess.run([ASHLAR, "ready", "--wait", "30", "it"], env=env, check=True, timeout=60)
        subprocess.run([ASHLAR, "mb", "it/made"], env=env, check=True, timeout=60)
        assert (tmp_path / "disk4").is_dir()
        said = (tmp_path / "log").read_text()
        assert "MINIO_STORAGE_CLASS_STANDARD" in said and "--console-address" not in said
        browser = urllib.request.Request(f"http://127.0.0.1:{console}/console/", headers={"Accept": "text/html"})
        with urllib.request.urlopen(browser, timeout=20) as page:
            assert page.status == 200 and b"<html" in page.read()
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=60) == 0


def test_addresses_as_folders_are_refused(tmp_path):
    done = subprocess.run(
        [ASHLAR, "server", "http://node{1...4}/disk{1...4}"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode != 0 and "http://node{1...4}/disk{1...4}" in done.stderr
    assert not list(Path(tmp_path).iterdir()), "nothing is formatted"


def test_settings_are_set_shown_exported_and_reset(ashlar, tmp_path):
    known = lines(ashlar("--json", "admin", "config", "list", "it"))
    assert {"identity_tls", "notify_webhook"} <= {s["name"] for s in known}
    names = lines(ashlar("--json", "admin", "config", "list", "it", "notify_webhook"))
    assert any(n["name"] == "auth_token" and n["secret"] for n in names)
    where = "notify_webhook:own"
    try:
        ashlar("admin", "config", "set", "it", where, "endpoint=http://203.0.113.1/x", "enable=off", "auth_token=a-secret",
               'comment=two words and "quotes"')
        [one] = lines(ashlar("--json", "admin", "config", "get", "it", where))
        assert one["values"]["comment"] == 'two words and "quotes"' and one["values"]["auth_token"] == "*redacted*"
        text = ashlar("admin", "config", "export", "it").stdout.decode()
        assert "a-secret" not in text and f"{where} " in text
        ashlar("admin", "config", "set", "it", where, "comment=changed")
        done = ashlar("admin", "config", "import", "it", data=b"# settings\n" + text.encode())
        assert where in done.stdout.decode()
        assert lines(ashlar("--json", "admin", "config", "get", "it", where)) [0]["values"] == one["values"]
        ashlar("admin", "config", "reset", "it", where, "comment")
        assert "comment" not in lines(ashlar("--json", "admin", "config", "get", "it", where))[0]["values"]
        file = tmp_path / "settings.txt"
        ashlar("admin", "config", "export", "it", "--output", file)
        assert ashlar("admin", "config", "export", "it", "--output", file, check=False).returncode != 0, "it is there"
    finally:
        ashlar("admin", "config", "reset", "it", where)
    assert ashlar("admin", "config", "get", "it", where, check=False).returncode == 3
    assert ashlar("admin", "config", "get", "it", "nosuch", check=False).returncode == 3
    assert ashlar("admin", "config", "set", "it", "identity_tls", "nosuch=1", check=False).returncode != 0
    refused = ashlar("admin", "config", "import", "it", data=b"identity_tls enable=perhaps\n", check=False)
    assert refused.returncode == 6, refused.stderr


def test_the_server_is_restarted_and_stopped(tmp_path):
    server = Server(tmp_path)
    env = dict(os.environ, ASHLAR_HOST_it=server.endpoint.replace("http://", f"http://{ACCESS}:{SECRET}@"))

    def ashlar(*arguments):
        return subprocess.run([ASHLAR, *arguments], env=env, capture_output=True, text=True, timeout=300)

    try:
        status = json.loads(ashlar("--json", "admin", "service", "status", "it").stdout)
        assert status["state"] == "serving" and status["version"]
        assert ashlar("mb", "it/before").returncode == 0
        assert ashlar("admin", "service", "restart", "--dry-run", "it").returncode == 0
        begun = time.monotonic()
        done = ashlar("--json", "admin", "service", "restart", "it")
        assert done.returncode == 0 and json.loads(done.stdout)["restarted"], done.stderr
        assert server.process.poll() is None, "it is the same process"
        assert "before/" in ashlar("ls", "it").stdout
        up = json.loads(ashlar("--json", "admin", "service", "status", "it").stdout)["uptime_s"]
        assert up <= time.monotonic() - begun + 1, "the process began anew"
        mc = subprocess.run(
            [f"{os.environ['CLIENT_BIN']}/mc", "--json", "admin", "service", "restart", "it"],
            env=dict(env, MC_HOST_it=env["ASHLAR_HOST_it"], MC_CONFIG_DIR=str(tmp_path / "mc")), capture_output=True, text=True, timeout=300,
        )
        assert mc.returncode == 0, mc.stdout + mc.stderr
        assert ashlar("ready", "--wait", "60", "it").returncode == 0
        done = ashlar("admin", "service", "stop", "it")
        assert done.returncode == 0 and "is stopped" in done.stdout, done.stderr
        assert server.process.wait(timeout=60) == 0
        assert ashlar("admin", "service", "status", "it").returncode == 5
    finally:
        if server.process.poll() is None:
            server.stop()


def test_speedtest_measures_and_cleans_up(ashlar, bucket, s3):
    done = ashlar("--json", "speedtest", f"it/{bucket}", "--size", "64KiB", "--duration", "1s", "--objects", "16", check=False)
    # A machine that is busy with other things makes the result invalid, and says so.
    assert done.returncode in (0, 6), done.stderr
    result = json.loads(done.stdout.splitlines()[0])
    assert [o["operation"] for o in result["operations"]] == ["PUT", "GET"]
    for operation in result["operations"]:
        assert operation["count"] > 0 and operation["errors"] == 0 and operation["bytes_per_s"] > 0
        assert operation["load"]["concurrency"] >= 8
    assert result["server"]["product"] == "Ashlar" and result["size"] == 65536
    assert not s3.list_object_versions(Bucket=bucket).get("Versions")
    text = ashlar("speedtest", f"it/{bucket}", "--size", "4KiB", "--duration", "500ms", "--concurrency", "2", check=False).stdout.decode()
    assert "Ashlar" in text and "B/s" in text and "iB/s" not in text
