"""`python -m peft_igc.sft`: the program that `accelerate launch` starts in each process."""

import sys

from .interruption import Interrupted
from .run import main, parse


if __name__ == "__main__":
    try:
        main(*parse(sys.argv[1:]).arguments)  # arguments of accelerate are already in effect, so they are ignored
    except Interrupted as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.code)
