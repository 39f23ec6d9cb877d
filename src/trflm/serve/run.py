"""The service from its settings to its end: in this process, or in several below it."""

import asyncio
import sys

from trflm.serve.settings import Settings, url
from trflm.serve.telling import READY, say


def run(settings: Settings) -> None:
    """Until SIGTERM or SIGINT. Ends the process if it did not end well."""
    bound = settings.bind()
    ready = f"serving {settings.rescorer} at {url(bound)}"
    if settings.workers > 1:
        from trflm.serve.supervisor import supervise

        status = supervise(settings, bound, ready)
        if status:
            sys.exit(status)
        return
    from trflm.serve.worker import Worker

    async def serve() -> None:
        await Worker(settings, bound, lambda word: say(ready) if word == READY else None).run()

    asyncio.run(serve())
