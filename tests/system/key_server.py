"""What tests with a key server beside our own have in common."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def home():
    """A folder for a key server (`kms`) and for Ashlar (`store`), and a list of what was started there. Everything
    with a `process` in that list is ended."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    path = Path(tempfile.mkdtemp(prefix="ashlar-kms-", dir=base))
    (path / "kms").mkdir()
    (path / "store").mkdir()
    started = []
    yield path, started
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
        one.process.wait(timeout=20)
    shutil.rmtree(path, ignore_errors=True)
