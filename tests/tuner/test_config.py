"""What `IGCConfig` promises: documented defaults, early refusals with a cure, files that give the same config back."""

import ast
import dataclasses
import itertools
import json
import re
from pathlib import Path

import pytest
from peft import PeftConfig
from tiny_vocabulary import VOCABULARY
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from peft_igc import IGCConfig, tiny_base
from peft_igc.data.files import read_rows
from peft_igc.text.vocabulary import turn_ends
from peft_igc.tuner.saving.saved_fields import FORMAT


# Fields that PEFT and TRL read on every config, which have no meaning here.
FOREIGN = {"target_modules", "exclude_modules", "modules_to_save", "trainable_token_indices"}
ENTRY = re.compile(
    r"^ {8,12}(\w+) \(`([^`]+)`(?: or `[^`]+`)?, \*optional\*(?:, defaults to `([^\n]+)`)?\):$", re.MULTILINE
)


def own_fields():
    """The fields that are ours, with their defaults."""
    inherited = {f.name for f in dataclasses.fields(PeftConfig)}
    return {
        f.name: f.default if f.default_factory is dataclasses.MISSING else f.default_factory()
        for f in dataclasses.fields(IGCConfig)
        if f.name not in inherited | FOREIGN
    }


def test_the_docstring_names_every_field_once_with_its_default():
    documented = {name: default for name, _, default in ENTRY.findall(IGCConfig.__doc__)}
    assert len(ENTRY.findall(IGCConfig.__doc__)) == len(documented)
    assert documented.keys() == own_fields().keys()
    for name, default in own_fields().items():
        assert (ast.literal_eval(documented[name]) if documented[name] else None) == default, name


def test_the_config_has_what_peft_and_trl_read_with_help_texts_and_nothing_that_misleads_them():
    assert all(f.metadata.get("help") for f in dataclasses.fields(IGCConfig))
    names = {f.name for f in dataclasses.fields(IGCConfig)}
    assert names >= FOREIGN
    assert not names & {"bias", "layers_to_transform"}


def test_every_size_that_is_no_integer_in_range_is_refused():
    sizes = [name for name in own_fields() if type(getattr(IGCConfig(), name)) is int]
    assert len(sizes) == 11
    for name in sizes:
        least = {"layer": 0, "reading_layers": 0, "max_operands": 2}.get(name, 1)
        for value in (least - 1, -5, 1.0, "2", True, 1 << 17):
            message = rf"`{name}={value!r}` is not an integer in {least}\.\.\d+. Set `IGCConfig\({name}="
            with pytest.raises(ValueError, match=message):
                IGCConfig(**{name: value})


def test_every_switch_that_is_no_bool_is_refused():
    for name in (name for name in own_fields() if isinstance(getattr(IGCConfig(), name), bool)):
        with pytest.raises(ValueError, match=f"`{name}='false'` is neither True nor False"):
            IGCConfig(**{name: "false"})


# Fields of configs that can be saved, and of those that are refused.
LINES = read_rows(Path(__file__).with_name("configs.jsonl"))


@pytest.mark.parametrize("line", [line for line in LINES if "message" in line], ids=lambda line: line["message"])
def test_values_without_meaning_are_refused(line):
    with pytest.raises(ValueError, match=line["message"]):
        IGCConfig(**line["fields"])


def test_a_vocabulary_has_no_meaning_for_the_hidden_interface():
    with pytest.raises(ValueError, match="`vocabulary=.*` has no meaning for `interface='hidden'`. Leave it out"):
        IGCConfig(vocabulary=VOCABULARY)


def test_each_interface_has_sizes_of_its_own():
    facts = {"group": 3, "minus": 12, "point": None, "unused": []}
    config = IGCConfig(interface="tokens", number_tokens=facts, confidence=0.9)
    assert (config.num_digits, config.result_digits, config.writing_dim) == (40, 40, None)
    assert (IGCConfig().num_digits, IGCConfig().writing_dim, IGCConfig(confidence=0).confidence) == (10, 512, 0)
    assert [IGCConfig(num_digits=6, **more).result_digits for more in ({}, {"result_digits": 9})] == [6, 9]


def test_the_prompts_end_is_an_anchor_unless_anchors_are_named():
    for given in (None, "prompt_end", {"inline": [[28]]}, {"turns": [[5, 6]], "prompt_end": True}):
        assert IGCConfig(anchors=given).anchors == (given if isinstance(given, dict) else {"prompt_end": True})


@pytest.mark.parametrize("line", [line for line in LINES if "saved" in line], ids=lambda line: line["saved"])
def test_a_saved_config_comes_back_the_same(line, tmp_path):
    config = IGCConfig(**line["fields"])
    config.save_pretrained(tmp_path)
    assert IGCConfig.from_pretrained(str(tmp_path)) == config
    general = PeftConfig.from_pretrained(str(tmp_path))
    assert type(general) is IGCConfig
    assert general == config


LOADERS = pytest.mark.parametrize("loader", [IGCConfig, PeftConfig])


def saved_with(folder, **fields):
    """A saved config with further fields; None takes one away."""
    IGCConfig().save_pretrained(folder)
    path = folder / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))
    return str(folder)


