"""Errors of the package: one class for each reason, all of them a SwarmError."""

from __future__ import annotations

import importlib
from typing import ClassVar, Optional


class SwarmError(Exception):
    """Anything that stops swarm training.

    reason is the stable UPPER_SNAKE name to match on; remedy is one line on what to do, empty if there is none.
    """

    reason: str = "UNKNOWN"

    def __init__(self, message: str, remedy: str = "", reason: Optional[str] = None) -> None:
        """Keep message and remedy; reason overrides the class's own for reasons that have no class."""
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        if reason is not None:
            self.reason = reason

    def __str__(self) -> str:
        """Message and remedy in one line."""
        return f"{self.message} ({self.remedy})" if self.remedy else self.message

    def _render_traceback_(self) -> list[str]:
        """Give what IPython shows in place of the whole traceback."""
        return importlib.import_module("swarmlearning._traceback").rendered(self)  # type: ignore[no-any-return]


class ParameterError(SwarmError):
    """A parameter of the callback has a value that is not allowed."""

    reason = "BAD_PARAMETER"


class NoBridgeError(SwarmError):
    """The program was not started by a swarm daemon."""

    reason = "NO_BRIDGE"


class DaemonGoneError(SwarmError):
    """The daemon beside this program does not answer any more."""

    reason = "DAEMON_GONE"


class ProtocolError(SwarmError):
    """The daemon answered something that this package does not understand."""

    reason = "PROTOCOL"


class NotFiniteError(SwarmError):
    """A weight is NaN or infinite, so it may not be merged."""

    reason = "NOT_FINITE"


class ModelChangedError(SwarmError):
    """The model's tensors are not those that the session was opened with."""

    reason = "MODEL_CHANGED"


class DTypeError(SwarmError):
    """A tensor has a type that can not be merged."""

    reason = "BAD_DTYPE"


class SessionOpenError(SwarmError):
    """Another program already has a session at this daemon."""

    reason = "SESSION_OPEN"


class SessionGoneError(SwarmError):
    """The daemon does not know this session: it has ended or the daemon was restarted."""

    reason = "NO_SESSION"


class BadRequestError(SwarmError):
    """The daemon refused a request as malformed."""

    reason = "BAD_REQUEST"


class TermsDifferError(SwarmError):
    """The contract's terms (model layout, merge method, minPeers) are not those of this program."""

    reason = "TERMS_MISMATCH"


class ContractOverError(SwarmError):
    """The contract's training is over; it must be reset before a new one."""

    reason = "CONTRACT_OVER"


class ContractResetError(SwarmError):
    """The contract was reset while this session was open."""

    reason = "RESET"


class ContractDeletedError(SwarmError):
    """The contract was deleted while this session was open."""

    reason = "DELETED"


class DeniedError(SwarmError):
    """The swarm refused this node."""

    reason = "ROLE_DENIED"


class UnavailableError(SwarmError):
    """The swarm's network can not be reached."""

    reason = "UNREACHABLE"


class TimeoutError(SwarmError):
    """A limit that the operator set has passed."""

    reason = "TIMEOUT"


class DaemonStoppedError(DaemonGoneError):
    """The daemon was stopped before it had an answer."""

    reason = "DAEMON_STOPPED"


class InternalError(SwarmError):
    """The daemon met an error of its own; its log says which."""

    reason = "INTERNAL"


class WeightFileError(SwarmError):
    """The daemon can not use a weight slot: something has truncated or extended it."""

    reason = "SLOT_SIZE"


class DigestError(SwarmError):
    """A merged slot does not hold the model that the swarm committed: something on this machine has changed it."""

    reason = "DIGEST"


class NoSpaceError(SwarmError):
    """The weight slots do not fit on the daemon's disk."""

    reason = "NO_SPACE"


class ReplacedError(SwarmError):
    """Another program has taken over this session."""

    reason = "REPLACED"


class SessionEndedError(SwarmError):
    """The session has ended."""

    reason = "SESSION_ENDED"


class SessionClosedError(SwarmError):
    """The session was closed already."""

    reason = "SESSION_CLOSED"


class BadSeqError(SwarmError):
    """A merge was asked for out of order."""

    reason = "BAD_SEQ"


class UnevenRanksError(SwarmError):
    """The ranks of this peer do not do the same: they differ in batches, epochs, parameters or the model."""

    reason = "UNEVEN_RANKS"


class RankLostError(SwarmError):
    """Another rank of this peer has ended or does not answer."""

    reason = "RANK_LOST"


class Registry:
    """The one table from a reason on the wire to its class."""

    by_reason: ClassVar[dict[str, type[SwarmError]]] = {
        cls.reason: cls
        for cls in (
            ParameterError,
            NoBridgeError,
            DaemonGoneError,
            ProtocolError,
            NotFiniteError,
            ModelChangedError,
            DTypeError,
            SessionOpenError,
            SessionGoneError,
            BadRequestError,
            TermsDifferError,
            ContractOverError,
            ContractResetError,
            ContractDeletedError,
            DeniedError,
            UnavailableError,
            TimeoutError,
            DaemonStoppedError,
            InternalError,
            WeightFileError,
            NoSpaceError,
            ReplacedError,
            SessionEndedError,
            SessionClosedError,
            BadSeqError,
            UnevenRanksError,
            RankLostError,
        )
    }
    by_reason.update(
        {
            "STALE_RUN": ContractResetError,
            "SESSION_UNKNOWN": SessionGoneError,
            "SLOT_UNREADABLE": WeightFileError,
            "BAD_METHOD": ParameterError,
            "NO_LEADER": UnavailableError,
            "NO_SWARM": UnavailableError,
            "TOKEN_REFUSED": DeniedError,
            "NOT_LEARNER": DeniedError,
        }
    )


def from_reason(reason: str, message: str, remedy: str = "") -> SwarmError:
    """Make the error for a reason that the daemon sent; an unknown reason is kept in a plain SwarmError."""
    cls = Registry.by_reason.get(reason, SwarmError)
    return cls(message, remedy, reason=reason)


def one_line(err: BaseException, most: Optional[int] = None) -> str:
    """Give another package's error as part of a message: in one line, of so many characters at most; None: all."""
    return " ".join(str(err).split())[:most]
