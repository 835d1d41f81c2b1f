"""Who does the work: processes of this machine, a Dask cluster, MPI ranks; and results in order, a few at a time.

Any `concurrent.futures.Executor` will do. Nothing here is imported before somebody asks for workers.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import os
import re
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

from comp_comm.errors import CompcommError, ConfigError, MissingExtraError
from comp_comm.version import __version__

AHEAD = 3  # tasks given out for each worker: enough that none waits, few enough that memory stays small
PROCESSES, DASK, MPI = "processes", "dask", "mpi"
MPI_CALL = "mpiexec -n RANKS python -m mpi4py.futures -m comp_comm"
CONNECT_SECONDS, CLOSE_SECONDS = 10, 5
LOOK_SECONDS, LOOKS = 1.0, 10  # how often a cluster is looked for that does not answer, and how often in vain
ADDRESS = re.compile(r"(tcp|tls|ws|wss|ucx)://(?:[\w.-]{1,253}|\[[0-9a-fA-F:.%\w]{2,60}\]):([0-9]{1,5})$")
Result = TypeVar("Result")


@contextmanager
def open_executor(name: str | None, jobs: int | None) -> Iterator[Executor | None]:
    """Give the executor that ``--executor`` and ``--jobs`` ask for; None where one process is enough.

    Raises ``ConfigError`` for one there is not, and ``MissingExtraError`` where its library is not installed.

    >>> with open_executor(None, 1) as executor:
    ...     print(executor)
    None
    """
    kind, _, address = (name or PROCESSES).partition(":")
    if jobs is not None and jobs < 1:
        raise ConfigError(f"--jobs must be at least 1, not {jobs}")
    if kind == DASK and address:
        if jobs is not None:
            raise ConfigError(f"--jobs has no effect with --executor {name}: the cluster has as many workers as it has")
        opened = _dask(address)
    elif name == MPI:
        opened = _mpi(jobs)
    elif name in (None, PROCESSES):
        count = jobs if jobs is not None else 1 if name is None else os.cpu_count() or 1
        opened = [] if count == 1 else [processes(count)]
    else:
        raise ConfigError(f"--executor {name}: allowed: {PROCESSES}, {DASK}:tcp://HOST:PORT, {MPI}")
    with ExitStack() as stack:
        for one in opened:
            stack.enter_context(one)
        executor = opened[-1] if opened else None
        try:
            yield executor
        except BaseException:
            _abandon(executor)  # nobody waits for work that is no longer wanted
            raise


def processes(count: int) -> Executor:
    """Return an executor of so many processes of this machine, started afresh: that works on every platform."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    try:
        return ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), initializer=_begin_worker)
    except ValueError as error:  # more than the platform can wait for
        raise ConfigError(f"--jobs {count}: {error}") from None


def _begin_worker() -> None:
    """Leave Ctrl-C to the parent, and end with it: a killed parent can tell its workers nothing."""
    import multiprocessing
    from multiprocessing.connection import wait

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def end() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()


def _dask(address: str) -> list[Any]:
    try:
        from distributed import Client
    except ImportError:
        raise MissingExtraError("--executor dask", DASK) from None
    _check_address(address)
    for logger in logging.root.manager.loggerDict:
        if logger.split(".")[0] in ("distributed", "tornado", "asyncio"):
            logging.getLogger(logger).setLevel(logging.CRITICAL)  # what goes wrong is said once, by us
    try:
        client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except Exception as error:
        raise ConfigError(f"--executor dask:{address}: no scheduler answers there ({error})") from None
    executor = client.get_executor()
    executor.num_workers = sum(client.ncores().values())
    if not executor.num_workers:
        _close(client)
        raise ConfigError(f"--executor dask:{address}: the cluster has no workers")
    executor.is_there = lambda: client.status == "running"
    return [_closing(client), executor]


@contextmanager
def _closing(client: Any) -> Iterator[None]:
    try:
        yield
    finally:
        _close(client)


def _close(client: Any) -> None:
    """Close a client, whose scheduler may have gone away."""
    with contextlib.suppress(Exception):
        client.close(timeout=CLOSE_SECONDS)