@LOADERS
def test_a_field_that_only_a_later_version_knows_is_refused_unless_it_is_empty(loader, tmp_path):
    with pytest.raises(ValueError, match="has the field `from_the_future=1`, which this version of peft-igc does not"):
        loader.from_pretrained(saved_with(tmp_path, from_the_future=1))
    assert loader.from_pretrained(saved_with(tmp_path, from_the_future=None)) == IGCConfig()


def test_decimals_are_written_where_the_tokenizer_has_a_point():
    config = IGCConfig.from_tokenizer(tiny_base()[1])
    older = IGCConfig.from_tokenizer(tiny_base()[1], compares_numbers=False, decimal_operands=False)
    assert (config.compares_numbers, older.compares_numbers) == (True, False)
    assert (config.token_table.decimals, older.token_table.decimals) == (True, False)
    assert dataclasses.replace(older, operations=["+", "percent"], vocabulary=None).decimal_operands
    without = dataclasses.replace(config, number_tokens=config.number_tokens | {"point": None}, vocabulary=None)
    assert (config.decimals, without.decimals, IGCConfig().decimals) == (True, False, False)


@LOADERS
def test_another_format_is_refused_and_an_earlier_one_with_the_command_that_converts_it(loader, tmp_path):
    newer = f"`format_version={FORMAT + 1}`, but this version of peft-igc knows formats up to {FORMAT}"
    with pytest.raises(ValueError, match=newer):
        loader.from_pretrained(saved_with(tmp_path, format_version=FORMAT + 1))
    path = tmp_path / "adapter_config.json"
    older = {k: v for k, v in json.loads(path.read_text()).items() if k not in ("format_version", "anchors")}
    for version, fields in ((1, older), (2, {**older, "format_version": 2}), (1, {**older, "from_the_past": 1})):
        path.write_text(json.dumps(fields))
        folder = "DIR" if loader is PeftConfig else tmp_path
        with pytest.raises(ValueError, match=f"has format {version}, .* Run `peft-igc convert {folder} --tokenizer"):
            loader.from_pretrained(str(tmp_path))


HEADER = "{% if add_generation_prompt %}<|assistant|>{% endif %}"
TURNS = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"


def make_tokenizer(template, *extra):
    """A tokenizer of characters and special tokens; `extra` are further words."""
    words = ["<unk>", "<|user|>", "<|assistant|>", "<|end|>", *"0123456789: AB", *extra]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    pattern = "|".join([*map(re.escape, extra), "."])
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "isolated")
    tokenizer.decoder = decoders.Fuse()
    made = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="<unk>",
        additional_special_tokens=["<|user|>", "<|assistant|>", "<|end|>"],
    )
    made.chat_template = template
    return made


def test_the_anchor_is_the_assistant_header_of_the_chat_template():
    tokenizer = make_tokenizer(TURNS + HEADER)
    config = IGCConfig.from_tokenizer(tokenizer, layer=2, num_digits=5)
    assert config.anchors["turns"] == [[tokenizer.convert_tokens_to_ids("<|assistant|>")]]
    assert (config.layer, config.num_digits) == (2, 5)
    assert config.anchors.keys() == {"turns", "ends"}


def test_given_anchors_win_and_need_no_chat_template():
    for template, fields in itertools.product((TURNS + HEADER, None), ({"turns": [[1]]}, {"prompt_end": True})):
        tokenizer = make_tokenizer(template)
        ends = {"ends": turn_ends(tokenizer)} if turn_ends(tokenizer) else {}
        assert IGCConfig.from_tokenizer(tokenizer, anchors=fields).anchors == fields | ends


def test_anchors_are_all_rules_in_one_list():
    tokenizer = make_tokenizer(None, "=", " =")
    for rules, end, turns, inline in (
        (["prompt_end"], True, None, None),
        (["=", "A:"], None, None, [["="], [" ="], ["A", ":"]]),
        (["prompt_end", "="], True, None, [["="], [" ="]]),
        ([[5, 6]], None, [[5, 6]], None),
        (["=", [5, 6], [7]], None, [[5, 6], [7]], [["="], [" ="]]),
        ((" =", [5, 6], "prompt_end"), True, [[5, 6]], [[" ="]]),
    ):
        config = IGCConfig.from_tokenizer(tokenizer, anchors=rules)
        ids = inline and [tokenizer.convert_tokens_to_ids(words) for words in inline]
        assert [config.anchors.get(name) for name in ("prompt_end", "turns", "inline")] == [end, turns, ids], rules


def test_anchors_that_are_no_rules_are_refused():
    for anchors, message in (
        ("=", r"`anchors='='` is not a list of rules. Pass one text as `\['='\]`"),
        ([[]], r"`turns=\[\[\]\]`, which is not a list of non-empty lists"),
        ([""], "The anchor rule '' is empty"),
        (["=", "?"], r"No tokens of .* end in the anchor rule '\?'"),
    ):
        with pytest.raises(ValueError, match=message):
            IGCConfig.from_tokenizer(make_tokenizer(TURNS + HEADER, "="), anchors=anchors)
