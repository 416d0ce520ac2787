"""Promises of `harness`: likelihoods calculate at the end of the context, and its scores are those of `peft-igc eval`.

Every test runs with a stand-in for lm-evaluation-harness, and with the real one where that is installed.
"""

import importlib
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import fake_lm_eval
import pytest
import torch
import yaml
from checks import watching
from peft import get_peft_model
from tiny_models import small_config, tiny_model

from peft_igc import plugin, tiny_igc
from peft_igc.data.bigbench import bigbench_items, bigbench_test_set
from peft_igc.inference.decoding import prompt_tokens
from peft_igc.inference.evaluation import generate_answers


ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "peft_igc" / "assets" / "lm_eval"
INSTALLED = importlib.util.find_spec("lm_eval") is not None
needs_lm_eval = pytest.mark.skipif(not INSTALLED, reason="needs `pip install 'peft-igc[lm-eval]'`")
WAYS = ["stand-in", pytest.param("installed", marks=needs_lm_eval)]


@pytest.fixture(params=WAYS)
def harness(request, monkeypatch):
    """The module, made with the stand-in or with the real one."""
    name = "peft_igc.inference.harness"
    if request.param == "installed":
        return importlib.import_module(name)
    fake_lm_eval.install(monkeypatch)
    monkeypatch.setitem(sys.modules, name, None)  # gone after the test, or the real one again
    monkeypatch.delitem(sys.modules, name)
    return importlib.import_module(name)


def made(harness, model, tokenizer=None, **kwargs):
    """Our class around a model that exists."""
    return harness.IGCLM(model, tokenizer=tokenizer or tiny_igc()[1], batch_size=4, **kwargs)


def hidden(**fields):
    """A tiny model whose random adapter changes every text after an anchor."""
    model = tiny_model("llama")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return get_peft_model(model, small_config(**fields)).eval()


REQUESTS = [
    (("a", "b"), [5, 6, 7, 8], [9, 10, 11]),
    (("c", "d"), [12, 13], [14]),
    (("e", "f"), [15, 16, 17, 18, 19, 20, 21], [22, 0, 0]),
    (("g", "h"), [23], [24, 25, 26, 27, 28, 29, 30, 31, 32]),
    (("i", "j"), [5, 6, 7, 8], [40]),
    (("k", "l"), [5, 6], [7, 8, 9, 10, 11]),  # the text of the first one, with another end of the context
    (("m", "n"), [5, 6, 7, 8, 9], [10, 0]),  # 0 is also what fills short texts
]


def by_hand(model, context, answer, anchor):
    """Log likelihood of an answer with the anchor at a position, computed without batches."""
    text = torch.tensor([context + answer])
    with torch.no_grad():
        scores = model(text[:, :-1], igc_anchors=torch.tensor([[anchor]])).logits.log_softmax(-1)[0]
    return float(scores[len(context) - 1 :].gather(1, text[0, len(context) :, None]).sum())


def test_the_calculation_of_a_likelihood_is_at_the_end_of_the_context(harness):
    model = hidden()
    found = made(harness, model)._loglikelihood_tokens(REQUESTS)
    for (_, context, answer), (likelihood, _) in zip(REQUESTS, found, strict=True):
        assert likelihood == pytest.approx(by_hand(model, context, answer, len(context) - 1), abs=1e-4)
    context, answer = list(range(40, 70)), [9, 10, 11]  # too long: cut on the left
    (found,) = made(harness, model, max_length=10)._loglikelihood_tokens([(("a", "b"), context, answer)])
    assert found[0] == pytest.approx(by_hand(model, context[-8:], answer, 7), abs=1e-4)


def test_anchors_of_the_answer_are_those_of_generation(harness):
    model = hidden(anchors={"turns": [[7]], "inline": [[10]]})
    with watching() as seen:
        made(harness, model)._loglikelihood_tokens(REQUESTS[:1])
    assert [step.anchors.tolist() for step in seen] == [[[2, 5]]]  # the header of the context, the sign in the answer


