"""Kernels that start at once: forked from one process with PyTorch and the library imported.

A notebook's kernel spends its first seconds on imports, the same ones in every chapter. `Nursery`
starts this file as a process that imports them once. Asked for a kernel, it forks itself, and the
copy runs ipykernel as `python -m ipykernel_launcher` would, with its folder, environment variables,
connection file, and a session of its own. When the build ends, however it ends, the connection to
that process closes, and it ends with all its kernels.

Windows cannot fork, and on macOS it is not safe once such libraries are loaded. `Nursery.possible`
says so, and kernels start there in the ordinary way.
"""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import threading
import time
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

# ipykernel comes first: tqdm asks at its import whether it runs in a notebook.
IMPORTS = (
    "ipykernel.kernelapp", "ipykernel.ipkernel", "ipykernel.zmqshell",
    "torch", "torch._dynamo", "matplotlib.pyplot", "sklearn.cluster", "sklearn.decomposition",
    "sklearn.linear_model", "sklearn.metrics", "sklearn.mixture",
    "bayeswind_lib", "bayeswind_lib.dynamics", "bayeswind_lib.exercises", "bayeswind_lib.figures",
    "bayeswind_lib.language", "bayeswind_lib.ledger", "bayeswind_lib.probes",
    "bayeswind_lib.widgets",
)  # fmt: skip
LAUNCHER = ("-m", "ipykernel_launcher")


class Nursery:
    """A process with the imports done, which forks kernels.

    Args:
        imports: the modules that a kernel finds imported; one that cannot be imported is left out.
        python: the interpreter (default: this one).
        env: the whole environment in which it imports (default: this process's).
    """

    possible = hasattr(os, "fork") and sys.platform != "darwin"

    def __init__(
        self, imports: tuple[str, ...], python: str = sys.executable, env: dict | None = None
    ):
        self.connection, theirs = Pipe()
        command = [python, __file__, str(theirs.fileno()), *imports]
        settings = {"stdin": subprocess.DEVNULL, "start_new_session": True, "env": env}
        self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()], **settings)
        theirs.close()
        self.lock = threading.Lock()

    def ask(self, *question):
        """Send a question and wait for its answer; several threads may ask."""
        with self.lock:
            self.connection.send(question)
            return self.connection.recv()

    def knows(self, command: list[str]) -> bool:
        """Whether this command starts an IPython kernel of this interpreter."""
        return command[0] == sys.executable and tuple(command[1:3]) == LAUNCHER

    def kernel(self, command: list[str], cwd: str | None, env: dict[str, str]) -> Kernel:
        """Fork a kernel that does what the command would, in a folder and an environment."""
        return Kernel(self, self.ask("fork", command[3:], str(cwd or Path.cwd()), env))

    def close(self) -> None:
        """End the process and whatever kernels are left."""
        self.connection.close()
        self.process.wait()


class Kernel:
    """A forked kernel, with as much of `subprocess.Popen` as jupyter_client uses."""

    stdin = stdout = stderr = None

    def __init__(self, nursery: Nursery, pid: int):
        self.nursery, self.pid = nursery, pid
        self.returncode: int | None = None
        self.processor_seconds: float | None = None

    def poll(self) -> int | None:
        """The exit code, None while it runs; `processor_seconds` is set at the end."""
        if self.returncode is None:
            try:
                end = self.nursery.ask("end", self.pid)
            except (EOFError, OSError):  # the process that forks has ended, and its kernels with it
                end = -signal.SIGKILL, None
            if end:
                self.returncode, self.processor_seconds = end
        return self.returncode

    def wait(self) -> int:
        """Wait for the exit code."""
        while self.poll() is None:
            time.sleep(0.05)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)


def serve(connection: Connection) -> tuple | None:
    """Answer until the other end closes. In a forked kernel, return what it has to run."""
    running, ended = set(), {}

    def reap(*_) -> None:
        for pid in list(running):
            found, status, used = os.wait4(pid, os.WNOHANG)
            if found:
                running.discard(pid)
                ended[pid] = os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime

    while True:
        try:
            kind, *what = connection.recv()
        except (EOFError, OSError):
            break
        reap()
        if kind == "end":
            connection.send(ended.get(what[0]))
        elif pid := os.fork():
            running.add(pid)
            connection.send(pid)
        else:
            os.setsid()
            connection.close()
            return what
    for pid in running:
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:  # it has not come to its session yet
            os.kill(pid, signal.SIGKILL)
    return None


def become_kernel(arguments: list[str], cwd: str, env: dict[str, str]) -> None:
    """Run ipykernel here, in a process that was just forked, as if it had been started anew.

    At its end it does what Python does at its exit, but takes no module apart: that would first
    copy the memory which it shares with the process that it was forked from.
    """
    import atexit

    import numpy as np
    from ipykernel.kernelapp import IPKernelApp

    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env, JPY_PARENT_PID=str(os.getppid()))
    np.random.seed()  # else every page would draw the same "random" numbers
    sys.argv = [LAUNCHER[1], *arguments]
    IPKernelApp.launch_instance(arguments, parent_handle=os.getppid(), log_level="ERROR")
    # ipykernel stops this thread after the one that sends what was printed, and one kernel in fifty
    # then waits ten seconds for something to be sent.
    control = IPKernelApp.instance().control_thread
    if control.is_alive():
        control.stop()
        control.join()
    threading._shutdown()
    atexit._run_exitfuncs()
    os._exit(0)


def main() -> None:
    """Import, then serve."""
    import gc

    connection = Connection(int(sys.argv[1]))
    del sys.path[0]  # this file's folder
    # ipykernel sets this name in every kernel, and Matplotlib reads it when it is imported.
    os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    for name in sys.argv[2:]:
        try:
            importlib.import_module(name)
        except ImportError:
            continue  # a chapter that needs it says what is wrong
    gc.collect()
    gc.freeze()  # the copies share this memory: a collection does not write into it
    if order := serve(connection):
        become_kernel(*order)


if __name__ == "__main__":
    main()
