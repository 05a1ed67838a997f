"""Google's protobuf modules, which come without types, and the name that stands for their messages."""

from typing import Any, TypeAlias

from google.cloud.location import locations_pb2  # type: ignore[import-untyped]
from google.longrunning import operations_pb2  # type: ignore[import-untyped]
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

Message: TypeAlias = Any
"""A protobuf message, whose fields are known at run time only."""

__all__ = ["Message", "error_details_pb2", "locations_pb2", "operations_pb2", "status_pb2"]
