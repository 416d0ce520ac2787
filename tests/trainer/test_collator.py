"""Rows become batches: which step is supervised at which anchor, what is refused, what truncation takes away."""

import re
from pathlib import Path

import pytest
import torch
from datasets import Dataset
from peft import get_peft_model
from tiny_models import small_config, small_igc, tiny_model
from tiny_training import SPECIAL, igc_model, rows, tokenizer, trainer
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast
from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

from peft_igc.data.columns import UNSUPERVISED, check_columns, encode_steps
from peft_igc.data.dataset import to_dataset
from peft_igc.data.files import read_rows
from peft_igc.text.values import Limits
from peft_igc.trainer import labels
from peft_igc.trainer.collator import IGCDataCollator
from peft_igc.tuner.config import IGCConfig


def collator(**config):
    return IGCDataCollator(pad_token_id=0, igc_config=small_config(**config), tokenizer=tokenizer())


def example(texts, **columns):
    """A tokenized row: unlabelled and labelled text in turn."""
    ids, labels = [], []
    for index, text in enumerate(texts):
        part = tokenizer()(text)["input_ids"]
        ids += part
        labels += part if index % 2 else [-100] * len(part)
    return {"input_ids": ids, "labels": labels, **columns}


def add(a, b, result=None):
    return {"igc_operator": "+", "igc_operands": [a, b], "igc_result": result}


def first_batch(made):
    """The first batch as the training loop gets it, after both column filters."""
    return next(iter(made.get_train_dataloader()))


def test_a_batch_is_trls_own_with_the_operands_as_tensors():
    examples = [example(["12+3=", "15"], **add("12", "3", "15")), example(["7-9=", "-2"], igc_operator="none")]
    plain = DataCollatorForLanguageModeling(pad_token_id=0)([dict(e) for e in examples])
    batch = collator()(examples)
    for name, tensor in plain.items():
        assert torch.equal(batch[name], tensor)
    steps = [check_columns(e, Limits(4, 4)) for e in examples]
    expected = encode_steps(steps, Limits(4, 4))
    for name, tensor in expected.items():
        assert torch.equal(batch[name], tensor)
    assert batch["igc_anchors"].tolist() == [[4], [3]]  # the tokens "="
    assert set(batch) == {*plain, *expected, "igc_anchors"}


EQUALS = tokenizer()("=")["input_ids"]
RULES = {"prompt_end": None, "turns": {"turns": [EQUALS]}, "inline": {"prompt_end": True, "inline": [EQUALS]}}
# Rows with the rules that find their anchors, and rows that are refused.
LINES = read_rows(Path(__file__).with_name("steps.jsonl"))


@pytest.mark.parametrize("line", [line for line in LINES if "rules" in line], ids=lambda line: line["name"])
def test_a_step_is_supervised_at_its_anchor(line):
    batch = collator(anchors=RULES[line["rules"]])([example(**row) for row in line["rows"]])
    assert batch["igc_anchors"].tolist() == line["anchors"]
    assert batch["igc_operator"].tolist() == line["operators"]


@pytest.mark.parametrize(("context", "goes"), [("row", True), ("since_last_anchor", False)])
def test_an_operand_that_stands_farther_back_than_is_read_is_refused(context, goes):
    config = IGCConfig.from_tokenizer(tokenizer(), anchors=RULES["inline"], reading_context=context, num_digits=4)
    made = IGCDataCollator(pad_token_id=0, igc_config=config, tokenizer=tokenizer())
    columns = {"igc_operator": ["+", "*"], "igc_operands": [["12", "3"], ["12", "2"]]}
    row = example(["2 12+3=", "15", " so twice that =", "30"], **columns, igc_result=[None, None])
    if goes:
        assert made([row])["igc_operator"].tolist() == [[0, 2]]
    else:
        with pytest.raises(ValueError, match=f"farther back than `reading_context={context!r}` goes"):
            made([row])