def _check_address(address: str) -> None:
    """Raise ``ConfigError`` for what is no address of a scheduler: Dask itself would wait, and print tracebacks."""
    match = ADDRESS.match(address)
    if match is None or not 0 < int(match.group(2)) < 2**16:
        raise ConfigError(f"--executor dask:{address}: no address of a scheduler; write dask:tcp://HOST:PORT")
    if match.group(1) == "tls":
        from distributed.security import Security

        if Security().get_connection_args("client").get("ssl_context") is None:
            raise ConfigError(f"--executor dask:{address}: Dask's configuration names no certificates for tls")


def _mpi(jobs: int | None) -> list[Any]:
    try:
        from mpi4py.futures import MPIPoolExecutor, _core
    except ImportError:
        raise MissingExtraError("--executor mpi", MPI) from None
    except RuntimeError as error:  # mpi4py is there, the library it loads is not
        raise ConfigError(f"--executor mpi: {str(error).splitlines()[0]}") from None
    # Without a launcher that made the ranks, mpi4py would have to start some, which few installations can.
    if getattr(_core, "SharedPool", True) is None:
        raise ConfigError(f"--executor mpi works on ranks that are there: {MPI_CALL} ...")
    # A large result goes in small parts, each at one look at the messages: rows need more looks than the usual 1,000/s.
    return [MPIPoolExecutor(jobs, backoff=1e-5)]


def _abandon(executor: Executor | None) -> None:
    if executor is None:
        return
    if "cancel_futures" in inspect.signature(executor.shutdown).parameters:
        executor.shutdown(wait=False, cancel_futures=True)
    else:  # Dask's, which cancels whatever it does not wait for; it may be what went away
        with contextlib.suppress(Exception):
            executor.shutdown(wait=False)


def workers_of(executor: Executor) -> int:
    """Return how many workers an executor has, as far as it says so."""
    for name in ("num_workers", "_max_workers"):
        count = getattr(executor, name, None)
        if isinstance(count, int) and count > 0:
            return count
    return os.cpu_count() or 1


def in_order(executor: Executor, function: Callable[..., Result], calls: Iterable[tuple[Any, ...]]) -> Iterator[Result]:
    """Yield what ``function`` returns of each call, in their order; only a few calls are out at any time.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with ThreadPoolExecutor(2) as two:
    ...     list(in_order(two, pow, [(2, 3), (3, 2)]))
    [8, 9]
    """
    waiting: deque[Future[Result]] = deque()
    most = AHEAD * workers_of(executor)
    try:
        for call in calls:
            while len(waiting) >= most:
                yield _result(waiting.popleft(), executor)
            waiting.append(_submit(executor, function, call))
        while waiting:
            yield _result(waiting.popleft(), executor)
    finally:
        for future in waiting:
            future.cancel()


def _submit(executor: Executor, function: Callable[..., Result], call: tuple[Any, ...]) -> Future[Result]:
    """Submit a call. Processes may start here: Ctrl-C must not meet them before they have learnt to ignore it."""
    if not hasattr(signal, "pthread_sigmask"):
        return executor.submit(function, *call)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        return executor.submit(function, *call)
    except BrokenExecutor as error:
        raise _broken() from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _waited(future: Future[Result], executor: Executor) -> Result:
    """Return a result when it is there; a cluster that goes away may never say so."""
    is_there: Callable[[], bool] | None = getattr(executor, "is_there", None)
    if is_there is None:
        return future.result()
    missed = 0
    while True:
        try:
            return future.result(timeout=LOOK_SECONDS)
        except FutureTimeoutError:
            if future.done():  # now, or it is the work that took too long for somebody
                return future.result()
            missed = 0 if is_there() else missed + 1
            if missed >= LOOKS:
                raise CancelledError from None


def _result(future: Future[Result], executor: Executor) -> Result:
    """Return a result; whatever a worker raised comes out as one message."""
    try:
        return _waited(future, executor)
    except CompcommError:
        raise
    except BrokenExecutor as error:
        raise _broken() from error
    except CancelledError as error:
        raise WorkerError("the cluster went away before its work was done") from error
    except Exception as error:
        raise WorkerError(f"a worker failed: {type(error).__name__}: {error}") from error


class WorkerError(CompcommError):
    """A worker raised what is no error of the user's, or ended."""

    exit_code = 1


def _broken() -> WorkerError:
    return WorkerError("a worker process ended before its work was done (killed, or out of memory); try fewer --jobs")


def check_version(version: str) -> None:
    """Raise ``WorkerError`` where a worker runs another version than who gave it the work: it may count otherwise."""
    if version != __version__:
        raise WorkerError(f"a worker has compcomm {__version__}, this is {version}; install the same on both")
