# A node of Ray, and a program beside it when all nodes are there: ADDRESS NODES [OPTION of ray start]... [-- PROGRAM [ARGUMENT]...]
# It ends with the program, by its exit code, and fails when its node is gone, which `ray start --block` itself does not if that was asked to end.

import os
import re
import signal
import subprocess
import sys
import time

ray = [sys.executable, "-m", "ray.scripts.scripts"]
address, nodes = sys.argv[1], int(sys.argv[2])
split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
asked = sys.argv[split + 1 :]
node, program, parts, ended, told = None, None, {}, False, False


def end(*_):
    global ended
    ended = True
    if program:
        program.terminate()
    elif node and not asked:
        tell()


def tell():
    """Asks ray start to end, once: asked twice it waits for itself."""
    global told
    if not told:
        told = True
        node.terminate()


def of_node(pid):
    """The name of a process that ray start has started and that runs."""
    try:
        with open(f"/proc/{pid}/stat", errors="replace") as f:  # of another's process it may be any bytes
            name, _, rest = f.read().partition("(")[2].rpartition(")")
        state, parent = rest.split()[:2]
    except (OSError, ValueError):
        return ""
    return name if int(parent) == node.pid and state not in "ZX" else ""


def gone():
    """The name of a process that the node can't do without and that has ended."""
    if "raylet" not in parts.values():
        there = [(pid, of_node(pid)) for pid in os.listdir("/proc") if pid.isdigit()]
        parts.update((pid, name) for pid, name in there if name in ("raylet", "gcs_server"))
    return next((name for pid, name in parts.items() if of_node(pid) != name), "")


def runs():
    """Whether the node does. Of a process that has failed ray start itself says so, and ends within two seconds."""
    lost = gone()
    if not lost or ended:
        return node.poll() is None
    try:
        node.wait(timeout=4)
    except subprocess.TimeoutExpired:
        print(f"Ray's {lost} has ended, and its node with it", file=sys.stderr, flush=True)
        stop()
    return False


def stop():
    tell()
    try:
        node.wait(timeout=30)
    except subprocess.TimeoutExpired:
        node.kill()


def leave(code):
    sys.exit(code if code >= 0 else 128 - code)


signal.signal(signal.SIGTERM, end)
# In a session of its own: who asks a group of processes to end asks the program, which needs its cluster until it has ended, and ray start once.
node = subprocess.Popen([*ray, "start", "--block", *sys.argv[3:split]], start_new_session=True)
if not asked:
    if ended:
        tell()
    while runs():
        time.sleep(0.5)
    leave(node.wait() if ended else max(node.wait(), 1))
while not program and not ended and runs():
    try:
        status = subprocess.run([*ray, "status", "--address", address], capture_output=True, text=True, timeout=60).stdout
    except subprocess.TimeoutExpired:
        status = ""
    if len(re.findall("^ 1 node_", status, re.M)) >= nodes:
        program = subprocess.Popen(asked)
        if ended:  # before it was known here
            program.terminate()
    else:
        time.sleep(3)  # ray status takes a second of a CPU
while program and program.poll() is None and (ended or runs()):
    time.sleep(0.2)
if node.poll() is not None and not (program and program.poll() is not None):
    if program:
        program.kill()
    sys.exit("Ray's head has ended before the program has: see what it says above")
stop()
leave(program.returncode if program else -signal.SIGTERM)
