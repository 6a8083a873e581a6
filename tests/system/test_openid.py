"""Users of a real OpenID Connect provider, and of client certificates, get temporary credentials.

The provider is npm's oidc-provider (OpenID Certified), started here on loopback; tests sign in as a
browser would. This file starts its own server, because it configures and removes providers. With
ASHLAR_TEST_CLUSTER it is a cluster, and a sign-in begins at one node and is completed at another.
"""

import base64
import hashlib
import http.cookiejar
import json
import os
import secrets
import shutil
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ET
from pathlib import Path

import boto3
import botocore.session
import pytest
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import ClientError

from conftest import ACCESS, REGION, SECRET, free_port, one_server, serve

HERE = Path(__file__).parent
BIN = os.environ["ASHLAR_BIN"]
# Nothing listens there: the tests read the redirect and do not follow it.
CALLBACK = "http://127.0.0.1:9/callback"
CLIENT_SECRET = "planted-secret-of-the-client"
NS = "{https://sts.amazonaws.com/doc/2011-06-15/}"


def new_key(kid):
    """A private RSA key as a JWK."""
    code = ("const c=require('crypto');const k=c.generateKeyPairSync('rsa',{modulusLength:2048})"
            ".privateKey.export({format:'jwk'});console.log(JSON.stringify(k))")
    made = subprocess.run(["node", "-e", code], capture_output=True, text=True, check=True)
    return {**json.loads(made.stdout), "kid": kid, "use": "sig", "alg": "RS256"}


class Provider:
    """A running provider; `plan` is what provider.mjs reads."""

    def __init__(self, home, client_id, accounts, **more):
        self.home, self.port, self.process = Path(home), free_port(), None
        self.client_id = client_id
        self.plan = {
            "port": self.port, "keys": [new_key("one")], "accounts": accounts,
            "clients": [{"id": client_id, "secret": CLIENT_SECRET, "redirects": [CALLBACK]}], **more,
        }
        self.issuer = f"http://127.0.0.1:{self.port}"
        self.config_url = f"{self.issuer}/.well-known/openid-configuration"
        self.start()

    def start(self):
        plan = self.home / f"plan-{self.port}.json"
        plan.write_text(json.dumps(self.plan))
        # Where `run` installed it; modules are found beside the script.
        module = self.home / "provider.mjs"
        if not module.exists():
            shutil.copy(HERE / "oidc" / "provider.mjs", module)
            (self.home / "node_modules").symlink_to(Path(os.environ["CLIENT_OIDC"]) / "node_modules")
        self.process = subprocess.Popen(
            ["node", module, plan], stdout=(self.home / f"provider-{self.port}.log").open("ab"),
            stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 30
        while True:
            try:
                return urllib.request.urlopen(self.config_url, timeout=5).read()
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError((self.home / f"provider-{self.port}.log").read_text())
                time.sleep(0.1)

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def tokens(self, login):
        """Signs in and exchanges the code: the provider's answer."""
        verifier = secrets.token_urlsafe(48)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=")
        query = urllib.parse.urlencode({
            "response_type": "code", "client_id": self.client_id, "redirect_uri": CALLBACK,
            "scope": "openid more", "code_challenge": challenge.decode(), "code_challenge_method": "S256",
            "state": "s", "nonce": "n",
        })
        back = browse(f"{self.issuer}/auth?{query}", login)
        form = urllib.parse.urlencode({
            "grant_type": "authorization_code", "code": back["code"], "redirect_uri": CALLBACK,
            "code_verifier": verifier,
        })
        basic = base64.b64encode(f"{self.client_id}:{CLIENT_SECRET}".encode()).decode()
        ask = urllib.request.Request(
            f"{self.issuer}/token", form.encode(), {"Authorization": f"Basic {basic}"})
        return json.load(urllib.request.urlopen(ask, timeout=10))

    def token(self, login):
        return self.tokens(login)["id_token"]


class UntilCallback(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, request, fp, code, msg, headers, url):
        if url.startswith(CALLBACK):
            self.back = url
            return None
        return super().redirect_request(request, fp, code, msg, headers, url)


def browse(url, login):
    """Signs in as a browser would; the parameters that the browser would bring back."""
    stop = UntilCallback()
    opener = urllib.request.build_opener(
        urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()), stop)
    page = opener.open(url, timeout=10)
    form = urllib.parse.urlencode({"prompt": "login", "login": login, "password": "any"}).encode()
    try:
        opener.open(urllib.request.Request(page.url, form), timeout=10)
    except urllib.error.HTTPError as e:
        assert e.code in (302, 303), e.read()
    return dict(urllib.parse.parse_qsl(urllib.parse.urlparse(stop.back).query))


