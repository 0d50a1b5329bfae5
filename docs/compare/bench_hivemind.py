"""Times rounds of hivemind's averager as `swarmctl bench merge` times ours: PEERS processes, MIB of random float32 each.

    python3 -m venv --system-site-packages hivemind && hivemind/bin/pip install hivemind==1.1.12
    hivemind/bin/python docs/compare/bench_hivemind.py 4 100 7

prints for each round the seconds from the first peer's step to the last one's end and the processor seconds of all
processes, and at the end the medians without the first two rounds. Each round's result is checked.
"""

import multiprocessing as mp
import os
import statistics
import sys
import time

import hivemind
import torch

TENSORS = 10


def peer(index, peers, mib, rounds, first, results, barrier):
    """Averages in one process. `first` has the addresses of the first peer, which joins nobody and has None."""
    torch.set_num_threads(1)
    dht = hivemind.DHT(initial_peers=first or [], start=True, host_maddrs=["/ip4/127.0.0.1/tcp/0"])
    if first is None:
        results.put([str(a) for a in dht.get_visible_maddrs()])
    length = mib * 2**20 // 4 // TENSORS
    averager = hivemind.DecentralizedAverager(
        [torch.randn(length) for _ in range(TENSORS)],
        dht,
        start=True,
        prefix="bench",
        target_group_size=peers,
        min_group_size=peers,  # a full group starts at once
        min_matchmaking_time=5.0,
        request_timeout=2.5,
    )
    for _ in range(rounds):
        with averager.get_tensors() as tensors:
            for t in tensors:
                t.copy_(torch.randn(length) + index + 1)
        barrier.wait()
        began = time.time()
        averager.step(timeout=120, weight=1.0)
        ended = time.time()
        with averager.get_tensors() as tensors:
            mean = float(tensors[0].mean())
            assert abs(mean - (peers + 1) / 2) < 1e-2, f"the merged mean is {mean}"
        results.put((began, ended))
        barrier.wait()  # the processor time is read
        barrier.wait()
    averager.shutdown()
    dht.shutdown()


def processor_seconds(root):
    """User and system time of a process and of all beneath it."""
    parents, ticks = {}, {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as f:
                fields = f.read().rsplit(")", 1)[1].split()
        except OSError:
            continue  # It has ended.
        parents[int(name)] = int(fields[1])
        ticks[int(name)] = int(fields[11]) + int(fields[12])
    total = 0
    for pid, spent in ticks.items():
        while pid not in (0, root):
            pid = parents.get(pid, 0)
        total += spent if pid == root else 0
    return total / os.sysconf("SC_CLK_TCK")


def main():
    peers, mib, rounds = map(int, sys.argv[1:])
    if rounds < 3:
        sys.exit("the first two rounds are not counted: ask for three at least")
    mp.set_start_method("fork", force=True)
    results, barrier = mp.Queue(), mp.Barrier(peers + 1)
    processes = [mp.Process(target=peer, args=(0, peers, mib, rounds, None, results, barrier))]
    processes[0].start()
    address = results.get(timeout=60)
    for i in range(1, peers):
        processes.append(mp.Process(target=peer, args=(i, peers, mib, rounds, address, results, barrier)))
        processes[-1].start()
    walls, spent = [], []
    for r in range(rounds):
        barrier.wait()
        before = processor_seconds(os.getpid())
        times = [results.get(timeout=150) for _ in range(peers)]
        spent.append(processor_seconds(os.getpid()) - before)
        walls.append(max(t[1] for t in times) - min(t[0] for t in times))
        barrier.wait()
        barrier.wait()
        print(f"round {r + 1} of {rounds}: {walls[-1]:.2f} s, {spent[-1]:.2f} processor seconds", flush=True)
    print(f"medians: {statistics.median(walls[2:]):.2f} s, {statistics.median(spent[2:]):.2f} processor seconds")
    for p in processes:
        p.join(10)
        p.kill()


if __name__ == "__main__":
    main()
