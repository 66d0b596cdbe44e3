"""Each scene of the demo shows on a real uWSGI what it promises; the tests wait for facts and verdicts."""

import contextlib
import json
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import flask
import pytest

from app.demo_programs import Happenings, Stage, load_program, neighbour_programs, refuse_without_needs, uwsgi_program
from app.loopback import PREFIX, address, free_port, get
from app.programs import Program, Running, running
from app.scenes import SCENES, Happening, Scene, find_scene, list_scenes
from tests.support import real_uwsgi
from tests.support.real_uwsgi import wait_until
from tools.environments import ROOT, SetupError

UWSGI = Path(real_uwsgi.uwsgi_binary())
PATIENCE = 90.0
"""Seconds to wait for a fact on a busy machine."""

SLOW = ("stuck", "cheaper", "neighbours")
"""Scenes that take longer than a few seconds, or take all CPU from scenes that run at the same time."""

NO_CPU = {"cpu_bound", "cpu_used_by_others", "cpu_wait"}
"""Findings, one of which appears if other programs take the CPU that a scene needs."""
FULL = {"memory_headroom_low", "queue_wait", "queue_filling", "saturation", "workers_missing", "start_hangs"}
"""Other findings that a busy machine causes, and which may precede the scene's own."""


@dataclass
class Shown:
    """A running scene, and the exporter that all scenes share."""

    stage: Stage
    up: Running
    uwsgi: Program
    exporter: int

    def document(self, name="demo"):
        text = get(self.exporter, f"/api/v2/servers/{self.stage.scene.name}-{name}", timeout=60)
        assert text
        return json.loads(text)

    def wait(self, condition, what, name="demo"):
        """Waits until the document meets a condition; fails with the document."""
        try:
            wait_until(lambda: condition(self.document(name)), PATIENCE, what)
        except AssertionError as error:
            document = self.document(name)
            raise AssertionError(f"{error}: {document['verdict']} {document['findings']}") from error


def codes(document, *severities):
    return [finding["code"] for finding in document["findings"] if finding["severity"] in severities]


def leads(scene, document):
    """Whether a finding of the scene is the worst, apart from those of a busy machine; if it has none, whether none
    is."""
    grave = codes(document, "critical", "warning")
    own = [code for code in grave if code in scene.findings or code not in NO_CPU | FULL]
    if own or not scene.findings:
        return bool(document["flow"]) and own[:1] == [code for code in own[:1] if code in scene.findings]
    return bool(set(codes(document, "info")) & set(scene.findings))


@pytest.fixture(scope="module")
def quick():
    """Runs all fast scenes at the same time."""
    with showing([scene for scene in SCENES if scene.name not in SLOW and not why_not(scene)]) as shown:
        yield shown


@contextlib.contextmanager
def showing(chosen):
    """Runs these scenes until the block ends. Their uWSGI uses the Flask of the tests, however uWSGI was built."""
    with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=PREFIX)))
        patch.setenv("PYTHONPATH", f"{ROOT / 'exporter'}:{ROOT}:{Path(flask.__file__).parent.parent}")
        stages = [Stage(scene, directory / scene.name) for scene in chosen]
        port = free_port()

        def start(stage):
            stage.directory.mkdir()
            uwsgi = uwsgi_program(stage, UWSGI)
            programs = [uwsgi, *neighbour_programs(stage.scene), load_program(stage)]
            up = running([replace(program, sentence="") for program in programs], stage.directory, cwd=ROOT)
            return Shown(stage, stack.enter_context(up), uwsgi, port)

        with ThreadPoolExecutor(4) as pool:
            shown = list(pool.map(start, stages))
        exporter = [sys.executable, "-m", "uwsgi_headroom", "--web.listen-address", address(port)]
        for stage in stages:
            for name, path in stage.stats.items():
                exporter += ["--stats", f"{stage.scene.name}-{name}=unix://{path}"]
        program = Program("exporter", "", exporter, lambda: get(port, "/-/ready") is not None)
        stack.enter_context(running([program], directory, cwd=ROOT))
        yield {scene.stage.scene.name: scene for scene in shown}


def why_not(scene):
    """The reason why a scene cannot run here, or an empty text."""
    try:
        refuse_without_needs(scene, UWSGI)
    except SetupError as error:
        return str(error)
    return ""


def happen(shown, **changes):
    """The happenings of the scene, the first of them due now, without repetition."""
    happenings = [replace(happening, first=0, every=3600, **changes) for happening in shown.stage.scene.happenings[:1]]
    return Happenings(happenings, shown.up, shown.uwsgi, shown.stage.directory)


def real(test):
    """Marks a test of a real uWSGI that takes long."""
    return pytest.mark.slow(pytest.mark.integration(test))


STEADY = ("calm", "overload", "harakiri", "restarts", "idle")


@real
@pytest.mark.parametrize("name", STEADY)
def test_verdict_is_what_the_scene_says(name, quick):
    quick[name].wait(lambda document: leads(find_scene(name), document), f"the verdict of {name}")


@real
def test_hot_worker_gets_most_requests_and_is_slow(quick):
    """Unevenness is the verdict."""

    def is_hot(document):
        shares = [worker["share"] or 0.0 for worker in document["workers"]]
        found = set(codes(document, "critical", "warning"))
        return shares[0] == max(shares) and bool(found & {"unevenness_hurts", *NO_CPU})

    quick["hot"].wait(is_hot, "worker 1 to be hot")
    assert quick["hot"].document()["setup"]["mapped"] is True


