"""Opens files that a running server follows: what is no regular file would hold up its reader for ever."""

import errno
import os
import stat


def open_regular(path: str, flags: int) -> int:
    """Return a descriptor, as an ``opener`` of ``open`` does.

    A FIFO that nobody writes to blocks whoever opens it, and a device may never end (open(2), ``O_NONBLOCK``).

    Raises:
        OSError: it cannot be opened, or is no regular file.
    """
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is no regular file", path)
