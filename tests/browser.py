"""Pages as Chromium shows them, asked over its DevTools protocol.

A page is waited for by what it must show. Chromium's own options for that (a budget of virtual
time, a load event) end before a busy machine has drawn the first frame.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import aiohttp

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
WITHIN_S = 150.0
"""For Chromium to start and to show a page, on a machine that others keep busy."""


def shown_page(url: str, is_shown: str, folder: Path, width_px: int, height_px: int) -> str:
    """The page's elements as HTML, once the JavaScript expression ``is_shown`` is true of it.

    ``folder``: Chromium's profile. Raises AssertionError where that does not come about.
    """
    assert CHROMIUM is not None
    command = [
        CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0",
        f"--window-size={width_px},{height_px}", f"--user-data-dir={folder}", "about:blank",
    ]  # fmt: skip
    browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        return asyncio.run(_elements(url, is_shown, folder / "DevToolsActivePort"))
    finally:
        browser.terminate()
        browser.wait(WITHIN_S)


async def _elements(url: str, is_shown: str, port_file: Path) -> str:
    deadline = time.monotonic() + WITHIN_S
    while not (port_file.exists() and (port := port_file.read_text().partition("\n")[0])):
        assert time.monotonic() < deadline, "Chromium did not start"
        await asyncio.sleep(0.1)
    async with aiohttp.ClientSession() as http:
        async with http.put(f"http://127.0.0.1:{port}/json/new?{url}") as answer:
            page = await answer.json()
        async with http.ws_connect(page["webSocketDebuggerUrl"], max_msg_size=0) as socket:
            numbers = itertools.count(1)

            async def evaluated(expression: str) -> Any:
                number = next(numbers)
                asked = {"expression": expression, "returnByValue": True}
                await socket.send_json(
                    {"id": number, "method": "Runtime.evaluate", "params": asked}
                )
                while (message := await socket.receive_json()).get("id") != number:
                    pass
                return message["result"]["result"].get("value")

            while not await evaluated(is_shown):
                assert time.monotonic() < deadline, await evaluated("document.body.innerText")
                await asyncio.sleep(0.2)
            return str(await evaluated("document.documentElement.outerHTML"))
