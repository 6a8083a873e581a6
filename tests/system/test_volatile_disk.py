"""The file system of the power-cut tests: only synced data is sure to survive a power cut."""

import os

from volatile_disk import Disk


def make(tmp_path, seed):
    folder = tmp_path / f"d{seed}"
    folder.mkdir()
    return folder, Disk(folder)


def test_only_synced_data_is_sure_to_survive(tmp_path):
    seen = set()
    for seed in range(60):
        folder, disk = make(tmp_path, seed)
        fd = disk.create("/a", os.O_RDWR, 0o600)
        disk.write(fd, b"1" * 4096, 0)
        disk.sync(os.fstat(fd).st_ino)
        disk.sync_folder("/")
        disk.write(fd, b"2" * 4096, 0)
        disk.write(fd, b"3" * 1024, 4096)
        disk.create("/b", os.O_RDWR, 0o600)
        disk.cut(seed)
        data = (folder / "a").read_bytes()
        assert set(data[:4096]) <= {ord("1"), ord("2")} and set(data[4096:]) <= {ord("3"), 0}
        seen.add((data[:4096] == b"1" * 4096, data[:4096] == b"2" * 4096, len(data), (folder / "b").exists()))
    assert len({s[0] for s in seen}) == 2 and len({s[3] for s in seen}) == 2, "both outcomes happen"
    assert any(not one and not two for one, two, _, _ in seen), "a torn write happens"


def test_names_are_lost_in_order_and_removals_are_undone(tmp_path):
    counts = set()
    for seed in range(40):
        folder, disk = make(tmp_path, seed)
        for name in ("/x", "/y"):
            fd = disk.create(name, os.O_RDWR, 0o600)
            disk.write(fd, name.encode(), 0)
            disk.sync(os.fstat(fd).st_ino)
        disk.sync_folder("/")
        disk.unlink("/x")
        disk.rename("/y", "/x")
        disk.mkdir("/z", 0o700)
        disk.cut(seed)
        there = sorted(os.listdir(folder))
        assert there in (["x", "y"], ["y"], ["x"], ["x", "z"])
        if there == ["x", "y"]:
            assert (folder / "x").read_bytes() == b"/x" and (folder / "y").read_bytes() == b"/y"
        counts.add(tuple(there))
    assert len(counts) >= 3


def test_lying_drive_loses_acknowledged_writes(tmp_path):
    lost = 0
    for seed in range(20):
        folder, disk = make(tmp_path, seed)
        fd = disk.create("/a", os.O_RDWR, 0o600)
        disk.sync_folder("/")
        disk.lying = True
        disk.write(fd, b"1" * 512, 0)
        disk.sync(os.fstat(fd).st_ino)
        disk.cut(seed)
        lost += (folder / "a").read_bytes() != b"1" * 512
    assert lost > 5
