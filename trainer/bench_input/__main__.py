"""Run `python -m trainer.bench_input`."""

import signal
import sys

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing is laid out yet: Ctrl-C ends it silently

from trainer.bench_input.benchmark import main

if __name__ == "__main__":
    sys.exit(main())
