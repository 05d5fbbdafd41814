"""Backpropagators, the jobs that made them, and resolving: each is called once at most, after all that call it.

A `Node` is a backpropagator.  It is known by the job that made it and its place there: that is the paper's compound
identifier, and the order of a job's list is the order of its identifiers.  Where a program forks its tasks, a job ends;
each branch begins one, and another begins where they join: 3 forks + 1 jobs of forks in two.  Resolving goes through
the jobs backwards: forks become joins.

Calling a backpropagator is *staged*: what sends it an adjoint adds to `Node.adjoint`, and when its turn comes it sends
on the sum.  That is linear factoring, f x + f y = f (x + y).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from futad.dual import numbers
from futad.dual.numbers import Shape, Value


@dataclass(slots=True)
class Counts:
    """What all derivatives of a run came to: backpropagators made and called (`most`: the most calls of one along one
    direction), forks and jobs, the longest chain of backpropagators of which each calls the next, and the longest of
    jobs; array elements that backpropagators were of."""

    made: int = 0
    calls: int = 0
    most: int = 0
    forks: int = 0
    jobs: int = 0
    chain: int = 0
    job_chain: int = 0
    elements: int = 0


class Node:
    """A backpropagator of values of a shape: `pull` sends its adjoint on to those of what the values were made of."""

    __slots__ = ("level", "shape", "dtype", "pull", "adjoint", "calls", "depth", "_owned")

    def __init__(
        self, level: Reverse, shape: Shape, dtype: Any, pull: Callable[[Node], None] | None, depth: int
    ) -> None:
        self.level, self.shape, self.dtype, self.pull, self.depth = level, shape, dtype, pull, depth
        self.calls = 0
        self.clear()

    def clear(self) -> None:
        """No adjoint, for another direction."""
        self.adjoint: Value = None
        self._owned = False

    def add(self, value: Value, owned: bool = False) -> None:
        """Stage a call.  `owned`: nothing else has the value, which may be overwritten.  It has as many elements as
        the node's values, in the same order."""
        value = value if value.shape == self.shape else numbers.reshape(value, self.shape)
        with self.level.adding:
            if self.adjoint is None:
                self.adjoint, self._owned = value, owned
            elif self._owned and self.shape:
                self.adjoint = numbers.add_at(self.adjoint, (), value)
            else:
                self.adjoint, self._owned = numbers.plus(self.adjoint, value), True

    def add_at(self, shape: Shape, index: tuple[Any, ...], value: Value) -> None:
        """Stage a call with zeros but for `value` at an index of the values in another shape: in place, so that it
        costs what `value` has, and once the size of the whole."""
        with self.level.adding:
            whole = numbers.reshape(self.owned_adjoint(), shape)
            self.adjoint = numbers.reshape(numbers.add_at(whole, index, value), self.shape)

    def owned_adjoint(self) -> Value:
        """The adjoint, zero if there is none, which may be overwritten."""
        if self.adjoint is None:
            self.adjoint = np.zeros(self.shape, self.dtype)
        elif not self._owned or not self.shape:
            self.adjoint = numbers.writable(self.adjoint)
        self._owned = True
        return self.adjoint


@dataclass(slots=True, eq=False)
class Job:
    """The backpropagators of a stretch without forks; the jobs that come before it: that which forked, and those in
    which its branches ended."""

    before: Job | None = None
    branches: list[Job] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    depth: int = 1


@dataclass(slots=True, eq=False)
class Level:
    """One derivative being taken; inner ones have higher numbers.  Forward mode needs no more."""

    number: int
    reverse: bool = False

    def record(self, shape: Shape, dtype: Any, parents: Sequence[Node], pull: Callable[[Node], None]) -> Node:
        raise AssertionError("forward mode has no backpropagators")


@dataclass(slots=True, eq=False)
class Reverse(Level):
    """A derivative in reverse mode: its backpropagators so far.  With `threads` branches are resolved at once."""

    counts: Counts = field(default_factory=Counts)
    threads: int = 1
    reverse: bool = True
    job: Job = field(default_factory=Job)
    adding: Any = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self.counts.jobs += 1
        self.counts.job_chain = max(self.counts.job_chain, 1)

    def leaf(self, v: Value) -> Node:
        """The backpropagator of an argument: it keeps what it is sent."""
        return Node(self, v.shape, v.dtype, None, 0)

    def record(self, shape: Shape, dtype: Any, parents: Sequence[Node], pull: Callable[[Node], None]) -> Node:
        """A new backpropagator, the last of the job, that calls those of `parents`."""
        made = Node(self, shape, dtype, pull, 1 + max([p.depth for p in parents], default=0))
        self.job.nodes.append(made)
        c = self.counts
        c.made, c.chain = c.made + 1, max(c.chain, made.depth)
        c.elements += math.prod(shape)
        return made

    @contextmanager
    def forked(self, branches: int) -> Iterator[Callable[[], None]]:
        """While the tasks of a fork run; what it gives is called before each of them."""
        forking, ended = self.job, []
        self.counts.forks += 1

        def begin() -> None:
            if self.job is not forking:
                ended.append(self.job)
            self.job = Job(depth=forking.depth + 1)

        yield begin
        ended.append(self.job)
        self.job = Job(forking, ended, depth=1 + max(j.depth for j in ended))
        self.counts.jobs += branches + 1
        self.counts.job_chain = max(self.counts.job_chain, self.job.depth)

    def resolve(self, seeds: Sequence[tuple[Node, Value]]) -> None:
        """Call the backpropagators that `seeds` call, and those that these call, and so on."""
        for node, seed in seeds:
            node.add(seed)
        if self.threads > 1:
            with ThreadPoolExecutor(self.threads) as pool:
                self._task(self.job, pool)
        else:
            self._task(self.job, None)

    def _task(self, last: Job, pool: ThreadPoolExecutor | None) -> None:
        """Resolve a task, from the job in which it ended back to the one in which it began."""
        job: Job | None = last
        while job is not None:
            for node in reversed(job.nodes):
                if node.adjoint is not None:
                    node.calls += 1
                    with self.adding:
                        self.counts.calls += 1
                        self.counts.most = max(self.counts.most, node.calls)
                    assert node.pull is not None
                    node.pull(node)
                    node.clear()
            if pool is None or len(job.branches) < 2:
                for branch in job.branches:
                    self._task(branch, None)
            else:
                self._branches(job.branches, pool)
            job = job.before

    def _branches(self, branches: Sequence[Job], pool: ThreadPoolExecutor) -> None:
        """All but one by other threads; those that wait for no thread are resolved here, so that none waits for one
        that waits."""
        others = [pool.submit(self._task, b, pool) for b in branches[1:]]
        self._task(branches[0], pool)
        for b, other in zip(branches[1:], others, strict=True):
            if other.cancel():
                self._task(b, pool)
            else:
                other.result()

    def restart(self) -> None:
        """Before another direction: calls are counted by direction."""
        todo = [self.job]
        while todo:
            job = todo.pop()
            for node in job.nodes:
                node.calls = 0
                node.clear()
            todo += [*job.branches, *([job.before] if job.before is not None else [])]


__all__ = ["Counts", "Job", "Level", "Node", "Reverse"]
