"""Bucket notifications: configuration with mc and boto3, one contract for every kind of target, listening,
order across an unreachable target and a killed server, dead letters.

Real: Redis, PostgreSQL, MariaDB, RabbitMQ, Mosquitto, NATS (Debian's packages); Kafka is `kfake`, a cluster from
the authors of a Kafka client. Elasticsearch and nsqd are stand-ins of this file that check what is sent to them,
because neither is packaged.
"""

import base64
import http.server
import json
import os
import pwd
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from conftest import ACCESS, REGION, SECRET, Server, free_port, until


def opens(port):
    def look():
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", port)) == 0
    until(look)


@pytest.fixture(scope="module")
def home():
    # Where the database's own user may look too.
    path = Path(tempfile.mkdtemp(prefix="ashlar-events-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def machine(home):
    server = Server(home)
    yield server
    if server.process.poll() is None:
        assert server.stop() == 0
    if "panicked" in server.log.read_text():
        pytest.fail(server.log.read_text())


@pytest.fixture(scope="module")
def client(machine):
    return boto3.client(
        "s3", endpoint_url=machine.endpoint, aws_access_key_id=ACCESS, aws_secret_access_key=SECRET,
        region_name=REGION, config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 4}))


@pytest.fixture(scope="module")
def mc(machine, home):
    def go(*args, check=True):
        env = dict(os.environ, HOME=str(home), MC_CONFIG_DIR=str(home / "mc"))
        env["MC_HOST_e"] = f"http://{ACCESS}:{SECRET}@127.0.0.1:{machine.port}"
        done = subprocess.run([f"{os.environ['CLIENT_BIN']}/mc", *args], env=env, capture_output=True, text=True, timeout=60)
        assert not check or done.returncode == 0, f"{args}\n{done.stdout}\n{done.stderr}"
        return done
    return go


class Process:
    """A program that is ended at the end; only ever by its own id."""

    def __init__(self, *args, log, **more):
        self.process = subprocess.Popen([str(a) for a in args], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True, **more)

    def end(self):
        try:
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait(20)
        except ProcessLookupError:
            pass
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(20)


def as_user(name):
    """Databases refuse to be run by root."""
    return ["setpriv", f"--reuid={name}", f"--regid={pwd.getpwnam(name).pw_gid}", "--clear-groups"] if os.getuid() == 0 else []


class Web:
    """An HTTP server in this process."""

    def __init__(self, handler):
        self.got, self.status, self.docs = [], 200, {}
        web = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def any(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                status = handler(web, self.command, self.path, self.headers, body)
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = any

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def end(self):
        self.server.shutdown()


def posted(web, method, path, headers, body):
    document = json.loads(body)
    if web.status != 200:
        return web.status
    if any("refuse" in r["s3"]["object"]["key"] for r in document.get("Records", [])):
        return 400
    web.got.append((headers, document))
    return 200


def elastic(web, method, path, headers, body):
    assert headers["authorization"] == "Basic " + base64.b64encode(b"u:p").decode()
    parts = path.strip("/").split("/")
    if method == "HEAD":
        return 404
    assert parts[:2] == ["idx", "_doc"], path
    if method == "DELETE":
        return 200 if web.docs.pop(parts[2], None) else 404
    web.docs[parts[2]] = json.loads(body)
    return 201


class Nsqd:
    """As much of nsqd as one publisher sees: IDENTIFY, PUB."""

    def __init__(self):
        self.got = []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                conn, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.talk, args=(conn,), daemon=True).start()

    def talk(self, conn):
        f = conn.makefile("rwb")
        assert f.read(4) == b"  V2"

        def say(text):
            f.write(struct.pack(">ii", len(text) + 4, 0) + text)
            f.flush()

        while line := f.readline():
            (size,) = struct.unpack(">i", f.read(4))
            body = f.read(size)
            if line == b"IDENTIFY\n":
                assert json.loads(body)["feature_negotiation"]
                say(b'{"max_rdy_count":2500}')
            else:
                assert line == b"PUB events\n", line
                self.got.append(json.loads(body))
                # Heartbeats come at any time.
                say(b"_heartbeat_")
                assert f.readline() == b"NOP\n"
                say(b"OK")

    def end(self):
        self.socket.close()


