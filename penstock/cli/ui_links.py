"""Addresses of the Temporal UI: where it is, and links to workflows and to filtered lists of them."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import quote

import click

from penstock.contract.addresses import TEMPORAL_PORT, TEMPORAL_UI_PORT
from penstock.local_service import read_note

if TYPE_CHECKING:
    from temporalio.client import Client

_CLOUD_HOSTS = (".tmprl.cloud", ".api.temporal.io")
_CLOUD_UI = "https://cloud.temporal.io"

F = TypeVar("F", bound=Callable[..., Any])


def ui_option(command: F) -> F:
    """Add --ui."""
    return click.option(
        "--ui", metavar="URL", envvar="PENSTOCK_UI_URL", help="Address of the Temporal UI, else PENSTOCK_UI_URL, else found."
    )(command)


class UiLinks(NamedTuple):
    """The UI's address and the namespace; `guessed` if the address only follows from that of the server."""

    url: str
    namespace: str
    guessed: bool = False

    @classmethod
    def of(cls, client: "Client", given: str | None) -> "UiLinks":
        """The UI of a server: the given address, else the one that `make run` noted for this server, else the usual one."""
        address = client.service_client.config.target_host
        noted = read_note("ui") if address == read_note("address") else None
        known = given or os.environ.get("PENSTOCK_UI_URL") or noted
        return cls((known or ui_address(address)).rstrip("/"), client.namespace, guessed=known is None)

    @property
    def workflows(self) -> str:
        """The list of all workflows."""
        return f"{self.url}/namespaces/{quote(self.namespace, safe='')}/workflows"

    def filtered(self, query: str) -> str:
        """The list of the workflows that a query finds."""
        return f"{self.workflows}?query={quote(query, safe='')}"

    def workflow(self, workflow_id: str, run_id: str | None = None) -> str:
        """One workflow, in its latest run unless one is named."""
        link = f"{self.workflows}/{quote(workflow_id, safe='')}"
        return link if run_id is None else f"{link}/{run_id}/history"


def ui_address(server: str) -> str:
    """The usual address of a server's UI: that of Temporal Cloud, else the server's host at a port 1000 above the server's."""
    host, _, port = server.rpartition(":")
    if host.endswith(_CLOUD_HOSTS):
        return _CLOUD_UI
    above = int(port) + TEMPORAL_UI_PORT - TEMPORAL_PORT if port.isdigit() else TEMPORAL_UI_PORT
    return f"http://{host or server}:{above}"
