"""`python -m worker`: run Penstock's workflows and activities until a signal stops them."""

import asyncio
import signal

if __name__ == "__main__":
    # Ctrl-C during the imports below ends the process without a traceback; `stop_signal` installs its own handlers later.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import click

from worker.exits import MISUSED, STUCK, fail, run_and_exit
from worker.serving import connected, stop_signal, watch_activations, working
from worker.settings import BadSettings, Settings, settings_from
from worker.telemetry import configure_runtime, log_to


@click.command()
def main() -> None:
    """Run Penstock's workflows and activities until stopped.

    The worker finds its Temporal server as Temporal's own tools do: by TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_API_KEY, …
    `python -m embedded` runs a worker together with a server of its own.
    """
    try:
        settings = settings_from()
        configure_runtime(settings)
    except BadSettings as error:
        fail(error, MISUSED)
    log_to(None)
    run_and_exit(_serve(settings))


async def _serve(settings: Settings) -> signal.Signals:
    """Work until a signal, then finish the activities in flight; returns the signal."""
    stopped = stop_signal()
    client = await connected()
    async with working(client, settings):
        click.echo(f"worker ready on task queue {settings.task_queue} at {client.service_client.config.target_host}")
        watch = asyncio.create_task(watch_activations())
        await asyncio.wait((stopped, watch), return_when=asyncio.FIRST_COMPLETED)
        if watch.done() and (error := watch.exception()):
            fail(error, STUCK)  # At once: an orderly stop would wait for the stuck workflow.
        watch.cancel()
    click.echo("worker stopped")
    return stopped.result()


if __name__ == "__main__":
    main()