@pytest.fixture(scope="module")
def home():
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    path = Path(tempfile.mkdtemp(prefix="ashlar-openid-", dir=base))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def claims(home):
    """Policies come from a claim."""
    p = Provider(home, "ashlar-claims", {
        "alice": {"policy": "readwrite", "groups": ["staff"], "department": "red"},
        "bob": {"policy": ["readonly", "none-such"], "department": "blue"},
        "carol": {"department": "red"},
    })
    yield p
    p.stop()


@pytest.fixture(scope="module")
def roles(home):
    """Policies come from the provider; further claims from its userinfo."""
    p = Provider(home, "ashlar-roles", {"dave": {"policy": "consoleAdmin", "department": "red"}}, hidden=True)
    yield p
    p.stop()


@pytest.fixture(scope="module")
def own(home):
    changed = {"ASHLAR_LOG": "trace", "ASHLAR_OUTBOUND_ALLOW": "loopback"}
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    s = serve(home)
    try:
        yield s
        nodes = s.cluster.nodes if hasattr(s, "cluster") else [s]
        # The folders of a cluster go with it.
        logs = [open(node.log) for node in nodes]
        assert s.stop() == 0
        for log in logs:
            text = log.read()
            assert CLIENT_SECRET not in text
            for token in SEEN:
                assert token not in text, "a token in the log"
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
        if s.process.poll() is None:
            s.process.kill()
            s.process.wait()


# Tokens that were sent to the server: none may be in its log.
SEEN = []


@pytest.fixture
def ashlar(own, tmp_path_factory):
    config = tmp_path_factory.mktemp("config")

    def go(*args, check=True):
        env = dict(os.environ, ASHLAR_CONFIG=str(config / "config.toml"), HOME=str(config), NO_COLOR="1")
        done = subprocess.run(
            [BIN, *map(str, args), "--json"], env=env, capture_output=True, text=True, timeout=60,
            stdin=subprocess.DEVNULL)
        assert (done.returncode == 0) == check, (args, done.stdout, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()] if check else done.stdout + done.stderr

    go("alias", "set", "it", own.endpoint, ACCESS, SECRET)
    return go


@pytest.fixture
def both(ashlar, claims, roles, tmp_path):
    """Both providers are configured."""
    secret = tmp_path / "secret"
    secret.write_text(CLIENT_SECRET + "\n")
    have = {row["name"] for row in ashlar("admin", "idp", "openid", "ls", "it")}
    for name, p, more in [
        ("claims", claims, [f"redirect_uri={CALLBACK}", "scopes=openid,more", "display_name=The House"]),
        ("roles", roles, ["role_policy=readonly"]),
    ]:
        if name not in have:
            ashlar("admin", "idp", "openid", "add", "it", name, f"config_url={p.config_url}",
                   f"client_id={p.client_id}", f"client_secret=@{secret}", *more)


def sts(server):
    return boto3.client("sts", endpoint_url=server.endpoint, region_name=REGION,
                        config=Config(signature_version=UNSIGNED, retries={"max_attempts": 0}))


def assume(server, token, role="arn:aws:iam::000000000000:role/any", **more):
    SEEN.append(token)
    answer = sts(server).assume_role_with_web_identity(
        RoleArn=role, RoleSessionName="test", WebIdentityToken=token, DurationSeconds=900, **more)
    return answer


def s3_of(server, made):
    return boto3.client(
        "s3", endpoint_url=server.endpoint, region_name=REGION, aws_access_key_id=made["AccessKeyId"],
        aws_secret_access_key=made["SecretAccessKey"], aws_session_token=made["SessionToken"],
        config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 0}))


def root_s3(server):
    return s3_of(server, {"AccessKeyId": ACCESS, "SecretAccessKey": SECRET, "SessionToken": None})


def fails(code, call, **args):
    with pytest.raises(ClientError) as e:
        call(**args)
    assert e.value.response["Error"]["Code"] == code, e.value.response
    return e.value.response


