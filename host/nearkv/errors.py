"""Errors that a person can act on. Everything else that escapes nearkv is a bug."""

from nearkv_drivers.device import DeviceError, StorageError
from nearkv_drivers.wire import ContractError


class UnsupportedError(NotImplementedError):
    """The model, layer, argument or cache operation is not supported; the message names it."""


class MemoryLimitError(ValueError):
    """The DRAM limit is too small for what must be in memory; the message says how much is needed."""


class InputError(ValueError):
    """What a person gave cannot be used; the message names it and says what to do."""


USER_ERRORS = (UnsupportedError, MemoryLimitError, InputError, ContractError, DeviceError, StorageError)
"""What the command line turns into one sentence."""
