"""What is installed: requirements.lock, pyproject.toml and constraints.txt say the same."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCK = (ROOT / "requirements.lock").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()
LINUX = {"sys_platform": "linux", "platform_machine": "x86_64", "implementation_name": "cpython"}
PYTHONS = ("3.11", "3.12", "3.13")


def environment(python: str) -> dict[str, str]:
    return {**LINUX, "python_version": python, "python_full_version": f"{python}.0"}


def locked(python: str) -> dict[str, str]:
    """The version of each package of the lock file for this Python on Linux; never two."""
    lines = [Requirement(line.rstrip("\\ ")) for line in LOCK.splitlines() if re.match(r"[a-z]", line)]
    chosen = [line for line in lines if line.marker is None or line.marker.evaluate(environment(python))]
    names = [canonicalize_name(line.name) for line in chosen]
    assert sorted(set(names)) == sorted(names)
    return {name: str(line.specifier).removeprefix("==") for name, line in zip(names, chosen, strict=True)}


def wanted(python: str) -> list[Requirement]:
    """All that `make` asks for: what the package needs, and its extras that the Makefile names."""
    (extras,) = re.findall(r"^EXTRAS := (.*)$", MAKEFILE, re.MULTILINE)
    lines = [*PROJECT["dependencies"], *(line for extra in extras.split() for line in PROJECT["optional-dependencies"][extra])]
    found = [Requirement(line) for line in lines]
    return [one for one in found if one.marker is None or one.marker.evaluate(environment(python))]


@pytest.mark.parametrize("python", PYTHONS)
def test_the_lock_file_has_each_requirement_in_a_version_that_is_allowed(python):
    versions = locked(python)
    assert len(versions) > 100
    for requirement in wanted(python):
        name = canonicalize_name(requirement.name)
        if name == "torch":  # its version is in constraints.txt: see the head of the lock file
            assert name not in versions
            continue
        assert name in versions, f"{requirement}: not in requirements.lock; run make lock"
        assert requirement.specifier.contains(versions[name]), f"{requirement}: locked at {versions[name]}; run make lock"
    assert {"hatchling", "editables"} <= versions.keys()  # the build, which is not isolated


def test_every_package_of_the_lock_file_has_hashes():
    packages = re.split(r"\n(?=[a-z])", LOCK[re.search(r"^[a-z]", LOCK, re.MULTILINE).start() :])  # type: ignore[union-attr]
    assert len(packages) > 100
    for package in packages:
        head, *hashes = package.rstrip().split("\\\n")
        assert hashes, head
        assert re.fullmatch(r"[a-z0-9-]+==\S+ (; .* )?", head), head
        assert all(re.fullmatch(r" +--hash=sha256:[0-9a-f]{64} ?", line) for line in hashes), head


def test_constraints_hold_torch_alone_in_a_version_that_is_allowed():
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    (constraint,) = map(Requirement, lines)
    (torch,) = (one for one in wanted("3.11") if one.name == "torch")
    (version,) = (one.version for one in constraint.specifier)
    assert (constraint.name, torch.specifier.contains(version)) == ("torch", True)


def test_make_installs_the_extras_that_are_locked():
    (extras,) = re.findall(r"^EXTRAS := (.*)$", MAKEFILE, re.MULTILINE)
    (installed,) = re.findall(r"--editable '\.\[(.*)\]'", MAKEFILE)
    assert installed.split(",") == extras.split()


@pytest.mark.parametrize("python", PYTHONS)
def test_what_the_locked_packages_need_is_locked(python):
    """By their own word, as far as they are installed here in the locked version."""
    versions, checked = locked(python), 0
    for name, version in versions.items():
        try:
            here = distribution(name)
        except PackageNotFoundError:
            continue
        if here.version != version:
            continue
        for line in here.requires or []:
            need = Requirement(line)
            if need.marker is not None and not need.marker.evaluate({**environment(python), "extra": ""}):
                continue
            if canonicalize_name(need.name) != "torch":
                assert need.specifier.contains(versions[canonicalize_name(need.name)], prereleases=True), f"{name} needs {need}"
                checked += 1
    if not checked:
        pytest.skip("no package is installed in its locked version")
