"""What all callbacks share: when to merge, what to report, how to end. Knows no framework."""

from __future__ import annotations

import atexit
import hashlib
import logging
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple, Optional, Protocol, Tuple, Union

import numpy as np

import swarmlearning
from swarmlearning import layout as layouts
from swarmlearning._counts import Counts
from swarmlearning._metrics import MetricsFile, number, versions
from swarmlearning._overlap import carry
from swarmlearning._params import MAX_SAMPLES, Params, data_samples, loopback, prints, verify
from swarmlearning._rank_links import Following, Leading
from swarmlearning._ranks import Point, Progress, Ranks
from swarmlearning._terminated import Termination
from swarmlearning.client import Client, Merged, bridge_directory
from swarmlearning.errors import (
    DaemonGoneError,
    ModelChangedError,
    NotFiniteError,
    ParameterError,
    RankLostError,
    SwarmError,
)
from swarmlearning.layout import Array, Buffer, Layout, Tensor

# What scripts of the original's users look for in the log, word for word.
MERGING = "Starting Swarm merging round ..."
MERGED = "Merge Done: RVInt [cur: %d Nxt: %d]"  # the interval before and after, in batches
LOCALLY_FINISHED = "Finished local training !!!"
UNMERGED = "No user merge done during swarm training. syncFrequency=%d may be high"
FINISHED = "All peers and Swarm training rounds finished. Final Swarm model was loaded."

# Merges that are logged at INFO: the first ones, then every so many.
LOUD_ROUNDS = 3
LOUD_EVERY = 10

# What the swarm takes of a metric's name, in bytes.
MAX_METRIC_NAME = 64

Score = Tuple[Optional[float], Optional[float]]
# The way to the swarm.
Link = Union[Client, Following]


class _Figures(NamedTuple):
    """What was measured, with the name of what the metric is; empty: it is not known."""

    loss: Optional[float] = None
    metric: Optional[float] = None
    name: str = ""


class Model(Protocol):
    """A framework's model as the engine sees it."""

    # What evaluate's metric is called, as far as that is known after it; empty otherwise.
    metric_name: str

    def snapshot(self) -> Iterator[tuple[Tensor, Array]]:
        """Give every tensor with its present value, always in the same order; the array may share memory.

        bfloat16 comes as the uint16 of its bits.
        """

    def load(self, arrays: Sequence[Array], merged: bool = True) -> None:
        """Copy arrays, ordered as in snapshot, into the model, which keeps none of them; types and devices stay.

        Without merged they are no merged model, which FedProx's pull then keeps as it was.
        """

    def learned(self) -> Sequence[bool]:
        """Tell of each tensor, ordered as in snapshot, whether the training adds to it, as to a parameter."""

    def evaluate(self) -> Optional[Score]:
        """Measure loss and metric on the validation data; None if there is none."""


