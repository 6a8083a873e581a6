"""Hadoop's S3A: DistCp with local MapReduce there and back, the shell, multipart uploads, the magic committer.

Everything runs from Maven artifacts (tests/system/hadoop/pom.xml), in one JVM at a time with a small heap. The settings
are those of docs/hadoop.md, the user has the policy that is written there.
"""

import hashlib
import json
import os
import re
import subprocess
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

from conftest import ACCESS, SECRET, digest_tree, noise

ODD = ["with space", "plus+sign", "per%cent", "per%41", "ünïcode", "日本", "a&b=c", "semi;colon", "tilde~", "hash#1", "comma,dot."]
MULTIPART = 5 << 20


POLICY = re.search(r"```json\n(.*?)```", (Path(__file__).parents[2] / "docs" / "hadoop.md").read_text(), re.S)[1]


@pytest.fixture
def user(server, bucket, run, tmp_path):
    """A user who may do in this bucket what the page says that S3A needs."""
    name = f"hadoop-{bucket}"[:20]
    (tmp_path / "policy.json").write_text(POLICY.replace("BUCKET", bucket))
    env = {"MC_CONFIG_DIR": str(tmp_path / "mc"), "MC_HOST_it": server.endpoint.replace("http://", f"http://{ACCESS}:{SECRET}@")}
    run("mc", "admin", "policy", "create", "it", name, tmp_path / "policy.json", env=env)
    run("mc", "admin", "user", "add", "it", name, SECRET, env=env)
    run("mc", "admin", "policy", "attach", "it", name, "--user", name, env=env)
    return name


@pytest.fixture
def hadoop(server, environment, user, tmp_path):
    """Runs a class of Hadoop's in a JVM of its own; gives what it printed (output, log)."""
    settings = {
        "fs.s3a.endpoint": server.endpoint, "fs.s3a.endpoint.region": "us-east-1", "fs.s3a.path.style.access": "true",
        "fs.s3a.connection.ssl.enabled": "false", "fs.s3a.access.key": user, "fs.s3a.secret.key": SECRET,
        "fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        # Small parts, so that a file of a few MiB is a multipart upload; blocks wait on disk, not in the heap.
        "fs.s3a.multipart.size": str(MULTIPART), "fs.s3a.multipart.threshold": str(MULTIPART),
        "fs.s3a.fast.upload": "true", "fs.s3a.fast.upload.buffer": "disk", "fs.s3a.block.size": "32M",
        "fs.s3a.buffer.dir": str(tmp_path / "buffer"), "fs.s3a.attempts.maximum": "2", "fs.s3a.retry.limit": "2",
        "fs.s3a.etag.checksum.enabled": "true", "fs.s3a.threads.max": "8",
        "fs.s3a.committer.name": "magic",
        "mapreduce.outputcommitter.factory.scheme.s3a": "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory",
        "mapreduce.framework.name": "local", "mapreduce.task.io.sort.mb": "16",
        "hadoop.tmp.dir": str(tmp_path / "hadoop"), "mapreduce.jobtracker.staging.root.dir": str(tmp_path / "staging"),
    }
    conf = tmp_path / "conf"
    conf.mkdir()
    properties = "".join(f"<property><name>{k}</name><value>{escape(v)}</value></property>\n" for k, v in settings.items())
    (conf / "core-site.xml").write_text(f"<?xml version='1.0'?>\n<configuration>\n{properties}</configuration>\n")
    env = {**environment, "HOME": str(tmp_path), "LC_ALL": "C.UTF-8", "HADOOP_USER_NAME": "tester"}
    java = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", f"-Djava.io.tmpdir={tmp_path}",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=info", "-cp", f"{conf}:{os.environ['CLIENT_HADOOP']}/*"]

    def go(name, *arguments):
        done = subprocess.run([*java, name, *map(str, arguments)], env=env, capture_output=True, text=True, timeout=300,
                              stdin=subprocess.DEVNULL, cwd=tmp_path)
        if done.returncode != 0:
            pytest.fail(f"{name} {arguments} ended with {done.returncode}\n{done.stdout}\n{done.stderr[-12000:]}")
        return done.stdout, done.stderr

    return go


def distcp(hadoop, *arguments):
    """Copies; gives DistCp's counters of the whole job."""
    _, log = hadoop("org.apache.hadoop.tools.DistCp", "-m", "4", *arguments)
    assert "completed successfully" in log, log[-4000:]
    return {k: int(v) for k, v in re.findall(r"^\t\t([^=\n]+)=(\d+)$", log[log.rindex("DistCp Counters"):], re.M)}


def keys(s3, bucket, prefix):
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    return {o["Key"].removeprefix(prefix): o for page in pages for o in page.get("Contents", [])}


