"""Users of an LDAP directory: a real OpenLDAP authenticates them, boto3 uses their temporary credentials.

This file starts its own directory, on loopback and free ports, with its own configuration, database and
certificates; the system's directory is never changed. It also starts its own server.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import boto3
import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from conftest import ACCESS, REGION, SECRET, Server, free_port, until

BIN = os.environ["ASHLAR_BIN"]
ROOT = "dc=example,dc=org"
ADMIN = f"cn=admin,{ROOT}"
# Secrets that must not show anywhere.
LOOKUP = "planted-lookup-password"
ALICE, BOB, CAROL = "planted-alice", "planted-bob", "planted-carol"

ENTRIES = f"""
dn: {ROOT}
objectClass: dcObject
objectClass: organization
o: Example
dc: example

dn: cn=lookup,{ROOT}
objectClass: organizationalRole
objectClass: simpleSecurityObject
cn: lookup
userPassword: {LOOKUP}

dn: ou=People,{ROOT}
objectClass: organizationalUnit
ou: People

dn: ou=Others,{ROOT}
objectClass: organizationalUnit
ou: Others

dn: ou=Groups,{ROOT}
objectClass: organizationalUnit
ou: Groups

dn: cn=Smith\\, Alice,ou=People,{ROOT}
objectClass: inetOrgPerson
cn: Smith, Alice
sn: Smith
uid: Alice
mail: alice@example.org
userPassword: {ALICE}

dn: uid=bob,ou=Others,{ROOT}
objectClass: inetOrgPerson
uid: bob
cn: Bob
sn: B
userPassword: {BOB}

dn: uid=carol,ou=People,{ROOT}
objectClass: inetOrgPerson
uid: carol
cn: Carol
sn: C
userPassword: {CAROL}

dn: uid=twice,ou=People,{ROOT}
objectClass: inetOrgPerson
uid: twice
cn: T
sn: T
userPassword: {CAROL}

dn: uid=twice,ou=Others,{ROOT}
objectClass: inetOrgPerson
uid: twice
cn: T
sn: T
userPassword: {CAROL}

dn: cn=Readers,ou=Groups,{ROOT}
objectClass: groupOfNames
cn: Readers
member: uid=bob,ou=Others,{ROOT}
member: uid=carol,ou=People,{ROOT}

dn: cn=Inner,ou=Groups,{ROOT}
objectClass: groupOfNames
cn: Inner
member: uid=carol,ou=People,{ROOT}
member: cn=Outer,ou=Groups,{ROOT}

