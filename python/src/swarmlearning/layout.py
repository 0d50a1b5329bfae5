"""Where each tensor of a model lies in a weight slot: one flat file, little endian, C order.

A tensor starts at the next multiple of its own element size. The daemon makes the canonical layout and its digest;
this module computes the same offsets, so that a disagreement is seen before a byte is written.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from swarmlearning.errors import DTypeError, ParameterError, ProtocolError

Array = npt.NDArray[Any]
Buffer = Union[bytes, bytearray, memoryview]

ITEM_SIZES: dict[str, int] = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "uint8": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "uint64": 8,
    "bool": 1,
}

MAX_TENSORS = 100_000
MAX_NAME_BYTES = 512
MAX_ELEMENTS = 1 << 40


def storage_dtype(dtype: str) -> np.dtype[Any]:
    """Give the numpy type that carries dtype's bits: bfloat16, which numpy lacks, travels as uint16."""
    name = "uint16" if dtype == "bfloat16" else dtype
    return np.dtype(name).newbyteorder("<")


@dataclass(frozen=True)
class Tensor:
    """Name, type and shape of one tensor."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Number of elements; 1 for a 0-d tensor."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes in the slot, without padding."""
        return self.elements * ITEM_SIZES[self.dtype]

    def as_json(self) -> dict[str, object]:
        """Give the form of the bridge's session request."""
        return {"name": self.name, "dtype": self.dtype, "shape": list(self.shape)}


class Layout:
    """Tensors in order with their offsets. Immutable."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        """Check the bounds that the daemon holds too and compute the offsets."""
        _check(tensors)
        self.tensors = tuple(tensors)
        offsets = []
        end = 0
        for tensor in self.tensors:
            size = ITEM_SIZES[tensor.dtype]
            end = (end + size - 1) // size * size
            offsets.append(end)
            end += tensor.nbytes
        self.offsets = tuple(offsets)
        self.nbytes = end

    def fingerprint(self) -> int:
        """Give a number below 2^63 by which processes compare their layouts."""
        text = repr([(tensor.name, tensor.dtype, tensor.shape) for tensor in self.tensors])
        return digest_number(text.encode())

    def check_reply(self, offsets: Sequence[int], nbytes: int) -> None:
        """Compare with what the daemon computed."""
        if list(offsets) != list(self.offsets) or nbytes != self.nbytes:
            raise ProtocolError(
                f"daemon lays the model out in {nbytes} bytes, this package in {self.nbytes}",
                "install the swarmlearning package that belongs to this swarmd",
            )

    def view(self, buffer: Buffer, index: int) -> Array:
        """View tensor number index inside buffer; no copy, writable if the buffer is."""
        tensor = self.tensors[index]
        if not tensor.elements:
            return np.empty(tensor.shape, dtype=storage_dtype(tensor.dtype))
        flat = np.frombuffer(
            buffer, dtype=storage_dtype(tensor.dtype), count=tensor.elements, offset=self.offsets[index]
        )
        return flat.reshape(tensor.shape)

    def sha256(self, buffer: Buffer) -> str:
        """SHA-256 over the tensors' bytes in order, without padding: model_sha256."""
        digest = hashlib.sha256()
        view = memoryview(buffer)
        for tensor, offset in zip(self.tensors, self.offsets):
            digest.update(view[offset : offset + tensor.nbytes])
        return digest.hexdigest()


def _check(tensors: Sequence[Tensor]) -> None:
    if not tensors:
        raise ParameterError("model: has no tensors", "give a model with at least one parameter")
    if len(tensors) > MAX_TENSORS:
        raise ParameterError(f"model: has {len(tensors)} tensors, at most {MAX_TENSORS} are allowed")
    seen: set[str] = set()
    for tensor in tensors:
        if tensor.dtype not in ITEM_SIZES:
            raise DTypeError(
                f'tensor "{tensor.name}": type {tensor.dtype} can not be merged',
                f"allowed are {', '.join(ITEM_SIZES)}",
            )
        if not 1 <= len(tensor.name.encode()) <= MAX_NAME_BYTES:
            raise ParameterError(f'tensor "{tensor.name[:80]}": name must have 1 to {MAX_NAME_BYTES} bytes')
        if tensor.name in seen:
            raise ParameterError(f'tensor "{tensor.name}": name is used twice', "give each tensor a name of its own")
        seen.add(tensor.name)
        if tensor.elements > MAX_ELEMENTS:
            raise ParameterError(f'tensor "{tensor.name}": more than 2^40 elements')


def all_finite(dtype: str, array: Array) -> bool:
    """Tell whether no element is NaN or infinite; array holds dtype's bits as storage_dtype has them."""
    if dtype == "bfloat16":
        # The exponent's eight bits all set mean NaN or infinity.
        return not bool(np.any((array & 0x7F80) == 0x7F80))
    if dtype.startswith("float"):
        return bool(np.isfinite(array).all())
    return True


def digest_number(data: bytes) -> int:
    """Give a number below 2^63 by which processes compare what they have."""
    return int.from_bytes(hashlib.sha256(data).digest()[:8], "big") >> 1
