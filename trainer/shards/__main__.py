"""Run `python -m trainer.shards`."""

import sys

from trainer.start_up import prepare_process

if __name__ == "__main__":
    prepare_process()

from trainer.shards.command import main

if __name__ == "__main__":
    sys.exit(main())
