"""Run `python -m trainer.train`: check the arguments, then load PyTorch/XLA and start this worker's ranks.

Processes that multiprocessing starts run their parent's main module once more, but never a package's `__main__`: so
loader processes do not load PyTorch/XLA.
"""

import sys

from trainer.start_up import prepare_process

if __name__ == "__main__":
    prepare_process()

from trainer.options import read_command_line
from trainer.progress import write_line

if __name__ == "__main__":
    CONFIG = read_command_line()  # answers wrong arguments and --help before the seconds of importing
    write_line("==> Loading PyTorch and PyTorch/XLA ..")

    from trainer.distributed.launcher import launch
    from trainer.train.loop import train

    sys.exit(launch(train, CONFIG))
