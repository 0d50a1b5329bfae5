"""Merges by real daemons: values, types, the ends of training, late and slow peers."""

from __future__ import annotations

import pathlib
import threading
from typing import Any

import numpy as np
import pytest

from helpers import construct, events, together
from realswarm import RealSwarm
from swarmlearning.arrays import SwarmCallback


def make(swarm: RealSwarm, peer: int, contract: str, weights: dict[str, Any], metrics: Any = "", **more: Any) -> Any:
    options = {"syncFrequency": 1, "minPeers": 2, "trainingContract": contract, "totalEpochs": 1, **more}
    return construct(swarm.bridges[peer], lambda: SwarmCallback(weights=weights, **options), metrics)


def value(number: float) -> dict[str, Any]:
    return {"w": np.full(3, number, np.float32)}


def same_end(paths: list[pathlib.Path]) -> dict[str, Any]:
    """Check that all programs ended with the same bytes; give the last event of the first."""
    ends = [events(path)[-1] for path in paths]
    assert {end["event"] for end in ends} == {"end"}
    assert len({end["model_sha256"] for end in ends}) == 1
    return ends[0]


def test_weights_decide_the_mean(pair: RealSwarm, tmp_path: pathlib.Path) -> None:
    models = [value(0), value(4)]

    def program(peer: int) -> None:
        callback = make(pair, peer, "weights", models[peer], tmp_path / str(peer), nodeWeightage=1 + 2 * peer)
        callback.on_train_begin()
        callback.on_train_end()

    together(lambda: program(0), lambda: program(1))
    for model in models:
        np.testing.assert_array_equal(model["w"], np.full(3, 3, np.float32))
    assert same_end([tmp_path / "0", tmp_path / "1"])["rounds"] == 2
    status = pair.status("weights")
    assert status["committed"]["round"] == 2
    assert "completed" in pair.text("weights")


ALL_TYPES = ["float64", "float32", "float16", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


def test_every_type_of_numpy(pair: RealSwarm, tmp_path: pathlib.Path) -> None:
    # Means of 2 and 5: a half rounds to the even neighbour in integers.
    models: list[dict[str, Any]] = []
    for low in (2, 5):
        model: dict[str, Any] = {kind: np.array([[low, 10, 0], [1, low, 7]], kind) for kind in ALL_TYPES}
        model |= {
            "scalar": np.array(low, np.int64),
            "empty": np.empty((0, 4), np.float32),
            # A tie is not a majority.
            "bool": np.array([True, False, low == 2]),
            "big": np.array([2**62 + low], np.int64),
            "fortran": np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3) + low),
        }
        models.append(model)

    def program(peer: int) -> None:
        callback = make(pair, peer, "types", models[peer], tmp_path / str(peer))
        callback.on_train_begin()
        callback.on_train_end()

    together(lambda: program(0), lambda: program(1))
    same_end([tmp_path / "0", tmp_path / "1"])
    for model in models:
        for kind in ALL_TYPES:
            mean = 3.5 if kind.startswith("float") else 4
            want = np.array([[mean, 10, 0], [1, mean, 7]], kind)
            np.testing.assert_array_equal(model[kind], want, err_msg=kind)
            assert model[kind].dtype == want.dtype
        assert model["scalar"].shape == ()
        assert int(model["scalar"]) == 4
        assert model["bool"][:2].tolist() == [True, False]
        np.testing.assert_array_equal(model["fortran"], np.arange(6, dtype=np.float32).reshape(2, 3) + 3.5)
    assert models[0]["bool"].tolist() == models[1]["bool"].tolist()
    assert abs(int(models[0]["big"][0]) - 2**62) <= 1024  # accumulated in float64


# Peer 0 stops after one step with 16; peer 1 adds 4 in each of three steps, the last one only seen by the final round.
#                        round 2     round 3      round 4       final
#   snapshot   (16)      (8+0)/2=4   (16+8)/2=12  (16+16)/2=16  (16+20)/2=18
#   inactive   (none)    4           8            12            16
#   once       (16), again and again: the other alone would be the model
#   active     (merged)  4           (4+8)/2=6    (6+10)/2=8    (8+12)/2=10
@pytest.mark.parametrize(("mode", "want"), [("snapshot", 18), ("once", 18), ("inactive", 16), ("active", 10)])
def test_checkin_mode(pair: RealSwarm, tmp_path: pathlib.Path, mode: str, want: float) -> None:
    models = [value(0), value(0)]
    contract = f"checkin-{mode}"

    def program(peer: int) -> None:
        model = models[peer]["w"]
        callback = make(
            pair,
            peer,
            contract,
            models[peer],
            tmp_path / str(peer),
            checkinModelOnTrainEnd=mode if not peer else "snapshot",
        )
        callback.on_train_begin()
        model += 0 if peer else 8
        callback.on_batch_end()
        if peer == 0:
            model += 12
        else:
            for _ in range(2):
                model += 4
                callback.on_batch_end()
            model += 4
        callback.on_train_end()

    together(lambda: program(0), lambda: program(1))
    assert same_end([tmp_path / "0", tmp_path / "1"])["rounds"] == 5
    assert [model["w"].tolist() for model in models] == [[want] * 3] * 2


def test_slow_peer_learns_that_training_is_over(pair: RealSwarm, tmp_path: pathlib.Path) -> None:
    models = [value(0), value(2)]
    steps = [0, 0]

    def program(peer: int) -> None:
        callback = make(pair, peer, "over", models[peer], tmp_path / str(peer), minPeers=1)
        callback.on_train_begin()
        for _ in range(2 if peer == 0 else 1000):
            models[peer]["w"] += 1
            steps[peer] += 1
            callback.on_batch_end()
            if callback.training_over:
                break
        callback.on_train_end()

    together(lambda: program(0), lambda: program(1))
    same_end([tmp_path / "0", tmp_path / "1"])
    assert steps[1] < 100
    np.testing.assert_array_equal(models[0]["w"], models[1]["w"])


def test_late_joiner_takes_the_model_before_it_contributes(pair: RealSwarm, tmp_path: pathlib.Path) -> None:
    models = [value(0), value(1000)]
    trained, joined = threading.Event(), threading.Event()

    def first() -> None:
        callback = make(pair, 0, "late", models[0], tmp_path / "0", minPeers=1)
        callback.on_train_begin()
        models[0]["w"] += 5
        callback.on_batch_end()
        trained.set()
        assert joined.wait(30)
        for _ in range(50):
            callback.on_batch_end()
            if callback.training_over:
                break
        callback.on_train_end()

    def late() -> None:
        assert trained.wait(30)
        callback = make(pair, 1, "late", models[1], tmp_path / "1", minPeers=1)
        callback.on_train_begin()
        np.testing.assert_array_equal(models[1]["w"], np.full(3, 5, np.float32))
        joined.set()
        models[1]["w"] += 2
        callback.on_batch_end()
        callback.on_train_end()

    together(first, late)
    same_end([tmp_path / "0", tmp_path / "1"])
    merges = [event for event in events(tmp_path / "1") if event["event"] == "merge"]
    assert (merges[0]["contributed"], merges[0]["participants"]) == (False, ["sl-0"])
    assert merges[1]["contributed"]
    assert float(models[0]["w"][0]) > 5  # what the late one learned is in the final model
