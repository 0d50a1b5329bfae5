"""Ranks of torch.distributed as forked processes: a server that has imported torch once, and what they run.

A real program's ranks are started by torchrun or the like, which takes seconds of imports for each.
"""

from __future__ import annotations

import contextlib
import datetime
import gc
import hashlib
import json
import os
import pathlib
import selectors
import signal
import subprocess
import sys
import threading
import time
from typing import Any, Callable, NamedTuple, NoReturn

LIMIT_SECONDS = 90


class Ended(NamedTuple):
    """How a rank ended: its exit code, below 0 for a signal, what it printed, and what it ended with, if it did."""

    code: int
    log: str
    result: dict[str, Any]

    @property
    def error(self) -> str:
        """The last line that it printed, which is its error's, but for what a thread of torch's says that outlives it."""
        lines = [line for line in self.log.strip().split("\n") if not line.startswith("terminate called")]
        return lines[-1] if lines else ""


# What starts the ranks of peers and waits for them.
Run = Callable[..., "list[Ended]"]


class Running:
    """Ranks that were started; ended() waits for them."""

    def __init__(self, server: subprocess.Popen[str], folder: pathlib.Path, count: int) -> None:
        self.server, self.folder, self.count = server, folder, count

    def ended(self) -> list[Ended]:
        assert self.server.stdout is not None
        with selectors.DefaultSelector() as ready:
            ready.register(self.server.stdout, selectors.EVENT_READ)
            if not ready.select(LIMIT_SECONDS):
                os.killpg(self.server.pid, signal.SIGKILL)
                raise AssertionError(
                    "ranks hang: " + "\n".join(self._log(index)[-2000:] for index in range(self.count))
                )
        codes = json.loads(self.server.stdout.readline())
        return [Ended(code, self._log(index), self._result(index)) for index, code in enumerate(codes)]

    def _log(self, index: int) -> str:
        return (self.folder / f"{index}.log").read_text()

    def _result(self, index: int) -> dict[str, Any]:
        path = self.folder / f"{index}.json"
        return json.loads(path.read_text()) if path.exists() else {}


