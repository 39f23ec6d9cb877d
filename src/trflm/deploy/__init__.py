"""The second pass as one thing that can be moved, loaded and run anywhere.

rescorer.py    the Rescorer: models, weights and text mapping; one list in, the order of its hypotheses out
directory.py   its directory: models by content, weights, mapping, penalties, hashes
"""
