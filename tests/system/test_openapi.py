"""The administration API against its own description: real answers validate, and no request that the
description allows makes the server fail.

A server of this file's own, with administration on a port of its own too.
"""

import json
import os
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

import jsonschema
import pytest
import requests
import schemathesis
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import HealthCheck, Phase, settings

from conftest import ACCESS, REGION, SECRET, Server, free_port
from test_identities import allow

BIN = os.environ["ASHLAR_BIN"]
BASE = "/ashlar/api/v1"
# Operations that end or hold up the server that is being asked.
LEFT_OUT = {"ServiceStop", "ServiceRestart", "HealStart", "DriveScrub"}
DOCUMENT = json.loads(subprocess.run([BIN, "admin", "api-document"], capture_output=True, check=True).stdout)


@pytest.fixture(scope="module")
def own():
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    home = Path(tempfile.mkdtemp(prefix="ashlar-openapi-", dir=base))
    port = free_port()
    os.environ["ASHLAR_ADMIN_ADDRESS"] = f"127.0.0.1:{port}"
    try:
        s = Server(home)
    finally:
        os.environ.pop("ASHLAR_ADMIN_ADDRESS")
    s.admin = f"http://127.0.0.1:{port}"
    try:
        yield s
        assert s.stop() == 0
    finally:
        if s.process.poll() is None:
            s.process.kill()
            s.process.wait()
        shutil.rmtree(home, ignore_errors=True)


def signed(method, url, data=None, headers=None):
    request = AWSRequest(method, url, data=data, headers=headers or {})
    S3SigV4Auth(Credentials(ACCESS, SECRET), "s3", REGION).add_auth(request)
    return dict(request.headers)


def ask(base, method, path, body=None, sign=True):
    data = None if body is None else json.dumps(body).encode()
    url = base + path
    headers = signed(method, url, data) if sign else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method), timeout=30) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        text = error.read()
        return error.code, json.loads(text) if text.startswith(b"{") else text.decode()


def check(operation, status, answer):
    """Validates an answer against the schema that the description gives for it."""
    schema = operation["responses"][str(status)]["content"]["application/json"]["schema"]
    whole = {**schema, "components": DOCUMENT["components"]}
    jsonschema.Draft202012Validator(whole).validate(answer)
    # What is not described is not answered either.
    name = schema.get("$ref", "").rsplit("/", 1)[-1]
    described = DOCUMENT["components"]["schemas"].get(name, {}).get("properties")
    if described and "allOf" not in DOCUMENT["components"]["schemas"][name] and name != "RequestRecord":
        assert set(answer) <= set(described), (name, set(answer) - set(described))


def operations():
    return {o["operationId"]: (m.upper(), p, o) for p, item in DOCUMENT["paths"].items() for m, o in item.items()}


