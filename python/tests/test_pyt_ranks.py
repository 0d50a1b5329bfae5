"""Peers whose program is several processes, which train with DistributedDataParallel."""

from __future__ import annotations

import copy
import datetime
import os
import pathlib
import subprocess
import sys
import textwrap
import types
from typing import Any, Callable

import pytest

from fakeswarm import FakeSwarm, RefusedError
from helpers import construct
from torchranks import LIMIT_SECONDS, Run

torch = pytest.importorskip("torch")

from swarmlearning import _pyt_ranks, errors
from swarmlearning._pyt_ranks import unwrapped
from swarmlearning._pyt_shards import Whole
from swarmlearning._rank_weights import differs
from swarmlearning.pyt import SwarmCallback

MakeSwarm = Callable[..., FakeSwarm]


def test_ranks_are_one_peer(make_swarm: MakeSwarm, run: Run) -> None:
    """Two peers of two ranks: all four processes end with the same bytes and the same attributes."""
    swarm = make_swarm(2, poll=0.2)
    ended = run(swarm, (2, 2))
    assert [rank.code for rank in ended] == [0] * 4, ended
    assert all(rank.result == ended[0].result for rank in ended)
    assert ended[0].result["samples"] == 2 * 2 * 7 * 4
    assert ended[0].result["limit"] == LIMIT_SECONDS, "the program's own"
    opened = [entry[2] for entry in swarm.log if entry[1] == "/v1/session"]
    assert len(opened) == 2, "rank 0 alone opens a session"
    assert opened[0]["tensors"][0]["name"] == "0.weight", "names are those of a peer of one rank"


def test_batch_norms_differ_between_merges_and_parameters_never(make_swarm: MakeSwarm, run: Run) -> None:
    """DistributedDataParallel keeps them the same, but for the rounding of processors of other kinds."""
    swarm = make_swarm(1)
    ended = run(swarm, (2,), callback={"minPeers": 1}, given="module", noise=True)
    assert [rank.code for rank in ended] == [0, 0], ended
    assert ended[0].result == ended[1].result


