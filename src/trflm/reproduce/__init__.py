"""A table of results from real runs: a directory of recipes in, models, word error rates and a report out, row by row.

plan.py      which rows a table has: RECIPE_DIR/tables.toml
models.py    train what is missing, go on with what is unfinished, take what is there
scores.py    what a model says of the lists, kept between runs
record.py    what results.json holds, row by row
row.py       one row: perplexity, tuning on dev, word errors on test, times
results.py   all rows, and results.json
markdown.py, page.py   the tables for people
"""
