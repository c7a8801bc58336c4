"""The application: a service, its endpoints, and the gate in front of them."""

from __future__ import annotations

import os

from nearer.app.server._endpoints import endpoints_of
from nearer.app.server._gate import Gate
from nearer.app.server._logs import Log
from nearer.app.server._service import Service
from nearer.app.server._settings import Settings
from nearer.app.server._state import Place
from nearer.exceptions import ParameterError


def create_app(
    model: str | os.PathLike[str],
    index: str | os.PathLike[str],
    *,
    settings: Settings | None = None,
    create: bool = False,
) -> Gate:
    """An ASGI application that serves a model and an index, for any ASGI server; `serve` runs it with uvicorn.

    Run it in one process: the embedded index has one writer.

    >>> import tempfile
    >>> import nearer
    >>> rows, labels = [[0.0, 1.0], [0.1, 0.9], [5.0, 5.0], [5.1, 4.9]] * 8, [0, 0, 1, 1] * 8
    >>> model = nearer.fit(rows, labels, metric="lfda")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     saved = model.save(f"{folder}/model")
    ...     app = create_app(saved, f"{folder}/index", create=True)  # for uvicorn.run, or mounted in an application

    Args:
        model: a folder that `nearer fit` or `Model.save` wrote.
        index: a folder, or a URL that `nearer.index.open_index` takes; made by this model.
        settings: limits and tokens.
        create: make an empty index if there is none.
    """
    settings = settings or Settings()
    if not str(index):
        raise ParameterError("`index` must be a folder or a URL, got nothing.")
    service = Service(Place(os.fspath(model), os.fspath(index), create), settings, Log(settings.log))
    return Gate(service, endpoints_of(service))