@pytest.mark.parametrize(("how", "batches", "rate"), [("plain", "1 batch", 1e-4), ("apart", "3 batches", 0.1)])
def test_ranks_that_train_apart_are_refused(
    make_swarm: MakeSwarm, run: Run, how: str, batches: str, rate: float
) -> None:
    """A program that forgot to wrap its model, or keeps the wrapper from averaging: every rank trains its own."""
    swarm = make_swarm(1)
    ended = run(swarm, (2,), callback={"minPeers": 1, "syncFrequency": int(batches[0])}, lr=rate, **{how: True})
    for rank in ended:
        assert rank.code == 1
        assert f"rank 1 merges in epoch 1 after {batches} with other weights than rank 0" in rank.error
        assert "DistributedDataParallel" in rank.error
    assert "UnevenRanksError" in swarm.aborted["sl-0"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_rounding_is_told_from_training(dtype: Any) -> None:
    """Of the types that a model can have at once, what was frozen left out."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(20, 50), torch.nn.Linear(50, 50).to(dtype), torch.nn.Linear(50, 5))
    model[2].weight.requires_grad = False

    def changed(change: Callable[[Any], Any]) -> int:
        other = copy.deepcopy(model)
        for parameter in other.parameters():
            parameter.data = change(parameter.data)
        rows = [_pyt_ranks.weight_sums(one.parameters(), 1).view("i8").tolist() for one in (model, other)]
        return differs(rows)

    def scaled(data: Any, factors: Any) -> Any:
        return (data.double() * (1 + factors)).to(data.dtype)

    step = max(1e-5, 20 * torch.finfo(dtype).eps)
    for seed in range(20):
        torch.manual_seed(seed)
        # Half of what the type has between two values is rounded to one of them.
        assert not changed(lambda data: scaled(data, torch.finfo(data.dtype).eps * torch.rand(data.shape)))
        assert changed(lambda data: scaled(data, step * torch.randn(data.shape))) == 1
    model.requires_grad_(False)
    assert not changed(torch.zeros_like)


def test_what_stays_local_is_equal_too(make_swarm: MakeSwarm, run: Run) -> None:
    """The peers' own heads differ, a peer's ranks have the same; each rank's own batch norm is what its data made it."""
    swarm = make_swarm(2, poll=0.2)
    ended = run(swarm, (2, 2), callback={"localLayers": ["2", "1.running_*"]})
    assert [rank.code for rank in ended] == [0] * 4, ended
    tensors = [rank.result["tensors"] for rank in ended]
    assert len({t["0.weight"] for t in tensors}) == 1
    assert tensors[0]["2.weight"] == tensors[1]["2.weight"]
    assert tensors[2]["2.weight"] == tensors[3]["2.weight"] != tensors[0]["2.weight"]


# What one rank does at a place of its program, what the other ranks of its peer end with, and what the swarm is told.
FAILURES = [
    ("killed while rank 0 waits for the swarm", {1: {"begin": "killed soon"}}, (1, None), "has lost another rank"),
    ("killed while all train", {1: {"batch 2": "kill"}}, (1, None), None),
    ("killed before a merge", {1: {"batch 4": "kill"}}, (1, None), None),
    ("killed at the end", {1: {"end": "kill"}}, (1, None), "ends its training after 14 batches"),
    ("rank 0 killed while all train", {0: {"batch 2": "kill"}}, (None, 1), None),
    ("rank 0 killed while it waits", {0: {"begin": "killed soon"}}, (None, 1), "has lost rank 0"),
    ("rank 0 killed at the end", {0: {"end": "kill"}}, (None, 1), "ends its training after 14 batches"),
    ("its program fails", {1: {"batch 5": "raise"}}, (1, 1), None),
    ("rank 0's program fails", {0: {"end": "raise"}}, (1, 1), "ends its training after 14 batches"),
    ("it ends before the training", {1: {"begin": "leave"}}, (1, 0), "begins its training, and another rank does not"),
    ("it ends without a hook", {1: {"end": "leave"}}, (1, 0), "ends its training after 14 batches"),
]


@pytest.mark.parametrize(("told", "codes", "text"), [row[1:] for row in FAILURES], ids=[row[0] for row in FAILURES])
def test_failures(make_swarm: MakeSwarm, run: Run, told: dict[int, Any], codes: Any, text: str | None) -> None:
    """Whatever ends one rank ends its peer, with an error and soon; the swarm is told wherever rank 0 still can."""
    waits = any("killed soon" in places.values() for places in told.values())
    swarm = make_swarm(2 if waits else 1, poll=0.1)
    own = {(0, rank): {"do": places} for rank, places in told.items()}
    ended = run(swarm, (2,), own, callback={"minPeers": 2 if waits else 1})
    for rank, code in zip(ended, codes):
        assert rank.code == (-9 if code is None else code), ended
    assert all(rank.result == {} for rank in ended)
    last = ended[0 if 1 in told else 1]
    assert text is None or text in last.error, last.log
    opened = any(path == "/v1/session" for _, path, _ in swarm.log)
    assert "sl-0" in swarm.aborted or codes[0] is None or not opened


@pytest.mark.parametrize(("place", "codes"), [("batch 4", (143, 1)), ("begin", (-15, 1)), ("after", (-15, 0))])
def test_rank_0_is_terminated(make_swarm: MakeSwarm, run: Run, place: str, codes: Any) -> None:
    """As launchers do it: while there is a session, which is given up, it is an exit, and otherwise what it always is."""
    swarm = make_swarm(1)
    ended = run(swarm, (2,), {(0, 0): {"do": {place: "term"}}}, callback={"minPeers": 1})
    assert tuple(rank.code for rank in ended) == codes, ended
    if codes[0] > 0:
        assert "the program was ended by SIGTERM" in swarm.aborted["sl-0"]
    else:
        assert not swarm.aborted


def test_uneven_batches_are_named(make_swarm: MakeSwarm, run: Run) -> None:
    swarm = make_swarm(1)
    ended = run(swarm, (2,), {(0, 1): {"batches": 5}}, callback={"minPeers": 1}, plain=True, unwatched=True)
    for rank in ended:
        assert rank.code == 1
        assert "rank 0 merges in epoch 1 after 6 batches, rank 1 ends epoch 1 after 5 batches" in rank.error


def test_uneven_batches_end_with_the_programs_own_limit(make_swarm: MakeSwarm, run: Run) -> None:
    """DistributedDataParallel waits for the rank that has no more batches, and that one says what it waits for."""
    swarm = make_swarm(1)
    ended = run(swarm, (2,), {(0, 1): {"batches": 5}}, callback={"minPeers": 1}, limit=2)
    assert [rank.code for rank in ended] == [1, 1]
    assert "rank 1 ends epoch 1 after 5 batches and waits for the other ranks: give every rank the same" in ended[1].log
    assert "rank 1 ends epoch 1 after 5 batches, and another rank does not" in ended[1].error
    assert "sl-0" in swarm.aborted


def test_a_rank_without_a_callback_is_not_waited_for_for_ever(make_swarm: MakeSwarm, run: Run) -> None:
    swarm = make_swarm(1)
    ended = run(swarm, (2,), {(0, 1): {"do": {"callback": "leave"}}}, callback={"minPeers": 1}, limit=2)
    assert "rank 0 has made its SwarmCallback and waits for all 2 ranks to make theirs" in ended[0].log
    assert "rank 0 can't reach all 2 ranks" in ended[0].error
    assert "make a SwarmCallback on every rank" in ended[0].error


def test_a_wrong_parameter_of_one_rank_ends_all(make_swarm: MakeSwarm, run: Run) -> None:
    swarm = make_swarm(1)
    ended = run(swarm, (2,), {(0, 1): {"callback": {"minPeers": 0}}}, callback={"minPeers": 1})
    assert [rank.code for rank in ended] == [1, 1]
    assert "minPeers: 0 is not allowed" in ended[1].error
    assert "it has ended or does not answer" in ended[0].error


def test_parameters_must_be_equal(make_swarm: MakeSwarm, run: Run) -> None:
    swarm = make_swarm(1)
    ended = run(swarm, (2,), {(0, 1): {"callback": {"minPeers": 1, "fedProxMu": 0.5}}}, callback={"minPeers": 1})
    assert all("fedProxMu: rank 0 and rank 1 differ" in rank.error for rank in ended), ended


def test_nan_ends_all(make_swarm: MakeSwarm, run: Run) -> None:
    """Every rank has it, where gradients are averaged."""
    swarm = make_swarm(1)
    ended = run(swarm, (2,), callback={"minPeers": 1}, nan=3)
    assert 'tensor "0.weight" has NaN' in ended[0].error
    assert 'NotFiniteError: rank 0: tensor "0.weight" has NaN' in ended[1].error
    assert "NotFiniteError" in swarm.aborted["sl-0"]


def test_a_damaged_model_is_found_by_all(make_swarm: MakeSwarm, run: Run) -> None:
    swarm = make_swarm(1)
    swarm.damaging = True
    ended = run(swarm, (2,), callback={"minPeers": 1})
    assert all("DigestError" in rank.error for rank in ended), ended


def test_the_swarms_refusal_reaches_all(make_swarm: MakeSwarm, run: Run) -> None:
    swarm = make_swarm(1)
    swarm.refuse["/v1/session"] = RefusedError(409, "TERMS_MISMATCH", "minPeers differs", "give 2")
    ended = run(swarm, (2,), callback={"minPeers": 1})
    assert "TermsDifferError: minPeers differs (give 2)" in ended[0].error
    assert "TermsDifferError: rank 0: minPeers differs (give 2)" in ended[1].error


def test_loopback_asks_no_rank(make_swarm: MakeSwarm, run: Run) -> None:
    swarm = make_swarm(1)
    ended = run(swarm, (2,), env={"SWARM_LOOPBACK": "true"})
    assert [rank.code for rank in ended] == [0, 0], ended
    assert not swarm.log


def test_a_callback_made_too_early_is_refused(make_swarm: MakeSwarm, run: Run) -> None:
    swarm = make_swarm(1)
    ended = run(swarm, (2,), early=True)
    assert all("made before torch.distributed was initialised" in rank.error for rank in ended), ended
    assert not swarm.log


def test_a_peer_ends_early(make_swarm: MakeSwarm, run: Run) -> None:
    """One peer trains on after the other has ended; all have the final model."""
    swarm = make_swarm(2, poll=0.05)
    ended = run(
        swarm, (2, 2), {(0, rank): {"batches": 3} for rank in (0, 1)}, callback={"checkinModelOnTrainEnd": "active"}
    )
    assert [rank.code for rank in ended] == [0] * 4, ended
    assert len({rank.result["digest"] for rank in ended}) == 1


def test_a_program_of_one_process_is_as_it_was(make_swarm: MakeSwarm) -> None:
    """Names and layout, which a contract is held to, are those of peers that know no ranks."""

    class FullyShardedDataParallel(torch.nn.Linear):  # type: ignore[misc]
        """As torch names its own, which in a world of one has the whole model."""

    swarm = make_swarm(1)
    model = torch.nn.DataParallel(FullyShardedDataParallel(1, 1))
    callback = construct(
        swarm.peers[0].directory, lambda: SwarmCallback(syncFrequency=1, minPeers=1, model=model, totalEpochs=1)
    )
    callback.on_train_begin()
    opened = next(entry[2] for entry in swarm.log if entry[1] == "/v1/session")
    assert [tensor["name"] for tensor in opened["tensors"]] == ["module.weight", "module.bias"]


def test_wrappers_of_any_order_are_taken_off() -> None:
    class OptimizedModule(torch.nn.Module):  # type: ignore[misc]
        """As torch.compile of torch 2 makes one."""

        def __init__(self, module: Any) -> None:
            super().__init__()
            self._orig_mod = module

    module = torch.nn.Linear(1, 1)
    assert unwrapped(OptimizedModule(torch.nn.DataParallel(module))) is module
    compiled = OptimizedModule(module)
    assert unwrapped(torch.nn.DataParallel(compiled)) is compiled
    assert unwrapped(compiled) is compiled


@pytest.mark.parametrize(("seconds", "taken"), [(600, 600), (5, 30)], ids=["as given", "longer than some beats"])
@pytest.mark.parametrize("new", [True, False], ids=["torch 2.6", "torch 1.13"])
def test_the_programs_limit_is_found(monkeypatch: pytest.MonkeyPatch, new: bool, seconds: int, taken: int) -> None:
    options = types.SimpleNamespace(_timeout=datetime.timedelta(seconds=seconds))

    class Group:
        """The program's, as that torch has it."""

        def _get_backend(self, device: Any) -> Any:
            if device.type == "cuda":
                raise RuntimeError("no backend for devices of this type")
            return types.SimpleNamespace(options=options)

    group = Group() if new else types.SimpleNamespace(options=options)
    monkeypatch.setattr(torch.distributed.distributed_c10d, "_get_default_group", lambda: group)
    assert _pyt_ranks._limit().total_seconds() == taken


SHARDS = ["kept by FSDP", "an FSDP of each module's class", "emptied by ZeRO-3", "marked by ZeRO-2", "taken by FSDP"]


@pytest.mark.parametrize("kind", SHARDS)
@pytest.mark.parametrize("later", [False, True], ids=["before", "after"])
def test_sharded_models_are_refused(kind: str, later: bool) -> None:
    """When the callback is made, or when the training begins: a loop may shard the model that the callback has."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    if later:
        whole = Whole(model)
        shard(model, kind)
        with pytest.raises(errors.ParameterError, match="model: .*, and only whole models can be merged"):
            whole.check()
    elif kind != "taken by FSDP":
        shard(model, kind)
        with pytest.raises(errors.ParameterError, match="model: .*, and only whole models can be merged"):
            Whole(model)


def shard(model: Any, kind: str) -> None:
    """Leave a model as torch 2 and DeepSpeed do, which need processes and devices."""

    class FullyShardedDataParallel(torch.nn.Linear):  # type: ignore[misc]
        """As torch names its own."""

    class Wrapped(FullyShardedDataParallel):
        """As fully_shard makes one of each module's own class."""

    if kind == "kept by FSDP":
        model[1] = FullyShardedDataParallel(2, 2)
    elif kind == "an FSDP of each module's class":
        model[1] = Wrapped(2, 2)
    elif kind == "emptied by ZeRO-3":
        for parameter in model.parameters():
            parameter.data = torch.empty(0)
    elif kind == "marked by ZeRO-2":
        model[1].weight._hp_mapping = None
    elif kind == "taken by FSDP":
        del model[1].weight


def test_sharding_after_the_callback_ends_all_ranks(make_swarm: MakeSwarm, run: Run) -> None:
    swarm = make_swarm(1)
    ended = run(swarm, (2,), {(0, 0): {"do": {"begin": "shard"}}}, callback={"minPeers": 1})
    assert [rank.code for rank in ended] == [1, 1]
    assert "model: has fewer parameters than when SwarmCallback was made" in ended[0].error
    assert "RankLostError" in ended[1].error
    assert not swarm.log


def test_torchrun_starts_ranks(make_swarm: MakeSwarm, tmp_path: pathlib.Path) -> None:
    """The same as torchrun starts it, in the program's own file."""
    swarm = make_swarm(1)
    program = tmp_path / "train.py"
    program.write_text(
        textwrap.dedent("""
        import sys, torch, torch.distributed as dist
        from swarmlearning.pyt import SwarmCallback

        dist.init_process_group("gloo")
        model = torch.nn.Linear(2, 1)
        swarm = SwarmCallback(syncFrequency=1, minPeers=1, model=torch.nn.parallel.DistributedDataParallel(model))
        swarm.on_train_begin()
        swarm.on_train_end()
        open(sys.argv[1] + str(dist.get_rank()), "w").write(repr(model.weight.tolist()))
    """)
    )
    env = {
        **os.environ,
        "SWARM_BRIDGE_DIR": swarm.peers[0].directory,
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        # torchrun of torch 1.13 fails on Python 3.11 without them.
        "PET_REDIRECTS": "1",
        "PET_TEE": "1",
    }
    # --standalone is always at one port, which two tests can't have at once.
    command = ["-m", "torch.distributed.run", "--nnodes=1", "--nproc_per_node=2", "--rdzv_backend=c10d"]
    command += ["--rdzv_endpoint=localhost:0", "--rdzv_id=one", f"--log_dir={tmp_path}/log"]
    done = subprocess.run([sys.executable, *command, str(program), str(tmp_path / "weights-")], env=env, timeout=120,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout
    weights = [path.read_text() for path in sorted(tmp_path.glob("weights-*"))]
    assert len(weights) == 2 and weights[0] == weights[1]
