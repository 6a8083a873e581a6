"""The Grafana dashboards of deploy/grafana: what they ask for, and which metrics docs/monitoring.md says are not always there."""

import json
import re
from pathlib import Path

from conftest import get_over_socket

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "deploy/grafana").glob("*.json"))
# Metrics by their first word: the process that exports them.
ARRAY, FABRIC, ETCD = "ashlar_array_", "ashlar_fabric_", "etcd_"


def names_of(expression):
    """The metrics that an expression of PromQL names."""
    return set(re.findall(r"\b(?:minio|ashlar|etcd)_[a-z0-9_]+", expression))


def boards():
    return {file.name: json.loads(file.read_text()) for file in FILES}


def panels(board):
    return [p for p in board["panels"] if p["type"] != "row"]


def expressions(board):
    """Those of panels, and of the variables."""
    found = [t["expr"] for p in panels(board) for t in p["targets"]]
    return found + [v["query"] for v in board["templating"]["list"] if v["type"] == "query"]


def used(*prefixes):
    """The metrics of all dashboards whose names begin with one of these; without any, those of the server."""
    names = set().union(*(names_of(e) for board in boards().values() for e in expressions(board)))
    others = (ARRAY, FABRIC, ETCD)
    return {n for n in names if (n.startswith(prefixes) if prefixes else not n.startswith(others))}


def sometimes():
    """What docs/monitoring.md names as metrics that are not always there."""
    text = (ROOT / "docs/monitoring.md").read_text()
    section = text.split("### Metrics that are not always there\n")[1].split("\n#")[0]
    return set(re.findall(r"`((?:minio|ashlar)_[a-z0-9_]+)`", section))


def metrics_at(path):
    """The names that a process exports over its Unix socket."""
    return exported(get_over_socket(path, "/metrics"))


def exported(text):
    """The names of the samples of a page."""
    return set(re.findall(r"^([a-z][a-z0-9_]*)(?:\{.*\})? \S+$", text, re.M))
