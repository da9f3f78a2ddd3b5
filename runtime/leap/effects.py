"""What the steps of a leap do to those who are in it: tokens, blocks, counters, KV and tags."""

from collections.abc import Sequence
from itertools import groupby

from runtime.core.work import Sampled
from runtime.engine import Engine
from runtime.leap.leapt import Leapt
from runtime.leap.news import News
from runtime.leap.script import Scripts
from runtime.memory.kv.paged import PagedPool
from runtime.memory.kv.prefix import BlockKey
from runtime.scheduling.request import Request


class Effects:
    """Of one engine. Each call but `settle` is for the steps behind those that are done, up to `done`."""

    def __init__(self, engine: Engine, pool: PagedPool, scripts: Scripts, news: News) -> None:
        self._engine = engine
        self._pool = pool
        self._scripts = scripts
        self._news = news

    def tell(self, going: Leapt, done: int, special: Sequence[int]) -> None:
        """Tokens for requests and their clients; of the special rows the last one is not told here."""
        first = going.done
        told: list[list[int]] = []
        for request, script, end, sampled in zip(going.rows, going.scripts, going.ends, going.samples, strict=True):
            tokens = script.tokens[end + first : end + done] if sampled else []
            request.tokens += tokens
            script.told(len(request.tokens))
            told.append(tokens)
        for row in special:
            told[row].pop()
        drawn = {row: self._drawn(going, row, first, first + len(told[row])) for row in going.with_logprobs}
        self._news.leapt(going.names, going.ends_ns[first:done], told, drawn)

    def _drawn(self, going: Leapt, row: int, first: int, last: int) -> list[Sampled]:
        request, script, end = going.rows[row], going.scripts[row], going.ends[row]
        return [self._scripts.sampled(request, script, end - 1 + step) for step in range(first, last)]

    def fill(self, going: Leapt, done: int, last: int) -> None:
        """What is full in the steps up to `done` is published, and who needs a block in those up to `last` is given
        one. All blocks are taken before any is published; only where some content is known already could the order
        matter, since what is known may be evicted in between."""
        pool, rows = self._pool, going.rows
        edges = going.edges(done, pool.block_tokens)
        keys: list[BlockKey] = []
        if pool.prefix_cache:
            upto = [one.published for one in rows]
            most = {row: full for _, row, full in edges}
            lines = {row: rows[row].keys_of(full) for row, full in most.items()}
            for _, row, full in edges:
                keys += lines[row][upto[row] : full]
                upto[row] = full
            if pool.index.knows_any(keys):
                self._fill_slowly(going, edges, last)
                return
        self._take(going, edges, last)
        if pool.prefix_cache:
            self._publish(going, edges, keys)

    def _take(self, going: Leapt, edges: Sequence[tuple[int, int, int]], last: int) -> None:
        owed = [len(one.blocks) for one in going.rows]
        takers: list[Request] = []
        for step, row, full in edges:
            if step <= last and full >= owed[row]:
                owed[row] += 1
                takers.append(going.rows[row])
        if takers:
            blocks, generations = self._pool.take_each([one.owner for one in takers])
            for one, block, generation in zip(takers, blocks, generations, strict=True):
                one.blocks.append(block)
                one.generations.append(generation)
                one.line.grow(one.blocks, one.generations)

    def _publish(self, going: Leapt, edges: Sequence[tuple[int, int, int]], keys: list[BlockKey]) -> None:
        blocks: list[int] = []
        generations: list[int] = []
        for _, row, full in edges:
            request = going.rows[row]
            fresh = slice(request.published, full)
            blocks += request.blocks[fresh]
            generations += request.generations[fresh]
            request.published = full
        self._pool.publish_each(blocks, generations, keys)

    def _fill_slowly(self, going: Leapt, edges: Sequence[tuple[int, int, int]], last: int) -> None:
        """Step by step, as the scheduler does. How far rows are computed is for `publish`; `count` says it for good."""
        for step, group in groupby(edges, key=lambda edge: edge[0]):
            rows = [going.rows[row] for _, row, _ in group]
            for request, end in zip(going.rows, going.ends, strict=True):
                request.computed = end + step - 1
            for request in rows:
                self._engine._scheduler.publish(request)
            if step <= last:
                for one in rows:
                    if one.computed >= len(one.blocks) * self._pool.block_tokens:
                        one.give(*self._pool.take_each([one.owner]))

    def count(self, going: Leapt, done: int) -> None:
        steps, engine = done - going.done, self._engine
        if going.done == 0 and not going.is_plain:
            self._first(going)
        for request, end in zip(going.rows, going.ends, strict=True):
            request.computed = end + done - 1
            request.launches += steps
        engine._generation_tokens += (steps - 1) * len(going.rows) + sum(going.samples)
        engine._progress_ns = going.ends_ns[done - 1]

    def _first(self, going: Leapt) -> None:
        """Of step 1, what it is for prompts."""
        engine, end_ns = self._engine, going.ends_ns[0]
        engine._scheduler.learn(going.batch, end_ns - going.ticket.launched_ns)
        for request, first, end in zip(going.rows, going.firsts, going.ends, strict=True):
            prompt = len(request.submit.prompt)
            request.doubted = first < prompt <= end
            if end >= prompt and request.first_ns is None:
                request.first_ns = end_ns
                engine._prompt_tokens += prompt

    def settle(self, going: Leapt, done: int) -> None:
        """Write KV and tags of all steps up to this one, and let the requests claim them."""
        if not done:
            return
        written: list[int] = []
        for request, script, first, end in zip(going.rows, going.scripts, going.firsts, going.ends, strict=True):
            written += self._scripts.write(request, script, first, end + done - 1)
            request.line.reach(end + done - 1)
        self._pool.plane.resum(written)
