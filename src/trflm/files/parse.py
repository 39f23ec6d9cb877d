"""JSON and TOML from anywhere: whatever is wrong with the text is a ValueError, also brackets a hundred thousand deep."""

import json
import tomllib
from typing import Any


def parse_json(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def parse_toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
