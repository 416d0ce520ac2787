"""Promises of `evaluation`: answers are the model's own greedy ones, whatever the batch, and every item is counted."""

import copy
import json
import sys
from types import SimpleNamespace

import pytest
import torch
from peft import LoraConfig, get_peft_model
from tiny_models import small_config, tiny_model
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
from torch import nn
from transformers import PreTrainedTokenizerFast

from peft_igc import IGCModel
from peft_igc.demo.report import accuracy_table
from peft_igc.inference.evaluation import evaluate, generate_answers, versions
from peft_igc.numbers.calculator import Result
from peft_igc.tuner.call import thread
from peft_igc.tuner.steps import Step


TEMPLATE = (
    "{% for m in messages %}<|user|>{{ m['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SPECIAL = ("<|pad|>", "<|end|>", "<|user|>", "<|assistant|>", "<|begin|>")
PROMPTS = ["a", "What is 12 plus 7?", "", "Repeat 4711.", "3*4=", "What is 12345 times 54321, my dear friend?"]


def byte_tokenizer(pad=True, template=TEMPLATE):
    """One token per byte behind the special ones."""
    vocabulary = {token: index for index, token in enumerate([*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet())])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    pads = {"pad_token": "<|pad|>"} if pad else {}
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|end|>", chat_template=template, padding_side="right", **pads
    )


@pytest.fixture
def tokenizer():
    return byte_tokenizer()


@pytest.fixture
def llama():
    return tiny_model("llama", vocab_size=272)


class Scripted(nn.Module):
    """Answers each prompt with what `answers` says, as a model would: tokens, then the end, then padding."""

    def __init__(self, tokenizer, answers):
        super().__init__()
        self.dropout = nn.Dropout()
        self.frozen = nn.Dropout().eval()
        self.tokenizer, self.answers = tokenizer, answers
        self.config = SimpleNamespace(get_text_config=lambda: SimpleNamespace(max_position_embeddings=200))
        self.generation_config = SimpleNamespace(eos_token_id=1)
        self.device = torch.device("cpu")
        self.batches = []
        self.seen = []
        self.modes = []

    def generate(self, input_ids, attention_mask, generation_config):
        self.batches.append(len(input_ids))
        self.modes.append([module.training for module in self.modules()])
        new = []
        for row, mask in zip(input_ids, attention_mask, strict=True):
            text = self.tokenizer.decode(row[mask.bool()])
            self.seen.append(text)
            prompt = text.removeprefix("<|user|>").removesuffix("<|end|><|assistant|>")
            answer = [*self.tokenizer(self.answers[prompt])["input_ids"], 1][: generation_config.max_new_tokens]
            new.append(answer + [0] * (generation_config.max_new_tokens - len(answer)))
        return SimpleNamespace(sequences=torch.cat([input_ids, torch.tensor(new)], -1))


def greedy_by_hand(model, tokenizer, prompt, n):
    """Arg max, one token at a time, without padding, cache or `generate`; IGC calculates at the end of the prompt."""
    ids = tokenizer(f"<|user|>{prompt}<|end|><|assistant|>", return_tensors="pt")["input_ids"]
    start = ids.shape[-1]
    igc = (
        {"igc_anchors": torch.tensor([[start - 1]])}
        if isinstance(getattr(model, "base_model", None), IGCModel)
        else {}
    )
    for _ in range(n):
        token = model(input_ids=ids, **igc).logits[:, -1:].argmax(-1)
        if token == tokenizer.eos_token_id:
            break
        ids = torch.cat([ids, token], -1)
    return tokenizer.decode(ids[0, start:], skip_special_tokens=True)


@torch.no_grad()
@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_answers_in_left_padded_batches_are_the_greedy_ones_in_the_order_of_the_prompts(llama, tokenizer, batch_size):
    answers = generate_answers(llama, tokenizer, PROMPTS, batch_size=batch_size, max_new_tokens=6)
    assert answers == [greedy_by_hand(llama, tokenizer, prompt, 6) for prompt in PROMPTS]
    assert len(set(answers)) > 1


@torch.no_grad()
def test_defaults_of_the_checkpoint_do_not_bend_the_answers(llama, tokenizer):
    plain = [greedy_by_hand(llama, tokenizer, prompt, 12) for prompt in PROMPTS]
    llama.generation_config.update(
        repetition_penalty=5.0, no_repeat_ngram_size=1, do_sample=True, temperature=3.0, num_beams=2, min_length=60
    )
    before = copy.deepcopy(llama.generation_config)
    assert generate_answers(llama, tokenizer, PROMPTS, max_new_tokens=12) == plain
    assert llama.generation_config == before


