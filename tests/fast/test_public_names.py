"""Every public name is what it says, also when modules of the package are loaded already."""

import importlib
import subprocess
import sys

import lastbit


def test_no_public_name_is_hidden_by_a_module() -> None:
    # Loading a submodule binds its name in the package, where it would hide an equal public name.
    for home in lastbit._HOMES:
        assert home not in lastbit.__all__, f"`lastbit.{home}` is a module"


def test_every_public_name_is_found_twice_and_documented() -> None:
    for name in lastbit.__all__:
        first = getattr(lastbit, name)
        assert getattr(lastbit, name) is first
        if name != "__version__":
            assert name in dir(lastbit)
        if callable(first):
            assert first.__doc__, name


def test_every_home_defines_its_names() -> None:
    for home, names in lastbit._HOMES.items():
        module = importlib.import_module(f"lastbit.{home}")
        assert all(hasattr(module, name) for name in names)


def test_the_package_alone_loads_neither_numpy_nor_torch() -> None:
    code = "import sys, lastbit; print(sorted({'numpy', 'torch', 'mpmath'} & sys.modules.keys()))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
