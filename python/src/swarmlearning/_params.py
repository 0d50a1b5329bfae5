"""The parameters of every SwarmCallback, checked before anything happens."""

from __future__ import annotations

import difflib
import logging
import math
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, Optional

from swarmlearning._method import method_text
from swarmlearning.errors import ParameterError

DEFAULT_CONTRACT = "defaultbb.cqdb.sml.hpe"
CHECKIN_MODES = ("inactive", "snapshot", "active", "once")
LOG_FORMAT = "%(asctime)s : %(name)s : %(levelname)s : %(message)s"
LOGGER_NAME = "SwarmCallback"
MAX_WEIGHT = 100
MAX_SAMPLES = 1 << 30  # larger numbers of samples weigh as this one
BY_SAMPLES = "samples"

# Frameworks by the original's names, and where the SwarmCallback for each is.
_MODULES = {
    "PYTORCH": "swarmlearning.pyt",
    "KERAS": "swarmlearning.tf",
    "HF_TRANSFORMER": "swarmlearning.hf_transformers",
    "SKLEARN": "swarmlearning.sklearn",
    "NUMPY": "swarmlearning.arrays",
}
# What the callback of each takes beside the parameters that all share, to guess what a misspelled one was to be.
_SCORING = ("adsValBatchSize", "lossFunction", "lossFunctionArgs", "metricFunction", "metricFunctionArgs")
_SHARED = ("syncFrequency", "minPeers", "trainingContract", "logger", "localLayers", "fedProxMu", "fedProxHook")
_OWN: Mapping[str, tuple[str, ...]] = {
    "PYTORCH": (*_SHARED, *_SCORING, "model"),
    "KERAS": (*_SHARED, "adsValBatchSize", "model"),
    "HF_TRANSFORMER": (*_SHARED, *_SCORING, "model", "hfMode"),
    "SKLEARN": (*_SHARED, "model", "parameters"),
    "NUMPY": (*_SHARED, "weights", "get", "set", "evaluate"),
}
_PLATFORMS = {**{name: name for name in _MODULES}, "PYT": "PYTORCH", "TENSORFLOW": "KERAS"}


@dataclass(frozen=True)
class Params:
    """Checked parameters, in the words of the bridge."""

    sync_frequency: int
    min_peers: int
    contract: str = DEFAULT_CONTRACT
    total_epochs: int = 0
    # Empty: the program chose none, so the contract's rules or the node decide.
    checkin_mode: str = ""
    weight: int = 1
    method: str = ""
    adaptive: bool = False
    overlap: bool = False
    data_samples: Optional[int] = None
    by_samples: bool = False  # nodeWeightage is the number of samples, and weight says nothing.

    def shared(self) -> dict[str, object]:
        """Give what all ranks of a peer must have alike, by the programs' names; refuse what ranks can't do."""
        if self.overlap:
            raise ParameterError("overlap: a peer of several ranks can't train while a merge travels", "leave it out")
        return {
            "SWARM_LOOPBACK": int(loopback()),
            "trainingContract": self.contract,
            "syncFrequency": self.sync_frequency,
            "minPeers": self.min_peers,
            "totalEpochs": self.total_epochs,
            "checkinModelOnTrainEnd": self.checkin_mode,
            "nodeWeightage": BY_SAMPLES if self.by_samples else str(self.weight),
            "mergeMethod": self.method,
            "useAdaptiveSync": int(self.adaptive),
            "trainData, the samples of all ranks": -1 if self.data_samples is None else self.data_samples,
        }

    def terms(self) -> dict[str, object]:
        """Give the fields of the open request; without a method the contract's is taken, else the mean."""
        terms: dict[str, object] = {
            "contract": self.contract,
            "min_peers": self.min_peers,
            "sync_frequency": self.sync_frequency,
            "adaptive": self.adaptive,
            "weight": self.weight,
            "total_epochs": self.total_epochs,
        }
        if self.checkin_mode:
            terms["checkin_mode"] = self.checkin_mode
        if self.method:
            terms["method"] = self.method
        if self.by_samples:
            terms["weights"] = BY_SAMPLES
            terms["weight"] = 1 if self.data_samples is None else min(self.data_samples, MAX_SAMPLES)
        return terms


