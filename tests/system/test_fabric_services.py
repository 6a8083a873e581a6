"""Enclosure services of a virtual enclosure: pages of SES-3 read by sg_ses, and Redfish read by the client library and the utilities of the DMTF.

Fans, power supplies and sensors are a recorded sample, and everything that shows them says so; slots follow the enclosure.
"""

import json
import re
import subprocess
import urllib.error
import urllib.request

import redfish
from redfish_utilities import get_sensors, get_system_inventory

from conftest import free_port, until
from test_fabric import ASHLAR, fabric  # noqa: F401  a fixture among them

SET_UP = """
scale = 1000
seed = 12
data = "data"

[drive]
capacity = "64GB"
"""


def serve(fabric, *options):  # noqa: F811
    """Starts it with options of `serve`."""
    fabric.set_up(SET_UP)
    command = [ASHLAR, "--json", "fabric", "--socket", fabric.socket, "serve", fabric.folder / "shelf.toml", *options]
    log = open(fabric.folder / "log", "ab")
    fabric.process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=log)
    line = fabric.process.stdout.readline()
    assert line, (fabric.folder / "log").read_text()
    return json.loads(line)


def slots(services):
    return {e["number"]: e for e in services["elements"] if e["kind"] == "slot"}


def sg_ses(fabric, *options):  # noqa: F811
    pages = fabric.folder / "pages"
    pages.write_text(fabric.text("services", "--pages"))
    done = subprocess.run(["sg_ses", f"--inhex={pages}", "--status", *options], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "truncated" not in done.stdout + done.stderr, (done.stdout, done.stderr)
    return done.stdout


def test_sg_ses_reads_the_pages(fabric):  # noqa: F811
    fabric.set_up(SET_UP).start()
    said = sg_ses(fabric, "--page=cf")
    assert "enclosure vendor: Ashlar" in said and "product: OpenFlex Data24" in said, said
    found = re.findall(r"Element type: (.*), subenclosure id: 0\s+number of possible elements: (\d+)", said)
    assert dict(found) == {
        "Array device slot": "24", "Power supply": "2", "Cooling": "6", "Temperature sensor": "4", "Voltage sensor": "4",
        "Enclosure services controller electronics": "1", "Enclosure": "1",
    }, said

    fabric.run("fault", "drive-gone", 5)
    fabric.run("locate", 5, "on")
    fabric.run("locate", 7, "on")
    joined = sg_ses(fabric, "--join")

    def element(name):
        """What sg_ses says of an element, from its name to the next one."""
        found = re.search(rf"^{re.escape(name)} \[\d+,\d+\].*?(?=^\S|\Z)", joined, re.M | re.S)
        assert found, (name, joined)
        return found.group(0)

    drives = fabric.state()["drives"]
    assert "status: OK" in element("Slot 01") and drives[0]["serial"] in element("Slot 01"), element("Slot 01")
    assert "PCIe protocol type: NVMe" in element("Slot 24") and "device slot number: 24" in element("Slot 24")
    assert "Not installed" in element("Slot 05") and drives[4]["serial"] not in element("Slot 05")
    assert "Ident=1" in element("Slot 05") and "Ident=1" in element("Slot 07") and "Ident=0" in element("Slot 06")
    assert "Actual speed=9840 rpm" in element("Fan 1 (recorded sample)")
    assert "Temperature=25 C" in element("Inlet (recorded sample)")
    assert "Voltage: 12.11 volts" in element("Power supply 1 12 V (recorded sample)")
    assert "status: OK" in element("Module A")
    fabric.run("fault", "module-down", "A")
    joined = sg_ses(fabric, "--join")
    assert "status: Critical" in element("Module A") and "Fail=1" in element("Module A")
    fabric.stop()


def test_services_and_leds(fabric):  # noqa: F811
    fabric.set_up(SET_UP).start()
    services = fabric.run("services")[0]
    assert len(slots(services)) == 24 and [p["code"] for p in services["pages"]] == ["01h", "02h", "07h", "0ah"]
    recorded = {e["kind"] for e in services["elements"] if e["recorded"]}
    assert recorded == {"power-supply", "cooling", "temperature-sensor", "voltage-sensor"}
    table = fabric.text("ses")
    for line in table.splitlines():
        if any(f" {name} " in line for name in ("Cooling", "Power supply", "Temperature sensor", "Voltage sensor")):
            assert "recorded sample, not measured" in line, table
    assert table.count("recorded sample, not measured") == 16 and "9840 rpm" in table and "12.11 V" in table
    assert fabric.run("locate", 3, "on") == [{"status": "success", "bay": 3, "locate": True}]
    assert slots(fabric.run("services")[0])[3]["identify"] and fabric.run("describe", "drive", 3)[0]["locate"]
    assert "identify" in fabric.text("services") and "identify LED on" in fabric.text("describe", "drive", 3)
    fabric.run("locate", 3, "off")
    assert not any(s["identify"] for s in slots(fabric.run("services")[0]).values())
    fabric.run("locate", 25, "on", code=3)
    fabric.run("locate", 1, "blink", code=2)
    fabric.stop()


def test_redfish_clients(fabric):  # noqa: F811
    port = free_port()
    address = f"127.0.0.1:{port}"
    assert serve(fabric, "--redfish", address)["state"]["redfish"] == address
    fabric.run("fault", "drive-gone", 5)
    fabric.run("locate", 7, "on")
    client = redfish.redfish_client(base_url=f"http://{address}")
    assert client.root.Chassis

    # Every document that something leads to is there, and has what every schema requires.
    seen, todo = {}, ["/redfish/v1/"]
    while todo:
        path = todo.pop()
        if path in seen:
            continue
        answer = client.get(path)
        assert answer.status == 200, (path, answer.status)
        document = seen[path] = answer.dict
        assert document["@odata.id"] == path and document["@odata.type"].startswith("#") and document["Name"], path
        assert "Members" in document or document["Id"], path
        assert document["Oem"]["Ashlar"]["Simulated"] is True and "Recorded" in document["Oem"]["Ashlar"], path
        todo += re.findall(r'"(?:@odata\.id|DataSourceUri)": "([^"]+)"', json.dumps(document))
    assert len(seen) > 150
    measured = [p for p, d in seen.items() if "/Fans/" in p and not d["Oem"]["Ashlar"]["Recorded"]]
    assert measured == []

    # The utilities of the DMTF find what there is.
    chassis = get_system_inventory(client)[0]
    drives = {int(d["Label"].removeprefix("Slot ")): d for d in chassis["Drives"]}
    state = fabric.state()["drives"]
    assert len(drives) == 24 and drives[1]["SerialNumber"] == state[0]["serial"], drives
    assert drives[5]["State"] == "Absent" and drives[6]["State"] == "Enabled", drives[5]
    readings = {r["Name"]: r for r in get_sensors(client)[0]["Readings"]}
    text = json.dumps(readings)
    assert readings["Inlet"]["Reading"] == 25.0 and readings["Fan 1 speed"]["Reading"] == 55.0, text
    assert readings["Power supply 1 InputVoltage"]["Reading"] == 230.4 and "Drive 5 temperature" not in readings, text

    drive = client.get("/redfish/v1/Chassis/shelf/Drives/7").dict
    assert drive["LocationIndicatorActive"] and drive["CapacityBytes"] == sum(n["size"] for n in state[6]["namespaces"])
    # It follows the model.
    fabric.run("fault", "port-down", "A2")
    link = client.get("/redfish/v1/Storage/shelf/Controllers/A/Ports/A2").dict["LinkStatus"]
    assert link == "LinkDown"
    fabric.run("fault", "clear", "--all")
    until(lambda: client.get("/redfish/v1/Chassis/shelf/Drives/5").dict["Status"]["State"] == "Enabled", 30)

    # It only reads.
    for method in ("POST", "PATCH", "DELETE"):
        request = urllib.request.Request(f"http://{address}/redfish/v1/Chassis/shelf", method=method, data=b"{}")
        try:
            urllib.request.urlopen(request, timeout=60)
            raise AssertionError(method)
        except urllib.error.HTTPError as error:
            assert error.code == 405, (method, error.code)
    assert client.get("/redfish/v1/Chassis/other").status == 404
    fabric.stop()


def test_redfish_at_an_address_of_other_machines_needs_a_permission(fabric):  # noqa: F811
    fabric.set_up(SET_UP)
    file = fabric.folder / "shelf.toml"
    said = fabric.run("serve", file, "--redfish", f"0.0.0.0:{free_port()}", code=2)[0]
    assert "allow anyone" in said["error"]["cause"]["message"], said
    # That of the drives is not that of Redfish.
    fabric.run("serve", file, "--allow-anyone", "--redfish", f"0.0.0.0:{free_port()}", code=2)
    fabric.run("serve", file, "--redfish-allow-anyone", code=2)
    port = free_port()
    serve(fabric, "--redfish", f"0.0.0.0:{port}", "--redfish-allow-anyone")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/redfish", timeout=60) as answer:
        assert json.load(answer) == {"v1": "/redfish/v1/"}
    fabric.stop()
