"""`serve` as a user runs it, with a browser's requests."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from typing import Any

import aiohttp
import psutil
import pytest

from tests.cli.commands import DEADLINE, Shell
from tui.commands._compat_textual_serve import process_of
from tui.commands.serve_server import FAILED_CODE, WRONG_KEY_CODE

pytestmark = pytest.mark.timing


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Run `serve` on a free port and yield its announcement; at its end it must have printed nothing else."""
    shell = Shell(tmp_path_factory.mktemp("home"))
    process = shell.start("serve", "--port", "0", "--json")
    assert process.stdout is not None
    line = process.stdout.readline()
    yield json.loads(line or process.communicate(timeout=DEADLINE)[1])
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=DEADLINE) == (b"", b"")
    assert process.returncode == 0


class Page:
    """The requests of a browser tab that knows the address printed by `serve` and keeps no cookies."""

    def __init__(self, server: dict[str, Any]) -> None:
        self.base, _, key = server["url"].partition("?key=")
        self.key = key
        self.session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())

    async def __aenter__(self) -> Page:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.session.close()

    async def connect(self, *first: str, **options: Any) -> aiohttp.ClientWebSocketResponse:
        """Open the web socket as the page does, and send these messages first."""
        terminal = await self.session.ws_connect(f"{self.base}ws?width=100&height=30", **options)
        for message in first:
            await terminal.send_str(message)
        return terminal

    async def opened(self) -> aiohttp.ClientWebSocketResponse:
        """Open a console by sending the key first."""
        return await self.connect(json.dumps(["key", self.key]))


async def painted(terminal: aiohttp.ClientWebSocketResponse, *texts: str) -> None:
    """Wait until a console has painted these texts."""
    seen = ""
    while not all(text in seen for text in texts):
        message = await asyncio.wait_for(terminal.receive(), DEADLINE)
        assert message.type in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT), seen
        seen += message.data if isinstance(message.data, str) else message.data.decode("utf-8", "replace")


async def refusal(terminal: aiohttp.ClientWebSocketResponse) -> int:
    """Return the code with which a connection is closed before it carries any message."""
    message = await asyncio.wait_for(terminal.receive(), DEADLINE)
    assert message.type is aiohttp.WSMsgType.CLOSE, message
    return int(message.data)


async def ending(terminal: aiohttp.ClientWebSocketResponse) -> int:
    """Return the code with which a connection is closed, after whatever the console still paints."""
    while True:
        message = await asyncio.wait_for(terminal.receive(), DEADLINE)
        if message.type is aiohttp.WSMsgType.CLOSE:
            return int(message.data)
        assert message.type in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT), message


async def read_on(terminal: aiohttp.ClientWebSocketResponse) -> asyncio.Task[int]:
    """Wait until the console is painted; return the task that then reads, and so answers pings, to the end."""
    await painted(terminal, "checks")
    return asyncio.create_task(ending(terminal))


async def test_the_printed_address_opens_a_console_again_and_again(server: dict[str, Any]) -> None:
    async with Page(server) as page:
        async with page.session.get(server["url"]) as answer:
            assert answer.status == 200
            assert "<title>tpu-tui</title>" in await answer.text()
            assert answer.headers["Referrer-Policy"] == "no-referrer"
            assert "Set-Cookie" not in answer.headers
        for _ in range(2):
            terminal = await page.opened()
            await painted(terminal, "no project is set", "checks")
            await terminal.close()


async def test_a_reloaded_page_and_its_files_are_served_without_the_key_and_hold_none(server: dict[str, Any]) -> None:
    async with Page(server) as page:
        for path in ("", "page.js", "static/js/textual.js", "static/css/xterm.css"):
            async with page.session.get(page.base + path) as answer:
                assert answer.status == 200
                assert page.key not in await answer.text()


async def test_the_script_keeps_the_key_out_of_the_address_bar_and_gives_the_terminal_the_focus(
    server: dict[str, Any],
) -> None:
    async with Page(server) as page, page.session.get(page.base + "page.js") as answer:
        script = await answer.text()
    assert "sessionStorage.setItem(KEY, given)" in script
    assert "history.replaceState" in script
    assert "document.cookie" not in script
    assert 'window.addEventListener("focus", focusTerminal)' in script
    assert f"const WRONG_KEY = {WRONG_KEY_CODE};" in script
    assert f"const CONSOLE_FAILED = {FAILED_CODE};" in script


