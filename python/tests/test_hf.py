"""Hugging Face transformers: a Trainer whose whole model, or whose adapters alone, are merged."""

from __future__ import annotations

import json
import os
import pathlib
import socket
import subprocess
import sys
import types
from typing import Any, Callable

import pytest

from fakeswarm import FakeSwarm
from helpers import construct, events, together

# Nothing is to be looked up at the hub.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")

import torch

from swarmlearning import errors
from swarmlearning._pyt_shards import Whole
from swarmlearning.hf_transformers import SwarmCallback

MakeSwarm = Callable[..., FakeSwarm]


def bert(seed: int) -> Any:
    transformers.set_seed(seed)
    config = transformers.BertConfig(
        vocab_size=40, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=16, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return transformers.BertForSequenceClassification(config)


def with_lora(seed: int, base: Any = None) -> Any:
    base = base or bert(0)
    transformers.set_seed(seed)
    return peft.get_peft_model(base, peft.LoraConfig(task_type="SEQ_CLS", r=2, init_lora_weights=False))


def samples(seed: int, count: int = 16) -> Any:
    torch.manual_seed(seed)
    rows = torch.randint(0, 40, (count, 6))
    return [{"input_ids": row, "labels": int(row[0] < 20)} for row in rows]


def make(swarm: FakeSwarm, peer: int, model: Any, metrics: Any = "", **kwargs: Any) -> SwarmCallback:
    options = {"syncFrequency": 2, "minPeers": len(swarm.peers), "totalEpochs": 2, "model": model, **kwargs}
    return construct(swarm.peers[peer].directory, lambda: SwarmCallback(**options), metrics)


def trainer(
    model: Any, callback: SwarmCallback, data: Any, where: pathlib.Path, validation: Any = None, **options: Any
) -> Any:
    arguments = transformers.TrainingArguments(
        output_dir=str(where), num_train_epochs=2, per_device_train_batch_size=4, learning_rate=1e-3, report_to=[],
        save_strategy="no", logging_strategy="no", use_cpu=True, disable_tqdm=True, **options,
    )  # fmt: skip
    return transformers.Trainer(
        model=model, args=arguments, train_dataset=data, eval_dataset=validation, callbacks=[callback]
    )


def tensors(model: Any) -> dict[str, Any]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def test_whole_models_become_equal(make_swarm: MakeSwarm, tmp_path: pathlib.Path) -> None:
    swarm = make_swarm(2, poll=0.05)
    models = [bert(1), bert(2)]
    calls = [make(swarm, i, models[i], tmp_path / f"m{i}", adsValData=samples_loader(9)) for i in range(2)]
    # Made one after the other: what transformers imports late may not be imported by two threads at once.
    together(*[trainer(models[i], calls[i], samples(i), tmp_path / str(i)).train for i in range(2)])
    one, two = tensors(models[0]), tensors(models[1])
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert [tensor["name"] for tensor in swarm.log[0][2]["tensors"]] == list(one)
    end = events(tmp_path / "m0")[-1]
    assert end["loss"] > 0
    assert (calls[0].epochsCompleted, calls[0].mlPlatform) == (2, "HF_TRANSFORMER")


def test_what_the_trainer_measures_is_the_epochs(make_swarm: MakeSwarm, tmp_path: pathlib.Path) -> None:
    model = bert(1)
    callback = make(make_swarm(1), 0, model, tmp_path / "m")
    made = trainer(model, callback, samples(1), tmp_path / "t", samples(2), eval_strategy="epoch")
    made.train()
    measured = [entry["eval_loss"] for entry in made.state.log_history if "eval_loss" in entry]
    written = [e["loss"] for e in events(tmp_path / "m") if e["event"] == "epoch" and e["loss"] is not None]
    assert written == pytest.approx(measured)
    assert len(written) == 2
    before = (tmp_path / "m").read_text()
    made.evaluate()
    assert (tmp_path / "m").read_text() == before


def samples_loader(seed: int) -> Any:
    return torch.utils.data.DataLoader(samples(seed), batch_size=4)


@pytest.mark.parametrize("mode", [None, "PEFT"])
def test_adapters_alone_are_merged(make_swarm: MakeSwarm, tmp_path: pathlib.Path, mode: Any) -> None:
    swarm = make_swarm(2, poll=0.05)
    # Different bases: they stay, which they would not if they were merged.
    models = [with_lora(1, bert(1)), with_lora(2, bert(2))]
    before = [tensors(model) for model in models]
    options = {} if mode is None else {"hfMode": mode}
    calls = [make(swarm, i, models[i], **options) for i in range(2)]
    together(*[trainer(models[i], calls[i], samples(i), tmp_path / str(i)).train for i in range(2)])
    merged = {tensor["name"] for tensor in swarm.log[0][2]["tensors"]}
    assert merged
    assert all("lora_" in name or "classifier" in name for name in merged)
    one, two = tensors(models[0]), tensors(models[1])
    for name in one:
        if name in merged:
            # Installed in the model, which the original's loading misses.
            assert torch.equal(one[name], two[name]), name
            assert not torch.equal(one[name], before[0][name]), name
        else:
            assert torch.equal(one[name], before[0][name]), name
            assert torch.equal(two[name], before[1][name]), name


def test_full_merges_the_base_too(make_swarm: MakeSwarm) -> None:
    swarm = make_swarm(1)
    model = with_lora(1)
    make(swarm, 0, model, hfMode="full").on_train_begin(None, None, transformers.TrainerControl())
    assert len(swarm.log[0][2]["tensors"]) == len(model.state_dict())


def test_steps_are_those_of_the_optimizer(make_swarm: MakeSwarm, tmp_path: pathlib.Path) -> None:
    swarm = make_swarm(1)
    model = bert(1)
    callback = make(swarm, 0, model, syncFrequency=1)
    trainer(model, callback, samples(1), tmp_path, gradient_accumulation_steps=2).train()
    # 2 epochs of 4 batches make 4 steps: a merge at the begin, one after each, and the last.
    assert callback.round == 6


def test_trainer_stops_when_the_swarm_is_over(make_swarm: MakeSwarm, tmp_path: pathlib.Path) -> None:
    swarm = make_swarm(1)
    model = bert(1)
    callback = make(swarm, 0, model, syncFrequency=3)
    swarm.over = True
    stopped = trainer(model, callback, samples(1), tmp_path)
    stopped.train()
    assert stopped.state.global_step == 1
    assert callback.isSwarmTrainingOver


def test_loss_is_the_models_own(make_swarm: MakeSwarm, tmp_path: pathlib.Path) -> None:
    model, data = bert(1), samples(3, 6)
    # A dataset is batched as the Trainer batches it.
    callback = make(make_swarm(1), 0, model, tmp_path / "m", adsValData=Samples(data), adsValBatchSize=4)
    callback.on_train_begin(None, None, transformers.TrainerControl())
    batch = transformers.default_data_collator(data)
    with torch.no_grad():
        want = float(model.eval()(**batch).loss)
    assert events(tmp_path / "m")[-1]["loss"] == pytest.approx(want, rel=1e-5)


class Samples(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Any:
        return self.rows[index]


@pytest.mark.parametrize(
    ("model", "kwargs", "text"),
    [
        (lambda: bert(0), {"hfMode": "peft"}, "hfMode: 'peft', but the model has no adapters"),
        (lambda: bert(0), {"hfMode": "lora"}, "hfMode: 'lora' is not allowed .*full, peft"),
        (lambda: bert(0), {"ml_platform": "KERAS"}, "ml_platform: 'KERAS' does not fit .*swarmlearning.tf"),
        (lambda: None, {}, "model: NoneType"),
    ],
)
def test_wrong_parameters(
    monkeypatch: pytest.MonkeyPatch, model: Callable[[], Any], kwargs: dict[str, Any], text: str
) -> None:
    monkeypatch.setenv("SWARM_LOOPBACK", "true")
    with pytest.raises(errors.SwarmError, match=text):
        SwarmCallback(1, 1, model=model(), **kwargs)


def test_another_model_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setenv("SWARM_LOOPBACK", "true")
    with pytest.raises(errors.ModelChangedError, match="another model than the SwarmCallback was given"):
        trainer(bert(1), SwarmCallback(1, 1, model=bert(1)), samples(1), tmp_path).train()


def test_validation_data_without_labels(make_swarm: MakeSwarm) -> None:
    data = torch.utils.data.DataLoader([{"input_ids": torch.zeros(6, dtype=torch.int64)}], batch_size=1)
    callback = make(make_swarm(1), 0, bert(1), adsValData=data)
    with pytest.raises(errors.SwarmError, match="adsValData has no labels"):
        callback.on_train_begin(None, None, transformers.TrainerControl())


@pytest.mark.parametrize(
    ("arguments", "env", "kind"),
    [
        ({"deepspeed": "zero2.json"}, "", "DeepSpeed"),
        ({"fsdp": ["full_shard"]}, "", "FSDP"),
        ({}, "ACCELERATE_USE_DEEPSPEED", "DeepSpeed"),
        ({}, "ACCELERATE_USE_FSDP", "FSDP"),
    ],
)
def test_a_trainer_that_shards_is_refused(
    make_swarm: MakeSwarm, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any], env: str, kind: str
) -> None:
    """With several ranks; ZeRO-1 and 2 leave the model whole, and write it anew after each step."""
    swarm = make_swarm(1)
    callback = make(swarm, 0, bert(1))
    if env:
        monkeypatch.setenv(env, "true")
    callback._whole = Whole(callback._model)
    with pytest.raises(errors.ParameterError, match=rf"model: is sharded among the ranks \({kind}\)"):
        callback.on_train_begin(types.SimpleNamespace(**arguments), None, transformers.TrainerControl())
    assert not swarm.log


RANKS = """
import hashlib, json, os, sys

import torch

import test_hf

directory, store, out = sys.argv[1:]
rank = 0 if os.fork() else 1
os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", SWARM_BRIDGE_DIR=directory)
arguments = test_hf.transformers.TrainingArguments(
    output_dir=out, num_train_epochs=2, per_device_train_batch_size=4, report_to=[], save_strategy="no",
    logging_strategy="no", use_cpu=True, disable_tqdm=True, ddp_backend="gloo",
)
model = test_hf.bert(rank)
callback = test_hf.SwarmCallback(syncFrequency=1, minPeers=1, totalEpochs=2, model=model, adsValData=test_hf.samples_loader(9))
test_hf.transformers.Trainer(model=model, args=arguments, train_dataset=test_hf.samples(1), callbacks=[callback]).train()
digest = hashlib.sha256(b"".join(value.numpy().tobytes() for value in model.state_dict().values())).hexdigest()
with open(out + str(rank), "w") as file:
    json.dump([digest, callback.round, callback.samples, callback.epochs_completed], file)
if rank == 0:
    raise SystemExit(os.wait()[1] != 0)
"""


def test_ranks_of_a_trainer_are_one_peer(make_swarm: MakeSwarm, tmp_path: pathlib.Path) -> None:
    """As torchrun and accelerate start it; the Trainer gives the callback its wrapped model, and the ranks their data."""
    swarm = make_swarm(1, poll=0.2)
    program = tmp_path / "train.py"
    program.write_text(RANKS)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    env = {
        **os.environ,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    env["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, str(program), swarm.peers[0].directory, str(tmp_path), str(tmp_path / "rank-")], env=env,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    ranks = [json.loads((tmp_path / f"rank-{rank}").read_text()) for rank in (0, 1)]
    assert ranks[0] == ranks[1]
    # 16 samples for two ranks: two steps of four each in an epoch; a round for each step, the first and the last one.
    assert ranks[0][1:] == [6, 32, 2]
    assert [entry[1] for entry in swarm.log].count("/v1/session") == 1
