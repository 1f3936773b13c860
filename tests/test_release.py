"""What is released: pinned and hashed requirements, the bill of materials, wheel and sdist."""

import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from dessl._version import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def pins(name: str) -> dict[str, str]:
    text = (ROOT / name).read_text(encoding="utf-8")
    found = re.findall(r"^([\w.-]+)==([^\s\\]+)", text, re.MULTILINE)
    return {canonicalize_name(package): version for package, version in found}


def test_every_pinned_version_has_hashes() -> None:
    text = (ROOT / "requirements-hashed.txt").read_text(encoding="utf-8")
    hashed = pins("requirements-hashed.txt")
    missing = {name: v for name, v in pins("constraints.txt").items() if hashed.get(name) != v}
    assert not missing, "run `make lock` after a change of constraints.txt"
    blocks = re.split(r"\n(?=\w)", text[text.index("\n", text.index("# pip")) + 1 :].strip())
    assert len(blocks) == len(hashed)
    for block in blocks:
        assert re.fullmatch(r"[\w.-]+==\S+( \\\n    --hash=sha256:[0-9a-f]{64})+", block), block


def test_the_constraints_allow_what_the_project_needs() -> None:
    pinned = pins("constraints.txt")
    # What only benchmarks need is not pinned: one of it asks for a NumPy of its own.
    extras = [
        text
        for name, texts in PROJECT["optional-dependencies"].items()
        for text in texts
        if name != "benchmarks"
    ]
    for text in (*PROJECT["dependencies"], *extras):
        one = Requirement(text)
        if one.name != PROJECT["name"]:  # an extra that consists of others
            assert one.specifier.contains(pinned[canonicalize_name(one.name)]), text


def test_the_bill_of_materials_is_of_this_version() -> None:
    bill = json.loads((ROOT / "sbom.cdx.json").read_text(encoding="utf-8"))
    assert bill["bomFormat"] == "CycloneDX"
    own = bill["metadata"]["component"]
    assert (own["name"], own["version"]) == ("dessl", __version__)
    pinned = pins("constraints.txt")
    for part in bill["components"]:
        assert part["version"] == pinned[part["name"]], "run `make lock`"
        assert part["purl"] == f"pkg:pypi/{part['name']}@{part['version']}"
    needs = {entry["ref"]: entry["dependsOn"] for entry in bill["dependencies"]}
    direct = {ref.removeprefix("pkg:pypi/").partition("@")[0] for ref in needs[own["bom-ref"]]}
    assert direct == {canonicalize_name(Requirement(one).name) for one in PROJECT["dependencies"]}
    known = {part["bom-ref"] for part in bill["components"]} | {own["bom-ref"]}
    assert {ref for refs in needs.values() for ref in refs} | needs.keys() == known


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A wheel and an sdist, built from the working tree."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def sources() -> set[str]:
    """The files of both packages, as git would have them."""
    paths = (path for name in ("dessl", "dessl_paper") for path in (ROOT / "src" / name).rglob("*"))
    return {
        path.relative_to(ROOT / "src").as_posix()
        for path in paths
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_has_the_packages_and_nothing_else(built: tuple[Path, Path]) -> None:
    names = {name for name in zipfile.ZipFile(built[0]).namelist() if not name.endswith("/")}
    about = f"dessl-{__version__}.dist-info/"
    assert {name for name in names if not name.startswith(about)} == sources()
    inside = {name.removeprefix(about) for name in names if name.startswith(about)}
    assert inside == {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}


def test_the_sdist_has_what_a_wheel_is_built_from(built: tuple[Path, Path]) -> None:
    with tarfile.open(built[1]) as archive:
        names = {member.name.partition("/")[2] for member in archive if member.isfile()}
    beside = {name for name in names if not name.startswith("src/")}
    assert {name.removeprefix("src/") for name in names - beside} == sources()
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "SECURITY.md"} <= beside
    assert not {name for name in beside if "/" in name}


@pytest.mark.slow
def test_the_wheel_installs_in_an_empty_environment(
    built: tuple[Path, Path], tmp_path: Path
) -> None:
    """The dependencies are those of this environment, found after the wheel's own files."""
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / ("Scripts" if os.name == "nt" else "bin") / "python"

    def run(*arguments: str) -> str:
        clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        done = subprocess.run(
            [python, *arguments], cwd=tmp_path, env=clean, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    for file in built:
        offline = ("--no-index", "--no-deps", "--no-build-isolation", "--force-reinstall")
        site = run("-c", "import site; print(site.getsitepackages()[0])").strip()
        here = next(Path(path) for path in sys.path if (Path(path) / "torch").is_dir())
        Path(site, "dependencies.pth").write_text(f"{here}\n")
        run("-m", "pip", "install", "--quiet", *offline, str(file))
        place = run("-c", "import dessl, dessl_paper; print(dessl.__file__)").strip()
        assert Path(place).is_relative_to(tmp_path)
        assert run("-m", "dessl", "--version").strip() == f"dessl {__version__}"
        script = subprocess.run(
            [python.with_name("dessl"), "--version"], capture_output=True, text=True, check=True
        )
        assert script.stdout.strip() == f"dessl {__version__}"
        assert "mnist" in run("-m", "dessl", "reproduce", "list", "--json")
