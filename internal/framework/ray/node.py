# Ray's head, and a program beside it when all nodes are there: ADDRESS NODES [OPTION]... -- PROGRAM [ARGUMENT]...
# It ends with the program, by its exit code.

import re
import signal
import subprocess
import sys
import time

ray = [sys.executable, "-m", "ray.scripts.scripts"]
address, nodes = sys.argv[1], int(sys.argv[2])
split = sys.argv.index("--")
program, ended = None, False


def end(*_):
    global ended
    ended = True
    if program:
        program.terminate()


signal.signal(signal.SIGTERM, end)
# In a session of its own: who asks a group of processes to end asks the program, which needs its cluster until it has ended.
head = subprocess.Popen([*ray, "start", "--head", "--block", *sys.argv[3:split]], start_new_session=True)
while not program and not ended and head.poll() is None:
    try:
        status = subprocess.run([*ray, "status", "--address", address], capture_output=True, text=True, timeout=60).stdout
    except subprocess.TimeoutExpired:
        status = ""
    if len(re.findall("^ 1 node_", status, re.M)) >= nodes:
        program = subprocess.Popen(sys.argv[split + 1 :])
    else:
        time.sleep(3)  # ray status takes a second of a CPU
while program and program.poll() is None and (ended or head.poll() is None):
    time.sleep(0.2)
if head.poll() is not None and not (program and program.poll() is not None):
    if program:
        program.kill()
    sys.exit("Ray's head has ended before the program has: see what it says above")
head.terminate()
try:
    head.wait(timeout=30)
except subprocess.TimeoutExpired:
    head.kill()
code = program.returncode if program else -signal.SIGTERM
sys.exit(code if code >= 0 else 128 - code)
