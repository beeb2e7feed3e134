"""Runs a Python program as `python` would, and lists the files that it used.

    python -m codewalk.jobs.tracer -m module args…
    python -m codewalk.jobs.tracer script.py args…

At the end, however the program ended (os._exit and a kill aside), the files
under $CODEWALK_ROOT that it imported or opened for reading are written to a
file of this process's own in the folder $CODEWALK_INPUTS. What it wrote is no
input, also when it read it back.

Seen is this process alone. A program that it starts inherits the two variables
and is traced if it is itself run through this module; else only its script is
listed, and that when it is a .py file named on its command line.
"""

import atexit
import builtins
import importlib.util
import io
import json
import os
import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import ModuleSpec
from pathlib import PurePath
from types import CodeType, ModuleType
from typing import Any

_WRITES = os.O_WRONLY | os.O_RDWR


class Tracer:
    """Hears which files this process opens."""

    def __init__(self, root: str):
        self.root = os.path.realpath(root)
        self._read: set[str] = set()
        self._written: set[str] = set()
        self._over = False

    def hear(self, event: str, args: tuple[Any, ...]) -> None:
        """The audit hook. It only notes names: it runs at every open."""
        if self._over:
            return
        if event == "open":
            self._opened(args[0], args[2])
        elif event == "os.rename":
            self._note(args[1], self._written)
        elif event == "subprocess.Popen":
            self._started(args[1], args[2])

    def files(self) -> list[str]:
        """The files under the root that were used, as paths from it, sorted."""
        written = {os.path.realpath(path) for path in self._written}
        read = {self._inside(path) for path in self._read.copy()}
        loaded = {
            self._inside(path)
            for path in _loaded()
            if path not in written and os.path.isfile(path)
        }
        return sorted(path for path in read | loaded if path)

    def save(self, folder: str) -> None:
        """Writes the list, whole, to a file named after the process."""
        self._over = True
        path = os.path.join(folder, f"{os.getpid()}.json")
        with open(path + ".tmp", "w", encoding="ascii") as file:
            json.dump(self.files(), file)
        os.replace(path + ".tmp", path)

    def _opened(self, path: Any, flags: Any) -> None:
        if isinstance(flags, int) and flags & _WRITES:
            self._note(path, self._written)
        else:
            self._note(path, self._read)

    def _started(self, words: Any, folder: Any) -> None:
        if isinstance(words, str | bytes) or not isinstance(words, Iterable):
            return
        for word in words:
            if str(word).endswith(".py"):
                self._note(os.path.join(folder or "", str(word)), self._read)

    def _note(self, path: Any, names: set[str]) -> None:
        try:
            # Now: a relative name means the folder of this moment.
            name = os.path.abspath(os.fsdecode(path))
        except (TypeError, ValueError, OSError):
            return  # an open file's number, or no folder to be relative to
        if names is self._read:
            name = _source_of(name)
            # Now, too: what goes away before the end was an input all the same.
            if name in self._written or not os.path.isfile(name):
                return
        names.add(name)

    def _inside(self, path: str) -> str:
        """`path` from the root; empty where it is not below it."""
        real = os.path.realpath(path)
        if not real.startswith(self.root + os.sep):
            return ""
        return PurePath(os.path.relpath(real, self.root)).as_posix()


def _loaded() -> list[str]:
    """The real paths of the sources of all modules."""
    paths = []
    for module in list(sys.modules.values()):
        # Not getattr: a lazy module would import what it is asked for.
        names = getattr(module, "__dict__", {})
        origin = getattr(names.get("__spec__"), "origin", None)
        for path in (names.get("__file__"), origin):
            if isinstance(path, str):
                paths.append(os.path.realpath(_source_of(path)))
    return paths


def _source_of(path: str) -> str:
    """The source of a compiled file, any other path as it is."""
    folder, name = os.path.split(path)
    above, last = os.path.split(folder)
    if not name.endswith(".pyc") or last != "__pycache__":
        return path
    # Not importlib's source_from_cache: it refuses the names that pytest makes.
    return os.path.join(above, name.partition(".")[0] + ".py")


def begin(root: str) -> Tracer:
    """A tracer that hears this process from now on."""
    tracer = Tracer(root)
    sys.addaudithook(tracer.hear)
    return tracer


def main(words: Sequence[str]) -> None:
    """Traces, where the environment asks for it, and becomes the program."""
    root, folder = os.environ.get("CODEWALK_ROOT"), os.environ.get("CODEWALK_INPUTS")
    if root and folder:
        # Registered first and so called last: the program's own come before.
        atexit.register(begin(root).save, folder)
    if len(words) > 1 and words[0] == "-m":
        _run_module(words[1], words[2:])
    elif words and not words[0].startswith("-"):
        _run_script(words[0], words[1:])
    else:
        print("codewalk.jobs.tracer: expected -m MODULE or SCRIPT", file=sys.stderr)
        sys.exit(2)


def _run_module(name: str, words: Sequence[str]) -> None:
    sys.argv = ["-m", *words]
    spec = _spec(name)
    get_code = getattr(spec and spec.loader, "get_code", None)
    if spec is None or get_code is None:
        sys.exit(f"{sys.executable}: No module named {name}")
    sys.argv[0] = spec.origin or name
    _become_main(get_code(spec.name), spec, spec.origin)


def _spec(name: str) -> ModuleSpec | None:
    """The module that `-m name` runs: of a package, its __main__."""
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            return importlib.util.find_spec(f"{name}.__main__")
    except ModuleNotFoundError as error:
        # A part of the dotted name is missing; what a package itself misses is
        # its own error.
        if not f"{name}.__main__".startswith(f"{error.name}."):
            raise
        return None
    return spec


def _run_script(path: str, words: Sequence[str]) -> None:
    whole = os.path.join(os.getcwd(), path)
    try:
        with io.open_code(whole) as file:
            source = file.read()
    except OSError as error:
        print(f"{sys.executable}: can't open file {path!r}: {error}", file=sys.stderr)
        sys.exit(2)
    sys.argv = [path, *words]
    if not sys.flags.safe_path:
        sys.path[0] = os.path.dirname(os.path.realpath(path))
    _become_main(compile(source, whole, "exec", dont_inherit=True), None, whole)


def _become_main(code: CodeType, spec: ModuleSpec | None, path: str | None) -> None:
    """Runs code as a fresh __main__, which stays: runpy would take it away again
    before threads and exit handlers are through, and pickle would miss it."""
    module = ModuleType("__main__")
    vars(module).update(
        __builtins__=builtins,
        __file__=path,
        __loader__=spec.loader if spec else None,
        __package__=spec.parent if spec else None,
        __spec__=spec,
    )
    sys.modules["__main__"] = module
    exec(code, vars(module))


if __name__ == "__main__":
    # By its name: `__main__` is about to be another module.
    from codewalk.jobs import tracer

    tracer.main(sys.argv[1:])
