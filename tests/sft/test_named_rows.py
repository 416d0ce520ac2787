"""Every row of a file has a name that leads to its line, and integers are exact in any form."""

import json
import re
from pathlib import Path

import pytest
from tiny_training import rows
from trl import DatasetMixtureConfig, ScriptArguments
from trl.scripts.utils import DatasetConfig

from peft_igc import cli
from peft_igc.data.columns import COLUMNS, ROW_COLUMN, check_columns
from peft_igc.data.files import read_rows
from peft_igc.sft import datasets
from peft_igc.sft.arguments import IGCArguments
from peft_igc.text.values import Limits
from tests.sft.test_datasets import load
from tests.sft.test_sft import SMALL, arguments


def file_of(folder, lines, name="rows.jsonl"):
    """A file of rows and of texts, one per line."""
    folder.mkdir(exist_ok=True)
    text = "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def named(path):
    """The names of the rows of a file or folder."""
    return list(datasets._load(path)["train"][ROW_COLUMN])


def test_rows_are_named_by_their_lines_and_empty_lines_count(tmp_path):
    path = file_of(tmp_path, [rows(1)[0], "\n", *rows(2)])
    assert named(path) == [f"`{path}`, line {number}" for number in (1, 3, 4)]
    folder = tmp_path / "folder"
    path = file_of(folder, rows(3), "train.jsonl")
    file_of(folder, rows(2), "test.jsonl")
    assert named(str(folder)) == [f"`{path}`, line {number}" for number in (1, 2, 3)]


def test_rows_whose_lines_are_not_known_are_counted(tmp_path):
    folder = tmp_path / "d"
    for name in ("train-1.jsonl", "train-2.jsonl"):
        file_of(folder, rows(2), name)
    assert named(str(folder))[-1] == f"`{folder}`, row 3"
    path = tmp_path / "a.json"
    path.write_text(json.dumps(rows(2), indent=1))
    assert named(str(path))[-1] == f"`{path}`, row 1"


@pytest.mark.parametrize(
    ("name", "options", "wanted", "row"),
    [
        ("d", {"split": "train[:3]"}, [0, 1, 2], "d`, row 0"),  # as many rows as the test set
        ("d/test.jsonl", {"split": "train[1:]+train[:1]"}, [5, 6, 4], "d/test.jsonl`, row 0"),
        ("outer", {"split": "train", "data_dir": "sub"}, [1, 2, 3], "outer/sub/train.jsonl`, line 1"),
        ("parts", {"split": "train"}, [0, 1, 2], "parts`, row 0"),
    ],
)
def test_rows_keep_their_own_operands_whatever_files_have_as_many_lines(tmp_path, name, options, wanted, row):
    all_rows = [row | {"prompt": f"{n}: {row['prompt']}"} for n, row in enumerate(rows(8))]
    files = {"d/train": (0, 4), "d/test": (4, 7), "outer/other": (4, 7), "outer/sub/train": (1, 4)}
    files |= {"parts/train-1": (0, 1), "parts/train-2": (1, 3), "parts/test": (4, 7)}
    for file, (first, last) in files.items():
        path = tmp_path / f"{file}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        file_of(path.parent, all_rows[first:last], path.name)
    found = datasets._load(str(tmp_path / name), **options)
    assert found.remove_columns(ROW_COLUMN).to_list() == [all_rows[n] for n in wanted]
    assert found[0][ROW_COLUMN] == f"`{tmp_path}/{row}"


BIG = 10**30


@pytest.mark.parametrize("operands", [[[58, 36], ["58", "36"]], [[58, "36"]], [[BIG, 36], [1, 2]]])
def test_integers_are_as_good_as_strings_in_a_file(tmp_path, operands):
    given = [rows(1)[0] | {"igc_operands": pair, "igc_result": None} for pair in operands]
    found = load(ScriptArguments(dataset_name=file_of(tmp_path, given)))[0]
    assert [row["igc_operands"] for row in found] == [list(map(str, pair)) for pair in operands]
    strings = file_of(tmp_path, rows(1), "s.jsonl")
    both = load(mixture=DatasetMixtureConfig([DatasetConfig(strings), DatasetConfig(str(tmp_path / "rows.jsonl"))]))[0]
    assert [check_columns(row, Limits()) for row in both][1:] == [check_columns(row, Limits()) for row in found]


@pytest.mark.parametrize("several", [False, True])
def test_streams_of_integers_join_those_of_strings_and_streams_of_floats_do_not(tmp_path, several):
    one = rows(1)[0]
    integers = one | {"igc_operands": [58, 36], "igc_result": 94}
    strings = one | {name: [one[name]] for name in COLUMNS} if several else one
    files = {"integers": [integers], "strings": [strings], "floats": [integers, one | {"igc_operands": [58.5, 36]}]}
    parts = {
        name: datasets._load(file_of(tmp_path, given, f"{name}.jsonl"), split="train", streaming=True)
        for name, given in files.items()
    }
    first = next(iter(datasets.join({name: parts[name] for name in ("integers", "strings")})))
    assert first["igc_operands"] == ([["58", "36"]] if several else ["58", "36"])
    with pytest.raises(ValueError, match="hold one column in different types"):
        datasets.join({name: parts[name] for name in ("floats", "strings")})