@torch.no_grad()
def test_an_answer_ends_before_any_end_token_of_the_model_even_an_ordinary_one(llama, tokenizer):
    plain = generate_answers(llama, tokenizer, PROMPTS, max_new_tokens=12)
    end = next(character for character in plain[1][2:] if character.isascii())
    llama.generation_config.eos_token_id = [1, *tokenizer(end)["input_ids"]]
    answers = generate_answers(llama, tokenizer, PROMPTS, max_new_tokens=12)
    assert answers == [answer.split(end)[0] for answer in plain]
    assert answers != plain


@torch.no_grad()
def test_raw_prompts_are_tokenized_as_they_stand(llama):
    tokenizer = byte_tokenizer(template=None)
    prompts = [f"<|user|>{prompt}<|end|><|assistant|>" for prompt in PROMPTS]
    assert generate_answers(llama, tokenizer, prompts, raw=True, max_new_tokens=5) == generate_answers(
        llama, byte_tokenizer(), PROMPTS, max_new_tokens=5
    )


@torch.no_grad()
@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")  # PEFT 0.21.2
@pytest.mark.parametrize("config", [small_config(), LoraConfig(init_lora_weights=False)])
def test_a_peft_model_answers_like_its_own_forward(llama, tokenizer, config):
    model = get_peft_model(llama, config).eval()
    answers = generate_answers(model, tokenizer, PROMPTS, max_new_tokens=5, batch_size=4)
    assert answers == [greedy_by_hand(model, tokenizer, prompt, 5) for prompt in PROMPTS]


def test_special_tokens_are_added_by_the_template_or_by_the_tokenizer_but_never_by_both():
    tokenizer = byte_tokenizer(template="<|begin|>" + TEMPLATE)
    begin = [("<|begin|>", tokenizer.convert_tokens_to_ids("<|begin|>"))]
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<|begin|> $A", special_tokens=begin
    )
    model = Scripted(tokenizer, {"<|begin|><|user|>a": "b", "<|begin|>a": "b"})
    generate_answers(model, tokenizer, ["a"])
    generate_answers(model, tokenizer, ["a"], raw=True)
    assert model.seen == ["<|begin|><|user|>a<|end|><|assistant|>", "<|begin|>a"]


@pytest.mark.parametrize("pad", [True, False])
def test_the_tokenizer_is_left_as_it_was_even_without_a_padding_token(llama, tmp_path, pad):
    tokenizer = byte_tokenizer(pad)
    tokenizer.save_pretrained(tmp_path / "before")
    answers = generate_answers(llama, tokenizer, PROMPTS, max_new_tokens=3)
    tokenizer.save_pretrained(tmp_path / "after")
    for file in (tmp_path / "before").iterdir():
        assert file.read_bytes() == (tmp_path / "after" / file.name).read_bytes()
    assert answers == generate_answers(llama, byte_tokenizer(), PROMPTS, max_new_tokens=3)


def test_the_model_answers_in_eval_mode_and_every_part_returns_to_its_own_mode(tokenizer):
    model = Scripted(tokenizer, {"a": "b"}).train()
    model.frozen.eval()
    generate_answers(model, tokenizer, ["a"])
    assert model.modes == [[False, False, False]]
    assert [module.training for module in model.modules()] == [True, True, False]


def test_the_mode_returns_also_after_an_error(tokenizer):
    model = Scripted(tokenizer, {}).train()
    with pytest.raises(KeyError):
        generate_answers(model, tokenizer, ["a"])
    assert model.training


def test_prompts_of_similar_length_share_a_batch_and_progress_is_told(tokenizer):
    lengths = [3, 40, 5, 41, 4, 42, 6]
    model = Scripted(tokenizer, {"x" * n: str(n) for n in lengths})
    told = []
    answers = generate_answers(
        model, tokenizer, ["x" * n for n in lengths], batch_size=3, progress=lambda done, n: told.append((done, n))
    )
    assert answers == [str(n) for n in lengths]
    assert model.batches == [3, 3, 1]
    assert told == [(3, 7), (6, 7), (7, 7)]
    assert [text.count("x") for text in model.seen] == sorted(lengths, reverse=True)


def test_no_prompts_give_no_answers(llama, tokenizer):
    assert generate_answers(llama, tokenizer, []) == []