def configure(mc, kind, **values):
    mc("admin", "config", "set", "e", f"notify_{kind}:1", *[f"{k}={v}" for k, v in values.items()])


ARNS = {"postgres": "postgresql"}


def rule(client, bucket, kind, events=("s3:ObjectCreated:*", "s3:ObjectRemoved:*"), **more):
    arn = f"arn:minio:sqs::1:{ARNS.get(kind, kind)}"
    client.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration={
        "QueueConfigurations": [{"QueueArn": arn, "Events": list(events), **more}]})


def change(client, bucket):
    """What the contract is about: three keys, one overwritten twice, one removed."""
    for n in range(3):
        client.put_object(Bucket=bucket, Key="many times", Body=b"x" * n)
    client.put_object(Bucket=bucket, Key="dir/ü+1.txt", Body=b"yy", ContentType="text/plain", Metadata={"a": "b"})
    client.put_object(Bucket=bucket, Key="gone", Body=b"")
    client.delete_object(Bucket=bucket, Key="gone")


def told(records, bucket):
    """Names of events by key, without repetitions, in the order they arrived; checks that order."""
    keys, last = {}, {}
    for r in records:
        if r["s3"]["bucket"]["name"] != bucket:
            continue
        key, seq = r["s3"]["object"]["key"], r["s3"]["object"]["sequencer"]
        if seq == last.get(key):
            continue
        assert seq > last.get(key, ""), f"{key}: {seq} after {last[key]}"
        last[key] = seq
        keys.setdefault(key, []).append(r["eventName"].removeprefix("s3:"))
    return keys


WANT = {
    "many+times": ["ObjectCreated:Put"] * 3,
    "dir/%C3%BC%2B1.txt": ["ObjectCreated:Put"],
    "gone": ["ObjectCreated:Put", "ObjectRemoved:Delete"],
}


def records(documents):
    return [r for d in documents for r in d.get("Records") or []]


def contract(client, mc, kind, documents, **values):
    """The contract of targets that are sent messages: a test event, then all, in order per key."""
    configure(mc, kind, **values)
    bucket = f"contract-{kind}"
    client.create_bucket(Bucket=bucket)
    until(lambda: not failing(rule, client, bucket, kind))
    until(lambda: any(d.get("Event") == "s3:TestEvent" and d["Bucket"] == bucket for d in documents()))
    change(client, bucket)
    until(lambda: sum(map(len, told(records(documents()), bucket).values())) >= 6)
    assert told(records(documents()), bucket) == WANT
    one = next(d for d in documents() if d.get("Key") == f"{bucket}/dir/ü+1.txt")
    assert one["EventName"] == "s3:ObjectCreated:Put"
    assert one["Records"][0]["s3"]["object"]["userMetadata"]["x-amz-meta-a"] == "b"


def failing(what, *args, **more):
    try:
        what(*args, **more)
    except ClientError as e:
        return e
    return None


@pytest.fixture(scope="module")
def webhook(mc):
    web = Web(posted)
    configure(mc, "webhook", endpoint=f"http://127.0.0.1:{web.port}/x", auth_token="secret-token")
    yield web
    web.end()


def test_webhook_keeps_the_contract(client, mc, webhook):
    contract(client, mc, "webhook", lambda: [d for _, d in list(webhook.got)],
             endpoint=f"http://127.0.0.1:{webhook.port}/x")
    assert webhook.got[0][0]["authorization"] == "Bearer secret-token"
    shown = mc("admin", "config", "get", "e", "notify_webhook:1").stdout
    assert "secret-token" not in shown and "endpoint=" in shown
    assert "webhook" in mc("admin", "info", "e", "--json").stdout


