"""The model card of an IGC adapter, in place of PEFT's and TRL's templates.

It is the `README.md` of the folder. PEFT's template has about thirty placeholders, TRL's cites another project, and
both write the path of a local base. Metadata that others set (licence, data sets, tags) is kept.
"""

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import yaml
from peft.utils import CONFIG_NAME

from ..base_model import TINY, TINY_FOLDER
from ..config_values import name_of


RECORD = "## Training record"
_OURS = ("base_model", "library_name", "pipeline_tag", "tags")  # metadata that is written here

_TEMPLATE = Path(__file__).with_name("card.txt")


def write_card(folder: Path, base: str | None, adapter: str | None = None, record: str | None = None) -> None:
    """Writes the card of an adapter.

    Args:
        folder: The folder of the adapter.
        base: Name of the base model, or its path, of which only the last part is written.
        adapter: Hub id or path for the quick start. None: the one of an earlier card, else the folder's own name.
        record: Section that begins with `RECORD`. None: the one of an earlier card.
    """
    path, saved = folder / "README.md", folder / CONFIG_NAME
    settings = _settings(json.loads(saved.read_text(encoding="utf-8"))) if saved.is_file() else ""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    found = re.match(r"---\n(.*?)^---\n+", text, re.DOTALL | re.MULTILINE)
    front, body = (found[1], text[found.end() :]) if found else ("", text)
    own = body.startswith("# IGC adapter")
    if adapter is None:
        earlier = re.search(r'PeftModel\.from_pretrained\(model, "(.*)"\)', body) if own else None
        adapter = earlier[1] if earlier else folder.resolve().name
    if record is None:
        # The section is up to the next heading.
        kept = re.search(rf"^{RECORD}$.*?(?=^## |^Saved with |\Z)", body, re.DOTALL | re.MULTILINE) if own else None
        record = kept[0].strip() if kept else ""
    versions = []
    for package in ("peft-igc", "peft", "transformers", "torch"):
        with suppress(PackageNotFoundError):  # run from a source tree
            versions.append(f"{package} {version(package)}")
    name, is_public = _public_name(base)
    made = _TEMPLATE.read_text(encoding="utf-8").format(
        base_name=f"`{name}`" if name else "a causal language model",
        settings=settings,
        record=record,
        versions=f"Saved with {', '.join(versions)}.",
        adapter=adapter,
        **_base_lines(name, is_public),
    )
    metadata = _metadata(front, name if is_public and name != TINY else None)
    # A page that is neither ours nor PEFT's template stays as it is.
    is_foreign = body.strip() and not (own or body.lstrip().startswith("# Model Card for"))
    body = body if is_foreign else re.sub(r"\n{3,}", "\n\n", made)
    path.write_text(f"---\n{metadata}---\n\n{body}", encoding="utf-8")


def _public_name(base: str | None) -> tuple[str, bool]:
    """A name of the base that can be shown, and whether it leads to it on other machines."""
    if not base:
        return "", False
    if base in (TINY, str(TINY_FOLDER)):
        return TINY, True
    return (re.split(r"[\\/]", base.rstrip("\\/"))[-1], False) if _is_path(base) else (base, True)


def _is_path(name: str) -> bool:
    """Whether a name leads to a place on this machine, not to one of the hub."""
    return os.path.exists(name) or name[:1] in "./~" or name.count("/") > 1 or "\\" in name


def _base_lines(name: str, is_public: bool) -> dict[str, str]:
    """The lines of the quick start that load the base and its tokenizer."""
    if name == TINY:
        return {"imports": "", "base": "model, tokenizer = peft_igc.tiny_base()"}
    given = f'"{name or "base"}"' + ("" if is_public else "  # the folder of the base model, which has no public name")
    return {
        "imports": "from transformers import AutoModelForCausalLM, AutoTokenizer\n",
        "base": f"base = {given}\ntokenizer = AutoTokenizer.from_pretrained(base)\n"
        "model = AutoModelForCausalLM.from_pretrained(base)",
    }


def _settings(config: Mapping[str, Any]) -> str:
    anchors = ["the end of the prompt"] if config["anchors"].get("prompt_end") else []
    if turns := config["anchors"].get("turns"):
        anchors.append(f"the end of the token sequence{'s' if len(turns) > 1 else ''} {', '.join(map(str, turns))}")
    if inline := config["anchors"].get("inline"):
        anchors.append(f"{len(inline):,} token sequences within a text")
    least = config["confidence"]
    by_kind = ", ".join(f"{kind} {one}" for kind, one in least.items()) if isinstance(least, Mapping) else least
    spelling = "digits are read from hidden states"
    if config.get("number_tokens") is not None:
        group = config["number_tokens"]["group"]
        spelling = f"results are written in {f'groups of {group} digits' if group > 1 else 'single digits'}"
    rows = [
        ("interface", f"`{config['interface']}`: {spelling}"),
        ("decoder layer", config["layer"]),
        ("operations", " ".join(f"`{symbol}`" for symbol in config["operations"])),
        ("division with remainder (`rounding`)", f"`{config['rounding']}`"),
        ("digits of an operand, of a result", f"{config['num_digits']}, {config['result_digits']}"),
        ("least probability of a reading (`confidence`)", by_kind),
        ("anchors", "; ".join(anchors)),
    ]
    if others := config.get("trained_with"):
        names = ", ".join(f"`{name_of(entry)}` (in `{entry}`)" for entry in others)
        rows.append(("trained with, and loaded with", f"{names}; without it, answers are unreliable"))
    return "\n".join(["| setting | value |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)])


def _metadata(front: str, base: str | None) -> str:
    """The metadata of a card: ours, and what an earlier card has besides, without paths and empty values."""
    try:
        found = yaml.safe_load(front) or {}
    except yaml.YAMLError:
        found = {}
    datasets = found.get("datasets") or []
    # TRL (1.16) names a data set in a local folder by its path.
    public = [name for name in ([datasets] if isinstance(datasets, str) else datasets) if not _is_path(name)]
    tags = [tag for tag in found.get("tags") or [] if not tag.startswith("base_model:")]
    tags += ["igc", *([f"base_model:adapter:{base}"] if base else [])]
    # `licence: license` is a placeholder of TRL (1.16).
    kept = {name: value for name, value in found.items() if value not in ("", "license", "[More Information Needed]")}
    made = {
        "base_model": base,
        **{name: value for name, value in kept.items() if name not in _OURS},
        "datasets": public,
        "library_name": "peft",
        "pipeline_tag": "text-generation",
        "tags": list(dict.fromkeys(tags)),
    }
    return str(yaml.safe_dump({name: value for name, value in made.items() if value}, sort_keys=False))