def test_claims_name_policies(own, both, claims):
    alice = assume(own, claims.token("alice"))
    assert alice["SubjectFromWebIdentityToken"] == "alice"
    assert (alice["Provider"], alice["Audience"]) == (claims.issuer, "ashlar-claims")
    s3 = s3_of(own, alice["Credentials"])
    s3.create_bucket(Bucket="of-alice")
    s3.put_object(Bucket="of-alice", Key="k", Body=b"hello")
    reader = s3_of(own, assume(own, claims.token("bob"))["Credentials"])
    assert reader.get_object(Bucket="of-alice", Key="k")["Body"].read() == b"hello"
    fails("AccessDenied", reader.put_object, Bucket="of-alice", Key="k", Body=b"x")
    # A session is bounded further, and nobody gets credentials that may nothing.
    bounded = json.dumps({"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::*"}]})
    bounded = s3_of(own, assume(own, claims.token("alice"), Policy=bounded)["Credentials"])
    assert [o["Key"] for o in bounded.list_objects_v2(Bucket="of-alice")["Contents"]] == ["k"]
    fails("AccessDenied", bounded.get_object, Bucket="of-alice", Key="k")
    with pytest.raises(ClientError) as e:
        assume(own, claims.token("carol"))
    assert e.value.response["Error"]["Code"] == "AccessDenied"


def test_policies_attached_here_and_claims_in_conditions(own, both, claims, ashlar, tmp_path):
    policy = tmp_path / "p.json"
    policy.write_text(json.dumps({"Version": "2012-10-17", "Statement": [{
        "Effect": "Allow", "Action": "s3:*", "Resource": "arn:aws:s3:::*",
        "Condition": {"StringEquals": {"jwt:department": "red"}}}]}))
    ashlar("admin", "policy", "create", "it", "red", policy)
    ashlar("admin", "policy", "attach", "it", "red", "--federated-user", "openid/claims/carol")
    carol = s3_of(own, assume(own, claims.token("carol"))["Credentials"])
    carol.create_bucket(Bucket="of-carol")
    ashlar("admin", "policy", "detach", "it", "red", "--federated-user", "openid/claims/carol")
    fails("AccessDenied", carol.list_objects_v2, Bucket="of-carol")
    # By a group of the provider; bob is in none, and of another department.
    ashlar("admin", "policy", "attach", "it", "red", "--federated-group", "openid/claims/staff")
    alice = s3_of(own, assume(own, claims.token("alice"))["Credentials"])
    alice.delete_bucket(Bucket="of-carol")


def test_role_selects_the_provider_and_its_policies(own, both, ashlar, claims, roles):
    shown = ashlar("admin", "idp", "openid", "info", "it", "roles")[0]
    digest = base64.urlsafe_b64encode(hashlib.sha1(b"ashlar-roles").digest()).rstrip(b"=").decode()
    role = f"arn:minio:iam:::role/{digest}"
    assert shown["facts"]["role_arn"] == role
    assert shown["values"]["client_secret"] == "*redacted*" and CLIENT_SECRET not in json.dumps(shown)
    dave = s3_of(own, assume(own, roles.token("dave"), role)["Credentials"])
    dave.list_buckets()
    fails("AccessDenied", dave.create_bucket, Bucket="of-dave")
    # The role counts, not the claim; another's token does not fit; all refusals look alike.
    answers = []
    for token, arn in [
        (claims.token("alice"), role),
        (claims.token("alice"), "arn:minio:iam:::role/nobody"),
        (roles.token("dave")[:-9] + "AAAAAAAAA", role),
    ]:
        with pytest.raises(ClientError) as e:
            assume(own, token, arn)
        answers.append(e.value.response["Error"])
    assert answers[0]["Code"] == "AccessDenied" and all(a == answers[0] for a in answers), answers
    # The role's policy is that of the moment.
    ashlar("admin", "idp", "openid", "update", "it", "roles", "role_policy=readwrite")
    dave.create_bucket(Bucket="of-dave")
    ashlar("admin", "idp", "openid", "update", "it", "roles", "role_policy=readonly")
    fails("AccessDenied", dave.delete_bucket, Bucket="of-dave")


