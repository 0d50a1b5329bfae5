"""Tries the ways out of a container, one by one, and prints one line "WAY {json}" for each.

ways.json, beside this file, says what the test has put on the other side: listeners, a process, a directory. Nothing beyond
the test's own machine is ever tried, and nothing of it is changed but what the test made.
"""

import ctypes
import json
import os
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(HERE, "ways.json")) as f:
    TARGET = json.load(f)

libc = ctypes.CDLL(None, use_errno=True)
TMP = os.environ.get("TMPDIR", "/tmp")
WAYS = {}


class Shut(Exception):
    """This way is shut."""


def way(name):
    def add(fn):
        WAYS[name] = fn
        return fn

    return add


def first(tries):
    """The first that succeeds says how; if none does, all reasons count."""
    reasons = []
    for what, fn in tries:
        try:
            return f"{what}: {fn()}"
        except (Shut, OSError, ValueError, subprocess.SubprocessError) as e:
            reasons.append(f"{what}: {e}")
    raise Shut("; ".join(reasons) or "nothing to try")


def call(name, *args):
    """Calls libc and raises what errno says."""
    ctypes.set_errno(0)
    result = getattr(libc, name)(*args)
    if result == -1:
        n = ctypes.get_errno()
        raise OSError(n, os.strerror(n))
    return result


@way("dns")
def dns():
    query = struct.pack(">6H", 4711, 0x0100, 1, 0, 0, 0) + b"\x04test\x05walls\x00" + struct.pack(">2H", 1, 1)

    def ask(address):
        host, port = address.rsplit(":", 1)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(1)
            s.connect((host, int(port)))
            s.send(query)
            answer = s.recv(512)
            if answer[:2] != query[:2]:
                raise Shut("another answer")
            return socket.inet_ntoa(answer[-4:])

    return first((a, lambda a=a: ask(a)) for a in TARGET["dns"])


def greet(address):
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=1) as s:
        s.settimeout(1)
        text = s.recv(64)
        if text != TARGET["greeting"].encode():
            raise Shut("somebody else answers")
        return "greeted"


@way("tcp")
def tcp():
    def abstract():
        with socket.socket(socket.AF_UNIX) as s:
            s.connect("\0" + TARGET["abstract"])
            return "connected"

    return first([*((a, lambda a=a: greet(a)) for a in TARGET["tcp"]), ("abstract socket", abstract)])


@way("raw")
def raw():
    def opened(*args):
        with socket.socket(*args):
            return "opened"

    return first([
        ("icmp", lambda: opened(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)),
        ("packet", lambda: opened(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))),
    ])


@way("engine")
def engine():
    def ping(path):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(2)
            s.connect(path)
            s.send(b"GET /_ping HTTP/1.0\r\nHost: engine\r\n\r\n")
            line = s.recv(64).split(b"\r\n")[0].decode()
            if "200" not in line:
                raise Shut(line)
            return line

    sockets = set(TARGET["engines"])
    for top in ("/run", "/var/run", "/platform", TMP):
        for folder, _, names in os.walk(top):
            sockets.update(os.path.join(folder, n) for n in names if n.endswith(".sock") and "bridge" not in n)
    return first((p, lambda p=p: ping(p)) for p in sorted(sockets))


@way("metadata")
def metadata():
    return first([(TARGET["metadata"], lambda: greet(TARGET["metadata"]))])


