"""The one look of our pages: `trf report`, `trf reproduce` and the page of `trf serve`, which has its style sheet.

look.css    colours, light and dark, and the classes that everything below uses
page.py     a self-contained page: no scripts, nothing fetched; figures and tables
charts.py   curves and bars as SVG
words.py    words, alignments and terms of scores: the same elements as serve/static/draw.js makes in a browser
"""
