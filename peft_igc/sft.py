"""`peft-igc sft`: supervised fine-tuning with a calculator, from a YAML file or the command line, as `trl sft`.

    peft-igc sft --config recipes/tiny_tokens.yaml --output_dir build/tokens

In: the arguments of `trl sft` (model, LoRA, quantisation, data, training) and those of `IGCArguments`; a YAML file
holds any of them, and the command line overrides it. Arguments of `accelerate launch` start several processes. Out:
the adapter, its card, and one line that says how to try it. What would have no effect is refused (`arguments.check`).
It has no training of its own: that is `IGCTrainer`. Try it: `peft-igc sft --help`, `pytest tests/test_sft.py`.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
import yaml
from peft import LoraConfig, get_peft_model
from transformers import AutoTokenizer, set_seed
from trl import DatasetMixtureConfig, ModelConfig, ScriptArguments, TrlParser, get_peft_config, get_quantization_config
from trl.trainer.utils import create_model_from_path

from .arguments import IGCArguments, check, igc_config
from .config import IGCConfig
from .corpora import GeneratedRows, load_corpora
from .launching import end, has_default, launch, refuse_unknown, with_flags
from .loading import TINY, find_base
from .model import CHILD, innermost_model
from .sizes import SIZES
from .trainer import IGCSFTConfig, IGCTrainer


__all__ = ["Parsed", "main", "make_parser", "parse", "run", "script"]

LORA = "low_rank"  # name of the LoRA beneath a calculator, and its folder; PEFT (0.21) warns of "lora"


class Parsed(NamedTuple):
    """What a command line asks for.

    Attributes:
        arguments: ScriptArguments, IGCSFTConfig, ModelConfig, DatasetMixtureConfig, IGCArguments.
        launch: Arguments of `accelerate launch`, from the command line and from the YAML file.
        script: The command line without them, for the processes that are launched.
    """

    arguments: tuple[Any, ...]
    launch: list[str]
    script: list[str]


def make_parser(prog: str | None = None) -> TrlParser:
    """TRL's parser of all arguments; abbreviations are unknown arguments."""
    types = (ScriptArguments, IGCSFTConfig, ModelConfig, DatasetMixtureConfig, IGCArguments)
    usage = "%(prog)s [--config FILE.yaml] [--ARGUMENT VALUE ...] [arguments of accelerate launch]"
    return TrlParser(types, prog=prog, usage=usage, allow_abbrev=False)


def parse(argv: Sequence[str], prog: str | None = None) -> Parsed:
    """Parses and checks all arguments, before anything is loaded.

    Args:
        argv: Arguments without the program's name.
        prog: The program's name in help texts.

    Raises:
        FileNotFoundError: no such YAML file.
        ValueError: an unknown argument, one that has no effect, or values that contradict each other.
    """
    parser, argv = make_parser(prog), list(argv)
    if argv[-1:] == ["--config"]:
        raise ValueError("`--config` is given without a file. Name a YAML file.")
    given = _given(argv)
    try:
        *arguments, from_file, from_line = parser.parse_args_and_config(
            argv, return_remaining_strings=True, separate_remaining_strings=True
        )
    except (TypeError, ValueError) as error:  # of the dataclasses; argparse's own errors end the program
        raise ValueError(f"The arguments cannot be used: {error}") from error
    script_args, training_args, model_args, dataset_args, igc_args = arguments
    check(script_args, training_args, model_args, dataset_args, igc_args, given)
    if model_args.model_name_or_path is None:
        raise ValueError("No model is named. Set `model_name_or_path` to a folder, a hub id, or `tiny`.")
    for_launch = with_flags([*from_file, *from_line])
    refuse_unknown(for_launch)
    rest = iter(from_line)
    following = next(rest, None)
    script = []
    for text in argv:  # what is left over of the command line keeps its order
        if text == following:
            following = next(rest, None)
        else:
            script.append(text)
    return Parsed(tuple(arguments), for_launch, script)


def _given(argv: Sequence[str]) -> set[str]:
    """Names of the arguments that are set, on the command line or in the YAML file."""
    given = set()
    if "--config" in argv:
        path = argv[list(argv).index("--config") + 1]
        try:
            found = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        except yaml.YAMLError as error:
            raise ValueError(f"`{path}` is no YAML: {error}") from error
        if not isinstance(found, dict):
            raise ValueError(f"`{path}` holds no arguments. Write lines such as `igc_layer: 1`.")
        given |= set(found)
    names = {text[2:].partition("=")[0].replace("-", "_") for text in argv if text.startswith("--")}
    return given | names | {name.removeprefix("no_") for name in names}


