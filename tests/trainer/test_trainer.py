"""`IGCTrainer` and its collator: which row is supervised at which anchor, what is refused, what is logged and saved.

What training does to weights (accumulation, processes, checkpointing, resuming) is in `test_trainer_invariants.py`.
"""

import dataclasses
import re
from types import SimpleNamespace

import pytest
import torch
import transformers
from datasets import Dataset
from peft import LoraConfig, get_peft_model
from tiny_models import small_config, small_igc, tiny_model
from tiny_training import SPECIAL, WARNINGS, arguments, igc_model, rows, tokenizer, trainer
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast
from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

from peft_igc.data.columns import COLUMNS, UNSUPERVISED, check_columns, encode_steps
from peft_igc.data.dataset import to_dataset
from peft_igc.numbers.tokenizer_profile import TokenizerProfile
from peft_igc.text.values import Limits
from peft_igc.trainer.checks import refuse_sharded
from peft_igc.trainer.collator import IGCDataCollator
from peft_igc.trainer.config import IGCSFTConfig
from peft_igc.trainer.labels import CUT
from peft_igc.trainer.record import training_record
from peft_igc.trainer.trainer import BaselineTrainer, IGCTrainer
from peft_igc.tuner.config import IGCConfig


pytestmark = pytest.mark.filterwarnings(*WARNINGS)

LIMITS = {"num_digits": 4, "result_digits": 4}
NO_COLUMNS = dict.fromkeys(COLUMNS)


def collator(**config):
    return IGCDataCollator(pad_token_id=0, igc_config=small_config(**config), tokenizer=tokenizer())


def example(prompt, answer, *more, **columns):
    """A tokenized row: unlabelled and labelled text in turn."""
    ids, labels = [], []
    for index, text in enumerate((prompt, answer, *more)):
        part = tokenizer()(text)["input_ids"]
        ids += part
        labels += part if index % 2 else [-100] * len(part)
    return {"input_ids": ids, "labels": labels, **columns}


def add(a, b, result=None):
    return {"igc_operator": "+", "igc_operands": [a, b], "igc_result": result}


def first_batch(made):
    """The first batch as the training loop gets it, behind both column filters."""
    return next(iter(made.get_train_dataloader()))


# ------------------------------------------------------------------------------------------ collator
def test_a_batch_is_trls_own_with_the_operands_as_tensors():
    examples = [example("12+3=", "15", **add("12", "3", "15")), example("7-9=", "-2", igc_operator="none")]
    plain = DataCollatorForLanguageModeling(pad_token_id=0)([dict(e) for e in examples])
    batch = collator()(examples)
    for name, tensor in plain.items():
        assert torch.equal(batch[name], tensor)
    steps = [check_columns(e, Limits(4, 4)) for e in examples]
    expected = encode_steps(steps, **LIMITS, operations=["+", "-", "*", "/"])
    for name, tensor in expected.items():
        assert torch.equal(batch[name], tensor)
    assert batch["igc_anchors"].tolist() == [[4], [3]]  # the tokens "="
    assert set(batch) == {*plain, *expected, "igc_anchors"}


EQUALS = tokenizer()("=")["input_ids"]
TURNS, INLINE = {"turns": [EQUALS]}, {"prompt_end": True, "inline": [EQUALS]}
U = UNSUPERVISED


def several(*steps):
    """Columns with a list entry per step; None: an unknown one."""
    columns = [step if isinstance(step, dict) else {"igc_operator": step} for step in steps]
    return {name: [one.get(name) for one in columns] for name in COLUMNS}


