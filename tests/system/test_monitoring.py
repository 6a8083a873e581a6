"""Monitoring: metrics under MinIO's names, dashboards and alerts with data, exact usage, the live trace, the log,
and `mc admin` for all of them."""

import base64
import hashlib
import hmac
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import boto3
import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials

import dashboards
from conftest import ACCESS, REGION, SECRET, Server, free_port, until
from nodes import Etcd

ROOT = Path(__file__).resolve().parents[2]

# What the panels of MinIO's published dashboards (main, node, bucket) ask for, replication left out.
DASHBOARDS = {
    "cluster": """
        minio_node_process_starttime_seconds minio_s3_traffic_received_bytes minio_s3_traffic_sent_bytes
        minio_cluster_capacity_usable_total_bytes minio_cluster_capacity_usable_free_bytes
        minio_cluster_capacity_raw_total_bytes minio_cluster_capacity_raw_free_bytes minio_cluster_usage_total_bytes
        minio_cluster_usage_object_total minio_cluster_objects_size_distribution minio_cluster_bucket_total
        minio_cluster_nodes_online_total minio_cluster_nodes_offline_total minio_cluster_drive_total
        minio_cluster_drive_online_total minio_cluster_drive_offline_total minio_cluster_health_status
        minio_cluster_health_erasure_set_status minio_cluster_health_erasure_set_online_drives
        minio_cluster_health_erasure_set_healing_drives minio_cluster_health_erasure_set_read_quorum
        minio_cluster_health_erasure_set_write_quorum minio_s3_requests_total minio_s3_requests_errors_total
        minio_s3_requests_4xx_errors_total minio_s3_requests_5xx_errors_total minio_s3_requests_inflight_total
        minio_s3_requests_incoming_total minio_s3_requests_waiting_total minio_s3_requests_rejected_auth_total
        minio_s3_requests_rejected_header_total minio_s3_requests_rejected_invalid_total
        minio_s3_requests_rejected_timestamp_total minio_s3_requests_ttfb_seconds_distribution
        minio_heal_objects_total minio_heal_objects_heal_total minio_heal_objects_errors_total
        minio_heal_time_last_activity_nano_seconds minio_usage_last_activity_nano_seconds
        minio_inter_node_traffic_received_bytes minio_inter_node_traffic_sent_bytes minio_node_drive_used_bytes
        minio_node_drive_free_inodes minio_node_file_descriptor_open_total minio_node_go_routine_total
        minio_node_io_rchar_bytes minio_node_io_wchar_bytes minio_node_syscall_read_total
        minio_node_syscall_write_total minio_node_process_uptime_seconds minio_node_process_cpu_total_seconds
        minio_node_process_resident_memory_bytes minio_notify_current_send_in_progress
        minio_cluster_kms_online minio_cluster_kms_request_success minio_cluster_kms_request_error
        minio_cluster_kms_request_failure minio_cluster_kms_uptime minio_node_ilm_expiry_pending_tasks
        minio_node_ilm_transition_active_tasks minio_node_ilm_transition_pending_tasks""",
    "node": """
        minio_node_drive_total minio_node_drive_online_total minio_node_drive_offline_total
        minio_node_drive_total_bytes minio_node_drive_used_bytes minio_node_drive_free_bytes
        minio_node_drive_free_inodes minio_node_drive_latency_us minio_node_drive_errors_availability
        minio_node_drive_errors_ioerror""",
    "bucket": """
        minio_bucket_usage_total_bytes minio_bucket_usage_object_total minio_bucket_usage_version_total
        minio_bucket_usage_deletemarker_total minio_bucket_objects_size_distribution
        minio_bucket_objects_version_distribution minio_bucket_requests_total minio_bucket_requests_inflight_total
        minio_bucket_requests_4xx_errors_total minio_bucket_requests_5xx_errors_total
        minio_bucket_requests_ttfb_seconds_distribution minio_bucket_traffic_received_bytes
        minio_bucket_traffic_sent_bytes""",
    "resource": """
        minio_node_mem_total minio_node_mem_used minio_node_cpu_avg_load1 minio_node_cpu_avg_user
        minio_node_if_rx_bytes minio_node_if_tx_bytes minio_node_drive_total_inodes minio_node_drive_used_inodes""",
}