# -------------------------------------------------------------------------------------------------- training
def main(
    script_args: Any, training_args: IGCSFTConfig, model_args: Any, dataset_args: Any, igc_args: IGCArguments
) -> IGCTrainer:
    """Trains in this process, one of several or the only one.

    Args:
        script_args, training_args, model_args, dataset_args, igc_args: as `parse` gives them.

    Returns:
        The trainer, when everything is saved in `output_dir`.

    Raises:
        FileNotFoundError, OSError: a model, data or checkpoint that is not there.
        ValueError: anything that does not go together, before training begins.
    """
    if igc_args.has_igc and training_args.n_gpu > 1:
        training_args._n_gpu = 1  # one process uses one GPU: TRL and the calculator refuse `nn.DataParallel`
    source = str(find_base(model_args.model_name_or_path))
    resume = _checkpoint(training_args.resume_from_checkpoint)
    tokenizer = _tokenizer(source, training_args, model_args)
    config = igc_config(igc_args, tokenizer) if igc_args.has_igc else None
    train, test = load_corpora(
        script_args,
        dataset_args,
        training_args,
        _generated(igc_args),
        igc_args.igc_annotated_fraction,
        conversational=tokenizer.chat_template is not None,
    )
    set_seed(training_args.seed)  # the adapter's initial weights
    model = _base(source, training_args, model_args)
    model = _attach(model, config, training_args, model_args, igc_args)
    trainer = IGCTrainer(
        model=model, args=training_args, train_dataset=train, eval_dataset=test, processing_class=tokenizer
    )
    trainer.train(resume_from_checkpoint=resume)
    trainer.save_model(training_args.output_dir)
    if config is not None and igc_args.igc_train_base and trainer.is_world_process_zero():
        _save_base(trainer, Path(training_args.output_dir) / "base")
    trainer.create_model_card(dataset_name=script_args.dataset_name)
    of_its_own = igc_args.igc_train_base or model_args.model_name_or_path == TINY
    if config is not None and of_its_own and trainer.is_world_process_zero():
        # the base that was trained beside it, or the package's name of its own one, not its path on this machine
        folder = str(Path(training_args.output_dir) / "base")
        config.base_model_name_or_path = folder if igc_args.igc_train_base else TINY
        config.save_pretrained(training_args.output_dir)
    trainer.accelerator.print(_how_to_try(training_args.output_dir, model_args, igc_args))
    if training_args.push_to_hub:
        trainer.push_to_hub(dataset_name=script_args.dataset_name)
    end(trainer)
    return trainer


def _checkpoint(value: Any) -> str | bool | None:
    """`resume_from_checkpoint`: a folder, or whether to take the latest one of `output_dir`."""
    if str(value).lower() in ("none", "false", "true"):
        return str(value).lower() == "true" or None
    if not Path(value).is_dir():
        raise FileNotFoundError(
            f"The folder `{value}` of `resume_from_checkpoint` does not exist. Name a checkpoint's folder, or `true` "
            "for the latest one in `output_dir`."
        )
    return str(value)


def _tokenizer(source: str, training_args: Any, model_args: Any) -> Any:
    """The base's tokenizer, with the chat template that training will use: anchors are found by it."""
    tokenizer = AutoTokenizer.from_pretrained(
        source, revision=model_args.model_revision, trust_remote_code=training_args.trust_remote_code
    )
    if template := training_args.chat_template_path:
        if not Path(template).is_file():
            raise ValueError(
                f"`chat_template_path={template}` is no file. Pass a Jinja file; a template that brings tokens of its "
                "own changes the vocabulary that the calculator is made for."
            )
        tokenizer.chat_template = Path(template).read_text(encoding="utf-8")
    return tokenizer


def _generated(igc_args: IGCArguments) -> GeneratedRows | None:
    """The generated rows that are wanted, in what the calculator can hold, or the one that a LoRA is compared with."""
    if not igc_args.igc_generated_rows:
        return None
    digits, result = igc_args.igc_num_digits, igc_args.igc_result_digits
    digits = SIZES[igc_args.igc_interface]["num_digits"] if digits is None else digits
    more = {name: getattr(igc_args, f"igc_{name}") for name in ("operations", "division")}
    return GeneratedRows(
        igc_args.igc_generated_rows,
        interface=igc_args.igc_interface,
        num_digits=digits,
        result_digits=digits if result is None else result,
        max_digits=igc_args.igc_generated_max_digits,
        **{name: value for name, value in more.items() if value is not None},
    )


def _base(source: str, training_args: IGCSFTConfig, model_args: Any) -> Any:
    """The base model, as `SFTTrainer` loads it from a name."""
    options: dict[str, Any] = {
        "revision": model_args.model_revision,
        "trust_remote_code": training_args.trust_remote_code,
        "attn_implementation": model_args.attn_implementation,
        "dtype": model_args.dtype,
        **(training_args.model_init_kwargs or {}),
    }
    training_args.model_init_kwargs = None  # used up
    if (quantization := get_quantization_config(model_args)) is not None:
        options["quantization_config"] = quantization
    if training_args.distributed_state.distributed_type in ("MULTI_GPU", "DEEPSPEED"):
        options["device_map"] = None  # "auto" would spread each process's model over all devices
    return create_model_from_path(source, **options)


