"""Tokens in Daft: :func:`tokenizer` makes a function of columns.

Example::

    import daft
    from foveate_engine.daft import tokenizer

    tokens = tokenizer(budget=128)
    frame = daft.from_pydict({"path": paths})
    frame = frame.select(tokens(frame["path"]).unnest())
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import daft
import pyarrow as pa

from . import datasets

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .keys import LayoutKeys

#: Items of a batch.
_BATCH = 64


def tokenizer(
    *,
    concurrency: int | None = None,
    batch_size: int = _BATCH,
    backend: str = "cpu",
    threads: int = 1,
    **layout: Unpack[LayoutKeys],
) -> Callable[..., daft.Expression]:
    """A function of columns that returns a column of rows, as structs of the columns of :mod:`foveate_engine.datasets`.

    Each process that runs it has one engine. Its items are pictures: a clip has several rows, and Daft expects one for
    each item.

    :param concurrency: how many processes run it; None runs it in one thread of the caller's.
    :param batch_size: most items of a batch.
    :param backend: as for :class:`foveate_engine.datasets.Encoder`; so are ``threads`` and ``layout``.
    :returns: a function (path, bytes=None, fixation=None) of expressions. Without bytes the files are read.
    :raises TypeError: if there is no such argument.
    :raises ValueError: if one is wrong, or does not go with another.
    """
    if "every" in layout:
        raise TypeError("every: a clip has several rows, and Daft expects one for each item; use an Encoder, or Ray")

    def make_encoder() -> datasets.Encoder:
        return datasets.Encoder(backend=backend, threads=threads, **layout)

    encoder = make_encoder()
    fields = pa.struct(list(encoder.schema))
    encoder.close()

    class Tokenizer:
        def __init__(self) -> None:
            self._encoder = make_encoder()

        def encode(self, path: daft.Series, *others: daft.Series) -> pa.Array:
            columns = dict(zip(("path", "bytes", "fixation"), (path, *others), strict=True))
            table = self._encoder.table(pa.table({name: column.to_arrow() for name, column in columns.items()}))
            return pa.StructArray.from_arrays(
                [column.combine_chunks() for column in table.columns], fields=list(fields)
            )

        rows = daft.method.batch(encode, return_dtype=daft.DataType.from_arrow_type(fields), batch_size=batch_size)

    tokenizer_of_a_process = daft.cls(
        Tokenizer, **({} if concurrency is None else {"max_concurrency": concurrency, "use_process": True})
    )
    instance = tokenizer_of_a_process()

    def tokens(
        path: daft.Expression, bytes: daft.Expression | None = None, fixation: daft.Expression | None = None
    ) -> daft.Expression:
        others = [daft.lit(None) if other is None else other for other in (bytes, fixation)]
        return instance.rows(path, *others)

    return tokens