SUPERVISED = {
    "rows without columns keep their anchors": (
        None, [example("1+1=", "2"), example("hello", " you", **NO_COLUMNS)], [[3], [4]], [[U], [U]]
    ),
    "a list has a step per labelled stretch": (
        None,
        [
            example("1+2=", "3", " hi", " you", " bye", " now", **several(add("1", "2", "3"), None, "none")),
            example("1", "2"),
        ],
        [[3, 7, 15], [0, -1, -1]],
        [[0, U, 4], [U] * 3],
    ),
    "configured sequences are the only anchors": (
        TURNS, [example("1+2= ", "3", **add("1", "2")), example("a", "b")], [[3], [-1]], [[0], [U]]
    ),
    "columns of one calculation describe the turn, and signs within texts are unknown": (
        INLINE,
        [example("What is 12+3? ", "12+3=15", **add("12", "3")), example("1+1? ", "2", **add("1", "1"))],
        [[13, 18], [4, -1]],
        [[0, U], [0, U]],
    ),
    "a list with an entry per turn leaves signs within texts unknown": (
        INLINE,
        [example("1+2? ", "1+2=3", " 5-4? ", "as 5-4=1", **several(add("1", "2"), add("5", "4")))],
        [[4, 8, 15, 22]],
        [[0, U, 0, U]],
    ),
    "a prompt that ends in a sign within texts is a turn all the same": (
        INLINE, [example("1+2=", "3, as 1+2=3", **add("1", "2"))], [[3, 13]], [[0, U]]
    ),
    "a list has a step per anchor within texts too": (
        INLINE,
        [example("How many? ", "12+3=15, 15+2=17", **several(None, add("12", "3", "15"), add("15", "2")))],
        [[9, 14, 23]],
        [[U, 0, 0]],
    ),
    "unsupervised rows may have any number of anchors": (
        None,
        [example("a", "b", "c", "d", "e", "f", **several(None, None)), example("", "all labelled", **NO_COLUMNS)],
        [[0, 2, 4], [-1] * 3],
        [[U] * 3] * 2,
    ),
    "steps that truncation took are not supervised": (
        None,
        [
            example("1+2=", "3", "4+5=", "9", **several(add("1", "2"), add("4", "5")), **{CUT: lost})
            for lost in (0, 1, 2)
        ],
        [[3, 8]] * 3,
        [[0, 0], [0, U], [U, U]],
    ),
    "a row that was cut before its answer": (
        None, [{"input_ids": [5, 6, 7], "labels": [-100] * 3, **add("1", "2"), CUT: 1}], [[-1]], [[U]]
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SUPERVISED)
def test_a_step_is_supervised_at_its_anchor(case):
    anchors, examples, expected, operators = SUPERVISED[case]
    batch = collator(anchors=anchors)(examples)
    assert batch["igc_anchors"].tolist() == expected
    assert batch["igc_operator"].tolist() == operators


@pytest.mark.parametrize(("context", "goes"), [("row", True), ("since_last_anchor", False), (9, False), (40, True)])
def test_an_operand_that_stands_farther_back_than_is_read_is_refused(context, goes):
    table = TokenizerProfile.from_tokenizer(tokenizer()).table.to_json()
    config = IGCConfig(
        interface="tokens",
        number_tokens=table,
        anchors={"prompt_end": True, "inline": [EQUALS]},
        reading_context=context,
        num_digits=4,
    )
    made = IGCDataCollator(pad_token_id=0, igc_config=config, tokenizer=tokenizer())
    columns = {"igc_operator": ["+", "*"], "igc_operands": [["12", "3"], ["12", "2"]]}
    row = example("2 12+3=", "15", " so twice that =", "30", **columns, igc_result=[None, None])
    if goes:
        assert made([row])["igc_operator"].tolist() == [[0, 2]]
    else:
        with pytest.raises(ValueError, match=f"farther back than `reading_context={context!r}` goes"):
            made([row])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (example("1+2=", "3", "4+5=", "9", **add("1", "2")), r"row '1\+2=': the row has 2 anchors, but .* one calc"),
        (example("1+2=", "3", **several(add("1", "2"), add("1", "2"))), "has 1 anchor, .* 2 entries"),
        (example("", "1+2=3", **add("1", "2")), "no labelled token follows .* `prompt` and `completion` columns"),
        (example("1+2=", "3", **add(1.5, 2)), r"row '1\+2=': `igc_operands` holds 1.5 of type `float`"),
        (example("1+2=", "3", **add("1", "2", "4")), r"row '1\+2=': `igc_result` '4' contradicts"),
        (example("x" * 200 + "1+2=", "3", **add("1", "2", "4")), r"row 'x{39} \.\.\. x{70}.*1\+2='"),
    ],
)
def test_a_faulty_row_is_named_by_its_text(row, message):
    with pytest.raises((TypeError, ValueError), match=message):
        collator()([example("1+2=", "3", **add("1", "2")), row])