def _attach(model: Any, config: IGCConfig | None, training_args: Any, model_args: Any, igc_args: IGCArguments) -> Any:
    """The model with what is trained: the calculator outside, so that its folder is the output's."""
    options: dict[str, Any] = {}
    plugin = training_args.deepspeed_plugin
    if plugin is not None and plugin.zero_stage == 3 and not (model_args.load_in_4bit or model_args.load_in_8bit):
        options["autocast_adapter_dtype"] = False  # as TRL (1.16): ZeRO-3 gathers parameters of one dtype only
    if igc_args.has_lora:
        model_args.use_peft = True
        lora = get_peft_config(model_args)
        assert isinstance(lora, LoraConfig)
        name = "default" if config is None else LORA
        try:
            model = get_peft_model(model, lora, adapter_name=name, **options)
        except ValueError as error:
            raise ValueError(
                f"`lora_target_modules={lora.target_modules}` cannot be used: {error} One name alone is a pattern for "
                "whole paths: write `.*q_proj`, several names, or 'all-linear'."
            ) from error
    if config is not None:
        with warnings.catch_warnings():  # PEFT (0.21) warns of every nest; this one is meant
            warnings.filterwarnings("ignore", "You are trying to modify a model with PEFT for a second time")
            warnings.filterwarnings("ignore", "Already found a `peft_config` attribute in the model")
            model = get_peft_model(model, config, **options)
    if igc_args.igc_train_base:
        for name, parameter in model.named_parameters():
            if f".{CHILD}." not in name:
                parameter.requires_grad_(True)
    return model


def _save_base(trainer: IGCTrainer, folder: Path) -> None:
    """Saves the base that was trained too, without the calculator, and its tokenizer."""
    base = innermost_model(trainer.model)
    own = {name: value for name, value in base.state_dict().items() if f".{CHILD}." not in name}
    base.save_pretrained(folder, state_dict=own)
    trainer.processing_class.save_pretrained(folder)


def _how_to_try(folder: str, model_args: Any, igc_args: IGCArguments) -> str:
    """The line that ends a run."""
    base, question = model_args.model_name_or_path, '"What is 58 times 36?"'
    if igc_args.igc_adapter == "igc":
        base = f"{folder}/base" if igc_args.igc_train_base else base
        return f"Saved. Load and trace it: peft-igc trace --base {base} --adapter {folder} {question}"
    if igc_args.igc_adapter == "igc+lora":
        return (
            f'Saved. Load it: PeftModel.from_pretrained(PeftModel.from_pretrained(base, "{folder}/{LORA}", '
            f'adapter_name="{LORA}"), "{folder}"), after `import peft_igc`; then peft_igc.tracing.trace.'
        )
    model = f"--base {base} --adapter {folder}" if igc_args.has_lora else f"--base {folder}"
    return f"Saved. Evaluate it: peft-igc eval {model} --data items.jsonl --output results.json"


# -------------------------------------------------------------------------------------------------- processes
def run(argv: Sequence[str] | None = None, prog: str | None = None) -> int:
    """`peft-igc sft`: trains here, or in processes that accelerate launches.

    Processes are launched if arguments of `accelerate launch` are given. They are also launched if there are several
    GPUs or if `accelerate config` has left a default, but not by themselves for `use_cpu`, nor for what one process
    alone can do: `igc_writing_every` above 1, `igc_reading_steps`.

    Args:
        argv: Arguments without the program's name. None: those of the process.
        prog: The program's name in help texts.

    Returns:
        The exit code.
    """
    parsed = parse(sys.argv[1:] if argv is None else argv, prog)
    training_args = parsed.arguments[1]
    alone = training_args.use_cpu or training_args.igc_writing_every > 1 or training_args.igc_reading_steps > 0
    if parsed.launch or (not alone and (torch.cuda.device_count() > 1 or has_default())):
        return launch("peft_igc.sft", parsed.launch, parsed.script)
    main(*parsed.arguments)
    return 0


def script() -> None:
    """`recipes/sft_igc.py`: trains in this process, which `accelerate launch` may have started.

    Raises:
        ValueError: arguments of accelerate, which it takes before the script's name.
    """
    parsed = parse(sys.argv[1:])
    if parsed.launch:
        raise ValueError(
            f"`{parsed.launch[0]}` is accelerate's. Write `accelerate launch {parsed.launch[0]} ... SCRIPT`, or use "
            "`peft-igc sft`."
        )
    main(*parsed.arguments)


if __name__ == "__main__":
    main(*parse(sys.argv[1:]).arguments)  # accelerate's arguments are in use already, those of the YAML file too
