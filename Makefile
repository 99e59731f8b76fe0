# `make book` builds the book, `make check` tests the library, `make test` the whole; `make help` lists the rest.
# A fresh machine needs Python 3.11 or newer and make; everything else goes into .venv. Where there is
# no make, `python book/tools book` and so on do the same: nothing is done here but to find a Python.

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	2>/dev/null && { echo $$p; exit; }; done; echo python3)
COMMANDS := book check test test-all lab lint install lock serve pdf html notebooks records records-lm \
	bench browser model picture kernel stored weights clean

.DEFAULT_GOAL := help
.PHONY: help $(COMMANDS)
.NOTPARALLEL:

help:  ## list what can be made
	@$(PYTHON) book/tools

$(COMMANDS):
	@$(PYTHON) book/tools $@
