"""Sign-in to the web console with a real OpenID Connect provider and a real directory, and access keys.

The console is reached as `localhost` and the provider as `127.0.0.1`, which are two sites for a browser.
"""

import json
import os
import shutil
import ssl
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import boto3
import pytest
from botocore.config import Config

from conftest import ACCESS, REGION, SECRET, Server, one_server
from test_console import HTML, OURS, ask, drive, s3_of, sign_in
from test_ldap import CAROL, LOOKUP, ROOT, Directory
from test_openid import CLIENT_SECRET, Provider, authority, browse, signed

pytestmark = one_server
NAME = "The House"


def cookie_of(headers, name):
    """A cookie that an answer sets, as a browser sends it; `None`: it sets none, or takes it away."""
    for line in headers.get_all("set-cookie") or []:
        pair, _, attributes = line.partition(";")
        if pair.startswith(f"{name}="):
            assert "HttpOnly" in attributes and "SameSite=Strict" in attributes and "Path" not in attributes
            return None if "Max-Age=0" in attributes else pair
    return None


@pytest.fixture(scope="module")
def home():
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    home = Path(tempfile.mkdtemp(prefix="ashlar-console-sign-in-", dir=base))
    yield home
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="module")
def own(home):
    (home / "server").mkdir()
    s = Server(home / "server", env={"ASHLAR_LOG": "debug"})
    try:
        yield s
        assert s.stop() == 0
        log = s.log.read_text()
        for secret in (CLIENT_SECRET, LOOKUP, CAROL):
            assert secret not in log, "a secret is in the log"
    finally:
        if s.process.poll() is None:
            s.process.kill()
            s.process.wait()


@pytest.fixture(scope="module")
def base(own):
    return f"http://localhost:{own.port}"