def certificate(folder, days=365):
    folder.mkdir()
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days",
         str(days), "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-addext",
         "basicConstraints=critical,CA:FALSE", "-keyout", folder / "private.key", "-out", folder / "public.crt"],
        check=True, capture_output=True,
    )
    (folder / "private.key").chmod(0o600)
    return folder


@pytest.fixture(scope="module")
def home():
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    path = Path(tempfile.mkdtemp(prefix="ashlar-monitoring-", dir=base))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def own(home):
    """A server with TLS, keys, an audit log and a target for events, on which something has happened."""
    (home / "s").mkdir()
    s = Server(
        home / "s", certs=certificate(home / "certs"),
        env={"ASHLAR_KMS_ROOT_KEY": base64.b64encode(bytes(range(32))).decode(), "MINIO_NOTIFY_WEBHOOK_ENABLE_one": "on",
             "MINIO_NOTIFY_WEBHOOK_ENDPOINT_one": f"http://127.0.0.1:{free_port()}/",
             "ASHLAR_AUDIT_FILE": str(home / "audit.log"), "ASHLAR_AUDIT_WEBHOOK_ALLOW_LOOPBACK": "true",
             "ASHLAR_AUDIT_WEBHOOK": f"http://127.0.0.1:{free_port()}/audit"},
    )
    try:
        use(s)
        yield s
        if s.process.poll() is None:
            assert s.stop() == 0
    finally:
        if s.process.poll() is None:
            s.process.kill()
            s.process.wait()


def client(s, access=ACCESS, secret=SECRET):
    return boto3.client(
        "s3", endpoint_url=s.endpoint, aws_access_key_id=access, aws_secret_access_key=secret, region_name=REGION,
        verify=str(s.home.parent / "certs/public.crt") if s.context else None,
        config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 0}),
    )


def use(s):
    """Five objects and nine versions of 120,300 bytes in one bucket, with two delete markers; an empty bucket."""
    c = client(s)
    c.create_bucket(Bucket="full")
    c.create_bucket(Bucket="empty")
    c.put_bucket_versioning(Bucket="full", VersioningConfiguration={"Status": "Enabled"})
    for i in range(5):
        c.put_object(Bucket="full", Key=f"k{i}", Body=b"x" * 100)
    for _ in range(2):
        c.put_object(Bucket="full", Key="k0", Body=b"y" * 50_000)
    c.put_object(Bucket="full", Key="gone", Body=b"z" * 19_700)
    c.delete_object(Bucket="full", Key="gone")
    c.put_object(Bucket="full", Key="back", Body=b"z" * 100)
    c.delete_object(Bucket="full", Key="back")
    c.get_object(Bucket="full", Key="k0")["Body"].read()
    with pytest.raises(Exception):
        c.get_object(Bucket="full", Key="nothing")


USED = {"objects": 5, "versions": 9, "delete_markers": 2, "bytes": 120_300}


def mc(s, *args, fails=False, json_=True, timeout=60, **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "MC_"))}
    scheme, rest = s.endpoint.split("://")
    env.update(MC_HOST_it=f"{scheme}://{ACCESS}:{SECRET}@{rest}", HOME=str(s.home))
    args = [f"{os.environ['CLIENT_BIN']}/mc", "--insecure", *(("--json",) if json_ else ()), *args]
    done = subprocess.run(args, env=env, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL, **more)
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return done.stdout + done.stderr if fails else done.stdout


def ashlar(s, *args, fails=False):
    env = dict(os.environ, ASHLAR_HOST_it=s.endpoint.replace("://", f"://{ACCESS}:{SECRET}@"), HOME=str(s.home))
    done = subprocess.run(
        [os.environ["ASHLAR_BIN"], *args, "--insecure"], env=env, capture_output=True, text=True, timeout=60,
        stdin=subprocess.DEVNULL,
    )
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return done.stdout


