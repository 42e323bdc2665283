"""Run `python -m trainer.shards`."""

import signal
import sys

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # there is nothing to save yet: Ctrl-C ends it silently

from trainer.shards.command import main

if __name__ == "__main__":
    sys.exit(main())
