"""`peft-igc sft`: supervised fine-tuning with a calculator, from a YAML file or the command line, as with `trl sft`.

    peft-igc sft --config recipes/tiny_tokens.yaml --output_dir build/tokens

In: the arguments of `trl sft` (model, LoRA, quantization, data, training) and those of `IGCArguments`. A YAML file may
hold any of them, and the command line overrides it. Arguments of `accelerate launch` start several processes. Out: the
adapter, its model card, a closing evaluation, and a command to try the adapter. The training itself is `IGCTrainer`'s.
Try it: `peft-igc sft --help`, `pytest tests/sft/test_sft.py`
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from accelerate.logging import get_logger
from peft import LoraConfig, get_peft_model
from peft.utils import CONFIG_NAME
from transformers import AutoConfig, AutoTokenizer, PrinterCallback, ProgressCallback, set_seed
from trl import get_peft_config, get_quantization_config
from trl.trainer.utils import create_model_from_path

from ..inference.loading import TINY, find_adapter, find_base, with_template
from ..trainer.batches import as_dataset, tokenized
from ..trainer.checkpoints import ended_by_signal
from ..trainer.config import IGCSFTConfig, WritingStage
from ..trainer.labels_only import score_labels_only
from ..trainer.progress import Progress
from ..trainer.trainer import BaselineTrainer, IGCTrainer
from ..tuner.base_model import innermost_model
from ..tuner.config import IGCConfig
from ..tuner.model import CHILD
from ..tuner.saving.companions import NESTED, companions_in
from ..tuner.saving.trained_with import LOW_RANK
from .arguments import ASSISTANT_HEADER, IGCArguments, check, igc_config
from .closing import close, held_out_batches, learned_nothing
from .continuation import attach_saved, saved_config
from .datasets import load_corpora, rows_of_writing
from .defaults import device_arguments, fill, fill_two_stages, given_names
from .demonstration import Shown, failed, say
from .held_out import check_annotated, describe, hold_out
from .interruption import RESUME, Interrupted, how_to_go_on
from .launch import end, has_default, launch, launch_arguments
from .parser import SFTParser


__all__ = ["Parsed", "main", "parse", "run", "script"]

logger = get_logger(__name__)


class Parsed(NamedTuple):
    """A parsed command line.

    Attributes:
        arguments: ScriptArguments, IGCSFTConfig, ModelConfig, DatasetMixtureConfig, IGCArguments.
        launch: Arguments of `accelerate launch`, from the YAML file and the command line.
    """

    arguments: tuple[Any, ...]
    launch: list[str]


def parse(argv: Sequence[str], prog: str | None = None) -> Parsed:
    """Parses and checks all arguments, before anything is loaded. Abbreviated names are unknown arguments.

    Args:
        argv: Arguments without the program's name.
        prog: The program's name in help texts.

    Raises:
        FileNotFoundError: The YAML file does not exist.
        ValueError: An argument is unknown or has no effect, or values contradict each other.
    """
    if argv and argv[-1] == "--config":
        raise ValueError("`--config` is given without a file. Name a YAML file.")
    parser = SFTParser(prog)
    launched = launch_arguments(parser.unrecognized(argv), parser.names)
    try:
        given = given_names(argv)
        line = [*argv, *device_arguments(given)]
        *arguments, _ = parser.parse_args_and_config(line, return_remaining_strings=True)
    except (TypeError, ValueError) as error:  # argparse ends the program itself
        raise ValueError(f"The arguments cannot be used: {error}") from error
    _, training_args, model_args, _, igc_args = arguments
    check(training_args, model_args, igc_args)
    if model_args.model_name_or_path is None:
        raise ValueError("No model is named. Set `model_name_or_path` to a folder, a hub id, or `tiny`.")
    script_args, mixture = arguments[0], arguments[3]
    # The same in the processes that are launched, which parse the same command line on the same machine.
    one_process = not (launched or torch.cuda.device_count() > 1 or has_default())
    fill(script_args, training_args, mixture, igc_args, given, one_process)
    fill_two_stages(training_args, model_args, given)
    return Parsed(tuple(arguments), launched)


def main(
    script_args: Any,
    training_args: IGCSFTConfig,
    model_args: Any,
    dataset_args: Any,
    igc_args: IGCArguments,
    people: Mapping[str, Any] | None = None,
) -> IGCTrainer:
    """Trains in this process, one of several or the only one, and saves everything in `output_dir`.

    Args:
        script_args, training_args, model_args, dataset_args, igc_args: The arguments, as returned by `parse`.
        people: Further sets of items that a demonstration measures, by name.

    Returns:
        The trainer, after everything is saved.

    Raises:
        FileNotFoundError, OSError: A model, data or a checkpoint does not exist.
        ValueError: Model, data and arguments do not go together. Raised before training begins.
        Interrupted: A SIGTERM ended the training, after `enable_jit_checkpoint` had saved a checkpoint.
    """
    if igc_args.has_igc and training_args.n_gpu > 1:
        training_args._n_gpu = 1  # with several GPUs, Trainer would use `nn.DataParallel`, which TRL and IGC refuse
    source = str(find_base(model_args.model_name_or_path))
    resume = _checkpoint(training_args.resume_from_checkpoint)
    tokenizer = _tokenizer(source, training_args, model_args, igc_args)
    config = _config(source, igc_args, model_args, training_args, tokenizer) if igc_args.has_igc else None
    shown = None if config is None else Shown.of(igc_args, config, tokenizer, people)
    data = _data(config, shown, tokenizer, (script_args, training_args, dataset_args, igc_args))
    model = _base(source, training_args, model_args)
    set_seed(training_args.seed)  # for the adapter's initial weights
    model = _attach(model, config, training_args, model_args, igc_args)
    trainer = (BaselineTrainer if config is None else IGCTrainer)(
        model, training_args, None, data.train, data.test, tokenizer, data.writing_rows
    )
    if config is None:
        score_labels_only(innermost_model(trainer.model))  # as with a calculator: a baseline is trained alike
    progress = _progress(trainer, igc_args, shown)
    batches = None if data.held is None else held_out_batches(trainer, data.held)
    trainer.train(resume_from_checkpoint=resume)
    if ended_by_signal(trainer):
        end(trainer)
        done = f"Ended by SIGTERM after step {trainer.state.global_step}."
        raise Interrupted(f"{done} Repeat the command with `--{RESUME} true`.", 143)
    _save(trainer, config, script_args, model_args, igc_args)
    if shown is None:
        failure = None if config is None else close(trainer, data.held, batches)
        trainer.accelerator.print(_how_to_try(training_args.output_dir, model_args, igc_args, failure))
    elif trainer.is_world_process_zero():
        shown.finish(trainer, model_args, igc_args, progress)
    if training_args.push_to_hub:
        trainer.push_to_hub(dataset_name=script_args.dataset_name)
    end(trainer)
    return trainer


class _Data(NamedTuple):
    """The rows of a run: of the training, of evaluations, held out for the end, and of a second stage."""

    train: Any
    test: Any
    held: Any = None
    writing_rows: Callable[[WritingStage], list[dict[str, Any]]] | None = None


def _data(config: IGCConfig | None, shown: Shown | None, tokenizer: Any, arguments: tuple[Any, ...]) -> _Data:
    """The rows of a run; generated rows of two stages are tokenized at once. Arguments as `Parsed` has them."""
    script, training, mixture, igc_args = arguments
    conversational = tokenizer.chat_template is not None
    excluded = None if shown is None else shown.measurement.items
    train, test = load_corpora(script, mixture, training, igc_args, conversational, excluded)
    if config is None:
        return _Data(train, test)
    alone = not (script.dataset_name or mixture.datasets)
    check_annotated(train, config, training, igc_args)
    train, held = hold_out(train, test, igc_args, training.seed, alone, conversational)
    describe(train, config, training, igc_args)
    if training.writing_stage is None or not (alone and conversational):
        return _Data(train, test, held)
    rows = list(train)

    def writing_rows(stage: WritingStage) -> list[dict[str, Any]]:
        return tokenized(rows_of_writing(igc_args, stage, training.seed, rows, excluded), tokenizer)

    more = [] if shown is None else shown.refusals
    return _Data(as_dataset(tokenized([*rows, *more], tokenizer)), test, held, writing_rows)


def _save(trainer: IGCTrainer, config: IGCConfig | None, script_args: Any, model_args: Any, igc_args: Any) -> None:
    """Saves the adapter, its card, and a base that was trained with it."""
    folder = Path(trainer.args.output_dir)
    trainer.save_model(str(folder))
    if config is not None and igc_args.igc_train_base and trainer.is_world_process_zero():
        _save_base(trainer, folder / "base")
    trainer.create_model_card(dataset_name=script_args.dataset_name)
    of_its_own = igc_args.igc_train_base or model_args.model_name_or_path == TINY
    if config is not None and of_its_own and trainer.is_world_process_zero():
        # The base trained together with it, or the name of the embedded base instead of its path on this machine.
        config.base_model_name_or_path = str(folder / "base") if igc_args.igc_train_base else TINY
        config.save_pretrained(str(folder))


def _check_layer(source: str, config: IGCConfig, model_args: Any) -> None:
    """Refuses a layer that a local base does not have, before rows are made and the base is loaded."""
    if not Path(source).is_dir():
        return
    base = AutoConfig.from_pretrained(source, revision=model_args.model_revision)
    layers = getattr(base.get_text_config(), "num_hidden_layers", None)
    if layers is not None and config.layer >= layers:
        raise ValueError(
            f"`layer={config.layer}` is out of range: the model has {layers} decoder layers (0..{layers - 1}). "
            "Set `IGCConfig(layer=...)`."
        )


def _progress(trainer: IGCTrainer, igc_args: IGCArguments, shown: Shown | None) -> Progress | None:
    """Lines with the losses and the time left, and the time limit, in a demonstration or with `igc_minutes`."""
    if shown is None and igc_args.igc_minutes is None:
        return None
    measure = None if shown is None else lambda: shown.measurement.check(trainer.model, trainer.processing_class)
    checks = 0 if shown is None else shown.measurement.settings.checks
    progress = Progress(say, measure, checks=checks, minutes=igc_args.igc_minutes)
    for other in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(other)
    trainer.add_callback(progress)
    return progress


def _config(source: str, igc_args: IGCArguments, model_args: Any, training_args: Any, tokenizer: Any) -> IGCConfig:
    """The config of the calculator, made anew or that of `igc_init_from`.

    Raises:
        ValueError: The output folder has the LoRA of an earlier run, which would be taken for one of this run; or the
            base in the folder `source` has no such layer.
    """
    left = Path(training_args.output_dir) / LOW_RANK
    if not igc_args.has_lora and (left / CONFIG_NAME).is_file():
        raise ValueError(
            f"`{left}` has a LoRA of an earlier run, and would be loaded with the calculator of this one. Choose "
            "another `output_dir`, or remove that folder."
        )
    is_saved = igc_args.igc_init_from is not None
    config = saved_config(igc_args, model_args, tokenizer) if is_saved else igc_config(igc_args, tokenizer)
    _check_layer(source, config, model_args)
    return config


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


def _tokenizer(source: str, training_args: Any, model_args: Any, igc_args: IGCArguments) -> Any:
    """The base's tokenizer, with the chat template of the training, which anchors are derived from. If they are to be
    and there is none, it is that of completion models, as `load_base` gives it."""
    tokenizer = AutoTokenizer.from_pretrained(
        source, revision=model_args.model_revision, trust_remote_code=training_args.trust_remote_code
    )
    if template := training_args.chat_template_path:
        if not Path(template).is_file():
            raise ValueError(
                f"`chat_template_path={template}` is no file. Pass a Jinja file: another model's template could add "
                "tokens to the vocabulary that the calculator is made for."
            )
        tokenizer.chat_template = Path(template).read_text(encoding="utf-8")
    headed = igc_args.has_igc and ASSISTANT_HEADER in (igc_args.igc_anchors or [ASSISTANT_HEADER])
    return with_template(tokenizer) if headed else tokenizer


def _base(source: str, training_args: IGCSFTConfig, model_args: Any) -> Any:
    """The base model, as `SFTTrainer` loads it from a name."""
    options: dict[str, Any] = {
        "revision": model_args.model_revision,
        "trust_remote_code": training_args.trust_remote_code,
        "attn_implementation": model_args.attn_implementation,
        "dtype": model_args.dtype,
        **(training_args.model_init_kwargs or {}),
    }
    training_args.model_init_kwargs = None  # the trainer refuses them together with a loaded model
    if (quantization := get_quantization_config(model_args)) is not None:
        options["quantization_config"] = quantization
    if training_args.distributed_state.distributed_type in ("MULTI_GPU", "DEEPSPEED"):
        options["device_map"] = None  # "auto" would spread each process's model over all devices
    return create_model_from_path(source, **options)


def _attach(model: Any, config: IGCConfig | None, training_args: Any, model_args: Any, igc_args: IGCArguments) -> Any:
    """Adds the adapters that are trained, the calculator last: the outer one is saved in the output folder itself."""
    options: dict[str, Any] = {}
    plugin = training_args.deepspeed_plugin
    if plugin is not None and plugin.zero_stage == 3 and not (model_args.load_in_4bit or model_args.load_in_8bit):
        options["autocast_adapter_dtype"] = False  # as in TRL (1.16): ZeRO-3 gathers parameters of one dtype only
    saved = igc_args.igc_init_from if config is not None else None
    if igc_args.has_lora and not (saved and companions_in(find_adapter(saved))):
        model_args.use_peft = True
        lora = get_peft_config(model_args)
        assert isinstance(lora, LoraConfig)
        name = "default" if config is None else LOW_RANK
        try:
            model = get_peft_model(model, lora, adapter_name=name, **options)
        except ValueError as error:
            raise ValueError(
                f"`lora_target_modules={lora.target_modules}` cannot be used: {error} A single name is a pattern for "
                "whole paths: write `.*q_proj`, several names, or 'all-linear'."
            ) from error
    if config is not None and saved is not None:
        model = attach_saved(model, config, saved, **options)
    elif config is not None:
        with warnings.catch_warnings():
            for message in NESTED:
                warnings.filterwarnings("ignore", message)
            model = get_peft_model(model, config, **options)
    if igc_args.igc_train_base:
        for name, parameter in model.named_parameters():
            if f".{CHILD}." not in name:
                parameter.requires_grad_(True)
    return model


def _save_base(trainer: IGCTrainer, folder: Path) -> None:
    """Saves a trained base without the calculator, and its tokenizer."""
    base = innermost_model(trainer.model)
    own = {name: value for name, value in base.state_dict().items() if f".{CHILD}." not in name}
    base.save_pretrained(folder, state_dict=own)
    trainer.processing_class.save_pretrained(folder)


def _how_to_try(folder: str, model_args: Any, igc_args: IGCArguments, failure: str | None) -> str:
    """The end of a run's output: what was not learned, if so, and a command that uses the saved files."""
    saved = f"Saved, but not fit for use: {failure}\n" if failure else "Saved. "
    base, question = model_args.model_name_or_path, '"What is 58 times 36?"'
    if igc_args.has_igc:
        base = f"{folder}/base" if igc_args.igc_train_base else base
        return f"{saved}Load and trace it: peft-igc trace --base {base} --adapter {folder} {question}"
    model = f"--base {base} --adapter {folder}" if igc_args.has_lora else f"--base {folder}"
    return f"{saved}Evaluate it: peft-igc eval {model} --data items.jsonl --output results.json"


