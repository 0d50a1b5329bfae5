"""PyTorch programs beside real daemons."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import swarm as v03
from helpers import construct, events, together
from realswarm import ROOT, RealSwarm, environment, local_run
from swarmlearning.pyt import SwarmCallback

DATA = TensorDataset(torch.arange(48, dtype=torch.float32).reshape(12, 4) / 48, torch.tensor([0, 1] * 6))


class Odd(nn.Module):
    """What models have beside matrices: a 0-d counter (num_batches_tracked), a bfloat16 buffer, an empty tensor."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.layers = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))
        self.register_buffer("brain", torch.full((3,), float(seed), dtype=torch.bfloat16))
        self.register_buffer("none", torch.empty(0, 2))

    def forward(self, x: Any) -> Any:
        return self.layers(x)


def train(callback: Any, model: nn.Module, epochs: int) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    loader = DataLoader(DATA, batch_size=4)
    callback.on_train_begin()
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            callback.on_batch_end()
        callback.on_epoch_end(epoch)
    callback.on_train_end()


def test_rounds_of_an_odd_model(pair: RealSwarm, tmp_path: pathlib.Path) -> None:
    models = [Odd(1), Odd(4)]

    def program(peer: int) -> None:
        options: dict[str, Any] = {"syncFrequency": 1, "minPeers": 2, "trainingContract": "odd", "totalEpochs": 2}
        callback = construct(
            pair.bridges[peer],
            lambda: SwarmCallback(
                model=models[peer],
                adsValData=DataLoader(DATA, batch_size=4),
                lossFunction="CrossEntropyLoss",
                nodeWeightage=1 + peer,
                **options,
            ),
            tmp_path / str(peer),
        )
        train(callback, models[peer], 2)

    together(lambda: program(0), lambda: program(1))
    states = [model.state_dict() for model in models]
    for name, tensor in states[0].items():
        assert tensor.dtype == states[1][name].dtype, name
        assert torch.equal(tensor, states[1][name]), name
    assert states[0]["brain"].dtype == torch.bfloat16
    assert states[0]["brain"].tolist() == [3.0] * 3  # (1 + 2·4) / 3
    assert states[0]["layers.1.num_batches_tracked"].shape == ()
    assert int(states[0]["layers.1.num_batches_tracked"]) == 6
    ends = [events(tmp_path / str(peer))[-1] for peer in range(2)]
    assert ends[0]["model_sha256"] == ends[1]["model_sha256"]
    assert ends[0]["rounds"] == 1 + 6 + 1
    assert ends[0]["loss"] == pytest.approx(ends[1]["loss"])
    status = pair.status("odd")
    assert status["committed"]["round"] == 8


def test_version_03(pair: RealSwarm, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # It has no parameter for the contract, so this test has the default one to itself.
    models = [Odd(1), Odd(2)]

    def program(peer: int) -> None:
        callback = construct(
            pair.bridges[peer],
            lambda: v03.SwarmCallback(
                sync_interval=2, min_peers=2, val_data=DATA, val_batch_size=4, model_name="m", model=models[peer]
            ),
            tmp_path / str(peer),
        )
        train(callback, models[peer], 1)

    together(lambda: program(0), lambda: program(1))
    ends = [events(tmp_path / str(peer))[-1] for peer in range(2)]
    assert ends[0]["model_sha256"] == ends[1]["model_sha256"]
    assert ends[0]["loss"] > 0
    assert pair.status("defaultbb.cqdb.sml.hpe")["committed"]["round"] == 3


def test_loopback_leaves_the_swarm_alone(
    pair: RealSwarm, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWARM_LOOPBACK", "true")
    model = Odd(1)
    callback = construct(
        pair.bridges[0],
        lambda: SwarmCallback(2, 2, "loopback", model=model, totalEpochs=1),
        tmp_path / "m",
    )
    train(callback, model, 1)
    assert [event["event"] for event in events(tmp_path / "m")] == ["start", "epoch", "end"]
    assert "loopback" not in pair.command("list", "contracts").stdout


def test_digits_example(swarm_binaries: pathlib.Path, tmp_path: pathlib.Path) -> None:
    pytest.importorskip("sklearn")
    summary, printed = local_run(swarm_binaries, tmp_path, "digits-pyt", "PYT", 3)
    assert summary["models_equal"]
    assert all(peer["swarm_accuracy"] > 0.93 for peer in summary["peers"])
    assert all(peer["local_accuracy"] < 0.7 for peer in summary["peers"])
    assert printed.count("Final Swarm model was loaded.") >= 3
    assert (tmp_path / "out" / "sl-0" / "model.pt").stat().st_size > 0


def test_sklearn_example(swarm_binaries: pathlib.Path, tmp_path: pathlib.Path) -> None:
    pytest.importorskip("sklearn")
    summary, _ = local_run(swarm_binaries, tmp_path, "digits-sklearn", "PYT", 3, data="digits-pyt")
    assert summary["models_equal"]
    assert all(peer["swarm_accuracy"] > 0.85 for peer in summary["peers"])
    assert all(peer["local_accuracy"] < 0.7 for peer in summary["peers"])


def test_personal_example(swarm_binaries: pathlib.Path, tmp_path: pathlib.Path) -> None:
    source, out = ROOT / "examples" / "personal-pyt", tmp_path / "out"
    run = [str(swarm_binaries / "swarmctl"), "local", "run", "--peers", "3", "--platform", "PYT", "--python",
           sys.executable, "--model-dir", str(source), "--model-program", "train.py", "--out", str(out),
           "--timeout", "5m"]  # fmt: skip
    done = subprocess.run(run, env=environment(tmp_path), capture_output=True, text=True, timeout=330, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads((out / "summary.json").read_text())
    # Equal is what is merged; the heads are each peer's own.
    assert summary["models_equal"]
    heads = [torch.load(out / f"sl-{peer}" / "model.pt")["head.weight"] for peer in range(3)]
    assert not torch.equal(heads[0], heads[1])
    for peer in summary["peers"]:
        # Alone it is 0.67 at most, with merged heads 0.5.
        assert peer["swarm_accuracy"] > 0.69