def test_rules_are_put_and_read_as_in_s3(client, webhook):
    bucket = "rules"
    client.create_bucket(Bucket=bucket)
    get = lambda: {k: v for k, v in client.get_bucket_notification_configuration(Bucket=bucket).items() if k != "ResponseMetadata"}
    assert get() == {}
    rules = lambda *names: {"Key": {"FilterRules": [{"Name": n, "Value": v} for n, v in names]}}
    rule(client, bucket, "webhook", Id="mine", Filter=rules(("prefix", "a/"), ("suffix", ".jpg")))
    got = get()["QueueConfigurations"][0]
    assert got["Id"] == "mine" and got["QueueArn"] == "arn:minio:sqs::1:webhook"
    assert {r["Name"].lower(): r["Value"] for r in got["Filter"]["Key"]["FilterRules"]} == {"prefix": "a/", "suffix": ".jpg"}
    for key in ["a/1.jpg", "a/1.png", "b/1.jpg"]:
        client.put_object(Bucket=bucket, Key=key, Body=b"")
    client.put_object(Bucket=bucket, Key="a/last.jpg", Body=b"")
    here = lambda: told(records(d for _, d in list(webhook.got)), bucket)
    until(lambda: "a/last.jpg" in here())
    assert set(here()) == {"a/1.jpg", "a/last.jpg"}
    for events, more, code in [
        (["s3:Nothing:*"], {}, "InvalidArgument"),
        (["s3:ObjectCreated:*"], {"Filter": rules(("prefix", "a"), ("prefix", "b"))}, "InvalidArgument"),
        (["s3:ObjectCreated:*"], {"Filter": rules(("middle", "a"))}, "InvalidArgument"),
    ]:
        assert failing(rule, client, bucket, "webhook", events, **more).response["Error"]["Code"] == code
    assert "ARN" in str(failing(rule, client, bucket, "nosuch"))
    webhook.status = 503
    # A target that is named anew has to answer; one that was there need not.
    client.create_bucket(Bucket="rules2")
    assert "503" in str(failing(rule, client, "rules2", "webhook"))
    client.put_bucket_notification_configuration(Bucket="rules2", SkipDestinationValidation=True, NotificationConfiguration={
        "QueueConfigurations": [{"QueueArn": "arn:minio:sqs::1:webhook", "Events": ["s3:ObjectRemoved:*"]}]})
    rule(client, bucket, "webhook", ["s3:ObjectRemoved:*"])
    client.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration={})
    assert get() == {}
    webhook.status = 200


def test_events_of_reads_tags_and_locks_are_sent_if_configured(client, webhook):
    bucket = "reads"
    client.create_bucket(Bucket=bucket)
    rule(client, bucket, "webhook", ["s3:ObjectAccessed:*", "s3:ObjectTagging:*"])
    client.put_object(Bucket=bucket, Key="k", Body=b"12345")
    client.get_object(Bucket=bucket, Key="k")["Body"].read()
    client.head_object(Bucket=bucket, Key="k")
    client.put_object_tagging(Bucket=bucket, Key="k", Tagging={"TagSet": [{"Key": "a", "Value": "b"}]})
    client.delete_object_tagging(Bucket=bucket, Key="k")
    here = lambda: told(records(d for _, d in list(webhook.got)), bucket).get("k", [])
    until(lambda: len(here()) == 4)
    assert here() == ["ObjectAccessed:Get", "ObjectAccessed:Head", "ObjectTagging:Put", "ObjectTagging:Delete"]


def test_mc_sets_lists_and_watches(client, mc, webhook, machine, home):
    mc("mb", "e/of-mc")
    mc("event", "add", "e/of-mc", "arn:minio:sqs::1:webhook", "--event", "put,delete", "--suffix", ".txt")
    assert ".txt" in mc("event", "ls", "e/of-mc").stdout
    env = dict(os.environ, HOME=str(home), MC_CONFIG_DIR=str(home / "mc"))
    env["MC_HOST_e"] = f"http://{ACCESS}:{SECRET}@127.0.0.1:{machine.port}"
    with (home / "watch.log").open("wb") as log:
        watch = Process(f"{os.environ['CLIENT_BIN']}/mc", "watch", "--json", "e/of-mc", log=log, env=env)
    try:
        def seen():
            client.put_object(Bucket="of-mc", Key="seen.txt", Body=b"")
            return "seen.txt" in (home / "watch.log").read_text()
        until(seen)
    finally:
        watch.end()
    mc("event", "rm", "e/of-mc", "arn:minio:sqs::1:webhook", "--event", "put,delete", "--suffix", ".txt")
    assert "webhook" not in mc("event", "ls", "e/of-mc").stdout


