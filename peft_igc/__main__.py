"""`python -m peft_igc`: the command line, as `peft-igc`."""

import sys

from .cli import main


if __name__ == "__main__":
    sys.exit(main())
