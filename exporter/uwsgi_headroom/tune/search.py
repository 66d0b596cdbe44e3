"""Searches: the model of the advice proposes settings, each is measured, and the best is confirmed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import ceil, exp, fsum, inf, log, sqrt
from operator import attrgetter
from typing import NamedTuple

from msgspec import Struct, field

from uwsgi_headroom.analysis.repairman import Model
from uwsgi_headroom.analysis.what_if.measured import Setting
from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.tune.load import Tally
from uwsgi_headroom.words.formats import byte_size, figure, percent

MOST_PROPOSED, ROUNDS = 5, 2
MOST_RUNS = ROUNDS * (MOST_PROPOSED + 1) + 2
THREADS = (1, 2, 4, 8, 16, 32)  # of a process; beyond, one interpreter rarely has CPU for more
ALIKE, POOR, CLOSE = 0.97, 0.75, 0.95
"""Parts of the best: predicted alike; proposed although another has as many processes; measured to be as good."""

LEANER, LEAST_SAVED = 0.75, 100e6
"""The part of the memory that a setting takes at most, and the bytes that it saves at least, if it is no faster."""

MORE_ERRORS, MOSTLY_FAILED, BUSY = 0.01, 0.5, 0.3
"""The part of the requests that a setting may fail more, and that the present one may; of the CPUs for others."""

USUAL, USUAL_COUNT, LEAST_MARGIN = 0.03, 2, 0.02
"""The spread of the difference of two runs on a quiet machine, its weight, and the least that anybody acts on."""

SIZE = attrgetter("in_all", "processes")
# Student's t, 95 %, one-sided, for 1 degree of freedom and more.
_QUANTILES = (6.31, 2.92, 2.35, 2.13, 2.02, 1.94, 1.89, 1.86, 1.83, 1.81, 1.80)


class Run(Struct, frozen=True, kw_only=True):
    """What a run of a setting measured. CPU in CPUs; memory in bytes of all processes together, 0 if unknown."""

    tally: Tally
    server_cpu: float
    clients_cpu: float
    other_cpu: float
    memory: int


class Task(Struct, frozen=True, kw_only=True):
    """What the server may use: CPUs, bytes of memory. fewest: processes, because `cheaper` needs more than it keeps."""

    present: Setting
    clients: int
    cpus: float
    memory: float = inf
    fewest: int = 1


class Comparison(NamedTuple):
    """The first throughput divided by the second, a geometric mean; and the factor that noise explains, by 95 %."""

    ratio: float
    noise: float


class Trials(Struct, frozen=True):
    """The runs so far, by setting and round; the present setting first."""

    task: Task
    runs: dict[Setting, dict[int, Run]] = field(default_factory=dict)

    def of(self, setting: Setting) -> list[Run]:
        return list(self.runs[setting].values())

    def memory(self, setting: Setting) -> int:
        return max(run.memory for run in self.of(setting))

    def find_fault(self, setting: Setting) -> str | None:
        """Why a setting is out, as the end of a sentence; None if it is not."""
        usual = self.of(self.task.present)[0].tally.failed_part
        for run in self.of(setting):
            if not run.tally.answered or run.tally.failed_part > usual + MORE_ERRORS:
                return f"{percent(run.tally.failed_part)} of its requests failed{describe_errors(run.tally)}"
            if run.memory > self.task.memory:
                return f"it took {byte_size(run.memory)} of memory, and {byte_size(self.task.memory)} are allowed"
        return None

    def compare(self, first: Setting, second: Setting) -> Comparison:
        """Compare runs of one round: they follow each other closely, so what else the machine does matters less. The
        spread of these differences is pooled over all settings and combined with a usual one (an empirical Bayes
        estimate: G. K. Smyth, Statistical Applications in Genetics and Molecular Biology 3 (1), 2004)."""
        differences = self._differences(first, second)
        squares, freedom = USUAL_COUNT * USUAL**2, USUAL_COUNT
        for pairs in (self._differences(each, self.task.present) for each in self.runs if each != self.task.present):
            squares += fsum((pair - fsum(pairs) / len(pairs)) ** 2 for pair in pairs)
            freedom += max(0, len(pairs) - 1)
        margin = _QUANTILES[min(freedom, len(_QUANTILES)) - 1] * sqrt(squares / freedom / len(differences))
        return Comparison(exp(fsum(differences) / len(differences)), exp(max(LEAST_MARGIN, margin)))

    def _differences(self, first: Setting, second: Setting) -> list[float]:
        """The logarithms of the ratios of the throughputs, in each round that both answered."""
        pairs = [(run, self.runs[second].get(number)) for number, run in self.runs[first].items()]
        rates = [(ours.tally.throughput, theirs.tally.throughput) for ours, theirs in pairs if theirs]
        return [log(ours / theirs) for ours, theirs in rates if ours and theirs]


class Result(NamedTuple):
    evidence: Trials
    chosen: Setting | None  # None: the present setting stays
    sentences: tuple[str, ...]


def search(task: Task, measure: Callable[[Setting], Run], alone: Callable[[Setting], Tally]) -> Result:
    """Two rounds of all settings, then a third one of the present one and the best: a choice among six finds luck, too,
    and luck does not come back. alone: what one client sees. Raises HeadroomError if there is nothing to compare."""
    one, first = alone(task.present), measure(task.present)
    _refuse(first, task)
    model, evidence = make_model(first, one, task.cpus), Trials(task, {task.present: {0: first}})
    proposed = propose(task, model, first.memory)
    for number in range(ROUNDS):
        for setting in [task.present, *proposed]:
            runs = evidence.runs.setdefault(setting, {})
            if number not in runs and (setting == task.present or not evidence.find_fault(setting)):
                runs[number] = measure(setting)
        _refuse(evidence.runs[task.present][number], task)
    best = pick(evidence)
    for setting in [task.present, best] if best else []:
        evidence.runs[setting][ROUNDS] = measure(setting)
    _refuse(evidence.of(task.present)[-1], task)
    chosen = best if best and is_worth(evidence, best) else None
    return Result(evidence, chosen, tuple(_describe(evidence, best, chosen, predict(task.present, model, task))))


def _refuse(first: Run, task: Task) -> None:
    tally, others = first.tally, first.other_cpu
    if tally.failed_part > MOSTLY_FAILED or not tally.answered:
        failed = f"{percent(tally.failed_part or 1.0)} of the requests failed{describe_errors(tally)}"
        raise HeadroomError(f"{failed}: check the paths that are requested, and the backends")
    if others > BUSY * task.cpus:
        busy = f"other programs used {figure(others)} of {figure(task.cpus)} CPUs"
        raise HeadroomError(f"the machine is too busy: {busy}; run tune again while it is quiet")


def describe_errors(tally: Tally) -> str:
    """The kinds of errors, most frequent first: ` (status 500: 12, timeout: 3)`."""
    kinds = ", ".join(f"{name}: {count:,}" for name, count in tally.errors.most_common())
    return f" ({kinds})" if kinds else ""


def make_model(first: Run, alone: Tally, cpus: float) -> Model:
    """The model of the application: CPU time from the load, of which the clients take their part; waiting from one
    client alone, who waits for nobody."""
    computing = max(1e-6, first.server_cpu / first.tally.throughput)
    asking = first.clients_cpu / first.tally.throughput
    return Model(computing, max(0.0, alone.mean - computing), cpus * computing / (computing + asking))


def predict(setting: Setting, model: Model, task: Task) -> float:
    """Requests per second. Clients who wait for an answer keep one thread each busy."""
    processes = min(setting.processes, task.clients)
    threads = min(setting.threads, ceil(task.clients / processes))
    return min(model.most_throughput(processes, threads), task.clients / (model.computing + model.waiting))


def propose(task: Task, model: Model, memory: int) -> list[Setting]:
    """At most five settings, the most promising first: of those that are predicted alike the smallest, with different
    numbers of processes, because the model may be wrong about what these cost. memory: of the present setting."""
    scores = {setting: predict(setting, model, task) for setting in _list_settings(task, memory)}
    chosen, best = list[Setting](), max(scores.values(), default=0.0)
    while scores and len(chosen) < MOST_PROPOSED:
        taken = {setting.processes for setting in chosen}
        others = {setting: score for setting, score in scores.items() if setting.processes not in taken}
        if max(others.values(), default=0.0) < POOR * best:
            others = scores
        enough = ALIKE * max(others.values())
        chosen.append(min((setting for setting, score in others.items() if score >= enough), key=SIZE))
        del scores[chosen[-1]]
    return chosen


def _list_settings(task: Task, memory: int) -> list[Setting]:
    """Those that fit the load and the memory, which is in proportion to the processes, the master being one of them."""
    present, cpus = task.present, max(1, round(task.cpus))
    most = max(2 * task.clients, 2 * cpus, present.in_all)
    return [
        Setting(processes, threads)
        for processes in {*(cpus * part for part in (1, 2, 3, 4, 8)), 1, present.processes, 2 * present.processes}
        if processes >= task.fewest and (processes + 1) * memory / (present.processes + 1) <= task.memory
        for threads in {*THREADS, present.threads}
        if min(task.clients, cpus) <= processes * threads <= most and Setting(processes, threads) != present
    ]


def pick(evidence: Trials) -> Setting | None:
    """The setting to recommend; None for the present one. Of those that are worth a change and as good as the best, the
    smallest: with two processes or more if one of them has, since requests wait while a single one restarts."""
    within = [setting for setting in evidence.runs if not evidence.find_fault(setting)]
    best = max(within, key=lambda setting: evidence.compare(setting, evidence.task.present).ratio, default=None)
    worth = [setting for setting in within if is_worth(evidence, setting)]
    close = [setting for setting in worth if best and evidence.compare(setting, best).ratio >= CLOSE]
    several = [setting for setting in close if setting.processes > 1]
    return min(several or close, key=SIZE, default=None)


def is_worth(evidence: Trials, setting: Setting) -> bool:
    """Whether a setting is worth a change: it is better than the present one beyond the noise, also in the last round
    alone, or as good with clearly less memory. Any is, if the present one is out."""
    present = evidence.task.present
    if setting == present or evidence.find_fault(setting):
        return False
    found, last = evidence.compare(setting, present), max(evidence.runs[setting])
    rates = [evidence.runs[each][last].tally.throughput for each in (setting, present)]
    is_better = found.ratio > found.noise and rates[0] > rates[1] * found.noise
    ours, theirs = evidence.memory(setting), evidence.memory(present)
    is_lean = 0 < ours <= min(LEANER * theirs, theirs - LEAST_SAVED) and setting.processes >= min(2, present.processes)
    return is_better or (found.ratio >= CLOSE and is_lean) or evidence.find_fault(present) is not None


def _describe(evidence: Trials, best: Setting | None, chosen: Setting | None, predicted: float) -> Iterator[str]:
    present, first = evidence.task.present, evidence.of(evidence.task.present)[0].tally.throughput
    fault = evidence.find_fault(present)
    if chosen:
        found = evidence.compare(chosen, present)
        memory = f"{byte_size(evidence.memory(chosen))} of memory instead of {byte_size(evidence.memory(present))}"
        noise = f"noise explains {percent(found.noise - 1)}"
        yield f"Use {chosen} instead of {present}: {found.ratio:.3g} times as many requests/s ({noise}), with {memory}."
    else:
        yield f"Keep {present}: of {len(evidence.runs)} settings, none is better beyond the noise."
        if best:
            yield f"{best} seemed to be, and was not in the last round."
    if fault:
        yield f"{present} is beyond the limits: {fault}."
    if chosen and chosen.processes == 1:
        yield "A single process serves nothing while it restarts, and a crash loses all requests in service."
    yield f"The model expected {figure(predicted)} requests/s of {present}; it served {figure(first)}."
