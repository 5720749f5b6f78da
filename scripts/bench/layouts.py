"""Draws the layouts side by side on one picture: a frame of a clip."""

import subprocess
import tempfile

from daemon import Daemon
from measuring import ROOT, gst_launch
from PIL import Image, ImageDraw, ImageFont

FIXATION = 'gaze = { policy = "fixed", x = 0.62, y = 0.45 }'
#: Title, and the keys of its view. Each has at most 273 tokens of 16x16 texels, but for windows.
LAYOUTS = {
    "adaptive": 'layout = "adaptive"',
    "foveal": f'layout = "foveal"\n{FIXATION}',
    "inset": f'layout = "inset"\n{FIXATION}',
    "uniform": 'layout = "uniform"',
    "rings (stt172)": f'layout = "rings"\npreset = "stt172"\n{FIXATION}',
    "windows (224 x 224)": f'layout = "windows"\npatch = 224\nbudget = 3\ndtype = "u8"\n{FIXATION}',
}
#: Number of the frame.
FRAME = 120
COLUMNS = 3
WIDTH, TITLE, GAP = 384, 22, 6


def run(arguments):
    pictures = boxes(arguments)
    height = pictures[0].height * WIDTH // pictures[0].width
    rows = -(-len(pictures) // COLUMNS)
    sheet = Image.new("RGB", (COLUMNS * (WIDTH + GAP) - GAP, rows * (TITLE + height + GAP) - GAP), "white")
    draw, font = ImageDraw.Draw(sheet), ImageFont.truetype("DejaVuSans.ttf", 15)
    for index, (title, picture) in enumerate(zip(LAYOUTS, pictures, strict=True)):
        x, y = index % COLUMNS * (WIDTH + GAP), index // COLUMNS * (TITLE + height + GAP)
        draw.text((x, y), title, "black", font)
        sheet.paste(picture.resize((WIDTH, height), Image.LANCZOS), (x, y + TITLE))
    path = ROOT / "docs" / "images" / "layouts.png"
    sheet.quantize(192).save(path, optimize=True)
    yield "layouts", str(path)


def boxes(arguments):
    """What `foveate snap` draws of each layout."""
    views = "".join(f'[[stream.view]]\nname = "v{index}"\n{keys}\n' for index, keys in enumerate(LAYOUTS.values()))
    pictures = []
    with tempfile.TemporaryDirectory() as folder:
        still = f"{folder}/still.png"
        # Each frame replaces the one before.
        frames = f"filesrc location={arguments.cache / 'vtest.avi'} ! decodebin ! identity eos-after={FRAME + 1}"
        gst_launch(f"{frames} ! videoconvert ! pngenc compression-level=1 ! multifilesink location={still}")
        stream = f'[[stream]]\nname = "still"\nsource = "{still}"\nloop = true\n{views}'
        with Daemon(arguments.programs, stream) as daemon:
            tool = [arguments.foveate, "--socket", daemon.socket]
            for index in range(len(LAYOUTS)):
                subprocess.run([*tool, "wait", f"still/v{index}"], check=True, stdout=subprocess.DEVNULL)
                subprocess.run([*tool, "snap", f"still/v{index}", "--out", folder], check=True, stdout=subprocess.DEVNULL)
                with Image.open(f"{folder}/boxes.png") as picture:
                    pictures.append(picture.convert("RGB"))
    return pictures