def test_access_token_adds_userinfo_claims(own, both, ashlar, roles):
    ashlar("admin", "idp", "openid", "update", "it", "roles", "role_policy=", "claim_userinfo=on")
    try:
        tokens = roles.tokens("dave")
        SEEN.extend([tokens["id_token"], tokens["access_token"]])
        form = {"Action": "AssumeRoleWithWebIdentity", "Version": "2011-06-15",
                "WebIdentityToken": tokens["id_token"]}

        def post(**more):
            body = urllib.parse.urlencode({**form, **more}).encode()
            return urllib.request.urlopen(own.endpoint + "/", body, timeout=10).read().decode()

        with pytest.raises(urllib.error.HTTPError) as e:
            post()
        assert e.value.code == 403
        assert "<AccessKeyId>" in post(WebIdentityAccessToken=tokens["access_token"])
        other = roles.tokens("eve")["access_token"]
        with pytest.raises(urllib.error.HTTPError) as e:
            post(WebIdentityAccessToken=other)
        assert e.value.code == 403
    finally:
        ashlar("admin", "idp", "openid", "update", "it", "roles", "role_policy=readonly", "claim_userinfo=")


def test_token_file_of_kubernetes(own, both, claims, tmp_path, monkeypatch):
    token = tmp_path / "token"
    token.write_text(claims.token("alice"))
    SEEN.append(token.read_text())
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    for name, value in {
        "AWS_ROLE_ARN": "arn:aws:iam::000000000000:role/any", "AWS_WEB_IDENTITY_TOKEN_FILE": str(token),
        "AWS_ENDPOINT_URL": own.endpoint, "AWS_REGION": REGION, "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    }.items():
        monkeypatch.setenv(name, value)
    session = boto3.Session(botocore_session=botocore.session.Session())
    assert session.get_credentials().method == "assume-role-with-web-identity"
    s3 = session.client("s3", endpoint_url=own.endpoint, region_name=REGION)
    assert "of-alice" in [b["Name"] for b in s3.list_buckets()["Buckets"]]


def test_signing_in_with_a_browser(own, both, claims):
    def ask(path, body=None):
        request = urllib.request.Request(
            f"{own.endpoint}/ashlar/admin/v1/{path}", body and json.dumps(body).encode())
        return json.load(urllib.request.urlopen(request, timeout=20))

    choices = ask("login/openid")["providers"]
    assert [(c["name"], c["display_name"]) for c in choices] == [("claims", "The House")]
    assert CLIENT_SECRET not in json.dumps(choices)
    back = browse(choices[0]["url"], "alice")
    body = {"code": back["code"], "state": back["state"]}
    made = ask("login/openid/callback", body)
    assert made["user"] == "openid/claims/alice"
    s3 = s3_of(own, {"AccessKeyId": made["access_key"], "SecretAccessKey": made["secret"],
                     "SessionToken": made["token"]})
    s3.list_buckets()
    # A code is good once; a state is ours or nothing.
    for bad in [body, {**body, "state": "x" + back["state"]}, {"code": "x", "state": back["state"]}]:
        with pytest.raises(urllib.error.HTTPError) as e:
            ask("login/openid/callback", bad)
        assert e.value.code == 403, e.value.read()
    for other in ["login/openid/callback", "login", "idp/openid"]:
        with pytest.raises(urllib.error.HTTPError) as e:
            ask(other)
        assert e.value.code in (403, 404), other


# Each node keeps the keys of a provider for itself: one that never asked for them cannot know them while it is away.
@one_server
def test_key_rotation_and_provider_outage(own, both, claims):
    old = claims.token("alice")
    assume(own, old)
    claims.stop()
    # Away: what is known goes on.
    assume(own, old)
    claims.plan["keys"] = [new_key("two")]
    claims.start()
    new = claims.token("alice")
    deadline = time.monotonic() + 30
    while True:
        # The provider is asked again at most every ten seconds.
        try:
            assume(own, new)
            break
        except ClientError:
            assert time.monotonic() < deadline
            time.sleep(1)
    fails("AccessDenied", assume, server=own, token=old)


def test_forbidden_provider_addresses_are_refused(ashlar):
    for host in ["169.254.169.254", "[::ffff:169.254.169.254]", "[fd00:ec2::254]", "100.100.100.200",
                 "0.0.0.0", "[64:ff9b::a9fe:a9fe]", "2852039166", "[fe80::1]"]:
        url = f"http://{host}/latest/.well-known/openid-configuration"
        text = ashlar("admin", "idp", "openid", "add", "it", "evil", f"config_url={url}", "client_id=x",
                      check=False)
        assert "not allowed" in text or "must" in text or "URL" in text, (host, text)
    assert "evil" not in json.dumps(ashlar("admin", "idp", "openid", "ls", "it"))


def test_unsupported_settings_are_refused_by_name(ashlar, claims):
    for pair in ["vendor=keycloak", "keycloak_realm=r", "user_id_claim=email", "nonsense=1"]:
        text = ashlar("admin", "idp", "openid", "add", "it", "x", f"config_url={claims.config_url}",
                      "client_id=x", pair, check=False)
        assert pair.split("=")[0] in text, text
    text = ashlar("admin", "idp", "openid", "add", "it", "x", "config_url=http://127.0.0.1:9/.well-known/openid-configuration",
                  "client_id=x", check=False)
    assert "127.0.0.1" in text


def test_only_full_administrators_configure_providers(own, ashlar):
    ashlar("admin", "policy", "create", "it", "configurer", write_policy("admin:ConfigUpdate"))
    ashlar("admin", "user", "add", "it", "configurer", "planted-secret-of-configurer")
    ashlar("admin", "policy", "attach", "it", "configurer", "--user", "configurer")
    ashlar("alias", "set", "theirs", own.endpoint, "configurer", "planted-secret-of-configurer")
    ashlar("admin", "idp", "openid", "ls", "theirs")
    text = ashlar("admin", "idp", "openid", "update", "theirs", "roles", "role_policy=consoleAdmin", check=False)
    assert "full administrator" in text
    text = ashlar("admin", "idp", "openid", "rm", "theirs", "roles", check=False)
    assert "full administrator" in text
    assert "roles" in json.dumps(ashlar("admin", "idp", "openid", "ls", "it"))


def write_policy(action):
    path = Path(tempfile.mkdtemp()) / "p.json"
    path.write_text(json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": action}]}))
    return path


def test_removing_a_provider_ends_its_users_access(own, both, ashlar, claims):
    token = claims.token("alice")
    made = assume(own, token)["Credentials"]
    s3 = s3_of(own, made)
    s3.list_buckets()
    # One user's sessions end; a new one counts.
    ashlar("admin", "user", "revoke", "it", "openid/claims/alice")
    fails("InvalidToken", s3.list_buckets)
    s3 = s3_of(own, assume(own, token)["Credentials"])
    s3.list_buckets()
    ashlar("admin", "idp", "openid", "disable", "it", "claims")
    fails("InvalidToken", s3.list_buckets)
    fails("AccessDenied", assume, server=own, token=token)
    ashlar("admin", "idp", "openid", "enable", "it", "claims")
    s3.list_buckets()
    for name in ["claims", "roles"]:
        ashlar("admin", "idp", "openid", "rm", "it", name)
    fails("InvalidToken", s3.list_buckets)
    fails("InvalidParameterValue", assume, server=own, token=token)
    assert ashlar("admin", "idp", "openid", "ls", "it") == []


def test_mc_configures_a_provider(own, ashlar, claims, tmp_path):
    """The real `mc idp openid`, after the other tests took their providers away."""
    assert ashlar("admin", "idp", "openid", "ls", "it") == []
    env = dict(os.environ, MC_CONFIG_DIR=str(tmp_path),
               MC_HOST_it=own.endpoint.replace("http://", f"http://{ACCESS}:{SECRET}@"))

    def mc(*args, check=True):
        done = subprocess.run([f"{os.environ['CLIENT_BIN']}/mc", "--json", "idp", "openid", *args],
                              env=env, capture_output=True, text=True, timeout=60)
        assert (done.returncode == 0) == check, (args, done.stdout, done.stderr)
        return done.stdout

    mc("add", "it", "house", f"config_url={claims.config_url}", f"client_id={claims.client_id}",
       f"client_secret={CLIENT_SECRET}")
    assert "house" in mc("ls", "it")
    assert CLIENT_SECRET not in mc("info", "it", "house")
    token = claims.token("alice")
    s3 = s3_of(own, assume(own, token)["Credentials"])
    s3.list_buckets()
    mc("disable", "it", "house")
    fails("InvalidToken", s3.list_buckets)
    mc("enable", "it", "house")
    s3.list_buckets()
    mc("update", "it", "house", "comment=of the house")
    mc("add", "it", "away", "config_url=http://127.0.0.1:9/none", "client_id=x", check=False)
    mc("rm", "it", "house")
    fails("InvalidToken", s3.list_buckets)


# Client certificates


def openssl(*args):
    subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True)


def signed(home, ca, name, usage, days=2):
    """A key and a certificate that an authority signed: two files."""
    unique = secrets.token_hex(4)
    key, csr, crt, ext = (home / f"{name}-{unique}.{e}" for e in ("key", "csr", "crt", "ext"))
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key,
            "-out", csr, "-subj", f"/O=house/CN={name}")
    ext.write_text(f"extendedKeyUsage={usage}\nsubjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
    openssl("x509", "-req", "-in", csr, "-CA", f"{ca}.crt", "-CAkey", f"{ca}.key", "-CAcreateserial",
            "-days", days, "-out", crt, "-extfile", ext)
    return crt, key


def authority(path):
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
            f"{path}.key", "-out", f"{path}.crt", "-subj", "/CN=authority", "-days", "30",
            "-addext", "basicConstraints=critical,CA:TRUE")
    return path


