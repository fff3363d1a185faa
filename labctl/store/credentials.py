"""Credentials of an S3 store, as the AWS tools have them: the environment, else a profile.

Never of a rig, a site file or an address: what one of these says is recorded and shown.
"""

from __future__ import annotations

import configparser
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from labctl.errors import ConfigurationError, Mistake

_KEY, _SECRET, _TOKEN = "aws_access_key_id", "aws_secret_access_key", "aws_session_token"
_FETCHED = ("sso_session", "sso_start_url", "role_arn", "credential_process", "login_session")
"""Keys of a profile whose credentials are fetched by the AWS tools, not written down."""
USUAL_REGION = "us-east-1"


@dataclass(frozen=True, slots=True)
class S3Access:
    """How a bucket is reached. Empty texts: not said."""

    region: str = USUAL_REGION
    endpoint: str = ""
    """``http://host:port`` of a server that is not Amazon's."""
    access_key_id: str = ""
    """Empty: of the machine's role (instance, container, web identity), as obstore finds it."""
    secret_access_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)


def s3_access(environment: Mapping[str, str]) -> S3Access:
    """What environment variables and the profile say; the environment counts first.

    ``AWS_ACCESS_KEY_ID`` with ``AWS_SECRET_ACCESS_KEY`` (``AWS_SESSION_TOKEN``), else the profile
    ``AWS_PROFILE`` (or ``default``) of ``~/.aws/credentials`` and ``~/.aws/config``;
    ``AWS_ENDPOINT_URL_S3``, ``AWS_ENDPOINT_URL`` or the profile's ``endpoint_url``; ``AWS_REGION``,
    ``AWS_DEFAULT_REGION`` or the profile's ``region``.

    Raises ConfigurationError for half a key, and for a profile that is not there or whose
    credentials are fetched.
    """
    profile = _profile(environment)
    of = environment.get
    said = (of("AWS_ACCESS_KEY_ID", ""), of("AWS_SECRET_ACCESS_KEY", ""))
    token = of("AWS_SESSION_TOKEN", "")
    if any(said) and not all(said):
        key = "AWS_SECRET_ACCESS_KEY" if said[0] else "AWS_ACCESS_KEY_ID"
        raise ConfigurationError([Mistake("environment", key, None, "is missing beside the other")])
    if not all(said):
        _refuse_fetched(profile, of("AWS_PROFILE", ""))
        said = (profile.get(_KEY, ""), profile.get(_SECRET, ""))
        token = profile.get(_TOKEN, "")
    return S3Access(
        of("AWS_REGION") or of("AWS_DEFAULT_REGION") or profile.get("region") or USUAL_REGION,
        of("AWS_ENDPOINT_URL_S3") or of("AWS_ENDPOINT_URL") or profile.get("endpoint_url", ""),
        *(said if all(said) else ("", "")),
        token if all(said) else "",
    )


def _profile(environment: Mapping[str, str]) -> dict[str, str]:
    """The keys of the profile, those of the credentials file over those of the configuration."""
    named = environment.get("AWS_PROFILE", "")
    name = named or "default"
    files = [
        (Path(environment.get(variable) or usual).expanduser(), section)
        for variable, usual, section in (
            ("AWS_CONFIG_FILE", "~/.aws/config", name if name == "default" else f"profile {name}"),
            ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials", name),
        )
    ]
    found: dict[str, str] = {}
    there = False
    for file, section in files:
        parser = configparser.RawConfigParser(default_section="", strict=False)
        try:
            parser.read_string(file.read_text("utf-8"), str(file))
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError, configparser.Error) as error:
            why = getattr(error, "strerror", None) or type(error).__name__
            allowed = f"cannot be read: {why}"
            raise ConfigurationError([Mistake(str(file), "file", None, allowed)]) from error
        if parser.has_section(section):
            there = True
            found |= dict(parser.items(section))
    if named and not there:
        places = " or ".join(str(file) for file, _ in files)
        allowed = f"there is no such profile in {places}"
        raise ConfigurationError([Mistake("environment", "AWS_PROFILE", named, allowed)])
    return found


def _refuse_fetched(profile: Mapping[str, str], name: str) -> None:
    fetched = next((key for key in _FETCHED if key in profile), None)
    if fetched is None or all(profile.get(key) for key in (_KEY, _SECRET)):
        return
    option = f" --profile {name}" if name else ""
    allowed = (
        f"gets its credentials by {fetched}: put them into the environment first, "
        f'eval "$(aws configure export-credentials{option} --format env)"'
    )
    raise ConfigurationError([Mistake("environment", "AWS_PROFILE", name or "default", allowed)])
