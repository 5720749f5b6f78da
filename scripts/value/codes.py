"""Codes, number plates and meters read that nobody points at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, NamedTuple

import cv2
import numpy as np
import zxingcpp
from common import covering, font_file, made_scene, photograph
from models import read, right_characters
from PIL import Image, ImageDraw, ImageFont
from product import compared, seen

SIZE = (1280, 720)
#: Frames before the things appear, in which `threshold = "auto"` measures the noise (it takes 15), and all frames.
BEFORE, FRAMES = 16, 46
#: Things on a scene, each in a cell of its own, and columns and rows of cells.
THINGS, COLUMNS, ROWS = 6, 4, 3
#: Standard deviation of the camera's noise in levels, and the most degrees by which a thing is turned.
NOISE, TURN = 1.5, 3.0
#: One frame after they appeared, one second and three, ten frames a second.
AT = {"1 frame": BEFORE, "1 s": BEFORE + 9, "3 s": BEFORE + 29}
#: Frames for which a meter shows a number; the first is shorter, so that no later frame that is measured begins one.
TICK, FIRST_TICK = 10, BEFORE + 5
#: The segments of a digit, of a box of 1 by 2: across at the top, in the middle and at the bottom, then down.
SEGMENTS = ((0, 0, 1, 0), (0, 1, 1, 1), (0, 2, 1, 2), (0, 0, 0, 1), (1, 0, 1, 1), (0, 1, 0, 2), (1, 1, 1, 2))
LIT = ("1011111", "0000101", "1110110", "1110101", "0101101", "1111001", "1111011", "1000101", "1111111", "1111101")
#: The bars of digits of EAN-13 (code L; R is its complement, G is R from behind), and the code of the left six by the first.
BARS = "0001101 0011001 0010011 0111101 0100011 0110001 0101111 0111011 0110111 0001011".split()
PARITY = "LLLLLL LLGLGG LLGGLG LLGGGL LGLLGG LGGLLG LGGGLL LGLGLG LGLGGL LGGLGL".split()


def qr_code(text: str, module: int) -> Any:
    """A code with a white margin; `module` is the side of a module in pixels."""
    code = np.pad(cv2.QRCodeEncoder.create().encode(text), 2, constant_values=255)
    return np.repeat(np.repeat(code, module, 0), module, 1)


def bar_code(text: str, module: int) -> Any:
    """EAN-13, 0.4 times as high as wide."""
    left = [
        BARS[int(digit)] if kind == "L" else "".join("10"[int(bar)] for bar in BARS[int(digit)])[::-1]
        for digit, kind in zip(text[1:7], PARITY[int(text[0])], strict=True)
    ]
    right = ["".join("10"[int(bar)] for bar in BARS[int(digit)]) for digit in text[7:]]
    bars = "101" + "".join(left) + "01010" + "".join(right) + "101"
    row = np.pad(np.array([255 * (bar == "0") for bar in bars], np.uint8), 9, constant_values=255).repeat(module)
    return np.pad(np.tile(row, (45 * module, 1)), ((2 * module, 2 * module), (0, 0)), constant_values=255)


def plate(text: str, height: int) -> Any:
    """A number plate with letters of this height."""
    font = ImageFont.truetype(font_file("DejaVuSans-Bold"), round(height / 0.73))
    size = round(font.getlength(text)) + height, round(1.7 * height)
    picture = Image.new("RGB", size, (235, 235, 230))
    pen = ImageDraw.Draw(picture)
    pen.rectangle((0, 0, size[0] - 1, size[1] - 1), outline=(15, 15, 20), width=max(1, height // 12))
    pen.text((size[0] / 2, size[1] / 2), text, (15, 15, 20), font, anchor="mm")
    return np.array(picture)


def meter(text: str, height: int) -> Any:
    """A display of seven segments a digit, of this height."""
    width, stroke = height // 2, max(2, height // 8)
    picture = np.full((2 * height, len(text) * round(width * 1.5) + width, 3), (22, 26, 24), np.uint8)
    for place, digit in enumerate(text):
        x, y = width // 2 + stroke + place * round(width * 1.5), height // 2
        for is_lit, ends in zip(LIT[int(digit)], SEGMENTS, strict=True):
            if is_lit == "1":
                x0, y0, x1, y1 = (round(end * (width - stroke)) for end in ends)
                cv2.line(picture, (x + x0, y + y0), (x + x1, y + y1), (255, 70, 50), stroke)
    return picture


def decoded(picture: Any, box: Any, text: str) -> float:
    """Whether ZXing reads a code."""
    x0, y0, x1, y1 = np.clip(box, 0, (*SIZE, *SIZE))
    return float(text in [code.text for code in zxingcpp.read_barcodes(np.ascontiguousarray(picture[y0:y1, x0:x1]))])


def characters(picture: Any, box: Any, text: str) -> float:
    """Share of the characters that are read."""
    return right_characters(read(picture, box), text.lower().replace(" ", "")) / len(text.replace(" ", ""))


class Kind(NamedTuple):
    """Things of a kind.

    :ivar sizes: in pixels, of a module or of the letters.
    :ivar text: what one says, of a random generator.
    :ivar draw: the picture of a text and a size.
    :ivar score: how much of one is read: of a picture, the box, and the text.
    :ivar speed: pixels to the right a frame.
    :ivar counts: whether the number grows every second.
    """

    sizes: tuple[int, ...]
    text: Callable[[Any], str]
    draw: Callable[[str, int], Any]
    score: Callable[[Any, Any, str], float]
    speed: int = 0
    counts: bool = False


def ean(chance: Any) -> str:
    """Twelve digits and the thirteenth, which checks them."""
    digits = chance.integers(0, 10, 12)
    return "".join(map(str, (*digits, -(digits[::2].sum() + 3 * digits[1::2].sum()) % 10)))


def registration(chance: Any) -> str:
    """What a number plate says."""
    one, two, three, four = chance.choice(list("ABCDEFHJKLMNPRSTUVWXYZ"), 4)
    return f"{one}{two} {chance.integers(100, 1000)} {three}{four}"


KINDS = {
    "QR codes": Kind((2, 4, 6), lambda chance: f"P{chance.integers(10**6, 10**7)}", qr_code, decoded),
    "bar codes": Kind((1, 2), ean, bar_code, decoded),
    "plates": Kind((14, 24), registration, plate, characters, speed=5),
    "meters": Kind((16, 32), lambda chance: str(chance.integers(10_000, 90_000)), meter, characters, counts=True),
}
#: Two scenes of each kind and size, by the photograph that is behind. No setting was chosen on any of them.
MEASURED_ON = {71: "leuvenA.jpg", 72: "home.jpg"}


class Thing(NamedTuple):
    """A thing in a scene: the left and upper edge where it appears, and how it is turned, in degrees."""

    kind: Kind
    size: int
    said: str
    place: tuple[int, int]
    turn: float

    def text(self, index: int) -> str:
        """What it says in a frame."""
        ticks = (index - FIRST_TICK) // TICK + 1 if self.kind.counts else 0
        return str(int(self.said) + 37 * ticks) if ticks else self.said

    def picture(self, index: int) -> Any:
        """With how far it covers what is behind, as its fourth channel."""
        return turned(self.kind.draw, self.text(index), self.size, self.turn)

    def box(self, index: int) -> tuple[int, int, int, int]:
        """Where it is in a frame."""
        width, height = self.picture(index).size
        x, y = self.place[0] + self.kind.speed * (index - BEFORE), self.place[1]
        return x, y, x + width, y + height


@cache
def turned(draw: Callable[[str, int], Any], text: str, size: int, degrees: float) -> Any:
    """What `draw` makes, turned."""
    return Image.fromarray(draw(text, size)).convert("RGBA").rotate(degrees, Image.Resampling.BICUBIC, expand=True)


@cache
def things(kind: Kind, size: int, seed: int) -> list[Thing]:
    """Those of a scene."""
    chance, made = np.random.default_rng([seed, size]), []
    way = kind.speed * (FRAMES - BEFORE)
    for cell in chance.permutation(COLUMNS * ROWS)[:THINGS].tolist():
        thing = Thing(kind, size, kind.text(chance), (0, 0), float(chance.uniform(-TURN, TURN)))
        room = np.array(((SIZE[0] - way) // COLUMNS, SIZE[1] // ROWS))
        at = (cell % COLUMNS, cell // COLUMNS) * room + chance.integers(0, room - thing.box(BEFORE)[2:])
        made.append(thing._replace(place=tuple(at.tolist())))
    return made


def frames(kind: Kind, size: int, seed: int) -> Iterator[Any]:
    """The pictures of a scene."""
    chance, behind = np.random.default_rng(seed), covering(photograph(MEASURED_ON[seed]), SIZE)
    # Of one field, because as many numbers for each frame take longer than all the rest.
    field = NOISE * chance.standard_normal((SIZE[1] + 64, SIZE[0] + 64, 3), np.float32)
    for index in range(FRAMES):
        picture = Image.fromarray(behind)
        for thing in things(kind, size, seed) if index >= BEFORE else ():
            drawn = thing.picture(index)
            picture.paste(drawn, thing.box(index)[:2], drawn)
        x, y = chance.integers(0, 65, 2)
        noise = field[y : y + SIZE[1], x : x + SIZE[0]]
        yield np.clip(np.round(picture + noise), 0, 255).astype(np.uint8)


def over_time(name: str, size: int) -> dict[str, dict[str, float]]:
    """What is read of things of a kind and size, over time."""
    kind, at = KINDS[name], list(AT.values())
    scores: list[dict[str, list[float]]] = [{} for _ in at]
    for seed in MEASURED_ON:
        source = made_scene(f"{name} {size} {seed}", partial(frames, kind, size, seed), SIZE)
        shown = seen(source, at)
        for way, pictures in shown.items():
            for score, picture, index in zip(scores, pictures, at, strict=True):
                there = things(kind, size, seed)
                score.setdefault(way, []).extend(kind.score(picture, one.box(index), one.text(index)) for one in there)
    return {
        f"{name}, {size} px, {when}": {way: float(np.mean(values)) for way, values in scores[number].items()}
        for number, when in enumerate(AT)
    }


def main() -> None:
    for name, kind in KINDS.items():
        measures = {label: values for size in kind.sizes for label, values in over_time(name, size).items()}
        what = "codes read" if "codes" in name else "characters read"
        print(compared(f"273 tokens, {what}", measures), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
