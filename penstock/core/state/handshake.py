"""Who may still name an older revision of the configuration: once after each change, and not again."""

from penstock.contract.problems import BadMessage
from penstock.core.state.state import AutoscalerState

KEPT_SENDERS = 100
"""Senders that are remembered, the latest: a forgotten one may name an older revision once more."""


def is_from_old_config(state: AutoscalerState, sender: str, revision: int | None) -> bool:
    """Whether a message was made for an older configuration, and is taken all the same; raises `BadMessage` the next time."""
    newest = state.config_revision
    if revision is None or revision == newest:
        return False
    if revision > newest:
        raise BadMessage(
            f"config_revision: {revision} does not exist, the cluster is at revision {newest} of its configuration;"
            " read the status and send it again"
        )
    if sender in state.used_old_config:
        raise BadMessage(taken_already(revision, newest))
    return True


def taken_already(revision: int, newest: int) -> str:
    """Why a message is refused that was made for an older configuration."""
    return (
        f"config_revision: {revision} is older than {newest}, the newest, and an older one was taken once already; read the"
        f" configuration and send it again with {newest}"
    )


def remembered(state: AutoscalerState, sender: str) -> tuple[str, ...]:
    """Who has named an older revision, with this sender among them."""
    return (*(other for other in state.used_old_config if other != sender), sender)[-KEPT_SENDERS:]


def reporting(source: str) -> str:
    """A source of pressure as a sender."""
    return f"pressure/{source}"


def requesting(owner: str) -> str:
    """The owner of a standing request as a sender."""
    return f"request/{owner}"
