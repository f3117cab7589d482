#!/usr/bin/env python3
"""results_named_test.py SOURCE: every folder of benchmarks/results has a NOTE.txt, and each of its files is named.

In the folder's own NOTE.txt a file is named by its name, by its path in the folder, by a glob of either
("tune_*.json", "fashion_resnet20_{1,2}.jsonl"), or by a folder that it is in as a word of its own ("accdp/"). In
README.md, examples/README.md and docs/*.md it is by its name in a paragraph that names the results folder too, and in
these and other folders' NOTE.txt by a path, or a glob of one, from the results folder on."""

import fnmatch
import pathlib
import re
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
# Braces may hold commas; what else ends a word is punctuation of the text.
WORD = re.compile(r"(?:\{[^{}\s]*\}|[\w.*?/+-])+")


def expand(word: str) -> list[str]:
    """Of "a_{1,2}.txt": "a_1.txt" and "a_2.txt"."""
    braces = re.search(r"\{([^{}]*)\}", word)
    if not braces:
        return [word]
    head, tail = word[: braces.start()], word[braces.end() :]
    return [whole for part in braces[1].split(",") for whole in expand(head + part + tail)]


def words_of(text: str) -> set[str]:
    return {each.rstrip(".") for word in WORD.findall(text) for each in expand(word)}


def matches(file: str, word: str) -> bool:
    """Of a path within the results folder; a glob that says nothing but "everything" does not count."""
    if word.endswith("/"):
        return file.startswith(word) or f"/{word}" in file
    wanted = file if "/" in word else file.rsplit("/", 1)[-1]
    return bool(re.search(r"\w", word)) and fnmatch.fnmatchcase(wanted, word)


def paths_of(folder: str, words: set[str]) -> set[str] | None:
    """What the words name by paths from the folder on; None where nothing names the folder."""
    of_folder = {word for word in words if folder in word and re.search(rf"(?:^|/){re.escape(folder)}(?:/|$)", word)}
    return {word.rpartition(f"{folder}/")[2] for word in of_folder} - {""} if of_folder else None


def missing(source: pathlib.Path) -> list[str]:
    """The folders without a NOTE.txt, and the files that nothing names."""
    results = source / "benchmarks/results"
    documents = [source / "README.md", source / "examples/README.md", *source.glob("docs/*.md")]
    paragraphs = [words_of(text) for path in documents if path.is_file()
                  for text in re.split(r"\n\s*\n", path.read_text())]
    notes = {note.parent.name: words_of(note.read_text()) for note in results.glob("*/NOTE.txt")}
    found = []
    for folder in sorted(path for path in results.iterdir() if path.is_dir()):
        if folder.name not in notes:
            found.append(f"{folder.name} has no NOTE.txt")
        named = set(notes.get(folder.name, ()))  # names, paths and globs
        for name, words in notes.items():
            named |= (paths_of(folder.name, words) or set()) if name != folder.name else set()
        beside = set()  # words of paragraphs that name the folder
        for words in paragraphs:
            paths = paths_of(folder.name, words)
            if paths is not None:
                named |= paths
                beside |= {word.rsplit("/", 1)[-1] for word in words}
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            file = path.relative_to(folder).as_posix()
            if file != "NOTE.txt" and path.name not in beside and not any(matches(file, word) for word in named):
                found.append(f"{folder.name}/{file} is named nowhere")
    return found


class Test(unittest.TestCase):
    def test_all_results_are_named(self) -> None:
        self.assertTrue(any((SOURCE / "benchmarks/results").iterdir()))
        if found := missing(SOURCE):
            self.fail("\n".join(["", *found]))

    def write(self, name: str, text: str = "") -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def test_what_names_a_file(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for file in ("a.txt", "ab.txt", "b_1.json", "b_2.json", "c_1.csv", "in/d.json", "in/e.json", "all/f.json"):
            self.write(f"benchmarks/results/day/{file}")
        for file in ("a.txt", "c.txt", "g.txt", "h.json", "in/i.csv", "in/j.csv"):
            self.write(f"benchmarks/results/day-2/{file}")
        self.write("benchmarks/results/day/NOTE.txt",
                   "a.txt, b_{1,2}.json (c_*.csv): in/d.json; all/ is *, newer than ../day-2/c.txt.")
        self.write("docs/some.md", "`day-2/in/*.csv`, `h.json`, xg.txt\n\ng.txt")
        self.assertEqual(missing(self.folder), [
            "day/ab.txt is named nowhere", "day/in/e.json is named nowhere", "day-2 has no NOTE.txt",
            "day-2/a.txt is named nowhere", "day-2/g.txt is named nowhere"])


if __name__ == "__main__":
    unittest.main()
