"""Pages to look at: what came out, and why (`trf report`). One self-contained HTML file each.

quantities.py   metrics.jsonl, and what each quantity in it means
training.py     a training run, or an n-gram model
side_by_side.py several runs
rescored.py     a directory of `trf rescore`: word errors, what changed, which terms decided
"""