def test_a_supervised_row_without_the_configured_sequence_is_refused():
    many = [[9, 9, n] for n in range(5, 15)]
    with pytest.raises(ValueError, match=r"none of the token sequences \[.*\[9, 9, 12\]\] and 2 more occurs in it"):
        collator(anchors={"inline": many})([example("1+2=", "3", **add("1", "2"))])


def test_a_collator_needs_the_adapters_config_and_refuses_to_join_rows():
    with pytest.raises(ValueError, match="`igc_config=None` leaves the length of the numbers unknown"):
        IGCDataCollator(pad_token_id=0)
    with pytest.raises(ValueError, match="Set `padding_free=False`"):
        IGCDataCollator(pad_token_id=0, padding_free=True, igc_config=small_config())


# ------------------------------------------------------------------------------------------ columns through TRL
def _chat(row):
    turns = [("user", row["prompt"]), ("assistant", row["completion"])]
    return [{"role": role, "content": content} for role, content in turns]


def _operands(row):
    return {name: row[name] for name in COLUMNS}


FORMATS = {
    "prompt and completion": (lambda row: row, {}),
    "prompt and completion as messages": (
        lambda row: {"prompt": _chat(row)[:1], "completion": _chat(row)[1:], **_operands(row)},
        {},
    ),
    "messages": (lambda row: {"messages": _chat(row), **_operands(row)}, {"assistant_only_loss": True}),
    "text": (lambda row: {"text": row["prompt"] + row["completion"], **_operands(row)}, {"igc": "="}),
    "tokens": (lambda row: example(row["prompt"], row["completion"], **_operands(row)), {}),
}


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("name", FORMATS)
def test_operand_columns_survive_every_format(tmp_path, name, streaming):
    convert, options = FORMATS[name]
    sequence = options.get("igc")
    anchors = None if sequence is None else {"turns": [tokenizer()(sequence)["input_ids"]]}
    options = {key: value for key, value in options.items() if key != "igc"}
    data = [convert(row) for row in rows(6, unsupervised=(1,))]
    data = Dataset.from_list(data).to_iterable_dataset() if streaming else Dataset.from_list(data)
    model = igc_model(anchors=anchors)
    made = trainer(tmp_path, data, model, per_device_train_batch_size=6, **options)
    batch = first_batch(made)
    assert (batch["igc_operator"] == 0).sum() == 5
    assert (batch["igc_operator"] == UNSUPERVISED).sum() == 1
    at = batch["input_ids"].gather(1, batch["igc_anchors"])
    anchor = "<assistant>" if "messages" in name else "="
    assert tokenizer().decode(at.flatten()) == anchor * 6


def test_operand_columns_survive_in_every_eval_set_and_in_sets_given_later(tmp_path):
    sets = {"a": to_dataset(rows(4, 1)), "b": to_dataset(rows(3, 2))}
    made = trainer(tmp_path, eval_dataset=sets)
    for name, count in (("a", 4), ("b", 3)):
        batch = next(iter(made.get_eval_dataloader(name)))
        assert (batch["igc_operator"] == 0).sum() == count
    later = made.evaluate(to_dataset(rows(4, 1)))
    assert later["eval_igc/loss_read"] == pytest.approx(made.evaluate()["eval_a_igc/loss_read"])


# ------------------------------------------------------------------------------------------ faulty data
def test_a_faulty_row_is_found_before_training_and_named_by_its_index(tmp_path):
    data = rows(8)
    data[5]["igc_result"] = "1"
    with pytest.raises(ValueError, match="train dataset, row 5: `igc_result` '1' contradicts"):
        trainer(tmp_path, data)
    with pytest.raises(ValueError, match="eval dataset, row 5: `igc_result` '1' contradicts"):
        trainer(tmp_path, eval_dataset=to_dataset(data))
    with pytest.raises(ValueError, match="held-out dataset, row 5: `igc_result` '1' contradicts"):
        trainer(tmp_path, eval_dataset={"held-out": to_dataset(data)})


def test_a_faulty_row_of_a_stream_is_named_by_its_index(tmp_path):
    data = rows(8)
    data[5]["igc_operands"] = ["12345", "1"]
    data[5]["igc_result"] = "12346"
    made = trainer(tmp_path, to_dataset(data).to_iterable_dataset())
    with pytest.raises(ValueError, match="train dataset, row 5: the operand 12345 has 5 digits, but `num_digits=4`"):
        made.train()