async def test_an_address_with_another_key_is_refused(server: dict[str, Any]) -> None:
    async with Page(server) as page, page.session.get(page.base + "?key=guessed") as answer:
        assert answer.status == 403
        assert "open the whole address" in await answer.text()


@pytest.mark.parametrize(
    "first",
    [
        '["key", "guessed"]',
        '["key", ""]',
        '["key", null]',
        '["key", "\\ud800"]',
        '["key"]',
        '["stdin", "q"]',
        '"key"',
        "{}",
        "",
        "[" * 100_000,
        '["key", "' + "x" * 5000 + '"]',
        "x" * 300_000,
    ],
    ids=lambda text: text[:20],
)
async def test_nothing_is_started_for_a_first_message_that_is_not_the_key(server: dict[str, Any], first: str) -> None:
    before = {child.pid for child in children(server["pid"])}
    async with Page(server) as page:
        code = await refusal(await page.connect(first))
    assert code in (WRONG_KEY_CODE, aiohttp.WSCloseCode.MESSAGE_TOO_BIG)
    assert {child.pid for child in children(server["pid"])} <= before


async def test_a_key_sent_as_the_second_message_is_refused(server: dict[str, Any]) -> None:
    async with Page(server) as page:
        terminal = await page.connect('["resize", {"width": 9, "height": 9}]', json.dumps(["key", page.key]))
        assert await refusal(terminal) == WRONG_KEY_CODE


async def test_a_page_of_another_site_is_refused_even_with_the_key(server: dict[str, Any]) -> None:
    async with Page(server) as page:
        for origin in ("http://evil.example", "http://127.0.0.1:1", "null", "http://["):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await page.connect(headers={"Origin": origin})
            assert refused.value.status == 403


