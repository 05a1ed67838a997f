"""Provider runtimes of `gcp-tpu` and `gce`; Google's libraries are imported on first use."""

import asyncio
from collections.abc import Mapping, Sequence

from activities.providers.gcp.optional_imports import google_installed, load
from activities.providers.gcp.settings import Connection, read
from activities.providers.port import Invalid, Order
from activities.providers.runtime import Opener, ProcessContext, ProviderRuntime, SampleOrder, Settings
from penstock.contract.answers import Finding

ENDPOINT, TPU_ENDPOINT, HEALTH_PORT = "PENSTOCK_GCP_ENDPOINT", "PENSTOCK_GCP_TPU_ENDPOINT", "PENSTOCK_GCP_HEALTH_PORT"
"""Environment variables with the addresses of an emulator of both APIs and of its hosts, for groups without these settings."""
_BY_ENVIRONMENT = {"endpoint": ENDPOINT, "tpu_endpoint": TPU_ENDPOINT, "health_port": HEALTH_PORT}
_CONNECTION = {field.alias or name for name, field in Connection.model_fields.items()}


class GoogleRuntime(ProviderRuntime):
    """One of Google's kinds. Its module imports Google's client libraries, so it is imported on first use."""

    def __init__(self, kind: str, *, module: str, provider: str, endpoint: str) -> None:
        self.kind = kind
        self._module = module
        self._provider = provider
        self._endpoint = endpoint

    async def opener(self, settings: Settings, context: ProcessContext) -> Opener:
        """By the connection alone, so that the groups of a project share a provider.

        The other settings are read with each order: a mistake in them must not prevent listing and deleting.
        """
        connection = connection_of(settings, context.environ)
        loaded = await load(self._module)
        provider = getattr(loaded, self._provider)
        return Opener(connection.model_dump_json(), lambda: provider(connection, context.session()))

    async def check_order(self, order: Order) -> None:
        """Build the create request without sending it. Skipped without Google's libraries: each location reports that."""
        if not google_installed():
            return
        doctor = await load("doctor")
        await asyncio.to_thread(doctor.check_order, self.kind, order)

    async def check_account(self, account: str, orders: Sequence[SampleOrder], environ: Mapping[str, str]) -> list[Finding]:
        """Credentials, clock and quotas of a project. Skipped if its connection settings are invalid: each order reports that."""
        try:
            connection = connection_of(orders[0].order.settings, environ)
            doctor = await load("doctor")
        except Invalid:
            return []
        findings: list[Finding] = await doctor.check_account(self.kind, account, connection, orders)
        return findings

    def needs_credentials(self, settings: Settings, environ: Mapping[str, str]) -> bool:
        """Google's own API needs credentials, an emulator does not."""
        try:
            connection = connection_of(settings, environ)
        except Invalid:
            return False
        return getattr(connection, self._endpoint) is None

    async def missing_credentials(self) -> str | None:
        """The problem with the application default credentials; or that the client libraries are not installed."""
        try:
            credentials = await load("credentials")
        except Invalid as error:
            return str(error)
        sentence: str | None = await asyncio.to_thread(credentials.check_credentials)
        return sentence


TPU = GoogleRuntime("gcp-tpu", module="tpu", provider="TpuProvider", endpoint="tpu_endpoint")
COMPUTE = GoogleRuntime("gce", module="compute", provider="ComputeProvider", endpoint="endpoint")
KINDS = (TPU.kind, COMPUTE.kind)


def connection_of(settings: Settings, environ: Mapping[str, str]) -> Connection:
    """The connection to a project, by the group's settings or else the environment; raises `Invalid`."""
    given = {name: environ[variable] for name, variable in _BY_ENVIRONMENT.items() if environ.get(variable)}
    return read(Connection, given | {name: value for name, value in settings.items() if name in _CONNECTION})
