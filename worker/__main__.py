"""`python -m worker`: run workflows and activities until stopped."""

import asyncio
import logging
import os
import signal
import sys

import click
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from worker.assembly import worker_of
from worker.attributes import Unregistered, register_attributes
from worker.settings import BadSettings, Settings, settings_from

log = logging.getLogger("worker")


@click.command()
def main() -> None:
    """Run Penstock's workflows and activities."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        asyncio.run(serve(settings_from()))
    except BadSettings as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(2)


async def serve(settings: Settings) -> None:
    """Work until SIGTERM or SIGINT, then finish what is under way."""
    stopped = asyncio.Event()
    for kind in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(kind, stopped.set)
    client = await Client.connect(os.environ["TEMPORAL_ADDRESS"], data_converter=pydantic_data_converter)
    try:
        await register_attributes(client)
    except Unregistered as error:
        log.warning("%s", error)
    worker = worker_of(client, settings)
    async with worker:
        click.echo(f"worker ready on task queue {settings.task_queue} at {client.service_client.config.target_host}")
        await stopped.wait()


if __name__ == "__main__":
    main()
