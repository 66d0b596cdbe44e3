# Each target creates the environments that it needs and rebuilds those that no longer fit: tools/environments.py.
PYTHON ?= python3
PORT ?= 9238

.PHONY: help demo test test-all lint generate bench bench-accuracy bench-waits bench-cost bench-many scenarios scenarios-all scenarios-apply lab machine mutants torture soak clean
.PHONY: kubernetes-rules lock dist deb standalone try-standalone release release-twice
.DEFAULT_GOAL := help

help:  ## print this list
	@sed -n 's/^\([a-z-]*\):.*  ## \(.*\)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST))

demo:  ## run a loaded uWSGI, the exporter, Prometheus and Alertmanager until Ctrl-C (SCENE=list, PORT=9238)
	@exec $(PYTHON) -m app.demo $(if $(SCENE),--scene "$(SCENE)") --port $(PORT) --parent $$PPID

# Prometheus' programs may be in .venv/bin, and tests look for them on PATH. Test files run in parallel; with ARGS, the
# chosen tests run one after the other. Hundreds of Pythons start, and each would compile the package without bytecode.
PYTEST = PATH="$(CURDIR)/.venv/bin:$$PATH" PYTHONDONTWRITEBYTECODE= .venv/bin/python -m pytest
BESIDE = $(PYTEST) -q -n auto --dist loadscope --no-loadscope-reorder
test:  ## run the tests, with real servers and a real browser, for some minutes (ARGS="-k page")
	@$(PYTHON) -m tools.prepare $(if $(ARGS),chosen-tests,test)
ifdef ARGS
	@$(PYTEST) $(ARGS)
else
	@$(BESIDE) -m "not slow"
endif

test-all:  ## run all tests, including the slow ones
	@$(PYTHON) -m tools.prepare test
	@$(BESIDE)

lint:  ## check style, formatting and types
	@$(PYTHON) -m tools.prepare lint
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy -p uwsgi_headroom -p app -p tools
	.venv/bin/mypy --python-version 3.11 -p dashboards

generate:  ## write all generated files that are committed: dashboards, tables in documents
	@$(PYTHON) -m tools.prepare lint
	.venv/bin/python -m tools.generate

kubernetes-rules:  ## write the rules as PrometheusRules, for the kustomize base
	@$(PYTHON) -m tools.kubernetes_files

bench:  ## measure what a scrape costs (PEER="NAME=COMMAND" measures another exporter too, ARGS="--option=--code" an option)
	@$(PYTHON) -m tools.prepare bench
	@.venv/bin/python -m tools.bench.scrape $(if $(PEER),--peer "$(PEER)") $(ARGS)

bench-accuracy:  ## compare the figures with the truth, for 35 minutes (ARGS="--seconds 8", ARGS="--only queue")
	@$(PYTHON) -m tools.prepare bench
	@.venv/bin/python -m tools.bench.accuracy $(ARGS)

bench-waits:  ## compare what threads wait for with the application's own record, for 12 minutes (ARGS="--only TEXT")
	@$(PYTHON) -m tools.prepare bench
	@.venv/bin/python -m tools.bench.waits $(ARGS)

bench-cost:  ## measure what a sample costs, and what the exporter costs uWSGI and the application, for 14 minutes
	@$(PYTHON) -m tools.prepare bench
	@.venv/bin/python -m tools.bench.cost $(ARGS)

bench-many:  ## measure one exporter with 200 servers, 1,000 vassals, 5,000 sockets, for 20 minutes (ARGS="--only vassals")
	@$(PYTHON) -m tools.prepare bench
	@.venv/bin/python -m tools.bench.many_servers $(ARGS)

scenarios:  ## check over 150 situations on a real uWSGI, for 19 minutes (NAME="cheaper", ARGS="--write docs/dev/scenarios.md")
	@$(PYTHON) -m tools.prepare bench
	@.venv/bin/python -m tools.scenarios $(if $(NAME),"$(NAME)") $(ARGS)

scenarios-all:  ## the same with healthy twins and two random variations of each, for an hour (NAME="cheaper", ARGS="--seed 7")
	@$(PYTHON) -m tools.prepare bench
	@.venv/bin/python -m tools.scenarios --all --texts build/scenarios-all.txt $(if $(NAME),"$(NAME)") $(ARGS)

scenarios-apply:  ## follow the advice on a real uWSGI, measure what it promised, for 10 minutes
	@$(PYTHON) -m tools.prepare bench
	@.venv/bin/python -m tools.scenarios.apply $(if $(NAME),"$(NAME)") $(ARGS)

lab:  ## run the published experiments again, for 25 minutes, and print a report (ARGS="--only E1", ARGS="--full")
	@$(PYTHON) -m tools.prepare lab
	@.venv/bin/python -m app.lab $(ARGS)

machine:  ## run a trial on a Debian of its own, most in an emulator, as root (TRIAL=cgroup ARGS='--suite bookworm')
	@exec $(PYTHON) -m tools.machine $(TRIAL) $(ARGS)

mutants:  ## change 60 small things in the source, one at a time, and see which the tests notice: takes longer than `test` (ARGS="--list")
	@$(PYTHON) -m tools.prepare chosen-tests
	@.venv/bin/python -m tools.mutants $(ARGS)

torture:  ## fail each call of the exporter once, in every way, in a story of samples, for 25 minutes (ARGS="--every 20")
	@$(PYTHON) -m tools.prepare chosen-tests
	@.venv/bin/python -m tests.torture $(ARGS)

soak:  ## watch a real uWSGI for hours while everything around it changes (HOURS=1.5)
	@$(PYTHON) -m tools.prepare chosen-tests
	@.venv/bin/python -m tests.soak --hours $(or $(HOURS),1.5)

lock:  ## choose the versions that packages bundle, again (needs Python 3.11): deploy/requirements.txt
	@$(PYTHON) -m tools.release.bundle

dist:  ## build the wheel and the source distribution of the last commit into dist/
	@$(PYTHON) -m tools.release --only python

deb:  ## build the Debian package of the last commit into dist/ (ARCHITECTURE=arm64)
	@$(PYTHON) -m tools.release --only deb --architecture $(or $(ARCHITECTURE),amd64)

standalone:  ## build one file that needs no Python on its host, on an old Debian, as root
	@exec $(PYTHON) -m tools.release.standalone

try-standalone:  ## run that file beside a real uWSGI, check its figures and print its cost (PROGRAM=other)
	@exec $(PYTHON) -m tools.release.try_standalone $(PROGRAM)

release:  ## build everything of a release from the last commit into dist/; publishes nothing (PUBLISHER='NAME <MAIL> URL')
	@$(PYTHON) -m tools.release

release-twice:  ## build a release twice, in different places, and compare the bytes
	@$(PYTHON) -m tools.release --twice

clean:  ## remove the environments and everything generated
	rm -rf .venv .venv-uwsgi .venv-lab .venv-clients .venv-release .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist deploy/man deploy/kubernetes/kustomize/rules exporter/*.egg-info
	find app exporter tests tools -name __pycache__ -prune -exec rm -rf {} +