class Engine:
    """The state machine behind on_train_begin, on_batch_end, on_epoch_end and on_train_end."""

    def __init__(
        self, params: Params, model: Model, framework: str, logger: logging.Logger, ranks: Optional[Ranks] = None
    ) -> None:
        """Read SWARM_LOOPBACK; without it the bridge must be there, for rank 0 if the peer has ranks."""
        self._params = params
        self._model = model
        self._framework = framework
        self._logger = logger
        self._loopback = loopback()
        self._ranks = ranks
        leads = ranks is None or ranks.leads
        self._metrics = MetricsFile(logger, None if leads else "")
        self._termination = Termination()
        self._client: Optional[Link] = None
        self._directory = ""
        self._layout: Optional[Layout] = None
        self._waiting = ""
        self._others: tuple[str, ...] = ()
        self._digest = ""  # the swarm's name for the final model
        self._batches = 0
        self._counts = Counts(params.data_samples)
        self._handed: dict[str, int] = {}
        self._weight = params.weight  # of what was handed in
        self._interval = params.sync_frequency
        self._seq = 0
        self._round = 0
        self._epochs = 0
        self._over = False
        self._running = False
        self._ended = False
        self._told = _Figures()
        self._called = ""  # what the program has called the metric that it reports
        self._measured = False
        self._said_unmeasured = False
        self._said_skipped = False
        self._said_checked = False
        # With overlap: whether a merge is under way, and whether the weights are more than the last merged model's.
        self._travels = False
        self._ahead = False
        if self._loopback:
            logger.info("SWARM_LOOPBACK is set: training goes on without a swarm")
        elif leads:
            # Read here, so that it is said at once if it is missing, not after minutes of data loading.
            self._directory = bridge_directory("TF" if framework == "tf" else "PYT")

    @property
    def training_over(self) -> bool:
        """True when the swarm has finished: what is trained from here on is dropped at train end."""
        return self._over

    @property
    def loopback(self) -> bool:
        """True when SWARM_LOOPBACK was set at construction."""
        return self._loopback

    @property
    def round(self) -> int:
        """The last merge's number, from 1; 0 before the first."""
        return self._round

    @property
    def sync_frequency(self) -> int:
        """Batches from one merge to the next."""
        return self._interval

    @property
    def epochs_completed(self) -> int:
        """Epochs that ended since the training began."""
        return self._epochs

    @property
    def samples(self) -> Optional[int]:
        """Samples trained since the training began; None: not known."""
        return self._counts.total

    @property
    def logger(self) -> logging.Logger:
        """Where the engine logs to."""
        return self._logger

    def found_data(self, data: object) -> None:
        """Take the data that the framework trains on, unless the program has named it; it may have no length."""
        with suppress(ParameterError):
            if self._params.data_samples is None and data is not None:
                self._counts = Counts(data_samples(data))

    def report(self, loss: Optional[float], metric: Optional[float] = None, name: str = "") -> None:
        """Report what the program measured: on the merged model of the last round, or, with overlap, on its own.

        name is the metric's, if the program says it; without it the metric is called as in the report before.
        """
        self._check_running("report")
        if metric is not None:
            self._called = name or self._called
        self.told(loss, metric, self._called)
        with self._giving_up():
            self._report(0 if self._ahead else self._round, _Figures(loss, metric, self._called))

    def told(self, loss: Optional[float], metric: Optional[float], name: str = "") -> None:
        """Note what the program or its framework measured: it is an epoch's, where the model itself measures nothing.

        name is the metric's, if it is known.
        """
        self._told = _Figures(number(loss), number(metric), name)

    def write_told(self) -> None:
        """Write what was told after the last epoch's end, if anything, as one more event of it."""
        told, self._told = self._told, _Figures()
        if self._running and (told.loss, told.metric) != (None, None):
            self._write_epoch(told)

    def train_begin(self) -> None:
        """Open the session and take the swarm's first model."""
        if self._running:
            raise SwarmError("on_train_begin: training is already running", "call it once, before the loop over epochs")
        self._batches = self._seq = self._round = self._epochs = 0
        self._counts.reset()
        self._interval = self._params.sync_frequency
        self._over = self._travels = self._ahead = self._ended = False
        self._running = True
        self._metrics.write("start", loopback=self._loopback, total_epochs=self._params.total_epochs, **self._about())
        if self._loopback:
            return
        with self._giving_up():
            self._layout = Layout([tensor for tensor, _ in self._model.snapshot()])
            self._client = self._link()
            self._meet(Point.BEGIN)
            terms = self._params.terms()
            if self._params.by_samples and self._counts.data is not None:
                terms["weight"] = min(self._counts.data, MAX_SAMPLES)
            terms["client"] = f"swarmlearning/{swarmlearning.__version__} {self._framework}"
            terms["framework"] = self._framework
            if verify():
                terms["verify"] = True
            opened = self._client.open(terms, self._layout)
            atexit.register(self._left)
            if self._ranks is not None and self._ranks.leads:
                self._termination.hold()
            self._logger.info(
                "session opened at %s for contract %s: %d tensors, %d bytes",
                opened.peer or "the daemon",
                self._params.contract,
                len(self._layout.tensors),
                self._layout.nbytes,
            )
            self._sync()

    def batch_end(self, samples: object = None) -> None:
        """Count a batch, of so many samples if they are known; merge when the interval is full."""
        self._check_running("on_batch_end")
        self._counts.batch(samples)
        if self._loopback or self._over:
            return
        self._batches += 1
        if self._batches >= self._interval:
            with self._giving_up():
                if self._params.overlap:
                    self._hand_over()
                else:
                    self._sync()

    def epoch_end(self) -> None:
        """Count an epoch; measure the local model, and report that unless the interval follows what is reported."""
        self._check_running("on_epoch_end")
        self._epochs += 1
        with self._giving_up():
            self._meet(Point.EPOCH)
            self._counts.epoch()
            with self._together():
                figures, self._told = self._score() or self._told, _Figures()
            self._write_epoch(figures)
            self._report(0, figures)

    def train_end(self) -> None:
        """Close the session, wait for the final model and load it. After that further calls do nothing."""
        if self._ended:
            self._logger.warning("on_train_end was called again: the training has ended, so this call does nothing")
            return
        self._check_running("on_train_end")
        self.write_told()
        if not self._epochs:
            self._logger.info("on_epoch_end was never called: progress and curves go by rounds, not by epochs")
        with self._giving_up():
            if self._client is not None:
                self._logger.info(LOCALLY_FINISHED)
                if self._seq <= 1 and not self._over:
                    # The merge before the training was the only one.
                    self._logger.warning(UNMERGED, self._interval)
                self._meet(Point.END)
                self._finish(self._client)
            with self._together():
                figures = self._score() or _Figures()
            self._metrics.write(
                "end",
                round=self._round,
                # Rounds are counted from 1, so the last one's number is how many there were.
                rounds=self._round,
                # 0: the program never told, so that curves can only go by rounds.
                epoch=self._epochs,
                loss=figures.loss,
                metric=figures.metric,
                model_sha256=self._sha256(),
                digest=self._digest,
                data_samples=self._counts.data,
                loopback=self._loopback,
                **_named(figures),
            )
        self._release()
        self._ended = True
        if not self._loopback:
            self._logger.info(FINISHED)

    def _write_epoch(self, figures: _Figures) -> None:
        self._metrics.write(
            "epoch",
            epoch=self._epochs,
            loss=figures.loss,
            metric=figures.metric,
            round=self._round,
            data_samples=self._counts.data,
            **_named(figures),
        )

    def _link(self) -> Link:
        if self._ranks is None:
            return Client(self._directory, self._logger.warning)
        return (
            Leading(self._ranks, self._directory, self._logger.warning) if self._ranks.leads else Following(self._ranks)
        )

    def _meet(self, point: Point) -> None:
        """Wait for the other ranks of this peer, if it has some, and count what they have trained."""
        if self._ranks is None or self._client is None:
            return
        samples = self._counts.fresh
        progress = Progress(self._counts.batches, self._epochs, -1 if samples is None else samples)
        self._counts.others(self._ranks.meet(point, progress, self._require_layout().fingerprint()))

    @contextmanager
    def _together(self) -> Iterator[None]:
        """Measure while the other ranks, which have met this one, wait."""
        if self._ranks is None or self._client is None:
            yield
            return
        with self._ranks.measuring():
            yield

    def _finish(self, client: Link) -> None:
        if self._travels:
            self._settle()
        elif not self._over:
            # What was trained since the last merge goes into the rounds to come.
            self._store()
        told = self._counts.take()
        if self._params.by_samples and not self._over:
            told["weight"] = self._samples()
        final = client.finish(self._seq, self._params.checkin_mode, self._say_waiting, self._newer, told)
        self._over = True
        self._say_warnings(final)
        self._round = final.round
        self._digest = final.digest
        self._load(final)
        self._logger.info("training is over: loaded the final model (round %d, digest %s)", final.round, final.digest)

    def _newer(self, merged: Merged) -> None:
        """Measure a model that the others made while this program waits for the end."""
        self._round = merged.round
        self._logger.info("round %d merged by the peers that still train", merged.round)
        if self._params.adaptive:
            self._load(merged)
            self._report(merged.round, self._score() or _Figures())

    def _sync(self) -> None:
        started = time.monotonic()
        self._logger.info(MERGING)
        self._say_unmeasured()
        self._meet(Point.MERGE)
        self._store()
        self._next_sync()
        merged = self._await_merge()
        if not merged.skipped:
            self._load(merged)
        self._took(merged, time.monotonic() - started)

    def _hand_over(self) -> None:
        """Take the merge that travelled during this interval; hand in what travels during the next one."""
        if self._travels:
            self._settle()
        else:
            self._store()
        self._batches = 0
        if not self._over:
            self._logger.info(MERGING)
            self._next_sync()
            self._require_client().offer(self._seq, self._weight, self._handed)
            self._travels = True

    def _settle(self) -> None:
        """Wait for the merge that travels; leave the model, and the local slot, at it plus what was learnt meanwhile.

        Until then the slot holds what was handed in, so that nothing else need keep it.
        """
        layout, local = self._require_layout(), self._require_client().local()
        started = time.monotonic()
        self._say_unmeasured()
        merged = self._await_merge()
        self._travels = False
        if merged.skipped:
            # What was handed in is in no model: the weights of now, which hold it, are handed in next.
            self._store()
            self._ahead = True
            self._took(merged, time.monotonic() - started)
            return
        with self._slot(merged) as buffer:
            if not merged.training_over:
                self._carry(layout, local, buffer)
            # Pure at first: what is measured and reported is the merged model.
            self._load_views(layout, buffer)
        self._took(merged, time.monotonic() - started)
        if not merged.training_over:
            self._load_views(layout, local, merged=False)
            self._ahead = True

    def _carry(self, layout: Layout, local: Buffer, merged: Buffer) -> None:
        learned = self._model.learned()
        for index, array in self._present(layout):
            tensor, sent = layout.tensors[index], layout.view(local, index)
            carry(tensor.dtype, learned[index], sent, layout.view(merged, index), array)
            _check_finite(tensor, sent)

    def _await_merge(self) -> Merged:
        self._waiting = ""
        return self._require_client().sync(self._seq, self._weight, self._say_waiting, self._handed)

    def _next_sync(self) -> None:
        """Number the next sync, and note with which weight and counts it goes."""
        if self._params.by_samples:
            # Nothing is trained before the first one, whose weight stands for the data alone.
            known = 1 if self._counts.data is None else min(self._counts.data, MAX_SAMPLES)
            self._weight = self._samples() if self._seq else known
        self._seq += 1
        self._handed = self._counts.take()

    def _samples(self) -> int:
        size = self._counts.size
        if size is None:
            raise ParameterError(
                'nodeWeightage: is "samples", and how many samples this peer has is not known',
                "give trainData=, the data or its number of samples, or call on_batch_end(samples=n) after each batch",
            )
        return min(size, MAX_SAMPLES)

    def _took(self, merged: Merged, seconds: float) -> None:
        """Note a merge, whose model is loaded, and measure it. seconds is how long the training stood still for it."""
        self._batches = 0
        if merged.skipped:
            self._say_skipped(merged)
            return
        self._round = merged.round
        self._measured = False
        self._over = merged.training_over
        interval = self._interval
        # An interval below 1 would stop all merging.
        self._interval = merged.interval if merged.interval >= 1 else self._params.sync_frequency
        self._logger.info(MERGED, interval, self._interval)
        self._say_warnings(merged)
        with self._together():
            figures = self._score() or _Figures()
        self._metrics.write(
            "merge",
            round=merged.round,
            loss=figures.loss,
            metric=figures.metric,
            epoch=self._epochs,
            participants=list(merged.participants),
            seconds=seconds,
            contributed=merged.contributed,
            **_named(figures),
        )
        self._report(merged.round, figures)
        self._logger.log(
            self._round_level(merged),
            "round %d: %s %s in %.3f s%s",
            merged.round,
            "merged with" if merged.contributed else "took the model of",
            ", ".join(merged.participants) or "the swarm",
            seconds,
            _score_text(figures.loss, figures.metric),
        )
        if self._over:
            self._logger.info(
                "the swarm has finished: no more merges; what is trained from here on is dropped, and the final "
                "model is loaded at the end; a loop of your own may end now: if swarm.training_over: break"
            )

    def _round_level(self, merged: Merged) -> int:
        """Show the first rounds, then every tenth, and whatever is out of the ordinary; the rest is DEBUG."""
        others, self._others = self._others, merged.participants
        usual = merged.contributed and not merged.training_over and merged.participants == others
        return logging.DEBUG if usual and self._seq > LOUD_ROUNDS and merged.round % LOUD_EVERY else logging.INFO

    def _store(self) -> None:
        if self._ranks is not None and not self._ranks.leads:
            return  # Rank 0 hands in what all ranks have.
        layout, buffer = self._require_layout(), self._require_client().local()
        for index, array in self._present(layout):
            tensor = layout.tensors[index]
            _check_finite(tensor, array)
            if tensor.elements:
                np.copyto(layout.view(buffer, index), array, casting="no")

    def _present(self, layout: Layout) -> Iterator[tuple[int, Array]]:
        """Give the model's present values by their place in the layout, from which they must not differ."""
        count = 0
        for tensor, array in self._model.snapshot():
            if count >= len(layout.tensors) or tensor != layout.tensors[count]:
                raise _changed(tensor)
            yield count, array
            count += 1
        if count != len(layout.tensors):
            raise _changed(layout.tensors[count])

    def _load(self, merged: Merged) -> None:
        layout = self._require_layout()
        if layout.nbytes:
            with self._slot(merged) as buffer:
                self._load_views(layout, buffer)

    @contextmanager
    def _slot(self, merged: Merged) -> Iterator[Buffer]:
        """Map a merged slot. Views of it must be gone at the block's end, so functions of their own make them."""
        if not self._require_layout().nbytes:
            yield b""
            return
        mapped = self._require_client().slot(merged)
        self._say_checked(merged)
        view = memoryview(mapped)
        try:
            yield view
        finally:
            # The views that an error's traceback holds keep the map until it is gone too.
            with suppress(BufferError):
                view.release()
                mapped.close()

    def _say_checked(self, merged: Merged) -> None:
        if self._said_checked:
            return
        self._said_checked = True
        if merged.sha256:
            self._logger.debug("each merged model is held to the SHA-256 of what the swarm committed")
        else:
            self._logger.info("merged models are not checked after they left the daemon; SWARM_VERIFY=1 checks them")

    def _load_views(self, layout: Layout, buffer: Buffer, merged: bool = True) -> None:
        self._model.load([layout.view(buffer, index) for index in range(len(layout.tensors))], merged)

    def _score(self) -> Optional[_Figures]:
        """Measure the model as it is; None if there is no validation data."""
        score = self._model.evaluate()
        return None if score is None else _Figures(*score, self._model.metric_name)

    def _about(self) -> dict[str, object]:
        """Give what a report of this training should say of it, for the metrics file."""
        return {"sync_frequency": self._params.sync_frequency, "versions": versions()}

    def _report(self, round_: int, figures: _Figures) -> None:
        if self._client is None:
            return
        loss, metric, name = figures
        if self._params.adaptive and not round_:
            # The swarm keeps a peer's last loss, which is to be the merged model's: the interval follows it.
            loss = metric = None
        self._measured = self._measured or (round_ == self._round and number(loss) is not None)
        try:
            self._client.report(
                {
                    "round": round_,
                    "loss": number(loss),
                    "metric": number(metric),
                    **_label(metric, name),
                    "epochs_done": self._epochs,
                    "total_epochs": self._params.total_epochs,
                }
            )
        except DaemonGoneError:
            raise
        except SwarmError as err:
            # A report is for the eye; the next merge shows whether the session still stands.
            self._logger.warning("report of round %d was refused: %s", round_, err)

    def _sha256(self) -> str:
        digest = hashlib.sha256()
        for tensor, array in self._model.snapshot():
            digest.update(np.ascontiguousarray(array, dtype=layouts.storage_dtype(tensor.dtype)).tobytes())
        return digest.hexdigest()

    def _say_waiting(self, reason: str) -> None:
        if reason and reason != self._waiting:
            self._logger.info("%s", reason if reason.startswith("waiting") else f"waiting: {reason}")
        self._waiting = reason

    def _say_unmeasured(self) -> None:
        """Tell once when the interval can not adapt, because nobody measures the merged model here."""
        if self._params.adaptive and self._round and not (self._measured or self._said_unmeasured):
            self._said_unmeasured = True
            self._logger.warning(
                "useAdaptiveSync: no loss was reported for round %d (measure the merged model and call report(loss) "
                "after each merge)",
                self._round,
            )

    def _say_skipped(self, merged: Merged) -> None:
        """Tell once that a round brought no model; base, interval and what was measured stay as they are."""
        self._logger.log(
            logging.DEBUG if self._said_skipped else logging.WARNING,
            "round %d was skipped by the swarm: training goes on with this peer's own weights",
            merged.round + 1,
        )
        self._said_skipped = True

    def _say_warnings(self, merged: Merged) -> None:
        for warning in merged.warnings:
            self._logger.warning("%s", warning)

    @contextmanager
    def _giving_up(self) -> Iterator[None]:
        """Tell the daemon when the hook fails, so that the peers do not wait for this program."""
        try:
            yield
        except BaseException as err:
            if self._client is not None:
                self._client.abort(f"{type(err).__name__}: {err}")
            self._leave_ranks(err)
            self._release()
            if isinstance(err, SwarmError) and not prints(self._logger):
                # Where the log is the terminal, the error is shown there once: by whoever catches it, or by Python.
                self._logger.error("%s", err)
            raise

    def _leave_ranks(self, err: BaseException) -> None:
        """Tell the other ranks of this peer, if it has some, that this one has failed."""
        if self._ranks is None:
            return
        if isinstance(err, SwarmError):
            self._ranks.give_up(err.reason, err.message, err.remedy)
        else:
            self._ranks.give_up(RankLostError.reason, f"{type(err).__name__}: {err}")

    def _left(self) -> None:
        """Tell the daemon when the program ends between two hooks, so that the peers do not wait for it."""
        if self._client is not None:
            # What ended the program, if its traceback was printed.
            error = getattr(sys, "last_value", None)
            how = "was ended by SIGTERM" if self._termination.came else "never called on_train_end"
            unfinished = SwarmError(f"the program {how}")
            self._client.abort(unfinished.message if error is None else f"{type(error).__name__}: {error}")
            self._leave_ranks(error or unfinished)
        self._release()

    def _release(self) -> None:
        atexit.unregister(self._left)
        self._termination.release()
        self._running = False
        if self._client is not None:
            self._client.close()
            self._client = None

    def _check_running(self, hook: str) -> None:
        if self._ended:
            raise SwarmError(f"{hook}: training has ended", "call on_train_end once, after the loop over epochs")
        if not self._running:
            raise SwarmError(f"{hook}: training has not begun, or an error has ended it", "call on_train_begin first")

    def _require_client(self) -> Link:
        if self._client is None:
            raise SwarmError("no session is open", "call on_train_begin first")
        return self._client

    def _require_layout(self) -> Layout:
        if self._layout is None:
            raise SwarmError("no session is open", "call on_train_begin first")
        return self._layout


