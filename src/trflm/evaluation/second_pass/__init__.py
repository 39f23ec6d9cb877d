"""Second pass: score the hypotheses with language models, combine, take the best of each utterance.

    score = acoustic + scale * sum_k weight_k * (LM_k - oov_penalty * OOV_k) + word_penalty * words

LM_k is the natural-log probability of the whole sentence, OOV_k how many of its words model k does not know. `<unk>`
stands for many words at once: log p(word) = log p(<unk>) - ln(types), so every unknown word costs the OOV penalty; its
default is ln of the number of unknown word types in the lists. Words are the recogniser's own, models see mapped text.

files.py, lists.py   read: the files of a set; its lists, what was said, the text as models see it
scores.py            score: what a model says of every hypothesis
combine.py           combine and choose: the score above, the best of each utterance; `rescore` for Python
results.py           measure and write: word errors against those without a second pass, weights.json and result.json

The Python API, `trf tune`, `trf rescore` and `trf reproduce` all go this way.
"""
