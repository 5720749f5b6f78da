"""Draws a picture, the depth of its tokens, and of their texels: a box and a ball before a wall."""

import tempfile

import numpy as np
from daemon import Daemon
from measuring import ROOT, FoveateError
from PIL import Image, ImageDraw, ImageFont

from foveate.picture import replicated

SIZE = (640, 480)
#: Pixels of a metre at a distance of 1 m, and metres between the two cameras that depth is found with.
FOCAL, BASELINE = 560, 0.04
#: In metres, right, down and forward of the camera: the floor, the wall, the front of the box, and the ball.
FLOOR_Y, WALL_Z = 0.8, 4.0
BOX_X, BOX_Y, BOX_Z = (-0.8, -0.3), (0.1, 0.6), 1.5
BALL, RADIUS = np.array([0.45, -0.1, 1.6]), 0.35
VIEWS = {"depth of its tokens": "true", "depth of its texels": '"texels"'}
#: Metres that would be drawn white.
BRIGHTEST = 1.2
#: Frames until one has depth.
PATIENCE = 50
WIDTH, TITLE, GAP = 384, 22, 6


def run(arguments):
    height = WIDTH * SIZE[1] // SIZE[0]
    pictures = drawn(arguments)
    sheet = Image.new("RGB", (len(pictures) * (WIDTH + GAP) - GAP, TITLE + height), "white")
    draw, font = ImageDraw.Draw(sheet), ImageFont.truetype("DejaVuSans.ttf", 15)
    for index, (title, picture) in enumerate(pictures.items()):
        draw.text((index * (WIDTH + GAP), 0), title, "black", font)
        sheet.paste(Image.fromarray(picture).resize((WIDTH, height), Image.LANCZOS), (index * (WIDTH + GAP), TITLE))
    path = ROOT / "docs" / "images" / "depth.png"
    sheet.quantize(192).save(path, optimize=True)
    yield "depth", str(path)


def drawn(arguments):
    """The pictures by their titles."""
    picture, metres = scene()
    views = "".join(
        f'[[stream.view]]\nname = "v{index}"\ndepth = {depth}\n' for index, depth in enumerate(VIEWS.values())
    )
    shown = {"picture": picture}
    with tempfile.TemporaryDirectory() as folder:
        Image.fromarray(picture).save(f"{folder}/picture.png")
        Image.fromarray(np.round(metres * 1000).astype(np.uint16)).save(f"{folder}/depth.png")
        depth = f'[stream.depth]\nsource = "{folder}/depth.png"\nscale_m = 0.001\n'
        stream = f'[[stream]]\nname = "room"\nsource = "{folder}/picture.png"\nloop = true\n{depth}{views}'
        with Daemon(arguments.programs, stream) as daemon:
            for index, title in enumerate(VIEWS):
                with daemon.open(f"room/v{index}") as view:
                    shown[title] = heated(with_depth(view))
    return shown


def scene():
    """The picture [height, width, 3], and metres along the axis [height, width]: 0 where one of both cameras sees
    something else."""
    rows, columns = np.mgrid[: SIZE[1], : SIZE[0]]
    x, y = (columns + 0.5 - SIZE[0] / 2) / FOCAL, (rows + 0.5 - SIZE[1] / 2) / FOCAL
    floor = np.where(y > 0, FLOOR_Y / np.maximum(y, 1e-9), np.inf)
    box = np.where(inside(x * BOX_Z, BOX_X) & inside(y * BOX_Z, BOX_Y), BOX_Z, np.inf)
    ray = np.stack([x, y, np.ones_like(x)], axis=-1)
    square, along = (ray**2).sum(axis=-1), ray @ BALL
    root = along**2 - square * (BALL @ BALL - RADIUS**2)
    ball = np.where(root >= 0, (along - np.sqrt(np.maximum(root, 0))) / square, np.inf)
    surfaces = np.stack([np.full_like(x, WALL_Z), floor, box, ball])
    metres = surfaces.min(axis=0)
    light = (ray * metres[..., np.newaxis] - BALL) @ np.array([-0.4, -0.8, -0.45]) / RADIUS
    checks = (np.floor(x * metres / 0.3) + np.floor(y * metres / 0.3)) % 2
    stripes = np.floor(metres / 0.4) % 2
    colors = [
        (150 + 40 * checks)[..., np.newaxis] * [1.0, 0.96, 0.85],
        (90 + 25 * stripes)[..., np.newaxis] * [0.85, 0.95, 1.05],
        np.broadcast_to([175.0, 110.0, 45.0], ray.shape),
        np.clip(0.25 + 0.75 * light, 0.15, 1)[..., np.newaxis] * [60.0, 125.0, 220.0],
    ]
    picture = np.choose(surfaces.argmin(axis=0)[..., np.newaxis], colors).astype(np.uint8)
    return picture, np.where(seen_by_both(metres), metres, 0)


def inside(values, bounds):
    """Whether each value lies between both bounds."""
    return (bounds[0] <= values) & (values < bounds[1])


def seen_by_both(metres):
    """Where nothing nearer hides what a second camera to the right would have to see."""
    shift = np.round(FOCAL * BASELINE / metres).astype(int)
    column = np.maximum(np.arange(SIZE[0]) - shift, 0)
    nearest = np.zeros_like(shift)
    np.maximum.at(nearest, (np.arange(SIZE[1])[:, np.newaxis], column), shift)
    return shift + 1 >= np.take_along_axis(nearest, column, axis=1)


def with_depth(view):
    """A frame that has depth."""
    for _ in range(PATIENCE):
        frame = view.read(timeout=5)
        if frame.depth_capture_ns is not None:
            return frame
    raise FoveateError("no frame has depth")


def heated(frame):
    """The mean depth of tokens or texels as a picture: from red, far, over yellow to white, near; black is unknown."""
    depth = frame.plane("depth")
    mean, known = depth[:, 1], depth[:, 2]
    near = np.where(known > 0, BRIGHTEST / np.where(known > 0, mean, 1), 0).astype(np.float32)
    colors = np.clip(3 * near[..., np.newaxis] - [0, 1, 2], 0, 1) * 255
    if depth.ndim == 2:
        colors = colors[:, np.newaxis, np.newaxis].repeat(frame.info.patch, 1).repeat(frame.info.patch, 2)
    return replicated(frame.tokens, colors.astype(np.uint8), SIZE)