@pytest.mark.parametrize(
    "host", ["evil.example", "[", "[::1", "]", "127.0.0.1:x:y", "", "a b", "127.0.0.1.evil.example"]
)
async def test_a_foreign_or_malformed_host_name_is_refused(server: dict[str, Any], host: str) -> None:
    for path in ("", "page.js", "ws", "static/css/xterm.css"):
        assert b" 403 " in await answered(server, f"GET /{path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())


@pytest.mark.parametrize(
    "request_",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: \xff=;;=\x01; $Version=[\r\n\r\n",
        b"GET /%00%ff%2e%2e/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /static/%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /static/%00 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET http://[/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /?key=%ff%fe HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://[\r\n\r\n",
        b"GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n\r\n",
        b"\x16\x03\x01\x02\x00 not HTTP at all\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
    ],
    ids=lambda request_: repr(request_[:40]),
)
async def test_a_malformed_request_is_refused_without_a_traceback(server: dict[str, Any], request_: bytes) -> None:
    answer = await answered(server, request_)
    assert answer[:12] in (b"HTTP/1.1 400", b"HTTP/1.0 400", b"HTTP/1.1 403", b"HTTP/1.1 404")
    assert b"Traceback" not in answer


async def answered(server: dict[str, Any], request: bytes) -> bytes:
    """Return the beginning of the answer to these bytes; the fixture checks that `serve` prints nothing."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server["port"])
    writer.write(request)
    try:
        return await asyncio.wait_for(reader.read(4096), DEADLINE)
    finally:
        writer.close()


async def test_messages_that_no_page_sends_do_no_harm(server: dict[str, Any]) -> None:
    async with Page(server) as page:
        terminal = await page.opened()
        for nonsense in ("", "[]", "[1]", '["stdin", 5]', '["resize", {"width": "x"}]', '["resize", []]', "[" * 9999):
            await terminal.send_str(nonsense)
        await terminal.send_str('["resize", {"width": 1e99, "height": 99999999999}]')
        await terminal.send_bytes(b"\xff\x00")
        await terminal.send_str('["resize", {"width": 110, "height": 33}]')
        await terminal.send_str('["stdin", "q"]')
        await painted(terminal, "Stay")
        await terminal.close()


async def test_a_key_pressed_at_once_reaches_the_console(server: dict[str, Any]) -> None:
    """The console starts as if the page had no focus; input counts as focus."""
    async with Page(server) as page:
        terminal = await page.connect(json.dumps(["key", page.key]), '["stdin", "q"]')
        await painted(terminal, "Stay")
        await terminal.send_str('["stdin", "y"]')
        assert await ending(terminal) == aiohttp.WSCloseCode.OK


def test_a_port_that_is_taken_is_reported(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        answer = shell.run("serve", "--port", str(taken.getsockname()[1]))
    assert answer.code == 2
    assert "in use" in answer.errors
    assert "--port" in answer.errors


def test_an_unknown_profile_is_refused_before_anything_is_served(shell: Shell) -> None:
    answer = shell.run("serve", "--profile", "nowhere", "--port", "0")
    assert answer.code == 2
    assert "nowhere" in answer.errors


def test_the_console_keeps_the_options_it_was_served_with() -> None:
    from tui.commands.parser.parser import flags, parse
    from tui.commands.serve import words_of

    words = ["--project=p", "--zone=a", "--zone=b", "--read-only", "--hosts=/h"]
    given = flags(parse([*words, "serve"]).everywhere)
    assert sorted(words_of(given)) == sorted(words)
    assert flags(parse(words_of(given)).everywhere) == given


def test_a_served_console_ends_with_its_tab(shell: Shell) -> None:
    process, served = started(shell)

    async def look() -> None:
        async with Page(served) as page:
            terminal = await page.opened()
            await asyncio.wait_for(terminal.receive(), DEADLINE)
            assert children(process.pid)

    asyncio.run(look())

    _, alive = psutil.wait_procs(children(process.pid), timeout=DEADLINE)
    assert alive == []
    process.terminate()
    process.communicate(timeout=DEADLINE)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_serve_and_the_consoles_of_open_tabs_silently(shell: Shell, how: signal.Signals) -> None:
    """One page confirms that its connection is closed, one is silent, and one has not sent the key yet."""
    process, served = started(shell)

    async def look() -> list[psutil.Process]:
        async with Page(served) as page:
            answering, silent, _keyless = await page.opened(), await page.opened(), await page.connect()
            answer, silence = await asyncio.gather(read_on(answering), read_on(silent))
            silence.cancel()
            opened = children(process.pid)
            process.send_signal(how)
            assert await answer == aiohttp.WSCloseCode.GOING_AWAY
            await asyncio.to_thread(process.wait, DEADLINE)
            return opened

    opened = asyncio.run(look())
    assert process.communicate(timeout=DEADLINE) == (b"", b"")
    assert process.returncode == 0
    assert len(opened) == 2
    assert not any(child.is_running() for child in opened)


def test_a_console_that_cannot_start_is_reported_to_its_page_and_not_to_the_terminal(shell: Shell) -> None:
    process, served = started(shell)
    (shell.home / "profiles").mkdir()
    (shell.home / "profiles" / "default.toml").write_text("route = 'nowhere'\n")

    async def look() -> int:
        async with Page(served) as page:
            return await ending(await page.opened())

    assert asyncio.run(look()) == FAILED_CODE
    process.terminate()
    assert process.communicate(timeout=DEADLINE) == (b"", b"")
    log = shell.home / "console.log"
    assert "nowhere" in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600


def test_the_process_of_a_textual_serve_service_can_be_waited_for() -> None:
    from textual_serve.app_service import AppService
    from textual_serve.download_manager import DownloadManager

    async def ignore(*_: object) -> None:
        pass

    async def look() -> int:
        service = AppService(
            "exit 7", write_bytes=ignore, write_str=ignore, close=ignore, download_manager=DownloadManager()
        )
        await service.start(80, 24)
        return await process_of(service).wait()

    assert asyncio.run(look()) == 7


def started(shell: Shell) -> tuple[subprocess.Popen[bytes], dict[str, Any]]:
    """Start a separate server; return its process and its announcement."""
    process = shell.start("serve", "--port", "0", "--json")
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())


def children(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children()
