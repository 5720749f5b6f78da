"""Tables of tokens: pictures and clips by path or bytes in, Arrow rows out, written so that a killed job can go on.

:class:`Encoder` is what the operators for Ray (:mod:`foveate_engine.ray`) and Daft (:mod:`foveate_engine.daft`) run; it
needs only pyarrow. ``docs/guide/datasets.md`` is the guide, and has a table of the columns.

A row holds the tokens of a picture, or of a frame of a clip. Its tensors are Arrow's fixed-shape tensors: lists of one
length, which any reader of Parquet has as lists. Its records are a struct of lists, each of which is a column of its own in
a file, so that a reader loads those that it needs.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ._native import BackendError, EngineError
from .arrays import BLACK, Color
from .engine import MAX_PIXELS, Engine, color_of, decode, gray_of, pixels_of
from .keys import LayoutKeys, layout_keys
from .tokens import TOKEN, Tokens, spec

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: Fields of ``tokens``, each as in :data:`foveate_engine.TOKEN`; ``box`` is x0, y0, x1 and y1. ``relevance`` is
#: float32, all others are int32.
TOKEN_FIELDS = (
    *("x", "y", "sx", "sy", "extra_width", "extra_height", "x0", "y0", "x1", "y1", "group", "fovea"),
    *("first_column", "columns", "first_row", "rows", "relevance"),
)

#: Columns of the four corners in ``box``, in its order.
_CORNERS = ("x0", "y0", "x1", "y1")

#: Types of the texels in a table; a bfloat16 is its bits.
_TEXELS = {"u8": pa.uint8(), "f16": pa.float16(), "bf16": pa.uint16(), "f32": pa.float32()}

#: Pictures that take more bytes than this are sampled before the next is decoded.
_DECODED_BYTES = 128 << 20

#: Columns of the table that :meth:`Encoder.write` returns, with a row for each item.
WRITTEN = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("source", pa.string()),
        pa.field("rows", pa.int32()),
        pa.field("error", pa.string()),
        pa.field("file", pa.string()),
    ]
)


@dataclass(frozen=True)
class Item:
    """A picture or clip to encode.

    :ivar id: Hash of the source, the fixation and the options.
    :ivar source: Path of the picture or clip; for bytes without a path ``sha256:`` and their hash.
    :ivar content: Bytes of the picture or clip; None reads the file.
    :ivar fixation: Where to look, x and y in source pixels of each point; None is the middle.
    """

    id: str
    source: str
    content: bytes | None
    fixation: list[list[float]] | None


@dataclass(frozen=True)
class _Row:
    item: Item
    frame: int = 0
    tokens: Tokens | None = None
    error: str | None = None


class Encoder:
    """Encodes items of one kind with one set of options. It has an engine, so make one in each process.

    :ivar schema: The table's schema. Its metadata has the options as JSON under ``foveate``, with ``mean``, ``std``
        and ``capacity``.
    """

    def __init__(
        self,
        *,
        every: float | None = None,
        backend: str = "cpu",
        threads: int = 1,
        max_pixels: int = MAX_PIXELS,
        background: Color = BLACK,
        gray_range: tuple[int, int] | None = None,
        **layout: Unpack[LayoutKeys],
    ) -> None:
        """
        :param every: None for pictures. Of clips, the first frame of every so many seconds is kept; 0 keeps all. Clips
            need :meth:`foveate_engine.Engine.video`, and are looked at in the middle. All rows of a clip are in memory at
            once.
        :param backend: as for :class:`foveate_engine.Engine`.
        :param threads: threads of the engine. One for each worker is best where there are as many workers as
            processors.
        :param max_pixels: a picture of more is an item that cannot be read.
        :param background: R, G and B, 0 to 255, on which what is transparent is composited.
        :param gray_range: as for :func:`foveate_engine.decode`.
        :param layout: keys of :class:`foveate_engine.keys.LayoutKeys`.
        :raises TypeError: if there is no such argument.
        :raises ValueError: if one is wrong, or does not go with another.
        :raises BackendError: if there is no such device.
        """
        self._options = _options(every, color_of(background), gray_of(gray_range), layout)
        self._decoding: dict[str, Any] = {
            "max_pixels": pixels_of(max_pixels), "background": color_of(background), "gray_range": gray_of(gray_range)
        }
        self._layout = layout
        self._every = every
        checked = spec(layout_keys(**layout))
        self._capacity, self._patch, self._foveae = checked.capacity, checked.patch, layout.get("foveae") or 1
        self._texels = _TEXELS[checked.dtype]
        about = {**self._options, "capacity": checked.capacity, "mean": list(checked.mean), "std": list(checked.std)}
        self.schema = _schema(checked.capacity, checked.patch, self._foveae, self._texels, about)
        self._engine = Engine(backend, threads=threads)

    def close(self) -> None:
        """Ends the engine."""
        self._engine.close()

    def table(self, items: pa.Table) -> pa.Table:
        """Rows of items, in their order; those of a clip follow one another.

        :param items: columns ``path`` (string), ``bytes`` (binary), or both (the bytes are read, and the path is their
            name); and perhaps ``fixation``: (x, y) in source pixels or a list of such points, null for the middle.
            Other columns are left out.
        :returns: a table of :attr:`schema`. An item that cannot be read has one row, with an ``error``; of a clip that
            fails later, the frames before stay.
        :raises ValueError: if a column is missing.
        """
        return self._table(self._items(items))

    def write(self, items: pa.Table, folder: str | PathLike[str], done: Iterable[str] = ()) -> pa.Table:
        """Encodes items into one Parquet file of a folder, unless they are there.

        The file appears whole or not at all. Its name depends only on the ids in it, so doing the same again changes
        nothing.

        :param items: as for :meth:`table`; an item that occurs twice is written once.
        :param folder: made if it is missing.
        :param done: ids to leave out: :func:`done`.
        :returns: a table of :data:`WRITTEN`, a row for each item that was written.
        """
        known, new = set(done), []
        for item in self._items(items):
            if item.id not in known:
                known.add(item.id)
                new.append(item)
        if not new:
            return WRITTEN.empty_table()
        table = self._table(new)
        file = str(write(table, folder))
        rows, errors = dict.fromkeys((item.id for item in new), 0), {}
        for id, error in zip(table["id"].to_pylist(), table["error"].to_pylist(), strict=True):
            rows[id] += 1
            errors[id] = error
        written = [
            {"id": item.id, "source": item.source, "rows": rows[item.id], "error": errors[item.id], "file": file}
            for item in new
        ]
        return pa.Table.from_pylist(written, WRITTEN)

    def _items(self, items: pa.Table) -> list[Item]:
        return list(_items_of(items, self._options))

    def _table(self, items: Iterable[Item]) -> pa.Table:
        rows = (
            self._pictures(list(items)) if self._every is None else [row for item in items for row in self._clip(item)]
        )
        count, side = len(rows), self._patch
        pixels = np.zeros((count, self._capacity, 3, side, side), _dtype(self._texels))
        records = np.zeros((count, self._capacity), TOKEN)
        fixations = np.full((count, self._foveae, 2), np.nan)
        for index, row in enumerate(rows):
            if row.tokens is not None:
                pixels[index, : len(row.tokens)], records[index, : len(row.tokens)] = (
                    row.tokens.pixels,
                    row.tokens.tokens,
                )
                fixations[index, : len(row.tokens.fixations)] = row.tokens.fixations
        extents = [(0, 0) if row.tokens is None else row.tokens.info.extent for row in rows]
        columns = {
            "id": [row.item.id for row in rows],
            "frame": [row.frame for row in rows],
            "seconds": [None if row.tokens is None else row.tokens.seconds for row in rows],
            "source": [row.item.source for row in rows],
            "width": [width for width, _ in extents],
            "height": [height for _, height in extents],
            "fixation": _tensors(fixations, self.schema.field("fixation").type),
            "count": [0 if row.tokens is None else len(row.tokens) for row in rows],
            "pixels": _tensors(pixels, self.schema.field("pixels").type),
            "tokens": _records(records, self.schema.field("tokens").type),
            "error": [row.error for row in rows],
        }
        arrays = [
            pa.array(column, self.schema.field(name).type) if isinstance(column, list) else column
            for name, column in columns.items()
        ]
        return pa.Table.from_arrays(arrays, schema=self.schema)

    def _pictures(self, items: list[Item]) -> list[_Row]:
        rows: dict[int, _Row] = {}
        decoded: list[tuple[int, NDArray[np.uint8]]] = []
        for index, item in enumerate(items):
            try:
                if not item.source:
                    raise ValueError("the item has neither a path nor bytes")
                picture = decode(item.source if item.content is None else item.content, **self._decoding)
                decoded.append((index, picture))
            except (EngineError, OSError, ValueError) as error:
                rows[index] = _Row(item, error=_cause(error))
            if _DECODED_BYTES < sum(picture.nbytes for _, picture in decoded):
                rows.update(self._sampled(items, decoded))
                decoded.clear()
        rows.update(self._sampled(items, decoded))
        return [rows[index] for index in range(len(items))]

    def _sampled(self, items: list[Item], decoded: list[tuple[int, NDArray[np.uint8]]]) -> dict[int, _Row]:
        """The rows of decoded pictures, by the index of their item."""
        rows: dict[int, _Row] = {}
        sizes: dict[tuple[int, ...], list[tuple[int, NDArray[np.uint8]]]] = {}
        for index, picture in decoded:
            sizes.setdefault(picture.shape, []).append((index, picture))
        for of_one_size in sizes.values():
            given = [items[index] for index, _ in of_one_size]
            for (index, _), row in zip(
                of_one_size, self._of_one_size(given, [picture for _, picture in of_one_size]), strict=True
            ):
                rows[index] = row
        return rows

    def _of_one_size(self, items: list[Item], pictures: list[NDArray[np.uint8]]) -> list[_Row]:
        points: list[Any] = [item.fixation for item in items]
        try:
            return [
                _Row(item, tokens=tokens)
                for item, tokens in zip(items, self._engine.batch(pictures, points, **self._layout), strict=True)
            ]
        except BackendError:
            raise
        except (EngineError, TypeError, ValueError) as error:
            if len(items) == 1:
                return [_Row(items[0], error=_cause(error))]
            # One of them cannot be encoded; the others can.
            return [self._of_one_size([item], [picture])[0] for item, picture in zip(items, pictures, strict=True)]

    def _clip(self, item: Item) -> Iterator[_Row]:
        # In whole nanoseconds, as clips have them.
        frame, due, step = 0, 0, round((self._every or 0) * 1e9)
        with tempfile.TemporaryDirectory() as folder:
            try:
                if not item.source:
                    raise ValueError("the item has neither a path nor bytes")
                if item.fixation is not None:
                    raise ValueError("fixation: a clip is looked at in the middle; leave it null")
                path = item.source
                if item.content is not None:
                    path = os.path.join(folder, "clip")
                    Path(path).write_bytes(item.content)
                with self._engine.video(path, **self._decoding, **self._layout) as video:
                    for tokens in video:
                        time = due if tokens.seconds is None else round(tokens.seconds * 1e9)
                        if due <= time or not step:
                            yield _Row(item, frame, tokens)
                            frame += 1
                            # A multiple, so that frames that come late do not add up.
                            due = (time // step + 1) * step if step else 0
            except BackendError:
                raise
            except (EngineError, OSError, ValueError) as error:
                yield _Row(item, frame, error=_cause(error))


def remaining(
    items: pa.Table,
    folder: str | PathLike[str],
    *,
    every: float | None = None,
    background: Color = BLACK,
    gray_range: tuple[int, int] | None = None,
    **layout: Unpack[LayoutKeys],
) -> pa.Table:
    """Items that a folder does not hold yet, each once, with all of their columns.

    :param items: as for :meth:`Encoder.table`.
    :param folder: where :meth:`Encoder.write` or :func:`write` put rows; it may be missing.
    :param every: as for :class:`Encoder`, and so are ``background``, ``gray_range`` and ``layout``: with other options all
        items remain.
    """
    known, keep = done(folder), []
    for item in _items_of(items, _options(every, color_of(background), gray_of(gray_range), layout)):
        keep.append(item.id not in known)
        known.add(item.id)
    return items.filter(pa.array(keep, pa.bool_()))


def done(folder: str | PathLike[str]) -> set[str]:
    """Ids of the items whose rows a folder holds.

    :param folder: it may be missing. Only files right in it count, ``*.parquet``.
    :raises ValueError: if a file cannot be read, as another program may leave it: delete it, and its items are encoded
        again.
    """
    ids: set[str] = set()
    # Hidden files are being written, or were when their job was killed.
    for file in sorted(Path(folder).glob("[!.]*.parquet")):
        try:
            ids.update(pq.read_table(file, columns=["id"], partitioning=None)["id"].to_pylist())
        except pa.ArrowException as error:
            raise ValueError(
                f"{file} is not a complete table of tokens ({error}): delete it, and its items are encoded again"
            ) from error
    return ids


def write(table: pa.Table, folder: str | PathLike[str]) -> Path:
    """Writes rows as a Parquet file that appears whole or not at all, under a name that depends only on their ids.

    :param table: rows of whole items, at least one, with the columns ``id`` and ``frame``.
    :param folder: made if it is missing. A job that is killed may leave hidden files in it (``.*.tmp``), which no
        reader takes for rows.
    :returns: the file.
    :raises OSError: if it cannot be written.
    """
    ids = "\n".join(f"{id} {frame}" for id, frame in zip(table["id"].to_pylist(), table["frame"].to_pylist(), strict=True))
    os.makedirs(folder, exist_ok=True)
    target = Path(folder) / f"{_hash(ids.encode())}.parquet"
    unfinished = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
    try:
        with open(unfinished, "xb") as file:
            # Texels do not repeat, so a dictionary of them is of no use.
            pq.write_table(table, file, compression="snappy", use_dictionary=["source"])
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, target)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    return target


def _items_of(items: pa.Table, options: Mapping[str, Any]) -> Iterator[Item]:
    names = set(items.column_names)
    if not names & {"path", "bytes"}:
        raise ValueError(
            f"items has the columns {', '.join(items.column_names) or 'none'} (expected path, bytes or both)"
        )
    columns = [
        items[name].to_pylist() if name in names else [None] * len(items) for name in ("path", "bytes", "fixation")
    ]
    for path, content, fixation in zip(*columns, strict=True):
        source = path or ("" if content is None else f"sha256:{hashlib.sha256(content).hexdigest()}")
        points = None if fixation is None else _points(fixation)
        text = json.dumps([source, points, options], sort_keys=True)
        yield Item(_hash(text.encode()), source, content, points)


def _points(given: Any) -> list[list[float]]:
    """A point as a list of one. Other values are returned unchanged, and become an error of their item."""
    is_one = len(given) == 2 and not any(isinstance(number, (list, tuple)) for number in given)
    return [list(given)] if is_one else list(given)


def _options(
    every: float | None, background: Color, gray_range: tuple[int, int] | None, layout: LayoutKeys
) -> dict[str, Any]:
    """The options that an id depends on, besides the source and the fixation."""
    if every is not None and not (math.isfinite(every) and 0 <= every):
        raise ValueError(f"every={every} (expected seconds from 0 on, or None for pictures)")
    keys: dict[str, Any] = {key: value for key, value in layout_keys(**layout).items() if value is not None}
    if background != BLACK:
        keys["background"] = list(background)
    if gray_range is not None:
        keys["gray_range"] = list(gray_range)
    return keys if every is None else {**keys, "every": every}


def _schema(capacity: int, patch: int, foveae: int, texels: pa.DataType, about: Mapping[str, Any]) -> pa.Schema:
    fields = [
        pa.field(name, pa.list_(pa.float32() if name == "relevance" else pa.int32(), capacity)) for name in TOKEN_FIELDS
    ]
    return pa.schema(
        [
            pa.field("id", pa.string()),
            pa.field("frame", pa.int32()),
            pa.field("seconds", pa.float64()),
            pa.field("source", pa.string()),
            pa.field("width", pa.int32()),
            pa.field("height", pa.int32()),
            pa.field("fixation", pa.fixed_shape_tensor(pa.float64(), [foveae, 2])),
            pa.field("count", pa.int32()),
            pa.field("pixels", pa.fixed_shape_tensor(texels, [capacity, 3, patch, patch])),
            pa.field("tokens", pa.struct(fields)),
            pa.field("error", pa.string()),
        ],
        metadata={"foveate": json.dumps(about, sort_keys=True)},
    )


def _dtype(type: pa.DataType) -> np.dtype[Any]:
    """That of NumPy. Arrow's ``to_pandas_dtype`` needs pandas."""
    return cast("np.dtype[Any]", pa.array([], type).to_numpy(zero_copy_only=False).dtype)


def _tensors(values: NDArray[Any], type: pa.ExtensionType) -> pa.ExtensionArray:
    storage = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), type=type.storage_type)
    return pa.ExtensionArray.from_storage(type, storage)


def _records(records: NDArray[Any], type: pa.StructType) -> pa.StructArray:
    lists = []
    for field in type:
        name = field.name
        values = records["box"][..., _CORNERS.index(name)] if name in _CORNERS else records[name]
        flat = pa.array(values.reshape(-1).astype(_dtype(field.type.value_type)))
        lists.append(pa.FixedSizeListArray.from_arrays(flat, type=field.type))
    return pa.StructArray.from_arrays(lists, fields=list(type))


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


def _cause(error: Exception) -> str:
    return str(error) or type(error).__name__