def test_no_event_is_lost_when_target_and_server_fail(client, machine, webhook):
    bucket = "crash"
    client.create_bucket(Bucket=bucket)
    rule(client, bucket, "webhook")
    webhook.status = 503
    want = {f"k{k}": 0 for k in range(5)}
    for n in range(40):
        key = f"k{n % 5}"
        client.put_object(Bucket=bucket, Key=key, Body=b"x")
        want[key] += 1
        if n == 20:
            machine.process.kill()
            machine.process.wait()
            machine.start()
    webhook.status = 200
    here = lambda: told(records(d for _, d in list(webhook.got)), bucket)
    until(lambda: {k: len(v) for k, v in here().items()} == want, 60)


def test_refused_events_become_dead_letters(client, webhook, machine):
    bucket = "dead"
    client.create_bucket(Bucket=bucket)
    rule(client, bucket, "webhook")
    for key in ["a", "refuse-this", "b"]:
        client.put_object(Bucket=bucket, Key=key, Body=b"")
    here = lambda: told(records(d for _, d in list(webhook.got)), bucket)
    until(lambda: "b" in here())
    assert set(here()) == {"a", "b"}
    letters = client.list_objects_v2(Bucket="ashlar-dead-letters", Prefix="1:webhook/")["Contents"]
    assert len(letters) == 1
    letter = json.loads(client.get_object(Bucket="ashlar-dead-letters", Key=letters[0]["Key"])["Body"].read())
    assert letter["event"]["key"] == "refuse-this" and "400" in letter["why"]


def test_redis_keeps_the_contract(client, mc, home):
    port = free_port()
    with (home / "redis.log").open("wb") as log:
        server = Process("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--requirepass", "pw", "--dir", home, log=log)
    try:
        opens(port)
        cli = lambda *a: subprocess.run(["redis-cli", "-p", str(port), "--no-auth-warning", "-a", "pw", *a], capture_output=True, text=True, check=True).stdout.splitlines()
        configure(mc, "redis", address=f"127.0.0.1:{port}", key="ev", format="namespace", password="pw")
        client.create_bucket(Bucket="in-redis")
        until(lambda: not failing(rule, client, "in-redis", "redis"))
        change(client, "in-redis")
        until(lambda: sorted(cli("HKEYS", "ev")) == ["in-redis/dir/ü+1.txt", "in-redis/many times"])
        value = lambda: json.loads(cli("HGET", "ev", "in-redis/many times")[0])
        until(lambda: value()["Records"][0]["s3"]["object"]["size"] == 2)
        configure(mc, "redis", format="access", key="list")
        time.sleep(0.5)
        change(client, "in-redis")
        until(lambda: cli("LLEN", "list") == ["6"])
        entries = [json.loads(line)[0]["Event"][0] for line in cli("LRANGE", "list", "0", "-1")]
        assert told(entries, "in-redis") == WANT
    finally:
        server.end()


def test_postgresql_keeps_the_contract(client, mc, home):
    port, data = free_port(), home / "pg"
    data.mkdir()
    user = as_user("postgres")
    if user:
        shutil.chown(data, "postgres", "postgres")
    binaries = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1]
    with (home / "pg.log").open("wb") as log:
        (home / "pw").write_text("pw")
        (home / "pw").chmod(0o644)
        subprocess.run([*user, binaries / "initdb", "-D", data, "-U", "ann", "--pwfile", home / "pw", "-A", "scram-sha-256", "--no-sync"], check=True, stdout=log, stderr=log)
        server = Process(*user, binaries / "postgres", "-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={data}", "-c", "fsync=off", log=log)
    try:
        opens(port)
        env = dict(os.environ, PGPASSWORD="pw")
        sql = lambda text: subprocess.run([binaries / "psql", "-h", "127.0.0.1", "-p", str(port), "-U", "ann", "-d", "postgres", "-Atc", text], env=env, capture_output=True, text=True).stdout.splitlines()
        until(lambda: sql("select 1") == ["1"])
        configure(mc, "postgres", table="ev", format="namespace",
                  connection_string=f"host=127.0.0.1 port={port} user=ann password=pw dbname=postgres sslmode=disable")
        client.create_bucket(Bucket="in-pg")
        until(lambda: not failing(rule, client, "in-pg", "postgres"))
        change(client, "in-pg")
        until(lambda: sorted(sql("select key from ev")) == ["in-pg/dir/ü+1.txt", "in-pg/many times"])
        until(lambda: sql("select value->'Records'->0->'s3'->'object'->>'size' from ev where key = 'in-pg/many times'") == ["2"])
        configure(mc, "postgres", table="log", format="access")
        time.sleep(0.5)
        change(client, "in-pg")
        until(lambda: len(sql("select event_data from log")) == 6)
        entries = [json.loads(line)["Records"][0] for line in sql("select event_data from log")]
        assert told(entries, "in-pg") == WANT
    finally:
        server.end()