def test_distcp_and_shell(hadoop, s3, bucket, tmp_path):
    tree = tmp_path / "tree"
    sizes = {"zero": 0, "one": 1, "part": MULTIPART, "parts": 2 * MULTIPART + 12_345}
    tree.mkdir()
    for seed, (name, size) in enumerate(sizes.items()):
        (tree / name).write_bytes(noise(size, seed))
    for i, name in enumerate(ODD):
        (tree / "odd" / name).mkdir(parents=True)
        (tree / "odd" / name / f"{name}.bin").write_bytes(noise(1000 + i, i))
    (tree / "odd" / "empty").mkdir()
    (tree / "many").mkdir()
    for i in range(200):
        (tree / "many" / f"{i:03}").write_bytes(noise(i * 11, i))
    files = digest_tree(tree)
    folders = {f"{p.relative_to(tree)}/" for p in tree.rglob("*") if p.is_dir()}
    at = f"s3a://{bucket}/data/tree"
    shell = lambda *a: hadoop("org.apache.hadoop.fs.FsShell", *a)[0]

    # There; a second time copies nothing; what changed is copied alone.
    done = distcp(hadoop, "-update", "-direct", tree.as_uri(), at)
    assert done["Files Copied"] == len(files) and "Files Skipped" not in done, done
    stored = keys(s3, bucket, "data/tree/")
    assert {k: o["Size"] for k, o in stored.items() if not k.endswith("/")} == {k: (tree / k).stat().st_size for k in files}
    assert stored["parts"]["ETag"].endswith('-3"'), stored["parts"]
    for name in [*sizes, "many/199", "odd/per%41/per%41.bin", "odd/日本/日本.bin"]:
        body = s3.get_object(Bucket=bucket, Key=f"data/tree/{name}")["Body"].read()
        assert hashlib.sha256(body).hexdigest() == files[name], name
    (tree / "many" / "007").write_bytes(noise(5000, 5000))
    files = digest_tree(tree)
    done = distcp(hadoop, "-update", "-direct", tree.as_uri(), at)
    assert (done["Files Copied"], done["Bytes Copied"], done["Files Skipped"]) == (1, 5000, len(files) - 1), done

    # The shell: a rename copies and deletes every key; a list shows files, sizes and folders; ETags are the checksums.
    shell("-mv", f"s3a://{bucket}/data", f"s3a://{bucket}/moved")
    assert not keys(s3, bucket, "data/")
    at = f"s3a://{bucket}/moved/tree"
    seen = [line.split(None, 7) for line in shell("-ls", "-R", at).splitlines()]
    assert {f[7].removeprefix(at + "/") for f in seen if f[0][0] == "d"} == {f.rstrip("/") for f in folders}
    assert {f[7].removeprefix(at + "/"): int(f[4]) for f in seen if f[0][0] == "-"} == {k: (tree / k).stat().st_size for k in files}
    sums = {line.split("\t")[0]: line.split("\t")[1:] for line in shell("-checksum", f"{at}/parts", f"{at}/one").splitlines()}
    for name in ("parts", "one"):
        etag = s3.head_object(Bucket=bucket, Key=f"moved/tree/{name}")["ETag"].strip('"')
        kind, value = sums[f"{at}/{name}"]
        assert kind == "etag" and bytes.fromhex(value).decode().strip('"') == etag, (sums, etag)

    # Back, byte for byte; and away.
    back = tmp_path / "back"
    done = distcp(hadoop, "-update", at, back.as_uri())
    assert done["Files Copied"] == len(files), done
    assert {k: v for k, v in digest_tree(back).items() if not k.endswith(".crc")} == files
    assert {f"{p.relative_to(back)}/" for p in back.rglob("*") if p.is_dir()} == folders
    shell("-rm", "-r", "-skipTrash", f"{at}/many", f"{at}/odd/per%41", f"{at}/one")
    left = {k for k in files if not k.startswith(("many/", "odd/per%41/")) and k != "one"}
    assert {k for k in keys(s3, bucket, "moved/tree/") if not k.endswith("/")} == left
    assert not s3.list_multipart_uploads(Bucket=bucket).get("Uploads")


def test_magic_committer(hadoop, s3, bucket, tmp_path):
    """Tasks leave multipart uploads open; the job's commit completes them, so nothing is renamed."""
    text = tmp_path / "text"
    text.mkdir()
    for i in range(3):
        (text / f"{i}.txt").write_text("a line\n" * (i + 1) * 100)
    hadoop(
        "org.apache.hadoop.mapreduce.lib.aggregate.ValueAggregatorJob",
        "-Dmapreduce.aggregate.descriptor.num=1",
        "-Dmapreduce.aggregate.descriptor.0=UserDefined,org.apache.hadoop.mapreduce.lib.aggregate.ValueAggregatorBaseDescriptor",
        text.as_uri(), f"s3a://{bucket}/out", "2", "textinputformat",
    )
    stored = {k for k in keys(s3, bucket, "out/") if k}
    made = json.loads(s3.get_object(Bucket=bucket, Key="out/_SUCCESS")["Body"].read())
    assert made["committer"] == "magic" and made["success"], made
    assert stored == {"_SUCCESS", "part-r-00000", "part-r-00001"}, stored
    lines = "".join(s3.get_object(Bucket=bucket, Key=f"out/{k}")["Body"].read().decode() for k in stored if k != "_SUCCESS")
    assert dict(line.split("\t") for line in lines.splitlines()) == {"record_count": "600"}, lines
    assert not s3.list_multipart_uploads(Bucket=bucket).get("Uploads")
