"""From the journal of a job to its results: best.txt, result.json, scores.jsonl.gz; and the join of the journals of shards."""

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from trflm.deploy.journal import NAME, Entry, Header, Journal, read_entries, read_header, writing
from trflm.errors import InputError
from trflm.evaluation.changed import changed_utterances
from trflm.evaluation.figures import figures
from trflm.evaluation.second_pass.results import (
    FIRST,
    MARK,
    ORACLE,
    RESCORED,
    TUNED_HERE,
    WITHOUT_LM,
    Decision,
    SecondPassResult,
)
from trflm.evaluation.significance import compare
from trflm.evaluation.wer import word_error_rate
from trflm.files.records import to_record
from trflm.files.writer import write_directory, write_text

RESULT = "result.json"


@dataclass
class _Tally:
    """What result.json needs of the entries."""

    models: Sequence[str]
    utterances: int = 0
    hypotheses: int = 0
    oov: list[int] = field(default_factory=list)
    unknown: list[set[str]] = field(default_factory=list)
    texts: dict[str, dict[str, str]] = field(default_factory=dict)  # by system; only with references
    gains: dict[str, dict[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.oov, self.unknown = [0] * len(self.models), [set() for _ in self.models]

    def add(self, entry: Entry) -> None:
        self.utterances += 1
        self.hypotheses += entry.hypotheses
        for k, (count, words) in enumerate(zip(entry.oov, entry.unknown, strict=True)):
            self.oov[k] += count
            self.unknown[k].update(words)
        if entry.reference is not None:
            systems = {"": entry.reference, FIRST: entry.first, WITHOUT_LM: entry.without_lm}
            for system, text in {**systems, RESCORED: entry.best, ORACLE: entry.oracle}.items():
                self.texts.setdefault(system, {})[entry.utterance] = text or ""
            if entry.gains is not None:
                self.gains[entry.utterance] = dict(entry.gains)


def is_finished(directory: Path) -> bool:
    return any((directory / f"{mark}{RESULT}").exists() for mark in ("", MARK))


def finish(directory: Path, seed: int = 0) -> SecondPassResult:
    """Write the results of a journal that is complete; `seed` is of the bootstrap. The journal of a whole job is removed."""
    path = directory / NAME
    header = read_header(path)
    mark = MARK if header.tuned_here else ""
    tally = _Tally(header.models)
    with ExitStack() as files:
        best = files.enter_context(write_text(directory / f"{mark}best.txt"))
        scores = files.enter_context(write_text(directory / f"{mark}scores.jsonl.gz")) if header.scores else None
        for entry in read_entries(path):
            best.write(f"{entry.utterance} {entry.best}".rstrip() + "\n")
            if scores is not None:
                scores.write(json.dumps(entry.record, ensure_ascii=False) + "\n")
            tally.add(entry)
    if not tally.utterances:
        raise InputError(f"{header.files['nbest'].path}: there is no n-best list in it")
    found = _result(header, tally, seed)
    with write_text(directory / f"{mark}{RESULT}") as file:
        json.dump(to_record(found), file, indent=2, ensure_ascii=False)
        file.write("\n")
    remove_journal(directory)
    return found


def remove_journal(directory: Path) -> None:
    """That of a whole job, once its results are there; the journal of a shard is needed to join it."""
    path = directory / NAME
    if path.exists() and read_header(path).shards == 1:
        path.unlink(missing_ok=True)


def _result(header: Header, tally: _Tally, seed: int) -> SecondPassResult:
    found = SecondPassResult(
        warning=TUNED_HERE if header.tuned_here else None,
        rescorer=header.rescorer,
        shard=f"{header.shard}/{header.shards}" if header.shards > 1 else None,
        files=header.files,
        weights=header.weights,
        mapping=header.mapping,
        utterances=tally.utterances,
        hypotheses=tally.hypotheses,
        oov_words_per_hypothesis={name: n / tally.hypotheses for name, n in zip(header.models, tally.oov, strict=True)},
        oov_types={name: len(words) for name, words in zip(header.models, tally.unknown, strict=True)},
        scores={f"lm{k}": name for k, name in enumerate(header.models, 1)} if header.scores else None,
    )
    if not tally.texts:
        return found
    references = tally.texts.pop("")
    rates = {system: word_error_rate(texts, references) for system, texts in tally.texts.items()}
    first, errors = rates[FIRST], rates[RESCORED]
    return replace(
        found,
        wer={name: figures(of, seed) for name, of in rates.items()},
        comparison=compare(first, errors, seed),
        changed=tuple(
            Decision(
                **vars(change),
                score_gains=tally.gains[name],
                reference=references[name],
                before=tally.texts[FIRST][name],
                now=tally.texts[RESCORED][name],
            )
            for change in changed_utterances(first, errors)
            for name in [change.utterance]
        ),
    )


def merge(shards: Sequence[Path], out: Path, seed: int = 0) -> SecondPassResult:
    """Join the shards of a job: the bytes of the job that was not divided."""
    headers = {}
    for directory in shards:
        if not (directory / NAME).exists() or not is_finished(directory):
            raise InputError(f"{directory}: is not a finished shard; let `trf rescore --shard i/n --resume` finish it")
        header = read_header(directory / NAME)
        if header.shard in headers:
            raise InputError(f"{directory}: is shard {header.shard}, as {headers[header.shard][0]} is; give each one once")
        headers[header.shard] = directory, header
    first_directory, first = headers[min(headers)]
    if missing := sorted(set(range(1, first.shards + 1)) - headers.keys()):
        raise InputError(
            f"shard {missing[0]}/{first.shards} is missing ({len(missing)} such); give all {first.shards} directories"
        )
    for directory, header in headers.values():
        if replace(header, shard=first.shard) != first:
            raise InputError(f"{directory}: is a shard of another job than {first_directory}; give the shards of one job")
    with write_directory(out) as directory:
        with writing(directory, replace(first, shard=1, shards=1), resume=False) as journal:
            _interleave([headers[number][0] / NAME for number in sorted(headers)], journal)
        return finish(directory, seed)


def _interleave(paths: list[Path], journal: Journal) -> None:
    """One of each in turn, until the first one ends; then all have ended."""
    every: list[Iterator[Entry]] = [read_entries(path) for path in paths]
    while True:
        for number, entries in enumerate(every):
            entry = next(entries, None)
            if entry is None:
                for path, rest in zip(paths[number + 1 :] + paths[:number], every[number + 1 :] + every[:number], strict=True):
                    if next(rest, None) is not None:
                        raise InputError(f"{path}: has more utterances than {paths[number]} allows; are they of one job?")
                return
            journal.write(entry)