def report(tokenizer, **more):
    answers = {"1+1": "2", "2*3": " 6\n", "9-1": "80", "hi": "hello, hello", "7/7": "1"}
    items = [
        {"prompt": "1+1", "target": "2", "group": "1_digit_addition", "igc_operands": ["1", "1"]},
        {"prompt": "2*3", "target": "6", "group": "1_digit_multiplication"},
        {"prompt": "9-1", "target": "8", "group": "1_digit_addition"},
        {"prompt": "hi", "target": "hello, hello", "group": "talk"},
        {"prompt": "7/7", "target": "1 ", "group": None},
    ]
    model = Scripted(tokenizer, answers)
    return evaluate(model, tokenizer, items, **more), model


def test_the_report_counts_every_item_once(tokenizer):
    found, model = report(tokenizer)
    assert {name: found[name] for name in ("n", "exact_match", "groups", "truncated", "mistakes")} == {
        "n": 5,
        "exact_match": 0.8,
        "groups": {
            "1_digit_addition": {"n": 2, "exact_match": 0.5},
            "1_digit_multiplication": {"n": 1, "exact_match": 1.0},
            "talk": {"n": 1, "exact_match": 1.0},
        },
        "truncated": 0,
        "mistakes": [{"prompt": "9-1", "target": "8", "answer": "80"}],
    }
    assert found["seconds"] >= 0
    assert found["settings"] == {"batch_size": 64, "max_new_tokens": 24, "raw": False}
    assert json.loads(json.dumps(found)) == found
    assert len(model.seen) == 5


def test_an_answer_that_is_cut_is_counted_and_is_no_match(tokenizer):
    found, _ = report(tokenizer, max_new_tokens=4)
    assert found["truncated"] == 1  # "hello, hello"; " 6\n" and its end just fit
    assert found["groups"]["talk"]["exact_match"] == 0.0
    assert found["mistakes"][-1] == {"prompt": "hi", "target": "hello, hello", "answer": "hell"}


def test_a_cut_answer_is_not_right_even_where_what_is_left_is_the_target(tokenizer):
    items = [{"prompt": "a", "target": "579", "group": "g"}, {"prompt": "b", "target": "57", "group": "g"}]
    model = Scripted(tokenizer, {"a": "5791", "b": "57"})  # the second just fits with its end
    found = evaluate(model, tokenizer, items, max_new_tokens=3)
    assert (found["exact_match"], found["truncated"], found["groups"]["g"]["exact_match"]) == (0.5, 1, 0.5)
    assert found["mistakes"] == [{"prompt": "a", "target": "579", "answer": "579"}]


def test_only_the_prompt_reaches_the_model(tokenizer):
    _, model = report(tokenizer)
    assert "<|user|>1+1<|end|><|assistant|>" in model.seen


def test_versions_name_everything_an_evaluation_depends_on():
    found = versions()
    assert set(found) == {"torch", "transformers", "peft", "peft_igc", "python"}
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert found["torch"] == torch.__version__


def test_a_tokenizer_without_a_chat_template_is_refused_with_the_cure(llama):
    with pytest.raises(ValueError, match=r"The tokenizer has no chat template. Pass `raw=True`"):
        generate_answers(llama, byte_tokenizer(template=None), ["a"])


@pytest.mark.parametrize("template", ["{{ raise_exception('system message needed') }}", "{% for %}"])
def test_a_chat_template_that_fails_is_refused_with_the_prompt_and_the_cure(llama, template):
    with pytest.raises(ValueError, match=r"chat template fails on the prompt 'a1': .* `raw=True`"):
        generate_answers(llama, byte_tokenizer(template=template), ["a1"])


def test_a_prompt_without_tokens_is_refused(llama, tokenizer):
    with pytest.raises(ValueError, match="The prompt '' has no tokens, so there is nothing to continue."):
        generate_answers(llama, tokenizer, ["a", ""], raw=True)


def test_a_prompt_that_is_too_long_for_the_model_is_refused(llama, tokenizer):
    fits = "x" * (256 - 3 - 20)
    generate_answers(llama, tokenizer, [fits], max_new_tokens=20)
    with pytest.raises(ValueError, match="Prompt 1 has 237 tokens; with `max_new_tokens=20` that is more than .* 256"):
        generate_answers(llama, tokenizer, ["a", fits + "x"], max_new_tokens=20)


@pytest.mark.parametrize("name", ["batch_size", "max_new_tokens"])
def test_sizes_below_one_are_refused(llama, tokenizer, name):
    with pytest.raises(ValueError, match=f"`{name}=0` must be at least 1"):
        generate_answers(llama, tokenizer, ["a"], **{name: 0})