def _check_finite(tensor: Tensor, array: Array) -> None:
    if not layouts.all_finite(tensor.dtype, array):
        raise NotFiniteError(
            f'tensor "{tensor.name}" has NaN or infinite values, so the model is not merged',
            "lower the learning rate, clip gradients or look for bad input data",
        )


def _changed(tensor: Tensor) -> ModelChangedError:
    return ModelChangedError(
        f'tensor "{tensor.name}" ({tensor.dtype}{list(tensor.shape)}) is not what the training began with',
        "do not add, remove or replace layers between on_train_begin and on_train_end",
    )


def _named(figures: _Figures) -> dict[str, str]:
    """Give the metric's name for the metrics file, if there is a metric and its name is known."""
    return {"metric_name": figures.name} if figures.name and figures.metric is not None else {}


def _label(metric: Optional[float], name: str) -> dict[str, str]:
    """Give what the swarm is told of a metric's name, which it takes as a short line; nothing without a metric."""
    line = "".join(c if c.isprintable() else " " for c in name).encode(errors="ignore")[:MAX_METRIC_NAME]
    short = line.decode(errors="ignore").strip()
    return {"metric_name": short} if short and number(metric) is not None else {}


def _score_text(loss: Optional[float], metric: Optional[float]) -> str:
    text = "" if loss is None else f", loss {loss:.6g}"
    return text if metric is None else f"{text}, metric {metric:.6g}"
