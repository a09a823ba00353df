"""Batched positional file I/O (native)."""

import numpy as np
import numpy.typing as npt

class Batch:
    """A submitted batch. The memory behind it must stay alive until it is done."""

    def wait(self) -> tuple[int, int] | None:
        """Help with the batch until no transfer is in flight; the GIL is released.

        Returns the first failure as (errno, file offset), errno 0 where the file ended early, or None.
        """

    def done(self) -> bool:
        """Whether :meth:`wait` would return at once."""

class PoolEngine:
    """Persistent threads that perform batches with preadv and pwritev."""

    def __init__(self, threads: int) -> None: ...
    def submit(
        self,
        fd: int,
        write: bool,
        offsets: npt.NDArray[np.int64],
        addresses: npt.NDArray[np.uint64],
        lengths: npt.NDArray[np.int64],
    ) -> Batch:
        """Start transfers between file ``offsets`` and memory ``addresses``; one length for each or one for all."""

def allocate(fd: int, offset: int, length: int) -> int:
    """fallocate(2): reserve a file range. Returns 0 or an errno (EOPNOTSUPP where the file system cannot)."""
