"""`peft-igc sft`: supervised fine-tuning with a calculator, from a YAML file or the command line, as with `trl sft`.

    peft-igc sft --config recipes/tiny_tokens.yaml --output_dir build/tokens

In: the arguments of `trl sft` (model, LoRA, quantization, data, training) and those of `IGCArguments`. A YAML file may
hold any of them, and the command line overrides it. Arguments of `accelerate launch` start several processes. Out: the
adapter, its model card, a closing evaluation, and a command to try the adapter. The training itself is `IGCTrainer`'s.
Try it: `peft-igc sft --help`
"""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import PrinterCallback, ProgressCallback, set_seed

from ..data.dataset import to_dataset
from ..inference.loading import find_base
from ..trainer.batches import tokenized
from ..trainer.checkpoints import last_complete_checkpoint
from ..trainer.config import WritingStage
from ..trainer.progress import Progress
from ..trainer.trainer import BaselineTrainer, IGCTrainer
from ..tuner.base_model import TINY
from ..tuner.config import IGCConfig
from .arguments import Parsed, check
from .closing import check_annotated, close, describe, held_out_batches, learned_nothing
from .datasets import load_corpora, rows_of_writing
from .launch import end, has_default, launch
from .measure import Measurement, failed, say
from .models import load_tokenizer, make_config, make_model, save_base
from .parser import SFTParser, device_arguments, given_names, run_defaults


class Interrupted(KeyboardInterrupt):
    """A run that ended before its last step. The exit code is 130 after Ctrl-C and 143 after SIGTERM, as in shells."""

    def __init__(self, message: str, code: int = 130) -> None:
        super().__init__(message)
        self.code = code


def parse(argv: Sequence[str]) -> Parsed:
    """Parses and checks all arguments, before anything is loaded; an error says which does not exist, is unknown, has
    no effect, or contradicts another. Abbreviated names are unknown."""
    if {"--help-all", "--help_all"} & set(argv):
        say(SFTParser().format_help_all())
        sys.exit(0)
    if argv and argv[-1] == "--config":
        raise ValueError("`--config` is given without a file. Name a YAML file.")
    given = given_names(argv)
    try:
        line = [*argv, *device_arguments(given)]
        parsed = Parsed(*SFTParser().parse_args_and_config(line, return_remaining_strings=True))
    except (TypeError, ValueError) as error:  # argparse ends the program itself
        raise ValueError(f"The arguments cannot be used: {error}") from error
    training, model, igc = parsed.training, parsed.model, parsed.igc
    check(parsed)
    if model.model_name_or_path is None:
        raise ValueError("No model is named. Set `model_name_or_path` to a folder, a hub id, or `tiny`.")
    # The same in the processes that are launched, which parse the same command line on the same machine.
    alone = not parsed.launch and (training.use_cpu or not (torch.cuda.device_count() > 1 or has_default()))
    for name, value in run_defaults(parsed, given, one_process=alone).items():
        setattr(next(part for part in (training, model, igc) if hasattr(part, name)), name, value)
    return parsed


def main(parsed: Parsed) -> IGCTrainer:
    """Trains in this process, one of several or the only one, saves everything, and returns the trainer.

    Raises:
        FileNotFoundError, OSError: A model, data or a checkpoint does not exist.
        ValueError: Model, data and arguments do not go together. Raised before training begins.
        Interrupted: A SIGTERM ended the training, after `enable_jit_checkpoint` had saved a checkpoint.
    """
    training, igc = parsed.training, parsed.igc
    if igc.has_igc and training.n_gpu > 1:
        training._n_gpu = 1  # with several GPUs, Trainer would use `nn.DataParallel`, which TRL and IGC refuse
    source = str(find_base(parsed.model.model_name_or_path))
    resume = _checkpoint(training.resume_from_checkpoint)
    tokenizer = load_tokenizer(source, parsed)
    config = make_config(source, parsed, tokenizer) if igc.has_igc else None
    shown = None if config is None or igc.demonstration is None else Measurement(igc.demonstration, config, tokenizer)
    train, test, held, writing_rows = _data(config, shown, tokenizer, parsed)
    set_seed(training.seed)  # for the adapter's initial weights
    trainer = (BaselineTrainer if config is None else IGCTrainer)(
        make_model(source, config, parsed), training, None, train, test, tokenizer, writing_rows
    )
    progress = _progress(trainer, parsed, shown)
    batches = None if held is None else held_out_batches(trainer, held)
    trainer.train(resume_from_checkpoint=resume)
    if trainer.ended_by_signal:
        end(trainer)
        step = trainer.state.global_step
        raise Interrupted(f"Ended by SIGTERM after step {step}. Repeat the command with `{' '.join(_RESUME)}`.", 143)
    _save(trainer, config, parsed)
    if progress is not None and shown is not None:
        if trainer.is_world_process_zero():
            arguments = {name: value for name, value in vars(igc).items() if value is not None}
            shown.finish(trainer, parsed.model.model_name_or_path, arguments, progress)
    else:
        failure = None if config is None else close(trainer, held, batches)
        trainer.accelerator.print(_how_to_try(parsed, failure))
    if training.push_to_hub:
        _upload(trainer)
    end(trainer)
    return trainer