def test_supervised_text_without_an_anchor_is_refused_with_the_cure(tmp_path):
    data = Dataset.from_list([{"text": "1+2=3", **add("1", "2", "3")}])
    with pytest.raises(ValueError, match=r"row 0: .* no anchor.* `IGCConfig.from_tokenizer\(...\)`"):
        trainer(tmp_path, data)


def _conversation(*turns, operators, operands):
    roles = ("user", "assistant") * len(turns)
    messages = [{"role": role, "content": turn} for role, turn in zip(roles, turns, strict=False)]
    columns = {"igc_operator": operators, "igc_operands": operands, "igc_result": [None] * len(operators)}
    return Dataset.from_list([{"messages": messages, **columns}])


def test_operands_behind_their_anchor_are_refused(tmp_path):
    turns = ("hello", "hi", "12+30=", "42")
    shifted = _conversation(*turns, operators=["+", None], operands=[["12", "30"], None])
    with pytest.raises(ValueError, match=r"row 0: the operands 12 and 30 follow their anchor \(token 7\)"):
        trainer(tmp_path, shifted, assistant_only_loss=True)
    right = _conversation(*turns, operators=[None, "+"], operands=[None, ["12", "30"]])
    trainer(tmp_path, right, assistant_only_loss=True)
    in_words = _conversation("twelve and thirty?", "42", "and 13+30?", "43", operators=["+"] * 2, operands=[
        ["12", "30"], ["13", "30"]
    ])  # fmt: skip
    trainer(tmp_path, in_words, assistant_only_loss=True)


# ------------------------------------------------------------------------------------------ truncation
def test_turns_that_are_cut_off_are_not_supervised_and_those_before_are(tmp_path, caplog):
    turns = ("1+2=", "3", "4+5=", "9")
    data = _conversation(*turns, operators=["+", "+"], operands=[["1", "2"], ["4", "5"]])
    made = trainer(tmp_path, data, assistant_only_loss=True, max_length=12, max_steps=1)
    assert "cuts 1 of 1 rows" in caplog.text
    assert first_batch(made)["igc_operator"].tolist() == [[0, UNSUPERVISED]]


def test_columns_of_turns_stay_with_the_turns_whatever_is_cut(tmp_path):
    data = [{"prompt": "What is 12+3? ", "completion": "12+3=15", **add("12", "3")}]
    for length in (None, 20):  # the sign within the answer is token 18
        made = trainer(tmp_path, data, igc_model(anchors=INLINE), max_length=length)
        assert first_batch(made)["igc_operator"].tolist() == [[0, UNSUPERVISED]]


def test_a_cut_answer_leaves_the_supervision_as_it_is(tmp_path):
    data = [{**row, "completion": row["completion"] + " indeed"} for row in rows(3, digits=1)]
    made = trainer(tmp_path, data, max_length=7)
    assert first_batch(made)["igc_operator"].flatten().tolist() == [0, 0, 0]