@real
def test_reload_is_named(quick):
    """A full reload works: without its option, a wheel's uWSGI would execute the wrong Python and end."""
    shown = quick["reload"]
    shown.wait(lambda document: document["flow"], "figures")
    assert happen(shown).run_due() == ["uWSGI is reloaded"]
    shown.wait(lambda document: "reloaded" in codes(document, "info"), "the reload")
    shown.wait(lambda document: document["state"] == "up" and document["threads"]["available"] == 32, "all workers")


@real
def test_chain_reload_replaces_all_workers(quick):
    shown = quick["reload"]
    shown.wait(lambda document: document["state"] == "up", "uWSGI to be up")
    before = {worker["pid"] for worker in shown.document()["workers"]}
    chain = replace(shown.stage.scene.happenings[1], first=0, every=3600)
    Happenings([chain], shown.up, shown.uwsgi, shown.stage.directory).run_due()
    shown.wait(lambda document: not before & {worker["pid"] for worker in document["workers"]}, "other workers")


@real
def test_server_goes_down_and_comes_back(quick):
    """The server returns after the time that the scene states, and its load continues."""
    shown = quick["down"]
    shown.wait(lambda document: document["flow"], "figures")
    happenings = happen(shown, away=0.5)
    (words,) = happenings.run_due()
    assert words == "uWSGI is killed; it restarts in 0.5 s"
    shown.wait(lambda document: document["state"] == "down", "uWSGI to be down")
    said = []
    wait_until(lambda: said.extend(happenings.run_due()) or said, what="uWSGI to be restarted")
    assert said == ["uWSGI has been restarted"]
    shown.wait(
        lambda document: document["state"] == "up" and document["flow"] and document["flow"]["requests"], "requests"
    )
    shown.up.check()


@real
def test_emperor_throttles_the_broken_vassal(quick):
    """The other vassal serves requests."""
    shown = quick["emperor"]
    shown.wait(lambda document: document["status"] == "warning", "the broken vassal to be noticed", "emperor")
    shown.wait(lambda document: document["flow"] and document["flow"]["requests"], "requests of the other one")


@real
def test_async_is_full_or_says_what_to_install(request):
    """With gevent beside uWSGI all coroutines are in use, unless other programs take the CPU."""
    scene = find_scene("async")
    if reason := why_not(scene):
        assert f"{UWSGI.with_name('python')} -m pip install gevent" in reason
        return
    shown = request.getfixturevalue("quick")["async"]
    full = {"saturation", "queue_wait", *NO_CPU}
    shown.wait(lambda document: full & set(codes(document, "critical", "warning")), "full coroutines")
    assert shown.document()["threads"]["available"] == 40


def test_scene_that_needs_what_is_not_there_is_refused(tmp_path):
    """The error says what to install, and where."""
    (tmp_path / "python").symlink_to(sys.executable)
    scene = Scene("x", "", "", 0.1, needs="no_such_module")
    with pytest.raises(SetupError, match=r"needs no_such_module beside uWSGI: .*/python -m pip install no_such_module"):
        refuse_without_needs(scene, tmp_path / "uwsgi")


@real
def test_stuck_requests_are_the_verdict():
    with showing([find_scene("stuck")]) as shown:
        shown["stuck"].wait(lambda document: leads(find_scene("stuck"), document), "stuck requests")
        assert shown["stuck"].document()["threads"]["stuck"] == 4


@real
def test_neighbours_take_the_cpu():
    with showing([find_scene("neighbours")]) as shown:
        shown["neighbours"].wait(lambda document: set(codes(document, "critical", "warning")) & NO_CPU, "neighbours")
        cpu = shown["neighbours"].document()["cpu"]
        assert cpu["others"] > cpu["own"]


@real
def test_cheaper_mode_follows_the_load():
    with showing([find_scene("cheaper")]) as shown:
        cheaper = shown["cheaper"]
        cheaper.wait(lambda document: document["threads"]["available"] >= 4, "workers to come")
        cheaper.wait(lambda document: document["threads"]["available"] <= 3, "workers to go")


def test_every_scene_has_its_test():
    tested = {*STEADY, *SLOW, "hot", "reload", "down", "emperor", "async"}
    assert {scene.name for scene in SCENES} == tested
    with pytest.raises(LookupError) as raised:
        find_scene("overlord")
    said = raised.value.args[0]
    assert said.startswith("there is no scene 'overlord': did you mean overload?\n\n")
    assert [line.split()[0] for line in said.splitlines()[2:]] == [scene.name for scene in SCENES]


def test_reload_of_a_wheel_executes_the_python_of_its_environment(tmp_path):
    """A wheel's uWSGI is a script and needs the option; a uWSGI built from source does not."""
    script = tmp_path / "uwsgi"
    script.write_text("#!/usr/bin/python3\n")
    stage = Stage(find_scene("reload"), tmp_path)
    command = uwsgi_program(stage, script).command
    assert command[-2:] == ["--binary-path", tmp_path / "python"]
    assert "--binary-path" not in uwsgi_program(stage, Path(sys.executable).resolve()).command


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_words_of_a_scene_fit_a_terminal(scene):
    """A scene has two lines that describe it, and one line for the list."""
    assert scene.shown.count("\n") == 1
    assert max(map(len, [*scene.shown.splitlines(), *list_scenes().splitlines()])) <= 88
    assert scene.shown.endswith(".")


def test_happenings_come_again(tmp_path):
    touched = Happening("touched", "touch", first=0, every=0.05, file="file")
    happenings = Happenings([touched], Running(tmp_path, tmp_path), Program("x", "", [], lambda: True), tmp_path)
    assert happenings.run_due() == ["touched"]
    assert (tmp_path / "file").exists()
    (tmp_path / "file").unlink()
    wait_until(happenings.run_due, what="the second time")
    assert (tmp_path / "file").exists()