def test_mysql_keeps_the_contract(client, mc, home):
    port, data = free_port(), home / "my"
    user = as_user("mysql")
    me = ["--user=mysql"] if user else []
    with (home / "my.log").open("wb") as log:
        data.mkdir()
        if user:
            shutil.chown(data, "mysql", "mysql")
        subprocess.run(["mariadb-install-db", "--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal", "--skip-test-db", *me], check=True, stdout=log, stderr=log)
        server = Process("/usr/sbin/mariadbd", "--no-defaults", f"--datadir={data}", f"--socket={data}/s", f"--port={port}", "--bind-address=127.0.0.1", f"--pid-file={data}/pid", *me, log=log)
    try:
        opens(port)
        sql = lambda text: subprocess.run(["mariadb", "--no-defaults", "-uroot", f"--socket={data}/s", "-NBr", "--default-character-set=utf8mb4", "-e", text], capture_output=True, text=True).stdout.splitlines()
        until(lambda: sql("select 1") == ["1"])
        sql("create database d character set utf8mb4; create user ann@'127.0.0.1' identified by 'pw'; grant all on d.* to ann@'127.0.0.1'; create user ann@localhost identified by 'pw'; grant all on d.* to ann@localhost")
        configure(mc, "mysql", table="ev", format="namespace", dsn_string=f"ann:pw@tcp(127.0.0.1:{port})/d")
        client.create_bucket(Bucket="in-my")
        until(lambda: not failing(rule, client, "in-my", "mysql"))
        change(client, "in-my")
        until(lambda: sorted(sql("select key_name from d.ev")) == ["in-my/dir/ü+1.txt", "in-my/many times"])
        until(lambda: sql("select json_value(value, '$.Records[0].s3.object.size') from d.ev where key_name = 'in-my/many times'") == ["2"])
        configure(mc, "mysql", table="log", format="access")
        time.sleep(0.5)
        change(client, "in-my")
        until(lambda: len(sql("select event_data from d.log")) == 6)
        entries = [json.loads(line)["Records"][0] for line in sql("select event_data from d.log")]
        assert told(entries, "in-my") == WANT
    finally:
        server.end()


def test_mqtt_keeps_the_contract(client, mc, home):
    port = free_port()
    conf = home / "mosquitto.conf"
    (home / "mqpw").write_text("")
    conf.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
    with (home / "mqtt.log").open("wb") as log, (home / "mqtt.out").open("wb") as out:
        server = Process("/usr/sbin/mosquitto", "-c", conf, log=log)
        opens(port)
        reader = Process("mosquitto_sub", "-h", "127.0.0.1", "-p", port, "-t", "events", "-q", "1", log=out)
    try:
        time.sleep(0.3)
        documents = lambda: [json.loads(line) for line in (home / "mqtt.out").read_text().splitlines() if line.endswith("}")]
        contract(client, mc, "mqtt", documents, broker=f"tcp://127.0.0.1:{port}", topic="events", qos=1)
        for qos in [0, 2]:
            configure(mc, "mqtt", qos=qos)
            time.sleep(0.5)
            client.put_object(Bucket="contract-mqtt", Key=f"qos{qos}", Body=b"")
            until(lambda: any(d.get("Key") == f"contract-mqtt/qos{qos}" for d in documents()))
    finally:
        reader.end()
        server.end()


