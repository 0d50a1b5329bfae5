"""Merge methods and the adaptive interval by real daemons, against the reference."""

from __future__ import annotations

import pathlib
import runpy
from collections.abc import Iterator
from typing import Any, Callable

import numpy as np
import pytest

from helpers import construct, events, together
from realswarm import ROOT, RealSwarm
from swarmlearning import errors
from swarmlearning.arrays import SwarmCallback

PEERS = 5
REFERENCE = runpy.run_path(str(ROOT / "merge" / "testdata" / "reference.py"), run_name="reference")
METHODS = [
    "mean",
    "coordmedian",
    "trimmedmean(share=0.25)",
    "geomedian",
    "krum(f=1)",
    "multikrum(f=1,m=3)",
    "bulyan(f=0)",
    "normclip(factor=1.5,cap=0)",
    "fedavgm(lr=0.5,momentum=0.5)",
    "fedadam(lr=0.1,beta1=0.5,beta2=0.9,tau=0.1)",
    "fedyogi(lr=0.1,beta1=0.5,beta2=0.9,tau=0.1)",
    "diloco(lr=0.7,momentum=0.9)",
]


@pytest.fixture(scope="module")
def five(start_swarm: Callable[[int], RealSwarm]) -> Iterator[RealSwarm]:
    """Five peers, which krum needs for one liar."""
    swarm = start_swarm(PEERS)
    yield swarm
    assert swarm.close() == 0


def make(swarm: RealSwarm, peer: int, contract: str, weights: dict[str, Any], metrics: Any = "", **more: Any) -> Any:
    options = {"syncFrequency": 1, "minPeers": 2, "trainingContract": contract, "totalEpochs": 1, **more}
    return construct(swarm.bridges[peer], lambda: SwarmCallback(weights=weights, **options), metrics)


def reference(method: str, rows: list[Any], before: dict[str, Any]) -> dict[str, Any]:
    """Give what a round after another one must come to."""
    case = {"method": method, "weights": list(range(1, PEERS + 1)), "contributors": rows, "base": before.get("want"),
            "state": before.get("state"), "dtypes": ["float32"], "shapes": [[len(rows[0])]]}  # fmt: skip
    merged, state = REFERENCE["merge"](case)
    return {"want": merged, "state": state}


@pytest.mark.parametrize("method", METHODS)
def test_methods_agree_with_the_reference(five: RealSwarm, tmp_path: pathlib.Path, method: str) -> None:
    random = np.random.RandomState(5)
    first, steps = (random.standard_normal((PEERS, 6)).astype(np.float32) for _ in range(2))
    models = [{"w": row.copy()} for row in first]
    seen: list[Any] = [None] * PEERS

    def program(peer: int) -> None:
        options = {"minPeers": PEERS, "nodeWeightage": peer + 1, "mergeMethod": method.upper()}
        callback = make(five, peer, f"method-{METHODS.index(method)}", models[peer], tmp_path / str(peer), **options)
        callback.on_train_begin()
        models[peer]["w"] += steps[peer]
        callback.on_batch_end()
        seen[peer] = models[peer]["w"].copy()
        callback.on_train_end()

    together(*(lambda peer=peer: program(peer) for peer in range(PEERS)))
    one = reference(method, list(first), {})
    two = reference(method, [one["want"] + step for step in steps], one)
    end = reference(method, [two["want"]] * PEERS, two)
    for peer in range(PEERS):
        np.testing.assert_allclose(seen[peer], two["want"], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(models[peer]["w"], end["want"], rtol=1e-4, atol=1e-5)
    ends = [events(tmp_path / str(peer))[-1] for peer in range(PEERS)]
    assert len({event["model_sha256"] for event in ends}) == 1
    assert [event["rounds"] for event in ends] == [3] * PEERS


def test_a_liar_is_not_chosen(five: RealSwarm) -> None:
    models = [{"w": np.full(3, 1 + peer / 100, np.float32)} for peer in range(PEERS)]
    models[4]["w"][:] = 1e6

    def program(peer: int) -> None:
        options = {"minPeers": PEERS, "nodeWeightage": 100 if peer == 4 else 1, "mergeParams": {"f": 1}}
        callback = make(five, peer, "liar", models[peer], mergeMethod="Krum", **options)
        callback.on_train_begin()
        callback.on_train_end()

    together(*(lambda peer=peer: program(peer) for peer in range(PEERS)))
    for model in models:
        assert 1 <= model["w"][0] < 1.05


@pytest.mark.parametrize(
    ("method", "params", "text"),
    [
        ("krumm", None, 'there is no "krumm": use one of bulyan, coordmedian, '),
        ("krum", {"f": -1}, 'parameter f is "-1": want a whole number from 0'),
        ("krum", {"g": 1}, 'no parameter "g": use f'),
    ],
)
def test_refused_methods_reach_the_program(
    pair: RealSwarm, capsys: pytest.CaptureFixture[str], method: str, params: Any, text: str
) -> None:
    callback = make(pair, 0, "refused", {"w": np.ones(1)}, mergeMethod=method, mergeParams=params)
    with pytest.raises(errors.ParameterError) as caught:
        callback.on_train_begin()
    assert caught.value.reason == "BAD_METHOD"
    assert caught.value.remedy
    assert text in caught.value.message
    assert text not in capsys.readouterr().out  # Python says it when it ends the program; once is enough.


# The first losses are there at the second merge, the first comparison at the third; then each is twice as far. With
# overlap each is taken, measured and followed one interval later.
@pytest.mark.parametrize(("overlap", "want"), [(False, [0, 2, 4, 8, 16]), (True, [0, 4, 6, 10, 18])])
def test_adaptive_interval(pair: RealSwarm, overlap: bool, want: list[int]) -> None:
    merges: list[list[int]] = [[], []]

    def program(peer: int) -> None:
        # One is measured by the callback, the other measures by itself, which it can't with overlap.
        round_of: list[Any] = []
        options: dict[str, Any] = {"useAdaptiveSync": True, "syncFrequency": 2, "overlap": overlap}
        if peer == 0 or overlap:
            options["evaluate"] = lambda: 2.0 ** -round_of[0].round
        callback = make(pair, peer, f"adaptive-{overlap}", {"w": np.ones(1)}, **options)
        round_of.append(callback)
        known = 0
        callback.on_train_begin()
        for batch in range(31):
            if callback.round != known:
                known = callback.round
                merges[peer].append(batch)
                if "evaluate" not in options:
                    callback.report(2.0**-known)
            callback.on_batch_end()
            # What is measured then must not displace the merged model's loss.
            callback.on_epoch_end()
        callback.on_train_end()

    together(lambda: program(0), lambda: program(1))
    assert merges == [want] * 2
