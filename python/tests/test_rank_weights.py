"""How ranks tell rounding from training apart."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest

from swarmlearning._rank_weights import MARGIN, SAMPLED, differs, stride, sums

TYPES = ["float32", "bfloat16", "float16"]
# Layers as models have them: matrices, scales around 1, biases that are still zero, and a single number.
SHAPES = [(1024, 0.02), (64, 1.0), (64, 0.0), (1024, 0.05), (10, 0.1), (1, 0.1)]


def rounded(values: Any, dtype: str) -> Any:
    """Give float32 values as the type has them."""
    values = values.astype(np.float32)
    if dtype == "float16":
        return values.astype(np.float16).astype(np.float32)
    return (values.view(np.uint32) & 0xFFFF0000).view(np.float32) if dtype == "bfloat16" else values


def nudged(values: Any, dtype: str, random: np.random.Generator) -> Any:
    """Give values whose last bit is another, up or down; or down and up, as after n batches."""
    if dtype == "float16":
        return np.nextafter(values.astype(np.float16), random.choice([-9, 9], values.size).astype(np.float16)).astype(
            "f4"
        )
    ulp = np.uint32(1 << 16 if dtype == "bfloat16" else 1)
    bits = values.view(np.uint32)
    return np.where(values == 0, bits, np.where(random.random(values.size) < 0.5, bits - ulp, bits + ulp)).view("f4")


def model(dtype: str, random: np.random.Generator) -> list[Any]:
    return [rounded(random.normal(size=size) * scale, dtype) for size, scale in SHAPES]


def apart(first: list[Any], other: list[Any], dtype: str, batches: int = 1) -> int:
    rows = [
        sums(((dtype, values) for values in weights), batches).view(np.int64).tolist() for weights in (first, other)
    ]
    return differs(rows)


@pytest.mark.parametrize("dtype", TYPES)
def test_rounding_is_none(dtype: str) -> None:
    """Of every weight, and at every batch, as where the type is float32."""
    for seed in range(30):
        random = np.random.default_rng(seed)
        first = model(dtype, random)
        assert not apart(first, first, dtype)
        other = [nudged(values, dtype, random) for values in first]
        assert not apart(first, other, dtype)
        if dtype == "float32":
            for _ in range(50):
                other = [nudged(values, dtype, random) for values in other]
            assert not apart(first, other, dtype, 50)


@pytest.mark.parametrize(("dtype", "step"), [("float32", 3e-6), ("bfloat16", 0.2), ("float16", 0.02)])
@pytest.mark.parametrize("which", [*range(len(SHAPES)), None])
def test_steps_of_its_own_are_training_apart(dtype: str, step: float, which: int | None) -> None:
    """Of all tensors, or of one tensor that alone is trained, ten times the more; those that were zero by any step."""
    for seed in range(30):
        random = np.random.default_rng(seed)
        first = model(dtype, random)
        other = list(first)
        for index, (size, scale) in enumerate(SHAPES):
            if which in (None, index):
                far = step * (scale or 0.01) * (1 if which is None else 10)
                other[index] = rounded(first[index] + far * random.choice([-1, 1], size), dtype)
        assert apart(first, other, dtype) == 1 or which in (4, 5), "a few numbers count as the chunk that they are in"


@pytest.mark.parametrize("size", [1, 3, 64, 65])
def test_models_of_any_size(size: int) -> None:
    for seed in range(30):
        random = np.random.default_rng(seed)
        first = [random.normal(size=size).astype("f4")]
        assert not apart(first, [nudged(first[0], "float32", random)], "float32")
        assert apart(first, [first[0] * np.float32(1.0001)], "float32")
    assert apart([np.zeros(size, "f4")], [np.full(size, 1e-9, "f4")], "float32")
    assert not apart([], [], "float32")


def test_a_weight_that_is_almost_zero_does_not_count_alone() -> None:
    """A bias that was 1 has an error of that size, wherever it is now."""
    random = np.random.default_rng(0)
    first = [random.normal(size=1024).astype("f4"), np.array([1e-6], "f4")]
    assert not apart(first, [first[0], first[1] + np.float32(2.0**-23)], "float32")


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_what_is_not_finite(odd: float) -> None:
    """At rank 0 it is for the merge to say; elsewhere alone it is another model."""
    fine, broken = np.ones(100, "f4"), np.full(100, odd, "f4")
    assert not apart([broken], [broken], "float32")
    assert not apart([broken], [fine], "float32")
    assert apart([fine], [broken], "float32") == 1


def test_the_rank_is_named() -> None:
    far = np.full(8, 3 * MARGIN)
    rows: Callable[[Any], list[int]] = lambda value: np.asarray(value, float).view(np.int64).tolist()  # noqa: E731
    assert differs([rows(far), rows(far + MARGIN), rows(far + 1.1 * MARGIN)]) == 2


def test_large_parameters_are_sampled_everywhere() -> None:
    for elements in (1, SAMPLED, 10 * SAMPLED + 7):
        taken = range(0, elements, stride(elements))[:SAMPLED]
        assert len(taken) == min(elements, SAMPLED) and taken[-1] >= elements * 0.9 - 1
