"""`python -m peft_igc.sft`: the program that `accelerate launch` starts in each process.

accelerate launch --config_file peft_igc/assets/accelerate/ddp.yaml --num_processes 2 -m peft_igc.sft --config FILE
"""

import sys

from .run import Interrupted, main, parse


if __name__ == "__main__":
    try:
        main(parse(sys.argv[1:]))  # arguments of accelerate are already in effect, so they are ignored
    except Interrupted as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.code)
