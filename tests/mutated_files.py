"""Right files with a few bytes changed, through every way that they are read; a process of its own.

`python mutated_files.py KIND FIRST COUNT` tries the cases FIRST, FIRST + 1, ... of a kind of file and prints what
came out as JSON. Before each case its number goes to standard error, so that the last one there names the case that
ended the process.
"""

from __future__ import annotations

import io
import json
import random
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from nearer.datasets import load_files
from nearer.datasets._anything import read_frame
from nearer.datasets._image_files import load_image, why_unreadable
from nearer.datasets._streams import open_stream
from nearer.models._reading import read_items
from random_cases import OUTCOMES, outcome

PIECES = [
    b"\0",
    b"\xff" * 8,
    b"9" * 40,
    b'"',
    b",",
    b";",
    b"\n",
    b"\r",
    b"-",
    b"nan",
    b"inf",
    b"1e999",
    b"007",
    b"\xed\xa0\x80",
]
PIECES += [
    b"\x7f\xff\xff\xff",
    bytes(7) + b"\x01",
    b"yes",
    b"2024-02-30",
    b"\xef\xbb\xbf",
    b"1,2,3",
    b"(999999999,)",
]


LETTERS = b'0123456789.,;- "\n\tabxyE'


def saved(write: Callable[[Any], object]) -> bytes:
    buffer = io.BytesIO()
    write(buffer)
    return buffer.getvalue()


def tables() -> list[bytes]:
    rows = "".join(
        f"{n},{n / 7:.3f},{'xyz'[n % 3]},2024-01-{1 + n % 28:02d},{n:05d},{n % 2 == 0}\n" for n in range(30)
    )
    european = "".join(f"{n};{n},5;{'ab'[n % 2]}\n" for n in range(12))
    holes = 'a,b,class\n1,2,x\n3,,y\n"4 ""q""",5,\n-1e5,nan,z\n'
    return [f"n,w,class,day,code,flag\n{rows}".encode(), f"a;b;class\n{european}".encode(), holes.encode()]


def parquets() -> list[bytes]:
    import pyarrow as pa
    from pyarrow import parquet as pq

    chance = np.random.default_rng(0)
    table = pa.table(
        {
            "a": chance.normal(size=30),
            "b": [[1.0, 2.0]] * 30,
            "n": pa.array([None if n == 7 else n * 10**12 for n in range(30)], pa.int64()),
            "day": pa.array(range(30), pa.date32()),
            "class": ["x", "y", None] * 10,
        }
    )
    plain = table.select(["a", "class"])
    return [
        saved(lambda buffer: pq.write_table(table, buffer, row_group_size=16)),
        saved(lambda buffer: pq.write_table(table, buffer, compression="none", data_page_version="2.0")),
        saved(lambda buffer: pq.write_table(plain, buffer, use_dictionary=False, compression="zstd")),
    ]


def arrays() -> list[bytes]:
    rows = np.random.default_rng(0).normal(size=(12, 3))
    kinds = (rows, rows.astype(np.float32)[:, :2], np.eye(4, dtype=np.int8))
    return [saved(lambda buffer, one=one: np.save(buffer, one)) for one in kinds]


def archives() -> list[bytes]:
    rows = np.random.default_rng(0).normal(size=(12, 3))
    names = np.array(["a", "bc"] * 6)
    return [
        saved(lambda buffer: np.savez(buffer, x=rows, y=np.arange(12))),
        saved(lambda buffer: np.savez_compressed(buffer, x_train=rows, y_train=names, x_test=rows, y_test=names)),
    ]


def pictures(kind: str) -> list[bytes]:
    from PIL import Image

    exif = Image.Exif()
    exif[0x0112] = 6
    color = Image.fromarray(np.random.default_rng(0).integers(0, 256, (12, 9, 3)).astype(np.uint8))
    deep = Image.fromarray(np.arange(64, dtype=np.uint16).reshape(8, 8) * 999)
    real = Image.fromarray(np.linspace(-1, 2, 64, dtype=np.float32).reshape(8, 8))
    kinds = {
        "png": [color, color.convert("P"), color.convert("RGBA"), deep],
        "tiff": [color, real, deep, color.convert("CMYK")],
        "webp": [color, color.convert("RGBA")],
    }.get(kind, [color, color.convert("L")])
    more = {"exif": exif} if kind in ("png", "jpeg", "tiff", "webp") else {}
    name = {"pgm": "ppm"}.get(kind, kind)
    return [saved(lambda buffer, one=one: one.save(buffer, name, **more)) for one in kinds]


def read_stream(path: Path) -> None:
    for _ in open_stream(path).parts(3, 10):
        pass


def read_table(path: Path) -> None:
    column = read_frame(path, exact=None)
    for name in column.names:
        column[name].kept(), column[name].names()


TABLE = [
    lambda path: load_files(path, label="class"),
    lambda path: read_items(path, "class"),
    read_table,
    read_stream,
]
NUMBERS = [lambda path: load_files(path), lambda path: read_items(path)]
PICTURE = [
    load_image,
    why_unreadable,
    lambda path: load_image(path, 4, mode="L"),
    lambda path: load_image(path, enough=2),
]
PICTURES = ("png", "jpeg", "gif", "tiff", "bmp", "webp", "pgm")
# The kind, which is the suffix too -> right files, and all that reads them.
KINDS: dict[str, tuple[Callable[[], list[bytes]], list[Callable[[Path], Any]]]] = {
    "csv": (tables, TABLE),
    "tsv": (lambda: [one.replace(b";", b"\t").replace(b",", b"\t") for one in tables()], TABLE),
    "parquet": (parquets, TABLE),
    "npy": (arrays, [*NUMBERS, read_stream]),
    "npz": (archives, NUMBERS),
    **{kind: (lambda kind=kind: pictures(kind), PICTURE) for kind in PICTURES},
}


def mutated(right: bytes, chance: random.Random) -> bytes:
    """A few bytes changed, most of them at the ends, where the structure is; of text most often to other text."""
    text = right.isascii() and chance.random() < 0.8
    data = bytearray(right)
    for _ in range(chance.randint(1, 2 if text else 8)):
        if not data:
            break
        end = min(len(data), 400)
        place = chance.choice(
            [chance.randrange(len(data)), chance.randrange(end), len(data) - 1 - chance.randrange(end)]
        )
        change = chance.random()
        if change < 0.75:
            bits = [chance.randrange(256), 0, 127, 128, 255, data[place] ^ (1 << chance.randrange(8))]
            data[place] = chance.choice(LETTERS if text else bits)
        elif change < 0.83:
            del data[place : place + chance.randint(1, 10)]
        elif change < 0.85:
            del data[place:]
        elif change < 0.93:
            data[place:place] = chance.choice(PIECES)
        else:
            data[place:place] = data[place : place + chance.randint(1, 40)]
    return bytes(data)


def main(kind: str, first: int, count: int) -> None:
    make, reads = KINDS[kind]
    right, raw = make(), []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"file.{kind}"
        for number in range(first, first + count):
            chance = random.Random(f"{kind} {number}")
            path.write_bytes(mutated(chance.choice(right), chance))
            print(number, file=sys.stderr, flush=True)
            for read in reads:
                try:
                    outcome(kind, lambda read=read: read(path))
                except Exception:
                    raw.append(f"{kind} {number}: {traceback.format_exc(limit=-3)}")
    told = {name: count for (_, name), count in OUTCOMES.items()}
    print(json.dumps({**{"answered": 0, "refused": 0}, **told, "raw": raw}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
