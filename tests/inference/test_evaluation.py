"""Promises of `evaluation`: answers are the model's own greedy ones, whatever the batch, and every item is counted."""

import copy
import json

import pytest
import torch
from parrot import Parrot
from peft import LoraConfig, get_peft_model
from tiny_models import small_config, tiny_model
from tokenizers import processors

from peft_igc import IGCModel
from peft_igc.inference.decoding import eval_mode
from peft_igc.inference.evaluation import _answer, evaluate, generate_answers, trace
from peft_igc.tuner.records import StepRecord


PROMPTS = ["a", "What is 12 plus 7?", "", "Repeat 4711.", "3*4=", "What is 12345 times 54321, my dear friend?"]


@pytest.fixture
def llama():
    return tiny_model("llama")


def test_a_result_in_the_hidden_interface_is_searched_as_a_number_of_its_own():
    for text in ("2,088 it is.", "-2088", "20,88", "2088%", "2088.5"):
        (step,) = _answer(text, False, [StepRecord(3, "ok", result="2088")], None, True, 4).steps
        assert step.written is (text[-1] == "."), text


def greedy_by_hand(model, tokenizer, prompt, n):
    """Arg max, one token at a time, without padding, cache or `generate`; IGC calculates at the end of the prompt."""
    ids = tokenizer(f"<user>{prompt}<eos><assistant>", return_tensors="pt")["input_ids"]
    start = ids.shape[-1]
    adapted = isinstance(getattr(model, "base_model", None), IGCModel)
    igc = {"igc_anchors": torch.tensor([[start - 1]])} if adapted else {}
    for _ in range(n):
        token = model(input_ids=ids, **igc).logits[:, -1:].argmax(-1)
        if token == tokenizer.eos_token_id:
            break
        ids = torch.cat([ids, token], -1)
    return tokenizer.decode(ids[0, start:], skip_special_tokens=True)


@torch.no_grad()
@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")  # PEFT 0.21.2
@pytest.mark.parametrize("config", [None, small_config(), LoraConfig(init_lora_weights=False)])
def test_answers_in_left_padded_batches_are_the_greedy_ones_in_the_order_of_the_prompts(llama, tokenizer, config):
    model = llama if config is None else get_peft_model(llama, config).eval()
    expected = [greedy_by_hand(model, tokenizer, prompt, 6) for prompt in PROMPTS]
    assert len(set(expected)) > 1
    for batch_size in (1, 3, 64):
        assert generate_answers(model, tokenizer, PROMPTS, batch_size=batch_size, max_new_tokens=6) == expected


@torch.no_grad()
def test_defaults_of_the_checkpoint_do_not_bend_the_answers(llama, tokenizer):
    plain = generate_answers(llama, tokenizer, PROMPTS, max_new_tokens=12)
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
    llama.generation_config.eos_token_id = [2, *tokenizer(end)["input_ids"]]
    answers = generate_answers(llama, tokenizer, PROMPTS, max_new_tokens=12)
    assert answers == [answer.split(end)[0] for answer in plain]
    assert answers != plain


@torch.no_grad()
def test_raw_prompts_are_tokenized_as_they_stand(llama, tokenizer):
    answers = generate_answers(llama, tokenizer, PROMPTS, max_new_tokens=5)
    tokenizer.chat_template = None
    prompts = [f"<user>{prompt}<eos><assistant>" for prompt in PROMPTS]
    assert generate_answers(llama, tokenizer, prompts, raw=True, max_new_tokens=5) == answers


def test_special_tokens_are_added_by_the_template_or_by_the_tokenizer_but_never_by_both(llama, tokenizer):
    tokenizer.chat_template = "<bos>" + tokenizer.chat_template
    begin = [("<bos>", tokenizer.convert_tokens_to_ids("<bos>"))]
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=begin)
    parrot = Parrot(llama, tokenizer, {"<bos><user>a": "b", "<bos>a": "b"})
    generate_answers(llama, tokenizer, ["a"])
    generate_answers(llama, tokenizer, ["a"], raw=True)
    assert parrot.asked == ["<bos><user>a<eos><assistant>", "<bos>a"]


def test_the_tokenizer_is_left_as_it_was_even_without_a_padding_token(llama, tokenizer, tmp_path):
    answers = []
    for pad in ("<pad>", None):
        tokenizer.pad_token = pad
        tokenizer.save_pretrained(tmp_path / "before")
        answers.append(generate_answers(llama, tokenizer, PROMPTS, max_new_tokens=3))
        tokenizer.save_pretrained(tmp_path / "after")
        for file in (tmp_path / "before").iterdir():
            assert file.read_bytes() == (tmp_path / "after" / file.name).read_bytes()
    assert answers[0] == answers[1]


def test_the_model_answers_in_eval_mode_and_every_part_returns_to_its_own_mode(llama, tokenizer):
    parrot, frozen = Parrot(llama.train(), tokenizer, {"a": "b"}), llama.lm_head.eval()
    generate_answers(llama, tokenizer, ["a"])
    with pytest.raises(KeyError):
        generate_answers(llama, tokenizer, ["an error"])
    assert parrot.trained == [False, False]
    assert [module for module in llama.modules() if not module.training] == [frozen]
    seen, states = [], torch.zeros(2, 3, frozen.in_features)[:, -1:]
    with eval_mode(llama), frozen.register_forward_pre_hook(lambda _, args: seen.append(args[0].is_contiguous())):
        frozen(states)
    assert (states.is_contiguous(), seen, len(frozen._forward_pre_hooks)) == (False, [True], 0)