def signed(s, method, path):
    request = AWSRequest(method, s.endpoint + path)
    S3SigV4Auth(Credentials(ACCESS, SECRET), "s3", REGION).add_auth(request)
    real = urllib.request.Request(s.endpoint + path, method=method, headers=dict(request.headers))
    with urllib.request.urlopen(real, context=s.context, timeout=30) as answer:
        return answer.status, json.loads(answer.read())


def jwt(access=ACCESS, secret=SECRET, lives=3600, algorithm="HS512"):
    part = lambda b: base64.urlsafe_b64encode(b).rstrip(b"=")
    head = part(json.dumps({"alg": algorithm, "typ": "JWT"}).encode())
    claims = {"exp": int(time.time()) + lives, "iss": "prometheus", "sub": access}
    body = head + b"." + part(json.dumps(claims).encode())
    return (body + b"." + part(hmac.new(secret.encode(), body, hashlib.sha512).digest())).decode()


def scrape(s, path, token=None):
    headers = {"Authorization": f"Bearer {token or jwt()}"}
    request = urllib.request.Request(s.endpoint + path, headers=headers)
    with urllib.request.urlopen(request, context=s.context, timeout=30) as answer:
        return answer.read().decode()


def samples(text):
    """Name to a list of (labels, value)."""
    found = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, labels, value = re.fullmatch(r"([a-z_0-9A-Z]+)\{(.*)\} (\S+)", line).groups()
            labels = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels))
            found.setdefault(name, []).append((labels, float(value)))
    return found


def test_metrics_token_of_mc_is_accepted(own):
    generated = re.search(r'"bearerToken": *"([^"]+)"', mc(own, "admin", "prometheus", "generate", "it"))[1]
    assert "minio_s3_requests_total" in scrape(own, "/minio/v2/metrics/cluster", generated)
    bad = [
        jwt(secret="somebody else's"), jwt(lives=-3600), jwt(access="nobody-there"), jwt(algorithm="none"),
        jwt(access=""), generated[:-4] + "AAAA", "x.y.z",
    ]
    for token in bad:
        with pytest.raises(urllib.error.HTTPError) as no:
            scrape(own, "/minio/v2/metrics/cluster", token)
        assert no.value.code == 403, token
    # Of a user only with the right to read metrics.
    for name, policy, allowed in [("watcher-user", "diagnostics", True), ("reader-user", "readonly", False)]:
        mc(own, "admin", "user", "add", "it", name, "a-secret-of-somebody")
        mc(own, "admin", "policy", "attach", "it", policy, "--user", name)
        token = jwt(access=name, secret="a-secret-of-somebody")
        if allowed:
            assert scrape(own, "/minio/v2/metrics/node", token)
        else:
            with pytest.raises(urllib.error.HTTPError):
                scrape(own, "/minio/v2/metrics/node", token)


@pytest.mark.parametrize("kind", DASHBOARDS)
def test_panels_of_minios_dashboards_have_data(own, kind):
    found = samples(scrape(own, f"/minio/v2/metrics/{kind}"))
    missing = [name for name in DASHBOARDS[kind].split() if name not in found]
    assert missing == []
    for name, all_ in found.items():
        assert all(labels["server"] == f"127.0.0.1:{own.port}" for labels, _ in all_), name


def test_metrics_are_well_formed(own):
    for path in ["/ashlar/metrics", "/minio/v2/metrics/cluster", "/minio/metrics/v3", "/minio/metrics/v3/api"]:
        text = scrape(own, path)
        types = re.findall(r"^# TYPE (\S+) ", text, re.M)
        assert len(types) == len(set(types)) > 3, "each family stands once"
        seen = set()
        for line in text.splitlines():
            if not line.startswith("#"):
                sample = line.rsplit(" ", 1)[0]
                assert sample not in seen, line
                seen.add(sample)


