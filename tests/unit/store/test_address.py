"""Addresses of stores: what each form means, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from labctl.errors import ConfigurationError
from labctl.store.address import StoreAddress, parse_address


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("s3://lab", StoreAddress("lab")),
        ("s3://lab/", StoreAddress("lab")),
        ("s3://lab/rigs/north/", StoreAddress("lab", "rigs/north")),
        ("file:///mnt/a%20b", StoreAddress(folder=Path("/mnt/a b"))),
        ("file://localhost/mnt", StoreAddress(folder=Path("/mnt"))),
        ("/mnt/lab", StoreAddress(folder=Path("/mnt/lab"))),
    ],
)
def test_each_form_means_one_place(text: str, found: StoreAddress) -> None:
    assert parse_address(text) == found
    assert parse_address(str(found)) == found


@pytest.mark.parametrize(
    "text",
    [
        "s3://",
        "s3:///prefix",
        "s3://lab/a//b",
        "s3://lab/../b",
        "s3://lab/ü",
        "s3://lab:9000/a",
        "s3://[lab/a",
        "file://server/share",
        "http://server/lab",
        "s3://lab/a?region=x",
        "s3://lab/a#b",
    ],
)
def test_what_names_no_store_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        parse_address(text)


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_address("s3://key:hunter2@lab/a")
    assert "hunter2" not in str(refused.value)
    assert "AWS_PROFILE" in str(refused.value)
