"""Draws how relevance comes about: a frame of a clip, some of its channels, the score, and the tokens that follow it."""

import subprocess
import tempfile
from pathlib import Path

import numpy as np
from measuring import ROOT
from PIL import Image, ImageDraw, ImageFont

from foveate import TOKEN
from foveate.picture import smoothed

#: The last is the score.
CHANNELS = ["entropy", "strokes", "intensity", "change", "unseen", "relevance"]
#: Number of the frame.
FRAME = 60
COLUMNS = 4
WIDTH, TITLE, GAP = 296, 22, 6


def run(arguments):
    pictures = drawn(arguments)
    height = WIDTH * 3 // 4
    rows = -(-len(pictures) // COLUMNS)
    sheet = Image.new("RGB", (COLUMNS * (WIDTH + GAP) - GAP, rows * (TITLE + height + GAP) - GAP), "white")
    draw, font = ImageDraw.Draw(sheet), ImageFont.truetype("DejaVuSans.ttf", 15)
    for index, (title, picture) in enumerate(pictures.items()):
        x, y = index % COLUMNS * (WIDTH + GAP), index // COLUMNS * (TITLE + height + GAP)
        draw.text((x, y), title, "black", font)
        sheet.paste(picture.resize((WIDTH, height), Image.LANCZOS), (x, y + TITLE))
    path = ROOT / "docs" / "images" / "relevance.png"
    sheet.quantize(192).save(path, optimize=True)
    yield "relevance", str(path)


def drawn(arguments):
    """The pictures by their titles."""
    clip = arguments.cache / "vtest.avi"
    channels = ", ".join(f'"{name}"' for name in CHANNELS)
    view = f'[[stream.view]]\nname = "model"\ndtype = "u8"\nchannels = [{channels}]\ngaze = {{ policy = "relevance" }}\n'
    full = '[[stream.view]]\nname = "full"\nlayout = "uniform"\nbudget = 2000\ndtype = "u8"\n'
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "relevance.toml"
        config.write_text(f'[[stream]]\nname = "clip"\nsource = "{clip}"\n{view}{full}')
        out = Path(folder) / "arrays"
        subprocess.run(
            [arguments.foveate, "extract", clip, "--config", config, "--out", out], check=True, stdout=subprocess.DEVNULL
        )
        plane = np.load(out / "model" / "channels.npy", mmap_mode="r")[FRAME].astype(np.float32)
        tokens, picture = (frame(out / name) for name in ("model", "full"))
    pictures = {"picture": Image.fromarray(picture[1])}
    for name, values in zip(CHANNELS, plane, strict=True):
        # Scores are from -1 to 1, the others from 0.
        heat = (values + 1) / 2 if name == "relevance" else values
        pictures["score" if name == "relevance" else name] = heated(heat, pictures["picture"].size)
    pictures["tokens"] = Image.fromarray(tokens[1])
    draw = ImageDraw.Draw(pictures["tokens"])
    for x0, y0, x1, y1 in tokens[0]["box"].tolist():
        draw.rectangle((x0, y0, x1 - 1, y1 - 1), outline="white")
    return pictures


def frame(folder):
    """The records of the frame in a folder of arrays, and the picture that they show."""
    count = np.load(folder / "frames.npy")["token_count"][FRAME]
    tokens = np.array(np.load(folder / "tokens.npy", mmap_mode="r")[FRAME, :count]).view(TOKEN)
    texels = np.load(folder / "pixels.npy", mmap_mode="r")[FRAME, :count]
    extent = int(tokens["box"][:, 2].max()), int(tokens["box"][:, 3].max())
    return tokens, smoothed(tokens, np.moveaxis(texels, 1, 3), extent)


def heated(values, size):
    """Cells of 32 pixels from black over red and yellow to white."""
    colors = np.clip(3 * values[..., np.newaxis] - [0, 1, 2], 0, 1)
    cells = Image.fromarray((255 * colors).astype(np.uint8))
    return cells.resize((values.shape[1] * 32, values.shape[0] * 32), Image.NEAREST).crop((0, 0, *size))
