"""Write sbom.cdx.json: what a plain install of dessl consists of, as CycloneDX.

    python release/sbom.py

walks the requirements of the packages that are installed here, those of extras left out. The
versions are those of constraints.txt, so that the file is the same wherever it is made.
"""

import json
import tomllib
import uuid
from importlib.metadata import Distribution, distribution
from typing import Any

from lock import CONSTRAINTS, ROOT, pins
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from dessl._version import __version__

SBOM = ROOT / "sbom.cdx.json"
# Wheels of torch for one device bring more or fewer packages: those of the build for CPUs count.
MARKERS = {"extra": "", "platform_system": "Linux", "sys_platform": "linux", "os_name": "posix"}


def requirements(texts: list[str]) -> list[str]:
    """Names of the requirements that hold without extras, sorted."""
    needed = [Requirement(text) for text in texts]
    return sorted(
        {
            canonicalize_name(one.name)
            for one in needed
            if not one.marker or one.marker.evaluate(MARKERS)
        }
    )


def closure(names: list[str]) -> dict[str, Distribution]:
    """Everything that some packages need, by name."""
    found: dict[str, Distribution] = {}
    todo = list(names)
    while todo:
        name = todo.pop()
        if name not in found:
            found[name] = distribution(name)
            todo += requirements(found[name].requires or [])
    return dict(sorted(found.items()))


def licence(package: Distribution) -> list[dict[str, Any]]:
    """The licence that a package states: an expression, else its classifiers, else a short text."""
    stated = package.metadata
    if expression := stated.get("License-Expression"):
        return [{"expression": expression}]
    classifiers = [
        text.rpartition(" :: ")[2]
        for text in stated.get_all("Classifier") or []
        if text.startswith("License ::")
    ]
    short = (stated.get("License") or "").strip()
    names = classifiers or ([short] if short and len(short) < 60 else ["see the package"])
    return [{"license": {"name": name}} for name in names]


def sbom() -> dict[str, Any]:
    """The bill of materials."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    direct = requirements(project["dependencies"])
    pinned = {
        canonicalize_name(name): version
        for name, version in pins(CONSTRAINTS.read_text(encoding="utf-8")).items()
    }
    packages = closure(direct)
    own = f"pkg:pypi/dessl@{__version__}"
    urls = {name: f"pkg:pypi/{name}@{pinned[name]}" for name in packages}
    components = [
        {
            "type": "library",
            "bom-ref": urls[name],
            "name": name,
            "version": pinned[name],
            "purl": urls[name],
            "licenses": licence(package),
        }
        for name, package in packages.items()
    ]
    needs = {urls[name]: requirements(one.requires or []) for name, one in packages.items()}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([own, urls]))}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": own,
                "name": "dessl",
                "version": __version__,
                "purl": own,
                "licenses": [{"license": {"id": project["license"]}}],
            }
        },
        "components": components,
        "dependencies": [
            {"ref": ref, "dependsOn": [urls[name] for name in names]}
            for ref, names in ({own: direct} | needs).items()
        ],
    }


if __name__ == "__main__":
    SBOM.write_text(json.dumps(sbom(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