class Server:
    """Forks ranks; one group of them at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def start(self, folder: pathlib.Path, *ranks: dict[str, Any]) -> Running:
        """Start processes; each has its peer's bridge directory, its rank, its peer's size and options of train."""
        process = self._process
        if process is None or process.poll() is not None:
            env = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
            env["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
            process = self._process = subprocess.Popen(
                [sys.executable, __file__], env=env, text=True, start_new_session=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )  # fmt: skip
        assert process.stdin is not None
        folder.mkdir()
        process.stdin.write(json.dumps({"folder": str(folder), "ranks": ranks}) + "\n")
        process.stdin.flush()
        return Running(process, folder, len(ranks))

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()


def serve() -> None:
    """Fork the ranks of each line; each goes on from here as a program of its own, and ends as one."""
    import torch  # noqa: F401 - once for all.

    import swarmlearning.pyt  # noqa: F401

    # A rank that ends looks through its own objects alone: through torch's, copied by then, takes a second.
    gc.freeze()
    for line in sys.stdin:
        request = json.loads(line)
        children = []
        for index, options in enumerate(request["ranks"]):
            child = os.fork()
            if child == 0:
                become(os.path.join(request["folder"], str(index)))
                train(os.path.join(request["folder"], str(index)), options)
                return
            children.append(child)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        print(json.dumps(codes), flush=True)


def become(name: str) -> None:
    """Print to a file, and read nothing."""
    log = os.open(name + ".log", os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)


class Do:
    """What a rank is told to do at a place of its program: {"batch 3": "kill"}."""

    def __init__(self, told: dict[str, str]) -> None:
        self.told = told

    def at(self, place: str) -> None:
        word = self.told.get(place, "")
        if word == "kill":
            self.kill()
        if word == "term":
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(LIMIT_SECONDS)
        if word == "killed soon":
            threading.Timer(0.3, self.kill).start()
        if word == "hang":
            time.sleep(LIMIT_SECONDS)
        if word == "raise":
            raise ValueError("the program's own mistake")
        if word == "leave":
            sys.exit(0)

    def kill(self) -> NoReturn:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


def wrapped(module: Any, wrapper: str) -> Any:
    """Give the model that a loop trains."""
    import torch

    if wrapper == "DistributedDataParallel":
        return torch.nn.parallel.DistributedDataParallel(module)
    if wrapper:
        import torch.distributed.fsdp

        return getattr(torch.distributed.fsdp, wrapper)(module)
    return module


def train(name: str, options: dict[str, Any]) -> None:
    """A training program as people write it."""
    import numpy as np
    import torch
    import torch.distributed as dist
    from torch import nn

    from swarmlearning import _pyt_ranks, _ranks
    from swarmlearning.pyt import SwarmCallback

    do, rank = Do(options.get("do", {})), options["rank"]
    _ranks.BEAT_SECONDS = 0.1
    os.environ["SWARM_BRIDGE_DIR"] = options["bridge"]
    os.environ.update(options.get("env", {}))
    if options.get("early"):
        early = SwarmCallback(syncFrequency=3, minPeers=2, model=nn.Linear(1, 1))
    limit = datetime.timedelta(seconds=options.get("limit", LIMIT_SECONDS))
    if "limit" in options:
        _ranks.HINT_SECONDS = limit.total_seconds() / 4
    where = {"init_method": f"file://{options['store']}", "rank": rank, "world_size": options["size"]}
    device, dtype = options.get("device", "cpu"), getattr(torch, options.get("dtype", "float32"))
    if device != "cpu":
        torch.cuda.set_device(device)
    if options.get("bound"):
        where["device_id"] = torch.device(device)
    dist.init_process_group(options.get("backend", "gloo"), timeout=limit, **where)
    torch.manual_seed(options.get("seed", 0))
    module = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)).to(device, dtype)
    model = wrapped(module, "" if options.get("plain") else options.get("wrapper", "DistributedDataParallel"))
    optimizer = torch.optim.SGD(model.parameters(), lr=options.get("lr", 0.1))
    do.at("callback")
    if options.get("early"):
        early.on_train_begin()
    if options.get("compile"):
        model = torch.compile(model)
    settings = {"syncFrequency": 3, "minPeers": 2, "totalEpochs": 2, **options["callback"]}
    swarm = SwarmCallback(model=module if options.get("given") == "module" else model, **settings)
    if options.get("unwatched"):
        swarm._engine._ranks.watch(lambda batches: np.zeros(8), "")
    do.at("begin")
    if do.told.get("begin") == "shard":
        # As FSDP does, which takes them into one of its own.
        del module[2].weight
    swarm.on_train_begin()
    torch.manual_seed(rank)
    step = 0
    for epoch in range(2):
        for _ in range(options.get("batches", 7)):
            step += 1
            do.at(f"batch {step}")
            optimizer.zero_grad()
            with model.no_sync() if options.get("apart") else contextlib.nullcontext():
                inputs, targets = torch.randn(4, 4).to(device, dtype), (torch.arange(4) % 2).to(device)
                nn.functional.cross_entropy(model(inputs), targets).backward()
            optimizer.step()
            for parameter in module.parameters() if options.get("noise") else ():
                # Each rank's own last bit of every weight.
                up = torch.rand(parameter.shape) < 0.5
                parameter.data = torch.nextafter(parameter.data, torch.where(up, 9.0, -9.0))
            if options.get("nan") == step:
                module[0].weight.data[0] = float("nan")
            swarm.on_batch_end(samples=4)
        swarm.on_epoch_end(epoch)
    do.at("end")
    swarm.on_train_end()
    do.at("after")
    state = {
        key: value.cpu().reshape(-1).view(torch.uint8).numpy().tobytes() for key, value in module.state_dict().items()
    }
    pathlib.Path(name + ".json").write_text(json.dumps({
        "digest": hashlib.sha256(b"".join(state.values())).hexdigest(), "round": swarm.round, "samples": swarm.samples,
        "interval": swarm.sync_frequency, "limit": _pyt_ranks._limit().total_seconds(), "over": swarm.training_over, "epochs": swarm.epochs_completed,
        "tensors": {key: hashlib.sha256(value).hexdigest() for key, value in state.items()},
    }))  # fmt: skip


if __name__ == "__main__":
    serve()
