"""`ashlar bench s3` and `ashlar bench agent` against a real server, every mode for a second."""

import json
import os
import re
import signal
import subprocess
import time

import pytest

from conftest import ACCESS, SECRET

KEYS = {"ASHLAR_ACCESS_KEY": ACCESS, "ASHLAR_SECRET_KEY": SECRET}


@pytest.fixture
def bench(server, bucket, run, tmp_path):
    """Runs a load on the test's bucket and returns its document."""

    def go(operation, *options, seconds=1, code=0, target=None):
        out = tmp_path / f"{operation}.json"
        out.unlink(missing_ok=True)
        defaults = {"--concurrency": "4", "--size": "4KiB", "--objects": "50"}
        given = [x for name, value in defaults.items() if name not in options for x in (name, value)]
        done = run(
            os.environ["ASHLAR_BIN"], "bench", "s3", operation, target or bucket,
            "--endpoint", server.endpoint, "--duration", f"{seconds}s", "--out", out, *given, *options,
            env=KEYS, check=False, cwd=tmp_path,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return json.loads(out.read_text()) if out.exists() else done

    return go


def operations(document, phase=-1):
    return {o["name"]: o for o in document["phases"][phase]["operations"]}


def clean(s3, bucket):
    left = s3.list_object_versions(Bucket=bucket)
    assert not left.get("Versions") and not left.get("DeleteMarkers"), left
    assert not s3.list_multipart_uploads(Bucket=bucket).get("Uploads")


@pytest.mark.parametrize("operation, names, options", [
    ("put", {"PUT"}, []),
    ("get", {"GET"}, ["--verify"]),
    ("get", {"GET"}, ["--verify", "--range-size", "30000", "--size", "4096:1,200000:3,0:1"]),
    ("stat", {"HEAD"}, []),
    ("list", {"LIST"}, ["--verify", "--list-keys", "20"]),
    ("mixed", {"GET", "HEAD", "PUT", "DELETE"}, ["--verify", "--size", "4096:3,70000:1,0:1"]),
    ("delete", {"DELETE"}, ["--objects", "2000"]),
    ("delete", {"MULTI-DELETE"}, ["--objects", "5000", "--batch", "50"]),
    ("multipart", {"GET"}, ["--verify", "--parts", "2", "--objects", "4"]),
    ("multipart-put", {"UPLOAD", "CREATE-UPLOAD", "PUT-PART", "COMPLETE-UPLOAD"}, ["--parts", "2"]),
    ("conditional", {"HEAD", "PUT-IF-NONE-MATCH", "PUT-IF-MATCH"}, ["--objects", "4"]),
])
def test_modes(bench, s3, bucket, operation, names, options):
    document = bench(operation, *options)
    assert document["format"] == "ashlar-bench" and document["version"] == 1
    found = operations(document)
    assert set(found) == names
    for operation in found.values():
        assert operation["count"] > 0 and not operation["errors"], operation
        assert sum(n for _, n in operation["service"]["buckets"]) == operation["count"]
        if operation["name"] == "GET":
            assert operation["verified_bytes"] == operation["bytes"] > 0
            assert 0 < operation["first_byte"]["count"] <= operation["count"]  # empty objects have none
    assert SECRET not in json.dumps(document)
    clean(s3, bucket)


def test_conditional_writes_have_both_outcomes(bench):
    values = bench("conditional", "--objects", "2")["phases"][0]["values"]
    created, refused = values["if_none_match_200"], values["if_none_match_412"]
    assert created > 10 and abs(created - refused - values.get("if_none_match_409", 0)) <= 8
    assert values["if_match_200"] > 0


def test_versions(server, run, s3, tmp_path, bench, bucket):
    refused = bench("versioned", code=1)
    assert "has no versioning" in refused.stderr
    document = bench("versioned", "--verify", "--versions", "3", "--objects", "10", target="bench-versioned")
    assert set(operations(document)) == {"GET", "HEAD", "PUT", "DELETE"}
    assert not document["phases"][0]["operations"][0]["errors"]
    assert "bench-versioned" not in {b["Name"] for b in s3.list_buckets()["Buckets"]}


@pytest.mark.parametrize("payload", ["signed", "unsigned", "streaming", "streaming-trailer", "trailer"])
@pytest.mark.parametrize("checksum", ["none", "crc32", "crc64nvme"])
def test_payloads(bench, payload, checksum):
    if checksum == "none" and "trailer" in payload:
        refused = bench("mixed", "--payload", payload, "--checksum", "none", code=2)
        assert "--checksum" in refused.stderr
        return
    options = ["--verify", "--size", "random:300KiB", "--count", "150"]
    found = operations(bench("mixed", "--payload", payload, "--checksum", checksum, *options))
    assert all(not o["errors"] for o in found.values()) and found["PUT"]["count"] > 0


def test_open_loop_and_cost(server, bench):
    options = ["--rate", "300/s", "--arrivals", "poisson", "--server-pid", str(server.process.pid)]
    phase = bench("get", *options, seconds=3)["phases"][0]
    get = phase["operations"][0]
    assert 700 <= get["count"] <= 1100 and get["response"]["count"] == get["count"]
    assert phase["load"]["loop"] == "open" and phase["load"]["arrivals"] == "poisson"
    assert phase["values"]["unsent"] == 0
    assert phase["cost"]["server"]["peak_bytes"] > 1 << 20
    assert phase["cost"]["client"]["cpu_share"] < 0.9


def test_sweep(bench):
    document = bench("get", "--sweep", "--slo", "p50=10s", "--rate", "20", "--sweep-to", "80",
                     "--sweep-step", "1s")
    rates = [p["load"]["rate_per_s"] for p in document["phases"]]
    # Rates that a machine with other work reaches too.
    assert rates == [20, 40, 80]
    assert document["phases"][-1]["values"]["knee_rate_per_s"] == 80


def test_existing_objects_are_kept(bench, s3, bucket):
    for i in range(20):
        s3.put_object(Bucket=bucket, Key=f"mine/{i} ü", Body=b"x" * i)
    assert operations(bench("get", "--existing", target=f"{bucket}/mine/"))["GET"]["count"] > 0
    assert operations(bench("put", target=f"{bucket}/mine/"))["PUT"]["count"] > 0
    assert "--existing" in bench("put", "--existing", code=2).stderr
    kept = bench("put", "--keep", "--count", "7")
    keys = [o["Key"] for o in s3.list_objects_v2(Bucket=bucket)["Contents"]]
    assert len([k for k in keys if k.startswith("mine/")]) == 20
    assert len([k for k in keys if k.startswith(kept["setup"]["prefix"])]) == 7


def test_invalid_options_are_refused(server, run, bench, tmp_path):
    ashlar = os.environ["ASHLAR_BIN"]
    wrong = {**KEYS, "ASHLAR_SECRET_KEY": "wrong-secret-key"}
    end = ["--endpoint", server.endpoint]
    refused = run(ashlar, "bench", "s3", "put", "some-bucket", *end, env=wrong, check=False, cwd=tmp_path)
    assert refused.returncode == 1 and "bucket `some-bucket`" in refused.stderr
    away = run(ashlar, "bench", "s3", "put", "--endpoint", "http://127.0.0.1:1", env=KEYS, check=False, cwd=tmp_path)
    assert away.returncode == 1
    assert run(ashlar, "bench", "s3", "get", "nowhere/x", check=False, cwd=tmp_path).returncode == 2
    bench("put", "--rate", "200000", "--limit", "1000", seconds=3, code=6)
    assert not list(tmp_path.glob("ashlar-bench-*.json"))


def test_alias_and_json(server, run, tmp_path, bucket):
    env = {"ASHLAR_HOST_it": f"http://{ACCESS}:{SECRET}@127.0.0.1:{server.port}"}
    done = run(
        os.environ["ASHLAR_BIN"], "--json", "bench", "s3", "put", f"it/{bucket}/x", "--size", "1KiB",
        "--count", "20", env=env, cwd=tmp_path,
    )
    document = json.loads(done.stdout)
    assert document["phases"][0]["operations"][0]["count"] == 20 and not done.stderr
    [file] = tmp_path.glob("ashlar-bench-put-*.json")
    assert json.loads(file.read_text()) == document


def test_virtual_hosts(server, bench, run, tmp_path, bucket):
    """The server answers for buckets below s3.test, which nothing resolves here: localhost is enough
    to see that the bucket moves into the host's name."""
    done = bench("put", "--virtual-host", "--count", "1", code=1)
    assert re.search(r"t-[0-9a-f]+", done.stderr)


def test_agents(server, run, tmp_path, bucket, s3):
    ashlar, token = os.environ["ASHLAR_BIN"], "a-token"
    agents, names = [], []
    try:
        for _ in range(2):
            agent = subprocess.Popen(
                [ashlar, "bench", "agent", "--listen", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True,
                env={**os.environ, "ASHLAR_BENCH_TOKEN": token},
            )
            agents.append(agent)
            names.append(re.search(r"listens on (\S+)", agent.stderr.readline()).group(1))
        out = tmp_path / "agents.json"
        run(
            ashlar, "bench", "s3", "get", bucket, "--endpoint", server.endpoint, "--agents", ",".join(names),
            "--size", "4KiB", "--objects", "40", "--concurrency", "2", "--count", "501", "--verify",
            "--out", out, env={**KEYS, "ASHLAR_BENCH_TOKEN": token}, cwd=tmp_path,
        )
        document = json.loads(out.read_text())
        get = operations(document)["GET"]
        assert get["count"] == 501 and not get["errors"]
        assert [get["by"][f"agent {name}"]["count"] for name in names] == [251, 250]
        assert [h["role"] for h in document["environment"]] == ["client", *(f"agent {n}" for n in names), "server"]
        clean(s3, bucket)
    finally:
        for agent in agents:
            agent.terminate()
            agent.wait(timeout=20)


def test_interrupted_run_keeps_its_results(server, run, environment, tmp_path, bucket, s3):
    out = tmp_path / "x.json"
    process = subprocess.Popen(
        [os.environ["ASHLAR_BIN"], "bench", "s3", "put", bucket, "--endpoint", server.endpoint, "--size", "4KiB",
         "--duration", "60s", "--out", str(out)],
        env={**environment, **KEYS}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )
    time.sleep(2)
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 130
    phase = json.loads(out.read_text())["phases"][0]
    assert phase["stopped_by"] == "interrupted" and phase["operations"][0]["count"] > 0
    clean(s3, bucket)
    caveats = {c["code"]: c["severity"] for c in json.loads(out.read_text())["caveats"]}
    assert caveats["interrupted"] == "invalid"
    compared = run(os.environ["ASHLAR_BIN"], "bench", "compare", out, out, check=False, cwd=tmp_path)
    assert compared.returncode == 1 and "interrupted" in compared.stderr


def test_stalled_machine_makes_the_result_invalid(server, run, environment, tmp_path, bucket):
    out = tmp_path / "x.json"
    process = subprocess.Popen(
        [os.environ["ASHLAR_BIN"], "bench", "s3", "put", bucket, "--endpoint", server.endpoint, "--size", "4KiB",
         "--concurrency", "2", "--duration", "8s", "--out", str(out)],
        env={**environment, **KEYS}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )
    # The first line about the phase says that it is being measured.
    while "/s" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGSTOP)
    time.sleep(2.5)
    process.send_signal(signal.SIGCONT)
    shown, _ = process.communicate(timeout=120)
    assert process.returncode == 6, shown
    document = json.loads(out.read_text())
    [stalled] = [c for c in document["caveats"] if c["code"] == "stalled"]
    assert stalled["severity"] == "invalid" and stalled["text"] in shown and "INVALID" in shown
    assert document["phases"][0]["values"]["longest_stall_s"] > 2
    report = tmp_path / "report.html"
    run(os.environ["ASHLAR_BIN"], "bench", "report", out, "--out", report, cwd=tmp_path)
    assert "Must not be used" in report.read_text() and "measuring machine stalled" in report.read_text()


def test_results_describe_the_run_and_contain_no_key(server, bench, run, tmp_path, bucket):
    document = bench("put", "--count", "30", "--server-metrics-token", "a-secret-token")
    [host] = [h["facts"] for h in document["environment"] if h["role"] == "server"]
    assert host["product"] == "Ashlar" and host["code"] and int(host["drives"]) >= 1, host
    assert document["name"] == f"PUT of 4 KiB, 4 in flight, on 127.0.0.1:{server.port}"
    text = json.dumps(document)
    assert ACCESS not in text and SECRET not in text and "a-secret-token" not in text
    report = tmp_path / "report.html"
    run(os.environ["ASHLAR_BIN"], "bench", "report", tmp_path / "put.json", "--out", report, cwd=tmp_path)
    html = report.read_text()
    assert f"<h1>{document['name']}</h1>" in html
    assert f"Ashlar {host['version']}, {host['drives']} drives, erasure code {host['code']}" in html
    settings = html[html.index('id="settings"'):html.index('id="command"')]
    assert "<table" in settings and not set("{}[]") & set(settings) and "4 KiB" in settings
    shown = run(os.environ["ASHLAR_BIN"], "bench", "show", "--all", tmp_path / "put.json", cwd=tmp_path).stdout
    assert "MB/s" in shown or "kB/s" in shown
    assert "iB/s" not in shown and "iB/s" not in html


def test_server_without_information_is_unknown(server, run, s3, tmp_path, bucket):
    ashlar = os.environ["ASHLAR_BIN"]
    env = {"ASHLAR_HOST_it": f"http://{ACCESS}:{SECRET}@127.0.0.1:{server.port}", "ASHLAR_USER_SECRET": "secret-of-bencher"}
    run(ashlar, "admin", "user", "add", "it", "bencher", env=env, cwd=tmp_path)
    run(ashlar, "admin", "policy", "attach", "it", "readwrite", "--user", "bencher", env=env, cwd=tmp_path)
    try:
        env = {"ASHLAR_HOST_it": f"http://bencher:secret-of-bencher@127.0.0.1:{server.port}"}
        done = run(
            ashlar, "bench", "s3", "put", f"it/{bucket}", "--size", "1KiB", "--count", "20", "--out", tmp_path / "x.json",
            env=env, cwd=tmp_path,
        )
    finally:
        env = {"ASHLAR_HOST_it": f"http://{ACCESS}:{SECRET}@127.0.0.1:{server.port}"}
        run(ashlar, "admin", "user", "remove", "it", "bencher", env=env, cwd=tmp_path)
    assert "Server it: version unknown, drives unknown, erasure code unknown" in done.stdout
    assert "bencher" not in (tmp_path / "x.json").read_text()