def test_client_certificates(home, tmp_path):
    ca, stranger = authority(tmp_path / "ca"), authority(tmp_path / "stranger")
    certs = tmp_path / "certs"
    (certs / "CAs").mkdir(parents=True)
    shutil.copy(f"{ca}.crt", certs / "CAs" / "ca.crt")
    crt, key = signed(tmp_path, ca, "server", "serverAuth")
    shutil.copy(crt, certs / "public.crt")
    shutil.copy(key, certs / "private.key")
    port = free_port()
    env = dict(os.environ, ASHLAR_ROOT_USER=ACCESS, ASHLAR_ROOT_PASSWORD=SECRET, ASHLAR_CERTS=str(certs),
               MINIO_IDENTITY_TLS_ENABLE="on")
    (home / "tls").mkdir()
    log = home / "tls.log"
    server = subprocess.Popen(
        [BIN, "server", f"{home}/tls/drive{{1...4}}", "--address", f"127.0.0.1:{port}"], env=env,
        stdout=log.open("ab"), stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    try:
        endpoint = f"https://127.0.0.1:{port}"

        def ask(pair, query, version=None):
            context = ssl.create_default_context(cafile=f"{ca}.crt")
            if version:
                context.maximum_version = version
            if pair:
                context.load_cert_chain(*pair)
            request = urllib.request.Request(f"{endpoint}/?{query}", b"", method="POST")
            return urllib.request.urlopen(request, timeout=10, context=context).read().decode()

        deadline = time.monotonic() + 20
        while True:
            try:
                context = ssl.create_default_context(cafile=f"{ca}.crt")
                urllib.request.urlopen(f"{endpoint}/minio/health/ready", timeout=2, context=context)
                break
            except OSError:
                assert server.poll() is None and time.monotonic() < deadline, log.read_text()
                time.sleep(0.1)
        query = "Action=AssumeRoleWithCertificate&Version=2011-06-15&DurationSeconds=3600"
        # The common name is the policy's.
        good = signed(tmp_path, ca, "readonly", "clientAuth")
        for version in (None, ssl.TLSVersion.TLSv1_2):
            answer = ET.fromstring(ask(good, query, version))
        made = {c.tag.removeprefix(NS): c.text for c in answer.iter(f"{NS}Credentials").__next__()}

        def s3_with(key, secret, token=None):
            return boto3.client(
                "s3", endpoint_url=endpoint, region_name=REGION, verify=f"{ca}.crt", aws_access_key_id=key,
                aws_secret_access_key=secret, aws_session_token=token,
                config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 0}))

        s3_with(ACCESS, SECRET).create_bucket(Bucket="there")
        s3 = s3_with(made["AccessKeyId"], made["SecretAccessKey"], made["SessionToken"])
        s3.get_bucket_location(Bucket="there")
        fails("AccessDenied", s3.create_bucket, Bucket="of-nobody")
        # A session ends with its certificate: one day is longer than this one has.
        short = signed(tmp_path, ca, "readwrite", "clientAuth", days=1)
        answer = ET.fromstring(ask(short, query.replace("3600", str(7 * 86400))))
        end = answer.iter(f"{NS}Expiration").__next__().text
        assert time.time() + 86000 < time.mktime(time.strptime(end, "%Y-%m-%dT%H:%M:%SZ")) - time.timezone < time.time() + 86500
        for pair in [
            None,
            signed(tmp_path, stranger, "readonly", "clientAuth"),
            signed(tmp_path, ca, "readonly", "serverAuth"),
            signed(tmp_path, ca, "no-such-policy", "clientAuth"),
        ]:
            with pytest.raises(urllib.error.HTTPError) as e:
                ask(pair, query)
            assert e.value.code == 403, e.value.read()
    finally:
        server.terminate()
        assert server.wait(timeout=30) == 0, log.read_text()