def test_dashboards_are_complete():
    all_ = dashboards.boards()
    assert "ashlar.json" in all_ and len(all_) > 5
    for key in ("uid", "title"):
        assert len({board[key] for board in all_.values()}) == len(all_), key
    for file, board in all_.items():
        assert board["tags"] == ["ashlar"] and board["description"], file
        # The links of every dashboard lead to all others, with the time and the variables.
        assert [(l["type"], l["tags"], l["includeVars"]) for l in board["links"]] == [("dashboards", ["ashlar"], True)], file
        variables = {v["name"]: v for v in board["templating"]["list"]}
        assert variables["datasource"]["type"] == "datasource" and len(variables) >= 3, file
        known = set(variables) | {"__rate_interval"}
        panels = dashboards.panels(board)
        ids = [p["id"] for p in board["panels"]]
        assert len(ids) == len(set(ids)) and len({p["title"] for p in panels}) == len(panels), file
        for panel in panels:
            name = (file, panel["title"])
            assert panel["description"].endswith(".") and panel["fieldConfig"]["defaults"]["unit"], name
            assert panel["targets"], name
            for target in panel["targets"]:
                assert panel["datasource"]["uid"] == target["datasource"]["uid"] == "${datasource}", name
                expression = target["expr"]
                assert set(re.findall(r"\$(\w+)", expression)) <= known, name
                for left, right in ("()", "[]", "{}"):
                    assert expression.count(left) == expression.count(right), name
        taken = set()
        for panel in board["panels"]:
            at = panel["gridPos"]
            cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
            assert at["x"] + at["w"] <= 24 and not cells & taken, (file, panel["title"])
            taken |= cells
    documented = (ROOT / "docs/monitoring.md").read_text()
    assert [file for file in all_ if f"`{file}`" not in documented] == []


def test_dashboards_and_alerts_use_only_exported_metrics(own):
    # The metrics of the full scrub are there when one has ended.
    ashlar(own, "drive", "scrub", "it")
    until(lambda: {"ashlar_scrub_full_seconds", "ashlar_scrub_orphans"} <= set(samples(scrape(own, "/ashlar/metrics"))), 60)
    found = set(samples(scrape(own, "/ashlar/metrics")))
    used = dashboards.used()
    rules = (ROOT / "deploy/prometheus/alerts.yml").read_text()
    alerts = re.findall(r"^ +expr: (.*)$", rules, re.M)
    assert len(alerts) == rules.count("- alert:") > 10
    for expression in alerts:
        used |= dashboards.names_of(expression)
    assert len(used) > 150
    sometimes = dashboards.sometimes()
    assert sorted(used - found - sometimes) == []
    # This server has an audit log, a target, keys and TLS. It is no node of a cluster, and no drive is filled.
    assert [n for n in used - found if not n.startswith(("ashlar_rebuild_", "ashlar_node_online"))] == []
    source = "".join(file.read_text() for file in (ROOT / "crates").glob("*/src/**/*.rs"))
    assert [n for n in sometimes - found if f'"{n}"' not in source] == []


def test_dashboards_use_only_metrics_of_etcd_that_it_exports(home):
    (home / "etcd").mkdir()
    etcd = Etcd(home / "etcd")
    try:
        with urllib.request.urlopen(f"{etcd.members[0].endpoint}/metrics", timeout=30) as answer:
            found = dashboards.exported(answer.read().decode())
        used = dashboards.used(dashboards.ETCD)
        assert len(used) > 5 and sorted(used - found) == []
    finally:
        etcd.kill()


