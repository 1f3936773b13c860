"""What ``dessl`` itself hands out: every name, imported when it is first used."""

import re
from pathlib import Path

import pytest

import dessl


def test_the_package_hands_out_what_its_stub_says() -> None:
    names = re.findall(
        r"import (\w+) as \1$", Path(dessl.__file__).with_suffix(".pyi").read_text(), re.M
    )
    assert sorted(names) == dessl.__all__
    assert all(getattr(dessl, name) is not None for name in names)


def test_the_name_of_a_function_stays_the_function_once_its_module_is_imported() -> None:
    import dessl.objective

    assert callable(dessl.objective)
    assert dessl.augment.__name__ == "dessl.augment"
    with pytest.raises(AttributeError, match="no attribute 'treni'"):
        dessl.treni  # noqa: B018