def check(  # noqa: PLR0913 - the required parameters, and what the caller is.
    sync_frequency: object,
    min_peers: object,
    contract: object,
    options: Mapping[str, object],
    platform: str,
    logger: logging.Logger,
) -> Params:
    """Check the parameters that all frameworks share.

    options are the optional ones by their public names; the framework has taken its own out, so what is not known
    here is unknown altogether: said in the log, then ignored, as the original does. platform is the ml_platform of
    the class that asks.
    """
    for name in ("ml_platform", "mlPlatform"):
        check_platform(name, options.get(name), platform)
    known = {
        "totalEpochs",
        "checkinModelOnTrainEnd",
        "nodeWeightage",
        "mergeMethod",
        "mergeParams",
        "useAdaptiveSync",
        "adsValData",
        "overlap",
        "trainData",
        "ml_platform",
        "mlPlatform",
    }
    for name in sorted(set(options) - known):
        logger.warning("parameter %s is not known and has no effect%s", name, near(name, known | set(_OWN[platform])))
    total = options.get("totalEpochs")
    if total is None:
        # No warning: programs of the releases before 2.1 know no such parameter.
        logger.info("parameter totalEpochs is not given; progress can not be shown")
    adaptive = boolean("useAdaptiveSync", options.get("useAdaptiveSync", False))
    if adaptive and options.get("adsValData") is None:
        raise ParameterError("useAdaptiveSync: is on without adsValData", "give validation data as adsValData")
    checkin = options.get("checkinModelOnTrainEnd")
    weightage = options.get("nodeWeightage", 1)
    by_samples = isinstance(weightage, str) and weightage.lower() == BY_SAMPLES
    return Params(
        sync_frequency=positive("syncFrequency", sync_frequency),
        min_peers=positive("minPeers", min_peers),
        contract=_contract(contract),
        total_epochs=0 if total is None else positive("totalEpochs", total),
        checkin_mode="" if checkin is None else _one_of("checkinModelOnTrainEnd", checkin, CHECKIN_MODES),
        # 0 is version 0.3's way to take part without contributing.
        weight=1 if by_samples else whole("nodeWeightage", weightage, 0, MAX_WEIGHT, f', or "{BY_SAMPLES}"'),
        by_samples=by_samples,
        method=method_text(options.get("mergeMethod"), options.get("mergeParams")),
        adaptive=adaptive,
        overlap=boolean("overlap", options.get("overlap", False)),
        data_samples=data_samples(options.get("trainData")),
    )


def near(name: str, names: Iterable[str]) -> str:
    """Give "; did you mean X?" with the name that is nearest to a misspelled one, in whatever case; "" if none is."""
    lower = {known.lower(): known for known in sorted(names)}
    found = difflib.get_close_matches(name.lower(), lower, n=1)
    return f"; did you mean {lower[found[0]]}?" if found else ""


def positive(name: str, value: object) -> int:
    """Give value as an integer from 1; strings and whole floats are cast, as in the original."""
    return whole(name, value, 1)


def data_samples(data: Any) -> Optional[int]:
    """Give how many samples trainData has: a number, a DataLoader, a Dataset, an array, or a tuple (x, y) of arrays."""
    if data is None:
        return None
    if isinstance(data, tuple) and data:
        data = data[0]
    # A loader's own length is in batches.
    data = getattr(data, "dataset", data)
    shape = getattr(data, "shape", None)
    try:
        number = int(data) if isinstance(data, int) else int(shape[0]) if shape else len(data)
    except TypeError:
        number = -1
    if isinstance(data, bool) or number < 0:
        raise ParameterError(
            f"trainData: {type(data).__name__} has no length",
            "give the number of samples, or the data: a DataLoader, a Dataset, an array or (x, y)",
        )
    return number


def whole(name: str, value: object, least: int, limit: Optional[int] = None, other: str = "") -> int:
    """Give value as an integer from least to limit; strings and whole floats are cast, as in the original.

    other is what else the caller takes, for the error.
    """
    allowed = f"a whole number from {least}" + (f" to {limit}" if limit else "") + other
    wrong = least - 1
    number = wrong
    if isinstance(value, (str, bytes)) or (hasattr(value, "__int__") and not isinstance(value, bool)):
        try:
            number = int(value)
            if not isinstance(value, (str, bytes)) and number != value:
                number = wrong
        except (TypeError, ValueError, OverflowError):
            number = wrong
    if number < least or (limit is not None and number > limit):
        raise ParameterError(f"{name}: {value!r} is not allowed", f"give {allowed}")
    return number


