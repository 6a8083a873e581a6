"""A file system whose cache can be lost, as that of a drive at a power cut. It passes everything on to a folder.

    volatile_disk.py FOLDER MOUNT

What is written is visible at once, and durable after fsync: of a file its data, of a folder its names. The extended
attribute `user.cut` of the mount's root, set to a seed, loses power: of everything that is not durable a random share of
0, 30, 70 or 100 % of the writes is kept, in any order, some of them torn at a sector; of the changes of names a prefix.
`user.lie` set to 1 makes fsync answer without doing anything. After a cut the file system answers EIO until it is mounted
again. A process that is stopped (SIGSTOP) is a drive that hangs.

Every change is made in the folder at once and kept with what undoes it until it is durable.
"""

import errno
import os
import random
import stat
import sys

SECTOR = 512


class Disk:
    """The folder and what undoes every change that is not durable."""

    def __init__(self, folder):
        self.folder = str(folder)
        self.grave = self.folder + ".removed"
        os.makedirs(self.grave, exist_ok=True)
        self.writes = {}  # inode -> list of (offset, old bytes, new bytes, old size, new size)
        self.files = {}  # inode -> descriptor, while there are writes to undo
        self.names = []  # (folders touched, undo, settle) in order
        self.lying = False
        self.gone = False
        self.buried = 0

    def path(self, name):
        return self.folder + name

    # Data.

    def _note(self, fd, offset, old, new, old_size, new_size):
        ino = os.fstat(fd).st_ino
        if ino not in self.files:
            self.files[ino] = os.open(f"/proc/self/fd/{fd}", os.O_RDWR)
        self.writes.setdefault(ino, []).append((offset, old, new, old_size, new_size))

    def write(self, fd, data, offset):
        size = os.fstat(fd).st_size
        old = os.pread(fd, len(data), offset) if offset < size else b""
        done = os.pwrite(fd, data, offset)
        self._note(fd, offset, old, bytes(data[:done]), size, max(size, offset + done))
        return done

    def resize(self, fd, length):
        size = os.fstat(fd).st_size
        old = os.pread(fd, size - length, length) if length < size else b""
        os.ftruncate(fd, length)
        self._note(fd, length, old, b"", size, length)

    def punch(self, fd, offset, length):
        size = os.fstat(fd).st_size
        length = min(length, max(0, size - offset))
        if length:
            self.write(fd, bytes(length), offset)

    def sync(self, ino):
        if not self.lying:
            self.writes.pop(ino, None)
            fd = self.files.pop(ino, None)
            if fd is not None:
                os.close(fd)

    # Names.

    def _named(self, folders, undo, settle=lambda: None):
        self.names.append((set(folders), undo, settle))

    def _bury(self, name):
        self.buried += 1
        at = f"{self.grave}/{self.buried}"
        os.rename(self.path(name), at)
        return at

    def create(self, name, flags, mode):
        new = not os.path.lexists(self.path(name))
        fd = os.open(self.path(name), (flags & ~os.O_DIRECT) | os.O_CREAT, mode)
        if new:
            self._named([os.path.dirname(name)], lambda: os.unlink(self.path(name)))
        return fd

    def mkdir(self, name, mode):
        os.mkdir(self.path(name), mode)
        self._named([os.path.dirname(name)], lambda: os.rmdir(self.path(name)))

    def rmdir(self, name):
        mode = stat.S_IMODE(os.stat(self.path(name)).st_mode)
        os.rmdir(self.path(name))
        self._named([os.path.dirname(name)], lambda: os.mkdir(self.path(name), mode))

    def unlink(self, name):
        at = self._bury(name)
        self._named(
            [os.path.dirname(name)], lambda: os.rename(at, self.path(name)), lambda: os.unlink(at)
        )

    def rename(self, old, new):
        at = None
        if os.path.isfile(self.path(new)) and not os.path.samefile(self.path(old), self.path(new)):
            at = self._bury(new)
        os.rename(self.path(old), self.path(new))

        def undo():
            os.rename(self.path(new), self.path(old))
            if at:
                os.rename(at, self.path(new))

        self._named([os.path.dirname(old), os.path.dirname(new)], undo, lambda: at and os.unlink(at))

    def sync_folder(self, name):
        """Changes of names are durable in their order, as in a journal: all up to the last of this folder."""
        if self.lying:
            return
        last = max((i for i, (folders, _, _) in enumerate(self.names) if name in folders), default=-1)
        for _, _, settle in self.names[: last + 1]:
            settle()
        del self.names[: last + 1]

    # Power.

    def cut(self, seed):
        """Loses power. Returns how many writes and changes of names were lost."""
        rng = random.Random(seed)
        lost = 0
        for ino, writes in sorted(self.writes.items()):
            fd = self.files[ino]
            for offset, old, _, old_size, _ in reversed(writes):
                os.ftruncate(fd, old_size)
                os.pwrite(fd, old, offset)
            share = rng.choice([0, 0.3, 0.7, 1])
            for offset, _, new, _, new_size in writes:
                if rng.random() >= share:
                    lost += 1
                    continue
                if new and rng.random() < 0.1:
                    new = new[: SECTOR * rng.randrange(1 + len(new) // SECTOR)]
                    lost += 1
                if new:
                    os.pwrite(fd, new, offset)
                elif os.fstat(fd).st_size != new_size:
                    os.ftruncate(fd, new_size)
            os.close(fd)
        kept = int(len(self.names) * rng.choice([0, 0.3, 0.7, 1]))
        lost += len(self.names) - kept
        for _, undo, _ in reversed(self.names[kept:]):
            undo()
        for _, _, settle in self.names[:kept]:
            settle()
        self.writes, self.files, self.names, self.gone = {}, {}, [], True
        return lost


def operations(disk, fuse):
    """What FUSE calls."""

    class Passed(fuse.Operations):
        use_ns = True

        def getattr(self, path, fh=None):
            if disk.gone:
                raise OSError(errno.EIO, "power is off")
            found = os.fstat(fh) if fh else os.lstat(disk.path(path))
            names = ("st_mode", "st_nlink", "st_uid", "st_gid", "st_size", "st_blocks", "st_ino")
            all_of = {n: getattr(found, n) for n in names}
            return {**all_of, "st_mtime": found.st_mtime_ns, "st_atime": found.st_atime_ns, "st_ctime": found.st_ctime_ns}

        def readdir(self, path, fh):
            return [".", "..", *os.listdir(disk.path(path))]

        def statfs(self, path):
            found = os.statvfs(disk.folder)
            names = ("f_bsize", "f_frsize", "f_blocks", "f_bfree", "f_bavail", "f_files", "f_ffree", "f_favail", "f_namemax")
            return {n: getattr(found, n) for n in names}

        def chmod(self, path, mode):
            os.chmod(disk.path(path), mode)
            return 0

        def chown(self, path, uid, gid):
            os.chown(disk.path(path), uid, gid)
            return 0

        def mkdir(self, path, mode):
            disk.mkdir(path, mode)
            return 0

        def rmdir(self, path):
            disk.rmdir(path)
            return 0

        def unlink(self, path):
            disk.unlink(path)
            return 0

        def rename(self, old, new):
            disk.rename(old, new)
            return 0

        def create(self, path, mode, fi=None):
            return disk.create(path, os.O_RDWR, mode)

        def open(self, path, flags):
            if disk.gone:
                raise OSError(errno.EIO, "power is off")
            # Reading too: what a write replaces is kept.
            writes = flags & (os.O_WRONLY | os.O_RDWR)
            return os.open(disk.path(path), os.O_RDWR if writes else os.O_RDONLY)

        def read(self, path, size, offset, fh):
            return os.pread(fh, size, offset)

        def write(self, path, data, offset, fh):
            return disk.write(fh, data, offset)

        def truncate(self, path, length, fh=None):
            fd = fh or os.open(disk.path(path), os.O_RDWR)
            try:
                disk.resize(fd, length)
            finally:
                if not fh:
                    os.close(fd)
            return 0

        def fallocate(self, path, mode, offset, size, fh):
            keep, punch = 1, 2
            if mode == keep | punch:
                disk.punch(fh, offset, size)
            elif mode == 0:
                if os.fstat(fh).st_size < offset + size:
                    disk.resize(fh, offset + size)
            else:
                raise OSError(errno.EOPNOTSUPP, "not here")
            return 0

        def fsync(self, path, datasync, fh):
            disk.sync(os.fstat(fh).st_ino)
            return 0

        def fsyncdir(self, path, datasync, fh):
            disk.sync_folder(path)
            return 0

        def release(self, path, fh):
            os.close(fh)
            return 0

        def utimens(self, path, times=None):
            return 0

        def setxattr(self, path, name, value, options, position=0):
            if name == "user.lie":
                disk.lying = value == b"1"
            elif name == "user.cut":
                print("lost", disk.cut(value.decode()), flush=True)
            else:
                raise OSError(errno.ENOTSUP, "not here")
            return 0

    return Passed()


if __name__ == "__main__":
    import mfusepy

    folder, mount = sys.argv[1:]
    mfusepy.FUSE(
        operations(Disk(folder), mfusepy), mount, foreground=True, nothreads=True, hard_remove=True, big_writes=True,
        attr_timeout=0, entry_timeout=0, fsname="ashlar-volatile",
    )
