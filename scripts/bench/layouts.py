"""Draws docs/images/layouts.png: the layouts side by side on one picture, the 120th frame of vtest.avi.

Usage: layouts.py --programs FOLDER --out FILE PICTURE

Needs Pillow (Debian: python3-pil).
"""

import argparse
import subprocess
import tempfile
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

FIXATION = 'gaze = { policy = "fixed", x = 0.62, y = 0.45 }'
#: Title, and the keys of its view. Each has at most 273 tokens of 16x16 texels, but for windows.
LAYOUTS = {
    "foveal": f'layout = "foveal"\n{FIXATION}',
    "inset": f'layout = "inset"\n{FIXATION}',
    "uniform": 'layout = "uniform"',
    "relevance": 'layout = "relevance"',
    "rings (stt172)": f'layout = "rings"\npreset = "stt172"\n{FIXATION}',
    "windows (224 x 224)": f'layout = "windows"\npatch = 224\nbudget = 3\ndtype = "u8"\n{FIXATION}',
}
COLUMNS = 3
WIDTH, TITLE, GAP = 384, 22, 6


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("picture", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        pictures = boxes(arguments.programs, arguments.picture, Path(folder))
    height = pictures[0].height * WIDTH // pictures[0].width
    rows = -(-len(pictures) // COLUMNS)
    sheet = Image.new("RGB", (COLUMNS * (WIDTH + GAP) - GAP, rows * (TITLE + height + GAP) - GAP), "white")
    draw, font = ImageDraw.Draw(sheet), ImageFont.truetype("DejaVuSans.ttf", 15)
    for index, (title, picture) in enumerate(zip(LAYOUTS, pictures)):
        x, y = index % COLUMNS * (WIDTH + GAP), index // COLUMNS * (TITLE + height + GAP)
        draw.text((x, y), title, "black", font)
        sheet.paste(picture.resize((WIDTH, height), Image.LANCZOS), (x, y + TITLE))
    sheet.quantize(192).save(arguments.out, optimize=True)


def boxes(programs, picture, folder):
    """What `foveate snap` draws of each layout."""
    views = "".join(f'[[stream.view]]\nname = "v{index}"\n{keys}\n' for index, keys in enumerate(LAYOUTS.values()))
    configuration, socket = folder / "layouts.toml", folder / "foveate.sock"
    configuration.write_text(f'[[stream]]\nname = "still"\nsource = "{picture.absolute()}"\nloop = true\n{views}')
    command = [programs / "foveated", "--config", configuration, "--socket", socket]
    daemon = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    tool = [programs / "foveate", "--socket", socket]
    try:
        pictures = []
        for index in range(len(LAYOUTS)):
            subprocess.run([*tool, "wait", f"still/v{index}"], check=True, stdout=subprocess.DEVNULL)
            subprocess.run([*tool, "snap", f"still/v{index}", "--out", folder], check=True, stdout=subprocess.DEVNULL)
            with Image.open(folder / "boxes.png") as drawn:
                pictures.append(drawn.convert("RGB"))
        return pictures
    finally:
        daemon.terminate()
        daemon.wait()


if __name__ == "__main__":
    main()
