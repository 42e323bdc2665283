from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import os, sys
from pathlib import Path
from tui.console.platform.stderr_redirect import redirect_stderr
with redirect_stderr(Path(sys.argv[1])):
    os.write(2, b"a C library complains\\n")
    print("python complains", file=sys.stderr, flush=True)
    print("the screen draws", file=sys.__stderr__, flush=True)
os.write(2, b"back\\n")
print("back too", file=sys.stderr, flush=True)
"""


def test_output_of_libraries_goes_to_the_log_and_the_screen_keeps_the_terminal(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "home")], capture_output=True, text=True, check=True
    )
    assert done.stderr.splitlines() == ["the screen draws", "back", "back too"]
    assert (tmp_path / "home" / "console.log").read_text() == "a C library complains\npython complains\n"
    assert (tmp_path / "home" / "console.log").stat().st_mode & 0o777 == 0o600


def test_the_console_opens_without_google_asyncssh_or_the_plotting_library() -> None:
    program = (
        "import sys, tui.console.app, tui.operator\n"
        "print([name for name in ('google', 'grpc', 'asyncssh', 'textual_plot', 'torch') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
