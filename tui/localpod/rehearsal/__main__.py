"""Run `python -m tui.localpod.rehearsal`."""

import sys

from tui.localpod.rehearsal.job import main

if __name__ == "__main__":
    sys.exit(main())
