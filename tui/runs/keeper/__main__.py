"""Run `python -m tui.runs.keeper`."""

import sys

from tui.runs.keeper.start import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
