"""The web console below a path of a real nginx, configured as docs/console.md says."""

import re
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

from conftest import ACCESS, SECRET, Server, free_port, one_server, wait_until
from test_console import HTML, ROOT, ask, drive, home  # noqa: F401 (home is a fixture)

pytestmark = one_server

AROUND = """
worker_processes 1; daemon off; pid {home}/nginx.pid; error_log {home}/error.log;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path {home}/body; proxy_temp_path {home}/proxy; fastcgi_temp_path {home}/fastcgi;
    uwsgi_temp_path {home}/uwsgi; scgi_temp_path {home}/scgi;
    server {{ listen 127.0.0.1:{port}; {location} }}
}}
"""


def documented(port):
    """The configuration in the documentation, for a server on this port."""
    text = (ROOT / "docs" / "console.md").read_text()
    location = re.search(r"```nginx\n(.*?)```", text, re.DOTALL).group(1)
    assert "127.0.0.1:9000" in location
    return location.replace("127.0.0.1:9000", f"127.0.0.1:{port}")


@contextmanager
def behind(place, more=""):
    """Where a console's server is reached below a path of nginx; `more`: directives besides those of the documentation."""
    port = free_port()
    place.mkdir()
    server = Server(place)
    configuration: Path = place / "nginx.conf"
    location = documented(server.port)
    location = location[:location.rindex("}")] + more + "}"
    configuration.write_text(AROUND.format(home=place, port=port, location=location))
    proxy = subprocess.Popen(["nginx", "-p", place, "-e", place / "error.log", "-c", configuration], stdin=subprocess.DEVNULL)
    base = f"http://127.0.0.1:{port}/storage"
    try:
        wait_until(lambda: ask(f"{base}/console/", headers=HTML), 20)
        yield base
    finally:
        proxy.send_signal(signal.SIGTERM)
        proxy.wait(20)
        server.stop()


@pytest.fixture(scope="module")
def proxied(home):  # noqa: F811
    with behind(home / "proxied") as base:
        yield base


def test_people_do_their_tasks_below_a_path(proxied, tmp_path):
    (tmp_path / "small.txt").write_text("written by the test\n")
    (tmp_path / "large.bin").write_bytes(bytes(range(256)) * (21 << 12))
    drive("tasks.mjs", proxied, ACCESS, SECRET, tmp_path)
    assert (tmp_path / "downloaded.bin").read_bytes() == (tmp_path / "large.bin").read_bytes()


def test_a_browser_is_sent_to_the_console_below_the_path(proxied):
    status, headers, _ = ask(f"{proxied}/", headers=HTML)
    # A relative address stays below the path.
    assert (status, headers["location"]) == (302, "console/")
    assert ask(f"{proxied}/console/", headers=HTML)[0] == 200


def test_streams_come_in_parts_where_a_proxy_collects_answers(home):  # noqa: F811
    with behind(home / "collecting", "proxy_ignore_headers X-Accel-Buffering; proxy_buffers 64 64k; ") as base:
        assert drive("held.mjs", base, ACCESS, SECRET)["violations"] == []
