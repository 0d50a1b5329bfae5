"""The bridge as the ranks of one peer see it: rank 0 has it and tells the others what it answered."""

from __future__ import annotations

import dataclasses
import json
import mmap
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from typing import Callable, Optional

from swarmlearning._ranks import Ranks
from swarmlearning.client import GONE_REMEDY, NOTHING, Client, Json, Merged, Opened, check_sum
from swarmlearning.errors import DaemonGoneError, ProtocolError
from swarmlearning.layout import Buffer, Layout


class Leading(Client):
    """Rank 0's bridge. Before open, sync and finish the ranks have met; each ends with an answer to the others."""

    def __init__(self, ranks: Ranks, directory: str, say: Callable[[str], None]) -> None:
        """Take the ranks beside what Client takes."""
        super().__init__(directory, say)
        self._ranks = ranks
        self._shares = False  # Every rank can open the slots by name.

    def open(self, terms: Mapping[str, object], layout: Layout) -> Opened:
        """See Client."""
        opened = super().open(terms, layout)
        self._ranks.answer(
            {**dataclasses.asdict(opened), "seen": identity(self.slot_path(self.local_name)) if layout.nbytes else ""}
        )
        self._shares = self._ranks.everywhere(layout.nbytes > 0)
        return opened

    def sync(
        self, seq: int, weight: int, waiting: Callable[[str], None], counts: Mapping[str, int] = NOTHING
    ) -> Merged:
        """See Client."""
        merged = super().sync(seq, weight, self._watched(waiting), counts)
        if not self._shares or merged.skipped:
            return self._told(merged)
        # It stays as it is until the next sync, before which all ranks meet.
        self._ranks.answer({**dataclasses.asdict(merged), "slot": self.slot_path(merged.slot)})
        return merged

    def finish(
        self,
        seq: int,
        mode: str,
        waiting: Callable[[str], None],
        newer: Callable[[Merged], None],
        counts: Mapping[str, int] = NOTHING,
    ) -> Merged:
        """See Client."""
        # Given even where slots are shared: this one is gone when rank 0 has ended.
        return self._told(super().finish(seq, mode, self._watched(waiting), newer, counts))

    def _watched(self, waiting: Callable[[str], None]) -> Callable[[str], None]:
        def still_there(reason: str) -> None:
            self._ranks.check()
            waiting(reason)

        return still_there

    def _told(self, merged: Merged) -> Merged:
        message = {**dataclasses.asdict(merged), "slot": ""}
        if merged.skipped or not self.nbytes:
            self._ranks.answer(message)
            return merged
        # Not checked here: every rank, this one included, checks what it got. Of its own pages, since frameworks take
        # no memory that can't be written to.
        mapped = self._map(merged.slot, mmap.ACCESS_COPY)
        try:
            self._ranks.answer(message, memoryview(mapped))
        finally:
            # A thread of the framework may hold its view for a moment longer; the map goes with it.
            with suppress(BufferError):
                mapped.close()
        return merged


class Following:
    """What the other ranks have in place of the bridge: a slot of their own, and the answers that rank 0 got."""

    def __init__(self, ranks: Ranks) -> None:
        """Take the ranks."""
        self._ranks = ranks
        self._nbytes = 0
        self._file = -1
        self._local: Optional[mmap.mmap] = None

    def open(self, terms: Mapping[str, object], layout: Layout) -> Opened:
        """Wait for rank 0's session."""
        fields = _fields(self._ranks.await_answer())
        self._ranks.everywhere(layout.nbytes > 0 and _sees(str(fields.pop("seen"))))
        opened = Opened(**fields)
        self._nbytes = layout.nbytes
        if layout.nbytes:
            self._file = _memory(layout.nbytes)
            self._local = mmap.mmap(self._file, layout.nbytes)
        return opened

    def local(self) -> Buffer:
        """Give nothing: rank 0's weights are handed in."""
        return b""

    def offer(self, seq: int, weight: int, counts: Mapping[str, int] = NOTHING) -> None:
        """Never happens: ranks do not overlap."""
        raise ProtocolError("a rank hands in no model of its own")

    def sync(
        self, seq: int, weight: int, waiting: Callable[[str], None], counts: Mapping[str, int] = NOTHING
    ) -> Merged:
        """Wait for the model that rank 0 merged."""
        return self._merged()

    def finish(
        self,
        seq: int,
        mode: str,
        waiting: Callable[[str], None],
        newer: Callable[[Merged], None],
        counts: Mapping[str, int] = NOTHING,
    ) -> Merged:
        """Wait for the final model."""
        return self._merged()

    def report(self, fields: Mapping[str, object]) -> None:
        """Do nothing: rank 0 reports."""

    def abort(self, reason: str) -> None:
        """Do nothing: the session is rank 0's, which sees that this rank leaves."""

    def slot(self, merged: Merged) -> mmap.mmap:
        """Map what rank 0 gave, as Client does. Raises DigestError as that does."""
        try:
            if merged.slot:
                with open(merged.slot, "rb") as shared:
                    mapped = mmap.mmap(shared.fileno(), self._nbytes, access=mmap.ACCESS_COPY)
            else:
                mapped = mmap.mmap(self._file, self._nbytes, access=mmap.ACCESS_COPY)
        except (OSError, ValueError) as err:
            raise DaemonGoneError(f"open slot {merged.slot}: {err}", GONE_REMEDY) from None
        check_sum(mapped, merged)
        return mapped

    def close(self) -> None:
        """Free the slot."""
        if self._local is not None:
            with suppress(BufferError):
                self._local.close()
            os.close(self._file)
            self._local = None

    def _merged(self) -> Merged:
        fields = _fields(self._ranks.await_answer(self._writable))
        fields["participants"], fields["warnings"] = tuple(fields["participants"]), ()
        return Merged(**fields)

    def _writable(self) -> Optional[memoryview]:
        return None if self._local is None else memoryview(self._local)


def identity(path: str) -> str:
    """Name a file and the file system and kernel that have it; the name comes first."""
    try:
        found = os.stat(path)
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as boot:
            kernel = boot.read().strip()
    except OSError:
        return ""
    return json.dumps([path, found.st_dev, found.st_ino, found.st_size, kernel])


def _sees(named: str) -> bool:
    """Report whether this rank has the file that rank 0 has named: it is on the same host, and may read it."""
    if not named:
        return False
    path = str(json.loads(named)[0])
    return os.access(path, os.R_OK) and identity(path) == named


def _fields(message: Json) -> Json:
    return {name: value for name, value in message.items() if name != "model"}


def _memory(nbytes: int) -> int:
    """Open a file of zeros that has no name."""
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("swarmlearning")
    else:
        with tempfile.TemporaryFile() as temporary:
            file = os.dup(temporary.fileno())
    os.ftruncate(file, nbytes)
    return file
