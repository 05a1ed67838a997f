"""The way in for controllers and operators."""

from penstock.client.autoscaler import AutoscalerClient
from penstock.client.calls import NoSuchCluster, Refused

__all__ = ["AutoscalerClient", "NoSuchCluster", "Refused"]