def marked():
    """Processes of the host that the test started, by their arguments."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline") as f:
                if TARGET["marker"] in f.read() and int(pid) != os.getpid():
                    yield int(pid)
        except OSError:
            continue


@way("proc")
def proc():
    def secret():
        pids = list(marked())
        if not pids:
            raise Shut("no process of the host in sight")
        with open(f"/proc/{pids[0]}/environ") as f:
            if TARGET["secret"] not in f.read():
                raise Shut("no secret")
        return f"environment of process {pids[0]}"

    def root():
        for pid in marked():
            with open(f"/proc/{pid}/root{TARGET['file']}") as f:
                return f.read()
        raise Shut("no process of the host in sight")

    def writable(path):
        os.close(os.open(path, os.O_WRONLY))  # opened, not written
        return "opened to write"

    return first([
        ("environ", secret),
        ("root", root),
        *((p, lambda p=p: writable(p)) for p in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/sys/vm/overcommit_memory")),
    ])


@way("ptrace")
def ptrace():
    attach, detach = 16, 17

    def of(pid):
        call("ptrace", attach, pid, None, None)
        os.waitpid(pid, 0x40000000)  # __WALL
        call("ptrace", detach, pid, None, None)
        return "attached"

    return first([("process of the host", lambda: of(TARGET["pid"])), *((f"process {p}", lambda p=p: of(p)) for p in marked())])


@way("devices")
def devices():
    def read(path):
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        os.close(fd)
        return "opened"

    def make(kind, major, minor):
        path = os.path.join(TMP, "node")
        os.mknod(path, (stat.S_IFBLK if kind == "b" else stat.S_IFCHR) | 0o600, os.makedev(major, minor))
        try:
            return read(path)
        finally:
            os.remove(path)

    return first([
        *((" ".join(map(str, n)), lambda n=n: make(*n)) for n in TARGET["nodes"]),
        ("/dev/kmsg", lambda: read("/dev/kmsg")),
        ("/dev/mem", lambda: read("/dev/mem")),
    ])


@way("data")
def data():
    folder = os.environ["DATA_DIR"]

    def create():
        with open(os.path.join(folder, "created"), "w") as f:
            f.write("x")
        return "created a file"

    def change():
        with open(os.path.join(folder, "data"), "r+") as f:
            f.write("x")
        return "changed a file"

    def remount():
        call("mount", b"none", folder.encode(), None, 0x20 | 0x1000, None)  # REMOUNT | BIND, without RDONLY
        return create()

    return first([("create", create), ("change", change), ("remount", remount)])


@way("forks")
def forks():
    """Tasks, which are processes and threads alike, until somebody says no."""
    want, each = TARGET["tasks"], 64
    threading.stack_size(64 << 10)
    children, made = [], 0
    try:
        while made < want:
            r, w = os.pipe()
            try:
                pid = os.fork()
            except OSError as e:
                os.close(r), os.close(w)
                raise Shut(f"{made} tasks: {e}") from None
            if pid == 0:
                count, stop = 1, threading.Event()
                try:
                    for _ in range(each):
                        threading.Thread(target=stop.wait, daemon=True).start()
                        count += 1
                except RuntimeError:
                    pass
                os.write(w, struct.pack("i", count))
                while True:
                    signal.pause()
            children.append(pid)
            os.close(w)
            count = struct.unpack("i", os.read(r, 4))[0]
            os.close(r)
            made += count
            if count < each + 1:
                raise Shut(f"no more than {made} tasks")
        return f"{made} tasks"
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
        for pid in children:
            os.waitpid(pid, 0)


@way("root file system")
def rootfs():
    def write(path):
        with open(path, "w") as f:
            f.write("x")
        return "written"

    return first((p, lambda p=p: write(p)) for p in ("/etc/ways", "/usr/bin/ways", "/ways"))


@way("setuid")
def setuid():
    """A program of root's with the setuid bit: what may it do?"""

    def lower():
        if os.getuid() == 0:
            os.setgid(1000), os.setuid(1000)

    try:
        text = subprocess.run([os.path.join(HERE, "setuid-cat"), "/proc/self/status"], capture_output=True, text=True, check=True, preexec_fn=lower).stdout
    except subprocess.SubprocessError:  # root without the right to become somebody else
        text = subprocess.run([os.path.join(HERE, "setuid-cat"), "/proc/self/status"], capture_output=True, text=True, check=True).stdout
    fields = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    if int(fields["CapEff"], 16) == 0 and (os.getuid() == 0 or fields["Uid"].split()[1] != "0"):
        raise Shut(f"user {fields['Uid'].split()[1]}, capabilities {fields['CapEff']}")
    return f"user {fields['Uid'].split()[1]}, capabilities {fields['CapEff']}"


@way("mount")
def mount():
    def tmpfs():
        point = os.path.join(TMP, "point")
        os.makedirs(point, exist_ok=True)
        call("mount", b"none", point.encode(), b"tmpfs", 0, None)
        call("umount", point.encode())
        return "mounted"

    def namespaces():
        """Namespaces of one's own are no way out; what could be mounted anew in them would be."""
        pid = os.fork()
        if pid:
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            if status:
                raise Shut(os.strerror(status))
            return "data made writable"
        try:
            call("unshare", 0x10000000 | 0x00020000)  # NEWUSER | NEWNS
            folder = os.environ["DATA_DIR"].encode()
            call("mount", b"none", folder, None, 0x20 | 0x1000, None)  # REMOUNT | BIND, without RDONLY
            with open(os.path.join(folder, b"mounted"), "w") as f:
                f.write("x")
            os._exit(0)
        except OSError as e:
            os._exit(e.errno)

    return first([("tmpfs", tmpfs), ("namespaces", namespaces)])


@way("another node's bridge")
def bridge():
    def read(path):
        with open(path) as f:
            if f.read() != TARGET["secret"]:
                raise Shut("another file")
        return "read"

    path = os.path.join(TARGET["bridge"], "secret")
    own = os.environ.get("SWARM_BRIDGE_DIR", "/nowhere")
    beside = os.path.join(own, "..", os.path.basename(TARGET["bridge"]), "secret")
    return first([(path, lambda: read(path)), (beside, lambda: read(beside))])


def main():
    for name, fn in WAYS.items():
        begin = time.monotonic()
        try:
            out, how = True, fn()
        except (Shut, OSError, ValueError, subprocess.SubprocessError) as e:
            out, how = False, str(e)
        print("WAY", json.dumps({"way": name, "out": out, "how": str(how), "seconds": round(time.monotonic() - begin, 3)}))
        sys.stdout.flush()


main()