def test_usage_is_exact_everywhere_and_after_a_restart(own):
    for attempt in range(2):
        if attempt:
            own.process.send_signal(signal.SIGKILL)
            own.process.wait()
            own.start()
        deadline = time.monotonic() + 60
        while not json.loads(ashlar(own, "info", "it", "--json"))["usage"]["complete"]:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        usage = json.loads(ashlar(own, "info", "it", "--json"))["usage"]
        assert usage == {**USED, "complete": True}
        assert "5 objects, 9 versions, 2 delete markers" in ashlar(own, "info", "it")
        stat = json.loads(ashlar(own, "stat", "it/full", "--json"))["usage"]
        assert {k: stat[k] for k in USED} == USED
        assert stat["sizes"]["LESS_THAN_1024_B"] == 4 and stat["sizes"]["BETWEEN_1024_B_AND_64_KB"] == 1
        assert (stat["version_counts"]["SINGLE_VERSION"], stat["version_counts"]["BETWEEN_2_AND_10"]) == (6, 1)
        info = json.loads(mc(own, "admin", "info", "it"))["info"]
        assert (info["objects"]["count"], info["versions"]["count"]) == (5, 9)
        assert (info["deletemarkers"]["count"], info["usage"]["size"]) == (2, 120_300)
        bucket = json.loads(mc(own, "stat", "it/full"))
        assert (bucket["Usage"]["size"], bucket["Usage"]["objectsCount"]) == (120_300, 5)
        assert bucket["Usage"]["versionsCount"] == 9
        assert bucket["Usage"]["objectsSizesHistogram"]["LESS_THAN_1024_B"] == 4
        assert json.loads(mc(own, "stat", "it/empty"))["Usage"]["size"] == 0
        du = json.loads(mc(own, "du", "--versions", "it/full"))
        assert du["size"] == 120_300
        found = samples(scrape(own, "/minio/v2/metrics/bucket"))
        one = lambda name: {labels["bucket"]: value for labels, value in found[name]}
        assert one("minio_bucket_usage_total_bytes") == {"full": 120_300, "empty": 0}
        assert one("minio_bucket_usage_version_total") == {"full": 9, "empty": 0}
        v3 = samples(scrape(own, "/minio/metrics/v3/cluster/usage/buckets"))
        assert {l["bucket"]: v for l, v in v3["minio_cluster_usage_buckets_objects_count"]} == {"full": 5, "empty": 0}
    # From now on it is kept up to date.
    c = client(own)
    c.put_object(Bucket="empty", Key="k", Body=b"12345")
    assert json.loads(ashlar(own, "stat", "it/empty", "--json"))["usage"]["bytes"] == 5
    c.delete_object(Bucket="empty", Key="k")
    assert json.loads(ashlar(own, "stat", "it/empty", "--json"))["usage"]["objects"] == 0


