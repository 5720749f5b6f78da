"""Writes the wheel of the daemon: python3 wheel.py FOLDER PROGRAMS LICENCES VERSION ARCH TOOLS

FOLDER gets it, PROGRAMS has `foveated` and `foveate`, LICENCES is a file with those of their crates, ARCH is Debian's name
of an architecture, and TOOLS is what the names of `strip` and `objdump` for it begin with. The same files give the same
bytes; their time is SOURCE_DATE_EPOCH.
"""

import base64
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python" / "programs"))

from foveate_daemon import LIBRARIES  # noqa: E402

PROGRAMS = ("foveated", "foveate")
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
# Of the C library and the compiler, which every manylinux has.
C_LIBRARIES = re.compile(r"(libc|libm|libdl|libpthread|librt|libgcc_s|ld-linux-[a-z0-9-]+)\.so\.[0-9]+")


def main(folder: Path, programs: Path, licences: Path, version: str, architecture: str, tools: str) -> None:
    glibc = max(needed_glibc(programs / name, tools) for name in PROGRAMS)
    tag = f"py3-none-manylinux_{glibc[0]}_{glibc[1]}_{MACHINES[architecture]}"
    package = f"foveate_daemon-{version}"
    files: dict[str, tuple[bytes, int]] = {}
    for source in (ROOT / "python/programs/foveate_daemon").glob("*.py"):
        files[f"foveate_daemon/{source.name}"] = (source.read_bytes(), 0o644)
    for name in PROGRAMS:
        files[f"foveate_daemon/bin/{name}"] = (stripped(programs / name, tools), 0o755)
    for source, target in shared_files():
        files[f"{package}.data/data/share/{target}"] = (source.read_bytes(), 0o644)
    for source in (ROOT / "LICENSE-MIT", ROOT / "LICENSE-APACHE"):
        files[f"{package}.dist-info/licenses/{source.name}"] = (source.read_bytes(), 0o644)
    files[f"{package}.dist-info/licenses/crates.txt"] = (licences.read_bytes(), 0o644)
    texts = {
        "METADATA": metadata(version),
        "WHEEL": f"Wheel-Version: 1.0\nGenerator: foveate\nRoot-Is-Purelib: false\nTag: {tag}\n",
        "entry_points.txt": "[console_scripts]\n" + "".join(f"{name} = foveate_daemon:{name}\n" for name in PROGRAMS),
    }
    for name, text in texts.items():
        files[f"{package}.dist-info/{name}"] = (text.encode(), 0o644)
    target = folder / f"{package}-{tag}.whl"
    write(target, f"{package}.dist-info/RECORD", files)
    print(target)


def needed_glibc(program: Path, tools: str) -> tuple[int, int]:
    """The oldest C library with all symbols of a program. A library that the package does not name ends the script."""
    text = subprocess.run([f"{tools}objdump", "-p", program], check=True, capture_output=True, text=True).stdout
    for library in re.findall(r"^ *NEEDED +(\S+)$", text, re.MULTILINE):
        if library not in LIBRARIES and not C_LIBRARIES.fullmatch(library):
            sys.exit(f"{program} needs {library}: name it in LIBRARIES of python/programs/foveate_daemon")
    return max((int(major), int(minor)) for major, minor in re.findall(r" GLIBC_(\d+)\.(\d+)", text))


def stripped(program: Path, tools: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, program.name)
        subprocess.run([f"{tools}strip", "--strip-all", "--remove-section=.comment", "-o", target, program], check=True)
        return target.read_bytes()


def shared_files() -> list[tuple[Path, str]]:
    """What a package of a system has below /usr/share, and where it is below the environment's."""
    configs = ROOT / "configs"
    examples = [*configs.glob("*.toml"), *configs.glob("*.yaml")]
    return [
        *((path, f"foveate/examples/{path.name}") for path in examples),
        *((path, f"foveate/pipelines/{path.name}") for path in (ROOT / "pipelines").glob("*.gst")),
        *((path, f"foveate/scorers/{path.name}") for path in (configs / "scorers").glob("*.safetensors")),
        *((path, f"man/man{path.suffix[1:]}/{path.name}") for path in (ROOT / "docs/man").glob("*.[158]")),
        (configs / "completions/foveate.bash", "bash-completion/completions/foveate"),
        (configs / "completions/foveated.bash", "bash-completion/completions/foveated"),
    ]


def metadata(version: str) -> str:
    return f"""Metadata-Version: 2.4
Name: foveate-daemon
Version: {version}
Summary: The daemon that turns camera streams into foveated tokens, and its tool
Requires-Python: >=3.8
License-Expression: MIT OR Apache-2.0
License-File: LICENSE-MIT
License-File: LICENSE-APACHE
License-File: crates.txt
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Rust
Description-Content-Type: text/markdown

{(ROOT / "python/programs/README.md").read_text()}"""


def write(target: Path, record: str, files: dict[str, tuple[bytes, int]]) -> None:
    """Writes an archive of files, with their modes, and a list of them, as wheels have it."""
    date = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6]
    lines = []
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:

        def add(name: str, content: bytes, mode: int) -> None:
            entry = zipfile.ZipInfo(name, date)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)

        for name, (content, mode) in sorted(files.items()):
            add(name, content, mode)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(content)}\n")
        add(record, "".join([*lines, f"{record},,\n"]).encode(), 0o644)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]), *sys.argv[4:])