def with_long_prompts(n, long, length=40):
    """Rows of which the first `long` have a prompt of more than `length` tokens."""
    words = "a " * (length // 2)
    return [row | {"prompt": words * (index < long) + row["prompt"]} for index, row in enumerate(rows(n))]


@pytest.mark.filterwarnings("ignore:The `'keep_end'` truncation mode is deprecated:FutureWarning")
@pytest.mark.parametrize("mode", ["keep_start", "keep_end"])
def test_rows_that_are_all_cut_are_refused_with_the_length_that_would_do(tmp_path, mode):
    data = with_long_prompts(6, 6)
    with pytest.raises(ValueError, match="`max_length=12` cuts all 6 rows with operands of the train") as refused:
        trainer(tmp_path, data, max_length=12, truncation_mode=mode)
    enough = int(re.search(r"Set `max_length=(\d+)`", str(refused.value))[1])
    made = trainer(tmp_path, data, max_length=enough, truncation_mode=mode)
    assert len(made.train_dataset) == 6
    with pytest.raises(ValueError, match="cuts all 6 rows"):
        trainer(tmp_path, data, max_length=enough - 40, truncation_mode=mode)
    # Rows that are not supervised do not count: without the others nothing is learned.
    with pytest.raises(ValueError, match="cuts all 6 rows"):
        trainer(tmp_path, data + rows(3, unsupervised=(0, 1, 2)), max_length=12, truncation_mode=mode)


def test_a_part_of_the_rows_that_is_cut_is_told_with_its_share_and_the_length_that_would_do(tmp_path, caplog):
    trainer(tmp_path, with_long_prompts(8, 2), max_length=12)
    assert "`max_length=12` cuts 2 of 8 rows of the train dataset" in caplog.text
    assert "These are 25.0% of its rows" in caplog.text
    enough = int(re.search(r"`max_length=(\d+)` would do", caplog.text)[1])
    caplog.clear()
    trainer(tmp_path, with_long_prompts(8, 2), max_length=enough)
    assert "cuts" not in caplog.text


def test_a_length_that_may_not_have_been_given_is_called_the_default(tmp_path):
    with pytest.raises(ValueError, match="`max_length=1024`, the default, cuts all 2 rows"):
        trainer(tmp_path, with_long_prompts(2, 2, length=1030), max_length=1024)


def test_a_stream_tells_of_cut_rows_when_it_meets_the_first(tmp_path, caplog):
    data = [{**row, "prompt": "x" * 20 + row["prompt"]} if i == 5 else row for i, row in enumerate(rows(8))]
    made = trainer(tmp_path, to_dataset(data).to_iterable_dataset(), max_length=11)
    assert "cuts" not in caplog.text
    made.train()
    assert caplog.text.count("`max_length=11` cuts rows of the train dataset") == 1


LENGTH = 18


def _like_gpt2():
    """A tokenizer with tokens for some numbers of two digits and not for others, so that answers are respelled."""
    pairs = ["12", "34", "56", "78", "90", "07", "99"]
    vocabulary = {token: i for i, token in enumerate([*SPECIAL, *map(chr, range(32, 127)), *pairs])}
    made = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.BPE(vocabulary, [tuple(pair) for pair in pairs])),
        pad_token="<pad>",
        bos_token="<bos>",
        eos_token="<eos>",
    )
    made.backend_tokenizer.decoder = decoders.Fuse()
    return made


@pytest.mark.parametrize("kind", ["list", "stream", "without operands"])
def test_results_are_respelled_before_rows_are_cut_so_that_the_length_holds(tmp_path, kind):
    tokens = _like_gpt2()
    fields = small_igc(interface="tokens", num_digits=12)
    del fields["number_tokens"]
    config = IGCConfig.from_tokenizer(tokens, anchors=["prompt_end"], **fields)
    assert config.token_table.group == 1
    sums = [(7, 1), (123456789011, 1), (1, 563456789011)]
    data = [{"prompt": f"{a}+{b}=", "completion": str(a + b), **add(str(a), str(b))} for a, b in sums]
    if kind == "without operands":
        data = [{key: row[key] for key in ("prompt", "completion")} for row in data]
    lengths = [len(tokens(row["prompt"] + row["completion"])["input_ids"]) + 1 for row in data]
    assert max(lengths) <= LENGTH  # nothing would be cut before the answers are respelled
    made = IGCTrainer(
        model=get_peft_model(tiny_model("llama"), config),
        args=arguments(tmp_path, max_length=LENGTH, max_steps=1),
        train_dataset=to_dataset(data).to_iterable_dataset() if kind == "stream" else to_dataset(data),
        processing_class=tokens,
    )
    batch = first_batch(made)
    assert batch["input_ids"].shape == (3, LENGTH)
    labels = [[token for token in row if token != -100] for row in batch["labels"].tolist()]
    assert sorted(tokens.convert_ids_to_tokens(row) for row in labels) == [
        [*"12345678"],
        [*"56345678"],
        ["8", "<eos>"],
    ]
    made.train()


# ------------------------------------------------------------------------------------------ refusals and warnings
@pytest.mark.parametrize("option", ["packing", "eval_packing", "padding_free"])
def test_options_that_join_texts_are_refused_with_a_calculator(tmp_path, option):
    message = rf"`{option}=True` puts several texts into one row .* Set `{option}=False`"
    with pytest.raises(ValueError, match=message):
        trainer(tmp_path, **{option: True})
    with pytest.raises(ValueError, match=message):
        trainer(tmp_path, model=tiny_model("llama"), peft_config=small_config(), **{option: True})


