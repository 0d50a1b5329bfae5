"""The merge method in the words of the bridge: a name and, in parentheses, its parameters."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from swarmlearning.errors import ParameterError

# Which methods and parameters there are is the daemon's knowledge; here is only checked what would garble its answer.
_METHOD = re.compile(r"[a-z0-9_]+ *(\([a-z0-9_ =,.+-]*\))?")
_NAME = re.compile(r"[a-z0-9_]+")
_WORD = re.compile(r"[a-z][a-z0-9_]*")
_EXAMPLE = 'give a dict, like {"f": 1} or {"wire": "bfloat16"}'


def method_text(method: object, params: object) -> str:
    """Give what mergeMethod and mergeParams say as one text, like "krum(f=2)"; "" when neither is given.

    The daemon fills in the parameters that are left out, and refuses what it does not know.
    """
    if method is None:
        if params is not None:
            raise ParameterError("mergeParams: is given without mergeMethod", 'give mergeMethod too, like "krum"')
        return ""
    text = method.strip().lower() if isinstance(method, str) else ""
    if not _METHOD.fullmatch(text):
        raise ParameterError(
            f"mergeMethod: {method!r} is not allowed", 'give the name of a method, like "coordmedian" or "krum(f=1)"'
        )
    if params is None:
        return text
    if not isinstance(params, Mapping):
        raise ParameterError(f"mergeParams: {params!r} is not allowed", _EXAMPLE)
    if "(" in text and params:
        raise ParameterError(
            "mergeParams: mergeMethod has parameters already", f"give {method!r} alone, or its name and mergeParams"
        )
    given = [f"{_name(name)}={_value(name, value)}" for name, value in params.items()]
    return f"{text}({','.join(given)})" if given else text


def _name(name: object) -> str:
    text = name.strip().lower() if isinstance(name, str) else ""
    if not _NAME.fullmatch(text):
        raise ParameterError(f"mergeParams: {name!r} is no name", _EXAMPLE)
    return text


def _value(name: object, value: object) -> str:
    """Give a number, or a word, which only some parameters take: the daemon knows which."""
    if isinstance(value, str) and _WORD.fullmatch(value.strip().lower()):
        return value.strip().lower()
    number = math.nan
    if not isinstance(value, (bool, str, bytes)):
        try:
            number = float(value)  # type: ignore[arg-type]  # numpy's numbers too.
        except (TypeError, ValueError, OverflowError):
            pass
    if not math.isfinite(number):
        raise ParameterError(f"mergeParams: {name} is {value!r}", 'give a finite number, or a word like "bfloat16"')
    return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)
