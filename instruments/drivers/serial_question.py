"""A question to a serial meter that answers with bytes of its own making."""

from __future__ import annotations

import time
from collections.abc import Callable

from instruments.errors import NoAnswer
from instruments.transports.lines import ByteLine


def ask(
    line: ByteLine,
    question: bytes,
    whole: Callable[[bytes], bytes],
    timeout_s: float,
    no_answer: str,
) -> bytes:
    """What comes after ``question``: an answer, or all that came where it is not whole in time.

    ``whole`` finds the answer in what has come in; empty: not yet. Raises NoAnswer, saying
    ``no_answer``, where nothing comes, and ConnectionLost.
    """
    line.write(question)
    deadline = time.monotonic() + timeout_s
    data = b""
    while (left_s := deadline - time.monotonic()) > 0:
        data += line.read_some(left_s)
        if answer := whole(data):
            return answer
    if not data:
        raise NoAnswer(no_answer)
    return data