@pytest.fixture(scope="module")
def admin(own):
    """Calls of the administration API by root, through the console."""
    headers = {**OURS, "Cookie": sign_in(own), "Content-Type": "application/json"}

    def call(method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        status, _, answer = ask(f"{own.endpoint}/console/admin/{path}", method, data, headers)
        assert status == 200, answer
        return json.loads(answer)

    return call


@pytest.fixture(scope="module")
def provider(home, own, base, admin):
    redirects = [f"{base}/oauth_callback", f"{own.endpoint}/oauth_callback"]
    p = Provider(home, "ashlar-console", {"alice": {"policy": "readwrite"}, "mallory": {"policy": "readonly"}, "nobody": {}},
                 clients=[{"id": "ashlar-console", "secret": CLIENT_SECRET, "redirects": redirects, "after": [f"{base}/console/"]}])
    admin("PUT", "idp/openid/house", {"values": {
        "config_url": p.config_url, "client_id": "ashlar-console", "client_secret": CLIENT_SECRET, "scopes": "openid,more",
        "redirect_uri_dynamic": "on", "post_logout_redirect_uri": f"{base}/console/", "display_name": NAME}})
    # For programs only: no browser is sent there.
    admin("PUT", "idp/openid/programs", {"values": {"config_url": p.config_url, "client_id": "programs"}})
    yield p
    p.stop()


@pytest.fixture(scope="module")
def directory(home, admin):
    (home / "directory").mkdir()
    d = Directory(home / "directory")
    admin("PUT", "idp/ldap/_", {"values": {
        "server_addr": f"127.0.0.1:{d.tls}", "tls_ca": Path(d.ca).read_text(), "lookup_bind_dn": f"cn=lookup,{ROOT}",
        "lookup_bind_password": LOOKUP, "user_dn_search_base_dn": f"ou=people,{ROOT};ou=others,{ROOT}",
        "user_dn_search_filter": "(&(objectClass=inetOrgPerson)(uid=%s))"}})
    admin("POST", "policies/attach", {"policies": ["readwrite"], "federated_user": f"uid=carol,ou=people,{ROOT}"})
    yield d
    d.stop()


def test_sign_ins_are_tried_without_a_session(own, base, admin, provider, directory):
    said = drive("try_sign_in.mjs", base, ACCESS, SECRET, NAME, "carol", CAROL, *filter(None, [os.environ.get("ASHLAR_CONSOLE_PICTURES")]))
    assert said["violations"] == []
    # The same without a browser.
    carol = admin("POST", "idp/ldap/_/test", {"username": "carol", "password": CAROL})["identity"]
    assert carol["name"] == f"uid=carol,ou=people,{ROOT}" and carol["policies"] == ["readwrite"] and carol["admitted"]
    wrong = admin("POST", "idp/ldap/_/test", {"username": "carol", "password": "wrong"})
    assert wrong["identity"] is None and wrong["problem"]
    token = admin("POST", "idp/openid/house/test", {"token": "no-token"})
    assert token["identity"] is None and token["problem"]
    assert admin("POST", "idp/openid/programs/test", {"origin": base})["problem"], "no browser is sent there"
    # Who may try sign-ins need not be able to change providers, and the other way round.
    admin("PUT", "users/tester", {"secret": "secret-of-tester"})
    admin("PUT", "policies/tests", {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": ["admin:TestSignIn"]}]})
    headers = {**OURS, "Cookie": sign_in(own, "tester", "secret-of-tester"), "Content-Type": "application/json"}
    order = json.dumps({"username": "carol", "password": CAROL}).encode()
    url = f"{own.endpoint}/console/admin/idp/ldap/_/test"
    assert ask(url, "POST", order, headers)[0] == 403
    admin("POST", "policies/attach", {"policies": ["tests"], "user": "tester"})
    assert ask(url, "POST", order, headers)[0] == 200
    assert ask(f"{own.endpoint}/console/admin/idp/ldap/_", "GET", None, headers)[0] == 403


def begin(own, name="house"):
    """Begins a sign-in; the provider's address, and the cookie that binds it."""
    body = json.dumps({"provider": name}).encode()
    status, headers, answer = ask(f"{own.endpoint}/console/sign-in", "POST", body, OURS)
    assert status == 200, answer
    return json.loads(answer)["url"], cookie_of(headers, "ashlar-console-sign-in")


def returned(own, url, login, monkeypatch):
    """What the provider sends back."""
    monkeypatch.setattr("test_openid.CALLBACK", f"{own.endpoint}/oauth_callback")
    back = browse(url, login)
    return {"code": back["code"], "state": back["state"]}


def complete(own, back, cookie=None, **headers):
    headers = {**OURS, **({"Cookie": cookie} if cookie else {}), **headers}
    return ask(f"{own.endpoint}/console/session", "POST", json.dumps(back).encode(), headers)


def test_people_sign_in_in_a_browser(own, base, provider, directory):
    folder = os.environ.get("ASHLAR_CONSOLE_PICTURES", "")
    said = drive("sign_in.mjs", base, NAME, "carol", CAROL, *([folder] if folder else []))
    assert said["violations"] == []
    # The key that alice made works, and is hers.
    s3 = s3_of(own, said["key"]["access"], said["key"]["secret"])
    s3.create_bucket(Bucket="of-alice")
    s3.delete_bucket(Bucket="of-alice")


def test_options_are_those_that_work_in_a_browser(own, provider, directory):
    _, _, body = ask(f"{own.endpoint}/console/sign-in", headers=OURS)
    assert json.loads(body) == {"openid": [{"name": "house", "display_name": NAME}], "ldap": True, "certificates": False, "certificate_shown": False}
    for name in ["programs", "unknown", "../house", ""]:
        body = json.dumps({"provider": name}).encode()
        status, headers, answer = ask(f"{own.endpoint}/console/sign-in", "POST", body, OURS)
        assert status == 400 and json.loads(answer)["code"] == "SignInRefused", answer
        assert cookie_of(headers, "ashlar-console-sign-in") is None


def test_code_is_exchanged_once_and_only_for_the_browser_that_began(own, provider, monkeypatch):
    url, cookie = begin(own)
    back = returned(own, url, "alice", monkeypatch)
    _, other = begin(own)
    # Nobody's browser, another one that began too, and another site: refused, and the code is still good.
    for headers in [{}, {"Cookie": other}, {"Cookie": cookie, "Origin": "https://evil.example"},
                    {"Cookie": cookie, "Sec-Fetch-Site": "cross-site"}]:
        status, got, answer = complete(own, back, **headers)
        assert status == 403, answer
        assert cookie_of(got, "ashlar-console") is None
    # Without the header of the console it is no call at all.
    assert ask(f"{own.endpoint}/console/session", "POST", json.dumps(back).encode(), {"Cookie": cookie})[0] != 200
    # A state of somebody else with one's own code, and one that was never sealed here.
    forged = {"code": back["code"], "state": "A" * len(back["state"])}
    assert complete(own, forged, cookie)[0] == 403
    status, got, answer = complete(own, back, cookie)
    assert status == 200, answer
    about = json.loads(answer)
    assert (about["user"], about["federated"], about["signed_in_with"]) == ("openid/house/alice", True, "")
    session = cookie_of(got, "ashlar-console")
    assert session and cookie_of(got, "ashlar-console-sign-in") is None
    # Replayed, with the cookie that a browser would not have any more: the provider takes a code once.
    status, got, _ = complete(own, back, cookie)
    assert status == 403 and cookie_of(got, "ashlar-console") is None
    # Nobody gets a session that may do nothing.
    url, cookie = begin(own)
    status, _, answer = complete(own, returned(own, url, "nobody", monkeypatch), cookie)
    assert status == 403 and "openid/house/nobody" in json.loads(answer)["error"]


def test_session_of_provider_is_revoked(own, provider, admin, monkeypatch):
    def signed_in():
        url, cookie = begin(own)
        _, got, _ = complete(own, returned(own, url, "alice", monkeypatch), cookie)
        return {**OURS, "Cookie": cookie_of(got, "ashlar-console")}

    session = signed_in()
    buckets = f"{own.endpoint}/console/s3/"
    assert ask(buckets, headers=session)[0] == 200
    admin("POST", "users/" + urllib.parse.quote("openid/house/alice", safe="") + "/revoke")
    status, headers, body = ask(buckets, headers=session)
    assert status == 401 and json.loads(body)["code"] == "SessionEnded" and "Max-Age=0" in headers["set-cookie"]
    # A disabled provider ends the sessions of all its users.
    session = signed_in()
    assert ask(buckets, headers=session)[0] == 200
    admin("POST", "idp/openid/house/disable")
    try:
        assert ask(buckets, headers=session)[0] == 401
    finally:
        admin("POST", "idp/openid/house/enable")


def test_return_leads_to_the_console_and_nowhere_else(own, provider):
    for query in ["code=a&state=b", "state=https://evil.example&code=//evil.example", "error=x&state=b&next=https://evil.example"]:
        status, headers, _ = ask(f"{own.endpoint}/oauth_callback?{query}", headers=HTML)
        assert (status, headers["location"]) == (302, f"console/?{query}")
        status, headers, _ = ask(f"{own.endpoint}/console/oauth_callback?{query}", headers=HTML)
        assert (status, headers["location"]) == (302, f"./?{query}")
    # Not for programs, and not for paths that only look like it.
    assert ask(f"{own.endpoint}/oauth_callback?code=a&state=b")[0] in (400, 403)
    for path in ["//evil.example/oauth_callback?state=b", "/x/oauth_callback?state=b", "/oauth_callback/?state=b"]:
        assert "location" not in ask(own.endpoint + path, headers=HTML)[1]


def test_directory_session_and_its_refusals(own, directory, admin):
    def login(name, password):
        return complete(own, {"ldap_user": name, "ldap_password": password})

    status, headers, body = login("carol", CAROL)
    assert status == 200, body
    assert json.loads(body)["user"] == f"uid=carol,ou=people,{ROOT}"
    session = {**OURS, "Cookie": cookie_of(headers, "ashlar-console")}
    assert ask(f"{own.endpoint}/console/s3/", headers=session)[0] == 200
    # An unknown name and a wrong password look alike.
    answers = [login(*pair)[::2] for pair in [("carol", "wrong"), ("unknown", "wrong"), ("carol*", CAROL)]]
    assert {(s, b) for s, b in answers} == {(401, answers[0][1])}, answers
    admin("POST", "users/" + urllib.parse.quote(f"uid=carol,ou=people,{ROOT}", safe="") + "/revoke")
    assert ask(f"{own.endpoint}/console/s3/", headers=session)[0] == 401


def test_people_make_access_keys_in_a_browser(own, admin):
    admin("PUT", "users/program", {"secret": "secret-of-the-program"})
    admin("POST", "policies/attach", {"policies": ["readwrite"], "user": "program"})
    made = drive("keys.mjs", own.endpoint, ACCESS, SECRET, "program")
    refused = boto3.exceptions.botocore.exceptions.ClientError
    for access, secret, works in [
        (made["own"]["access"], made["own"]["secret"], False), (made["own"]["access"], made["own"]["rotated"], True),
        (made["other"]["access"], made["other"]["secret"], True), (made["deleted"]["access"], made["deleted"]["secret"], False),
    ]:
        s3 = boto3.client("s3", endpoint_url=own.endpoint, aws_access_key_id=access, aws_secret_access_key=secret,
                          region_name=REGION, config=Config(retries={"max_attempts": 1}))
        if works:
            s3.list_buckets()
        else:
            with pytest.raises(refused):
                s3.list_buckets()
    with pytest.raises(refused):
        s3_of(own, made["other"]["access"], made["other"]["secret"]).create_bucket(Bucket="not-allowed")
    keys = {k["access_key"]: k for k in admin("GET", "keys?all=true")["keys"]}
    assert keys[made["own"]["access"]]["name"] == "backup" and keys[made["own"]["access"]]["expires_ms"]
    assert keys[made["other"]["access"]]["user"] == "program" and keys[made["other"]["access"]]["policy"]
    assert made["deleted"]["access"] not in keys


def test_key_is_made_only_after_the_secret_was_confirmed(own, admin):
    admin("PUT", "users/careful", {"secret": "secret-of-the-careful"})
    admin("POST", "policies/attach", {"policies": ["readwrite"], "user": "careful"})
    cookie = sign_in(own, "careful", "secret-of-the-careful")
    json_type = {"Content-Type": "application/json"}

    def create(cookies):
        return ask(f"{own.endpoint}/console/admin/keys", "POST", b"{}", {**OURS, **json_type, "Cookie": cookies})

    def confirm(secret, cookies):
        body = json.dumps({"secret_key": secret}).encode()
        return ask(f"{own.endpoint}/console/confirm", "POST", body, {**OURS, "Cookie": cookies})

    assert create(cookie)[0] == 403
    status, headers, _ = confirm("wrong-secret-key", cookie)
    assert status == 401 and cookie_of(headers, "ashlar-console-confirmed") is None
    assert confirm("secret-of-the-careful", "")[0] == 401
    status, headers, _ = confirm("secret-of-the-careful", cookie)
    confirmed = cookie_of(headers, "ashlar-console-confirmed")
    assert status == 200 and confirmed
    # Of another session, even of the same user, it is worth nothing.
    again = sign_in(own, "careful", "secret-of-the-careful")
    assert create(f"{again}; {confirmed}")[0] == 403
    assert create(confirmed)[0] == 401
    status, _, body = create(f"{cookie}; {confirmed}")
    assert status == 200 and json.loads(body)["user"] == "careful"
    # It permits nothing beyond what the user may: a key of another user.
    headers = {**OURS, **json_type, "Cookie": f"{cookie}; {confirmed}"}
    assert ask(f"{own.endpoint}/console/admin/keys", "POST", b'{"user": "program"}', headers)[0] == 403
    assert ask(f"{own.endpoint}/console/admin/users", headers=headers)[0] == 403


def test_what_cannot_be_had_back_needs_the_secret_again(own, admin):
    s3 = s3_of(own)
    admin("PUT", "users/leaver", {"secret": "secret-of-the-leaver"})
    for bucket in ["emptied", "by-hand"]:
        s3.create_bucket(Bucket=bucket)
    drive_path = admin("GET", "info")["drives"][0]["path"]
    cookie = sign_in(own)
    order = json.dumps({"drive": drive_path}).encode()

    def send(method, path, body, cookies, more=()):
        headers = {**OURS, "Content-Type": "application/json", "Cookie": cookies, **dict(more)}
        status, _, answer = ask(f"{own.endpoint}/console/{path}", method, body, headers)
        return status, answer

    # However it is written: the acts are found by what the server takes the call for.
    for call in [
        ("DELETE", "admin/users/leaver", b""), ("DELETE", "admin/%75sers/leaver", b""), ("DELETE", "admin/users%2fleaver", b""),
        ("DELETE", "admin/users/leaver?x=1", b""), ("DELETE", "s3/emptied", b""), ("DELETE", "s3/emptied/", b""),
        ("DELETE", "s3/%65mptied%2F", b""), ("DELETE", "s3/emptied?x-id=DeleteBucket", b""), ("POST", "admin/drives/replace", order),
        ("POST", "admin/%64rives%2Freplace", order), ("POST", "admin/cluster/remove", b'{"node": 1}'),
    ]:
        status, answer = send(*call, cookie)
        assert status == 403 and b"ConfirmFirst" in answer, (call, answer)
    for more in [{"x-minio-force-delete": "true"}, {"X-HTTP-Method-Override": "PUT"}]:
        assert send("DELETE", "s3/emptied", b"", cookie, more.items())[0] == 403
    assert send("DELETE", "s3/?x-id=DeleteBucket", b"", cookie, {"Host": "emptied.s3.test"}.items())[0] == 403
    # These lead nowhere.
    for method, path in [
        ("DELETE", "admin//users/leaver"), ("DELETE", "admin/Users/leaver"), ("delete", "admin/users/leaver"), ("DELETE", "s3//emptied"),
        ("DELETE", "s3/minio/admin/v3/remove-user?accessKey=leaver"), ("DELETE", "admin/../../../minio/admin/v3/remove-user?accessKey=leaver"),
        ("DELETE", "../minio/admin/v3/remove-user?accessKey=leaver"), ("POST", "s3/emptied"), ("DELETE", "s3/emptied?force"),
    ]:
        status, answer = send(method, path, b"", cookie)
        assert status >= 400, (method, path, status, answer)
    s3.head_bucket(Bucket="emptied")
    assert admin("GET", "users/leaver")["enabled"] is True
    # What can be undone, and what is inside a bucket, does not ask.
    s3.put_object(Bucket="emptied", Key="k", Body=b"x")
    assert send("DELETE", "s3/emptied/k", b"", cookie)[0] == 204
    assert send("POST", "admin/users/leaver/disable", b"", cookie)[0] == 200
    body = json.dumps({"secret_key": SECRET}).encode()
    status, headers, _ = ask(f"{own.endpoint}/console/confirm", "POST", body, {**OURS, "Cookie": cookie})
    confirmed = cookie_of(headers, "ashlar-console-confirmed")
    # Not with the confirmation of another session.
    assert send("DELETE", "s3/emptied", b"", f"{sign_in(own)}; {confirmed}")[0] == 403
    assert send("DELETE", "s3/emptied", b"", f"{cookie}; {confirmed}")[0] == 204
    seen = drive("destroy.mjs", own.endpoint, ACCESS, SECRET, "leaver", "by-hand")
    assert seen["asked"] == 1
    assert "leaver" not in [u["name"] for u in admin("GET", "users")["users"]]
    assert "by-hand" not in [b["Name"] for b in s3.list_buckets()["Buckets"]]


def test_somebody_without_a_secret_destroys_after_a_new_sign_in(own, directory):
    s3_of(own).create_bucket(Bucket="of-carol")

    def signed_in():
        status, headers, body = complete(own, {"ldap_user": "carol", "ldap_password": CAROL})
        assert status == 200, body
        return cookie_of(headers, "ashlar-console"), cookie_of(headers, "ashlar-console-confirmed")

    def delete(*cookies):
        status, _, answer = ask(f"{own.endpoint}/console/s3/of-carol", "DELETE", headers={**OURS, "Cookie": "; ".join(cookies)})
        return status, answer

    # The browser forgets after five minutes that the sign-in is new; the server looks at the time too.
    session, new = signed_in()
    status, answer = delete(session)
    assert status == 403 and json.loads(answer)["code"] == "SignInAgain"
    # Not with that of another sign-in, not with one that somebody made up.
    assert delete(session, signed_in()[1])[0] == 403
    assert delete(session, new[:-4] + "AAAA")[0] == 403
    # It makes nothing else possible: there is no key that it could sign with.
    assert ask(f"{own.endpoint}/console/admin/users", headers={**OURS, "Cookie": f"{session}; {new}"})[0] == 403
    assert delete(session, new)[0] == 204


def test_people_sign_in_with_certificates(home, tmp_path):
    """A certificate is shown by the connection; the page asks for a session, and no other site can."""
    ca, stranger = authority(tmp_path / "ca"), authority(tmp_path / "stranger")
    certs = tmp_path / "certs"
    (certs / "CAs").mkdir(parents=True)
    shutil.copy(f"{ca}.crt", certs / "CAs" / "ca.crt")
    crt, key = signed(tmp_path, ca, "server", "serverAuth")
    (certs / "public.crt").write_text(crt.read_text() + Path(f"{ca}.crt").read_text())
    shutil.copy(key, certs / "private.key")
    (home / "tls").mkdir()
    s = Server(home / "tls", certs=certs)
    try:
        def call(path, method="GET", body=None, pair=None, **headers):
            context = ssl.create_default_context(cafile=f"{ca}.crt")
            if pair:
                context.load_cert_chain(*pair)
            request = urllib.request.Request(f"{s.endpoint}/console/{path}", None if body is None else json.dumps(body).encode(), {**OURS, **headers}, method=method)
            if headers.get("X-Ashlar-Console") == "":
                request.remove_header("X-ashlar-console")
            try:
                with urllib.request.urlopen(request, timeout=30, context=context) as answer:
                    status, got, text = answer.status, answer.headers, answer.read()
            except urllib.error.HTTPError as e:
                status, got, text = e.code, e.headers, e.read()
            return status, got, json.loads(text) if text.startswith(b"{") else text

        good, wanted = signed(tmp_path, ca, "readonly", "clientAuth"), {"certificate": True}
        # While it is off, nobody is asked for a certificate, and none is taken.
        assert call("sign-in", pair=good)[2] == {"openid": [], "ldap": False, "certificates": False, "certificate_shown": False}
        assert call("session", "POST", wanted, good)[0] == 403
        _, headers, _ = call("session", "POST", {"access_key": ACCESS, "secret_key": SECRET})
        root = {"Cookie": "; ".join(c.split(";")[0] for c in headers.get_all("set-cookie")), "Content-Type": "application/json"}
        assert call("admin/idp/tls/_", "PUT", {"values": {"enable": "on"}}, **root)[0] == 200
        assert call("s3/there", "PUT", **root)[0] == 200
        assert call("sign-in", pair=good)[2]["certificate_shown"] and not call("sign-in")[2]["certificate_shown"]

        # Without a certificate, with one that is not for this, and where it is not the console's page that asks.
        for pair, headers in [
            (None, {}), (signed(tmp_path, stranger, "readonly", "clientAuth"), {}), (signed(tmp_path, ca, "readonly", "serverAuth"), {}),
            (signed(tmp_path, ca, "no-such-policy", "clientAuth"), {}), (good, {"X-Ashlar-Console": ""}),
            (good, {"Origin": "https://evil.example"}), (good, {"Sec-Fetch-Site": "cross-site"}),
        ]:
            status, got, answer = call("session", "POST", wanted, pair, **headers)
            assert status == 403, (headers, answer)
            assert cookie_of(got, "ashlar-console") is None
        assert call("session", "POST", {"certificate": False}, good)[0] == 403
        assert call("session", "POST", {"certificate": True, "code": "x"}, good)[0] == 400
        status, _, answer = call("session", "POST", wanted, signed(tmp_path, ca, "no-such-policy", "clientAuth"))
        assert "certificate/no-such-policy" in answer["error"], answer

        status, headers, about = call("session", "POST", wanted, good)
        assert status == 200, about
        assert (about["user"], about["policies"], about["federated"], about["signed_in_with"]) == ("certificate/readonly", ["readonly"], True, "")
        session = {"Cookie": cookie_of(headers, "ashlar-console")}
        # The session is the cookie; the connection needs no certificate any more. It may what the policy allows.
        assert call("s3/there?location", **session)[0] == 200
        assert call("s3/new-bucket", "PUT", **session)[0] == 403
        # It lasts a working day, and ends with the certificate at the latest.
        assert 0 < about["expires_ms"] - about["now_ms"] <= 8 * 3_600_000

        other = signed(tmp_path, ca, "nobody", "clientAuth")
        folder = os.environ.get("ASHLAR_CONSOLE_PICTURES", "")
        assert drive("certificate.mjs", s.endpoint, *good, *other, *([folder] if folder else []))["violations"] == []
        # Who turns certificates off ends their sessions.
        assert call("s3/there?location", **session)[0] == 200
        assert call("admin/idp/tls/_/disable", "POST", **root)[0] == 200
        assert call("s3/there?location", **session)[0] == 401
        assert s.stop() == 0
    finally:
        if s.process.poll() is None:
            s.process.kill()