def test_every_answer_fits_its_description(own):
    status, made = ask(own.endpoint, "POST", f"{BASE}/keys", {"name": "k"})
    assert status == 200 and made["secret"]
    key = made["access_key"]
    ask(own.endpoint, "PUT", "/a-bucket")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{own.endpoint}/a-bucket/k")
    request_id = refused.value.headers["x-amz-request-id"]
    # In an order in which each finds what it needs.
    steps = [
        ("UserPut", "ann", {}), ("UserPut", "bob", {"secret": "a-secret-of-bob"}), ("UserList", "", None),
        ("UserGet", "ann", None), ("UserDisable", "ann", None), ("UserEnable", "ann", None), ("UserRevoke", "ann", None),
        ("GroupMembers", "team", {"add": ["ann"]}), ("GroupList", "", None), ("GroupGet", "team", None),
        ("GroupDisable", "team", None), ("GroupEnable", "team", None),
        ("PolicyPut", "p", allow(["s3:GetObject"])), ("PolicyList", "", None), ("PolicyGet", "p", None),
        ("PolicyAttach", "", {"policies": ["p"], "user": "ann"}), ("Simulate", "", {"user": "ann", "action": "s3:GetObject", "resource": "b/k"}),
        ("PolicyDetach", "", {"policies": ["p"], "user": "ann"}),
        ("KeyCreate", "", {"name": "second"}), ("KeyList", "", None), ("KeyGet", key, None),
        ("KeyEdit", key, {"description": "d"}), ("KeyRemove", key, None), ("PolicyRemove", "p", None),
        ("GroupMembers", "team", {"remove": ["ann"]}), ("GroupRemove", "team", None), ("UserRemove", "ann", None),
        ("Info", "", None), ("HealStatus", "", None), ("Drives", "", None), ("MetricsToken", "", None),
        ("HealStart", "", {}), ("QuotaPut", "a-bucket", {"quota": 1 << 30}), ("QuotaGet", "a-bucket", None),
        ("QuotaRemove", "a-bucket", None), ("Why", request_id, None), ("Document", "", None),
    ]
    known = operations()
    for name, subject, body in steps:
        method, path, operation = known[name]
        status, answer = ask(own.endpoint, method, BASE + path.replace("{name}", subject), body)
        assert 200 <= status < 300, (name, status, answer)
        check(operation, status, answer)
    drives = ask(own.endpoint, "GET", f"{BASE}/drives")[1]["drives"]
    for name in ("DriveOffline", "DriveOnline"):
        method, path, operation = known[name]
        status, answer = ask(own.endpoint, method, BASE + path, {"drive": drives[0]["id"]})
        assert status == 200, answer
        check(operation, status, answer)
    for name, subject, body in [
        ("UserGet", "nobody", None), ("PolicyAttach", "", {"policies": []}), ("KeyGet", "none", None),
        ("Why", "0000000000000000", None), ("DriveReplace", "", {}), ("UserPut", "x", {"unknown": 1}),
    ]:
        method, path, operation = known[name]
        status, answer = ask(own.endpoint, method, BASE + path.replace("{name}", subject), body)
        assert 400 <= status < 500, (name, status, answer)
        check(operation, status, answer)
    asked = {name for name, _, _ in steps} | {"DriveOffline", "DriveOnline", "DriveReplace", "DriveScrub"}
    assert set(known) - LEFT_OUT <= asked, set(known) - asked


def test_a_port_of_its_own(own):
    status, answer = ask(own.admin, "GET", "/api/v1/info")
    assert status == 200 and answer["drives"]
    status, document = ask(own.admin, "GET", "/api/v1/openapi.json")
    assert status == 200 and document["servers"] == [{"url": "/api/v1"}]
    assert document["paths"] == DOCUMENT["paths"]
    # Nothing without a signature, nothing else.
    assert ask(own.admin, "GET", "/api/v1/openapi.json", sign=False)[0] == 403
    assert ask(own.admin, "GET", "/api/v1/info", sign=False)[0] == 403
    assert ask(own.admin, "GET", "/")[0] == 404
    assert ask(own.admin, "GET", "/a-bucket/k")[0] == 404
    assert urllib.request.urlopen(f"{own.admin}/ashlar/health/ready").status == 200
    # On the S3 port it is below the reserved name; a bucket may be called api, none ashlar or minio.
    assert ask(own.endpoint, "GET", "/ashlar/admin/v1/drives")[0] == 200
    assert ask(own.endpoint, "PUT", "/api-1")[0] == 200
    for name in ("ashlar", "minio"):
        assert ask(own.endpoint, "PUT", f"/{name}")[0] == 409


SCHEMA = schemathesis.openapi.from_dict(
    {**DOCUMENT, "servers": [{"url": BASE}]}
).exclude(operation_id=sorted(LEFT_OUT))


@SCHEMA.parametrize()
@settings(
    max_examples=8, derandomize=True, deadline=None, phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_no_request_makes_the_server_fail(case, own):
    case.headers.pop("Authorization", None)
    prepared = requests.Request(**{
        k: v for k, v in case.as_transport_kwargs(base_url=own.endpoint + BASE).items()
        if k in ("method", "url", "headers", "params", "json", "data")
    }).prepare()
    body = prepared.body.encode() if isinstance(prepared.body, str) else prepared.body
    kept = {k: v for k, v in prepared.headers.items() if k.lower() in ("content-type",)}
    headers = signed(prepared.method, prepared.url, body, kept)
    prepared.headers.update(headers)
    with requests.Session() as session:
        answer = session.send(prepared, timeout=30)
    assert answer.status_code < 500 or answer.status_code in (501, 503), (answer.status_code, answer.text)
    method, path = case.method.lower(), case.path
    operation = DOCUMENT["paths"][path][method]
    assert str(answer.status_code) in operation["responses"], (answer.status_code, answer.text)
    check(operation, answer.status_code, answer.json())
