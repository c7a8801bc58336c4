"""The errors that nearer raises, all of them ``ValueError``, and its warnings.

```
ValueError
└── NearerError                 anything this library refuses to do
    ├── ShapeError              wrong rank, length or an empty array
    ├── NotFiniteError          NaN or infinity where a number must be
    ├── LabelError              labels that do not fit the data or the method
    ├── ParameterError          a setting outside its range, or a misspelt name
    ├── MissingDataError        a data file that is neither on disk nor reachable
    ├── CorruptFileError        a file that is truncated, changed, or not what it claims to be
    ├── LimitError              a file that asks for more than a stated limit allows
    ├── LockedError             a folder that another process is writing at this moment
    ├── WriteError              a file that could not be written; also an OSError
    └── LostWorkerError         another process of a job died or does not answer
UserWarning
└── NearerWarning
    └── StoppedEarlyWarning     an iterative method that stopped before it converged
```

Every message says what must hold, what came, and what to do.
"""

import re

__all__ = [
    "CorruptFileError",
    "LabelError",
    "LimitError",
    "LockedError",
    "LostWorkerError",
    "MissingDataError",
    "NearerError",
    "NearerWarning",
    "NotFiniteError",
    "ParameterError",
    "ShapeError",
    "StoppedEarlyWarning",
    "WriteError",
]


class NearerError(ValueError):
    """Anything this library refuses to do.

    Args:
        message: what must hold, what came, and what to do.
        argument: the argument it is about; by default the name in backquotes that the message begins with.

    >>> NearerError("`k` must be at least 1, got 0.").argument
    'k'
    >>> NearerError("Feature columns must be numbers.").argument is None
    True
    """

    def __init__(self, *message: object, argument: str | None = None) -> None:
        super().__init__(*message)
        named = re.match(r"`([A-Za-z_]\w*)`", str(message[0])) if message else None
        self.argument = argument if argument is not None or named is None else named[1]


class ShapeError(NearerError):
    """Wrong rank or length, or an empty array."""


class NotFiniteError(NearerError):
    """NaN or infinity where a number must be."""


class LabelError(NearerError):
    """Labels that do not fit the data or the method."""


class ParameterError(NearerError):
    """A setting outside its range, or a misspelt name."""


class MissingDataError(NearerError):
    """A data file that is neither on disk nor reachable."""


class CorruptFileError(NearerError):
    """A file that is truncated, changed, or not what it claims to be."""


class LimitError(NearerError):
    """A file that asks for more memory, depth or digits than a stated limit allows."""


class LockedError(NearerError):
    """Another process is writing this folder at this moment."""


class WriteError(NearerError, OSError):
    """A file or folder could not be written (full disk, no permission); what was there before is as it was."""


class LostWorkerError(NearerError):
    """Another process of a job died or does not answer."""


class NearerWarning(UserWarning):
    """Something worth knowing that does not make the result wrong."""


class StoppedEarlyWarning(NearerWarning):
    """An iterative method stopped before it converged."""
