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
    └── LostWorkerError         another process of a job died or does not answer
UserWarning
└── NearerWarning
    └── StoppedEarlyWarning     an iterative method that stopped before it converged
```

Every message says what must hold, what came, and what to do.
"""

__all__ = [
    "CorruptFileError",
    "LabelError",
    "LostWorkerError",
    "MissingDataError",
    "NearerError",
    "NearerWarning",
    "NotFiniteError",
    "ParameterError",
    "ShapeError",
    "StoppedEarlyWarning",
]


class NearerError(ValueError):
    """Anything this library refuses to do."""


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


class LostWorkerError(NearerError):
    """Another process of a job died or does not answer."""


class NearerWarning(UserWarning):
    """Something worth knowing that does not make the result wrong."""


class StoppedEarlyWarning(NearerWarning):
    """An iterative method stopped before it converged."""
