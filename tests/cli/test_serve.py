"""`serve` as a person runs it, with a browser's requests."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from collections.abc import Iterator
from typing import Any

import aiohttp
import psutil
import pytest

from tests.cli.commands import DEADLINE, Shell


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """`serve` on a free port; what it announced. At its end it has written nothing, whatever was asked of it."""
    shell = Shell(tmp_path_factory.mktemp("home"))
    process = shell.start("serve", "--port", "0", "--json")
    assert process.stdout is not None
    line = process.stdout.readline()
    yield json.loads(line or process.communicate(timeout=DEADLINE)[1])
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=DEADLINE) == (b"", b"")
    assert process.returncode == 0


def browser() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))


async def test_the_printed_address_opens_a_console(server: dict[str, Any]) -> None:
    base = server["url"].partition("?")[0]
    async with browser() as session:
        async with session.get(server["url"]) as page:
            assert page.status == 200
            assert "key" not in str(page.url)
        async with session.ws_connect(f"{base}ws?width=100&height=30") as terminal:
            painted = b""
            while b"no project is set" not in painted or b"checks" not in painted:
                message = await asyncio.wait_for(terminal.receive(), DEADLINE)
                assert message.type in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT), painted
                painted += message.data if isinstance(message.data, bytes) else message.data.encode()


@pytest.mark.parametrize("path", ["", "ws", "static/js/textual.js", "?key=guessed"])
async def test_nobody_gets_in_without_the_key(server: dict[str, Any], path: str) -> None:
    base = server["url"].partition("?")[0]
    async with browser() as session, session.get(base + path) as answer:
        assert answer.status == 403
        assert "open the whole address" in await answer.text()


async def test_a_page_of_another_site_gets_nothing_even_with_the_cookie(server: dict[str, Any]) -> None:
    base = server["url"].partition("?")[0]
    async with browser() as session:
        await (await session.get(server["url"])).read()
        for origin in ("http://evil.example", "http://127.0.0.1:1", "null"):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await session.ws_connect(f"{base}ws", headers={"Origin": origin})
            assert refused.value.status == 403


async def test_a_foreign_name_for_this_machine_gets_nothing(server: dict[str, Any]) -> None:
    async with browser() as session, session.get(server["url"], headers={"Host": "evil.example"}) as answer:
        assert answer.status == 403


async def test_behind_a_forwarded_port_the_page_leads_back_through_it(server: dict[str, Any]) -> None:
    async with browser() as session:
        await (await session.get(server["url"])).read()
        cookies = {cookie.key: cookie.value for cookie in session.cookie_jar}
        base = server["url"].partition("?")[0]
        async with session.get(base, headers={"Host": "localhost:9000"}, cookies=cookies) as page:
            assert 'data-session-websocket-url="ws://localhost:9000/ws"' in await page.text()


def test_a_port_that_is_taken_is_told(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        answer = shell.run("serve", "--port", str(taken.getsockname()[1]))
    assert answer.code == 2
    assert "in use" in answer.errors
    assert "--port" in answer.errors


def test_settings_hold_in_every_tab(shell: Shell) -> None:
    answer = shell.run("serve", "--profile", "nowhere", "--port", "0")
    assert answer.code == 2
    assert "nowhere" in answer.errors


def test_the_console_keeps_the_options_it_was_served_with() -> None:
    from tui.commands.parsing import flags, parse
    from tui.commands.serve import words_of

    words = ["--project=p", "--zone=a", "--zone=b", "--read-only", "--hosts=/h"]
    given = flags(parse([*words, "serve"]).everywhere)
    assert sorted(words_of(given)) == sorted(words)
    assert flags(parse(words_of(given)).everywhere) == given


def test_a_served_console_ends_with_its_tab(shell: Shell) -> None:
    process = shell.start("serve", "--port", "0", "--json")
    assert process.stdout is not None
    address = json.loads(process.stdout.readline())["url"]

    async def look() -> None:
        async with browser() as session:
            await (await session.get(address)).read()
            async with session.ws_connect(f"{address.partition('?')[0]}ws") as terminal:
                await asyncio.wait_for(terminal.receive(), DEADLINE)
                assert children(process.pid)

    asyncio.run(look())

    _, alive = psutil.wait_procs(children(process.pid), timeout=DEADLINE)
    assert alive == []
    process.terminate()
    process.communicate(timeout=DEADLINE)


def test_ctrl_c_ends_the_consoles_of_open_tabs_without_a_word(shell: Shell) -> None:
    process = shell.start("serve", "--port", "0", "--json")
    assert process.stdout is not None
    address = json.loads(process.stdout.readline())["url"]

    async def look() -> list[psutil.Process]:
        async with browser() as session:
            await (await session.get(address)).read()
            async with session.ws_connect(f"{address.partition('?')[0]}ws") as terminal:
                await asyncio.wait_for(terminal.receive(), DEADLINE)
                opened = children(process.pid)
                process.send_signal(signal.SIGINT)
                while not terminal.closed:
                    await asyncio.wait_for(terminal.receive(), DEADLINE)
                return opened

    opened = asyncio.run(look())
    assert process.communicate(timeout=DEADLINE) == (b"", b"")
    assert process.returncode == 0
    assert opened
    assert not any(child.is_running() for child in opened)


def children(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children()
