"""A disk image with this interpreter, NumPy and nearkv's drivers, so that they run in the guest on its drives."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import sysconfig
from importlib import metadata, util
from pathlib import Path

STDLIB_LEFT_OUT = ("test", "tests", "idlelib", "lib2to3", "ensurepip", "tkinter", "turtledemo", "site-packages")
PACKAGES = ("numpy", "crc32c", "nearkv_drivers")
NATIVE = ("_io", "_kernel")
"""Native modules of nearkv_drivers; an editable install keeps them apart from its sources."""
IMAGE_BYTES = 512 << 20
"""Of a sparse file; more than the tree needs."""


def _package(name: str) -> Path:
    spec = util.find_spec(name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"{name} is not installed")
    return Path(spec.origin).parent


def _native() -> list[Path]:
    specs = [util.find_spec(f"nearkv_drivers.{name}") for name in NATIVE]
    missing = [name for name, spec in zip(NATIVE, specs, strict=True) if spec is None or spec.origin is None]
    if missing:
        raise ModuleNotFoundError(f"nearkv_drivers.{missing[0]} is not built: make build")
    return [Path(spec.origin) for spec in specs if spec is not None and spec.origin is not None]


def _key() -> str:
    """Names the image's content: interpreter and library versions, and every byte of the drivers."""
    digest = hashlib.sha256(Path(__file__).read_bytes())
    digest.update(" ".join([sys.version, *(metadata.version(name) for name in ("numpy", "crc32c"))]).encode())
    for path in sorted([*_package("nearkv_drivers").rglob("*"), *_native()]):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _copy(source: Path, tree: Path, left_out: tuple[str, ...] = ()) -> None:
    ignore = shutil.ignore_patterns("config-*", "*.a", "*.opt-1.pyc", "*.opt-2.pyc", *left_out)
    shutil.copytree(source, tree, ignore=ignore, dirs_exist_ok=True)


def _libraries(tree: Path, binaries: list[Path]) -> None:
    """Put every shared library that ``binaries`` name at its own absolute path below ``tree``."""
    listing = subprocess.run(["ldd", *map(str, binaries)], capture_output=True, text=True, check=False).stdout
    names = {word for line in listing.splitlines() for word in line.split() if word.startswith("/") and word[-1] != ":"}
    for name in sorted(names):
        target = tree / name.lstrip("/")
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(name, target)


def interpreter() -> str:
    """The interpreter's path, the same on this machine and in the image."""
    return str(Path(sys._base_executable).resolve())


def build(folder: Path) -> Path:
    """The image in ``folder``, built once per content."""
    image = folder / f"python-{_key()}.ext2"
    if image.exists():
        return image
    for old in folder.glob("python-*.ext2"):
        old.unlink()
    tree = folder / "python-tree"
    shutil.rmtree(tree, ignore_errors=True)
    for name in ("dev", "proc", "mnt", "tmp", "site"):
        (tree / name).mkdir(parents=True)
    executable = Path(interpreter())
    target = tree / str(executable).lstrip("/")
    target.parent.mkdir(parents=True)
    shutil.copy(executable, target)
    stdlib = Path(sysconfig.get_path("stdlib", vars={"installed_base": sys.base_prefix}))
    _copy(stdlib, tree / str(stdlib).lstrip("/"), STDLIB_LEFT_OUT)
    for name in PACKAGES:
        _copy(_package(name), tree / "site" / name, ("tests", "f2py"))
        beside = _package(name).parent
        for folder_of_package in (*beside.glob(f"{name}.libs"), *beside.glob(f"{name}-*.dist-info")):
            _copy(folder_of_package, tree / "site" / folder_of_package.name)
    for module in _native():
        shutil.copy(module, tree / "site" / "nearkv_drivers" / module.name)
    _libraries(tree, [executable, *(tree / str(stdlib).lstrip("/")).rglob("*.so"), *(tree / "site").rglob("*.so")])
    with image.with_suffix(".new").open("wb") as file:
        file.truncate(IMAGE_BYTES)
    subprocess.run(["mke2fs", "-q", "-t", "ext2", "-d", tree, image.with_suffix(".new")], check=True)
    image.with_suffix(".new").rename(image)
    shutil.rmtree(tree)
    return image
