#!/usr/bin/env python3
"""What it costs that run job starts the ranks of a PyTorch job, divided by the same started by hand.

python/bench/jobs.py [--epochs 8] [--runs 3] [--image swarm-torch]

A swarm of one SN and SWOPs runs on this machine. Two things are measured, in turns, so that both see the same machine:
the seconds of an epoch of two ranks on the CPU under run job, as processes of two hosts, and under torchrun; and the
seconds until a user has seen the first line of the last of two ranks, from the command on, of run job -f and of docker
run, with the same image, in a network of their own. Prints medians and their ratios as one line of JSON. Needs bin/ or
SWARM_BIN, root, a container engine for the second, and torch for the interpreter that runs it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import typing

BIN = pathlib.Path(os.environ.get("SWARM_BIN") or pathlib.Path(__file__).resolve().parents[2] / "bin")
RANKS = 2

TRAIN = """\
import sys, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
torch.manual_seed(1)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(784, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
model = torch.nn.parallel.DistributedDataParallel(model)
step = torch.optim.SGD(model.parameters(), lr=0.01)
data, wanted = torch.randn(64, 128, 784), torch.randint(10, (64, 128))
for epoch in range(int(sys.argv[1])):
    begun = time.monotonic()
    for x, y in zip(data, wanted):
        step.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        step.step()
    dist.barrier()
    if dist.get_rank() == 0:
        print("epoch", epoch, time.monotonic() - begun, flush=True)
"""
FIRST = "print('first line', flush=True)\n"

PROFILE = """\
groupname: g
taskrunner: {taskrunner}
policyuri: policy.yaml
network: none
resourcemgr:
apls:
apisrv:
  locator: {{host: {sn}, port: null, service: null}}
envvars: null
nodes:
- slnodedef:
    idx: 0
    identity: null
    slhostname: null
    usrhostname: null
    privatedata: null
    slenvvars: null
    usrenvvars: null
"""
POLICY = "sentences:\n- Allow spiffe://swarm.learning/swarm/swci to use host where all {task.type='RUN_JOB'}\n"


class Swarm:
    """An SN and SWOPs on loopback addresses of this machine."""

    def __init__(self, folder: pathlib.Path, stack: contextlib.ExitStack, runtimes: list[str]) -> None:
        """Start all, and wait until they serve."""
        self.folder, self.stack = folder, stack
        self.net = f"127.{64 + os.getpid() % 128}.7"
        self.identity = ["--identity", f"embedded={folder}/ca"]
        self._start("authority", "run-authority", "--dir", f"{folder}/ca")
        self._await("authority", "embedded authority started")
        own = f"{self.net}.1"
        sentinel = ["--name", "sn-1", "--host-ip", own, "--sentinel-ip", own, "--found-at-once"]
        self._start("sn-1", "run-sn", *sentinel, *self.identity)
        self._await("sn-1", "Starting SWARM-API-SERVER")
        for i, runtime in enumerate(runtimes, 1):
            usr = folder / f"usr{i}"
            usr.mkdir()
            (usr / "profile.yaml").write_text(PROFILE.format(taskrunner="defaulttaskbb.taskdb.sml.hpe", sn=own))
            (usr / "policy.yaml").write_text(POLICY)
            name = f"swop-{i}"
            host = ["--name", name, "--host-ip", f"{self.net}.{20 + i}", "--ml-runtime", runtime]
            self._start(
                name, "run-swop", *host, "--usr-dir", usr, "--profile-file-name", "profile.yaml", *self.identity
            )
            self._await(name, "Ready for Task Execution!")

    def _start(self, name: str, *args: object) -> None:
        state = [] if name == "authority" else ["--state-dir", self.folder / name]
        log = self.stack.enter_context((self.folder / f"{name}.log").open("w"))
        command = [str(x) for x in (BIN / "swarmd", *args, *state)]
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, "HOME": str(self.folder)}
        )
        self.stack.callback(process.wait)
        self.stack.callback(process.terminate)

    def _await(self, name: str, said: str) -> None:
        deadline = time.monotonic() + 60
        while said not in (self.folder / f"{name}.log").read_text():
            if time.monotonic() > deadline:
                raise SystemExit(f"{name} does not serve:\n{(self.folder / f'{name}.log').read_text()}")
            time.sleep(0.05)

    def run_job(self, name: str, program: str, text: str) -> typing.Iterator[tuple[float, str]]:
        """Run a job, and give the lines that are shown with the seconds since the command."""
        folder = self.folder / name
        (folder / "source").mkdir(parents=True, exist_ok=True)
        (folder / "source" / "p.py").write_text(program)
        (folder / "job.yaml").write_text(f"name: {name}\nsource: source\nreplicas: {RANKS}\n{text}")
        command = [BIN / "swarmctl", "run", "job", "-f", folder / "job.yaml", "--sn", f"{self.net}.1:30304"]
        return lines([str(x) for x in (*command, *self.identity)])


def lines(command: list[str]) -> typing.Iterator[tuple[float, str]]:
    """Run a command, and give its lines with the seconds since it was begun."""
    begun = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        said = []
        for line in process.stdout or ():
            said.append(line)
            yield time.monotonic() - begun, line
    if process.returncode != 0:
        raise SystemExit(f"{command} ends with exit code {process.returncode}:\n{''.join(said)}")


def epochs(shown: typing.Iterator[tuple[float, str]]) -> list[float]:
    """Give the seconds of all epochs but the first."""
    found = [float(m[1]) for _, line in shown if (m := re.search(r"epoch \d+ ([0-9.e-]+)", line))]
    return found[1:]


def by_hand(folder: pathlib.Path, count: int) -> list[float]:
    """Measure epochs under torchrun."""
    program = folder / "train.py"
    program.write_text(TRAIN)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={RANKS}"]
    # Torch 1.13 under Python 3.11 needs these two, see docs/reference/jobs.md.
    return epochs(lines([*torchrun, "--redirects=1", "--tee=1", str(program), str(count)]))


def last_first(shown: typing.Iterator[tuple[float, str]]) -> float:
    """Give the seconds until the last rank's first line was seen."""
    return [at for at, line in shown if "first line" in line][RANKS - 1]


def containers(folder: pathlib.Path, image: str) -> float:
    """Measure the first lines of ranks that docker run starts, all at a time."""
    source = folder / "first"
    source.mkdir(exist_ok=True)
    (source / "p.py").write_text(FIRST)
    net = folder.name
    one = f"docker run --rm --init --network {net} -v {source}:/source -w /source {image} python3 p.py"
    script = (
        f"docker network create --internal {net}; " + " & ".join([one] * RANKS) + f" & wait; docker network rm {net}"
    )
    return last_first(lines(["sh", "-c", script]))


def main() -> None:
    """Take turns and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--image", default="swarm-torch", help="of the containers, which the engine has")
    given = parser.parse_args()
    ours, theirs, job, docker = [], [], [], []
    with tempfile.TemporaryDirectory(prefix="job-") as name, contextlib.ExitStack() as stack:
        folder = pathlib.Path(name)
        engine = shutil.which("docker") is not None
        swarm = Swarm(folder, stack, ["process", "process", *(["docker"] if engine else [])])
        for _ in range(given.runs):
            theirs += by_hand(folder, given.epochs)
            # The two hosts are one machine, on which torchrun has each of several ranks compute with one thread.
            text = f"framework: pytorch\nenv: {{OMP_NUM_THREADS: 1}}\ncommand: p.py {given.epochs}\n"
            ours += epochs(swarm.run_job("epochs", TRAIN, text))
            if engine:
                docker.append(containers(folder, given.image))
                text = f"image: {given.image}\ncommand: python3 p.py\n"
                job.append(last_first(swarm.run_job("first", FIRST, text)))
    found: dict[str, object] = {"load": os.getloadavg()[0], "epochs": len(ours)}
    for what, mine, hand in (("epoch", ours, theirs), ("first_line", job, docker)):
        if mine and hand:
            a, b = statistics.median(mine), statistics.median(hand)
            found[what] = {"run_job": round(a, 4), "by_hand": round(b, 4), "ratio": round(a / b, 3)}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