def _data(config: IGCConfig | None, shown: Measurement | None, tokenizer: Any, parsed: Parsed) -> tuple[Any, ...]:
    """The rows of the training, of evaluations, held out for the end, and a function that makes those of a second
    stage, or None; generated rows of two stages are tokenized at once."""
    conversational = tokenizer.chat_template is not None
    excluded = None if shown is None else shown.items
    anchors = {} if config is None else config.anchors
    headers = [*anchors.get("turns", []), *anchors.get("users", [])]
    # A header of plain text may be within a question, and the template may add the white space around it.
    avoid = {tokenizer.decode(header).strip() for header in headers} - {""}
    train, test, held = load_corpora(parsed, conversational, excluded, avoid)
    if config is None:
        return train, test, None, None
    check_annotated(train, parsed)
    describe(train, config, parsed)
    alone = not (parsed.script.dataset_name or parsed.mixture.datasets)
    if parsed.training.writing_stage is None or not (alone and conversational):
        return train, test, held, None
    rows = list(train)

    def writing_rows(stage: WritingStage) -> list[dict[str, Any]]:
        made = rows_of_writing(parsed.igc, stage, parsed.training.seed, rows, excluded, avoid)
        return tokenized(made, tokenizer)

    return to_dataset(tokenized(rows, tokenizer)), test, held, writing_rows


def _progress(trainer: IGCTrainer, parsed: Parsed, shown: Measurement | None) -> Progress | None:
    """Lines with the losses and the time left, and the time limit, in a demonstration or with `igc_minutes`."""
    minutes = parsed.igc.igc_minutes
    if shown is None and minutes is None:
        return None
    progress = Progress(say, minutes=minutes)
    for other in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(other)
    trainer.add_callback(progress)
    return progress


def _checkpoint(value: Any) -> str | bool | None:
    """`resume_from_checkpoint` as `Trainer.train` takes it: a folder, True for the latest one, or None."""
    if str(value).lower() in ("none", "false", "true"):
        return str(value).lower() == "true" or None
    if not Path(value).is_dir():
        raise FileNotFoundError(
            f"The folder `{value}` of `resume_from_checkpoint` does not exist. Name a checkpoint's folder, or `true` "
            "for the latest one in `output_dir`."
        )
    return str(value)


def _save(trainer: IGCTrainer, config: IGCConfig | None, parsed: Parsed) -> None:
    """Saves the adapter, its card, and a base that was trained with it."""
    folder, with_base = Path(trainer.args.output_dir), parsed.igc.igc_train_base
    is_first = config is not None and trainer.is_world_process_zero()
    trainer.save_model(str(folder), _internal_call=True)  # or it is uploaded
    if is_first and with_base:
        save_base(trainer, folder / "base")
    trainer.create_model_card(dataset_name=parsed.script.dataset_name)
    if config is not None and is_first and (with_base or parsed.model.model_name_or_path == TINY):
        # The base trained together with it, or the name of the embedded base instead of its path on this machine.
        config.base_model_name_or_path = str(folder / "base") if with_base else TINY
        config.save_pretrained(str(folder))


def _upload(trainer: IGCTrainer) -> None:
    """Uploads the output folder as it is: `Trainer.push_to_hub` (transformers 5.23) would save config and card again,
    without the calibration and the verdict."""
    for name in ("save_model", "create_model_card"):
        setattr(trainer, name, lambda *_, **__: None)
    trainer.push_to_hub()


def _how_to_try(parsed: Parsed, failure: str | None = None) -> str:
    """The end of a run's output: what was not learned, if so, and a command that uses the saved files."""
    saved = f"Saved, but not fit for use: {failure}\n" if failure else "Saved. "
    base, folder = parsed.model.model_name_or_path, parsed.training.output_dir
    if parsed.igc.has_igc:
        base = f"{folder}/base" if parsed.igc.igc_train_base else base
        return f'{saved}Load and trace it: peft-igc trace --base {base} --adapter {folder} "What is 58 times 36?"'
    model = f"--base {base} --adapter {folder}" if parsed.igc.has_lora else f"--base {folder}"
    return f"{saved}Evaluate it: peft-igc eval {model} --data items.jsonl --output results.json"


def run(argv: Sequence[str]) -> int:
    """`peft-igc sft`: trains here, or in processes that accelerate launches; returns the exit code.

    Processes are launched if arguments of `accelerate launch` are given. Without such arguments they are launched if
    there are several GPUs or if `accelerate config` has saved a default, except with `use_cpu`, `igc_writing_every`
    above 1 and `igc_writing`, which run in one process. The code is 1 if a process failed, the closing evaluation
    found that nothing was learned, or a demonstration missed a target.

    Raises:
        Interrupted: By Ctrl-C or SIGTERM; the message says how to go on.
    """
    parsed = parse(argv)
    training = parsed.training
    alone = training.use_cpu or training.igc_writing_every > 1 or training.igc_writing is not None
    try:
        if parsed.launch or (not alone and (torch.cuda.device_count() > 1 or has_default())):
            code = launch(parsed.launch, list(argv))  # each process ignores accelerate's arguments
        else:
            main(parsed)
            code = 0
    except KeyboardInterrupt as error:
        raise Interrupted(how_to_go_on(argv, training.output_dir), getattr(error, "code", 130)) from error
    if parsed.igc.igc_demonstration is not None:
        say(_how_to_try(parsed))
        return code or int(failed(training.output_dir))
    return code or int(parsed.igc.has_igc and learned_nothing(training.output_dir))


_RESUME = ["--resume_from_checkpoint", "true"]


def how_to_go_on(argv: Sequence[str], folder: str) -> str:
    """The message about an interrupted run with these arguments: its last checkpoint and a command, or neither."""
    try:
        checkpoint = last_complete_checkpoint(folder)
    except ValueError:
        return (
            "Interrupted before the first checkpoint, so nothing is saved. `--save_steps N` saves one every N steps, "
            "`--enable_jit_checkpoint` on SIGTERM."
        )
    command = shlex.join(["peft-igc", "sft", *argv, *([] if list(argv[-2:]) == _RESUME else _RESUME)])
    return f"Interrupted. `{checkpoint}` is complete. Go on with: {command}"
