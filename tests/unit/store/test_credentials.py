"""Where keys, server and region of a bucket come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from labctl.errors import ConfigurationError
from labctl.store.credentials import S3Access, s3_access

CREDENTIALS = """
[default]
aws_access_key_id = usual
aws_secret_access_key = usual-secret
[lab]
aws_access_key_id = of-lab
aws_secret_access_key = lab-secret
aws_session_token = lab-token
"""
CONFIG = """
[default]
region = eu-west-1
[profile lab]
region = eu-north-1
endpoint_url = http://10.0.0.1:9000
[profile login]
sso_session = corp
"""


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "credentials").write_text(CREDENTIALS)
    (tmp_path / "config").write_text(CONFIG)
    return {
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
    }


KEYS = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}


def test_a_profile_says_all_of_it(files: dict[str, str]) -> None:
    assert s3_access(files) == S3Access("eu-west-1", "", "usual", "usual-secret")
    found = s3_access({**files, "AWS_PROFILE": "lab"})
    assert found == S3Access(
        "eu-north-1", "http://10.0.0.1:9000", "of-lab", "lab-secret", "lab-token"
    )
    assert "lab-secret" not in repr(found) and "lab-token" not in repr(found)


def test_the_environment_counts_before_the_profile(files: dict[str, str]) -> None:
    said = {"AWS_REGION": "r", "AWS_ENDPOINT_URL": "https://a", "AWS_ENDPOINT_URL_S3": "https://b"}
    found = s3_access({**files, **KEYS, **said, "AWS_PROFILE": "lab"})
    assert found == S3Access("r", "https://b", "k", "s", "")
    found = s3_access({**files, **KEYS, "AWS_PROFILE": "login"})  # its login is not needed then
    assert found.access_key_id == "k"


def test_without_files_and_variables_the_role_of_the_machine_counts(tmp_path: Path) -> None:
    missing = str(tmp_path / "none")
    environment = {"AWS_SHARED_CREDENTIALS_FILE": missing, "AWS_CONFIG_FILE": missing}
    assert s3_access(environment) == S3Access()


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"AWS_PROFILE": "nobody"}, "no such profile"),
        ({"AWS_PROFILE": "login"}, "export-credentials --profile login"),
        ({"AWS_ACCESS_KEY_ID": "k"}, "AWS_SECRET_ACCESS_KEY"),
        ({"AWS_SECRET_ACCESS_KEY": "k"}, "AWS_ACCESS_KEY_ID"),
    ],
)
def test_what_cannot_be_used_is_said(
    files: dict[str, str], environment: dict[str, str], words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        s3_access({**files, **environment})


def test_a_torn_file_is_named(files: dict[str, str]) -> None:
    Path(files["AWS_CONFIG_FILE"]).write_text("aws_access_key_id = x\n")
    with pytest.raises(ConfigurationError, match="config"):
        s3_access(files)