def test_a_text_without_an_anchor_is_that_of_the_base(harness):
    model = hidden(anchors={"turns": [[0, 0]]})  # the fill tokens behind short texts are no header
    found = made(harness, model)._loglikelihood_tokens(REQUESTS[:5])
    with model.disable_adapter():
        assert found == made(harness, model)._loglikelihood_tokens(REQUESTS[:5])


def test_batches_that_are_made_in_another_way_are_refused(harness):
    ids = torch.tensor([[5, 6, 7], [8, 9, 99]])
    _, ends = harness.waves([(None, [5, 6], [7, 1]), (None, [8], [9, 1])], 100)[0]
    with pytest.raises(RuntimeError, match="1 of 2 rows of a batch are no likelihood requests.*0.4.13"):
        harness.anchors_of_batch(ids, ends, harness.Rules(True, [], []))
    assert harness.anchors_of_batch(ids[1:], ends, harness.Rules(True, [], [])) is None


@pytest.mark.filterwarnings("ignore")  # the harness's own
def test_a_likelihood_with_the_end_token_is_greedy_exactly_where_the_generated_answer_is_right(harness):
    model, tokenizer = tiny_igc()
    items = [item for group in ("3_digit_addition", "5_digit_multiplication") for item in bigbench_items(group, 3)]
    items += [item | {"target": item["target"][:-1]} for item in items] + [items[0] | {"target": "7"}]
    end = tokenizer.eos_token_id
    targets = tokenizer([item["target"] for item in items], add_special_tokens=False)["input_ids"]
    contexts = prompt_tokens(tokenizer, [item["prompt"] for item in items], False)
    requests = [(None, context, [*target, end]) for context, target in zip(contexts, targets, strict=True)]
    greedy = [hit for _, hit in made(harness, model, tokenizer)._loglikelihood_tokens(requests)]
    answers = generate_answers(model, tokenizer, [item["prompt"] for item in items])
    assert greedy == [answer == item["target"] for answer, item in zip(answers, items, strict=True)]
    assert greedy == [True] * 6 + [False] * 7


def test_greedy_decoding_takes_no_penalty_from_the_checkpoint(harness):
    model, tokenizer = tiny_igc()
    model.generation_config.repetition_penalty = 3.0  # 111 * 1001 is 111111: the second 111 would be punished
    context = torch.tensor(prompt_tokens(tokenizer, ["What is 111 times 1001?"], False))
    lm = made(harness, model, tokenizer)
    out = lm._model_generate(context, context.shape[1] + 4, [], attention_mask=torch.ones_like(context))
    assert tokenizer.decode(out[0, context.shape[1] :], skip_special_tokens=True) == "111111"


def test_every_task_reads_what_its_file_says(harness):
    files = sorted(FOLDER.glob("*.yaml"))
    assert [path.stem for path in files] == ["arithmetic_file", "arithmetic_generated"]
    yaml.SafeLoader.add_constructor("!function", lambda loader, node: loader.construct_scalar(node))
    for path in files:
        task = yaml.safe_load(path.read_text())
        assert task["task"] == path.stem
        for name in (task["custom_dataset"], task["process_results"]):
            module, _, function = name.rpartition(".")
            assert callable(getattr(importlib.import_module(module), function))


def test_items_are_those_of_the_generator_or_of_a_file(harness, tmp_path):
    rows = harness.generated(per_group=2, seed=1, pretrained="tiny", device="cpu")["test"]
    items = bigbench_test_set(2, 1)
    assert [(row["prompt"], row["target"]) for row in rows] == [(item["prompt"], item["target"]) for item in items]
    (tmp_path / "items.jsonl").write_text('{"prompt": "What is 5 plus 7?", "target": "12"}\n')
    (row,) = harness.from_file(data=str(tmp_path / "items.jsonl"), pretrained="tiny")["test"]
    assert (row["prompt"], row["target"]) == ("What is 5 plus 7?", "12")
    assert [harness.match(row, [answer])["exact_match"] for answer in (" 12\n", "120")] == [1, 0]
    with pytest.raises(ValueError, match='Pass its path: `--metadata .{"data": "items.jsonl"}'):
        harness.from_file()
    with pytest.raises(FileNotFoundError, match="`none.jsonl` does not exist"):
        harness.from_file(data="none.jsonl")


