"""Caches a model's results for tokens for as long as their content is the same."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import picture
from .frame import Frame

#: Epoch, view and layout, and the fields of :data:`foveate.picture.PLACE`: the place of a token's content.
_Place = tuple[Any, ...]


class TokenCache:
    """Patch embeddings of tokens, of NumPy arrays or of tensors, for one model.

    A token of the same epoch, view, layout, place (``x``, ``y``, ``sx``, ``sy``, ``extra_width``, ``extra_height``) and
    ``changed_frame`` has the same bytes, so its patch embedding is still exact. Each place has one entry, with its newest
    content; the least recently used are evicted, so that places of past fixations are still cached when the gaze returns
    to them.

    Only cache what depends on the token alone: the patch embedding, but not the position embedding or anything after
    attention. Gradients are not kept. For one thread at a time.

    ::

        cache = foveate.TokenCache(4096)
        embeddings = cache.embed(frame, lambda new: model.patch_embed(frame.torch("cuda", new)))
    """

    def __init__(self, capacity: int = 4096) -> None:
        """:param capacity: cached places; at least the tokens of a frame, several times that to be useful after
        saccades. Each takes the memory of one embedding."""
        if capacity < 1:
            raise ValueError(f"invalid `capacity`: {capacity} (expected at least 1)")
        self.capacity = capacity
        #: Tokens found in the cache, and tokens that had to be embedded, so far.
        self.hits, self.misses = 0, 0
        #: For each place, least recently used first, the frame of its content and its row of the table.
        self._entries: OrderedDict[_Place, tuple[int, int]] = OrderedDict()
        #: [capacity, ...], created with the first embedding.
        self._table: Any = None

    def __len__(self) -> int:
        return len(self._entries)

    def clear(self) -> None:
        """Empties the cache, as needed after a change of the model's weights."""
        self._entries.clear()
        self._table = None

    def embed(self, frame: Frame, function: Callable[[NDArray[np.int64]], Any]) -> Any:
        """The embeddings of all tokens of ``frame``; ``function`` computes those that are not cached.

        :param function: gets the indices of the tokens to embed, [M] int64 with 0 < M, and returns their embeddings,
            [M, ...], always of the same shape, dtype and device. It is not called if all are cached.
        :returns: [N, ...], a copy, of the type that ``function`` returns.
        """
        missing = self.missing(frame)
        if len(missing):
            self.store(frame, missing, function(missing))
        return self.gather(frame)

    def missing(self, frame: Frame) -> NDArray[np.int64]:
        """The tokens that must be embedded: their indices in ``frame``, [M] int64, ascending."""
        places, changes = self._keys(frame)
        missing = []
        for index, (place, changed) in enumerate(zip(places, changes, strict=True)):
            if self._row(place, changed) is None:
                missing.append(index)
            else:
                self._entries.move_to_end(place)
        self.hits += len(places) - len(missing)
        self.misses += len(missing)
        return np.array(missing, np.int64)

    def store(self, frame: Frame, indices: Any, embeddings: Any) -> None:
        """Caches the embeddings of some tokens.

        :param indices: which tokens of ``frame``, [M] of int.
        :param embeddings: [M, ...] of a NumPy array or a tensor.
        :raises ValueError: if the counts of embeddings and indices differ, the embeddings differ in kind from cached
            ones, or the frame has more tokens than the cache can hold.
        """
        indices = np.asarray(indices)
        if len(indices) != len(embeddings):
            raise ValueError(f"{len(embeddings)} embeddings (expected {len(indices)}, one a token)")
        places, changes = self._keys(frame)
        self._make_table(embeddings)
        rows = [self._take_row(places[index], changes[index]) for index in indices.tolist()]
        self._table[_index(self._table, rows)] = _detached(embeddings)

    def gather(self, frame: Frame) -> Any:
        """The embeddings of all tokens of ``frame``, [N, ...]: a copy.

        :raises KeyError: if one is not cached.
        """
        places, changes = self._keys(frame)
        rows = [self._row(place, changed) for place, changed in zip(places, changes, strict=True)]
        if None in rows:
            raise KeyError(f"token {rows.index(None)} of frame {frame.frame_seq} was not embedded: see `missing`")
        if self._table is None:
            raise KeyError("nothing was embedded yet")
        return self._table[_index(self._table, rows)]

    def _keys(self, frame: Frame) -> tuple[list[_Place], list[int]]:
        if self.capacity < len(frame):
            raise ValueError(f"cache too small: {self.capacity} tokens (expected at least {len(frame)}, those of a frame)")
        source = (frame.epoch, frame.view, frame.layout)
        tokens = frame.tokens
        places = zip(*(tokens[name].tolist() for name in picture.PLACE), strict=True)
        return [source + place for place in places], tokens["changed_frame"].tolist()

    def _row(self, place: _Place, changed_frame: int) -> int | None:
        """The row of a place, if its content is from ``changed_frame``."""
        kept, row = self._entries.get(place, (None, None))
        return row if kept == changed_frame else None

    def _take_row(self, place: _Place, changed_frame: int) -> int:
        """A row for new content of ``place``: its own, a free one, or that of the least recently used place."""
        if place in self._entries:
            _, row = self._entries.pop(place)
        elif len(self._entries) < self.capacity:
            row = len(self._entries)
        else:
            _, (_, row) = self._entries.popitem(last=False)
        self._entries[place] = (changed_frame, row)
        return row

    def _make_table(self, embeddings: Any) -> None:
        """Creates the table for embeddings of this kind, or checks that they fit the existing one."""
        shape = (self.capacity, *embeddings.shape[1:])
        if self._table is None:
            is_tensor = hasattr(embeddings, "new_zeros")
            self._table = embeddings.new_zeros(shape) if is_tensor else np.zeros(shape, embeddings.dtype)
        table = self._table
        found = (tuple(embeddings.shape[1:]), embeddings.dtype, getattr(embeddings, "device", None))
        kept = (tuple(table.shape[1:]), table.dtype, getattr(table, "device", None))
        if found != kept:
            raise ValueError(
                f"got embeddings of {found}, but the cached ones are of {kept}: use one cache per model"
            )


def _index(table: Any, rows: list[Any]) -> Any:
    """``rows`` as an index of ``table``."""
    if not hasattr(table, "new_zeros"):
        return np.array(rows, np.int64)
    import torch

    return torch.tensor(rows, dtype=torch.int64, device=table.device)


def _detached(embeddings: Any) -> Any:
    return embeddings.detach() if hasattr(embeddings, "detach") else embeddings
