"""Promises of the files of `peft-igc eval`: the same items from JSON lines, CSV, gzip; errors with their line."""

import gzip
import json
from pathlib import Path

import pytest

from peft_igc.data.files import read_items, read_prompts, read_rows


ITEMS = [
    {"prompt": 'What is 1 plus 1, "my dear"?\nNow.', "target": "2", "group": "g"},
    {"prompt": "ü 2*3", "target": "6"},
]


def csv_text(items, end="\r\n"):
    def quoted(text):
        return '"' + text.replace('"', '""') + '"'

    lines = ["prompt,target,group"]
    lines += [",".join(quoted(item.get(name, "")) for name in ("prompt", "target", "group")) for item in items]
    return end.join(lines) + end


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "byte order mark"])
@pytest.mark.parametrize("name", ["items.jsonl", "items.jsonl.gz", "items.csv", "ITEMS.CSV", "items.csv.gz"])
def test_the_items_are_the_same_whatever_holds_them(tmp_path, name, mark):
    jsonl = "".join(json.dumps(item) + "\n" for item in ITEMS)
    content = mark + (csv_text(ITEMS) if ".csv" in name.lower() else jsonl).encode()
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert read_items(path) == read_items(str(path)) == ITEMS


GOOD = b'{"prompt": "a", "target": "b"}'


def test_a_malformed_line_is_named_with_its_file(tmp_path):
    for line in read_rows(Path(__file__).with_name("malformed.jsonl")):  # bytes as Latin-1
        content, path = line["content"].encode("latin-1"), tmp_path / line["file"]
        path.write_bytes(content if line["file"] == "items.csv" else b"\n".join([GOOD, content, GOOD]))
        with pytest.raises(ValueError, match=f"{line['file']}`{line['message']}"):
            read_items(path)


def test_a_broken_gzip_file_and_another_encoding_are_named(tmp_path):
    whole = gzip.compress(GOOD + b"\n")
    for content in (whole[:-5], b"no gzip", whole[:12] + b"\xff" * 8 + whole[20:]):
        (tmp_path / "items.jsonl.gz").write_bytes(content)
        with pytest.raises(ValueError, match="items.jsonl.gz` is not a complete gzip file"):
            read_rows(tmp_path / "items.jsonl.gz")
    (tmp_path / "items.csv").write_bytes(b"prompt,target\n\xff,b\n")
    with pytest.raises(ValueError, match="items.csv` is not in UTF-8"):
        read_items(tmp_path / "items.csv")
    with pytest.raises(FileNotFoundError, match="none.csv` does not exist"):
        read_items(tmp_path / "none.csv")


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.jsonl", "a.JSON.gz", "a.csv"])
def test_prompts_are_the_same_whatever_holds_them(tmp_path, name):
    prompts = ["What is 1 plus 1?", "ü 2*3"]
    content = "\n" + "\r\n\n".join(prompts) + "\n"
    if "json" in name.lower():
        content = "".join(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts)
    if name.endswith(".csv"):
        content = "\n".join(["prompt", *prompts])
    content = content.encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert read_prompts(tmp_path / name) == prompts
    if not name.endswith(("txt", "gz")):
        (tmp_path / name).write_text("text\nb" if "csv" in name else '{"text": "b"}')
        with pytest.raises(ValueError, match=f'{name}`, line .: "prompt" must be a text, got None; .* \\[.text.]'):
            read_prompts(tmp_path / name)
