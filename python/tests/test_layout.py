from __future__ import annotations

import hashlib

import numpy as np
import pytest

from swarmlearning import errors
from swarmlearning.layout import Layout, Tensor, all_finite


def test_offsets_are_aligned_to_the_element_size() -> None:
    layout = Layout([
        Tensor("a", "uint8", (3,)), Tensor("b", "float64", ()), Tensor("c", "bool", (1,)), Tensor("d", "bfloat16", (2, 2)),
        Tensor("e", "float32", (0, 7)), Tensor("f", "float32", (1,)),
    ])  # fmt: skip
    assert layout.offsets == (0, 8, 16, 18, 28, 28)
    assert layout.nbytes == 32


def test_float32_has_no_padding() -> None:
    layout = Layout([Tensor("a", "float32", (3, 5)), Tensor("b", "float32", ()), Tensor("c", "float32", (2,))])
    assert layout.nbytes == 4 * 18


def test_views_share_memory_and_sha_skips_padding() -> None:
    layout = Layout([Tensor("a", "uint8", (1,)), Tensor("b", "float64", (2,)), Tensor("z", "float64", (0,))])
    buffer = bytearray(b"\xff" * layout.nbytes)
    layout.view(buffer, 0)[...] = 5
    layout.view(buffer, 1)[...] = [1.0, -2.0]
    assert layout.view(buffer, 2).shape == (0,)
    want = b"\x05" + np.array([1.0, -2.0], "<f8").tobytes()
    assert layout.sha256(buffer) == hashlib.sha256(want).hexdigest()
    assert bytes(buffer[1:8]) == b"\xff" * 7


@pytest.mark.parametrize(
    ("tensors", "error", "text"),
    [
        ([], errors.ParameterError, "no tensors"),
        ([Tensor("a", "complex64", (1,))], errors.DTypeError, 'tensor "a": type complex64'),
        ([Tensor("", "float32", (1,))], errors.ParameterError, "name must have"),
        ([Tensor("n" * 513, "float32", (1,))], errors.ParameterError, "name must have"),
        ([Tensor("a", "int8", (1,)), Tensor("a", "int8", (1,))], errors.ParameterError, "used twice"),
        ([Tensor("a", "int8", (1 << 21, 1 << 20))], errors.ParameterError, "2\\^40"),
    ],
)
def test_bounds(tensors: list[Tensor], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Layout(tensors)


def test_other_offsets_of_the_daemon_are_an_error() -> None:
    layout = Layout([Tensor("a", "int8", (4,))])
    layout.check_reply([0], 4)
    with pytest.raises(errors.ProtocolError):
        layout.check_reply([0], 8)


@pytest.mark.parametrize(
    ("dtype", "array", "want"),
    [
        ("float32", np.array([1, np.nan], np.float32), False),
        ("float16", np.array([1, np.inf], np.float16), False),
        ("float64", np.array(3.0), True),
        ("bfloat16", np.array([0x7F80], np.uint16), False),
        ("bfloat16", np.array([0xFFC1], np.uint16), False),
        ("bfloat16", np.array([0x7F7F, 0x3F80], np.uint16), True),
        ("int64", np.array([1]), True),
        ("float32", np.zeros((0,), np.float32), True),
    ],
)
def test_all_finite(dtype: str, array: np.ndarray, want: bool) -> None:
    assert all_finite(dtype, array) is want
