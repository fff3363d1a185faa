"""A line of Mosquitto's password file, as mosquitto_passwd would write it."""

from __future__ import annotations

import base64
import hashlib
import secrets

ITERATIONS = 101
"""What Mosquitto 2 itself uses. The password is 256 random bits: there is nothing to guess."""

SALT_BYTES = 12


def password_line(user: str, password: str) -> str:
    """``user:$7$…``: PBKDF2 with SHA-512, with a new salt each time."""
    salt = secrets.token_bytes(SALT_BYTES)
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, ITERATIONS)
    parts = (base64.b64encode(part).decode() for part in (salt, digest))
    return f"{user}:$7${ITERATIONS}${'$'.join(parts)}\n"
