"""minio-js: objects in parts, encryption, lists with metadata, notifications."""

import os
from pathlib import Path

from conftest import ACCESS, SECRET
from test_sdk_go import sealed  # noqa: F401 (a fixture)

PROGRAM = Path(__file__).parent / "minio_js" / "client.mjs"


def test_minio_js_encrypts_listens_and_lists(sealed, run, tmp_path):  # noqa: F811
    # A module is looked for beside the program.
    (tmp_path / "node_modules").symlink_to(Path(os.environ["CLIENT_MINIO_JS"]) / "node_modules")
    program = tmp_path / "client.mjs"
    program.write_text(PROGRAM.read_text())
    done = run("node", program, sealed.endpoint, ACCESS, SECRET, "minio-js")
    lines = done.stdout.splitlines()
    assert len(lines) == 13 and all(line.startswith("ok ") for line in lines), done.stdout
