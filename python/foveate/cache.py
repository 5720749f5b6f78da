"""Keeps what a model computed for tokens, for as long as their content stays the same."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Callable

import numpy as np
from numpy.typing import NDArray

from .frame import Frame

#: Epoch, view, layout, level, x, y: where a token's content lies.
_Place = tuple[int, str, str, int, int, int]


class TokenCache:
    """Patch embeddings of tokens, of NumPy arrays or of tensors, for one model.

    A token of the same epoch, view, layout, place and ``changed_frame`` has the same bytes, so its patch embedding is
    still exact. Each place has one entry, with its newest content; those that were used least lately make room for new
    ones, so that places of past fixations are still known when the eye comes back to them.

    Only what depends on the token alone may be kept: the patch embedding, not the position embedding or what attention
    made of it. Gradients are not kept. For one thread at a time.

    ::

        cache = foveate.TokenCache(4096)
        embeddings = cache.embed(frame, lambda new: model.patch_embed(frame.torch("cuda", new)))
    """

    def __init__(self, capacity: int = 4096) -> None:
        """:param capacity: places that are kept; at least as many as a frame has tokens, several times that to be of use
        after saccades. Each takes the memory of one embedding."""
        if capacity < 1:
            raise ValueError(f"a cache of {capacity} tokens keeps nothing: `capacity` must be at least 1")
        self.capacity = capacity
        #: Tokens that were found, and tokens that had to be embedded, up to now.
        self.hits, self.misses = 0, 0
        #: For each place, least lately used first, the frame that its content is of and its row of the table.
        self._entries: OrderedDict[_Place, tuple[int, int]] = OrderedDict()
        #: [capacity, ...], made when the first embedding comes.
        self._table: Any = None

    def __len__(self) -> int:
        return len(self._entries)

    def clear(self) -> None:
        """Forgets everything, as after a change of the model's weights."""
        self._entries.clear()
        self._table = None

    def embed(self, frame: Frame, function: Callable[[NDArray[Any]], Any]) -> Any:
        """The embeddings of all tokens of ``frame``, of which ``function`` computes those that are not known.

        :param function: gets the indices of the tokens to embed, [M] int64 with 0 < M, and returns their embeddings,
            [M, ...], always of one shape, dtype and device. It is not called if all are known.
        :returns: [N, ...], a copy, of the type that ``function`` returns.
        """
        missing = self.missing(frame)
        if len(missing):
            self.store(frame, missing, function(missing))
        return self.gather(frame)

    def missing(self, frame: Frame) -> NDArray[Any]:
        """The tokens that must be embedded anew: their indices in ``frame``, [M] int64, ascending."""
        places, changes = self._keys(frame)
        missing = []
        for index, (place, changed) in enumerate(zip(places, changes)):
            if self._row(place, changed) is None:
                missing.append(index)
            else:
                self._entries.move_to_end(place)
        self.hits += len(places) - len(missing)
        self.misses += len(missing)
        return np.array(missing, np.int64)

    def store(self, frame: Frame, indices: Any, embeddings: Any) -> None:
        """Keeps the embeddings of some tokens.

        :param indices: which tokens of ``frame``, [M] of int.
        :param embeddings: [M, ...] of a NumPy array or a tensor.
        :raises ValueError: if there are not as many embeddings as indices, they differ in kind from those that were kept
            before, or the frame has more tokens than the cache has room for.
        """
        indices = np.asarray(indices)
        if len(indices) != len(embeddings):
            raise ValueError(f"{len(embeddings)} embeddings came for {len(indices)} tokens")
        places, changes = self._keys(frame)
        self._make_table(embeddings)
        rows = [self._take_row(places[index], changes[index]) for index in indices.tolist()]
        self._table[_index(self._table, rows)] = _detached(embeddings)

    def gather(self, frame: Frame) -> Any:
        """The embeddings of all tokens of ``frame``, [N, ...]: a copy.

        :raises KeyError: if one is not known.
        """
        places, changes = self._keys(frame)
        rows = [self._row(place, changed) for place, changed in zip(places, changes)]
        if None in rows:
            raise KeyError(f"token {rows.index(None)} of frame {frame.frame_seq} was not embedded: see `missing`")
        if self._table is None:
            raise KeyError("nothing was embedded yet")
        return self._table[_index(self._table, rows)]

    def _keys(self, frame: Frame) -> tuple[list[_Place], list[int]]:
        if self.capacity < len(frame):
            raise ValueError(f"a cache of {self.capacity} tokens has no room for the {len(frame)} of a frame")
        source = (frame.epoch, frame.view, frame.layout)
        tokens = frame.tokens
        places = zip(tokens["level"].tolist(), tokens["x"].tolist(), tokens["y"].tolist())
        return [source + place for place in places], tokens["changed_frame"].tolist()

    def _row(self, place: _Place, changed_frame: int) -> int | None:
        """The row of a place whose content is the one of ``changed_frame``."""
        kept, row = self._entries.get(place, (None, None))
        return row if kept == changed_frame else None

    def _take_row(self, place: _Place, changed_frame: int) -> int:
        """A row for new content of ``place``: its own, a free one, or that of the place that was used least lately."""
        if place in self._entries:
            _, row = self._entries.pop(place)
        elif len(self._entries) < self.capacity:
            row = len(self._entries)
        else:
            _, (_, row) = self._entries.popitem(last=False)
        self._entries[place] = (changed_frame, row)
        return row

    def _make_table(self, embeddings: Any) -> None:
        """Makes the table for embeddings like these, or checks that they fit the one there is."""
        shape = (self.capacity, *embeddings.shape[1:])
        if self._table is None:
            is_tensor = hasattr(embeddings, "new_zeros")
            self._table = embeddings.new_zeros(shape) if is_tensor else np.zeros(shape, embeddings.dtype)
        table = self._table
        found = (tuple(embeddings.shape[1:]), embeddings.dtype, getattr(embeddings, "device", None))
        kept = (tuple(table.shape[1:]), table.dtype, getattr(table, "device", None))
        if found != kept:
            raise ValueError(
                f"embeddings of {found} came, and those that are kept are of {kept}: use one cache a model"
            )


def _index(table: Any, rows: list[Any]) -> Any:
    """``rows`` as what indexes ``table``."""
    if not hasattr(table, "new_zeros"):
        return np.array(rows, np.int64)
    import torch

    return torch.tensor(rows, dtype=torch.int64, device=table.device)


def _detached(embeddings: Any) -> Any:
    return embeddings.detach() if hasattr(embeddings, "detach") else embeddings