class Subscriber:
    """A subscriber of NATS, over a socket."""

    def __init__(self, port):
        self.got = []
        self.file = socket.create_connection(("127.0.0.1", port)).makefile("rwb")
        self.file.write(b'CONNECT {"verbose":false,"user":"ann","pass":"pw"}\r\nSUB events 1\r\nSUB reply 2\r\nPING\r\n')
        self.file.flush()
        threading.Thread(target=self.run, daemon=True).start()

    def publish(self, subject, body):
        self.file.write(f"PUB {subject} reply {len(body)}\r\n{body}\r\n".encode())
        self.file.flush()

    def run(self):
        for line in self.file:
            if line.startswith(b"PING"):
                self.file.write(b"PONG\r\n")
                self.file.flush()
            elif line.startswith((b"MSG", b"HMSG")):
                words = line.split()
                head = int(words[-2]) if line.startswith(b"HMSG") else 0
                body = self.file.read(int(words[-1]) + 2)[head:]
                self.got.append(json.loads(body))


def test_nats_keeps_the_contract(client, mc, home):
    port = free_port()
    with (home / "nats.log").open("wb") as log:
        server = Process("nats-server", "-a", "127.0.0.1", "-p", port, "-js", "-sd", home / "js", "--user", "ann", "--pass", "pw", log=log)
    try:
        opens(port)
        sub = Subscriber(port)
        contract(client, mc, "nats", lambda: list(sub.got), address=f"127.0.0.1:{port}", subject="events", username="ann", password="pw")
        sub.publish("$JS.API.STREAM.CREATE.all", json.dumps({"name": "all", "subjects": ["events"], "storage": "memory"}))
        until(lambda: any("config" in d for d in sub.got))
        configure(mc, "nats", jetstream="on")
        client.create_bucket(Bucket="stream")
        until(lambda: not failing(rule, client, "stream", "nats"))
        change(client, "stream")
        until(lambda: sum(map(len, told(records(sub.got), "stream").values())) >= 6)
        assert told(records(sub.got), "stream") == WANT
    finally:
        server.end()


def test_amqp_keeps_the_contract(client, mc, home):
    import pika

    port, base = free_port(), home / "rabbit"
    base.mkdir()
    env = dict(os.environ, HOME=str(base), RABBITMQ_BASE=str(base), RABBITMQ_MNESIA_BASE=str(base / "m"), RABBITMQ_LOG_BASE=str(base / "l"),
               RABBITMQ_NODENAME=f"ev{port}@localhost", RABBITMQ_NODE_IP_ADDRESS="127.0.0.1", RABBITMQ_NODE_PORT=str(port),
               RABBITMQ_DIST_PORT=str(free_port()), ERL_EPMD_ADDRESS="127.0.0.1", ERL_EPMD_PORT=str(free_port()),
               RABBITMQ_ENABLED_PLUGINS_FILE=str(base / "none"), RABBITMQ_PID_FILE=str(base / "pid"), RABBITMQ_CONFIG_FILE=str(base / "c"))
    with (home / "rabbit.log").open("wb") as log:
        server = Process("/usr/lib/rabbitmq/bin/rabbitmq-server", log=log, env=env)
    try:
        got = []

        def connect():
            try:
                return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
            except pika.exceptions.AMQPError:
                return None
            except OSError:
                return None

        channel = until(connect, 60).channel()
        channel.exchange_declare("ex", "direct", durable=True)
        queue = channel.queue_declare("").method.queue
        channel.queue_bind(queue, "ex", "events")

        def documents():
            while (found := channel.basic_get(queue, auto_ack=True))[0]:
                assert found[1].content_type == "application/json"
                got.append(json.loads(found[2]))
            return got

        contract(client, mc, "amqp", documents, url=f"amqp://guest:guest@127.0.0.1:{port}/", exchange="ex", exchange_type="direct",
                 routing_key="events", durable="on", mandatory="on", delivery_mode=2)
        configure(mc, "amqp", routing_key="nobody")
        client.create_bucket(Bucket="unroutable")
        until(lambda: "routing key" in str(failing(rule, client, "unroutable", "amqp") or ""))
    finally:
        server.end()