@pytest.mark.parametrize("name", ["cp_enabled", "sp_enabled"])
def test_options_that_split_texts_are_refused_with_a_calculator(name):
    parallelism = SimpleNamespace(**{"cp_enabled": False, "sp_enabled": False, name: True})
    made = SimpleNamespace(accelerator=SimpleNamespace(parallelism_config=parallelism))
    with pytest.raises(ValueError, match="splits a text over processes"):
        refuse_sharded(made)


def test_a_negative_weight_of_the_reading_loss_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"`igc_loss_weight=-1\.0` is negative"):
        arguments(tmp_path, igc_loss_weight=-1.0)


def test_operand_columns_without_a_calculator_are_ignored_with_a_warning(tmp_path, caplog):
    lora = get_peft_model(tiny_model("llama"), LoraConfig(target_modules=["q_proj"]))
    made = trainer(tmp_path, model=lora, cls=BaselineTrainer)
    assert "has no IGC adapter, so the operand columns of the dataset are not used" in caplog.text
    made.train()
    assert not [key for log in made.state.log_history for key in log if key.startswith("igc/")]
    assert "igc" not in made.model.base_model.model.model_tags


def test_a_model_without_a_calculator_is_refused_with_the_way_to_attach_one(tmp_path):
    lora = LoraConfig(target_modules=["q_proj"])
    message = r"no IGC adapter.*`get_peft_model\(model, IGCConfig\(...\)\)`, or pass `peft_config=IGCConfig\(...\)`"
    for model, more in (
        (tiny_model("llama"), {}),
        (tiny_model("llama"), {"peft_config": lora}),
        (get_peft_model(tiny_model("llama"), lora), {}),
    ):
        with pytest.raises(ValueError, match=message):
            trainer(tmp_path, model=model, **more)
    tiny_model("llama").save_pretrained(tmp_path / "base")
    tokenizer().save_pretrained(tmp_path / "base")
    with pytest.raises(ValueError, match=message):
        trainer(tmp_path, model=str(tmp_path / "base"))
    made = trainer(tmp_path, model=str(tmp_path / "base"), peft_config=small_config(init_weights=True))
    made.train()


def test_a_calculator_that_is_switched_off_is_refused(tmp_path):
    model = igc_model()
    model.base_model.disable_adapter_layers()
    with pytest.raises(ValueError, match="IGC adapter is not active"):
        trainer(tmp_path, model=model)


def test_a_calculator_without_operand_columns_is_trained_with_a_warning(tmp_path, caplog):
    data = [{"prompt": r["prompt"], "completion": r["completion"]} for r in rows(8)]
    made = trainer(tmp_path, Dataset.from_list(data))
    assert "has no column `igc_operator`, so the reading is not trained" in caplog.text
    made.train()
    assert not [key for log in made.state.log_history for key in log if key.startswith("igc/")]


def test_a_collator_of_ones_own_is_kept_and_warned_about(tmp_path, caplog):
    class Own(DataCollatorForLanguageModeling):
        pass

    own = Own(pad_token_id=0)
    made = IGCTrainer(igc_model(), arguments(tmp_path), own, to_dataset(rows(4)), processing_class=tokenizer())
    assert made.data_collator is own
    assert "The operand columns are passed to `Own`" in caplog.text


# ------------------------------------------------------------------------------------------ losses and metrics
def test_logged_metrics_are_those_of_the_models_own_output(tmp_path):
    model = igc_model(init_weights=False)
    made = trainer(
        tmp_path, rows(8, unsupervised=(2, 3, 4)), model, eval_dataset=to_dataset(rows(8, unsupervised=(2,)))
    )
    batch = first_batch(made)
    model.eval()
    with torch.no_grad():
        outputs = [model(**made.data_collator([dict(row)])) for row in made.eval_dataset]
    loss, count, correct = (sum(getattr(o, f"igc_{k}").item() for o in outputs) for k in ("loss", "count", "correct"))
    metrics = made.evaluate()
    assert count == 7
    assert metrics["eval_igc/loss_read"] == pytest.approx(loss / 7, rel=1e-5)
    assert metrics["eval_igc/read_accuracy"] == pytest.approx(correct / 7)
    assert 0 < metrics["eval_igc/gate_mean"] < 1
    assert "igc_operator" in batch


