"""Rows of tables, one n-best list a row, as Parquet files and data frames hold them. Two forms are understood:

utterance, reference (or none), hypotheses (a list of {text, scores}), or other usual names, as JSON Lines have them
text: a line of such a JSON Lines file
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from trflm.errors import InputError
from trflm.evaluation.formats.jsonl import read_object
from trflm.evaluation.formats.records import NotJsonError, parse_json
from trflm.evaluation.nbest import NBestList, Report, refuse


def list_of_row(
    where: str, row: Mapping[str, Any], report: Report = refuse, fields: Mapping[str, str] | None = None
) -> NBestList | None:
    """The n-best list of one row; what is null in it is not there. None if there is none in it and `report` lets it pass."""
    if isinstance(row.get("text"), str) and "hypotheses" not in row:
        try:
            return read_object(where, parse_json(row["text"]), report, fields)
        except NotJsonError as error:
            raise InputError(f"{where}: the column text is not JSON: {error}; write one object a row") from error
    record = _plain(row)
    if {"utterance", "hypotheses"} <= record.keys() and not fields:  # further columns are the user's own
        record = {key: record[key] for key in ("utterance", "reference", "hypotheses") if key in record}
    return read_object(where, record, report, fields)


def _plain(value: Any) -> Any:
    """Lists and dictionaries of Python, without what is null; numpy arrays and the pairs of Arrow's maps, too."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        if value and all(isinstance(item, tuple) and len(item) == 2 for item in value):
            return {key: _plain(item) for key, item in value if item is not None}
        return [_plain(item) for item in value]
    return value
