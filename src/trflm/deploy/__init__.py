"""The second pass as one thing that can be moved, loaded and run anywhere.

rescorer.py    the Rescorer: models, weights and text mapping; one list in, the order of its hypotheses out
directory.py   its directory: models by content, weights, mapping, penalties, hashes
stream.py      lists in, entries of a journal out, one after another; shards
tables.py      batches of rows in, batches with results out: what Ray calls
on_ray.py      a job on Ray, in order, into the journal
journal.py     what is done, line by line: what a killed job goes on from
finish.py      from the journal to the results; the join of shards
"""