@pytest.mark.parametrize("line", [line for line in LINES if "message" in line], ids=lambda line: line["message"])
def test_a_faulty_row_is_named_by_its_text(line):
    with pytest.raises((TypeError, ValueError), match=line["message"]):
        collator()([example(["1+2=", "3"], **add("1", "2")), example(**line["row"])])


def test_a_supervised_row_without_the_configured_sequence_is_refused():
    many = [[9, 9, n] for n in range(5, 15)]
    with pytest.raises(ValueError, match=r"none of the 10 token sequences, such as \[9, 9, 5\]\. Write it as a"):
        collator(anchors={"inline": many})([example(["1+2=", "3"], **add("1", "2"))])


def test_a_collator_needs_the_adapters_config_and_refuses_to_join_rows():
    with pytest.raises(ValueError, match="`igc_config=None` leaves the length of the numbers unknown"):
        IGCDataCollator(pad_token_id=0)
    with pytest.raises(ValueError, match="Set `padding_free=False`"):
        IGCDataCollator(pad_token_id=0, padding_free=True, igc_config=small_config())


def test_a_faulty_row_is_found_before_training_and_named_by_its_index(tmp_path):
    data = rows(8)
    data[5]["igc_result"] = "1"
    with pytest.raises(ValueError, match="train dataset, row 5: `igc_result` '1' contradicts"):
        trainer(tmp_path, data)
    with pytest.raises(ValueError, match="eval dataset, row 5: `igc_result` '1' contradicts"):
        trainer(tmp_path, eval_dataset=to_dataset(data))
    with pytest.raises(ValueError, match="held-out dataset, row 5: `igc_result` '1' contradicts"):
        trainer(tmp_path, eval_dataset={"held-out": to_dataset(data)})
    data[5] |= {"igc_operands": ["12345", "1"], "igc_result": "12346"}  # in a stream while it trains
    made = trainer(tmp_path, to_dataset(data).to_iterable_dataset())
    with pytest.raises(ValueError, match="train dataset, row 5: the operand 12345 has 5 digits, but `num_digits=4`"):
        made.train()


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


def test_turns_that_are_cut_off_are_not_supervised_and_those_before_are(tmp_path, caplog):
    turns = ("1+2=", "3", "4+5=", "9")
    data = _conversation(*turns, operators=["+", "+"], operands=[["1", "2"], ["4", "5"]])
    made = trainer(tmp_path, data, assistant_only_loss=True, max_length=12, max_steps=1)
    assert "cuts 1 of 1 rows" in caplog.text
    assert first_batch(made)["igc_operator"].tolist() == [[0]]


def test_columns_of_turns_stay_with_the_turns_whatever_is_cut(tmp_path):
    data = [{"prompt": "What is 12+3? ", "completion": "12+3=15", **add("12", "3")}]
    for length in (None, 20):  # the sign within the answer is token 18
        made = trainer(tmp_path, data, igc_model(anchors=RULES["inline"]), max_length=length)
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


def test_a_stream_tells_of_cut_rows_when_it_meets_the_first(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(labels, "_told", set())
    data = [{**row, "prompt": "x" * 20 + row["prompt"]} if i == 5 else row for i, row in enumerate(rows(8))]
    made = trainer(tmp_path, to_dataset(data).to_iterable_dataset(), max_length=11)
    assert "cuts" not in caplog.text
    made.train()
    assert caplog.text.count("`max_length=11` cuts some rows of the train dataset") == 1


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
    data = to_dataset(data).to_iterable_dataset() if kind == "stream" else data
    options = {"max_length": LENGTH, "max_steps": 1, "processing_class": tokens}
    made = trainer(tmp_path, data, get_peft_model(tiny_model("llama"), config), **options)
    batch = first_batch(made)
    assert batch["input_ids"].shape == (3, LENGTH)
    labels = [[token for token in row if token != -100] for row in batch["labels"].tolist()]
    assert sorted(tokens.convert_ids_to_tokens(row) for row in labels) == [
        [*"12345678"],
        [*"56345678"],
        ["8", "<eos>"],
    ]
    made.train()
