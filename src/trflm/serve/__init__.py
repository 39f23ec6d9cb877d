"""The second pass as a service over HTTP (`trf serve`). It needs the extra `serve`; nothing else in trflm imports it.

settings.py     what an operator says: address, token, limits, processes
messages.py     requests and answers, as pydantic checks them and OpenAPI shows them
answers.py      a request and a Rescorer in, an answer out: no HTTP
parsing.py      the text of an n-best file in, its lists out
examples.py     lists to try
metrics.py      what an operator watches
pool.py         who may score now, who waits, who is sent away; the Rescorer that is in use
lines.py        a stream of lists, answered as a stream
errors.py       the faults of a request, each with its status
guard.py        around everything: token, host, headers, counts
app.py          the endpoints
worker.py       one process that serves
supervisor.py   several of them, restarted when they die
static/         the page
"""
