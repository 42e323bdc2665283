"""Run `python -m trainer.bench_input`."""

import sys

from trainer.bench_input.benchmark import main

if __name__ == "__main__":
    sys.exit(main())
