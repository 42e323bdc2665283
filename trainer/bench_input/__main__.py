"""Run `python -m trainer.bench_input`."""

import sys

from trainer.start_up import prepare_process

if __name__ == "__main__":
    prepare_process()

from trainer.bench_input.benchmark import main

if __name__ == "__main__":
    sys.exit(main())
