"""Run `python -m trainer.shards`."""

import sys

from trainer.shards.command import main

if __name__ == "__main__":
    sys.exit(main())