def strength(name: str, value: object) -> float:
    """Give value as a finite number from 0; None is 0."""
    if value is None:
        return 0.0
    number = math.nan
    if not isinstance(value, (bool, str, bytes)):
        try:
            number = float(value)  # type: ignore[arg-type]  # numpy's numbers too.
        except (TypeError, ValueError, OverflowError):
            pass
    if not 0 <= number < math.inf:
        raise ParameterError(f"{name}: {value!r} is not allowed", "give a number from 0, which turns it off")
    return number


def boolean(name: str, value: object) -> bool:
    """Give value, True or False, as what it is; 1 and 0 stand for them."""
    if not isinstance(value, (bool, int)) or value not in (0, 1):
        raise ParameterError(f"{name}: {value!r} is not allowed", "give True or False")
    return bool(value)


def loopback() -> bool:
    """Tell whether SWARM_LOOPBACK asks to train without a swarm."""
    return _switched_on("SWARM_LOOPBACK")


def verify() -> bool:
    """Tell whether SWARM_VERIFY asks to hold each merged model to its digest, whatever its size."""
    return _switched_on("SWARM_VERIFY")


def _switched_on(variable: str) -> bool:
    return os.environ.get(variable, "").strip().lower() in ("true", "1", "yes")


class _Stdout(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes to what sys.stdout is at the time of the message, so redirections hold."""

    def __init__(self) -> None:
        super().__init__(sys.stdout)

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stdout
        super().emit(record)


def default_logger(given: object = None) -> logging.Logger:
    """Give the caller's logger, or SwarmCallback's own: INFO to standard output in the original's format."""
    if given is not None:
        if not isinstance(given, logging.Logger):
            raise ParameterError(f"logger: {type(given).__name__} is not allowed", "give a logging.Logger")
        return given
    logger = logging.getLogger(LOGGER_NAME)
    if not any(isinstance(handler, _Stdout) for handler in logger.handlers):
        handler = _Stdout()
        handler.setFormatter(logging.Formatter(LOG_FORMAT))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
    return logger


def prints(logger: logging.Logger) -> bool:
    """Tell whether logger is SwarmCallback's own, or a rank's child of it, which prints."""
    while not logger.handlers and logger.propagate and logger.parent is not None:
        logger = logger.parent
    return any(isinstance(handler, _Stdout) for handler in logger.handlers)


def check_platform(name: str, value: object, platform: str) -> None:
    """Refuse an ml_platform that is not that of the class it is given to; None is none."""
    if value is None:
        return
    given = platform_of(name, value)
    if given != platform:
        raise ParameterError(
            f"{name}: {value!r} does not fit this SwarmCallback, which is for {platform}",
            f"import it from {_MODULES[given]}, or leave {name} out",
        )


def platform_of(name: str, value: object) -> str:
    """Give the ml_platform that value spells."""
    spelled = str(value).upper()
    if spelled == "TF":
        refuse_graphs(f"{name}: {value!r}")
    if spelled not in _PLATFORMS:
        raise ParameterError(f"{name}: {value!r} is not known", f"give one of {', '.join(_MODULES)}")
    return _PLATFORMS[spelled]


def refuse_graphs(what: str) -> NoReturn:
    """Refuse TensorFlow 1, which the original takes beside Keras."""
    raise ParameterError(
        f"{what}: graphs and sessions of TensorFlow 1 are not supported",
        "train a Keras model, and say ml_platform='KERAS' or leave it out",
    )


def _contract(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ParameterError(f"trainingContract: {value!r} is not allowed", "give the name of a contract")
    return value


def _one_of(name: str, value: object, allowed: tuple[str, ...]) -> str:
    text = value.lower() if isinstance(value, str) else ""
    if text not in allowed:
        raise ParameterError(f"{name}: {value!r} is not allowed", f"give one of {', '.join(allowed)}")
    return text