def test_accuracy_is_exact_over_unequal_batches(tmp_path):
    # one batch holds seven supervised rows, the other one: a mean of means would weigh that row seven times
    data = to_dataset(rows(16, unsupervised=tuple(range(9, 16)) + (0,)))
    made = trainer(tmp_path, eval_dataset=data, per_device_eval_batch_size=8)
    whole = trainer(tmp_path, eval_dataset=data, per_device_eval_batch_size=16)
    key = "eval_igc/loss_read"
    assert made.evaluate()[key] == pytest.approx(whole.evaluate()[key], rel=1e-6)


def test_metrics_of_the_reading_are_logged_only_where_a_step_was_supervised(tmp_path):
    made = trainer(
        tmp_path, rows(8, unsupervised=tuple(range(4, 8))), max_steps=2, train_sampling_strategy="sequential"
    )
    made.train()
    first, second = made.state.log_history[:2]
    names = {"igc/loss_read", "igc/read_accuracy", "igc/gate_mean"}
    assert names <= set(first)
    assert not names & set(second)


def test_the_weight_scales_the_reading_loss_alone(tmp_path):
    losses = {}
    for weight in (0.0, 1.0, 3.0):
        made = trainer(tmp_path, eval_dataset=to_dataset(rows(8)), igc_loss_weight=weight)
        metrics = made.evaluate()
        losses[weight] = metrics["eval_loss"]
    assert losses[1.0] - losses[0.0] == pytest.approx(metrics["eval_igc/loss_read"], rel=1e-5)
    assert losses[3.0] - losses[0.0] == pytest.approx(3 * metrics["eval_igc/loss_read"], rel=1e-5)


@pytest.mark.parametrize("way", ["label_smoothing", "compute_loss_func"])
@pytest.mark.filterwarnings("ignore:.*will be removed in v2:FutureWarning")
def test_the_reading_learns_on_trls_deprecated_ways_too(tmp_path, way):
    def plain(outputs, labels, num_items_in_batch=None):
        logits, labels = outputs.logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
        return torch.nn.functional.cross_entropy(logits, labels, reduction="sum") / num_items_in_batch

    options = {"label_smoothing_factor": 0.1} if way == "label_smoothing" else {}
    made = IGCTrainer(
        igc_model(),
        arguments(tmp_path, **options),
        train_dataset=to_dataset(rows(8)),
        processing_class=tokenizer(),
        compute_loss_func=plain if way == "compute_loss_func" else None,
    )
    before = {n: p.detach().clone() for n, p in made.model.named_parameters() if "input_mapping" in n}
    made.train()
    after = dict(made.model.named_parameters())
    assert before
    assert all(not torch.equal(value, after[name]) for name, value in before.items())


def test_a_plain_trainer_adds_the_mean_reading_loss(tmp_path):
    model = igc_model()
    made = trainer(tmp_path, rows(4), model)
    args = transformers.TrainingArguments(str(tmp_path), use_cpu=True, remove_unused_columns=False, report_to="none")
    plain = transformers.Trainer(model, args, made.data_collator, made.train_dataset, made.train_dataset)
    batch = plain.data_collator([dict(row) for row in made.train_dataset])
    model.eval()
    with torch.no_grad():
        without = model(**{k: batch[k] for k in ("input_ids", "attention_mask", "labels")}).loss
        output = model(**batch)
    assert output.igc_count == 4
    assert plain.evaluate()["eval_loss"] == pytest.approx((without + output.igc_loss / 4).item(), rel=1e-5)
    plain.args.max_steps = 1
    assert plain.train().training_loss > without.item()


