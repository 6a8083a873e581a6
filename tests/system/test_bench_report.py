"""`ashlar bench show|compare|merge|import|report`: the command line on files, and the report in a real Chromium.

The results are made here from a seed, so that the schema is written by somebody who knows only
docs/bench-results.md. The report is looked at in headless Chromium, as wide as a desk and as a phone, by
light and by dark: nothing may be loaded, nothing may stick out, every section must be there, text must be
readable on its ground.
"""

import functools
import http.server
import json
import os
import random
import re
import struct
import subprocess
import threading
import zlib
from html import unescape
from pathlib import Path

import pytest

FIXTURES = Path(__file__).parents[2] / "crates/bench-report/tests/fixtures"
SECTIONS = [
    "results", "caveats", "lifecycle", "throughput", "latency", "load", "ceilings", "environment", "settings",
    "command",
]
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "p99.99": 0.9999}


def ashlar(*args, code=0):
    done = subprocess.run([os.environ["ASHLAR_BIN"], "bench", *map(str, args)], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, (args, done.returncode, done.stdout, done.stderr)
    return done.stdout


def histogram(values):
    """As the schema wants it; buckets of single values."""
    values = sorted(int(v) for v in values)
    n = len(values)
    mean = sum(values) / n
    buckets = {}
    for value in values:
        buckets[value] = buckets.get(value, 0) + 1
    return {
        "count": n, "min_ns": values[0], "max_ns": values[-1], "mean_ns": mean,
        "stdev_ns": (sum((v - mean) ** 2 for v in values) / n) ** 0.5,
        "percentiles_ns": {name: values[min(n - 1, int(q * n))] for name, q in PERCENTILES.items()},
        "buckets": sorted(buckets.items()),
    }


def phase(rng, name, operation, load, rate, median_ns, size, **more):
    points = []
    for second in range(40):
        count = int(rate * (0.4 if second < 4 else rng.uniform(0.97, 1.03)))
        points.append({"count": count, "bytes": count * size, "errors": int(second == 20), "max_ns": int(median_ns * 9)})
    times = [median_ns * 0.6 * (1 - rng.random()) ** -0.4 for _ in range(3000)]
    done = {
        "name": operation, "count": int(rate * 36), "bytes": int(rate * 36) * size, "verified_bytes": 0,
        "errors": {"SlowDown": 1},
        "rate_per_s": {"mean": rate, "ci95": [rate * 0.99, rate * 1.01], "cov": 0.02},
        "bytes_per_s": {"mean": rate * size, "ci95": [rate * size * 0.99, rate * size * 1.01], "cov": 0.02},
        "service": histogram(times), "timeline": {"step_s": 1.0, "points": points},
    }
    if load["loop"] == "open":
        done["response"] = histogram(t * 1.3 for t in times)
    return {
        "name": name, "repetition": 1, "load": load, "at_s": 0.0, "warmup_s": 4.0, "seconds": 36.0,
        "stopped_by": "time", "operations": [done], **more,
    }


def result(name, rate=1000.0, seed=1):
    """A result with everything that a report can show, and names that try to break it."""
    rng = random.Random(seed)
    closed = {"loop": "closed", "concurrency": 16}
    phases = [phase(rng, "get", "GET", closed, rate, 4e6, 1 << 20), phase(rng, "put", "PUT", closed, rate / 3, 9e6, 1 << 20)]
    for offered in (200.0, 400.0, 800.0, 1600.0):
        load = {"loop": "open", "rate_per_s": offered, "arrivals": "poisson", "limit": 1000}
        phases.append(phase(rng, "sweep", "GET", load, min(offered, 1100.0), 2e6 * (1 + offered / 400), 1 << 20))
    for state, share in (("nominal", 1.0), ("down", 0.5), ("rebuild", 0.4), ("after", 1.0)):
        for repetition in (1, 2, 3):
            values = {"work_per_cpu_percent": 9.5 * share}
            if state == "rebuild":
                values |= {"rebuild_seconds": 300.0, "rebuild_bytes": 6e10, "foreground_slowdown_percent": 60.0}
            phases.append(phase(
                rng, "seq-get-4MiB", "GET", closed, 250 * share, 8e6 / share, 4 << 20,
                state=state, repetition=repetition, values=values,
            ))
    return {
        "format": "ashlar-bench", "version": 1, "mode": "s3", "name": name, "started": "2026-02-03T04:05:06Z",
        "command": ["ashlar", "bench", "s3", "get", "--size", "1MiB", "--" + "long" * 40],
        "environment": [
            {"role": "client", "facts": {"cpu": "<b>Fast & \"loud\"</b>", "memory_bytes": str(64 << 30), "mount /" + "x" * 90: "xfs"}},
            {"role": "server", "facts": {"kernel": "6.12"}},
        ],
        "setup": {"size": "1MiB", "slo": "p99=50ms", "bucket": "averyveryverylongbucketnamewithoutanybreak" * 3},
        "phases": phases,
        "ceilings": {
            "get": {"binding": "drives", "ceilings": [
                {"resource": "drives", "bytes_per_s": 2e9}, {"resource": "server network", "bytes_per_s": 9e9}]},
            "put": {"binding": "drives", "ceilings": [{"resource": "drives", "bytes_per_s": 1e9}]},
        },
        "caveats": [
            {"severity": "warning", "code": "cached-data", "text": "The data set is <small>."},
            {"severity": "invalid", "code": "client-throttled", "text": "The client used 95 % of its CPU."},
        ],
    }


def write(path, document):
    path.write_text(json.dumps(document))
    return path


def test_show_and_import(tmp_path):
    shown = ashlar("show", write(tmp_path / "a.json", result("a")), "--all")
    for part in ("1.05 GB/s", "16 in flight", "INVALID", "95 % of its CPU", "kernel: 6.12", "slo"):
        assert part in shown, part
    for file, part in (("warp-mixed.csv", "2 in flight"), ("warp-get.json", "315 MB/s"), ("fio-seq.json", "2.41 GB/s")):
        out = tmp_path / f"{file}.out"
        ashlar("import", FIXTURES / file, "--out", out)
        assert json.loads(out.read_text())["mode"] == "import"
        assert part in ashlar("show", out), file
        assert part in ashlar("show", FIXTURES / file), "what is imported need not be converted first"
    newer = result("a") | {"version": 99}
    ashlar("show", write(tmp_path / "b.json", newer), code=1)
    ashlar("show", tmp_path / "none", code=3)


def test_compare_exits_with_its_verdict(tmp_path):
    def plain(name, rate, seed, times=6):
        runs = [result(name, rate, 100 * seed + i) for i in range(times)]
        phases = [run["phases"][0] for run in runs]
        return write(tmp_path / f"{name}.json", runs[0] | {"caveats": [], "phases": phases})

    before, same, slower = plain("before", 1000.0, 1), plain("same", 1000.0, 2), plain("slower", 850.0, 3)
    assert "within limit" in ashlar("compare", before, same)
    assert "regression" in ashlar("compare", before, slower, code=7)
    ashlar("compare", before, slower, "--limit", "40%")
    assert "improvement" in ashlar("compare", slower, before)
    answer = json.loads(ashlar("compare", before, slower, "--json", code=7).splitlines()[0])
    rate = next(r for r in answer["rows"] if r["metric"] == "rate_per_s")
    assert rate["verdict"] == "regression" and rate["p"] < 0.05
    one, other = plain("one", 1000.0, 1, times=1), plain("other", 850.0, 3, times=1)
    assert "uncertain" in ashlar("compare", one, other), "single runs know nothing of the difference between runs"
    invalid = write(tmp_path / "invalid.json", result("invalid"))
    ashlar("compare", before, invalid, code=1)
    ashlar("compare", before, invalid, "--force", "--limit", "50%")
    ashlar("compare", before, same, "--limit", "much", code=2)


def test_merge(tmp_path):
    one = result("one")
    two = result("two", seed=2)
    files = [write(tmp_path / "1.json", one), write(tmp_path / "2.json", two)]
    out = tmp_path / "all.json"
    assert "36 s of 36 s" in ashlar("merge", *files, "--out", out)
    merged = json.loads(out.read_text())
    get = merged["phases"][0]
    assert get["load"]["concurrency"] == 32
    assert get["operations"][0]["count"] == 72000
    assert sum(n for _, n in get["operations"][0]["service"]["buckets"]) == 6000
    two["setup"]["size"] = "2MiB"
    write(files[1], two)
    ashlar("merge", *files, "--out", out, code=2)
    ashlar("merge", *files, "--out", out, "--force")


class Site(http.server.SimpleHTTPRequestHandler):
    """Serves a folder on loopback and remembers what was asked for."""

    asked = []

    def do_GET(self):
        self.asked.append(self.path)
        super().do_GET()

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    handler = functools.partial(Site, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    source = write(folder / "run.json", result("A run <with> a \"name\""))
    ashlar("report", source, "--out", folder / "report.html")
    yield folder, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()


def chromium(folder, url, dark, size, *more):
    """Runs a headless Chromium that can reach nothing but loopback."""
    done = subprocess.run(
        [
            "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
            f"--user-data-dir={folder}/profile", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            f"--blink-settings=preferredColorScheme={0 if dark else 1}", f"--window-size={size}", *more, url,
        ],
        capture_output=True, text=True, timeout=120, env=dict(os.environ, HOME=str(folder)),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# A page around the report: a window cannot be made as narrow as a phone, a frame can.
LOOK = """<!doctype html><body style="margin:0"><pre id="seen"></pre>
<iframe id="frame" src="report.html" style="border:0;width:{width}px;height:2000px"></iframe>
<script>
document.getElementById("frame").onload = event => {{
  const page = event.target.contentWindow, doc = page.document, root = doc.documentElement;
  const shown = e => e.getClientRects().length > 0;
  const name = e => e.tagName + "." + (e.getAttribute("class") || "") + ": " + e.textContent.slice(0, 40);
  const out = [...doc.body.querySelectorAll("*")].filter(e => shown(e) && !e.closest("thead"))
    .filter(e => e.getBoundingClientRect().right > {width} + 0.5 || e.getBoundingClientRect().left < -0.5).map(name);
  const style = (selector, what) => page.getComputedStyle(doc.querySelector(selector))[what];
  const small = [...doc.querySelectorAll("svg text")].filter(shown)
    .map(e => 12 * e.ownerSVGElement.getBoundingClientRect().width / e.ownerSVGElement.viewBox.baseVal.width);
  document.getElementById("seen").textContent = "SEEN" + JSON.stringify({{
    width: root.scrollWidth, height: root.scrollHeight, out,
    sections: [...doc.querySelectorAll("section[id]")].filter(shown).map(e => e.id),
    resources: page.performance.getEntriesByType("resource").map(e => e.name),
    charts: [...doc.querySelectorAll("figure > svg")].filter(shown).map(e => [
      e.getAttribute("class"), e.querySelector("title").textContent, e.querySelector("desc").textContent,
      e.querySelectorAll("path.line").length, e.getBoundingClientRect().height]),
    tables: [...doc.querySelectorAll(".chart")].map(e => e.querySelectorAll("table tbody tr").length),
    ids: [...doc.querySelectorAll("[id]")].map(e => e.id),
    smallest: Math.min(...small), ground: style("body", "backgroundColor"),
    ink: [".lead", "h2", "td.n", ".about", ".said .bad", ".said .warn", ".key li"].map(s => [s, style(s, "color")]),
  }}) + "SEEN";
}};
</script>"""


def look(site, width, dark):
    folder, url = site
    # A page of its own for each width: one that is rewritten within a second is taken from the browser's cache.
    page = f"look-{width}.html"
    (folder / page).write_text(LOOK.format(width=width))
    Site.asked.clear()
    dom = chromium(folder, f"{url}/{page}", dark, f"{max(width, 600)},2200", "--virtual-time-budget=8000", "--dump-dom")
    seen = json.loads(unescape(re.search("SEEN(.*)SEEN</pre>", dom, re.S).group(1)))
    assert set(Site.asked) <= {f"/{page}", "/report.html", "/favicon.ico"}, Site.asked
    return seen


def luminance(color):
    def linear(part):
        part = float(part) / 255
        return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4

    red, green, blue = (linear(p) for p in re.findall(r"[\d.]+", color)[:3])
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_the_report_is_readable(site, width, dark):
    seen = look(site, width, dark)
    assert seen["sections"] == SECTIONS
    assert seen["width"] <= width and seen["out"] == [], "something sticks out"
    assert seen["resources"] == [], "something was loaded"
    assert len(seen["ids"]) == len(set(seen["ids"])), "ids are unique"
    kinds = {kind for kind, *_ in seen["charts"]}
    assert kinds == {"small" if width < 640 else "wide"}
    assert len(seen["charts"]) == 9 and len(seen["tables"]) == 9, "four timelines, four latencies, one load"
    for _, title, about, lines, height in seen["charts"]:
        assert title and about and lines > 0 and height > 150, (title, lines, height)
    assert all(seen["tables"]), "every chart has its numbers beside it"
    assert seen["smallest"] >= 10.5, "text of charts is readable"
    ground = luminance(seen["ground"])
    assert (ground < 0.05) if dark else (ground > 0.9)
    for what, color in seen["ink"]:
        light, deep = sorted([luminance(color), ground], reverse=True)
        assert (light + 0.05) / (deep + 0.05) >= 4.5, (what, color)


def rows_of(png):
    """The distinct rows of a picture."""
    at, data, size = 8, b"", None
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at:at + 8])
        body = png[at + 8:at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, color = struct.unpack(">IIBB", body[:10])
            size = width * {2: 3, 6: 4, 0: 1, 4: 2}[color] * depth // 8
        data += body if kind == b"IDAT" else b""
        at += 12 + length
    raw = zlib.decompress(data)
    return {raw[i:i + size + 1] for i in range(0, len(raw), size + 1)}


@pytest.mark.parametrize("dark", [False, True])
def test_charts_are_rendered(site, dark, tmp_path):
    folder, url = site
    picture = tmp_path / "report.png"
    chromium(folder, f"{url}/report.html", dark, "1280,4000", f"--screenshot={picture}")
    assert len(rows_of(picture.read_bytes())) > 300


def test_the_report_prints(site, tmp_path):
    folder, url = site
    paper = tmp_path / "report.pdf"
    chromium(folder, f"{url}/report.html", True, "1280,2000", f"--print-to-pdf={paper}")
    pdf = paper.read_bytes()
    assert pdf.startswith(b"%PDF") and 2 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 20


def test_the_report_escapes_and_warns(site):
    folder, _ = site
    html = (folder / "report.html").read_text()
    assert "<b>Fast" not in html and "&lt;b&gt;Fast" in html and "The data set is &lt;small&gt;." in html
    assert html.index("Must not be used") < html.index('id="results"')
    assert "<script" not in html and not re.search(r"https?://", html)
    assert "57.7 % of the ceiling of drives: 1.15 GB/s of 2.00 GB/s." in html
    assert "Within p99 ≤ 50 ms:" in html and "NaN" not in html
