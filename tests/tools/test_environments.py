"""The environments that development needs, and how they are made."""

import subprocess
import sys

import pytest

from tools import commands, debian, environments, prepare
from tools.commands import CommandError
from tools.environments import PYTHON, ROOT, Environment, SetupError
from tools.prepare import COMPILED, Package, why_missing

FAKE_PYTHON = f"""\
#!/bin/sh
# Runs, has our version, and notes the arguments of pip; fails if they contain the name in `refused`.
if [ "$1" = -c ]; then echo {PYTHON.split()[1]}; exit; fi
here=$(dirname "$0")
echo "$@" >> "$here/asked"
if [ -f "$here/refused" ] && echo "$@" | grep -q "$(cat "$here/refused")"; then
    echo "ERROR: No matching distribution found"; exit 1
fi
"""


def program(path, text="#!/bin/sh\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def checkout(tmp_path):
    """One whose pips only note what they are asked for."""
    (tmp_path / "setup.cfg").write_text((ROOT / "setup.cfg").read_text())
    for name in (".venv", ".venv-uwsgi", ".venv-lab"):
        program(tmp_path / name / "bin" / "python", FAKE_PYTHON)
    return tmp_path


def asked(checkout, name=".venv"):
    notes = checkout / name / "bin" / "asked"
    return [line.split(" install ")[1] for line in notes.read_text().splitlines()] if notes.exists() else []


def test_failed_installation_is_tried_again(checkout):
    """The stamp is written after the installation, so an interrupted one does not count."""
    refused = checkout / ".venv" / "bin" / "refused"
    refused.write_text("editable")
    with pytest.raises(CommandError, match="No matching distribution"):
        environments.project("demo", checkout)
    refused.unlink()
    environments.project("demo", checkout)
    assert asked(checkout) == ["--editable .[demo]"] * 2


def test_environment_of_a_python_that_has_gone_is_made_anew(tmp_path):
    """An upgrade of the system's Python leaves a broken link. The recreated environment fits, in its place."""
    environment = Environment(tmp_path / ".venv")
    environment.program("python").parent.mkdir(parents=True)
    environment.program("python").symlink_to("/nonexistent/python3.9")
    (environment.path / "holds-demo").write_text("what is gone")
    environment.ensure()
    assert environment.fits()
    assert not environment.holds("demo", "what is gone")
    moved = environment.path.rename(tmp_path / "moved")
    assert not Environment(moved).fits()


def test_project_is_installed_once_for_each_setup_cfg(checkout):
    environments.project("demo", checkout)
    environments.project("demo", checkout)
    assert asked(checkout) == ["--editable .[demo]"]
    with (checkout / "setup.cfg").open("a") as setup:
        setup.write("\n")
    environments.project("demo", checkout)
    assert asked(checkout) == ["--editable .[demo]"] * 2


def test_environment_of_another_python_does_not_fit(checkout):
    python = checkout / ".venv" / "bin" / "python"
    python.write_text("#!/bin/sh\necho 3.9\n")
    assert not Environment(checkout / ".venv").fits()


@pytest.mark.parametrize("module", ["venv", "ensurepip"])
def test_python_without_venv_is_told_its_package(tmp_path, monkeypatch, module):
    """Debian splits these modules off, so the message names the package."""
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SetupError) as missing:
        environments.project("demo", tmp_path)
    assert f"no module {module}" in str(missing.value)
    assert str(missing.value).endswith("apt-get install python3-venv")


def test_demo_takes_the_wheel_once(checkout):
    assert environments.uwsgi_for_demo(checkout) == checkout / ".venv" / "bin" / "uwsgi"
    environments.uwsgi_for_demo(checkout)
    assert asked(checkout) == ["--only-binary :all: pyuwsgi"]
    assert asked(checkout, ".venv-uwsgi") == []


def test_demo_builds_where_no_wheel_fits(checkout, capsys, monkeypatch):
    """The build goes into a separate environment, with the application's packages."""
    monkeypatch.setattr(environments, "cannot_build", lambda: None)
    (checkout / ".venv" / "bin" / "refused").write_text("pyuwsgi")
    assert environments.uwsgi_for_demo(checkout) == checkout / ".venv-uwsgi" / "bin" / "uwsgi"
    assert asked(checkout, ".venv-uwsgi") == ["--no-cache-dir uwsgi flask >= 3, < 4"]
    assert "No matching distribution found\n  so uWSGI is built from source" in capsys.readouterr().out


def test_demo_prefers_a_build_that_is_there(checkout, monkeypatch):
    """`make test` leaves a build, which is what most people run."""
    monkeypatch.setattr(environments, "cannot_build", lambda: None)
    environments.built_uwsgi(checkout)
    assert environments.uwsgi_for_demo(checkout) == checkout / ".venv-uwsgi" / "bin" / "uwsgi"
    assert asked(checkout) == []


