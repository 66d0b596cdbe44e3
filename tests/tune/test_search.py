"""Which settings are proposed, and which one is recommended, for applications whose best setting is known."""

import random
from collections import Counter
from dataclasses import dataclass, field
from math import exp

import pytest
from msgspec.structs import replace

from uwsgi_headroom.analysis.sizing import Model
from uwsgi_headroom.analysis.what_if.measured import Setting
from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.tune import search
from uwsgi_headroom.tune.load import Tally
from uwsgi_headroom.tune.search import MOST_PROPOSED, MOST_RUNS, Result, Run, Task, Trials, make_model, predict, propose

CPUS, CLIENTS = 2.0, 16


@dataclass
class Application:
    """An application whose best setting is known by the asymptotic bounds of its resources. cpu, waiting: seconds of a
    request. base, each: bytes. noise, drift: relative deviations, of runs and rounds."""

    cpu: float = 0.03
    waiting: float = 0.1
    base: float = 10e6
    each: float = 10e6
    noise: float = 0.0
    drift: float = 0.0
    others: float = 0.0
    broken: tuple[Setting, ...] = ()
    seed: int = 1
    ran: list[Setting] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        self._speed = 1.0

    def serve(self, setting: Setting, clients: int = CLIENTS) -> float:
        """Requests per second at most."""
        of_threads = min(setting.in_all, clients) / (self.cpu + self.waiting)
        return min(of_threads, min(setting.processes, CPUS) / self.cpu)

    def alone(self, _setting: Setting) -> Tally:
        return Tally(answered=100, total=100 * (self.cpu + self.waiting), seconds=100 * (self.cpu + self.waiting))

    def measure(self, setting: Setting) -> Run:
        if not self.ran or setting == self.ran[0]:
            self._speed = exp(self._chance.gauss(0, self.drift))
        self.ran.append(setting)
        rate = self.serve(setting) * self._speed * exp(self._chance.gauss(0, self.noise))
        memory = round(self.base + self.each * setting.processes)
        usage = {"clients_cpu": 0.0, "other_cpu": self.others, "memory": memory}
        if setting in self.broken:
            return Run(tally=Tally(errors=Counter({"status 500": 90})), server_cpu=0.1, **usage)
        answered = round(1000 * rate)
        tally = Tally(answered=answered, total=CLIENTS / rate * answered, seconds=1000.0)
        return Run(tally=tally, server_cpu=rate * self.cpu, **usage)


def task(processes: int, threads: int, **more: float) -> Task:
    return Task(present=Setting(processes, threads), clients=CLIENTS, cpus=CPUS, **more)


def run(application: Application, asked: Task) -> Result:
    return search.search(asked, application.measure, application.alone)


CPU_BOUND, WAITING = {"cpu": 0.03, "waiting": 0.0}, {"cpu": 0.0005, "waiting": 0.05}


@pytest.mark.parametrize(
    ("application", "present"),
    [(CPU_BOUND, (1, 8)), (WAITING, (2, 1)), ({"cpu": 0.03, "waiting": 0.1}, (1, 16)), (WAITING, (1, 1))],
)
def test_a_better_setting_is_found(application, present):
    """It serves nearly what is possible, in two processes or more, and no setting of fewer threads does."""
    server = Application(**application)
    result = run(server, task(*present))
    chosen = result.chosen
    best = max(server.serve(Setting(processes, threads)) for processes in (1, 2, 4, 8, 16) for threads in (1, 2, 4, 8))
    assert server.serve(chosen) >= 0.97 * best
    assert chosen.processes >= 2
    assert chosen.in_all <= 2 * CLIENTS
    assert result.sentences[0].startswith(f"Use {chosen} instead of {task(*present).present}: ")


@pytest.mark.parametrize(("application", "present"), [(CPU_BOUND, (2, 1)), (WAITING, (2, 8)), (WAITING, (4, 4))])
def test_a_setting_that_is_right_is_kept(application, present):
    result = run(Application(**application), task(*present))
    assert result.chosen is None
    assert result.sentences[0].startswith(f"Keep {present[0]}x{present[1]}: of ")


def test_noise_alone_changes_nothing():
    servers = [Application(**CPU_BOUND, noise=0.02, drift=0.1, seed=seed) for seed in range(100)]
    assert sum(run(server, task(2, 1)).chosen is not None for server in servers) <= 5


def test_a_clear_gain_is_found_in_noise():
    """Nearly always, and confirmed in a round of its own."""
    servers = [Application(**WAITING, noise=0.03, drift=0.1, seed=seed) for seed in range(20)]
    results = [run(server, task(2, 1)) for server in servers]
    assert sum(result.chosen is not None for result in results) >= 19
    for result in results:
        if result.chosen:
            assert max(result.evidence.runs[result.chosen]) == 2


def test_luck_does_not_come_back():
    """What seemed better, and is not in the last round, is not recommended; the result says so."""
    server = Application(**CPU_BOUND)
    lucky = Setting(2, 2)

    def measure(setting: Setting) -> search.Run:
        measured = server.measure(setting)
        factor = 1.3 if setting == lucky and server.ran.count(lucky) <= 2 else 1.0
        measured.tally.answered = round(measured.tally.answered * factor)
        return measured

    result = search.search(task(2, 1), measure, server.alone)
    assert lucky in result.evidence.runs
    assert result.chosen is None
    assert f"{lucky} seemed to be, and was not in the last round." in result.sentences


