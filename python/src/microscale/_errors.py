"""What the library's errors are in Python: one class, microscale.Error, and Python's own beside it."""

from __future__ import annotations


class Error(RuntimeError):
    """An operation was refused or failed. `code` says why: "invalid_argument", "bad_input", "unsupported",
    "check_failed", "out_of_memory", "io" or "interrupted". Each is also the exception that Python has for
    it: ValueError (the first two), NotImplementedError, MemoryError, OSError."""

    code = "check_failed"


class InvalidArgument(Error, ValueError):
    """The call is wrong."""

    code = "invalid_argument"


class BadInput(Error, ValueError):
    """A file or its contents are wrong: malformed, inconsistent, not finite."""

    code = "bad_input"


class Unsupported(Error, NotImplementedError):
    """Well-formed, but nothing here handles it."""

    code = "unsupported"


class OutOfMemory(Error, MemoryError):
    """A buffer could not be had."""

    code = "out_of_memory"


class InputOutput(Error, OSError):
    """Reading or writing failed."""

    code = "io"


class NotFound(InputOutput, FileNotFoundError):
    """A file or folder is not there."""


class NotPermitted(InputOutput, PermissionError):
    """A file or folder may not be read or written."""


class Interrupted(Error):
    """A progress function returned False; what is finished is kept."""

    code = "interrupted"


_kinds = (Error, InvalidArgument, BadInput, Unsupported, OutOfMemory, InputOutput, Interrupted)
_classes = {kind.code: kind for kind in _kinds}


def error_of(code: str, message: str) -> Error:
    from ._spellings import in_python  # now: most programs see no error, and it takes time to import

    message = in_python(message)
    if code == "io":
        return _input_output(message)
    return _classes.get(code, Error)(message)


def _input_output(message: str) -> Error:
    """With the errno whose text the message has, and the class that Python has for that."""
    import errno
    import os

    kinds = {errno.ENOENT: NotFound, errno.EACCES: NotPermitted, errno.EPERM: NotPermitted}
    rest = (errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EMFILE)
    for number in (*kinds, *rest, errno.ENAMETOOLONG):
        if f": {os.strerror(number)}" in message:
            made = kinds.get(number, InputOutput)(message)
            made.errno = number
            return made
    return InputOutput(message)