dn: cn=Outer,ou=Groups,{ROOT}
objectClass: groupOfNames
cn: Outer
member: cn=Inner,ou=Groups,{ROOT}
"""


def certificate(home, name, authority, san):
    """A key and a certificate by an authority of that name, which is made with it."""
    key, cert, ca, ca_key = (home / f"{name}.{end}" for end in ("key", "crt", "ca", "ca-key"))

    def openssl(*args):
        subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True, timeout=60)

    fresh = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl("req", "-x509", *fresh, "-keyout", ca_key, "-out", ca, "-subj", f"/CN={authority}", "-days", 2)
    openssl("req", *fresh, "-keyout", key, "-out", home / "csr", "-subj", f"/CN={name}")
    (home / "ext").write_text(f"subjectAltName={san}\nbasicConstraints=CA:FALSE\n")
    openssl("x509", "-req", "-in", home / "csr", "-CA", ca, "-CAkey", ca_key, "-CAcreateserial",
            "-out", cert, "-days", 2, "-extfile", home / "ext")
    return key, cert, ca


class Directory:
    """One slapd, and how to reach it."""

    def __init__(self, home: Path):
        self.home = home
        self.plain, self.tls = free_port(), free_port()
        self.url = f"ldap://127.0.0.1:{self.plain}"
        (home / "db").mkdir()
        key, cert, self.ca = certificate(home, "directory", "directory authority", "IP:127.0.0.1,DNS:localhost")
        self.other_ca = certificate(home, "other", "other authority", "IP:127.0.0.1")[2]
        (home / "slapd.conf").write_text(f"""
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile {home}/slapd.pid
TLSCertificateFile {cert}
TLSCertificateKeyFile {key}
TLSCACertificateFile {self.ca}
database mdb
suffix "{ROOT}"
rootdn "{ADMIN}"
rootpw admin-password
directory {home}/db
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact="cn=lookup,{ROOT}" read by * none
""")
        self.process = None
        self.start()
        self.change(ENTRIES, "ldapadd")

    def start(self):
        self.process = subprocess.Popen(
            ["/usr/sbin/slapd", "-h", f"{self.url} ldaps://127.0.0.1:{self.tls}",
             "-f", str(self.home / "slapd.conf"), "-d", "0"],
            stdout=(self.home / "slapd.log").open("ab"), stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 20
        while self.tool("ldapwhoami").returncode != 0:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("slapd did not start:\n" + (self.home / "slapd.log").read_text())
            time.sleep(0.1)

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(timeout=20)

    def tool(self, name, *args, stdin=""):
        who = ["-x", "-H", self.url, "-D", ADMIN, "-w", "admin-password"]
        return subprocess.run([name, *who, *args], input=stdin, capture_output=True, text=True, timeout=30)

    def change(self, ldif, tool="ldapmodify"):
        done = self.tool(tool, stdin=ldif)
        assert done.returncode == 0, done.stdout + done.stderr


def temporary():
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    return Path(tempfile.mkdtemp(prefix="ashlar-ldap-", dir=base))


@pytest.fixture(scope="module")
def directory():
    home = temporary()
    d = None
    try:
        d = Directory(home)
        yield d
    finally:
        if d:
            d.stop()
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="module")
def own():
    home = temporary()
    before = os.environ.get("ASHLAR_LOG")
    os.environ["ASHLAR_LOG"] = "debug"
    s = Server(home)
    try:
        yield s
        assert s.stop() == 0
        log = s.log.read_bytes()
        for secret in (LOOKUP, ALICE, BOB, CAROL):
            assert secret.encode() not in log, "a password is in the log"
    finally:
        os.environ.pop("ASHLAR_LOG")
        if before is not None:
            os.environ["ASHLAR_LOG"] = before
        if s.process.poll() is None:
            s.process.kill()
            s.process.wait()
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def cli(own, tmp_path):
    def go(*args, check=True, env=None):
        env = {**{k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "MC_"))}, **(env or {})}
        env.setdefault("MC_HOST_it", own.endpoint.replace("http://", f"http://{ACCESS}:{SECRET}@"))
        env["ASHLAR_CONFIG"] = str(tmp_path / "config.toml")
        done = subprocess.run([BIN, *map(str, args)], env=env, capture_output=True, text=True, timeout=60,
                              stdin=subprocess.DEVNULL)
        if check and done.returncode != 0:
            pytest.fail(f"{args}: {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    return go


@pytest.fixture
def settings(directory, tmp_path):
    """Values as somebody writes them, with changes."""
    password = tmp_path / "lookup"
    password.write_text(LOOKUP)

    def make(**changes):
        values = {
            "server_addr": f"127.0.0.1:{directory.tls}", "tls_ca": f"@{directory.ca}",
            "lookup_bind_dn": f"cn=lookup,{ROOT}", "lookup_bind_password": f"@{password}",
            "user_dn_search_base_dn": f"ou=people,{ROOT};ou=others,{ROOT}",
            "user_dn_search_filter": "(&(objectClass=inetOrgPerson)(uid=%s))",
            "user_dn_attributes": "mail", "group_search_base_dn": f"ou=groups,{ROOT}",
            "group_search_filter": "(&(objectClass=groupOfNames)(member=%d))", "check_interval": "1s",
            **changes,
        }
        return [f"{k}={v}" for k, v in values.items() if v is not None]

    return make


@pytest.fixture
def ldap(own, cli, settings):
    """The directory is configured, over LDAPS; as it was before, afterwards."""
    cli("admin", "idp", "ldap", "remove", "it", check=False)
    cli("admin", "idp", "ldap", "add", "it", *settings())
    return lambda *values: cli("admin", "idp", "ldap", "update", "it", *values)


def client(server, access=ACCESS, secret=SECRET, token=None):
    return boto3.client(
        "s3", endpoint_url=server.endpoint, aws_access_key_id=access, aws_secret_access_key=secret,
        aws_session_token=token, region_name=REGION,
        config=Config(retries={"max_attempts": 1}, s3={"addressing_style": "path"}),
    )


def ask(server, name, password, **more):
    """Status and document of a login."""
    form = {"Action": "AssumeRoleWithLDAPIdentity", "Version": "2011-06-15", "LDAPUsername": name,
            "LDAPPassword": password, **more}
    data = urllib.parse.urlencode(form).encode()
    try:
        with urllib.request.urlopen(server.endpoint + "/", data=data, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def login(server, name, password, **more):
    status, text = ask(server, name, password, **more)
    assert status == 200, text
    return tuple(re.search(f"<{e}>(.*?)</{e}>", text)[1] for e in ("AccessKeyId", "SecretAccessKey", "SessionToken"))


def signed(server, who, method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    url = f"{server.endpoint}/ashlar/admin/v1/{path}"
    request = AWSRequest(method, url, data=data)
    S3SigV4Auth(Credentials(*who), "s3", REGION).add_auth(request)
    real = urllib.request.Request(url, data=data, method=method, headers=dict(request.headers))
    try:
        with urllib.request.urlopen(real, timeout=30) as answer:
            return answer.status, json.loads(answer.read() or b"{}")
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read() or b"{}")


def refused(call, *args, **kwargs):
    with pytest.raises(ClientError) as caught:
        call(*args, **kwargs)
    status = caught.value.response["ResponseMetadata"]["HTTPStatusCode"]
    assert status in (400, 403), caught.value
    return True


def is_refused(s3, key="a"):
    try:
        s3.get_object(Bucket="team", Key=key)
        return False
    except ClientError as error:
        assert error.response["ResponseMetadata"]["HTTPStatusCode"] in (400, 403), error
        return True


@pytest.fixture(scope="module")
def team(own):
    s3 = client(own)
    s3.create_bucket(Bucket="team")
    s3.put_object(Bucket="team", Key="a", Body=b"1")
    return s3


def policy(cli, tmp_path, name, *statements):
    file = tmp_path / f"{name}.json"
    file.write_text(json.dumps({"Version": "2012-10-17", "Statement": list(statements)}))
    cli("admin", "policy", "create", "it", name, file)


def test_settings_are_checked_before_they_are_stored(own, directory, cli, settings):
    cli("admin", "idp", "ldap", "remove", "it", check=False)

    def refuses(word, **changes):
        done = cli("admin", "idp", "ldap", "add", "it", *settings(**changes), check=False)
        assert done.returncode != 0 and word in done.stderr, done.stderr
        assert LOOKUP not in done.stderr + done.stdout

    plain = f"127.0.0.1:{directory.plain}"
    refuses("tls_skip_verify", tls_skip_verify="on")
    refuses("srv_record_name", srv_record_name="ldap")
    refuses("username_format", username_format="uid=%s")
    refuses("no value", surprise="x")
    # Somebody else's authority, none at all, another name than the certificate's.
    refuses("directory", tls_ca=f"@{directory.other_ca}")
    refuses("directory", tls_ca=None)
    refuses("directory", server_addr=f"127.0.0.2:{directory.tls}")
    # TLS is spoken unless somebody says otherwise, and StartTLS checks the certificate too.
    refuses("directory", server_addr=plain)
    refuses("directory", server_addr=plain, server_starttls="on", tls_ca=f"@{directory.other_ca}")
    refuses("exclude each other", server_addr=plain, server_starttls="on", server_insecure="on")
    refuses("lookup bind", lookup_bind_dn=f"cn=nobody,{ROOT}")
    status, text = ask(own, "alice", ALICE)
    assert status == 400 and "No such identity provider" in text
    for more in ({"server_addr": plain, "server_insecure": "on"}, {"server_addr": plain, "server_starttls": "on"},
                 {"server_addr": f"localhost:{directory.tls}"}):
        cli("admin", "idp", "ldap", "add", "it", *settings(**more))
        assert LOOKUP not in cli("admin", "idp", "ldap", "info", "it").stdout
        # Nobody has a policy: who they are is not enough.
        status, text = ask(own, "alice", ALICE)
        assert status == 403 and "No policy is attached" in text
        cli("admin", "idp", "ldap", "remove", "it")


def test_policies_of_users_and_groups(own, ldap, cli, team, tmp_path):
    alice_dn = f"CN = smith\\2C  ALICE , OU=people,DC=Example,dc=org"
    home = {"Effect": "Allow", "Action": ["s3:PutObject", "s3:GetObject"],
            "Resource": "arn:aws:s3:::team/home/${ldap:username}/*"}
    mail = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::team/a",
            "Condition": {"StringEquals": {"ldap:mail": "alice@example.org"},
                          "StringLike": {"ldap:user": "cn=Smith?, Alice,ou=People,*"}}}
    policy(cli, tmp_path, "home", home, mail)
    cli("admin", "policy", "attach", "it", "home", "--federated-user", alice_dn)
    # However somebody types the name, they are who the directory says.
    for typed in ("Alice", "ALICE", "alice"):
        alice = client(own, *login(own, typed, ALICE))
        alice.put_object(Bucket="team", Key="home/Alice/x", Body=typed.encode())
        refused(alice.put_object, Bucket="team", Key="home/alice/x", Body=b"x")
        assert alice.get_object(Bucket="team", Key="a")["Body"].read() == b"1"
    refused(alice.get_object, Bucket="team", Key="home/Bob/x")
    # A session policy takes away, an end is kept.
    narrow = json.dumps({"Version": "2012-10-17", "Statement": [{**home, "Action": "s3:GetObject"}]})
    less = client(own, *login(own, "alice", ALICE, Policy=narrow, DurationSeconds="900"))
    less.get_object(Bucket="team", Key="home/Alice/x")
    refused(less.put_object, Bucket="team", Key="home/Alice/x", Body=b"y")
    # A group, by yet another spelling; what it has, its members have in the sessions they have.
    assert ask(own, "bob", BOB)[0] == 403
    # In mc's words, too.
    cli("admin", "idp", "ldap", "policy", "attach", "it", "readonly", "--group", f"cn=READERS,OU=groups, {ROOT}")
    bob = client(own, *login(own, "bob", BOB))
    assert bob.get_object(Bucket="team", Key="a")["Body"].read() == b"1"
    refused(bob.put_object, Bucket="team", Key="a", Body=b"2")
    # A login name is looked up; what the directory has not is refused.
    cli("admin", "policy", "attach", "it", "writeonly", "--federated-user", "BOB")
    bob.put_object(Bucket="team", Key="b", Body=b"2")
    cli("admin", "policy", "detach", "it", "writeonly", "--federated-user", f"UID=Bob,ou=others,{ROOT}")
    refused(bob.put_object, Bucket="team", Key="b", Body=b"2")
    for flag, name in (("user", "nobody"), ("user", f"uid=nobody,ou=people,{ROOT}"), ("user", ADMIN),
                       ("group", f"cn=none,ou=groups,{ROOT}")):
        done = cli("admin", "policy", "attach", "it", "readonly", f"--federated-{flag}", name, check=False)
        assert done.returncode != 0, name
        assert "directory" in done.stderr or "searched for" in done.stderr, done.stderr
    cli("admin", "policy", "detach", "it", "readonly", "--federated-group", f"cn=readers,ou=groups,{ROOT}")
    refused(bob.get_object, Bucket="team", Key="a")


def test_refusals_do_not_reveal_which_names_exist(own, ldap, cli, tmp_path, team):
    policy(cli, tmp_path, "some", {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::team/a"})
    cli("admin", "policy", "attach", "it", "some", "--federated-user", "carol")
    answers, times = set(), []
    tries = [("carol", "wrong"), ("nobody", "wrong"), ("*", CAROL), ("c*", CAROL), ("carol)(uid=*", CAROL),
             ("*)(objectClass=*", CAROL), (")(uid=*", CAROL), ("carol\\2a", CAROL), ("carol))(|(uid=*", CAROL),
             ("%s", CAROL), ("twice", CAROL), (f"uid=carol,ou=people,{ROOT}", CAROL), ("carol\x00", CAROL),
             ("carol\n", CAROL), ("lookup", LOOKUP), ("admin", "admin-password")]

    def attempt(pair):
        began = time.monotonic()
        return pair[0], *ask(own, *pair), time.monotonic() - began

    with ThreadPoolExecutor(8) as pool:
        for name, status, text, took in pool.map(attempt, tries):
            assert status == 403, (name, text)
            times.append(took)
            answers.add(re.sub("<RequestId>.*</RequestId>", "", text))
    assert len(answers) == 1, answers
    assert min(times) >= 0.95, times
    # Without a password nobody is let in, whatever the directory would say to a bind without one.
    status, text = ask(own, "carol", "")
    assert status == 400 and "LDAPPassword" in text
    login(own, "carol", CAROL)
    # Too many wrong ones: the right one has to wait as well.
    # Each answer takes a second, so that the first wait, of one second, is over with it.
    with ThreadPoolExecutor(7) as pool:
        told = list(pool.map(lambda _: ask(own, "guessed", "wrong")[0], range(7)))
    # One that arrives behind the others' answers, on a busy machine, has to wait already.
    assert set(told) <= {403, 503} and told.count(403) >= 5, told
    assert 503 in told or ask(own, "guessed", "wrong")[0] == 503
    login(own, "carol", CAROL)


def test_nested_groups(own, ldap, cli, team):
    cli("admin", "policy", "attach", "it", "readonly", "--federated-group", f"cn=outer,ou=groups,{ROOT}")
    cli("admin", "policy", "detach", "it", "some", "--federated-user", "carol", check=False)
    assert ask(own, "carol", CAROL)[0] == 403, "a member of a member is none, unless that is asked for"
    ldap("group_search_nested=on")
    carol = client(own, *login(own, "carol", CAROL))
    assert carol.get_object(Bucket="team", Key="a")["Body"].read() == b"1"
    cli("admin", "policy", "detach", "it", "readonly", "--federated-group", f"cn=outer,ou=groups,{ROOT}")


def test_unreachable_or_disabled_directory(own, ldap, cli, directory, team):
    group = f"cn=readers,ou=groups,{ROOT}"
    cli("admin", "policy", "attach", "it", "readonly", "--federated-group", group)
    bob = client(own, *login(own, "bob", BOB))
    directory.stop()
    try:
        for password in (BOB, "wrong"):
            status, text = ask(own, "bob", password)
            assert status == 503 and "IDPCommunicationError" in text, text
        time.sleep(2.5)
        assert bob.get_object(Bucket="team", Key="a")["Body"].read() == b"1", "checks came to nothing"
    finally:
        directory.start()
    login(own, "bob", BOB)
    cli("admin", "idp", "ldap", "disable", "it")
    refused(bob.get_object, Bucket="team", Key="a")
    status, text = ask(own, "bob", BOB)
    assert status == 400 and "No such identity provider" in text
    cli("admin", "idp", "ldap", "enable", "it")
    assert bob.get_object(Bucket="team", Key="a")["Body"].read() == b"1"
    cli("admin", "policy", "detach", "it", "readonly", "--federated-group", group)


def test_changes_in_the_directory_take_effect(own, ldap, cli, directory, team):
    readers, dn = f"cn=readers,ou=groups,{ROOT}", f"uid=bob,ou=Others,{ROOT}"
    cli("admin", "policy", "attach", "it", "readonly", "--federated-group", readers)
    cli("admin", "policy", "attach", "it", "writeonly", "--federated-user", "bob")
    session = login(own, "bob", BOB)
    status, made = signed(own, session, "POST", "keys", {"name": "job"})
    assert status == 200 and made["user"] == dn.lower(), made
    key = client(own, made["access_key"], made["secret"])
    bob = client(own, *session)
    for s3 in (key, bob):
        assert s3.get_object(Bucket="team", Key="a")["Body"].read() == b"1"
        s3.put_object(Bucket="team", Key="b", Body=b"2")
    time.sleep(2.5)
    bob.get_object(Bucket="team", Key="a")

    # Out of the group: the access key loses what it gave and keeps the rest; the session ends.
    directory.change(f"dn: {readers}\nchangetype: modify\ndelete: member\nmember: {dn}\n")
    until(lambda: is_refused(key), 20)
    key.put_object(Bucket="team", Key="b", Body=b"2")
    until(lambda: is_refused(bob), 20)
    refused(bob.put_object, Bucket="team", Key="b", Body=b"2")
    bob = client(own, *login(own, "bob", BOB))
    bob.put_object(Bucket="team", Key="b", Body=b"2")
    # In again: the access key follows.
    directory.change(f"dn: {readers}\nchangetype: modify\nadd: member\nmember: {dn}\n")
    until(lambda: not is_refused(key), 20)
    # Gone: nothing is accepted any more, and a namesake who comes later has no key and no session.
    entry = directory.tool("ldapsearch", "-LLL", "-b", dn, "-s", "base").stdout
    directory.change(f"dn: {dn}\nchangetype: delete\n")
    until(lambda: is_refused(key) and is_refused(bob), 20)
    assert signed(own, (ACCESS, SECRET), "GET", f"keys/{made['access_key']}")[1]["enabled"] is False
    assert ask(own, "bob", BOB)[0] == 403
    directory.change(entry, "ldapadd")
    time.sleep(2.5)
    assert is_refused(key) and is_refused(bob)
    again = client(own, *login(own, "bob", BOB))
    again.put_object(Bucket="team", Key="b", Body=b"2")
    # An administrator may accept the key again.
    cli("admin", "accesskey", "enable", "it", made["access_key"])
    key.put_object(Bucket="team", Key="b", Body=b"2")


def test_environment_variables_configure_the_directory(directory, tmp_path, team):
    """MinIO's variables, as somebody who moves here has them."""
    home = temporary()
    more = {
        "MINIO_IDENTITY_LDAP_SERVER_ADDR": f"127.0.0.1:{directory.plain}",
        "MINIO_IDENTITY_LDAP_SERVER_STARTTLS": "on",
        "MINIO_IDENTITY_LDAP_LOOKUP_BIND_DN": f"cn=lookup,{ROOT}",
        "MINIO_IDENTITY_LDAP_LOOKUP_BIND_PASSWORD": LOOKUP,
        "MINIO_IDENTITY_LDAP_USER_DN_SEARCH_BASE_DN": f"ou=people,{ROOT}",
        "MINIO_IDENTITY_LDAP_USER_DN_SEARCH_FILTER": "(uid=%s)",
        "ASHLAR_IDENTITY_LDAP_TLS_CA": str(directory.ca),
    }
    os.environ.update(more)
    server = None
    try:
        server = Server(home)
        status, text = ask(server, "alice", ALICE)
        assert status == 403 and "No policy is attached" in text
        status, text = ask(server, "alice", "wrong")
        assert status == 403 and "did not authenticate" in text
        assert server.stop() == 0
    finally:
        for name in more:
            os.environ.pop(name)
        if server and server.process.poll() is None:
            server.process.kill()
            server.process.wait()
        shutil.rmtree(home, ignore_errors=True)