def test_settings_take_turns():
    """Two rounds of at most five proposals, each begun with the present setting; then that one and the best."""
    server = Application()
    result = run(server, task(1, 16))
    others = list(result.evidence.runs)[1:]
    assert 1 <= len(others) <= MOST_PROPOSED
    round_ = [Setting(1, 16), *others]
    assert server.ran == [*round_, *round_, Setting(1, 16), result.chosen]
    assert len(server.ran) <= MOST_RUNS


def test_a_memory_limit():
    """Settings beyond it are not run. The present one may be beyond it: then any within it is better."""
    server = Application(**WAITING, each=100e6)
    result = run(server, task(2, 1, memory=500e6))
    assert max(setting.processes for setting in server.ran) <= 6  # by the memory of 2x1
    assert result.chosen.processes <= 4
    result = run(Application(**CPU_BOUND, each=100e6), task(8, 1, memory=500e6))
    assert result.chosen.processes <= 4
    assert "8x1 is beyond the limits: it took 810 MB of memory, and 500 MB are allowed." in result.sentences
    # Of settings that are as good, fewer processes are worth a change only with clearly less memory.
    lean = run(Application(**WAITING, each=100e6), task(16, 1))
    assert 2 <= lean.chosen.processes <= 12
    assert "of memory instead of 1.6 GB" in lean.sentences[0]
    assert run(Application(**WAITING, base=1e9, each=1e6), task(16, 1)).chosen is None


def test_settings_that_fail_are_out():
    broken = (Setting(2, 8), Setting(16, 1))
    server = Application(**WAITING, broken=broken)
    result = run(server, task(2, 1))
    assert result.chosen
    assert result.chosen not in broken
    assert all(server.ran.count(setting) <= 1 for setting in broken)
    for setting in set(broken) & set(result.evidence.runs):
        assert result.evidence.find_fault(setting) == "100 % of its requests failed (status 500: 90)"


def test_a_present_setting_that_fails_is_refused():
    server = Application(broken=(Setting(2, 1),))
    with pytest.raises(HeadroomError, match=r"100 % of the requests failed \(status 500: 90\): check the paths"):
        run(server, task(2, 1))
    assert server.ran == [Setting(2, 1)]
    # So is a busy machine, after the first run: no comparison would hold.
    with pytest.raises(HeadroomError, match=r"too busy: other programs used 1\.5 of 2 CPUs; run tune again while"):
        run(Application(others=1.5), task(2, 1))
    assert run(Application(others=0.3), task(2, 1)).evidence.runs


@pytest.mark.parametrize("last", [2, 3])
def test_a_machine_that_becomes_busy_is_refused(last):
    """A server takes CPU from other programs by its number of threads, which says nothing of a quiet machine."""
    server = Application(**WAITING)

    def measure(setting: Setting) -> search.Run:
        measured = server.measure(setting)
        return replace(measured, other_cpu=1.5 if server.ran.count(Setting(2, 1)) >= last else 0.0)

    with pytest.raises(HeadroomError, match="the machine is too busy"):
        search.search(task(2, 1), measure, server.alone)


def test_cheaper_needs_more_processes_than_it_keeps():
    proposed = propose(task(4, 1, fewest=3), Model(0.03, 0.1, CPUS), 10_000_000)
    assert proposed
    assert min(setting.processes for setting in proposed) >= 3


def test_a_single_process_is_named_as_a_risk():
    server = Application(**WAITING, each=400e6, base=0.0)
    result = run(server, task(1, 1, memory=700e6))
    assert result.chosen.processes == 1
    assert any("A single process serves nothing while it restarts" in sentence for sentence in result.sentences)


def test_the_model_is_that_of_the_runs():
    """CPU time from the load, waiting from one client; clients take their part. Its error is said."""
    server = Application()
    first = server.measure(Setting(4, 4))
    model = make_model(first, server.alone(Setting(4, 4)), CPUS)
    assert (model.computing, model.waiting, model.cpus) == pytest.approx((0.03, 0.1, 2.0), rel=0.01)
    assert predict(Setting(4, 4), model, task(4, 4)) == pytest.approx(server.serve(Setting(4, 4)), rel=0.15)
    assert predict(Setting(64, 64), model, task(4, 4)) <= CLIENTS / 0.13 + 0.1
    last = run(Application(), task(4, 4)).sentences[-1]
    assert last.startswith("The model expected ")
    assert last.endswith(" requests/s of 4x4; it served 66.7.")


def test_equal_settings_are_rarely_called_different():
    first, second, wrong = Setting(2, 1), Setting(2, 2), 0
    for seed in range(300):
        server = Application(**CPU_BOUND, noise=search.USUAL / 2**0.5, seed=seed)
        runs = {setting: {number: server.measure(setting) for number in range(3)} for setting in (first, second)}
        found = Trials(task(2, 1), runs).compare(second, first)
        wrong += found.ratio > found.noise
    assert wrong <= 30
