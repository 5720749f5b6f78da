"""Tokens in Ray Data: :class:`Tokenizer` is for ``map_batches``.

Example::

    import ray
    from foveate_engine.ray import Tokenizer

    items = ray.data.from_items([{"path": path} for path in paths])
    items.map_batches(
        Tokenizer,
        fn_constructor_kwargs={"folder": "tokens", "budget": 128},
        batch_format="pyarrow",
        batch_size=64,
        compute=ray.data.ActorPoolStrategy(size=8),
    ).materialize()
"""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING

import pyarrow as pa

from . import datasets

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .keys import LayoutKeys


class Tokenizer:
    """What an actor of ``ray.data.Dataset.map_batches`` runs, with ``batch_format="pyarrow"``: items in, rows out.

    Ray restarts an actor when its process dies, and repeats the batches that it had not answered. With a ``folder``
    that neither loses nor repeats rows: each batch is one file, which appears whole or not at all, and items that the
    folder holds are left out. So a job that was killed goes on when it is started again with the same folder.
    """

    def __init__(
        self,
        folder: str | PathLike[str] | None = None,
        *,
        every: float | None = None,
        backend: str = "cpu",
        threads: int = 1,
        **layout: Unpack[LayoutKeys],
    ) -> None:
        """
        :param folder: where rows are written, as Parquet; all nodes must see it. None returns them instead.
        :param every: as for :class:`foveate_engine.datasets.Encoder`; so are ``backend``, ``threads`` and ``layout``.
        """
        self._encoder = datasets.Encoder(every=every, backend=backend, threads=threads, **layout)
        self._folder = folder
        # What other actors write meanwhile, this one is not given: Ray gives a batch to one at a time.
        self._done = set() if folder is None else datasets.done(folder)

    def __call__(self, items: pa.Table) -> pa.Table:
        """
        :param items: a batch with the columns that :meth:`foveate_engine.datasets.Encoder.table` takes.
        :returns: its rows; with a folder one of :data:`foveate_engine.datasets.WRITTEN` for each item that was not
            there.
        """
        if self._folder is None:
            return self._encoder.table(items)
        written = self._encoder.write(items, self._folder, self._done)
        self._done.update(written["id"].to_pylist())
        return written
