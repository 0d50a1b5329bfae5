"""FedProx: what the frameworks' proximal terms have in common."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Pull:
    """Pulls a model towards the last merged one until it is released."""

    def release(self) -> None:
        """Pull no more, and forget the merged model. May be called again."""
        raise NotImplementedError

    @contextmanager
    def released_on_failure(self) -> Iterator[None]:
        """Pull no more when what is done within fails: there will be no other merged model."""
        try:
            yield
        except BaseException:
            self.release()
            raise