def test_kafka_keeps_the_contract(client, mc, home):
    port = free_port()
    with (home / "kafka.log").open("wb") as log:
        server = Process(f"{os.environ['CLIENT_BIN']}/kafka", port, "events", log=log)
    try:
        text = lambda: (home / "kafka.log").read_text()
        until(lambda: "ready" in text())
        lines = lambda: [line.split("\t") for line in text().splitlines() if "\t" in line]
        documents = lambda: [json.loads(value) for _, value in lines()]
        contract(client, mc, "kafka", documents, brokers=f"127.0.0.1:{port}", topic="events", sasl="on",
                 sasl_mechanism="sha256", sasl_username="ann", sasl_password="pencil")
        assert all(key == json.loads(value).get("Key", key) for key, value in lines())
        configure(mc, "kafka", sasl_mechanism="plain", sasl_username="admin", sasl_password="admin")
        time.sleep(0.5)
        client.put_object(Bucket="contract-kafka", Key="plain", Body=b"")
        until(lambda: any(d.get("Key") == "contract-kafka/plain" for d in documents()))
    finally:
        server.end()


def test_elasticsearch_keeps_the_contract(client, mc):
    web = Web(elastic)
    try:
        configure(mc, "elasticsearch", url=f"http://127.0.0.1:{web.port}", index="idx", format="namespace", username="u", password="p")
        client.create_bucket(Bucket="in-es")
        until(lambda: not failing(rule, client, "in-es", "elasticsearch"))
        change(client, "in-es")
        until(lambda: sorted(web.docs) == ["in-es%2Fdir%2F%C3%BC%2B1.txt", "in-es%2Fmany%20times"])
        until(lambda: web.docs["in-es%2Fmany%20times"]["Records"][0]["s3"]["object"]["size"] == 2)
    finally:
        web.end()


def test_nsq_keeps_the_contract(client, mc):
    nsqd = Nsqd()
    try:
        contract(client, mc, "nsq", lambda: list(nsqd.got), nsqd_address=f"127.0.0.1:{nsqd.port}", topic="events")
    finally:
        nsqd.end()


def test_ashlar_event_commands(client, mc, webhook, machine, home):
    env = dict(os.environ, HOME=str(home), ASHLAR_HOST_e=f"http://{ACCESS}:{SECRET}@127.0.0.1:{machine.port}")

    def ashlar(*args):
        done = subprocess.run([os.environ["ASHLAR_BIN"], "--json", *args], env=env, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, f"{args}\n{done.stdout}\n{done.stderr}"
        return [json.loads(line) for line in done.stdout.splitlines()]

    webhook.status = 200
    arn = "arn:minio:sqs::1:webhook"
    client.create_bucket(Bucket="commands")
    ashlar("event", "add", "e/commands", arn, "--event", "put", "--prefix", "a b/")
    ashlar("event", "add", "e/commands", arn, "--event", "put", "--prefix", "refuse")
    shown = ashlar("event", "ls", "e/commands")
    assert [(s["events"], s["prefix"]) for s in shown] == [(["s3:ObjectCreated:*"], "a b/"), (["s3:ObjectCreated:*"], "refuse")]
    assert any(t["id"] == "1:webhook" and t["online"] for t in ashlar("event", "targets", "e")[0]["targets"])
    with (home / "own-watch.log").open("wb") as log:
        watch = Process(os.environ["ASHLAR_BIN"], "--json", "watch", "e/commands", "--event", "put", log=log, env=env)
    try:
        def seen():
            client.put_object(Bucket="commands", Key="a b/c", Body=b"")
            return "a+b/c" in (home / "own-watch.log").read_text()
        until(seen)
    finally:
        watch.end()
    client.put_object(Bucket="commands", Key="refuse", Body=b"")
    letters = lambda: [l for l in ashlar("event", "dead-letters", "ls", "e", "1:webhook")[0]["letters"] if l["event"]["bucket"] == "commands"]
    one = until(letters)[0]
    assert one["event"]["key"] == "refuse" and "400" in one["why"]
    assert ashlar("event", "dead-letters", "rm", "e", "1:webhook", "--id", one["id"])[0]["count"] == 1
    assert not letters()
    ashlar("event", "rm", "e/commands", arn, "--event", "put", "--prefix", "refuse")
    assert len(ashlar("event", "ls", "e/commands")) == 1
    metrics = ashlar("info", "e", "--metrics-token")
    assert metrics