def test_a_baseline_takes_operands_that_it_does_not_use_in_any_type(tmp_path):
    floats = file_of(tmp_path, [row | {"igc_operands": [58.0, 36.5]} for row in rows(2)], "floats.jsonl")
    entries = [DatasetConfig(floats), DatasetConfig(file_of(tmp_path, rows(3)))]
    found = load(mixture=DatasetMixtureConfig(entries), igc=IGCArguments(igc_adapter="lora"))[0]
    assert found["prompt"][:] == [row["prompt"] for row in (*rows(2), *rows(3))]


def refused(argv, capsys):
    """The one line with which the command refuses."""
    assert cli.main(["sft", *argv]) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("peft-igc: error: ")]
    assert len(lines) == 1
    return lines[0]


FAULTS = read_rows(Path(__file__).with_name("faults.jsonl"))


@pytest.mark.parametrize("fault", [one for one in FAULTS if "changed" in one], ids=lambda fault: fault["name"])
def test_a_fault_of_a_row_is_one_line_that_names_the_line_of_the_file(base, tmp_path, capsys, fault):
    place = 3 if fault["name"] == "floats" else 19  # held out with this seed, or trained
    given = rows(20)
    given[place] = given[place] | fault["changed"]
    path = file_of(tmp_path, given)
    line = refused(arguments(base, tmp_path / "out", *SMALL, dataset_name=path, max_steps="9"), capsys)
    assert f"`{path}`, line {place + 1}" in line
    assert fault["message"] in line
    assert not (tmp_path / "out" / "adapter_model.safetensors").exists()


def renamed(given, **names):
    """Rows with other names of columns; None: without the column."""
    return [{names.get(name, name): value for name, value in row.items() if names.get(name, name)} for row in given]


@pytest.mark.parametrize("held_out", ["0", "100"])
@pytest.mark.parametrize("fault", [one for one in FAULTS if "renamed" in one], ids=lambda fault: fault["name"])
def test_operand_columns_that_are_misspelt_or_missing_are_refused(base, tmp_path, capsys, fault, held_out):
    path = file_of(tmp_path, renamed(rows(20), **fault["renamed"]))
    more = ["--igc_held_out", held_out]
    assert fault["message"] in refused(arguments(base, tmp_path / "out", *SMALL, *more, dataset_name=path), capsys)
    assert not (tmp_path / "out").exists()


def test_columns_that_are_misspelt_in_a_stream_or_in_one_of_several_datasets_are_refused(base, tmp_path, capsys):
    good = file_of(tmp_path, rows(9), "good.jsonl")
    bad = file_of(tmp_path, renamed(rows(9), igc_operands="igc_operand"), "bad.jsonl")
    config = tmp_path / "run.yaml"
    config.write_text(f"datasets: [{{path: {good}}}, {{path: {bad}}}]\n")
    line = refused(arguments(base, tmp_path / "out", *SMALL, "--config", str(config)), capsys)
    assert f"The dataset `{bad}` has the column `igc_operand`" in line
    bare = file_of(tmp_path, renamed(rows(9), **dict.fromkeys(COLUMNS)), "bare.jsonl")
    line = arguments(base, tmp_path / "out", *SMALL, "--dataset_streaming", "true", dataset_name=bare)
    assert "No training row has a value in `igc_operator`" in refused(line, capsys)


def test_rows_without_operands_may_train_what_a_saved_calculator_writes(base, tmp_path):
    path = file_of(tmp_path, rows(8))
    quick = [*SMALL, "--igc_held_out", "0"]
    assert cli.main(["sft", *arguments(base, tmp_path / "a", *quick, dataset_name=path)]) == 0
    bare = file_of(tmp_path, renamed(rows(8), **dict.fromkeys(COLUMNS)), "bare.jsonl")
    more = ["--igc_held_out", "0", "--igc_init_from", str(tmp_path / "a")]
    assert cli.main(["sft", *arguments(base, tmp_path / "b", *more, dataset_name=bare)]) == 0


@pytest.mark.parametrize("name", ["nosuch.jsonl", "data/nosuch.parquet", "nosuch.JSON", "nosuch.jsonl.gz", "a/b/c"])
def test_a_file_that_does_not_exist_is_not_looked_for_on_the_hub(name, monkeypatch):
    monkeypatch.setattr("peft_igc.sft.datasets.load_dataset", lambda *args, **kwargs: pytest.fail("the hub was asked"))
    with pytest.raises(FileNotFoundError, match=re.escape(f"`{name}` does not exist")):
        load(ScriptArguments(dataset_name=name))