def test_the_name_is_offered_once_whenever_the_harness_is_imported(monkeypatch):
    table = fake_lm_eval.install(monkeypatch)
    plugin.activate()
    plugin.activate()
    assert table == {"igc": "peft_igc.inference.harness:IGCLM"}


@needs_lm_eval
@pytest.mark.slow
@pytest.mark.parametrize("order", ["import peft_igc; import lm_eval", "import lm_eval.models, peft_igc"])
def test_the_harness_finds_the_class(order):
    program = f"{order}; from lm_eval.api.registry import get_model; print(get_model('igc').__name__)"
    given = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], env=given, capture_output=True, text=True)
    assert done.stdout.strip() == "IGCLM", done.stderr


def run(folder, model, **arguments):
    """Results and samples of a run of the harness's own program."""
    import lm_eval
    from lm_eval.tasks import TaskManager

    tasks = arguments.pop("tasks")
    manager = TaskManager(include_path=str(folder), metadata=arguments.pop("metadata", None))
    made = lm_eval.simple_evaluate(
        model=model, tasks=tasks, task_manager=manager, device="cpu", batch_size=8, bootstrap_iters=0, **arguments
    )
    return made["results"], made["samples"]


@needs_lm_eval
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_generated_answers_are_those_of_eval_item_by_item(tmp_path):
    model, tokenizer = tiny_igc()
    items = [{"prompt": item["prompt"], "target": item["target"]} for item in bigbench_test_set(2, 3)]
    items += [{"prompt": "What is 2 plus 3 plus 4?", "target": "9"}, {"prompt": "Hello!", "target": "12"}]
    (tmp_path / "items.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    metadata = {"data": str(tmp_path / "items.jsonl")}
    given = {"model_args": {"pretrained": "tiny", "peft": "tiny"}, "metadata": metadata, "apply_chat_template": True}
    name = "arithmetic_file"
    results, samples = run(FOLDER, "igc", tasks=[name], **given)
    found = [sample["resps"][0][0] for sample in sorted(samples[name], key=lambda sample: sample["doc_id"])]
    answers = generate_answers(model, tokenizer, [item["prompt"] for item in items])
    assert found == answers
    right = [answer.strip() == item["target"] for answer, item in zip(answers, items, strict=True)]
    assert 0.9 < results[name]["exact_match,none"] < 1
    assert results[name]["exact_match,none"] == pytest.approx(sum(right) / len(right))


CHOICES = """\
task: choices
dataset_path: json
dataset_kwargs: {{data_files: {{test: {path}}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_target: "{{{{label}}}}"
doc_to_choice: "{{{{choices}}}}"
metric_list: [{{metric: acc}}, {{metric: acc_norm}}]
"""


@needs_lm_eval
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_general_task_is_scored_identically_with_and_without_the_adapter(tmp_path):
    subjects = ["cat", "river", "old king", "teacher", "song", "red door"]
    choices = ["it left.", "no one saw it.", "so what?"]
    rows = [{"question": f"The {one} was here, and then", "choices": choices, "label": 1} for one in subjects]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "choices.yaml").write_text(CHOICES.format(path=tmp_path / "rows.jsonl"))
    kinds = {
        "adapter": ("igc", {"pretrained": "tiny", "peft": "tiny"}),
        "base": ("igc", {"pretrained": "tiny"}),
        "theirs": ("hf", {"pretrained": str(ROOT / "peft_igc/assets/tiny_base"), "dtype": "float32"}),
    }
    found = {}
    for name, (model, given) in kinds.items():
        _, samples = run(tmp_path, model, tasks=["choices"], model_args=given)
        found[name] = [sample["filtered_resps"] for sample in samples["choices"]]
    assert len(found["base"]) == len(subjects)
    assert found["adapter"] == found["base"] == found["theirs"]  # likelihoods, to the last digit