def test_neither_wheel_nor_compiler_is_told(checkout, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    (checkout / ".venv" / "bin" / "refused").write_text("pyuwsgi")
    with pytest.raises(SetupError) as missing:
        environments.uwsgi_for_demo(checkout)
    assert "this machine lacks a C compiler (no-such-compiler)" in str(missing.value)
    assert str(missing.value).endswith("apt-get install gcc python3-dev libcrypt-dev")


def test_a_library_that_uwsgi_links_is_missing(monkeypatch, tmp_path):
    """After Debian 13 the compiler alone does not bring libcrypt."""
    compiler = program(tmp_path / "cc", '#!/bin/sh\ncase "$*" in *-lcrypt*) exit 1; esac\n')
    monkeypatch.setenv("CC", str(compiler))
    assert "libcrypt to link with" in str(environments.cannot_build())


def test_tests_take_the_wheel_without_a_compiler_and_say_so(checkout, capsys, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.delenv("UWSGI", raising=False)
    assert environments.uwsgi_for_tests(checkout) == checkout / ".venv" / "bin" / "uwsgi"
    assert "so the tests run with the pyuwsgi wheel" in capsys.readouterr().out


def test_tests_keep_the_uwsgi_they_are_given(checkout, monkeypatch):
    monkeypatch.setenv("UWSGI", "/opt/uwsgi")
    assert str(environments.uwsgi_for_tests(checkout)) == "/opt/uwsgi"
    assert asked(checkout) + asked(checkout, ".venv-uwsgi") == []


def test_tests_build_where_they_can(checkout, monkeypatch):
    monkeypatch.setattr(environments, "cannot_build", lambda: None)
    monkeypatch.delenv("UWSGI", raising=False)
    assert environments.uwsgi_for_tests(checkout) == checkout / ".venv-uwsgi" / "bin" / "uwsgi"
    assert environments.uwsgi_for_tests(checkout) == checkout / ".venv-uwsgi" / "bin" / "uwsgi"
    assert asked(checkout) == []
    assert asked(checkout, ".venv-uwsgi")[1:] == ["--only-binary :all: gevent"]


def test_tests_do_without_gevent_where_no_wheel_fits(checkout, capsys, monkeypatch):
    """Three scenarios are skipped then."""
    monkeypatch.setattr(environments, "cannot_build", lambda: None)
    environments.built_uwsgi(checkout)
    (checkout / ".venv-uwsgi" / "bin" / "refused").write_text("gevent")
    assert environments.uwsgi_for_tests(checkout) == checkout / ".venv-uwsgi" / "bin" / "uwsgi"
    assert "so the scenarios with gevent are skipped" in capsys.readouterr().out


def test_old_python_is_refused_in_words():
    """The package names the version that it needs before newer syntax can fail."""
    ended = subprocess.run(
        [sys.executable, "-c", "import sys; sys.version_info = (3, 9, 2); import app.demo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("uwsgi-headroom needs Python 3.10 or newer, and ")


def test_a_link_to_the_environment_of_another_checkout_is_replaced(tmp_path, monkeypatch):
    """`venv --clear` would follow the link, and empty the other one."""
    other, link = tmp_path / "other", tmp_path / ".venv"
    (other / "bin").mkdir(parents=True)
    link.symlink_to(other)
    monkeypatch.setattr(commands, "run_command", lambda words: words[-1].mkdir())
    Environment(link).ensure()
    assert (other / "bin").is_dir()
    assert not link.is_symlink()


def test_what_cannot_be_installed_is_left_out(checkout, monkeypatch):
    """A failing pip and a missing header are reasons, and are tried again each time."""
    packages = (Package("gevent"), Package("granian"), Package("bjoern", headers=("no-such.h",), advice="install it"))
    monkeypatch.setattr(prepare, "PACKAGES", packages)
    refused = checkout / ".venv-lab" / "bin" / "refused"
    refused.write_text("granian")
    prepare.prepare_lab(checkout)
    environment = prepare.lab_environment(checkout)
    assert why_missing(environment, "gevent") is None
    assert why_missing(environment, "granian") == "it cannot be installed: ERROR: No matching distribution found"
    assert why_missing(environment, "bjoern") == "this machine lacks no-such.h; install it"
    refused.unlink()
    prepare.prepare_lab(checkout)
    assert why_missing(environment, "granian") is None


def test_without_cython_the_compiled_module_is_missing(checkout, monkeypatch):
    """Its step is left out of E1, with the reason."""
    program(checkout / "app" / "fibonacci.py", "")
    monkeypatch.setattr(prepare, "PACKAGES", (Package("cython"),))
    prepare.prepare_lab(checkout)
    reason = why_missing(prepare.lab_environment(checkout), COMPILED)
    assert reason.startswith("Cython cannot compile it: ")


@pytest.fixture
def prepared(monkeypatch, tmp_path):
    """The names of everything that was prepared, on a machine without a browser."""
    made: list[str] = []

    def project(extras: str) -> Environment:
        made.append(extras)
        return Environment(tmp_path)

    monkeypatch.setattr(environments, "project", project)
    monkeypatch.setattr(environments, "uwsgi_for_tests", lambda: made.append("uwsgi"))
    monkeypatch.setattr(debian, "ensure_programs", lambda _directory: made.append("prometheus"))
    monkeypatch.setattr(prepare, "NAMES", ("no-such-browser",))
    return made


@pytest.mark.parametrize(
    ("target", "parts"),
    [
        ("lint", []),
        ("chosen-tests", ["uwsgi", "prometheus"]),  # without a browser
        ("lab", ["uwsgi", "servers"]),
    ],
)
def test_what_a_target_needs(prepared, monkeypatch, target, parts):
    monkeypatch.setattr(prepare, "prepare_lab", lambda: prepared.append("servers"))
    assert prepare.main([target]) is None
    assert prepared == [prepare.EXTRAS, *parts]


def test_tests_need_a_browser(prepared):
    assert "this machine lacks Chromium" in str(prepare.main(["test"]))
    assert "prometheus" not in prepared


def test_a_browser_is_found_on_path(tmp_path, monkeypatch):
    program(tmp_path / "firefox")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SetupError, match="apt-get install --no-install-recommends chromium"):
        prepare.find_browser()
    for name in ("google-chrome", "chromium"):
        path = program(tmp_path / name)
        assert prepare.find_browser() == str(path)
