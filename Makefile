# The targets are explained in README.md. Everything is installed into .venv, in
# the versions of constraints.txt.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	--constraint constraints.txt
# Where pip finds PyTorch's CPU builds; empty: where it looks anyway.
TORCH_INDEX ?=
KERNELS_INDEX := $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))

# The ad for another generator is no news of this build.
export NO_MKDOCS_2_WARNING := 1

.PHONY: site serve serve-zh test results check lock clean

site: .venv/site.stamp
	rm -rf site
	$(BIN)/mkdocs build --quiet --strict
	$(BIN)/mkdocs build --quiet --strict --config-file docs/zh.yml
	cp docs/theme/root/index.html site/index.html
	@echo
	@echo "The site is in the folder site. To read it:"
	@echo "  $(PYTHON) -m http.server --directory site 8000    and open http://localhost:8000/"

serve: .venv/site.stamp
	$(BIN)/mkdocs serve

serve-zh: .venv/site.stamp
	$(BIN)/mkdocs serve --config-file docs/zh.yml

test: .venv/test.stamp site
	$(BIN)/python -m pytest

results: .venv/test.stamp
	$(BIN)/codewalk run
	$(MAKE) site

check: .venv/check.stamp
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codewalk check
	$(BIN)/python -m pytest -q tests/test_tree.py

lock:
	uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 \
		--upgrade --no-emit-index-url --no-annotate --no-header --quiet | \
		grep --extended-regexp --invert-match '^(nvidia|cuda)-' > constraints.txt

clean:
	rm -rf .venv site build

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/site.stamp: .venv/bin/python pyproject.toml constraints.txt
	$(INSTALL) --editable '.[site]'
	@touch $@

.venv/test.stamp: .venv/site.stamp
	$(INSTALL) $(KERNELS_INDEX) --editable '.[site,test,kernels]'
	@touch $@

.venv/check.stamp: .venv/test.stamp
	$(INSTALL) --editable '.[site,test,kernels,check]'
	@touch $@