# ------------------------------------------------------------------------------------------ models and files
def test_default_arguments_and_those_of_other_trainers_do(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plain = transformers.TrainingArguments(str(tmp_path), use_cpu=True, max_steps=1, report_to="none")
    made = IGCTrainer(igc_model(), plain, train_dataset=to_dataset(rows(4)), processing_class=tokenizer())
    made.train()
    assert made.state.log_history[0]["igc/loss_read"] > 0


def test_no_default_of_trls_config_is_changed_and_new_ones_are_documented_as_they_are():
    from trl import SFTConfig

    ours, theirs = ({f.name: f for f in dataclasses.fields(c)} for c in (IGCSFTConfig, SFTConfig))
    assert all(ours[name].default == theirs[name].default for name in theirs)
    new = set(ours) - set(theirs)
    assert "igc_loss_weight" in new
    for name in new:
        default = ours[name].default
        said = "" if default is None else f", defaults to `{default}`"
        kind = type(default).__name__ if isinstance(default, int) else "dict" if name == "igc_writing" else "float"
        assert f"{name} (`{kind}`, *optional*{said}):" in IGCSFTConfig.__doc__


def quick_start(folder):
    """The first Python block of a card."""
    return (folder / "README.md").read_text().split("```python")[1].split("```")[0]


def test_the_card_keeps_trls_metadata_and_says_how_to_load(tmp_path):
    model = igc_model()
    model.base_model.model.config.name_or_path = "someone/base"
    trainer(tmp_path, model=model).create_model_card("adder", dataset_name="sums", tags="maths")
    text = (tmp_path / "README.md").read_text()
    for metadata in (
        "base_model: someone/base",
        "datasets:\n- sums",
        "- sft",
        "- igc",
        "- maths",
        "library_name: peft",
    ):
        assert metadata in text
    for words in ("licence: license", "pipeline(", "TRL", "More Information", "visualize"):
        assert words not in text
    block = quick_start(tmp_path)
    assert block.strip().startswith("import peft_igc")
    assert 'base = "someone/base"\n' in block
    assert 'PeftModel.from_pretrained(model, "adder")' in block


@pytest.mark.slow
def test_the_quick_start_of_a_card_runs(tmp_path, monkeypatch):
    base, out = tmp_path / "base", tmp_path / "adder"
    tiny_model("llama").save_pretrained(base)
    tokenizer().save_pretrained(base)
    made = trainer(out, model=transformers.AutoModelForCausalLM.from_pretrained(base), peft_config=small_config())
    made.save_model()
    made.create_model_card(str(out))
    assert str(base) not in (out / "README.md").read_text()
    monkeypatch.chdir(tmp_path)  # the card has the name of the base's folder, not its path
    exec(compile(quick_start(out), "card", "exec"), {})


def test_the_card_says_what_was_trained_and_measured(tmp_path):
    made = trainer(tmp_path, eval_dataset={"sums": to_dataset(rows(3)), "more": to_dataset(rows(2))})
    made.create_model_card("adder")
    assert "It has not been evaluated." in (tmp_path / "README.md").read_text()
    made.train()
    metrics = made.evaluate()
    for write in (made.create_model_card, made.save_model):
        write()
        text = (tmp_path / "README.md").read_text()
        assert text.count("## Training record") == text.count("## Quick start") == 1
        assert "Trained for 2 steps." in text
        assert "Data for training: 8 rows, 8 annotated." in text
        assert "Data for evaluation (sums): 3 rows, 3 annotated." in text
        assert "Evaluated after step 2:" in text
        for name in ("eval_sums_loss", "eval_more_loss", "eval_sums_igc/read_accuracy"):
            assert f"| `{name}` | {metrics[name]:.6g} |" in text
        assert "runtime" not in text
        assert f'PeftModel.from_pretrained(model, "{tmp_path.name}")' in text
    assert text.index("## Quick start") < text.index("## Training record")


def test_the_card_counts_annotated_rows_and_says_of_streams_what_is_known():
    several = Dataset.from_list([{"igc_operator": ["+", None]}, {"igc_operator": [None]}, {"igc_operator": None}])
    data = to_dataset(rows(3, unsupervised=(1,)))
    sets = {
        "3 rows, 2 annotated": data,
        "3 rows, 1 annotated": several,
        "1,000 rows, 0 annotated": Dataset.from_list([{"text": "x"}] * 1000),
        "a stream of rows with operand columns": data.to_iterable_dataset(),
        "a stream of rows without operand columns": Dataset.from_list([{"text": "x"}]).to_iterable_dataset(),
        "a stream of rows": iter([]),
        "2 rows": [1, 2],
    }
    text = training_record([], 1, None, {f"({said})": one for said, one in sets.items()})
    for said in sets:
        assert f"Data for ({said}): {said}.\n" in text


def test_the_config_of_the_active_adapter_counts(tmp_path):
    model = igc_model()
    model.add_adapter("wide", IGCConfig(**{**dataclasses.asdict(small_config()), "num_digits": 6}))
    model.set_adapter("wide")
    batch = first_batch(trainer(tmp_path, model=model))
    assert batch["igc_operands"].shape[-1] == 7
