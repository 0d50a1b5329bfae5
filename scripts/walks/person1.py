"""An engineer with a laptop, who knows PyTorch and nothing of swarms."""

import json

from machine import Machine, WalkError
from program import PLAIN, joined, readme_lines
from walk import ROOT

EMBEDDED = "--sn 127.0.0.2 --identity embedded=/tmp/authority"
CONTRACT = "defaultbb.cqdb.sml.hpe"


def accuracies(laptop, out, warnings=()):
    """Give what each peer reached alone, and in the swarm; of warnings those alone may be there."""
    summary = json.loads(laptop.read(f"{out}/summary.json"))
    if (
        {w["reason"] for w in summary["warnings"]} - set(warnings)
        or not summary["models_equal"]
        or summary["state"] != "finished"
    ):
        raise WalkError(f"{out}/summary.json: {summary}")
    page = laptop.read(f"{out}/report.html")
    if '"charts":[{"title":"' not in page:
        raise WalkError(f"{out}/report.html has no curves")
    pairs = [(p["local_accuracy"], p["swarm_accuracy"]) for p in summary["peers"]]
    return pairs, summary


def better(pairs, least):
    """Fail unless all peers know their accuracies and the swarm's model is much better; say so in a word."""
    if any(a is None or s is None or s < least or s < a + 0.2 for a, s in pairs):
        raise WalkError(f"accuracies alone and in the swarm: {pairs}")
    return f"{min(a for a, _ in pairs):.2f} → {pairs[0][1]:.3f}"


def build(walk, laptop):
    """Clone and make."""
    with walk.step("build") as step:
        laptop.type("git clone -q /source/swarmd.git")
        laptop.cwd += "/swarmd"
        laptop.type("make")
        step.result = "ok, nothing in Go's cache"


def demo(walk, laptop):
    """Run the demo."""
    with walk.step("demo") as step:
        laptop.type("make demo").want("all final models are the same bytes")
        pairs, _ = accuracies(laptop, "out/demo")
        step.result = better(pairs, 0.9)


def project(walk, laptop):
    """Let swarmctl write a project, and run it."""
    with walk.step("new") as step:
        laptop.type("bin/swarmctl new my-project --framework pyt").want("my-project/run.sh")
        laptop.type("my-project/run.sh").want("all final models are the same bytes")
        out = laptop.quietly("ls -d my-project/out*").text.split()[0]
        pairs, _ = accuracies(laptop, out)
        step.result = better(pairs, 0.9)


def own(walk, laptop):
    """Put README's lines into a program of one's own, and run it."""
    laptop.quietly("python3 examples/digits-pyt/split.py --peers 3 --out shards").want()
    program, new = joined(PLAIN, readme_lines(ROOT / "README.md"))
    with walk.step("own") as step:
        laptop.write("my-model/train.py", program)
        done = laptop.type(
            "bin/swarmctl local run --peers 3 --platform PYT --model-dir my-model --model-program train.py --data-dir 'shards/{peer}' --out out/mine --baseline",
            code=None,
        )
        # Peers with fewer images finish some merges before the others, of which the swarm warns where the program chose nothing.
        pairs, summary = accuracies(laptop, "out/mine", ["FINISHED_COUNTS"])
        if done.code != (9 if summary["warnings"] else 0):
            raise WalkError(f"exit code {done.code}:\n{done.text}")
        if any(p["epochs"] != 24 for p in summary["peers"]):
            raise WalkError(f"epochs: {summary['peers']}")
        step.files = 0  # the program was there before
        step.result = f"{new} lines, README's; {better(pairs, 0.7)}, with curves{', one warning (exit code 9)' if done.code else ''}"


def by_hand(walk, laptop):
    """Start the parts of a swarm one by one."""
    for i in (1, 2):
        laptop.quietly(f"cp -r my-model model-{i}").want()
    sl = "bin/swarmd run-sl --host-ip 127.0.0.{host} --sn-ip 127.0.0.2 --identity embedded=/tmp/authority --state-dir /tmp/sl-{n} --sl-platform PYT --data-dir shards/{data} --model-dir model-{n} --model-program train.py"
    with walk.step("hand") as step:
        authority = laptop.open("bin/swarmd run-authority --dir /tmp/authority")
        sn = laptop.open(
            "bin/swarmd run-sn --host-ip 127.0.0.2 --sentinel-ip 127.0.0.2 --identity embedded=/tmp/authority --state-dir /tmp/sn-1"
        )
        sls = [laptop.open(sl.format(host=2 + n, n=n, data=n - 1)) for n in (1, 2)]
        for s in sls:
            s.sees("registered with the swarm")
        laptop.type(f"bin/swarmctl list nodes {EMBEDDED}").want("127.0.0.3", "127.0.0.4")
        laptop.type(f"bin/swarmctl explain contract {CONTRACT} {EMBEDDED}")
        for s in sls:
            s.ends()
        laptop.type(f"bin/swarmctl reset contract {CONTRACT} {EMBEDDED}")
        again = [laptop.open(sl.format(host=2 + n, n=n, data=n - 1)) for n in (1, 2)]
        for s in again:
            s.ends()
        for s in (sn, authority):
            s.interrupt()
        step.result = "twice to the final model"
    if left := laptop.quietly("pgrep -a swarm").text.strip():
        raise WalkError(f"processes are left: {left}")


def walk_1(walk, mounts):
    """Walk as person 1, and give the folder of the binaries that were built."""
    with Machine(walk, "laptop", user="anna", mounts=mounts) as laptop:
        build(walk, laptop)
        binaries = laptop.fetch("/home/anna/swarmd/bin", walk.folder / "bin")
        demo(walk, laptop)
        project(walk, laptop)
        own(walk, laptop)
        by_hand(walk, laptop)
        for name in ("mine", "demo"):
            laptop.fetch(f"/home/anna/swarmd/out/{name}", walk.folder / name)
    return binaries
