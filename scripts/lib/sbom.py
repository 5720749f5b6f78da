"""Writes the software bill of materials of a release to standard output (CycloneDX 1.5): python3 sbom.py VERSION

The crates that the programs and the engine are linked from, as Cargo resolves them, with licences and checksums. Libraries
of the system, which are linked when a program starts, are not a part of it. The time is SOURCE_DATE_EPOCH.
"""

import json
import os
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

import tomllib

ROOT = Path(__file__).resolve().parents[2]

# The packages that a release has.
PROGRAMS = ("foveate-programs", "foveate-engine-python")


def main(version: str) -> None:
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", "x86_64-unknown-linux-gnu"]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    needs = {
        node["id"]: [need["pkg"] for need in node["deps"] if any(kind["kind"] is None for kind in need["dep_kinds"])]
        for node in metadata["resolve"]["nodes"]
    }
    linked = reachable([package["id"] for package in packages.values() if package["name"] in PROGRAMS], needs)
    linked.sort(key=lambda package: reference(packages[package]))
    checksums = {
        (package["name"], package["version"]): package.get("checksum")
        for package in tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    }
    time = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), timezone.utc)
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {"type": "application", "bom-ref": "foveate", "name": "foveate", "version": version},
        },
        "components": [component(packages[package], checksums) for package in linked],
        "dependencies": [
            {
                "ref": reference(packages[package]),
                "dependsOn": sorted({reference(packages[need]) for need in needs[package]}),
            }
            for package in linked
        ],
    }
    print(json.dumps(bill, indent=1))


def reachable(begin: list[str], needs: dict[str, list[str]]) -> list[str]:
    found, waiting = set(), list(begin)
    while waiting:
        package = waiting.pop()
        if package not in found:
            found.add(package)
            waiting += needs[package]
    return list(found)


def reference(package: dict) -> str:
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package: dict, checksums: dict[tuple[str, str], str | None]) -> dict:
    described = {
        "type": "library",
        "bom-ref": reference(package),
        "name": package["name"],
        "version": package["version"],
        # Some use a slash, as before SPDX had expressions.
        "licenses": [{"expression": package["license"].replace("/", " OR ")}],
    }
    if checksum := checksums[package["name"], package["version"]]:
        described["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        described["purl"] = reference(package)
    return described


if __name__ == "__main__":
    main(*sys.argv[1:])