def test_the_report_counts_every_item_once_and_only_prompts_reach_the_model(llama, tokenizer):
    answers = {"1+1": "2", "2*3": " 6 ", "9-1": "80", "hi": "hello, hello", "7/7": "1", "cut": "57912"}
    items = [
        {"prompt": "1+1", "target": "2", "group": "sums", "igc_operands": ["1", "1"]},
        {"prompt": "2*3", "target": "6", "group": "products"},
        {"prompt": "9-1", "target": "8", "group": "sums"},
        {"prompt": "hi", "target": "hello, hello", "group": "talk"},
        {"prompt": "7/7", "target": "1 ", "group": None},
        {"prompt": "cut", "target": "57912"},
    ]
    parrot = Parrot(llama, tokenizer, answers)
    found = evaluate(llama, tokenizer, items)
    assert len(parrot.asked) == 6
    assert "<user>1+1<eos><assistant>" in parrot.asked
    assert {name: found[name] for name in ("n", "exact_match", "groups", "truncated", "mistakes")} == {
        "n": 6,
        "exact_match": 5 / 6,
        "groups": {name: {"n": n, "exact_match": 1 / n} for name, n in (("sums", 2), ("products", 1), ("talk", 1))},
        "truncated": 0,
        "mistakes": [{"prompt": "9-1", "target": "8", "answer": "80"}],
    }
    assert found["settings"] == {"batch_size": 64, "max_new_tokens": 24, "raw": False}
    assert json.loads(json.dumps(found)) == found
    assert set(found["versions"]) == {"torch", "transformers", "peft", "peft_igc", "python"}
    assert found["versions"]["torch"] == torch.__version__
    items[-1]["target"] = "5791"
    found = evaluate(llama, tokenizer, [items[1], items[3], items[-1]], max_new_tokens=4)
    assert (found["exact_match"], found["truncated"]) == (1 / 3, 2)  # " 6 " just fits with its end
    assert found["mistakes"][-1] == {"prompt": "cut", "target": "5791", "answer": "5791"}  # right by chance


def test_items_that_cannot_be_compared_are_refused_before_anything_is_generated(llama, tokenizer):
    parrot = Parrot(llama, tokenizer, {})
    with pytest.raises(ValueError, match="no items to evaluate"):
        evaluate(llama, tokenizer, [])
    with pytest.raises(ValueError, match="Item 1: `target` must be a string, got 2"):
        evaluate(llama, tokenizer, [{"prompt": "a", "target": "b"}, {"prompt": "1+1", "target": 2}])
    with pytest.raises(ValueError, match="Item 0: `prompt` must be a string, got None"):
        evaluate(llama, tokenizer, [{"target": "b"}])
    assert parrot.asked == []


def test_what_cannot_be_asked_is_refused_with_the_cure(llama, tokenizer):
    failing = r"chat template fails on the prompt 'a1': .* `raw=True`"
    long = "x" * (256 - 3 - 20)
    generate_answers(llama, tokenizer, [long], max_new_tokens=20)
    for prompts, options, message in [
        (["a", ""], {"raw": True}, "The prompt '' has no tokens, so there is nothing to continue."),
        (["a", long + "x"], {"max_new_tokens": 20}, "Prompt 1 has 237 tokens; .* more than .* 256"),
        (["a"], {"batch_size": 0}, "`batch_size=0` must be at least 1"),
        (["a"], {"max_new_tokens": 0}, "`max_new_tokens=0` must be at least 1"),
    ]:
        with pytest.raises(ValueError, match=message):
            generate_answers(llama, tokenizer, prompts, **options)
    for template, message in [
        (None, "The tokenizer has no chat template. Pass `raw=True`"),
        ("{{ raise_exception('system message needed') }}", failing),
        ("{% for %}", failing),
    ]:
        tokenizer.chat_template = template
        with pytest.raises(ValueError, match=message):
            generate_answers(llama, tokenizer, ["a1"])
    with pytest.raises(TypeError, match="`prompts` must be a list of strings, got the string 'abc'"):
        generate_answers(llama, tokenizer, "abc")
    with pytest.raises(TypeError, match="Pass the model first, then its tokenizer"):
        generate_answers(tokenizer, llama, ["1+1="])
    told = [{"role": "user", "content": "1+1="}, {"role": "assistant", "content": "2"}]
    for prompt, raw in ((["1+1="], False), (told, False), (told[:1], True), ([{**told[0], "content": []}], False)):
        with pytest.raises(
            TypeError, match="A prompt is a string or a conversation, got the list .* Pass the message of"
        ):
            trace(llama, tokenizer, prompt, raw=raw)
    assert generate_answers(llama, tokenizer, []) == []


def test_prompts_without_an_anchor_are_counted_where_a_calculator_is_on(llama, tokenizer):
    prompts = ["<assistant>", "1+1=", "7<assistant>8<assistant>9", "<assistant>5", "2+2="]
    items = [{"prompt": prompt, "target": "2"} for prompt in prompts]

    def counted(model, **options):
        return evaluate(model, tokenizer, items, max_new_tokens=1, **options)["without_anchor"]

    assert counted(llama, raw=True) is None
    adapted = get_peft_model(llama, small_config(anchors={"turns": [[4]]}))  # the template's header of the assistant
    assert [counted(adapted, raw=True, batch_size=size) for size in (1, 5)] == [2, 2]
    assert counted(adapted) == 0
    with adapted.disable_adapter():
        assert counted(adapted, raw=True) is None
    adapted.base_model.set_adapter([])
    assert counted(adapted) is None
