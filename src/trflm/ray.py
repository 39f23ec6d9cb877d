"""For Ray: `trflm.ray.Rescorer` is given to `ray.data.Dataset.map_batches` (see deploy/tables.py and docs/scale.md)."""

try:
    from trflm.deploy.tables import Rescorer
except ModuleNotFoundError as error:
    if error.name != "pyarrow":
        raise
    raise ModuleNotFoundError("trflm.ray needs ray and pyarrow: pip install 'trflm[ray]'", name="pyarrow") from error

__all__ = ["Rescorer"]
