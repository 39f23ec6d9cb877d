"""A simulated recogniser: text -> phones -> a noisy channel -> a search for the most likely word strings -> n-best lists.

spoken.py          written English as it is said: numbers in words, no punctuation
wikipedia.py       where the demo's text comes from
phones.py          the phones of English and how far apart they are
pronunciations.py  words to phones, and the lexicon as a tree
channel.py         what becomes of phones on the way: the generative model, and the exact likelihood
arcs.py            every word that may explain a stretch of what was heard
prior.py           the weak bigram that steers the search
beam.py, search.py the most likely word strings
exact.py           their likelihoods, to the last digit
lists.py           the whole of it
"""