def following(s, args, wanted, act, program="mc"):
    """Starts a stream, does `act` again and again until a line of it has what is `wanted`; that line."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "MC_"))}
    env.update(HOME=str(s.home), MC_HOST_it=s.endpoint.replace("://", f"://{ACCESS}:{SECRET}@"),
               ASHLAR_HOST_it=s.endpoint.replace("://", f"://{ACCESS}:{SECRET}@"))
    binary = f"{os.environ['CLIENT_BIN']}/mc" if program == "mc" else os.environ["ASHLAR_BIN"]
    process = subprocess.Popen(
        [binary, "--insecure", *args] if program == "mc" else [binary, *args, "--insecure"],
        env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL,
    )
    found, all_ = [], []

    def read():
        document = ""
        for line in process.stdout:
            all_.append(line)
            if program == "mc" and "--json" in args:
                # mc lays a document out over several lines.
                document += line
                if line.rstrip() != "}" and not line.startswith("{\""):
                    continue
                line, document = document, ""
            if wanted(line):
                found.append(line)
                return

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        deadline = time.monotonic() + 40
        while not found and time.monotonic() < deadline and process.poll() is None:
            act()
            reader.join(0.3)
        assert found, "".join(all_)[-3000:]
        return found[0]
    finally:
        process.kill()
        process.wait()


def test_trace_with_mc_and_ashlar(own):
    c = client(own)
    body = b"t" * 3_000_000
    put = lambda: c.put_object(Bucket="empty", Key="traced", Body=body)
    line = following(own, ["--json", "admin", "trace", "it"], lambda l: "PutObject" in l, put)
    event = json.loads(line)
    assert event["api"] == "s3.PutObject" and event["path"] == "/empty/traced"
    assert event["statusCode"] == 200
    stats = event["callStats"]
    assert stats["rx"] >= len(body) and stats["duration"] >= stats["timeToFirstByte"] > 0
    assert event["extra"]["drives"].endswith("ms")
    text = following(own, ["admin", "trace", "it"], lambda l: "PutObject" in l, put)
    assert "200 OK" in text
    line = following(own, ["admin", "trace", "it/empty", "--json"], lambda l: "PutObject" in l, put, "ashlar")
    ours = json.loads(line)
    parts = ("body_micros", "drives_micros", "server_micros", "answer_micros")
    assert sum(ours[p] for p in parts) == pytest.approx(ours["micros"], abs=5)
    assert ours["drives_micros"] > 0 and ours["first_byte_micros"] <= ours["micros"]
    assert (ours["status"], ours["bytes_in"] >= len(body), ours["access_key"]) == (200, True, ACCESS)
    # Failures only, and never what signs a request.
    url = c.generate_presigned_url("get_object", Params={"Bucket": "empty", "Key": "not-there"})

    def fail():
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(url, context=own.context)
        put()

    line = following(own, ["admin", "trace", "it", "--errors", "--json"], lambda l: l.strip(), fail, "ashlar")
    assert json.loads(line)["error"] == "NoSuchKey" and "Signature" not in line
    line = following(own, ["--json", "admin", "trace", "--errors", "it"], lambda l: "api" in l, fail)
    assert json.loads(line)["statusCode"] == 404
    c.delete_object(Bucket="empty", Key="traced")


def test_logs_with_mc_and_ashlar(own):
    lines = [json.loads(l) for l in ashlar(own, "admin", "logs", "it", "--json").splitlines()]
    assert lines and all(l["level"] in ("info", "warn", "error") for l in lines)

    def something():
        mc(own, "admin", "user", "add", "it", "logged-user", "a-secret-of-somebody")

    line = following(own, ["admin", "logs", "it", "--follow"], lambda l: "add-user" in l, something, "ashlar")
    assert "INFO" in line and "a-secret-of-somebody" not in line
    line = following(own, ["admin", "logs", "it"], lambda l: "add-user" in l, something)
    assert "administration" in line


def test_top_and_what_is_read_is_not_logged(own):
    top = json.loads(ashlar(own, "admin", "top", "it", "--json"))
    assert next(o for o in top["operations"] if o["operation"] == "PutObject")["calls"] > 0
    assert "PutObject" in ashlar(own, "admin", "top", "it")
    status, locks = signed(own, "GET", "/minio/admin/v3/top/locks?count=10&stale=false")
    assert (status, locks) == (200, [])
    before = own.log.read_text().count('path="/ashlar/api/v1/info"')
    ashlar(own, "info", "it")
    assert own.log.read_text().count('path="/ashlar/api/v1/info"') == before, "reading leaves no line"


def test_heal_and_scanner_in_mc(own):
    state = json.loads(mc(own, "admin", "heal", "it"))
    assert state["status"] == "success"
    assert "Pool 1st" in mc(own, "admin", "heal", "it", "--verbose", json_=False)
    assert len(state["HealInfo"]["sets"][0]["disks"]) == 4
    mc(own, "admin", "heal", "-r", "--force", "it/full")
    assert "bucket does not exist" in mc(own, "admin", "heal", "-r", "--force", "it/not-there", fails=True)
    scanner = json.loads(mc(own, "admin", "scanner", "status", "it", "-n", "1"))
    assert "scanner" in scanner["aggregated"]


def test_missing_features_are_reported_in_the_form_of_mc(own):
    for args in (["admin", "rebalance", "status", "it"], ["admin", "decommission", "status", "it"],
                 ["admin", "replicate", "info", "it"]):
        said = mc(own, *args, fails=True)
        assert "not implemented by this server" in said, said
    with pytest.raises(urllib.error.HTTPError) as no:
        scrape(own, "/minio/anything")
    document = json.loads(no.value.read())
    assert (no.value.code, document["Code"]) == (501, "NotImplemented"), document


def test_slow_requests_are_logged(home):
    folder = home / "slow"
    folder.mkdir()
    s = Server(folder, arguments=["--slow-request", "1"])
    try:
        c = client(s)
        c.create_bucket(Bucket="bkt")
        c.put_object(Bucket="bkt", Key="quick", Body=b"x")
        c.put_object(Bucket="bkt", Key="large", Body=b"x" * 30_000_000)
        url = c.generate_presigned_url("put_object", Params={"Bucket": "bkt", "Key": "slow-in"})
        path = url.split("/", 3)[3]
        with socket.create_connection(("127.0.0.1", s.port)) as wire:
            wire.sendall(f"PUT /{path} HTTP/1.1\r\nHost: 127.0.0.1:{s.port}\r\nContent-Length: 4\r\n\r\n12".encode())
            time.sleep(1.3)
            wire.sendall(b"34")
            assert b" 200 " in wire.recv(200)
        url = c.generate_presigned_url("get_object", Params={"Bucket": "bkt", "Key": "large"})
        path = url.split("/", 3)[3]
        with socket.create_connection(("127.0.0.1", s.port)) as wire:
            wire.sendall(f"GET /{path} HTTP/1.1\r\nHost: 127.0.0.1:{s.port}\r\nConnection: close\r\n\r\n".encode())
            time.sleep(1.3)
            while wire.recv(1 << 20):
                pass
        deadline = time.monotonic() + 20
        while s.log.read_text().count("slow request") < 2 and time.monotonic() < deadline:
            time.sleep(0.1)
        lines = [l for l in s.log.read_text().splitlines() if "slow request" in l]
        assert any("slow-in" in l and "PutObject" in l for l in lines), lines
        assert any("/bkt/large" in l and "bytes_out=30000000" in l for l in lines), lines
        assert not any("quick" in l or "Signature" in l for l in lines), lines
        assert s.stop() == 0
    finally:
        if s.process.poll() is None:
            s.process.kill()
            s.process.wait()


def test_invalid_certificate_is_named(home):
    folder = home / "bad"
    folder.mkdir()
    certs = certificate(home / "bad-certs", days=3)
    (certs / "private.key").chmod(0o644)
    s = Server(folder, certs=certs)
    try:
        log = s.log.read_text()
        assert "the certificate expires on" in log and "others can read the private key (mode 644)" in log
        assert s.stop() == 0
    finally:
        if s.process.poll() is None:
            s.process.kill()
            s.process.wait()
    encrypted = home / "encrypted"
    encrypted.mkdir()
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-passout", "pass:secret", "-days", "3", "-subj", "/CN=x",
         "-keyout", encrypted / "private.key", "-out", encrypted / "public.crt"], check=True, capture_output=True,
    )
    done = subprocess.run(
        [os.environ["ASHLAR_BIN"], "server", str(folder / "other"), "--certs", str(encrypted), "--address",
         f"127.0.0.1:{free_port()}"], capture_output=True, text=True, timeout=30,
    )
    assert done.returncode != 0 and "protected by a passphrase" in done.stderr, done.stderr


def test_target_that_refuses_the_test_connection_is_offline(own):
    targets = json.loads(ashlar(own, "event", "targets", "it", "--json"))["targets"]
    assert [t["online"] for t in targets] == [True], "nothing was sent yet"
    rule = {"QueueConfigurations": [{"QueueArn": "arn:minio:sqs::one:webhook", "Events": ["s3:ObjectCreated:*"]}]}
    with pytest.raises(Exception):
        client(own).put_bucket_notification_configuration(Bucket="full", NotificationConfiguration=rule)
    targets = json.loads(ashlar(own, "event", "targets", "it", "--json"))["targets"]
    assert targets[0]["online"] is False and targets[0]["problem"], targets