def run(argv: Sequence[str] | None = None, prog: str | None = None) -> int:
    """`peft-igc sft`: trains here, or in processes that accelerate launches.

    Processes are launched if arguments of `accelerate launch` are given. Without such arguments they are launched if
    there are several GPUs or if `accelerate config` has saved a default, except with `use_cpu`, `igc_writing_every`
    above 1 and `igc_writing`, which run in one process.

    Args:
        argv: Arguments without the program's name. None: `sys.argv[1:]`.
        prog: The program's name in help texts.

    Returns:
        The exit code: 1 if a process failed, the closing evaluation found that nothing was learned, or a
        demonstration missed a target.

    Raises:
        Interrupted: By Ctrl-C or SIGTERM; the message says how to go on.
    """
    argv = sys.argv[1:] if argv is None else list(argv)
    parsed = parse(argv, prog)
    training_args = parsed.arguments[1]
    alone = training_args.use_cpu or training_args.igc_writing_every > 1 or training_args.igc_writing is not None
    try:
        if parsed.launch or (not alone and (torch.cuda.device_count() > 1 or has_default())):
            code = launch("peft_igc.sft", parsed.launch, argv)  # each process ignores accelerate's arguments
        else:
            main(*parsed.arguments)
            code = 0
    except KeyboardInterrupt as error:
        raise Interrupted(how_to_go_on(argv, training_args.output_dir), getattr(error, "code", 130)) from error
    if parsed.arguments[4].igc_demonstration is not None:
        say(_how_to_try(training_args.output_dir, parsed.arguments[2], parsed.arguments[4], None))
        return code or int(failed(training_args.output_dir))
    return code or int(learned_nothing(training_args.output_dir))


def script() -> None:
    """`recipes/sft_igc.py`: trains in this process, which `accelerate launch` may have started.

    Raises:
        ValueError: Arguments of `accelerate launch` follow the script's name instead of preceding it.
    """
    parsed = parse(sys.argv[1:])
    if parsed.launch:
        raise ValueError(
            f"`{parsed.launch[0]}` is an argument of accelerate. Write `accelerate launch {parsed.launch[0]} ... "
            "SCRIPT`, or use `peft-igc sft`."
        )
    main(*parsed.arguments)
