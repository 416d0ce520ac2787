"""`peft-igc sft` as a script, for launchers of your own.

accelerate launch --config_file peft_igc/assets/accelerate/ddp.yaml --num_processes 2 recipes/sft_igc.py --config
FILE.yaml
"""

from peft_igc.sft.run import script


if __name__ == "__main__":
    script()