def test_a_single_string_is_not_taken_for_a_list_of_prompts(llama, tokenizer):
    with pytest.raises(TypeError, match="`prompts` must be a list of strings, got the string 'abc'"):
        generate_answers(llama, tokenizer, "abc")


def test_items_that_cannot_be_compared_are_refused_before_anything_is_generated(tokenizer):
    model = Scripted(tokenizer, {})
    with pytest.raises(ValueError, match="no items to evaluate"):
        evaluate(model, tokenizer, [])
    with pytest.raises(ValueError, match="Item 1: `target` must be a string, got 2"):
        evaluate(model, tokenizer, [{"prompt": "a", "target": "b"}, {"prompt": "1+1", "target": 2}])
    with pytest.raises(ValueError, match="Item 0: `prompt` must be a string, got None"):
        evaluate(model, tokenizer, [{"target": "b"}])
    assert model.batches == []


def test_the_table_shows_reports_side_by_side():
    def groups(addition, long_addition, division):
        return {
            "groups": {
                "1_digit_addition": {"n": 100, "exact_match": addition},
                "5_digit_addition": {"n": 300, "exact_match": long_addition},
                "5_digit_division": {"n": 100, "exact_match": division},
                "talk": {"n": 1000, "exact_match": 0.0},
            }
        }

    table = accuracy_table({"base": groups(0.8, 0.04, 0.21), "igc": groups(1.0, 0.99, 0.99)})
    assert table.splitlines() == [
        "                         base                     igc",
        "digits                 1      5    all         1      5    all",
        "addition            80.0    4.0   23.0     100.0   99.0   99.2",
        "division               -   21.0   21.0         -   99.0   99.0",
        "all                 80.0    8.2   22.6     100.0   99.0   99.2",
    ]


def test_the_table_does_not_round_up_to_a_hundred():
    report = {"groups": {"2_digit_addition": {"n": 3000, "exact_match": 2999 / 3000}}}
    assert accuracy_table({"igc": report}).split()[-2:] == ["99.9", "99.9"]


def test_prompts_without_an_anchor_are_counted_where_a_calculator_is_on(llama, tokenizer):
    model = llama
    items = [{"prompt": "1+1=", "target": "2"}, {"prompt": "2+2=", "target": "4"}]
    assert evaluate(model, tokenizer, items, max_new_tokens=1)["without_anchor"] is None
    adapted = get_peft_model(model, small_config(anchors={"turns": [[3]]}))  # the template's header of the assistant
    assert evaluate(adapted, tokenizer, items, max_new_tokens=1)["without_anchor"] == 0
    assert evaluate(adapted, tokenizer, items, max_new_tokens=1, raw=True)["without_anchor"] == 2
    with adapted.disable_adapter():
        assert evaluate(adapted, tokenizer, items, max_new_tokens=1, raw=True)["without_anchor"] is None


def test_prompts_without_an_anchor_are_counted_row_by_row(llama, tokenizer):
    adapted = get_peft_model(llama, small_config(anchors={"turns": [[3]]}))
    prompts = ["<|assistant|>", "1+1=", "7<|assistant|>8<|assistant|>9", "<|assistant|>5", "2+2="]
    items = [{"prompt": prompt, "target": "2"} for prompt in prompts]
    for batch_size in (1, 5):
        report = evaluate(adapted, tokenizer, items, max_new_tokens=1, raw=True, batch_size=batch_size)
        assert report["without_anchor"] == 2
    assert thread.observers == []


def test_prompts_without_an_anchor_are_not_counted_for_a_calculator_that_is_not_active(llama, tokenizer):
    adapted = get_peft_model(llama, small_config())
    adapted.base_model.set_adapter([])
    items = [{"prompt": "1+1=", "target": "2"}]
    assert evaluate(adapted, tokenizer, items, max_new_tokens=1)["without_anchor"] is None


def test_an_anchor_in_the_answer_takes_back_none_of_the_prompts(llama, tokenizer, monkeypatch):
    adapted = get_peft_model(llama, small_config(anchors={"turns": [[3]]}))
    generate = adapted.generate

    def and_one_more_step(**more):
        output = generate(**more)
        for observer in thread.observers:
            result = Result(None, None, torch.tensor([[1], [1]]), None)
            observer(Step(torch.tensor([[-1], [40]]), None, None, result))  # the second row's answer holds an anchor
        return output

    monkeypatch.setattr(adapted, "generate", and_one_more_step)
    items = [{"prompt": "1+1=", "target": "2"}, {"prompt": "2+2=", "target": "4"}]
    assert evaluate(adapted, tokenizer, items, max_new_tokens=1)["without_anchor"] == 0
